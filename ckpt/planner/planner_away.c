/* planner_away.c: what was copied out and must come back: a heap by the moments at which copies should begin, and a heap by the next
 * use of those whose moment has come. */
#include "ckpt/planner/planner_walk.h"

static void sink(ebb_planner_walk_t *w, ebb_awaited_t a)
{
    uint32_t at = 0;
    for (uint32_t child; (child = 2 * at + 1) < w->awaited_count; at = child) {
        child += child + 1 < w->awaited_count && w->awaited[child + 1].ns < w->awaited[child].ns;
        if (a.ns <= w->awaited[child].ns)
            break;
        w->awaited[at] = w->awaited[child];
    }
    w->awaited[at] = a;
}

void ebb_planner_await(ebb_planner_walk_t *w, uint32_t buffer)
{
    ebb_seat_t *s = &w->seat[buffer];
    const ebb_awaited_t a = {s->fetch_ns, buffer, ++s->booking};
    if (!ebb_array_append((void **)&w->awaited, &w->awaited_count, &w->awaited_room, sizeof a)) {
        w->failed = true;
        return;
    }
    uint32_t at = w->awaited_count - 1;
    for (; at && a.ns < w->awaited[(at - 1) / 2].ns; at = (at - 1) / 2)
        w->awaited[at] = w->awaited[(at - 1) / 2];
    w->awaited[at] = a;
}

/* ---- whose moment has come ---- */

static bool sooner(const ebb_planner_walk_t *w, uint32_t a, uint32_t b)
{
    const uint32_t x = w->seat[a].next_operation, y = w->seat[b].next_operation;
    return x < y || (x == y && a < b);
}

static void put_away(ebb_planner_walk_t *w, uint32_t at, uint32_t buffer)
{
    w->away[at] = buffer;
    w->seat[buffer].away = at;
}

/* To its place among those between which it lies. */
static void settle(ebb_planner_walk_t *w, uint32_t at, uint32_t buffer)
{
    for (; at && sooner(w, buffer, w->away[(at - 1) / 2]); at = (at - 1) / 2)
        put_away(w, at, w->away[(at - 1) / 2]);
    for (uint32_t child; (child = 2 * at + 1) < w->away_count; at = child) {
        child += child + 1 < w->away_count && sooner(w, w->away[child + 1], w->away[child]);
        if (sooner(w, buffer, w->away[child]))
            break;
        put_away(w, at, w->away[child]);
    }
    put_away(w, at, buffer);
}

void ebb_planner_not_away(ebb_planner_walk_t *w, uint32_t buffer)
{
    const uint32_t at = w->seat[buffer].away;
    w->seat[buffer].booking++;
    if (at == EBB_NONE)
        return;
    w->seat[buffer].away = EBB_NONE;
    const uint32_t moved = w->away[--w->away_count];
    if (moved != buffer)
        settle(w, at, moved);
}

static void collect(ebb_planner_walk_t *w)
{
    const double now = (double)w->model->begin_ns[w->point + 1];
    while (w->awaited_count && w->awaited[0].ns <= now) {
        const ebb_awaited_t a = w->awaited[0];
        w->awaited_count--;
        if (w->awaited_count)
            sink(w, w->awaited[w->awaited_count]);
        const ebb_seat_t *s = &w->seat[a.buffer];
        if (s->booking == a.booking && s->away == EBB_NONE)
            settle(w, w->away_count++, a.buffer);
    }
}

uint32_t ebb_planner_due(ebb_planner_walk_t *w)
{
    collect(w);
    return w->away_count && w->seat[w->away[0]].next_operation != EBB_NONE ? w->away[0] : EBB_NONE;
}
