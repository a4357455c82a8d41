/* rank.c: what is given up next: a heap of the resident buffers by their scores.
 *
 * A score holds for a moment. Most only rise as time goes on, as what is idle comes nearer to its next use: so the first of the
 * heap is scored again when it is wanted, and sinks if it has risen. What has just been used may become cheaper, as its copy finds
 * more time behind it: such a buffer is scored again when there will be enough.
 */
#include <math.h>

#include "ckpt/planner/internal.h"

enum { PASSED_OVER = 32 /* for a prefetch, which can wait */ };

static bool precedes(const ebb_planner_walk_t *w, uint32_t a, uint32_t b)
{
    const double x = w->state[a].score, y = w->state[b].score;
    return x < y || (x <= y && a < b);
}

static void put(ebb_planner_walk_t *w, uint32_t at, uint32_t buffer)
{
    w->ranking[at] = buffer;
    w->state[buffer].rank = at;
}

static void rise(ebb_planner_walk_t *w, uint32_t buffer)
{
    uint32_t at = w->state[buffer].rank;
    for (; at && precedes(w, buffer, w->ranking[(at - 1) / 2]); at = (at - 1) / 2)
        put(w, at, w->ranking[(at - 1) / 2]);
    put(w, at, buffer);
}

static void sink(ebb_planner_walk_t *w, uint32_t buffer)
{
    uint32_t at = w->state[buffer].rank;
    for (uint32_t child; (child = 2 * at + 1) < w->rank_count; at = child) {
        child += child + 1 < w->rank_count && precedes(w, w->ranking[child + 1], w->ranking[child]);
        if (!precedes(w, w->ranking[child], buffer))
            break;
        put(w, at, w->ranking[child]);
    }
    put(w, at, buffer);
}

static void leave(ebb_planner_walk_t *w, uint32_t buffer)
{
    const uint32_t at = w->state[buffer].rank;
    if (at == EBB_NONE)
        return;
    w->state[buffer].rank = EBB_NONE;
    const uint32_t moved = w->ranking[--w->rank_count];
    if (moved == buffer)
        return;
    put(w, at, moved);
    rise(w, moved);
    sink(w, moved);
}

/* Into the heap, by the score that it has. */
static void enter(ebb_planner_walk_t *w, uint32_t buffer)
{
    if (w->state[buffer].rank == EBB_NONE)
        put(w, w->rank_count++, buffer);
    rise(w, buffer);
    sink(w, buffer);
}

/* A buffer that could be copied out later for less is scored again then; in ever longer intervals, as others take the link that it
 * waits for. */
static void score_later(ebb_planner_walk_t *w, uint32_t buffer)
{
    ebb_buffer_state_t *s = &w->state[buffer];
    const uint32_t end = w->model->trace->operation_count, soon = w->point + 1 + (w->point - s->touched) / 4,
                   point = ebb_planner_operation_at(w, soon < end ? soon : end, end, s->out_by_ns);
    if (s->out_by_ns <= (double)w->model->begin_ns[w->point] || point >= end || s->due != EBB_NONE)
        return;
    s->due = point;
    s->next_due = w->due[point];
    w->due[point] = buffer;
}

static void rank(ebb_planner_walk_t *w, uint32_t buffer)
{
    ebb_buffer_state_t *s = &w->state[buffer];
    if (s->dead || s->content != s->program) {
        s->fate = EBB_FORGET;
        s->score = -1;
    } else {
        ebb_planner_score(w, buffer);
    }
    if (isinf(s->score))
        leave(w, buffer);
    else
        enter(w, buffer);
}

void ebb_planner_rank(ebb_planner_walk_t *w, uint32_t buffer)
{
    ebb_buffer_state_t *s = &w->state[buffer];
    if (!w->model->buffer[buffer].chunks || s->content == EBB_NONE)
        return;
    s->touched = w->point;
    s->waits = true;
    leave(w, buffer);
    if (!s->listed)
        w->waiting[w->waiting_count++] = buffer;
    s->listed = true;
}

void ebb_planner_unrank(ebb_planner_walk_t *w, uint32_t buffer)
{
    w->state[buffer].waits = false; /* in the list it is passed over */
    leave(w, buffer);
}

/* What has become due up to this point is scored again. */
static void rank_due(ebb_planner_walk_t *w)
{
    for (; w->next_due <= w->point; w->next_due++)
        for (uint32_t b = w->due[w->next_due], next; b != EBB_NONE; b = next) {
            ebb_buffer_state_t *s = &w->state[b];
            next = s->next_due;
            s->due = EBB_NONE;
            if (s->content == EBB_NONE || s->waits || s->pins || s->fresh || s->score < 0)
                continue;
            rank(w, b);
            score_later(w, b);
        }
}

/* What has been touched since. */
static void rank_waiting(ebb_planner_walk_t *w)
{
    for (uint32_t i = 0; i < w->waiting_count; i++) {
        const uint32_t b = w->waiting[i];
        w->state[b].listed = false;
        if (!w->state[b].waits)
            continue;
        w->state[b].waits = false;
        rank(w, b);
        if (w->state[b].score >= 0 && w->params->offload && w->model->buffer[b].movable)
            score_later(w, b);
    }
    w->waiting_count = 0;
}

/* What could not be given up before may be now: everything is scored. */
static void rank_all(ebb_planner_walk_t *w)
{
    for (uint32_t i = 0; i < w->resident_count; i++)
        if (!w->state[w->resident[i]].fresh)
            rank(w, w->resident[i]);
}

static bool may_go(const ebb_planner_walk_t *w, uint32_t buffer, uint32_t beyond)
{
    const ebb_buffer_state_t *s = &w->state[buffer];
    return !s->pins && !s->fresh && (s->score < 0 || s->next_operation > beyond);
}

/* The first of the heap that may go and has its score of now. */
static uint32_t find(ebb_planner_walk_t *w, uint32_t beyond)
{
    uint32_t aside[PASSED_OVER], count = 0, found = EBB_NONE;
    while (w->rank_count && found == EBB_NONE && count < PASSED_OVER) {
        const uint32_t best = w->ranking[0];
        ebb_buffer_state_t *s = &w->state[best];
        if (!may_go(w, best, beyond)) {
            leave(w, best);
            aside[count++] = best;
        } else {
            const double before = s->score;
            rank(w, best);
            if (w->rank_count && w->ranking[0] == best)
                found = best;
            if (!isinf(s->score) || !w->replaying)
                continue;
            s->score = before; /* only while a replay is prepared */
            aside[count++] = best;
        }
    }
    while (count)
        enter(w, aside[--count]);
    return found;
}

uint32_t ebb_planner_find_victim(ebb_planner_walk_t *w, uint32_t beyond)
{
    rank_due(w);
    rank_waiting(w);
    uint32_t victim = find(w, beyond);
    if (victim != EBB_NONE || beyond != w->point || !w->searches)
        return victim;
    w->searches--;
    rank_all(w);
    return find(w, beyond);
}
