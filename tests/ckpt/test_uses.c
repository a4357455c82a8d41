/* What a trace says of next uses, and the order in which victims leave, against naive models. The seed is printed; TEST_SEED
 * sets it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "alloc/base/options.h"
#include "alloc/device.h"
#include "ckpt/run/replay/replay.h"
#include "ckpt/run/residence/internal.h"
#include "ckpt/run/state.h"
#include "ckpt/run/tracker/tracker.h"
#include "ckpt/trace/trace.h"

static struct ebb_leaving leaving; /* none are */
static struct ebb_run parts = {.leaving = &leaving};
static ebb_t process = {.device[0].run = &parts};
static ebb_device_t *const device0 = &process.device[0];

enum { ROUNDS = 300, MOST_BUFFERS = 24, MOST_OPERATIONS = 60 };

static unsigned below(unsigned n)
{
    return (unsigned)rand() % n;
}

/* ---- random traces ---- */

static ebb_trace_t *make_trace(void)
{
    ebb_trace_t *t = ebb_trace_new(EBB_CHUNK_BYTES);
    const uint32_t buffers = 1 + below(MOST_BUFFERS), operations = 1 + below(MOST_OPERATIONS);
    for (uint32_t i = 0; i < buffers; i++) {
        ebb_trace_buffer_t *b = ebb_trace_add_buffer(t);
        b->bytes = (1 + below(4)) * EBB_CHUNK_BYTES;
        b->born = b->dies = EBB_NONE;
        if (below(2)) {
            b->born = below(operations);
            b->dies = b->born + 1 + below(operations - b->born);
        }
    }
    for (uint32_t i = 0; i + 1 < buffers; i += 2)
        if (!below(4)) { /* the first one outlives the step, and is what the second one was */
            t->buffer[i].born = below(operations);
            t->buffer[i].dies = t->buffer[i + 1].born = EBB_NONE;
            t->buffer[i].next = i + 1;
            t->buffer[i + 1].dies = 1 + below(operations);
        }
    for (uint32_t o = 0; o < operations; o++) {
        ebb_trace_add_operation(t)->duration_ns = 1000 + below(100000);
        for (unsigned k = below(5); k--;) {
            const uint32_t b = below(buffers);
            if ((t->buffer[b].born != EBB_NONE && t->buffer[b].born > o) || t->buffer[b].dies <= o)
                continue;
            ebb_trace_access_t *a = ebb_trace_add_access(t);
            a->buffer = b;
            a->mode = (ebb_mode_t)(1 + below(3));
        }
    }
    return t;
}

static bool touches(const ebb_trace_t *t, uint32_t operation, uint32_t buffer)
{
    const ebb_trace_operation_t *o = &t->operation[operation];
    for (uint32_t k = o->first_access; k < o->first_access + o->access_count; k++)
        if (t->access[k].buffer == buffer)
            return true;
    return false;
}

static uint32_t naive_next(const ebb_trace_t *t, uint32_t buffer, uint32_t at)
{
    const uint32_t n = t->operation_count;
    const ebb_trace_buffer_t *b = &t->buffer[buffer];
    for (uint32_t o = at; o < n && o < b->dies; o++)
        if (touches(t, o, buffer))
            return o;
    if (b->dies != EBB_NONE)
        return b->dies > at ? b->dies : at;
    const uint32_t next = b->born == EBB_NONE ? buffer : b->next;
    for (uint32_t o = 0; next != EBB_NONE && o < n; o++)
        if (o + 1 == t->buffer[next].dies || touches(t, o, next))
            return touches(t, o, next) ? n + o : n + o + 1;
    return EBB_NONE;
}

/* The large ones that die are listed, each once and where it dies; what is born, by chunks. */
static void deaths_and_births_are_those_of_the_trace(void **state)
{
    (void)state;
    for (int round = 0; round < ROUNDS; round++) {
        ebb_trace_t *t = make_trace();
        ebb_uses_t u;
        for (uint32_t b = 0; b < t->buffer_count; b++)
            t->buffer[b].bytes = below(3) ? t->buffer[b].bytes - below(1000) : 1 + below(EBB_SMALL_BYTES);
        assert_true(ebb_uses_make(&u, t));
        for (uint32_t at = 0; at <= t->operation_count; at++) {
            uint32_t dying = 0, i = u.first_death[at];
            uint64_t born = 0;
            for (uint32_t b = 0; b < t->buffer_count; b++) {
                const bool large = t->buffer[b].bytes > EBB_SMALL_BYTES;
                assert_int_equal(ebb_uses_chunks(&t->buffer[b]),
                                 large ? (t->buffer[b].bytes - 1) / EBB_CHUNK_BYTES + 1 : 0);
                born += t->buffer[b].born == at ? ebb_uses_chunks(&t->buffer[b]) : 0;
                if (!large || t->buffer[b].dies != at)
                    continue;
                dying++;
                assert_true(i < u.first_death[at + 1]);
                assert_int_equal(u.death[i++], b);
            }
            assert_int_equal(dying, u.first_death[at + 1] - u.first_death[at]);
            assert_int_equal(u.born[at], born);
        }
        ebb_uses_free(&u);
        ebb_trace_delete(t);
    }
}

static void next_uses_agree_with_looking_for_them(void **state)
{
    (void)state;
    for (int round = 0; round < ROUNDS; round++) {
        ebb_trace_t *t = make_trace();
        ebb_uses_t u;
        assert_true(ebb_uses_make(&u, t));
        for (uint32_t at = 0; at <= t->operation_count; at++)
            for (uint32_t b = 0; b < t->buffer_count; b++)
                assert_int_equal(ebb_uses_next(&u, b, at), naive_next(t, b, at));
        uint64_t ns = 0;
        const uint32_t from = below(t->operation_count), n = t->operation_count;
        for (uint32_t to = from; to < from + n; ns += t->operation[to++ % n].duration_ns)
            assert_int_equal(ebb_uses_ns(&u, from, to), ns);
        ebb_uses_free(&u);
        ebb_trace_delete(t);
    }
}

/* ---- victims: what victims.c asks for, made here ---- */

static struct {
    ebb_trace_t *trace;
    ebb_uses_t uses;
    uint32_t cursor;
    ebb_buffer_t buffer[MOST_BUFFERS];
    ebb_range_t *range[MOST_BUFFERS];
    ebb_residence_t residence[MOST_BUFFERS];
    uint64_t replay_ns[MOST_BUFFERS]; /* 0: it cannot be made again */
    bool stays[MOST_BUFFERS];
    bool unknown; /* the step */
} scene;

ebb_buffer_t *ebb_buffer_oldest(ebb_device_t *dev)
{
    (void)dev;
    return scene.trace->buffer_count ? &scene.buffer[0] : NULL;
}

bool ebb_may_evict(const ebb_buffer_t *b)
{
    return !scene.stays[b - scene.buffer];
}

bool ebb_mark_reached(ebb_mark_t mark)
{
    return mark.number == 0;
}

ebb_link_t ebb_link(ebb_device_t *dev)
{
    (void)dev;
    return (ebb_link_t){.out = 10, .in = 10, .out_both = 10, .in_both = 10};
}

ebb_next_use_t ebb_tracker_next_use(const ebb_buffer_t *b)
{
    const uint32_t id = (uint32_t)(b - scene.buffer), next = naive_next(scene.trace, id, scene.cursor);
    const uint32_t to = next == EBB_NONE ? 4 * scene.trace->operation_count : next;
    return (ebb_next_use_t){
        .known = true, .ahead = to - scene.cursor, .ns = ebb_uses_ns(&scene.uses, scene.cursor, to)};
}

bool ebb_recipe_can_rebuild(const ebb_buffer_t *b, uint64_t *cost_ns)
{
    *cost_ns = scene.replay_ns[b - scene.buffer];
    return *cost_ns != 0;
}

bool ebb_tracker_known(ebb_device_t *dev)
{
    (void)dev;
    return !scene.unknown;
}

static void set_scene(bool same_size)
{
    scene.trace = make_trace();
    assert_true(ebb_uses_make(&scene.uses, scene.trace));
    scene.cursor = below(scene.trace->operation_count);
    for (uint32_t i = 0; i < scene.trace->buffer_count; i++) {
        const size_t bytes = same_size ? EBB_CHUNK_BYTES : scene.trace->buffer[i].bytes;
        scene.range[i] = calloc(1, sizeof *scene.range[i]);
        *scene.range[i] = (ebb_range_t){.chunk_count = (uint32_t)(bytes / EBB_CHUNK_BYTES), .mapped = true};
        scene.residence[i] = (ebb_residence_t){.wanted = below(8) == 0};
        scene.buffer[i] =
            (ebb_buffer_t){.range = scene.range[i],
                           .bytes = bytes,
                           .residence = &scene.residence[i],
                           .newer = i + 1 < scene.trace->buffer_count ? &scene.buffer[i + 1] : NULL};
        scene.replay_ns[i] = below(2) ? 1 + below(2000000) : 0;
        scene.stays[i] = below(6) == 0;
    }
}

static void clear_scene(void)
{
    for (uint32_t i = 0; i < scene.trace->buffer_count; i++)
        free(scene.range[i]);
    ebb_uses_free(&scene.uses);
    ebb_trace_delete(scene.trace);
}

/* Copies only, buffers of one size: Belady's order. */
static void with_copies_alone_the_farthest_next_use_leaves_first(void **state)
{
    (void)state;
    ebb_options.offload = true;
    ebb_options.recompute = false;
    ebb_options.offload_min_gap = ebb_options.recompute_max_cost = 0;
    for (int round = 0; round < ROUNDS; round++) {
        set_scene(true);
        ebb_victims_t v;
        const size_t wanted = 1 + below(scene.trace->buffer_count);
        if (ebb_victims_choose(device0, &v, wanted)) {
            uint64_t nearest = UINT64_MAX;
            for (size_t i = 0; i < v.count; i++) {
                const uint64_t ns = ebb_tracker_next_use(v.list[i].buffer).ns;
                assert_true(ns <= nearest && !v.list[i].drop);
                nearest = ns;
            }
            for (uint32_t i = 0; i < scene.trace->buffer_count; i++) {
                bool listed = false;
                for (size_t k = 0; k < v.count; k++)
                    listed |= v.list[k].buffer == &scene.buffer[i];
                assert_true(listed ? !scene.stays[i]
                                   : scene.stays[i] || ebb_tracker_next_use(&scene.buffer[i]).ns <= nearest);
            }
            ebb_victims_free(&v);
        }
        clear_scene();
    }
}

static double copies_ns(const ebb_buffer_t *b)
{
    return (double)b->bytes / 10 + (double)b->bytes / 10;
}

/* Whether anything allows it to be dropped, and it pays. */
static bool should_drop(const ebb_buffer_t *b, bool *nothing_else)
{
    const size_t i = (size_t)(b - scene.buffer);
    const double ns = (double)ebb_tracker_next_use(b).ns, replay = (double)scene.replay_ns[i],
                 copies = copies_ns(b);
    const bool offload = ebb_options.offload && ns >= (double)ebb_options.offload_min_gap * 1000;
    const double shown = copies - ns / 2 > copies / 2 ? copies - ns / 2 : copies / 2;
    const bool allowed =
        ebb_options.recompute && replay > 0 && !scene.residence[i].wanted &&
        (!ebb_options.recompute_max_cost || replay <= copies * (double)ebb_options.recompute_max_cost / 100);
    *nothing_else = !offload && !allowed;
    return allowed && (!offload || replay < shown);
}

/* All options. What no option allows comes behind all others, as copies, and not at all ahead of need. */
static void the_cheaper_way_out_is_taken_that_the_options_allow(void **state)
{
    (void)state;
    unsigned dropped = 0, copied = 0, forced = 0;
    for (int round = 0; round < ROUNDS; round++) {
        ebb_options.offload = below(4) != 0;
        ebb_options.recompute = below(4) != 0;
        ebb_options.offload_min_gap = below(2) ? below(500) : 0;
        ebb_options.recompute_max_cost = below(2) ? below(100) : 0;
        set_scene(false);
        ebb_victims_t v;
        bool late = false, nothing_else;
        if (ebb_victims_choose(device0, &v, SIZE_MAX)) {
            for (size_t i = 0; i < v.count; i++) {
                assert_int_equal(v.list[i].drop, should_drop(v.list[i].buffer, &nothing_else));
                assert_true(!late || nothing_else);
                late |= nothing_else;
                dropped += v.list[i].drop;
                copied += !v.list[i].drop && !nothing_else;
                forced += nothing_else;
            }
            ebb_victims_free(&v);
        }
        const uint32_t beyond = below(20);
        if (ebb_victims_choose_ahead(device0, &v, SIZE_MAX, beyond)) {
            for (size_t i = 0; i < v.count; i++) {
                assert_int_equal(v.list[i].drop, should_drop(v.list[i].buffer, &nothing_else));
                assert_true(!nothing_else && ebb_tracker_next_use(v.list[i].buffer).ahead >= beyond);
            }
            ebb_victims_free(&v);
        }
        clear_scene();
    }
    print_message("%u dropped, %u copied, %u because nothing else was allowed\n", dropped, copied, forced);
    assert_true(dropped && copied && forced);
}

/* Those that queued work still needs (above: the mark that is not reached) behind all others. */
static void without_a_known_step_the_least_recently_used_leaves_first(void **state)
{
    (void)state;
    unsigned idle = 0, busy = 0;
    scene.unknown = true;
    for (int round = 0; round < ROUNDS; round++) {
        set_scene(false);
        for (uint32_t i = 0; i < scene.trace->buffer_count; i++) {
            scene.buffer[i].used_at = below(1000);
            scene.buffer[i].use_count = 1;
            scene.buffer[i].use[0].number = below(2);
        }
        ebb_victims_t v;
        size_t may = 0;
        for (uint32_t i = 0; i < scene.trace->buffer_count; i++)
            may += !scene.stays[i];
        const bool any = ebb_victims_choose(device0, &v, SIZE_MAX);
        assert_int_equal(any ? v.count : 0, may);
        for (size_t i = 0; i < v.count; i++) {
            const ebb_buffer_t *b = v.list[i].buffer, *before = i ? v.list[i - 1].buffer : b;
            assert_false(scene.stays[b - scene.buffer] || v.list[i].drop);
            assert_true(before->use[0].number < b->use[0].number ||
                        (before->use[0].number == b->use[0].number && before->used_at <= b->used_at));
            *(b->use[0].number ? &busy : &idle) += 1;
        }
        ebb_victims_free(&v);
        assert_false(ebb_victims_choose_ahead(device0, &v, SIZE_MAX, 0));
        clear_scene();
    }
    scene.unknown = false;
    assert_true(idle && busy);
}

int main(void)
{
    const char *given = getenv("TEST_SEED");
    const unsigned seed = given ? (unsigned)strtoul(given, NULL, 10) : (unsigned)time(NULL);
    print_message("TEST_SEED=%u\n", seed);
    srand(seed);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(deaths_and_births_are_those_of_the_trace),
        cmocka_unit_test(next_uses_agree_with_looking_for_them),
        cmocka_unit_test(with_copies_alone_the_farthest_next_use_leaves_first),
        cmocka_unit_test(the_cheaper_way_out_is_taken_that_the_options_allow),
        cmocka_unit_test(without_a_known_step_the_least_recently_used_leaves_first),
    };
    return cmocka_run_group_tests_name("uses", tests, NULL, NULL);
}
