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
#include "traces.h"

typedef struct sums {
    uint32_t possible, found;
    double over; /* of the step, as a part of the shortest */
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
    sums->over += p ? (double)p->predicted_ns / (double)best - 1 : 0;
    ebb_plan_delete(p);
    return best > kept;
}

/* Places that share chunks must fit together for that: a plan within what is resident at once is possible, or nearly. */
static void nearly_all_possible_budgets_have_a_good_plan(void **state)
{
    (void)state;
    const uint32_t cases = getenv("TEST_CASES") ? (uint32_t)atoi(getenv("TEST_CASES"))
                           : test_is_long()     ? 200
                                                : 24;
    sums_t sums = {0};
    for (uint32_t seed = 1; seed <= cases; seed++) {
        print_message("seed %" PRIu32 "\n", seed);
        ebb_trace_t *t = trace_of_stages(seed, 2 + seed % 5);
        for (uint32_t chunks = 1; compare(t, chunks, &sums);)
            chunks++;
        ebb_trace_delete(t);
    }
    print_message("%" PRIu32 " of %" PRIu32 " budgets have a plan, %.2f%% longer than possible\n", sums.found,
                  sums.possible, 100 * sums.over / sums.found);
    print_message("greedy eviction: %" PRIu32 " of them, %.2f%% longer; shorter than the plan's in %" PRIu32
                  "\n",
                  sums.dtr_found, 100 * sums.dtr_over / sums.dtr_found, sums.dtr_shorter);
    assert_true(sums.dtr_found >= 0.9 * sums.possible && sums.dtr_over >= 0.01 * sums.dtr_found);
    assert_true(sums.dtr_shorter <= 0.02 * sums.possible);
    assert_true(sums.found >= 0.985 * sums.possible);
    assert_true(sums.over <= 0.003 * sums.found);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nearly_all_possible_budgets_have_a_good_plan),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
