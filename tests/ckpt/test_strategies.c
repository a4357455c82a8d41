/* test_strategies.c: the fixed strategies: on uniform chains they obey their theorems, on any step they make good plans, and
 * the planner that looks for itself is never slower. */
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
#include "ckpt/planner/internal.h"
#include "ckpt/planner/planner.h"
#include "traces.h"

#define PLENTY (UINT64_C(1) << 50)

static const trace_shape_t plain = {
    .layers = 6, .width_chunks = 2, .weight_chunks = 3, .micro_batches = 1, .kernel_ns = 2000};

static const char *const policies[] = {"keep",      "offload",   "sqrt",      "uniform:1", "uniform:2",
                                       "uniform:3", "selective", "recursive", "revolve:2", "revolve:4"};
enum { POLICIES = sizeof policies / sizeof policies[0] };

/* Time adds up, memory in use stays within the plan's. */
static void check_simulation(const ebb_trace_t *t, const ebb_plan_t *p, const ebb_hardware_t *hardware)
{
    ebb_simulation_t s;
    assert_true(ebb_simulate(&s, p, t, hardware, true));
    const double sum = s.track_ns[EBB_TRACK_OPERATION] + s.track_ns[EBB_TRACK_REPLAY] +
                       s.track_ns[EBB_TRACK_WAIT_OUT] + s.track_ns[EBB_TRACK_WAIT_IN] + s.slowed_ns;
    assert_true(sum > s.step_ns - 1 && sum < s.step_ns + 1);
    assert_int_equal(p->predicted_ns, (uint64_t)s.step_ns + 1);
    for (uint32_t i = 0; i < s.level_count; i++)
        if (s.level[i].bytes > s.peak_bytes)
            fail_msg("%" PRIu64 " bytes in use, %" PRIu64 " planned", s.level[i].bytes, s.peak_bytes);
    ebb_simulation_delete(&s);
}

static ebb_plan_t *plan_of(const ebb_trace_t *t, const char *policy, uint64_t device_bytes)
{
    char why[400] = "";
    const ebb_plan_request_t r = {.policy = policy,
                                  .device_bytes = device_bytes,
                                  .host_bytes = PLENTY,
                                  .min_buffer = 1 << 20,
                                  .offload = true,
                                  .recompute = true,
                                  .hardware = {.out_bytes_per_ns = 50, .in_bytes_per_ns = 50}};
    ebb_plan_t *p = ebb_plan_make(t, &r, why, sizeof why);
    if (!p) {
        assert_true(why[0]);
        return NULL;
    }
    const ebb_check_limits_t limits = {device_bytes, PLENTY, 0};
    if (!ebb_check_plan(t, p, &limits, why, sizeof why))
        fail_msg("%s: not a good plan: %s", policy, why);
    assert_true(ebb_plan_sum(p, t).peak_bytes <= device_bytes);
    check_simulation(t, p, &r.hardware);
    return p;
}

/* What a strategy comes to on a chain: states that are alive at once (the one at the beginning not counted), and replays. */
typedef struct outcome {
    uint32_t states, replays;
} outcome_t;

static outcome_t on_chain(uint32_t stages, const char *policy)
{
    ebb_trace_t *t = trace_of_chain(stages, 2);
    ebb_plan_t *p = plan_of(t, policy, PLENTY);
    assert_non_null(p);
    const outcome_t o = {p->chunk_count / 2 - 1, ebb_plan_sum(p, t).replays};
    assert_int_equal(p->chunk_count % 2, 0);
    assert_int_equal(p->predicted_ns, (2 * (uint64_t)stages + 1 + o.replays) * CHAIN_NS + 1);
    ebb_plan_delete(p);
    ebb_trace_delete(t);
    return o;
}

static void keep_on_chain_holds_everything(void **state)
{
    (void)state;
    const outcome_t o = on_chain(25, "keep");
    assert_int_equal(o.states, 25 + 1);
    assert_int_equal(o.replays, 0);
}

/* Chen et al. 2016, section 3: n stages in sqrt(n) segments: at most 2 sqrt(n) states, at most one forward more. */
static void sqrt_on_chain_takes_two_roots_and_less_than_a_forward(void **state)
{
    (void)state;
    for (uint32_t root = 2; root <= 16; root++) {
        const outcome_t o = on_chain(root * root, "sqrt");
        assert_int_equal(o.states, 2 * root);
        assert_int_equal(o.replays, (root - 1) * (root - 1));
    }
    for (uint32_t n = 5; n < 120; n += 7) {
        const outcome_t o = on_chain(n, "sqrt");
        assert_true((o.states - 1) * (o.states - 1) <= 4 * n);
        assert_true(o.replays < n);
    }
}

static void uniform_on_chain_holds_a_checkpoint_for_every_segment(void **state)
{
    (void)state;
    for (uint32_t segment = 1; segment <= 12; segment++) {
        char policy[32];
        snprintf(policy, sizeof policy, "uniform:%" PRIu32, segment);
        const outcome_t o = on_chain(8 * segment, policy);
        assert_int_equal(o.states,
                         8 - 1 + segment - 1 + 2); /* checkpoints, a segment's, the last one, the gradient */
        assert_int_equal(o.replays, (8 - 1) * (segment - 1));
    }
}

/* Chen et al. 2016, section 4.3: in halves: log2(n) checkpoints; here every level goes through half of the chain again, but for
 * what forward has left. */
static void recursive_on_chain_takes_logarithms(void **state)
{
    (void)state;
    for (uint32_t log = 1; log <= 8; log++) {
        const uint32_t n = (uint32_t)1 << log;
        const outcome_t o = on_chain(n, "recursive");
        assert_true(o.states <= log + 3);
        assert_int_equal(o.replays, n / 2 * log - (n - 1));
    }
}

/* Griewank and Walther 2000: reversing l stages with c checkpoints (the start counted) takes r l - C(c + r, r - 1) forward
 * stages, r the least with C(c + r, r) >= l. Of these the program's own forward has done l - 1. */
static void revolve_on_chain_takes_as_many_stages_as_the_theorem(void **state)
{
    (void)state;
    for (uint32_t checkpoints = 1; checkpoints <= 6; checkpoints++)
        for (uint32_t n = 2; n < 60; n += 1 + n / 7) {
            char policy[32];
            snprintf(policy, sizeof policy, "revolve:%" PRIu32, checkpoints);
            const outcome_t o = on_chain(n, policy);
            assert_int_equal(o.replays, ebb_revolve_cost(n, checkpoints) - (n - 1));
            assert_true(o.states <= checkpoints - 1 + 3);
        }
}

/* The theorem itself, by trying every split. */
static void revolve_cost_is_the_least_of_all_splits(void **state)
{
    (void)state;
    enum { LONGEST = 80, MOST = 8 };
    static uint64_t cost[LONGEST + 1][MOST + 1];
    for (uint32_t c = 1; c <= MOST; c++)
        for (uint32_t l = 2; l <= LONGEST; l++) {
            uint64_t least = c == 1 ? (uint64_t)l * (l - 1) / 2 : UINT64_MAX;
            for (uint32_t at = 1; at < l && c > 1; at++) {
                const uint64_t now = at + cost[l - at][c - 1] + cost[at][c];
                least = now < least ? now : least;
            }
            cost[l][c] = least;
            assert_int_equal(ebb_revolve_cost(l, c), least);
        }
    assert_int_equal(ebb_revolve_cost(1, 3), 0);
}

static void compare_with_auto(ebb_trace_t *t)
{
    ebb_plan_t *all = plan_of(t, "keep", PLENTY);
    assert_non_null(all);
    const uint64_t peak = ebb_plan_sum(all, t).peak_bytes;
    ebb_plan_delete(all);
    for (uint64_t percent = 90; percent >= 40; percent -= 25) {
        ebb_plan_t *best = plan_of(t, "auto", peak * percent / 100);
        for (int i = 0; i < POLICIES; i++) {
            ebb_plan_t *p = plan_of(t, policies[i], peak * percent / 100);
            if (p && !best)
                fail_msg("%s fits, auto does not", policies[i]);
            if (p && best->predicted_ns > p->predicted_ns)
                fail_msg("%s takes %" PRIu64 " ns, auto %" PRIu64, policies[i], p->predicted_ns,
                         best->predicted_ns);
            ebb_plan_delete(p);
        }
        ebb_plan_delete(best);
    }
    ebb_trace_delete(t);
}

static void auto_is_never_slower_than_a_strategy(void **state)
{
    (void)state;
    trace_shape_t shape = plain;
    compare_with_auto(trace_of_transformer(&shape));
    shape.stored_scores = true;
    compare_with_auto(trace_of_transformer(&shape));
    shape.micro_batches = 2;
    compare_with_auto(trace_of_transformer(&shape));
    compare_with_auto(trace_of_chain(24, 2));
    for (uint32_t seed = 1; seed <= 20; seed++)
        compare_with_auto(trace_by_chance(seed, 20 + seed));
}

static void strategies_on_steps_by_chance_make_good_plans(void **state)
{
    (void)state;
    uint32_t replays = 0, copies = 0;
    for (uint32_t seed = 1; seed <= 150; seed++) {
        ebb_trace_t *t = trace_by_chance(seed, 20 + seed % 60);
        for (int i = 0; i < POLICIES; i++) {
            ebb_plan_t *p = plan_of(t, policies[i], PLENTY);
            if (!p)
                fail_msg("seed %" PRIu32 ": no plan by %s", seed, policies[i]);
            const ebb_plan_sum_t sum = ebb_plan_sum(p, t);
            replays += sum.replays;
            copies += sum.bytes_out != 0;
            ebb_plan_delete(p);
        }
        ebb_trace_delete(t);
    }
    print_message("%" PRIu32 " replays, %" PRIu32 " plans with copies\n", replays, copies);
    assert_true(replays > 200 && copies > 50);
}

/* Micro-batches each have their forward and backward; a strategy saves in all of them. */
static void sqrt_of_a_transformer_takes_less_than_half_and_one_forward(void **state)
{
    (void)state;
    for (uint32_t batches = 1; batches <= 2; batches++) {
        trace_shape_t shape = plain;
        shape.layers = 16;
        shape.micro_batches = batches;
        ebb_trace_t *t = trace_of_transformer(&shape);
        ebb_plan_t *keep = plan_of(t, "keep", PLENTY), *p = plan_of(t, "sqrt", PLENTY);
        uint64_t forward = 0;
        for (uint32_t i = 0; i < t->operation_count; i++)
            forward += strstr(t->operation[i].name, "back") || strstr(t->operation[i].name, "adam")
                           ? 0
                           : t->operation[i].duration_ns;
        const ebb_plan_sum_t sum = ebb_plan_sum(p, t);
        uint64_t fixed = 0;
        for (uint32_t i = 0; i < t->buffer_count; i++)
            fixed += t->buffer[i].born == EBB_NONE ? t->buffer[i].bytes : 0;
        assert_true(2 * (sum.peak_bytes - fixed) < ebb_plan_sum(keep, t).peak_bytes - fixed);
        assert_true(sum.replay_ns > 0 && sum.replay_ns <= forward);
        ebb_plan_delete(keep);
        ebb_plan_delete(p);
        ebb_trace_delete(t);
    }
}

static void selective_with_a_name_recomputes_what_is_named(void **state)
{
    (void)state;
    trace_shape_t shape = plain;
    shape.stored_scores = true;
    ebb_trace_t *t = trace_of_transformer(&shape);
    ebb_plan_t *p = plan_of(t, "selective:scores,softmax", PLENTY);
    assert_non_null(p);
    uint32_t replays = 0;
    for (uint32_t i = 0; i < p->action_count; i++)
        if (p->action[i].kind == EBB_REPLAY) {
            const char *name = t->operation[p->action[i].operation].name;
            assert_true(!strcmp(name, "scores") || !strcmp(name, "softmax"));
            replays++;
        }
    assert_true(replays >= 2 * (shape.layers - 1));
    ebb_plan_delete(p);
    ebb_trace_delete(t);
}

/* On a chain all that is saved goes over a border. */
static void selective_with_names_of_a_whole_chain_keeps_a_root(void **state)
{
    (void)state;
    for (uint32_t n = 9; n < 120; n += 11) {
        const outcome_t o = on_chain(n, "selective:forward");
        assert_true(o.states * o.states <= 6 * n);
        assert_true(o.replays > n / 2 && o.replays < n);
    }
}

/* Every third operation, as an activation function among products: it alone is dropped, and made again once. */
static void selective_with_a_name_here_and_there_recomputes_each_once(void **state)
{
    (void)state;
    enum { STAGES = 31, NAMED = STAGES / 3 };
    ebb_trace_t *t = trace_of_chain(STAGES, 2);
    for (uint32_t i = 1; i < STAGES; i += 3)
        snprintf(t->operation[i].name, sizeof t->operation[i].name, "relu");
    ebb_plan_t *keep = plan_of(t, "keep", PLENTY), *p = plan_of(t, "selective:relu", PLENTY);
    uint32_t replays = 0;
    for (uint32_t i = 0; i < p->action_count; i++)
        if (p->action[i].kind == EBB_REPLAY) {
            assert_string_equal(t->operation[p->action[i].operation].name, "relu");
            replays++;
        }
    assert_int_equal(replays, NAMED);
    assert_true(keep->chunk_count - p->chunk_count >= 2 * (NAMED - 2));
    ebb_plan_delete(keep);
    ebb_plan_delete(p);
    ebb_trace_delete(t);
}

static void policy_that_is_none_is_refused(void **state)
{
    (void)state;
    static const char *const wrong[] = {"",         "sqr",       "sqrt:2",    "uniform",
                                        "uniform:", "uniform:0", "uniform:x", "revolve:-1",
                                        "keep:",    "auto:1",    "learn"};
    ebb_policy_t policy;
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        assert_false(ebb_planner_find(&policy, wrong[i]));
    assert_true(ebb_planner_find(&policy, "selective"));
    assert_null(policy.names);
    assert_true(ebb_planner_find(&policy, "selective:mlp,attention"));
    assert_string_equal(policy.names, "mlp,attention");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keep_on_chain_holds_everything),
        cmocka_unit_test(sqrt_on_chain_takes_two_roots_and_less_than_a_forward),
        cmocka_unit_test(uniform_on_chain_holds_a_checkpoint_for_every_segment),
        cmocka_unit_test(recursive_on_chain_takes_logarithms),
        cmocka_unit_test(revolve_cost_is_the_least_of_all_splits),
        cmocka_unit_test(revolve_on_chain_takes_as_many_stages_as_the_theorem),
        cmocka_unit_test(auto_is_never_slower_than_a_strategy),
        cmocka_unit_test(strategies_on_steps_by_chance_make_good_plans),
        cmocka_unit_test(sqrt_of_a_transformer_takes_less_than_half_and_one_forward),
        cmocka_unit_test(selective_with_a_name_recomputes_what_is_named),
        cmocka_unit_test(selective_with_names_of_a_whole_chain_keeps_a_root),
        cmocka_unit_test(selective_with_a_name_here_and_there_recomputes_each_once),
        cmocka_unit_test(policy_that_is_none_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
