/* auto.c: looks for the fastest plan at the level of the budget and at those below it from which a faster one may come.
 *
 * A level is a number of chunks. At each one the walk is tried with several search parameters; what the best of them comes to is simulated, and
 * a local search goes on from there (improve.c). There are coarse levels, finer ones from each to the next, and stretches of some coarse
 * levels. A stretch is searched as if there were no other, from its lowest level up: what one has shown serves the next. A budget looks at
 *   - the coarse levels of its own stretch up to its own, and those fine ones behind that which are not above the budget
 *   - before them the next coarse level: plans of fine levels that are faster than what is known up to there are not taken, because
 *     larger budgets look at that, and not at these. Where nothing is known up to there, they do look at the fine levels
 *   - stretches below its own, as far as the bound (planner.h) lets a plan there be faster than what is known
 * So a larger budget's plan is never slower, and no budget is too small if a smaller one is not. A level's plans take as many chunks at
 * least as the smallest budget that looks at it: what is told to be enough is. And the plan that is chosen takes as many as the last level
 * up to the budget: a larger budget's is never smaller. Of every fixed strategy the plan is among the candidates, too, if it is not slower
 * for certain.
 *
 * All of this is done twice: with prices alone, and on the advice of the dynamic program over stages (reversal.c), whose budget may be larger
 * than the level: copies make up for that. There windows of each level's best walk are replayed anew (exchange.c). And once more so, with
 * walks that are measured by what came of that. Where a plan may spare copies, that is done twice, too: sparing its copies
 * (plan.h), and making them all, as their check is not always worth its time. None of these knows of the others, so that adding one makes no
 * budget's plan worse. Whoever waits for a plan gets what the first has found.
 *
 * The work is bounded by numbers of walks, not by time: the same request gets the same plan on any machine.
 */
#include <stdlib.h>
#include <string.h>

#include "ckpt/planner/internal.h"

enum { LONG_STEP = 3000, LONG_FOR_ADVICE = 1000 };

/* How much is tried: coarse levels, how many of them are a stretch, levels from one to the next, walks at each. */
typedef struct effort {
    uint32_t cells, stretch, parts, walks;
} effort_t;
static const effort_t much = {25, 5, 8, 16}, little = {12, 4, 4, 5};

/* `program`: what the dynamic program says, for a budget by this share of the way from the level's to what needs no plan. */
typedef struct portfolio_entry {
    bool offload, recompute;
    double chain, idle;
    enum { WITHOUT, ADVISED, FOLLOWED } program;
    double share;
} portfolio_entry_t;

/* Those that win more often come first. */
static const portfolio_entry_t plain[] =
    {{true, true, 0, 1, WITHOUT, 0}, {true, true, 0.25, 0.5, WITHOUT, 0},  {true, false, 0, 1, WITHOUT, 0},
     {true, true, 0, 0, WITHOUT, 0}, {false, true, 0.25, 0.5, WITHOUT, 0}, {true, true, 1, 0, WITHOUT, 0},
     {true, true, 1, 1, WITHOUT, 0}, {false, true, 1, 1, WITHOUT, 0},      {false, true, 0, 0, WITHOUT, 0},
     {false, true, 0, 1, WITHOUT, 0}},
                               by_program[] = {
                                   {true, true, 0, 0, ADVISED, 0.65}, {true, true, 0, 1, ADVISED, 0.8},
                                   {true, true, 0, 1, ADVISED, 0.9},  {true, true, 0, 1, ADVISED, 0.5},
                                   {true, true, 0, 0, ADVISED, 0.8},  {false, true, 0, 0, ADVISED, 0},
                                   {false, true, 0, 1, ADVISED, 0},   {false, true, 0.25, 0.5, ADVISED, 0},
                                   {false, true, 0, 0, FOLLOWED, 0},  {false, true, 1, 0, ADVISED, 0},
                                   {true, true, 0, 0, ADVISED, 0.2}};
enum {
    PLAIN = sizeof plain / sizeof plain[0],
    BY_PROGRAM = sizeof by_program / sizeof by_program[0],
    PORTFOLIO = BY_PROGRAM > PLAIN ? BY_PROGRAM : PLAIN
};

/* Every strategy, with those arguments that its row names. */
static void try_strategies(ebb_candidates_t *c)
{
    static const struct {
        ebb_plan_maker_t *make;
        const char *tries;
    } policies[] = {
#define X(code, name, argument, make, tries) {make, tries},
        EBB_POLICIES(X)
#undef X
    };
    for (unsigned i = 0; i < EBB_POLICY_COUNT; i++) {
        ebb_policy_t policy = {.code = (ebb_policy_code_t)i, .number = 1};
        const char *at = policies[i].tries;
        char *end;
        if (policies[i].make != ebb_strategy_make)
            continue;
        do {
            const uint32_t number = (uint32_t)strtoul(at, &end, 10);
            policy.number = number ? number : 1;
            ebb_candidates_try_strategy(c, &policy);
            at = end;
        } while (*at);
    }
}

typedef struct search {
    ebb_candidates_t *candidates;
    ebb_improver_t improver;
    ebb_bound_t bound;
    effort_t effort;
    const portfolio_entry_t *portfolio; /* [entries] */
    uint8_t entries;
    ebb_fates_t *program; /* NULL: the portfolio does not ask it */
    bool anew;            /* no copies are spared (plan.h) */
    bool told;            /* whoever waits has what the first search found */
    uint8_t order
        [PORTFOLIO]; /* [count] entries of the portfolio that are allowed, the one that was best last first */
    unsigned count;
    uint32_t lowest, stride, fine,
        peak; /* chunks: the first coarse level, from one to the next; of fine ones; what needs no plan */
    uint32_t searched;           /* levels of this stretch */
    bool measured;               /* walks are measured by what comes of better replays; else that is apart: */
    ebb_front_t exchanged;       /* what came of better replays */
    uint64_t exchanged_floor_ns; /* as the candidates', for those */
    uint64_t
        head_ns; /* the fastest that fits the lowest level of the stretch searched last; UINT64_MAX: none */
} search_t;

static uint32_t level(const search_t *s, uint32_t cell)
{
    return s->lowest + cell * s->stride;
}

static void to_front(search_t *s, unsigned place)
{
    const uint8_t winner = s->order[place];
    memmove(s->order + 1, s->order, place);
    s->order[0] = winner;
}

/* The walk aims at fewer chunks if a plan has taken more than it was to, because the places that share chunks did not fit together. */
static ebb_search_params_t params_of(const search_t *s, unsigned place, uint32_t target, uint32_t aim)
{
    const portfolio_entry_t *f = &s->portfolio[s->order[place]];
    const ebb_candidate_t *incumbent = ebb_candidates_best(s->candidates, target);
    return (ebb_search_params_t){.target_chunks = f->program == FOLLOWED ? EBB_NONE / 2 : aim,
                                 .fates = f->program == FOLLOWED ? s->program : NULL,
                                 .advice = f->program == ADVISED ? s->program : NULL,
                                 .fates_chunks = target + (uint32_t)(f->share * (s->peak - target)),
                                 .loosen = f->program != WITHOUT,
                                 .offload = f->offload,
                                 .recompute = f->recompute,
                                 .anew = s->anew,
                                 .most_replay_ns = ebb_candidates_slack(s->candidates, incumbent),
                                 .chain = f->chain,
                                 .idle = f->idle};
}

/* Whether an entry of the portfolio is tried at this level: those that were the best ones lately and one of the others in turn; and as long
 * as no plan is known to fit, some more. */
static bool has_its_turn(const search_t *s, unsigned place, uint32_t target)
{
    const uint32_t walks = s->effort.walks;
    const unsigned lately = walks / 2 - walks / 8;
    return place < lately || (s->count > lately && place == lately + s->searched % (s->count - lately)) ||
           (place < 2 * walks && !ebb_candidates_best(s->candidates, target));
}

/* What is followed must be possible for the program. */
static bool is_possible(const search_t *s, unsigned place, uint32_t target)
{
    const portfolio_entry_t *f = &s->portfolio[s->order[place]];
    bool possible = true;
    for (uint32_t i = 0; f->program == FOLLOWED && i < s->program->stages.pass_count; i++)
        possible = possible && ebb_reversal_ns(&s->program->reversal, i, target) != UINT64_MAX;
    return possible;
}

/* Better replays for the best walk under one target (exchange.c). Where places do not fit together then, for fewer chunks. */
static void exchange(search_t *s, ebb_search_params_t *params, uint32_t target)
{
    enum { TRIES = 3, STATES = 40000 };
    ebb_candidates_t *c = s->candidates;
    const ebb_front_t walked = c->front;
    const uint64_t floor_ns = c->floor_ns;
    if (!s->measured) {
        c->front = s->exchanged;
        c->floor_ns = s->exchanged_floor_ns;
    }
    params->exchange = STATES;
    for (uint32_t i = 0; i < TRIES && i < target; i++) {
        params->exchange_chunks = target - i;
        ebb_candidates_try(c, params, target);
        if (c->chunks <= target)
            break;
    }
    if (s->measured)
        return;
    s->exchanged = c->front;
    c->front = walked;
    c->floor_ns = floor_ns;
}

/* Half of the walks under one target with the portfolio, the others from the best of those on. */
static void search_level(search_t *s, uint32_t target)
{
    ebb_candidates_t *c = s->candidates;
    const uint64_t step = c->model.begin_ns[c->model.trace->operation_count];
    const uint32_t tries = c->tries;
    unsigned winner = PORTFOLIO;
    ebb_search_params_t best = {0};
    uint64_t least = UINT64_MAX;
    uint32_t aim = target;
    for (unsigned i = 0; i < s->count && target < s->peak; i++) {
        if (!has_its_turn(s, i, target) || !is_possible(s, i, target))
            continue;
        const ebb_search_params_t params = params_of(s, i, target, aim);
        const uint64_t ns = ebb_candidates_try(c, &params, target);
        if (c->chunks > target && c->chunks - target <= target / 32 + 2 && 2 * target > c->chunks)
            aim = aim < 2 * target - c->chunks ? aim : 2 * target - c->chunks;
        if (ns <= step + 1)
            return;
        if (ns < least && !params.fates) { /* what is followed has no prices to improve */
            least = ns;
            best = params;
            winner = i;
        }
    }
    s->searched++;
    if (winner == PORTFOLIO)
        return;
    to_front(s, winner);
    best.target_chunks = aim;
    const uint32_t done = c->tries - tries, walks = s->effort.walks;
    best = ebb_improve(&s->improver, &best, target, least, done + 2 < walks ? walks - done : 2);
    if (s->program && !ebb_candidates_done(c, target))
        exchange(s, &best, target);
}

static uint64_t best_ns(const search_t *s, uint32_t chunks)
{
    const ebb_candidate_t *best = ebb_candidates_best(s->candidates, chunks);
    return best ? best->ns : UINT64_MAX;
}

static void search_coarse(search_t *s, uint32_t cell)
{
    s->candidates->least = cell ? level(s, cell - 1) : 0;
    search_level(s, level(s, cell));
}

/* The lowest level of a stretch, the front being the stretch's own. */
static void begin_stretch(search_t *s, uint32_t cell)
{
    const ebb_model_t *m = &s->candidates->model;
    s->count = s->searched = 0;
    for (uint8_t i = 0; i < s->entries; i++)
        if ((m->request->offload || !s->portfolio[i].offload) &&
            (m->request->recompute || !s->portfolio[i].recompute))
            s->order[s->count++] = i;
    ebb_improver_reset(&s->improver);
    search_coarse(s, cell);
}

/* The fine levels behind a coarse one, up to so many chunks. */
static void search_fine(search_t *s, uint32_t cell, uint64_t floor_ns, uint32_t most)
{
    ebb_candidates_t *c = s->candidates;
    c->floor_ns = s->exchanged_floor_ns = floor_ns == UINT64_MAX ? 0 : floor_ns;
    const ebb_candidate_t *known = ebb_front_best(&s->exchanged, level(s, cell + 1));
    if (known && known->ns < floor_ns)
        s->exchanged_floor_ns = known->ns;
    for (uint32_t target = level(s, cell) + s->fine;
         target <= most && target < level(s, cell + 1) && target < s->peak; target += s->fine) {
        c->least = target;
        search_level(s, target);
    }
    c->floor_ns = s->exchanged_floor_ns = 0;
}

/* A stretch as far as a budget of `most` chunks looks at it; EBB_NONE: up to the least that will do, at which such a budget would look
 * too. What the lowest level of the next one comes to is known: head_ns. */
static void search_stretch(search_t *s, uint32_t first, uint32_t most)
{
    const uint32_t end = first + s->effort.stretch;
    const uint64_t next_head_ns = s->head_ns;
    ebb_front_t others = ebb_candidates_apart(s->candidates);
    begin_stretch(s, first);
    s->head_ns = best_ns(s, level(s, first));
    for (uint32_t cell = first; cell < end && level(s, cell) <= most; cell++) {
        if (cell + 1 < end)
            search_coarse(s, cell + 1);
        uint64_t floor_ns = best_ns(s, level(s, cell + 1));
        if (cell + 1 == end && next_head_ns < floor_ns)
            floor_ns = next_head_ns;
        /* What keeps everything is the next, and no plan is faster. */
        const bool last = level(s, cell + 1) >= s->peak;
        if (floor_ns == UINT64_MAX || most < level(s, cell + 1) || most == EBB_NONE)
            search_fine(s, cell, last ? 0 : floor_ns, most);
        if (most == EBB_NONE && best_ns(s, level(s, cell + 1)) != UINT64_MAX)
            break;
    }
    ebb_candidates_join(s->candidates, &others);
}

static void search_head(search_t *s, uint32_t first)
{
    ebb_front_t others = ebb_candidates_apart(s->candidates);
    begin_stretch(s, first);
    s->head_ns = best_ns(s, level(s, first));
    ebb_candidates_join(s->candidates, &others);
}

/* From the budget's own stretch down; then, if there is no plan, up to what would do. */
static void search_levels(search_t *s)
{
    ebb_candidates_t *c = s->candidates;
    const uint32_t length = s->effort.stretch, above = c->limit > s->lowest ? c->limit - s->lowest : 0,
                   cell = above / s->stride, own = cell - cell % length;
    for (uint32_t first = own + length; c->limit >= s->lowest && first > 0;) {
        const ebb_candidate_t *best = ebb_candidates_best(c, c->limit);
        if (first <= own && best && ebb_bound_ns(&s->bound, level(s, first)) >= best->ns)
            break;
        first -= length;
        if (first == own && cell + 1 == own + length)
            search_head(s, cell + 1);
        search_stretch(s, first, first == own ? c->limit : s->peak);
        c->reached = c->limit - above % s->stride % s->fine;
    }
    for (uint32_t first = own; !ebb_candidates_best(c, c->limit) && level(s, first) < s->peak;
         first += length) {
        search_head(s, first + length);
        search_stretch(s, first, EBB_NONE);
        if (c->front.count && c->front.candidate[0].chunks <= level(s, first + length))
            break;
    }
    c->least = 0;
}

/* The first level: what no plan can do without. */
static uint32_t lowest_of(const search_t *s)
{
    const ebb_model_t *m = &s->candidates->model;
    uint32_t low = m->widest_chunks < s->peak ? m->widest_chunks : s->peak, high = s->peak;
    while (low < high) {
        const uint32_t middle = low + (high - low) / 2;
        if (ebb_bound_ns(&s->bound, middle) == UINT64_MAX)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Of the first search, as more is looked for. */
static void tell(search_t *s)
{
    if (!s->told)
        ebb_candidates_tell(s->candidates);
    s->told = true;
}

/* By the program's advice, as if there were no other way: what each of the two finds does not depend on the other. Its walks take longer, and
 * long steps have gained nothing by it. */
static void search_by_program(search_t *s)
{
    ebb_candidates_t *c = s->candidates;
    ebb_fates_t program;
    if (!c->model.request->recompute || c->model.trace->operation_count > LONG_FOR_ADVICE ||
        ebb_candidates_done(c, c->limit))
        return;
    tell(s);
    if (!ebb_fates_make_reversal(&program, &c->model, s->peak)) {
        c->no_memory = true;
        return;
    }
    s->program = &program;
    s->portfolio = by_program;
    s->entries = BY_PROGRAM;
    for (int i = 0; i < 2; i++) {
        ebb_front_t others = ebb_candidates_apart(c);
        s->measured = i;
        s->head_ns = 0;
        search_levels(s);
        ebb_candidates_join(c, &s->exchanged);
        ebb_candidates_join(c, &others);
    }
    s->program = NULL;
    s->measured = false;
    ebb_fates_delete(&program);
}

/* With prices alone, and by the program's advice. */
static void search_both(search_t *s)
{
    s->portfolio = plain;
    s->entries = PLAIN;
    s->head_ns = 0;
    search_levels(s);
    search_by_program(s);
}

/* Whether plans spare copies: if one does that has as little as possible, which is the same for every budget. */
static bool may_spare(search_t *s)
{
    ebb_candidates_t *c = s->candidates;
    const ebb_plan_request_t *r = c->model.request;
    const ebb_search_params_t least = {.target_chunks = s->lowest,
                                       .offload = r->offload,
                                       .recompute = r->recompute,
                                       .most_replay_ns = UINT64_MAX,
                                       .idle = 1};
    if (!r->offload || r->hardware.clean <= 0 || ebb_candidates_done(c, c->limit))
        return false;
    ebb_candidates_try(c, &least, s->lowest);
    for (uint32_t i = 0; i < c->schedule.move_count; i++)
        if (c->schedule.move[i].spared && c->schedule.move[i].position != EBB_NONE)
            return true;
    return false;
}

static void search(ebb_candidates_t *c, uint32_t peak)
{
    search_t s = {.candidates = c, .peak = peak};
    s.effort = c->model.trace->operation_count <= LONG_STEP ? much : little;
    if (!ebb_bound_make(&s.bound, &c->model)) {
        c->no_memory = true;
        return;
    }
    s.lowest = lowest_of(&s);
    s.fine = (peak - s.lowest) / (s.effort.cells * s.effort.parts) + 1;
    s.stride = s.fine * s.effort.parts;
    if (ebb_improver_begin(&s.improver, c)) {
        search_both(&s);
        if (may_spare(&s)) {
            tell(&s);
            ebb_front_t others = ebb_candidates_apart(c);
            s.anew = true;
            search_both(&s);
            ebb_candidates_join(c, &others);
        }
        ebb_improver_end(&s.improver);
    }
    ebb_bound_delete(&s.bound);
}

ebb_plan_t *ebb_auto_make(const ebb_trace_t *trace, const ebb_plan_request_t *request,
                          const ebb_policy_t *policy, char *why, size_t why_bytes)
{
    (void)policy;
    ebb_candidates_t c;
    if (!ebb_candidates_begin(&c, trace, request, why, why_bytes))
        return NULL;
    const uint32_t peak = ebb_candidates_keep_peak(&c);
    const ebb_search_params_t keep = {.most_replay_ns = UINT64_MAX, .target_chunks = peak};
    ebb_candidates_try(&c, &keep, peak);
    c.reached = peak > c.limit ? 0 : peak;
    if (peak > c.limit)
        search(&c, peak);
    try_strategies(&c);
    return ebb_candidates_end(&c, why, why_bytes);
}
