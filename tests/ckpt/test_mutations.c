/* test_mutations.c: good plans with one action dropped, doubled or moved: the checker must refuse them, unless what is left is
 * still right, which the oracle (plan_oracle.h) tells by executing it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "checker.h"
#include "plan_oracle.h"
#include "planner.h"
#include "traces.h"

enum { KINDS = EBB_REPLAY + 1 };
typedef enum mutation { DROPPED, DOUBLED, EARLIER, LATER } mutation_t;
enum { MUTATIONS = LATER + 1 };
static const char *const mutation_word[] = {"dropped", "doubled", "earlier", "later"};
static const ebb_check_limits_t plenty = {UINT64_C(1) << 50, UINT64_C(1) << 50};

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
        new[i] = EBB_TRACE_NEVER;
    for (uint32_t i = count; i-- > 0;)
        new[source[i].old] = i;
    for (uint32_t i = 0; i < count; i++) {
        const ebb_action_t *old = &p->action[source[i].old];
        ebb_action_t *a = ebb_plan_add_action(q, old->kind, source[i].point);
        a->place = old->place;
        a->operation = old->operation;
        a->join = old->join;
        for (uint32_t k = old->first_wait; k < old->first_wait + old->wait_count; k++)
            if (new[p->wait[k]] != EBB_TRACE_NEVER)
                assert_true(ebb_plan_add_wait(q, a, new[p->wait[k]]));
        for (uint32_t k = old->first_redirect; k < old->first_redirect + old->redirect_count; k++)
            assert_true(ebb_plan_add_redirect(q, a, p->redirect[k].buffer, p->redirect[k].place));
    }
    free(new);
    return q;
}

/* NULL: it cannot be moved so. */
static ebb_plan_t *mutate(const ebb_trace_t *t, const ebb_plan_t *p, uint32_t which, mutation_t mutation,
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

static bool executes(const ebb_trace_t *t, const ebb_plan_t *p, char *what, size_t bytes)
{
    for (unsigned seed = 1; seed <= 6; seed++)
        if (!oracle_run(t, p, seed, what, bytes))
            return false;
    return oracle_leave(t, p, what, bytes);
}

typedef struct tally {
    uint32_t refused[KINDS][MUTATIONS], harmless[KINDS][MUTATIONS];
} tally_t;

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
    if (!executes(t, p, what, sizeof what))
        fail_msg("%s: executes wrong: %s", policy, what);
    for (uint32_t i = 0; i < p->action_count; i++)
        for (uint32_t m = 0; m < MUTATIONS; m++) {
            ebb_plan_t *q = mutate(t, p, i, (mutation_t)m, 1 + i % 3);
            if (!q)
                continue;
            const ebb_action_kind_t kind = p->action[i].kind;
            const bool good = ebb_check_plan(t, q, &plenty, why, sizeof why);
            if (good && !executes(t, q, what, sizeof what))
                fail_msg("%s, action %" PRIu32 " (%s) %s: accepted, and executes wrong: %s", policy, i,
                         ebb_action_word[kind], mutation_word[m], what);
            tally->refused[kind][m] += !good;
            tally->harmless[kind][m] += good;
            ebb_plan_delete(q);
        }
    ebb_plan_delete(p);
}

static void mutated_plan_is_refused_or_still_right(void **state)
{
    (void)state;
    static const char *const policies[] = {"auto", "offload", "sqrt", "revolve:2"};
    tally_t tally = {0};
    const trace_shape_t shape = {
        .layers = 3, .width_chunks = 1, .weight_chunks = 1, .micro_batches = 1, .kernel_ns = 9000};
    for (uint32_t seed = 0; seed <= 100; seed++) {
        ebb_trace_t *t = seed == 0   ? trace_of_transformer(&shape)
                         : seed == 1 ? trace_of_chain(9, 1)
                                     : trace_by_chance(seed, 40);
        const ebb_plan_request_t keep = {
            .host_bytes = plenty.host_bytes, .hardware = {1, 1, 0}, .policy = "keep"};
        const uint64_t peak = ebb_plan_floor(t, &keep);
        assert_true(peak > 0);
        for (size_t i = 0; i < sizeof policies / sizeof policies[0]; i++)
            mutate_all(&tally, t, policies[i], i ? peak : peak * 6 / 10, seed % 2);
        ebb_trace_delete(t);
    }
    for (int k = 0; k < KINDS; k++)
        for (int m = 0; m < MUTATIONS; m++) {
            print_message("%-8s %-8s %5" PRIu32 " refused %5" PRIu32 " still right\n", ebb_action_word[k],
                          mutation_word[m], tally.refused[k][m], tally.harmless[k][m]);
            assert_true(m != DROPPED || tally.refused[k][m] > 15);
        }
    /* Without its replay something is missing; what is given up twice was not there. A copy may turn out not to have been needed,
     * where nobody took the chunks. */
    assert_int_equal(tally.harmless[EBB_REPLAY][DROPPED], 0);
    assert_int_equal(tally.harmless[EBB_DISCARD][DOUBLED], 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(mutated_plan_is_refused_or_still_right),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
