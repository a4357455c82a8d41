/* test_mutations.c: good plans with one action dropped, doubled or moved, or ordered behind one stream less or on another one: the
 * checker must refuse them, unless what is left is still right, which the oracle (plan_oracle.h) tells by executing it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ckpt/checker/checker.h"
#include "ckpt/planner/planner.h"
#include "plan_oracle.h"
#include "trace_streams.h"
#include "traces.h"

/* The last three where there are several streams: behind one of those in `after` less, waited for by one of `joiners` less, on
 * another stream. */
typedef enum mutation { DROPPED, DOUBLED, EARLIER, LATER, HASTY, UNAWAITED, ELSEWHERE } mutation_t;
enum { MUTATIONS = ELSEWHERE + 1 };
static const char *const mutation_word[MUTATIONS] = {"dropped", "doubled",   "earlier",  "later",
                                                     "hasty",   "unawaited", "elsewhere"};
static const ebb_check_limits_t plenty = {UINT64_C(1) << 50, UINT64_C(1) << 50, 0};

/* What the new plan's action i is in the old one, and where it stands. */
typedef struct source {
    uint32_t old, point;
} source_t;

static void copy_places(ebb_plan_t *to, const ebb_plan_t *from)
{
    to->chunk_count = from->chunk_count;
    to->small_bytes = from->small_bytes;
    for (uint32_t i = 0; i < from->place_count; i++) {
        ebb_place_t *place = i < to->place_count ? &to->place[i] : ebb_plan_add_place(to);
        const uint32_t first = place->first_chunk;
        *place = from->place[i];
        place->first_chunk = first;
        place->chunk_count = 0;
        for (uint32_t k = 0; k < from->place[i].chunk_count; k++)
            assert_true(ebb_plan_add_chunk(to, &to->place[i], from->chunk[from->place[i].first_chunk + k]));
    }
}

/* Waits on an action that is gone are gone, waits on one that is doubled are on the first. */
static ebb_plan_t *compose(const ebb_trace_t *t, const ebb_plan_t *p, const source_t *source, uint32_t count)
{
    ebb_plan_t *q = ebb_plan_new(t);
    uint32_t *new = malloc((p->action_count + (size_t)1) * sizeof *new);
    assert_true(q && new);
    copy_places(q, p);
    for (uint32_t i = 0; i < p->action_count; i++)
        new[i] = EBB_NONE;
    for (uint32_t i = count; i-- > 0;)
        new[source[i].old] = i;
    for (uint32_t i = 0; i < count; i++) {
        const ebb_action_t *old = &p->action[source[i].old];
        ebb_action_t *a = ebb_plan_add_action(q, old->kind, source[i].point);
        a->place = old->place;
        a->operation = old->operation;
        a->join = old->join;
        a->stream = old->stream;
        a->after = old->after;
        a->joiners = old->joiners;
        for (uint32_t k = old->first_wait; k < old->first_wait + old->wait_count; k++)
            if (new[p->wait[k]] != EBB_NONE)
                assert_true(ebb_plan_add_wait(q, a, new[p->wait[k]]));
        for (uint32_t k = old->first_redirect; k < old->first_redirect + old->redirect_count; k++)
            assert_true(ebb_plan_add_redirect(q, a, p->redirect[k].buffer, p->redirect[k].place));
    }
    free(new);
    return q;
}

/* NULL: it cannot be moved so. */
static ebb_plan_t *move(const ebb_trace_t *t, const ebb_plan_t *p, uint32_t which, mutation_t mutation,
                        uint32_t by)
{
    const uint32_t point = p->action[which].point;
    if ((mutation == EARLIER && point < by) || (mutation == LATER && point + by > p->operation_count))
        return NULL;
    const uint32_t target = mutation == EARLIER ? point - by : mutation == LATER ? point + by : point;
    source_t *source = malloc((p->action_count + (size_t)1) * sizeof *source);
    uint32_t count = 0;
    bool placed = mutation == DROPPED;
    for (uint32_t i = 0; i <= p->action_count; i++) {
        if (!placed &&
            (i == p->action_count || p->action[i].point > target || (mutation == DOUBLED && i == which))) {
            source[count++] = (source_t){which, target};
            placed = true;
        }
        if (i < p->action_count && (i != which || mutation == DOUBLED))
            source[count++] = (source_t){i, p->action[i].point};
    }
    ebb_plan_t *q = compose(t, p, source, count);
    free(source);
    return q;
}

/* The by-th of the bits, counted round. */
static uint32_t one_of(uint32_t bits, uint32_t by)
{
    for (uint32_t count = by % (uint32_t)__builtin_popcount(bits); count; count--)
        bits &= bits - 1;
    return bits & (~bits + 1);
}

/* NULL: there is nothing of the kind in it. */
static ebb_plan_t *reorder(const ebb_trace_t *t, const ebb_plan_t *p, uint32_t which, mutation_t mutation,
                           uint32_t by)
{
    const uint32_t streams = ebb_plan_streams(t);
    const ebb_action_t *old = &p->action[which];
    const uint32_t bits = mutation == HASTY ? old->after : mutation == UNAWAITED ? old->joiners : 1;
    const bool launches = old->kind == EBB_REPLAY || old->kind == EBB_ORDER;
    if (streams == 1 || !bits || (mutation == ELSEWHERE && !launches))
        return NULL;
    source_t *source = malloc((p->action_count + (size_t)1) * sizeof *source);
    for (uint32_t i = 0; i < p->action_count; i++)
        source[i] = (source_t){i, p->action[i].point};
    ebb_plan_t *q = compose(t, p, source, p->action_count);
    ebb_action_t *a = &q->action[which];
    if (mutation == HASTY)
        a->after &= ~one_of(bits, by);
    else if (mutation == UNAWAITED)
        a->joiners &= ~one_of(bits, by);
    else
        a->stream = (a->stream + 1 + by % (streams - 1)) % streams;
    free(source);
    return q;
}

typedef struct tally {
    uint32_t refused[EBB_ACTION_KINDS][MUTATIONS], harmless[EBB_ACTION_KINDS][MUTATIONS];
    uint32_t confirmed[EBB_ACTION_KINDS][MUTATIONS]; /* of those that are refused: seen to go wrong */
} tally_t;

static void mutate(tally_t *tally, const ebb_trace_t *t, const ebb_plan_t *p, uint32_t which,
                   mutation_t mutation)
{
    char why[400], what[400];
    ebb_plan_t *q =
        mutation < HASTY ? move(t, p, which, mutation, 1 + which % 3) : reorder(t, p, which, mutation, which);
    if (!q)
        return;
    const ebb_action_kind_t kind = p->action[which].kind;
    const bool good = ebb_check_plan(t, q, &plenty, why, sizeof why);
    const bool right = oracle_executes(t, q, which, 6, what, sizeof what);
    if (good && !right)
        fail_msg("action %" PRIu32 " (%s) %s: accepted, and executes wrong: %s", which, ebb_action_word[kind],
                 mutation_word[mutation], what);
    tally->refused[kind][mutation] += !good;
    tally->harmless[kind][mutation] += good;
    tally->confirmed[kind][mutation] += !good && !right;
    ebb_plan_delete(q);
}

static void mutate_all(tally_t *tally, const ebb_trace_t *t, const char *policy, uint64_t device_bytes,
                       bool offload)
{
    char why[400], what[400];
    const ebb_plan_request_t r = {.policy = policy,
                                  .device_bytes = device_bytes,
                                  .host_bytes = plenty.host_bytes,
                                  .min_buffer = 1 << 20,
                                  .offload = offload,
                                  .recompute = true,
                                  .hardware = {.out_bytes_per_ns = 50, .in_bytes_per_ns = 50}};
    ebb_plan_t *p = ebb_plan_make(t, &r, why, sizeof why);
    if (!p)
        return;
    if (!oracle_executes(t, p, 1, 6, what, sizeof what))
        fail_msg("%s: executes wrong: %s", policy, what);
    for (uint32_t i = 0; i < p->action_count; i++)
        for (uint32_t m = 0; m < MUTATIONS; m++)
            mutate(tally, t, p, i, (mutation_t)m);
    ebb_plan_delete(p);
}

static void show(const tally_t *tally)
{
    for (int k = 0; k < EBB_ACTION_KINDS; k++)
        for (int m = 0; m < MUTATIONS; m++)
            if (tally->refused[k][m] + tally->harmless[k][m])
                print_message("%-8s %-9s %5" PRIu32 " refused, %5" PRIu32
                              " of them seen to go wrong, %5" PRIu32 " still right\n",
                              ebb_action_word[k], mutation_word[m], tally->refused[k][m],
                              tally->confirmed[k][m], tally->harmless[k][m]);
}

/* Plans of steps that are drawn, on so many streams at most. */
static tally_t mutate_steps(uint32_t most_streams, uint32_t last_seed)
{
    static const char *const policies[] = {"auto", "offload", "sqrt", "revolve:2"};
    tally_t tally = {0};
    const trace_shape_t shape = {
        .layers = 3, .width_chunks = 1, .weight_chunks = 1, .micro_batches = 1, .kernel_ns = 9000};
    for (uint32_t seed = 0; seed <= last_seed; seed++) {
        ebb_trace_t *t = seed == 0   ? trace_of_transformer(&shape)
                         : seed == 1 ? trace_of_chain(9, 1)
                                     : trace_by_chance(seed, 40);
        srand(seed);
        if (most_streams > 1)
            trace_put_on_streams(t, 2 + seed % (most_streams - 1));
        const ebb_plan_request_t keep = {
            .host_bytes = plenty.host_bytes, .hardware = {1, 1, 0}, .policy = "keep"};
        const uint64_t peak = ebb_plan_floor(t, &keep);
        assert_true(peak > 0);
        for (size_t i = 0; i < sizeof policies / sizeof policies[0]; i++)
            mutate_all(&tally, t, policies[i], i ? peak : peak * 6 / 10, seed % (most_streams > 1 ? 4 : 2));
        ebb_trace_delete(t);
    }
    show(&tally);
    for (int k = 0; k < EBB_ACTION_KINDS; k++)
        assert_true((k == EBB_ORDER && most_streams == 1) || tally.refused[k][DROPPED] > 15);
    /* Without its replay something is missing; what is given up twice was not there. A copy may turn out not to have been needed,
     * where nobody took the chunks. */
    assert_int_equal(tally.harmless[EBB_REPLAY][DROPPED], 0);
    assert_int_equal(tally.harmless[EBB_DISCARD][DOUBLED], 0);
    return tally;
}

static void mutated_plan_is_refused_or_still_right(void **state)
{
    (void)state;
    mutate_steps(1, 100);
}

static void mutated_plan_of_several_streams_is_refused_or_still_right(void **state)
{
    (void)state;
    const tally_t tally = mutate_steps(4, 140);
    for (int k = 0; k < EBB_ACTION_KINDS; k++) {
        if (k == EBB_DISCARD) /* it executes nothing */
            continue;
        const bool copies = k == EBB_EVICT || k == EBB_FETCH;
        assert_true(tally.refused[k][HASTY] > 15);
        assert_true(tally.refused[k][copies ? UNAWAITED : ELSEWHERE] > 15);
    }
    assert_int_equal(tally.refused[EBB_ORDER][DOUBLED], 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(mutated_plan_is_refused_or_still_right),
        cmocka_unit_test(mutated_plan_of_several_streams_is_refused_or_still_right),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
