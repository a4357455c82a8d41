/* test_monotone.c: `auto` under every budget of a step, chunk by chunk: what a smaller budget can do a larger one can, as fast and in
 * no less memory; what it tells to be enough is enough; and nothing is faster than the bound allows. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <inttypes.h>
#include <stdlib.h>

#include "ckpt/checker/checker.h"
#include "ckpt/planner/planner.h"
#include "program.h"
#include "trace_streams.h"
#include "traces.h"

#define PLENTY (UINT64_C(1) << 50)

typedef struct allowed {
    bool offload, recompute;
} allowed_t;
static const allowed_t modes[] = {{true, false}, {false, true}, {true, true}};
enum { MODES = sizeof modes / sizeof modes[0] };

static ebb_plan_request_t request(const allowed_t *allowed, double link)
{
    return (ebb_plan_request_t){.device_bytes = PLENTY,
                                .host_bytes = PLENTY,
                                .min_buffer = 1 << 20,
                                .offload = allowed->offload,
                                .recompute = allowed->recompute,
                                .hardware = {.out_bytes_per_ns = link,
                                             .in_bytes_per_ns = link,
                                             .out_ns = 1500,
                                             .in_ns = 1500,
                                             .out_both = 0.85,
                                             .in_both = 0.85,
                                             .out_slowdown = 0.02,
                                             .in_slowdown = 0.02,
                                             .zero_ns = 1500,
                                             .zero_bytes_per_ns = 1000,
                                             .hash_ns = 2000,
                                             .hash_bytes_per_ns = 1000,
                                             .checked = 0.1}};
}

static uint64_t keep_bytes(const ebb_trace_t *t, ebb_plan_request_t r)
{
    char why[400];
    r.policy = "keep";
    ebb_plan_t *p = ebb_plan_make(t, &r, why, sizeof why);
    assert_non_null(p);
    const uint64_t bytes = ebb_plan_sum(p, t).peak_bytes;
    ebb_plan_delete(p);
    return bytes;
}

typedef struct outcome {
    uint64_t ns, bytes; /* of the plan; 0: there is none */
    uint64_t told;      /* the least that would have done */
} outcome_t;

static outcome_t plan_within(const ebb_trace_t *t, ebb_plan_request_t r, uint64_t bytes)
{
    char why[400] = "";
    outcome_t o = {0};
    r.device_bytes = bytes;
    r.smallest = &o.told;
    ebb_plan_t *p = ebb_plan_make(t, &r, why, sizeof why);
    if (!p)
        return o;
    const ebb_check_limits_t limits = {r.device_bytes, r.host_bytes, 0};
    if (!ebb_check_plan(t, p, &limits, why, sizeof why))
        fail_msg("not a good plan: %s", why);
    o.ns = p->predicted_ns;
    o.bytes = ebb_plan_sum(p, t).peak_bytes;
    ebb_plan_delete(p);
    return o;
}

/* `every` chunks; how many plans there were. */
static uint32_t check_budgets(const ebb_trace_t *t, const ebb_plan_request_t *r, uint64_t every)
{
    char why[400];
    ebb_model_t m;
    ebb_bound_t bound;
    assert_true(ebb_model_make(&m, t, r, why, sizeof why));
    assert_true(ebb_bound_make(&bound, &m));
    const uint64_t most = keep_bytes(t, *r), floor = ebb_plan_floor(t, r), chunk = t->chunk_bytes;
    uint32_t plans = 0;
    outcome_t before = {0};
    for (uint64_t bytes = m.small_bytes + chunk; bytes <= most; bytes += every * chunk) {
        const outcome_t o = plan_within(t, *r, bytes);
        const uint64_t mib = bytes >> 20,
                       least = ebb_bound_ns(&bound, (uint32_t)((bytes - m.small_bytes) / chunk));
        if (before.ns && !o.ns)
            fail_msg("a plan within less than %" PRIu64 " MiB, none within that", mib);
        if (before.ns && o.ns > before.ns)
            fail_msg("%" PRIu64 " ns within %" PRIu64 " MiB, %" PRIu64 " within less", o.ns, mib, before.ns);
        if (o.bytes < before.bytes)
            fail_msg("a peak of %" PRIu64 " within %" PRIu64 " MiB, %" PRIu64 " within less", o.bytes, mib,
                     before.bytes);
        if (o.ns && o.ns < least)
            fail_msg("%" PRIu64 " ns within %" PRIu64 " MiB, less than is possible: %" PRIu64, o.ns, mib,
                     least);
        if (floor && (bytes >= floor) != (o.ns > 0))
            fail_msg("%" PRIu64 " is told to be the least that does: not within %" PRIu64 " MiB", floor, mib);
        if (!o.ns && o.told && !plan_within(t, *r, o.told).ns)
            fail_msg("%" PRIu64 " is told to be enough within %" PRIu64 " MiB, and is not", o.told, mib);
        before = o;
        plans += o.ns > 0;
    }
    ebb_bound_delete(&bound);
    ebb_model_delete(&m);
    return plans;
}

/* Of so many steps by chance, TEST_CASES if it is set, from TEST_FROM on; on one stream, or on two to four. */
static void check_seeds(unsigned cases, bool streams)
{
    cases = test_cases(cases, cases);
    const unsigned from = getenv("TEST_FROM") ? (unsigned)atoi(getenv("TEST_FROM")) : 1;
    uint32_t plans = 0;
    for (uint32_t seed = from; seed < from + cases; seed++) {
        const ebb_plan_request_t r = request(&modes[seed % MODES], 5 + 15 * (seed % 4));
        ebb_trace_t *t = trace_by_chance(seed, 20 + seed % 40);
        srand(seed);
        if (streams)
            trace_put_on_streams(t, 2 + seed % 3);
        print_message("seed %" PRIu32 "\n", seed);
        plans += check_budgets(t, &r, 1);
        ebb_trace_delete(t);
    }
    print_message("%" PRIu32 " plans\n", plans);
    assert_true(plans > 2 * cases);
}

static void larger_budgets_of_steps_by_chance_are_no_worse(void **state)
{
    (void)state;
    check_seeds(30, false);
}

static void larger_budgets_of_several_streams_are_no_worse(void **state)
{
    (void)state;
    check_seeds(9, true);
}

static void larger_budgets_of_a_transformer_are_no_worse(void **state)
{
    (void)state;
    static const double links[] = {5, 20, 50};
    const trace_shape_t shape = {
        .layers = 6, .width_chunks = 2, .weight_chunks = 3, .micro_batches = 1, .kernel_ns = 2000};
    ebb_trace_t *t = trace_of_transformer(&shape);
    for (int i = 0; i < 3; i++) {
        const ebb_plan_request_t r = request(&modes[i], links[i]);
        assert_true(check_budgets(t, &r, test_is_long() ? 11 : 44) > 3);
    }
    ebb_trace_delete(t);
}

/* The levels right below what keeps everything: nothing that is known there may hide a plan that is faster. */
static void a_chain_that_hardly_fits_replays_once(void **state)
{
    (void)state;
    for (uint32_t stages = 4; stages < 40; stages += 3) {
        ebb_plan_request_t r = request(&modes[1], 20);
        ebb_trace_t *t = trace_of_chain(stages, 4);
        const uint64_t most = keep_bytes(t, r), all_ns = plan_within(t, r, most).ns;
        r.device_bytes = most - 4 * t->chunk_bytes; /* without one of the states */
        const uint64_t ns = plan_within(t, r, r.device_bytes).ns, least = ebb_plan_bound_ns(t, &r),
                       again = CHAIN_NS + (uint64_t)(2 * ebb_check_ns(&r.hardware, 4 * t->chunk_bytes) +
                                                     ebb_zero_ns(&r.hardware, 4 * t->chunk_bytes));
        assert_true(ns <= all_ns + again + 10);
        assert_true(least <= ns && least + 10 >= ns);
        r.device_bytes = t->chunk_bytes;
        assert_true(ebb_plan_bound_ns(t, &r) == UINT64_MAX);
        ebb_trace_delete(t);
    }
}

/* A chain whose step copies something to the host in between, on a stream of its own: what is replayed meanwhile takes no time. */
static void streams_replay_for_nothing_while_the_device_is_idle(void **state)
{
    (void)state;
    enum { STAGES = 12 };
    ebb_plan_request_t r = request(&modes[1], 20);
    ebb_trace_t *one = trace_of_chain(STAGES, 4), *two = trace_of_chain(STAGES, 4);
    const uint32_t copy = two->operation_count - STAGES / 2;
    ebb_trace_operation_t *o = &two->operation[copy];
    const uint64_t most = keep_bytes(one, r), idle_ns = 3 * CHAIN_NS;
    one->operation[copy].duration_ns = o->duration_ns = idle_ns;
    o->kind = EBB_TRACE_COPY;
    o->verdict = EBB_HOST;
    o->stream = 1;
    trace_add_edge(two, 0, copy, 1, copy);
    trace_add_edge(two, 1, copy + 1, 0, copy + 1);
    r.device_bytes = most;
    const uint64_t alone_ns = ebb_plan_bound_ns(one, &r);
    assert_true(ebb_plan_bound_ns(two, &r) + 2 > alone_ns && ebb_plan_bound_ns(two, &r) < alone_ns + 2);
    uint32_t more = 0;
    for (uint32_t states = 1; states < STAGES - 1; states++) {
        r.device_bytes = most - 4 * states * one->chunk_bytes;
        const uint64_t longer = ebb_plan_bound_ns(one, &r) - alone_ns, of_two = ebb_plan_bound_ns(two, &r),
                       wanted = alone_ns + (longer > idle_ns ? longer - idle_ns : 0);
        assert_true(of_two + 3 > wanted && of_two < wanted + 3);
        more += wanted > alone_ns;
    }
    assert_true(more > 2);
    ebb_trace_delete(one);
    ebb_trace_delete(two);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(larger_budgets_of_steps_by_chance_are_no_worse),
        cmocka_unit_test(larger_budgets_of_several_streams_are_no_worse),
        cmocka_unit_test(larger_budgets_of_a_transformer_are_no_worse),
        cmocka_unit_test(a_chain_that_hardly_fits_replays_once),
        cmocka_unit_test(streams_replay_for_nothing_while_the_device_is_idle),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
