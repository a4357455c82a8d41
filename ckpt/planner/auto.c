/* auto.c: looks for the fastest plan level by level, from the smallest that can be to what keeps everything.
 *
 * A level is a number of chunks. At each one the walk is tried with several tastes; what the best of them comes to is simulated, and
 * a local search goes on from there (improve.c). What a level looks at depends on nothing but the trace and the levels below, and a
 * budget takes the best of all levels up to its own: so a larger budget is never slower, and has no smaller peak (candidates.h). Of
 * every fixed strategy the plan is among the candidates, too.
 *
 * The work is bounded by numbers of walks, not by time: the same request gets the same plan on any machine.
 */
#include "auto.h"

#include "improve.h"

enum { WORK = 400000 /* operations that are walked through */, FEWEST = 40, MOST = 600, LONG_STEP = 3000 };

typedef struct flavour {
    bool offload, recompute;
    double chain, idle, caution;
} flavour_t;

/* Those that win more often come first. */
static const flavour_t flavours[] = {
    {true, true, 0, 1, 1},       {true, true, 0.25, 0.5, 1}, {true, false, 0, 1, 1}, {true, true, 0, 0, 1},
    {false, true, 0.25, 0.5, 1}, {true, true, 1, 0, 3},      {true, true, 1, 1, 1},  {false, true, 1, 1, 1},
    {true, true, 0, 0, 2},       {false, true, 0, 0, 1},     {true, false, 0, 0, 1}, {true, false, 0, 0, 2},
    {false, true, 0, 1, 1},      {true, false, 0.25, 0.5, 1}};
enum { FLAVOURS = sizeof flavours / sizeof flavours[0] };

/* Every strategy, with some of each argument that there can be. Of long steps fewer, and none that takes more than twice the step's time for
 * replays. */
static void try_strategies(ebb_candidates_t *c)
{
    static const char *const numbers[] = {"1", "2", "3", "4", "6", "8", "12", "16", "24", "32"};
    static const char *const few[] = {"2", "3", "4", "6", "8"};
    const uint32_t n = c->model.trace->operation_count;
    const uint64_t most = n > LONG_STEP ? 2 * c->model.begin_ns[n] : UINT64_MAX;
    ebb_candidates_try_strategy(c, EBB_STRATEGY_KEEP, NULL, most);
    ebb_candidates_try_strategy(c, EBB_STRATEGY_OFFLOAD, NULL, most);
    ebb_candidates_try_strategy(c, EBB_STRATEGY_SELECTIVE, NULL, most);
    ebb_candidates_try_strategy(c, EBB_STRATEGY_SQRT, NULL, most);
    ebb_candidates_try_strategy(c, EBB_STRATEGY_RECURSIVE, NULL, most);
    const size_t stride = n > LONG_STEP ? 2 : 1;
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i += stride)
        ebb_candidates_try_strategy(c, EBB_STRATEGY_UNIFORM, numbers[i], most);
    for (size_t i = 0; i < sizeof few / sizeof few[0]; i += stride)
        ebb_candidates_try_strategy(c, EBB_STRATEGY_REVOLVE, few[i], most);
}

/* So many walks under one target: first with as many tastes as there are for two thirds of them, then from the best of those on. */
static void search_level(ebb_candidates_t *c, uint32_t target, uint32_t walks)
{
    const ebb_plan_request_t *r = c->model.request;
    const uint64_t step = c->model.begin_ns[c->model.trace->operation_count];
    const uint32_t first = c->tries;
    ebb_taste_t best = {.target_chunks = target};
    uint64_t least = UINT64_MAX;
    for (size_t i = 0; i < FLAVOURS && 3 * (c->tries - first) < 2 * walks; i++) {
        const flavour_t *f = &flavours[i];
        if ((f->offload && !r->offload) || (f->recompute && !r->recompute))
            continue;
        const ebb_candidate_t *rival = ebb_candidates_best(c, target);
        const ebb_taste_t taste = {.target_chunks = target,
                                   .offload = f->offload,
                                   .recompute = f->recompute,
                                   .most_replay_ns = rival ? rival->ns - step : UINT64_MAX,
                                   .chain = f->chain,
                                   .idle = f->idle,
                                   .caution = f->caution};
        const uint64_t ns = ebb_candidates_try(c, &taste);
        if (ns <= step + 1)
            return;
        if (ns < least) {
            least = ns;
            best = taste;
        }
    }
    const uint32_t done = c->tries - first;
    if (least != UINT64_MAX && done < walks)
        ebb_improve(c, &best, least, walks - done);
}

/* From what no plan can do without up to what needs none. Above its budget a plan is only looked for as long as there is none that
 * is smaller. */
static void search(ebb_candidates_t *c, uint32_t peak)
{
    const ebb_model_t *m = &c->model;
    const uint32_t lowest = m->widest_chunks < peak ? m->widest_chunks : peak;
    uint32_t walks = WORK / (m->trace->operation_count + 1);
    walks = walks < FEWEST ? FEWEST : walks > MOST ? MOST : walks;
    if (walks > FEWEST + m->trace->operation_count) /* a short step has no more to try */
        walks = FEWEST + m->trace->operation_count;
    const uint32_t of_each = 4 + walks / 35, levels = walks / of_each;
    const uint32_t stride = (peak - lowest) / levels + 1;
    for (uint32_t target = lowest; target < peak; target += stride) {
        c->least = target > lowest + stride / 2 ? target - stride / 2 : 0;
        if (c->least > c->limit && c->front_count && c->front[0].chunks <= c->least)
            break;
        search_level(c, target, of_each);
    }
    c->least = 0;
}

ebb_plan_t *ebb_auto_make(const ebb_trace_t *trace, const ebb_plan_request_t *request, const char *argument,
                          char *why, size_t why_bytes)
{
    (void)argument;
    ebb_candidates_t c;
    if (!ebb_candidates_begin(&c, trace, request, why, why_bytes))
        return NULL;
    const uint32_t peak = ebb_candidates_keep_peak(&c);
    const ebb_taste_t keep = {.most_replay_ns = UINT64_MAX, .target_chunks = peak};
    ebb_candidates_try(&c, &keep);
    try_strategies(&c);
    if (peak > c.limit)
        search(&c, peak);
    return ebb_candidates_end(&c, why, why_bytes);
}
