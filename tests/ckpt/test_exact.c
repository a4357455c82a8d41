/* test_exact.c: plans and the bound beside the best that is possible (plan_exact.h), on chains of stages by chance. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <inttypes.h>
#include <stdlib.h>

#include "ckpt/planner/planner.h"
#include "plan_dtr.h"
#include "plan_exact.h"
#include "program.h"
#include "trace_streams.h"
#include "traces.h"

typedef struct sums {
    uint32_t possible, found, far; /* far: more than 5% above the best */
    double over, worst;            /* of the step, as a part of the shortest */
    uint32_t dtr_found,
        dtr_shorter; /* budgets with which greedy eviction ends; with which its step is shorter than the plan's */
    double dtr_over;
} sums_t;

/* False: everything can be kept. */
static bool compare(const ebb_trace_t *t, uint32_t chunks, sums_t *sums)
{
    char why[400] = "";
    const ebb_plan_request_t r = {
        .device_bytes = chunks * t->chunk_bytes, .host_bytes = UINT64_C(1) << 50, .recompute = true};
    uint64_t kept = 0;
    for (uint32_t i = 0; i < t->operation_count; i++)
        kept += t->operation[i].duration_ns;
    const uint64_t best = plan_exact_ns(t, chunks), bound = ebb_plan_bound_ns(t, &r);
    ebb_plan_t *p = ebb_plan_make(t, &r, why, sizeof why);
    if (best < bound)
        fail_msg("%" PRIu32 " chunks: the bound is %" PRIu64 ", %" PRIu64 " is possible", chunks, bound,
                 best);
    if (p && p->predicted_ns < best)
        fail_msg("%" PRIu32 " chunks: a plan of %" PRIu64 ", at best %" PRIu64 " is possible", chunks,
                 p->predicted_ns, best);
    const uint64_t dtr = plan_dtr_ns(t, chunks);
    if (dtr < best)
        fail_msg("%" PRIu32 " chunks: greedy eviction makes it %" PRIu64 ", at best %" PRIu64 " is possible",
                 chunks, dtr, best);
    sums->dtr_found += dtr != UINT64_MAX;
    sums->dtr_shorter += p ? (double)dtr < 0.999 * (double)p->predicted_ns : dtr != UINT64_MAX;
    sums->dtr_over += dtr != UINT64_MAX ? (double)dtr / (double)best - 1 : 0;
    sums->possible += best != UINT64_MAX;
    sums->found += p != NULL;
    const double over = p ? (double)p->predicted_ns / (double)best - 1 : 0;
    sums->over += over;
    sums->worst = over > sums->worst ? over : sums->worst;
    if (over > 0.05)
        print_message("%" PRIu32 " chunks: a plan of %" PRIu64 ", at best %" PRIu64 " is possible\n", chunks,
                      p->predicted_ns, best);
    sums->far += over > 0.05;
    ebb_plan_delete(p);
    return best > kept;
}

/* Places that share chunks must fit together for that: a plan within what is resident at once is possible, or nearly. */
static void nearly_all_possible_budgets_have_a_good_plan(void **state)
{
    (void)state;
    const uint32_t cases = test_cases(24, 200);
    sums_t sums = {0};
    for (uint32_t seed = 1; seed <= cases; seed++) {
        print_message("seed %" PRIu32 "\n", seed);
        ebb_trace_t *t = trace_of_stages(seed, 2 + seed % 5);
        for (uint32_t chunks = 1; compare(t, chunks, &sums);)
            chunks++;
        ebb_trace_delete(t);
    }
    print_message("%" PRIu32 " of %" PRIu32 " budgets have a plan, %.2f%% longer than possible; %" PRIu32
                  " by more than 5%%, at worst %.1f\n",
                  sums.found, sums.possible, 100 * sums.over / sums.found, sums.far, 100 * sums.worst);
    print_message("greedy eviction: %" PRIu32 " of them, %.2f%% longer; shorter than the plan's in %" PRIu32
                  "\n",
                  sums.dtr_found, 100 * sums.dtr_over / sums.dtr_found, sums.dtr_shorter);
    assert_true(sums.dtr_found >= 0.9 * sums.possible && sums.dtr_over >= 0.01 * sums.dtr_found);
    assert_true(sums.dtr_shorter <= 0.02 * sums.possible);
    assert_true(sums.found >= 0.99 * sums.possible);
    assert_true(sums.over <= 0.003 * sums.found && sums.far <= 0.01 * sums.found && sums.worst <= 0.25);
}

/* The end of a step on a stream of its own. */
static void put_end_aside(ebb_trace_t *t, uint32_t from)
{
    for (uint32_t i = from; i < t->operation_count; i++)
        t->operation[i].stream = 1;
    trace_add_edge(t, 0, from, 1, from);
}

/* Of small steps. A step on several streams may do as the one on one stream does: its bound is not above that one's best either. */
static void the_bound_is_never_above_the_best(void **state)
{
    (void)state;
    const uint32_t seeds = test_is_long() ? 1000 : 60;
    uint32_t budgets = 0, told_of_streams = 0;
    double told = 0;
    for (const trace_family_t *f = trace_families; f->name; f++)
        for (uint32_t seed = 1; seed <= seeds; seed++) {
            const uint32_t size = f->least + seed % 2;
            ebb_trace_t *t = f->make(seed, size), *streams = f->make(seed, size);
            put_end_aside(streams, streams->operation_count - 1 - seed % 4);
            const uint64_t all_ns = plan_exact_ns(t, 1 << 20),
                           alone_ns = (uint64_t)ebb_simulate_alone_ns(streams);
            for (uint32_t chunks = 1; chunks < 1 << 20; chunks += 1 + seed % 3) {
                const ebb_plan_request_t r = {.device_bytes = chunks * t->chunk_bytes,
                                              .host_bytes = UINT64_C(1) << 50,
                                              .recompute = true};
                const uint64_t best = plan_exact_ns(t, chunks), bound = ebb_plan_bound_ns(t, &r),
                               of_streams = ebb_plan_bound_ns(streams, &r);
                if (bound > best || (of_streams > best && of_streams > alone_ns + 1))
                    fail_msg("%s, seed %" PRIu32 ", %" PRIu32 " chunks: the bounds are %" PRIu64
                             " and %" PRIu64 ", %" PRIu64 " is possible",
                             f->name, seed, chunks, bound, of_streams, best);
                if (best != UINT64_MAX && best > all_ns) {
                    budgets++;
                    told += (double)(bound - all_ns) / (double)(best - all_ns);
                    told_of_streams += of_streams > alone_ns + 1;
                }
                if (best <= all_ns)
                    break;
            }
            ebb_trace_delete(t);
            ebb_trace_delete(streams);
        }
    print_message("%" PRIu32 " budgets: the bound tells %.0f%% of what they cost at least; with several "
                  "streams it tells some of it for %" PRIu32 "\n",
                  budgets, 100 * told / budgets, told_of_streams);
    assert_true(told > 0.3 * budgets && told_of_streams > budgets / 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nearly_all_possible_budgets_have_a_good_plan),
        cmocka_unit_test(the_bound_is_never_above_the_best),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
