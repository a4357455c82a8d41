/* Random steps, recorded once and taken again and again: as they are, with accidents, and others. Whatever is matched is the
 * operation that it is; buffers that outlive the step are recognised in the next one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "alloc/device.h"
#include "ckpt/run/run.h"
#include "ckpt/run/state.h"
#include "ckpt/run/tracker/internal.h"

enum { MOST_OPERATIONS = 80, MOST_ROLES = 128, OPERANDS = 3, PERSISTENT = 3, PROGRAMS = 200, STEPS = 8 };
enum { LEAVES = PERSISTENT, ENTERS }; /* roles of the buffer that outlives its next allocation */

/* What a buffer is in each step: a buffer of the trace. */
typedef struct role {
    uint32_t born, dies;
    size_t bytes;
} role_t;

typedef struct program {
    uint64_t seed, generations;
    unsigned operations, roles;
    role_t role[MOST_ROLES];
    struct {
        unsigned function, count, operand[OPERANDS];
    } operation[MOST_OPERATIONS];
    ebb_buffer_t *buffer[MOST_ROLES]; /* alive; NULL: not */
    ebb_buffer_t *late;               /* to be freed sometime; NULL: none */
    ebb_recording_t recording;
    bool followed;
} program_t;

typedef struct accidents {
    double extra, missing, late;
} accidents_t;

typedef struct outcome {
    unsigned accidents, matched;
    const char *difference;
} outcome_t;

static uint64_t draw(program_t *p)
{
    p->seed += 0x9e3779b97f4a7c15u;
    uint64_t x = (p->seed ^ p->seed >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

static unsigned below(program_t *p, unsigned n)
{
    return (unsigned)(draw(p) % n);
}

static bool chance(program_t *p, double of)
{
    return (double)(draw(p) >> 11) < of * 9007199254740992.0;
}

/* ---- programs ---- */

static bool is_alive(const role_t *r, unsigned operation)
{
    return (r->born == EBB_NONE || r->born <= operation) && operation < r->dies;
}

static void make_roles(program_t *p)
{
    const unsigned n = p->operations;
    for (unsigned i = 0; i < PERSISTENT; i++)
        p->role[i] = (role_t){EBB_NONE, EBB_NONE, (4u + i) << 20};
    p->role[LEAVES] = (role_t){n / 2, EBB_NONE, 5 << 20};
    p->role[ENTERS] = (role_t){EBB_NONE, n / 4, 5 << 20};
    p->roles = ENTERS + 1;
    for (unsigned i = 0; i < n; i++)
        p->role[p->roles++] = (role_t){i, i + 1 + below(p, n - i), (2u + below(p, 3)) << 20};
}

static void make_operations(program_t *p)
{
    for (unsigned i = 0; i < p->operations; i++) {
        p->operation[i].function = 1 + below(p, 20);
        for (unsigned k = 0; k < 40 && p->operation[i].count < OPERANDS; k++) {
            const unsigned outlives = i < p->operations / 2 ? ENTERS : LEAVES, id = k ? below(p, p->roles)
                                                                                    : i % 3 != 1
                                                                                        ? ENTERS + 1 + i
                                                                                        : outlives;
            if (is_alive(&p->role[id], i))
                p->operation[i].operand[p->operation[i].count++] = id;
        }
    }
}

static ebb_t process;
static ebb_range_t range = {.device = &process.device[0]};

static ebb_buffer_t *allocate(program_t *p, size_t bytes)
{
    ebb_buffer_t *b = calloc(1, sizeof *b);
    assert_non_null(b);
    b->bytes = bytes;
    b->generation = ++p->generations;
    b->range = &range;
    return b;
}

/* The step as it is, by hand. */
static void record(program_t *p)
{
    ebb_recording_t *r = &p->recording;
    r->trace = ebb_trace_new(EBB_CHUNK_BYTES);
    r->function = calloc(p->operations, sizeof *r->function);
    r->generation = calloc(p->roles, sizeof *r->generation);
    r->left = calloc(p->roles, sizeof *r->left);
    assert_true(r->trace && r->function && r->generation && r->left);
    r->stream_count = 1;
    for (unsigned i = 0; i < p->roles; i++) {
        ebb_trace_buffer_t *b = ebb_trace_add_buffer(r->trace);
        b->bytes = p->role[i].bytes;
        b->born = p->role[i].born;
        b->dies = p->role[i].dies;
        b->next = i < PERSISTENT ? i : EBB_NONE;
        if (b->born == EBB_NONE)
            p->buffer[i] = allocate(p, p->role[i].bytes);
        r->generation[i] = p->buffer[i] ? p->buffer[i]->generation : ++p->generations;
        r->left[i] = b->dies == EBB_NONE ? r->generation[i] : 0;
    }
    for (unsigned i = 0; i < p->operations; i++) {
        ebb_trace_operation_t *o = ebb_trace_add_operation(r->trace);
        o->grid[0] = 1 + p->operation[i].function % 3;
        r->function[i] = (CUfunction)(uintptr_t)(p->operation[i].function * 8);
        for (unsigned k = 0; k < p->operation[i].count; k++) {
            ebb_trace_access_t *a = ebb_trace_add_access(r->trace);
            a->buffer = p->operation[i].operand[k];
            a->param_offset = 8 * k;
            a->mode = EBB_UPDATES;
        }
    }
    assert_null(ebb_trace_check(r->trace));
    free(p->buffer[ENTERS]);
    p->buffer[ENTERS] = allocate(p, p->role[LEAVES].bytes); /* what the recorded step has left behind */
    p->buffer[ENTERS]->generation = r->generation[LEAVES];
}

static program_t *make_program(unsigned seed)
{
    program_t *p = calloc(1, sizeof *p);
    assert_non_null(p);
    p->seed = seed;
    p->operations = 20 + below(p, MOST_OPERATIONS - 20);
    make_roles(p);
    make_operations(p);
    record(p);
    return p;
}

static void delete_program(program_t *p)
{
    ebb_match_close(&process);
    for (unsigned i = 0; i < p->roles; i++)
        free(p->buffer[i]);
    free(p->late);
    ebb_trace_delete(p->recording.trace);
    free(p->recording.function);
    free(p->recording.generation);
    free(p->recording.left);
    free(p);
}

/* ---- steps ---- */

static uint32_t issue(unsigned function, ebb_buffer_t *const *buffer, unsigned count, bool *exact)
{
    ebb_access_t access[OPERANDS];
    for (unsigned k = 0; k < count; k++)
        access[k] = (ebb_access_t){.buffer = buffer[k], .param_offset = 8 * k};
    const ebb_operation_t op = {.kind = EBB_KERNEL,
                                .function = (CUfunction)(uintptr_t)(function * 8),
                                .grid = {1 + function % 3},
                                .access = access,
                                .access_count = count};
    ebb_match_operation(&process, &op);
    const ebb_tracked_t seen = *process.run->tracked;
    ebb_match_done(&process, &op, true);
    *exact = seen.match == EBB_MATCH_EXACT;
    return seen.at;
}

static void free_late(program_t *p)
{
    if (p->late)
        ebb_match_freed(&process, p->late);
    free(p->late);
    p->late = NULL;
}

static void change_buffers(program_t *p, unsigned i, const accidents_t *a, outcome_t *out)
{
    for (unsigned id = 0; id < p->roles; id++) {
        if (p->role[id].dies == i && p->buffer[id]) {
            free_late(p);
            p->late = p->buffer[id];
            p->buffer[id] = NULL;
            if (chance(p, a->late))
                out->accidents++;
            else
                free_late(p);
        }
        if (p->role[id].born == i) {
            p->buffer[id] = allocate(p, p->role[id].bytes);
            ebb_match_allocated(&process, p->buffer[id]);
        }
    }
}

static void take_operation(program_t *p, unsigned i, const accidents_t *a, outcome_t *out)
{
    ebb_buffer_t *operand[OPERANDS];
    bool exact;
    if (chance(p, a->extra)) {
        out->accidents++;
        assert_int_equal(issue(99, &p->buffer[below(p, PERSISTENT)], 1, &exact), EBB_NONE);
    }
    if (chance(p, a->missing)) {
        out->accidents++;
        return;
    }
    for (unsigned k = 0; k < p->operation[i].count; k++)
        operand[k] = p->buffer[p->operation[i].operand[k]];
    const uint32_t index = issue(p->operation[i].function, operand, p->operation[i].count, &exact);
    if (index != EBB_NONE && index != i)
        fail_msg("operation %u is taken for %u", i, index);
    out->matched += exact;
    for (unsigned k = 0; exact && k < p->operation[i].count; k++)
        assert_ptr_equal(ebb_match_buffer(&process, p->operation[i].operand[k]), operand[k]);
}

static outcome_t take_step(program_t *p, const accidents_t *a)
{
    outcome_t out = {.accidents = p->late != NULL};
    if (p->followed)
        ebb_match_begin_step(&process);
    else
        assert_true(ebb_match_open(&process, &p->recording));
    p->followed = true;
    for (unsigned i = 0; i <= p->operations; i++) {
        change_buffers(p, i, a, &out);
        if (i < p->operations)
            take_operation(p, i, a, &out);
    }
    out.difference = ebb_match_difference(&process, true);
    if (!out.difference)
        ebb_match_note_next(&process);
    p->buffer[ENTERS] = p->buffer[LEAVES];
    p->buffer[LEAVES] = NULL;
    return out;
}

/* ---- tests ---- */

static void same_step_matches_to_its_end(void **state)
{
    (void)state;
    for (unsigned seed = 1; seed <= PROGRAMS; seed++) {
        program_t *p = make_program(seed);
        for (unsigned n = 0; n < STEPS; n++) {
            const outcome_t out = take_step(p, &(accidents_t){.extra = 0});
            if (out.matched != p->operations || out.difference)
                fail_msg("seed %u, step %u: %u of %u, %s", seed, n, out.matched, p->operations,
                         out.difference ? out.difference : "and that is no difference");
            assert_int_equal(p->recording.trace->buffer[LEAVES].next, ENTERS);
        }
        delete_program(p);
    }
}

static void accidents_hide_no_more_than_what_is_near_them(void **state)
{
    (void)state;
    unsigned accidents = 0, hidden = 0, steps = 0;
    for (unsigned seed = 1; seed <= PROGRAMS; seed++) {
        program_t *p = make_program(seed);
        for (unsigned n = 0; n < STEPS; n++) {
            const outcome_t out =
                take_step(p, &(accidents_t){.extra = 0.005, .missing = 0.005, .late = 0.01});
            accidents += out.accidents;
            hidden += p->operations - out.matched;
            steps += !out.difference;
        }
        delete_program(p);
    }
    print_message("%u accidents: %u operations not recognised; %u of %u steps\n", accidents, hidden, steps,
                  PROGRAMS * STEPS);
    assert_true(accidents && hidden <= 2 * accidents && 100 * steps >= 90 * PROGRAMS * STEPS);
}

static void another_step_is_told_apart(void **state)
{
    (void)state;
    for (unsigned seed = 1; seed <= PROGRAMS; seed++) {
        program_t *p = make_program(seed);
        for (unsigned i = 0; i < p->operations; i += 3)
            p->operation[i].function += 20;
        assert_non_null(take_step(p, &(accidents_t){.extra = 0}).difference);
        delete_program(p);
    }
}

/* A persistent buffer that was allocated anew is not the one that was recorded. */
static void persistent_buffer_stays_the_same(void **state)
{
    (void)state;
    program_t *p = make_program(1);
    ebb_trace_t *t = p->recording.trace;
    for (uint32_t k = 0; k < t->access_count; k++)
        t->access[k].buffer = 0;
    for (unsigned i = 0; i < p->operations; i++)
        for (unsigned k = 0; k < OPERANDS; k++)
            p->operation[i].operand[k] = 0;
    assert_null(take_step(p, &(accidents_t){.extra = 0}).difference);
    p->buffer[0]->generation = ++p->generations;
    assert_non_null(take_step(p, &(accidents_t){.extra = 0}).difference);
    delete_program(p);
}

/* The trace says the most that a small buffer needs. */
static void small_buffer_may_vary_in_size(void **state)
{
    (void)state;
    for (unsigned seed = 1; seed <= 20; seed++) {
        program_t *p = make_program(seed);
        const unsigned id = p->operation[0].operand[0]; /* born for it */
        p->recording.trace->buffer[id].bytes = 8000;
        for (unsigned bytes = 7000; bytes <= 9000; bytes += 1000) {
            p->role[id].bytes = bytes;
            const outcome_t out = take_step(p, &(accidents_t){.extra = 0});
            assert_null(out.difference);
            assert_int_equal(out.matched, p->operations);
            assert_int_equal(p->recording.trace->buffer[id].bytes, bytes > 8000 ? bytes : 8000);
        }
        delete_program(p);
    }
}

/* What should have been freed enters the next step once, in place of what outlives it. */
static void buffer_that_outlives_its_step_once_leaves_a_good_trace(void **state)
{
    (void)state;
    program_t *p = make_program(1);
    const unsigned id = p->operation[0].operand[0];
    const uint32_t dies = p->role[id].dies;
    p->role[id].bytes = p->recording.trace->buffer[id].bytes = p->role[ENTERS].bytes;
    assert_null(take_step(p, &(accidents_t){.extra = 0}).difference);
    p->role[id].dies = EBB_NONE;
    assert_null(take_step(p, &(accidents_t){.extra = 0}).difference);
    ebb_match_freed(&process, p->buffer[ENTERS]);
    free(p->buffer[ENTERS]);
    p->buffer[ENTERS] = p->buffer[id];
    p->buffer[id] = NULL;
    p->role[id].dies = dies;
    assert_null(take_step(p, &(accidents_t){.extra = 0}).difference);
    assert_int_equal(p->recording.trace->buffer[id].next, EBB_NONE);
    assert_null(ebb_trace_check(p->recording.trace));
    delete_program(p);
}

int main(void)
{
    ebb_open(&process);
    ebb_run_open(&process);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(same_step_matches_to_its_end),
        cmocka_unit_test(accidents_hide_no_more_than_what_is_near_them),
        cmocka_unit_test(another_step_is_told_apart),
        cmocka_unit_test(persistent_buffer_stays_the_same),
        cmocka_unit_test(small_buffer_may_vary_in_size),
        cmocka_unit_test(buffer_that_outlives_its_step_once_leaves_a_good_trace),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
