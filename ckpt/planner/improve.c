/* improve.c: see internal.h. The walk decides by prices; a local search in the prices reaches what all its decisions together come to,
 * which a search in single decisions would have to repair after each step. */
#include "ckpt/planner/internal.h"

#include <stdlib.h>
#include <string.h>

/* From 0 to 1. */
static double draw(ebb_improver_t *s)
{
    s->chance = s->chance * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (double)(s->chance >> 40) / (double)(1 << 24);
}

/* What compute waited for in a plan becomes dearer to move. Whether there was any. */
static bool blame_waits(ebb_improver_t *s, const ebb_plan_t *p, double weight)
{
    const ebb_candidates_t *c = s->candidates;
    ebb_simulation_t told;
    bool found = false;
    if (!ebb_simulate(&told, p, c->model.trace, &c->model.request->hardware, true))
        return false;
    for (uint32_t i = 0; i < told.span_count; i++) {
        const ebb_span_t *span = &told.span[i];
        if (span->track != EBB_TRACK_WAIT_IN && span->track != EBB_TRACK_WAIT_OUT)
            continue;
        const uint32_t place = p->action[span->index].place;
        if (place < s->buffers) {
            s->offload[place] += weight * (span->end_ns - span->begin_ns);
            found = true;
        }
    }
    ebb_simulation_delete(&told);
    return found;
}

/* What was replayed again and again becomes dearer to drop. Whether there was any. */
static bool blame_replays(ebb_improver_t *s, const ebb_plan_t *p, double weight)
{
    const ebb_model_t *m = &s->candidates->model;
    uint32_t *replays = calloc((size_t)m->trace->operation_count + 1, sizeof *replays);
    bool found = false;
    for (uint32_t i = 0; replays && i < p->action_count; i++) {
        const uint32_t operation = p->action[i].operation;
        if (p->action[i].kind != EBB_REPLAY || !replays[operation]++)
            continue;
        found = true;
        for (uint32_t k = m->first_touch[operation]; k < m->first_touch[operation + 1]; k++)
            if (m->touch[k].mode != EBB_READS)
                s->drop[m->touch[k].buffer] += weight * (double)m->trace->operation[operation].duration_ns;
    }
    free(replays);
    return found;
}

/* Of both ways the mean. */
static double copy_ns(const ebb_model_t *m, uint32_t buffer)
{
    return ((double)ebb_model_transfer_ns(m, buffer, false) +
            (double)ebb_model_transfer_ns(m, buffer, true)) /
           2;
}

/* A few of what the plan gives up become as dear as the copy or the replay that it costs now, several times over: something else
 * is given up in their stead, or nothing, if it was too much. */
static void forbid(ebb_improver_t *s, const ebb_plan_t *p)
{
    const ebb_model_t *m = &s->candidates->model;
    uint32_t wanted = 1 + (uint32_t)(2.99 * draw(s));
    for (uint32_t tries = 0; wanted && tries < 64; tries++) {
        const ebb_action_t *a = &p->action[(uint32_t)(draw(s) * p->action_count) % p->action_count];
        if ((a->kind != EBB_EVICT && a->kind != EBB_DISCARD) || a->place >= s->buffers)
            continue;
        wanted--;
        if (a->kind == EBB_EVICT) {
            s->offload[a->place] += 8 * copy_ns(m, a->place);
            continue;
        }
        const ebb_model_buffer_t *b = &m->buffer[a->place];
        const ebb_content_t *last = &m->content[b->first_content + b->content_count - 1];
        for (uint32_t k = m->first_touch[last->producer]; k < m->first_touch[last->producer + 1]; k++)
            if (m->touch[k].mode != EBB_READS)
                s->drop[m->touch[k].buffer] += 8 * (double)last->cost_ns;
    }
}

/* One buffer in eight becomes dearer or cheaper, by a part of what copying or making it costs. */
static void shake(ebb_improver_t *s)
{
    const ebb_model_t *m = &s->candidates->model;
    for (uint32_t i = 0; i < s->buffers; i++) {
        if (!m->buffer[i].movable || draw(s) > 0.125)
            continue;
        const uint32_t last = m->buffer[i].first_content + m->buffer[i].content_count - 1;
        const double copy = copy_ns(m, i), make = (double)m->content[last].cost_ns;
        s->offload[i] += (draw(s) - 0.4) * copy;
        s->drop[i] += (draw(s) - 0.4) * (make < 4 * copy ? make : 4 * copy);
    }
}

static void copy_prices(ebb_improver_t *s, bool to_best)
{
    const size_t bytes = s->buffers * sizeof(double);
    memcpy(to_best ? s->best_drop : s->drop, to_best ? s->drop : s->best_drop, bytes);
    memcpy(to_best ? s->best_offload : s->offload, to_best ? s->offload : s->best_offload, bytes);
}

static void forget(ebb_improver_t *s)
{
    memset(s->best_drop, 0, s->buffers * sizeof(double));
    memset(s->best_offload, 0, s->buffers * sizeof(double));
}

/* The prices for the next try: what is known to be wrong first. */
static void change(ebb_improver_t *s, const ebb_plan_t *best)
{
    static const double weights[] = {1, 0.25, 4};
    const uint32_t round = s->round++;
    const double weight = weights[round / 3 % 3];
    copy_prices(s, false);
    if (round % 3 == 0 && blame_waits(s, best, weight) | blame_replays(s, best, weight))
        return;
    if (round % 3 == 2 || !best->action_count)
        shake(s);
    else
        forbid(s, best);
}

ebb_search_params_t ebb_improve(ebb_improver_t *s, const ebb_search_params_t *start, uint32_t chunks,
                                uint64_t best, uint32_t walks)
{
    ebb_candidates_t *c = s->candidates;
    const uint64_t step = c->model.begin_ns[c->model.trace->operation_count];
    ebb_search_params_t params = *start;
    params.more_to_drop = s->drop;
    params.more_to_offload = s->offload;
    copy_prices(s, false);
    for (uint32_t i = 0; i < walks && !ebb_candidates_done(c, chunks); i++) {
        params.most_replay_ns = UINT64_MAX;
        const ebb_candidate_t *known = ebb_candidates_best(c, chunks);
        const uint64_t known_ns = known ? known->ns : 0;
        if (i && !known)
            break;
        if (i)
            change(s, known->plan);
        params.most_replay_ns = best - step;
        const uint64_t ns = ebb_candidates_try(c, &params, chunks);
        /* Aim at less where this takes too much and there is something better that does not. */
        if (c->chunks > chunks && params.target_chunks > chunks / 2 && best > known_ns)
            params.target_chunks -= (c->chunks - chunks + 1) / 2;
        if (ns < best) {
            best = ns;
            copy_prices(s, true);
        } else if (!i) {
            forget(s);
        }
    }
    copy_prices(s, false);
    params.most_replay_ns = UINT64_MAX;
    return params;
}

bool ebb_improver_begin(ebb_improver_t *s, ebb_candidates_t *c)
{
    const size_t buffers = (size_t)c->model.trace->buffer_count + 1;
    *s = (ebb_improver_t){.candidates = c, .buffers = c->model.trace->buffer_count, .chance = 1};
    s->drop = calloc(buffers, sizeof *s->drop);
    s->offload = calloc(buffers, sizeof *s->offload);
    s->best_drop = calloc(buffers, sizeof *s->best_drop);
    s->best_offload = calloc(buffers, sizeof *s->best_offload);
    if (s->drop && s->offload && s->best_drop && s->best_offload)
        return true;
    c->no_memory = true;
    ebb_improver_end(s);
    return false;
}

void ebb_improver_reset(ebb_improver_t *s)
{
    forget(s);
    s->chance = 1;
    s->round = 0;
}

void ebb_improver_end(ebb_improver_t *s)
{
    free(s->drop);
    free(s->offload);
    free(s->best_drop);
    free(s->best_offload);
}
