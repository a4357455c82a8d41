/* auto.c: tries the walk with several targets and tastes, and every fixed strategy, and returns the fastest plan that fits.
 *
 * Targets, tastes and strategies come from the trace alone, and what comes of them is taken if its chunks fit: a larger budget
 * chooses from all that a smaller one could have had (candidates.h), and no plan is slower than that of a fixed strategy.
 */
#include "auto.h"

#include "candidates.h"

enum { LONG_STEP = 3000 }; /* operations */

/* All tastes under one target. */
static void try_target(ebb_candidates_t *c, uint32_t target)
{
    static const struct {
        double chain, idle, caution;
    } tastes[] = {{0, 0, 1}, {0, 1, 1}, {0.25, 0.5, 1}, {1, 1, 1}, {1, 0, 3}, {0, 0, 2}};
    /* Where walks take long, the first ones must do. */
    const size_t count = c->model.trace->operation_count > LONG_STEP ? 2 : sizeof tastes / sizeof tastes[0];
    const ebb_plan_request_t *r = c->model.request;
    for (int mode = 1; mode < 4; mode++) {
        bool offload = mode & 1, recompute = mode & 2;
        if ((offload && !r->offload) || (recompute && !r->recompute))
            continue;
        for (size_t i = 0; i < count; i++)
            if ((recompute || tastes[i].chain <= 0) &&
                (offload || tastes[i].chain > 0 || tastes[i].caution <= 1) && !ebb_candidates_done(c)) {
                ebb_taste_t taste = {.target_chunks = target,
                                     .offload = offload,
                                     .recompute = recompute,
                                     .most_replay_ns = ebb_candidates_most_replay(c),
                                     .chain = tastes[i].chain,
                                     .idle = tastes[i].idle,
                                     .caution = tastes[i].caution};
                ebb_candidates_try(c, &taste);
            }
    }
}

/* Every strategy, with some of each argument that there can be. */
static void try_strategies(ebb_candidates_t *c)
{
    static const char *const numbers[] = {"1", "2", "3", "4", "6", "8", "12", "16", "24", "32"};
    static const char *const few[] = {"2", "3", "4", "6", "8"};
    ebb_candidates_try_strategy(c, EBB_STRATEGY_OFFLOAD, NULL);
    ebb_candidates_try_strategy(c, EBB_STRATEGY_SELECTIVE, NULL);
    ebb_candidates_try_strategy(c, EBB_STRATEGY_SQRT, NULL);
    ebb_candidates_try_strategy(c, EBB_STRATEGY_RECURSIVE, NULL);
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++)
        ebb_candidates_try_strategy(c, EBB_STRATEGY_UNIFORM, numbers[i]);
    for (size_t i = 0; i < sizeof few / sizeof few[0]; i++)
        ebb_candidates_try_strategy(c, EBB_STRATEGY_REVOLVE, few[i]);
}

/* From what needs no plan down to what no plan can do without. */
static void search(ebb_candidates_t *c, uint32_t peak)
{
    const ebb_model_t *m = &c->model;
    const uint32_t lowest = m->widest_chunks < peak ? m->widest_chunks : peak;
    uint32_t targets = 700000 / (20 * m->trace->operation_count + 1);
    targets = targets < 6 ? 6 : targets > 48 ? 48 : targets;
    const uint32_t stride = (peak - lowest) / targets + 1, count = (peak - lowest + stride - 1) / stride;
    for (uint32_t i = count; i-- > 0;)
        if (lowest + i * stride <= c->limit)
            try_target(c, lowest + i * stride);
    for (uint32_t i = 0; i < count && !c->best; i++) /* a plan may come out below its target */
        if (lowest + i * stride > c->limit)
            try_target(c, lowest + i * stride);
}

ebb_plan_t *ebb_auto_make(const ebb_trace_t *trace, const ebb_plan_request_t *request, const char *argument,
                          char *why, size_t why_bytes)
{
    (void)argument;
    ebb_candidates_t c;
    if (!ebb_candidates_begin(&c, trace, request, why, why_bytes))
        return NULL;
    const uint32_t peak = ebb_candidates_keep_peak(&c);
    ebb_taste_t keep = {.most_replay_ns = UINT64_MAX, .target_chunks = peak};
    ebb_candidates_try(&c, &keep);
    search(&c, peak);
    try_strategies(&c);
    return ebb_candidates_end(&c, why, why_bytes);
}
