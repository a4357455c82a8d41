/* test_reversal.c: the dynamic program over the stages of a pass (internal.h) beside the best that is possible (plan_exact.h), and what it says
 * is held. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "ckpt/planner/internal.h"
#include "plan_exact.h"
#include "traces.h"

enum { STAGES = 96, MOST = 160 /* chunks: the program counts each */ };

typedef struct program {
    ebb_trace_t *trace;
    ebb_plan_request_t request;
    ebb_model_t model;
    ebb_stages_t stages;
    ebb_reversal_t reversal;
    uint64_t forward_ns, backward_ns;
} program_t;

static void begin(program_t *p, ebb_trace_t *trace, uint32_t most)
{
    char why[400];
    *p = (program_t){
        .trace = trace,
        .request = {.device_bytes = UINT64_C(1) << 50, .host_bytes = UINT64_C(1) << 50, .recompute = true}};
    assert_true(ebb_model_make(&p->model, trace, &p->request, why, sizeof why));
    assert_true(ebb_stages_split(&p->stages, &p->model, most));
    assert_true(ebb_reversal_make(&p->reversal, &p->stages, &p->model, MOST - 1));
    assert_int_equal(p->stages.pass_count, 1);
    for (uint32_t i = 0; i < trace->operation_count; i++)
        *(ebb_stages_is_backward(&p->stages, i) ? &p->backward_ns : &p->forward_ns) +=
            trace->operation[i].duration_ns;
}

static void end(program_t *p)
{
    ebb_reversal_delete(&p->reversal);
    ebb_stages_delete(&p->stages);
    ebb_model_delete(&p->model);
    ebb_trace_delete(p->trace);
}

/* It never counts on more memory than there is, and loses little by going from stage to stage. */
static void chains_are_reversed_as_fast_as_possible_or_nearly(void **state)
{
    (void)state;
    double over = 0;
    uint32_t count = 0, missed = 0, steps = 0;
    for (uint32_t seed = 1; seed <= 40; seed++) {
        program_t p;
        uint64_t now = UINT64_MAX;
        begin(&p, trace_of_stages(seed, 2 + seed % 5), STAGES);
        /* Not where most is there only in what is backward: the loss is a stage then, which is never reversed. */
        const bool ends_with_loss = p.stages.stage_count == 2 + seed % 5;
        steps += ends_with_loss;
        for (uint32_t chunks = 1; ends_with_loss && now > p.forward_ns; chunks++) {
            const uint64_t best = plan_exact_ns(p.trace, chunks);
            now = ebb_reversal_ns(&p.reversal, 0, chunks);
            if (now != UINT64_MAX && (best == UINT64_MAX || now + p.backward_ns < best))
                fail_msg("seed %" PRIu32 ", %" PRIu32 " chunks: %" PRIu64 ", at best %" PRIu64 " is possible",
                         seed, chunks, now + p.backward_ns, best);
            missed += best != UINT64_MAX && now == UINT64_MAX;
            if (now == UINT64_MAX)
                continue;
            over += (double)(now + p.backward_ns) / (double)best - 1;
            count++;
        }
        end(&p);
    }
    print_message("%" PRIu32 " budgets, %.2f%% longer than possible; %" PRIu32 " missed\n", count,
                  100 * over / count, missed);
    assert_true(steps >= 20);
    assert_true(over < 0.02 * count);
    assert_true(missed < 0.02 * count);
}

/* On a uniform chain that is what revolve does (fates.c): a forward of each stage that is gone through. */
static void a_uniform_chain_takes_no_longer_than_revolve(void **state)
{
    (void)state;
    enum { LENGTH = 24 };
    program_t p;
    begin(&p, trace_of_chain(LENGTH, 1), STAGES);
    for (uint32_t checkpoints = 2; checkpoints <= 8; checkpoints++) {
        /* Beside the checkpoints, the first of which is there anyway: a state that is made from another one, and the gradient. */
        const uint64_t ns = ebb_reversal_ns(&p.reversal, 0, checkpoints + 3);
        if (ns >
            (ebb_revolve_cost(LENGTH, checkpoints) + 1) * CHAIN_NS) /* the last one is gone through once */
            fail_msg("%" PRIu32 " checkpoints: %" PRIu64, checkpoints, ns);
    }
    end(&p);
}

static void what_is_held_fits(void **state)
{
    (void)state;
    program_t p;
    begin(&p, trace_of_chain(24, 1), STAGES);
    const uint32_t count = p.stages.stage_count;
    for (uint32_t chunks = 4; chunks < 24; chunks++)
        for (uint32_t stage = 0; stage < count && ebb_reversal_ns(&p.reversal, 0, chunks) != UINT64_MAX;
             stage++) {
            uint32_t checkpoint[MOST] = {0}, held = 0;
            uint8_t kept[MOST] = {0};
            ebb_reversal_hold(&p.reversal, 0, chunks, stage, checkpoint, kept);
            for (uint32_t k = 1; k < count; k++) /* of states, each goes over one border */
                held += checkpoint[k] || kept[k - 1] & EBB_KEPT_OVER;
            assert_true(checkpoint[0]); /* the beginning */
            assert_true(held < chunks);
        }
    end(&p);
}

/* Where there are more points than stages are wanted. */
static void many_points_become_as_many_stages_as_are_wanted(void **state)
{
    (void)state;
    for (uint32_t most = 2; most < 40; most++) {
        program_t p;
        begin(&p, trace_of_stages(7, 64), most);
        assert_true(p.stages.stage_count <= most);
        assert_true(p.stages.stage_count >= (most + 3) / 4);
        end(&p);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(chains_are_reversed_as_fast_as_possible_or_nearly),
        cmocka_unit_test(a_uniform_chain_takes_no_longer_than_revolve),
        cmocka_unit_test(what_is_held_fits),
        cmocka_unit_test(many_points_become_as_many_stages_as_are_wanted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
