/* improve.c: see improve.h. The walk decides by prices; a local search in the prices reaches what all its decisions together come to,
 * which a search in single decisions would have to repair after each step. */
#include "improve.h"

#include <stdlib.h>
#include <string.h>

typedef struct search {
    ebb_candidates_t *candidates;
    uint32_t buffers;
    double *drop, *offload;           /* per buffer: ns on top of the price, being tried */
    double *best_drop, *best_offload; /* of the best so far */
    uint64_t chance;
} search_t;

/* From 0 to 1. */
static double draw(search_t *s)
{
    s->chance = s->chance * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (double)(s->chance >> 40) / (double)(1 << 24);
}

/* What the plan for the schedule that was walked last would be told by the simulator: what waited for whom. */
static bool blame(search_t *s, double weight)
{
    ebb_candidates_t *c = s->candidates;
    const ebb_model_t *m = &c->model;
    ebb_overlay_t overlay;
    if (!ebb_overlay_make(&overlay, &c->schedule, m, EBB_NONE / 2))
        return false;
    ebb_plan_t *p = ebb_schedule_emit(&c->schedule, &overlay, m);
    ebb_simulation_t told;
    const bool good = p && ebb_simulate(&told, p, m->trace, &m->request->hardware, true);
    for (uint32_t i = 0; good && i < told.span_count; i++) {
        const ebb_span_t *span = &told.span[i];
        const bool is_wait = span->lane == EBB_LANE_WAIT_IN || span->lane == EBB_LANE_WAIT_OUT;
        const uint32_t place = is_wait ? p->action[span->index].place : EBB_NONE;
        if (place < s->buffers)
            s->offload[place] += weight * (span->end_ns - span->begin_ns);
    }
    uint32_t *replays = good ? calloc((size_t)m->trace->operation_count + 1, sizeof *replays) : NULL;
    for (uint32_t i = 0; replays && i < p->action_count; i++) {
        const uint32_t operation = p->action[i].operation;
        if (p->action[i].kind != EBB_REPLAY || !replays[operation]++)
            continue;
        for (uint32_t k = m->first_touch[operation]; k < m->first_touch[operation + 1]; k++)
            if (m->touch[k].mode != EBB_READS)
                s->drop[m->touch[k].buffer] += weight * (double)m->trace->operation[operation].duration_ns;
    }
    free(replays);
    if (good)
        ebb_simulation_delete(&told);
    ebb_plan_delete(p);
    ebb_overlay_delete(&overlay);
    return good;
}

/* One buffer in eight becomes dearer or cheaper, by a part of what copying or making it costs. */
static void shake(search_t *s)
{
    const ebb_model_t *m = &s->candidates->model;
    for (uint32_t i = 0; i < s->buffers; i++) {
        if (!m->buffer[i].movable || draw(s) > 0.125)
            continue;
        const uint32_t last = m->buffer[i].first_content + m->buffer[i].content_count - 1;
        const double copy = (double)ebb_model_transfer_ns(m, i, true),
                     make = (double)m->content[last].cost_ns;
        s->offload[i] += (draw(s) - 0.4) * copy;
        s->drop[i] += (draw(s) - 0.4) * (make < 4 * copy ? make : 4 * copy);
    }
}

static void copy_prices(search_t *s, bool to_best)
{
    const size_t bytes = s->buffers * sizeof(double);
    memcpy(to_best ? s->best_drop : s->drop, to_best ? s->drop : s->best_drop, bytes);
    memcpy(to_best ? s->best_offload : s->offload, to_best ? s->offload : s->best_offload, bytes);
}

static void go(search_t *s, ebb_taste_t taste, uint64_t best, uint32_t walks)
{
    ebb_candidates_t *c = s->candidates;
    static const double weights[] = {1, 0.25, 4};
    const uint64_t step = c->model.begin_ns[c->model.trace->operation_count];
    taste.more_to_drop = s->drop;
    taste.more_to_offload = s->offload;
    uint32_t round = 0;
    for (uint32_t i = 0; i < walks && !ebb_candidates_done(c, taste.target_chunks); i++, round++) {
        copy_prices(s, false);
        if (round % 2 ==
            0) { /* the best one has to be walked again to be looked at; cheaper than to keep it */
            if (!ebb_schedule_walk(&c->schedule, &c->model, &taste) || !blame(s, weights[round / 2 % 3]))
                return;
        } else {
            shake(s);
        }
        taste.most_replay_ns = best - step;
        const uint64_t ns = ebb_candidates_try(c, &taste);
        taste.most_replay_ns = UINT64_MAX;
        if (ns >= best)
            continue;
        best = ns;
        copy_prices(s, true);
    }
}

void ebb_improve(ebb_candidates_t *c, const ebb_taste_t *taste, uint64_t ns, uint32_t walks)
{
    const size_t buffers = (size_t)c->model.trace->buffer_count + 1;
    search_t s = {.candidates = c, .buffers = c->model.trace->buffer_count, .chance = taste->target_chunks};
    s.drop = calloc(buffers, sizeof *s.drop);
    s.offload = calloc(buffers, sizeof *s.offload);
    s.best_drop = calloc(buffers, sizeof *s.best_drop);
    s.best_offload = calloc(buffers, sizeof *s.best_offload);
    if (s.drop && s.offload && s.best_drop && s.best_offload)
        go(&s, *taste, ns, walks);
    else
        c->no_memory = true;
    free(s.drop);
    free(s.offload);
    free(s.best_drop);
    free(s.best_offload);
}
