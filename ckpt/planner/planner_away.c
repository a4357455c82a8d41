/* planner_away.c: what was copied out and must come back: a heap by the moments at which copies should begin, and a list of those
 * whose moment has come. */
#include "planner_walk.h"

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

void ebb_planner_not_away(ebb_planner_walk_t *w, uint32_t buffer)
{
    const uint32_t at = w->seat[buffer].away;
    w->seat[buffer].booking++;
    if (at == EBB_NONE)
        return;
    const uint32_t moved = w->away[--w->away_count];
    w->away[at] = moved;
    w->seat[moved].away = at;
    w->seat[buffer].away = EBB_NONE;
}

/* Moves those whose moment has come into the list. */
static void collect(ebb_planner_walk_t *w)
{
    const double now = (double)w->model->begin_ns[w->point + 1];
    while (w->awaited_count && w->awaited[0].ns <= now) {
        const ebb_awaited_t a = w->awaited[0];
        w->awaited_count--;
        if (w->awaited_count)
            sink(w, w->awaited[w->awaited_count]);
        ebb_seat_t *s = &w->seat[a.buffer];
        if (s->booking != a.booking || s->away != EBB_NONE)
            continue;
        s->away = w->away_count;
        w->away[w->away_count++] = a.buffer;
    }
}

uint32_t ebb_planner_due(ebb_planner_walk_t *w)
{
    uint32_t best = EBB_NONE, first = EBB_NONE;
    collect(w);
    for (uint32_t i = 0; i < w->away_count; i++) {
        const ebb_use_t *next = ebb_planner_next(w, w->away[i]);
        if (next && (next->operation < first || (next->operation == first && w->away[i] < best))) {
            first = next->operation;
            best = w->away[i];
        }
    }
    return best;
}
