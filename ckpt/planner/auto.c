/* auto.c: looks for the fastest plan level by level, from the smallest that can be to what keeps everything.
 *
 * A level is a number of chunks. At each one the walk is tried with several tastes; what the best of them comes to is simulated, and
 * a local search goes on from there (improve.c). What a level looks at depends on nothing but the trace and the levels below, and a
 * budget takes the best of all levels up to its own: so a larger budget is never slower, and has no smaller peak (candidates.h). Next
 * to the budget the levels are finer. Of every fixed strategy the plan is among the candidates, too, if it is not slower for certain.
 *
 * The work is bounded by numbers of walks, not by time: the same request gets the same plan on any machine.
 */
#include "auto.h"

#include <string.h>

#include "improve.h"

enum { WORK = 200000 /* operations that are walked through */, FEWEST = 40, MOST = 200, LONG_STEP = 3000 };
enum { FEW = 5, MANY = 8 /* walks under one limit */, FINE = 8 };

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

/* Every strategy, with some of each argument that there can be. */
static void try_strategies(ebb_candidates_t *c)
{
    static const char *const numbers[] = {"1", "2", "3", "4", "6", "8", "12", "16", "24", "32"};
    static const char *const few[] = {"2", "3", "4", "6", "8"};
    ebb_candidates_try_strategy(c, EBB_STRATEGY_KEEP, NULL);
    ebb_candidates_try_strategy(c, EBB_STRATEGY_OFFLOAD, NULL);
    ebb_candidates_try_strategy(c, EBB_STRATEGY_SELECTIVE, NULL);
    ebb_candidates_try_strategy(c, EBB_STRATEGY_SQRT, NULL);
    ebb_candidates_try_strategy(c, EBB_STRATEGY_RECURSIVE, NULL);
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++)
        ebb_candidates_try_strategy(c, EBB_STRATEGY_UNIFORM, numbers[i]);
    for (size_t i = 0; i < sizeof few / sizeof few[0]; i++)
        ebb_candidates_try_strategy(c, EBB_STRATEGY_REVOLVE, few[i]);
}

typedef struct search {
    ebb_candidates_t *candidates;
    ebb_improver_t improver;
    uint8_t order[FLAVOURS]; /* [count] the tastes that are allowed, the one that was best last first */
    unsigned count;
    uint32_t level;
} search_t;

static ebb_taste_t taste_of(const search_t *s, unsigned place, uint32_t target)
{
    const flavour_t *f = &flavours[s->order[place]];
    const ebb_candidate_t *rival = ebb_candidates_best(s->candidates, target);
    return (ebb_taste_t){.target_chunks = target,
                         .offload = f->offload,
                         .recompute = f->recompute,
                         .most_replay_ns = ebb_candidates_slack(s->candidates, rival),
                         .chain = f->chain,
                         .idle = f->idle,
                         .caution = f->caution};
}

static void to_front(search_t *s, unsigned place)
{
    const uint8_t winner = s->order[place];
    memmove(s->order + 1, s->order, place);
    s->order[0] = winner;
}

/* Whether a taste is tried at this level: those that were the best ones lately and one of the others in turn, now and then all that
 * there are; and as long as no plan is known to fit, some more. */
static bool has_its_turn(const search_t *s, unsigned place, uint32_t target, uint32_t walks)
{
    enum { ALL = 8 };
    const unsigned lately = walks / 2 - walks / 8;
    return place < lately || (s->count > lately && place == lately + s->level % (s->count - lately)) ||
           (walks == MANY && s->level % ALL == 0) ||
           (place < 2 * walks && !ebb_candidates_best(s->candidates, target));
}

/* Half of so many walks under one target with tastes, the others from the best of those on. */
static void search_level(search_t *s, uint32_t target, uint32_t walks)
{
    ebb_candidates_t *c = s->candidates;
    const uint64_t step = c->model.begin_ns[c->model.trace->operation_count];
    const uint32_t tries = c->tries;
    unsigned winner = FLAVOURS;
    ebb_taste_t best = {0};
    uint64_t least = UINT64_MAX;
    for (unsigned i = 0; i < s->count; i++) {
        if (!has_its_turn(s, i, target, walks))
            continue;
        const ebb_taste_t taste = taste_of(s, i, target);
        const uint64_t ns = ebb_candidates_try(c, &taste);
        if (ns <= step + 1)
            return;
        if (ns < least) {
            least = ns;
            best = taste;
            winner = i;
        }
    }
    s->level++;
    if (winner == FLAVOURS)
        return;
    to_front(s, winner);
    const uint32_t done = c->tries - tries;
    ebb_improve(&s->improver, &best, least, done + 2 < walks ? walks - done : 2);
}

/* Levels from what no plan can do without up to what needs none, until the first one above the budget; further only as long as there
 * is no plan that is smaller. Then finer ones, between the budget and the level below it. What comes of these may be no faster than what
 * the level above has found: larger budgets look at that and not at these. */
static void search_levels(search_t *s, uint32_t lowest, uint32_t stride, uint32_t peak, uint32_t walks)
{
    ebb_candidates_t *c = s->candidates;
    const uint32_t parts = walks == MANY ? FINE : FINE / 2, fine = stride / parts ? stride / parts : 1;
    uint32_t below = EBB_NONE;
    bool above = false;
    for (uint32_t target = lowest; target < peak; target += stride) {
        c->least = target > lowest + fine / 2 ? target - fine / 2 : 0;
        if (above && c->front_count && c->front[0].chunks <= c->least)
            break;
        search_level(s, target, walks);
        if (target <= c->limit)
            below = c->reached = target;
        else if (!above)
            c->floor_ns = ebb_candidates_best(c, target) ? ebb_candidates_best(c, target)->ns : 0;
        above = target > c->limit;
    }
    for (uint32_t target = below + fine; below != EBB_NONE && target <= c->limit && target < below + stride;
         target += fine) {
        c->least = target - fine / 2;
        c->reached = target;
        search_level(s, target, walks);
    }
    c->least = 0;
    c->floor_ns = 0;
}

static void search(ebb_candidates_t *c, uint32_t peak)
{
    const ebb_model_t *m = &c->model;
    const uint32_t lowest = m->widest_chunks < peak ? m->widest_chunks : peak;
    uint32_t walks = WORK / (m->trace->operation_count + 1);
    walks = walks < FEWEST ? FEWEST : walks > MOST ? MOST : walks;
    if (walks > FEWEST + 4 * m->trace->operation_count) /* a short step has no more to try */
        walks = FEWEST + 4 * m->trace->operation_count;
    const uint32_t of_each = m->trace->operation_count <= LONG_STEP ? MANY : FEW, levels = walks / of_each;
    search_t s = {.candidates = c};
    for (uint8_t i = 0; i < FLAVOURS; i++)
        if ((m->request->offload || !flavours[i].offload) &&
            (m->request->recompute || !flavours[i].recompute))
            s.order[s.count++] = i;
    if (!ebb_improver_begin(&s.improver, c))
        return;
    search_levels(&s, lowest, (peak - lowest) / levels + 1, peak, of_each);
    ebb_improver_end(&s.improver);
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
    if (peak > c.limit)
        search(&c, peak);
    try_strategies(&c);
    return ebb_candidates_end(&c, why, why_bytes);
}
