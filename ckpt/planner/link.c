/* link.c: what the walk has booked on the link. */
#include "ckpt/planner/internal.h"

/* ---- the calendar ----
 *
 * The walk's calendar of the link: an estimate of whether a copy can hide behind the step.
 * What it really comes to, plan/simulate.c computes from the plan. The two ways know nothing of each other: with time that is taken
 * of one of them taken of the other as well, by what each loses while both are in use, steps were as often longer as shorter
 * (by up to two fifths, and a tenth; GPT-2 and tests/ckpt/programs/lanes.c at nine budgets, 25 GB/s out and 11 or 21 in).
 */

static void sum_up(ebb_calendar_t *c)
{
    for (int i = 0; i < EBB_LINK_SLOTS; i++)
        c->before[i + 1] = c->before[i] + c->room[i];
}

void ebb_calendar_clear(ebb_calendar_t *c, double step_ns)
{
    c->slot_ns = step_ns / EBB_LINK_SLOTS + 1e-6;
    for (int i = 0; i < EBB_LINK_SLOTS; i++)
        c->room[i] = c->slot_ns;
    sum_up(c);
}

static int slot_of(const ebb_calendar_t *c, double sync)
{
    double slot = sync / c->slot_ns;
    return slot <= 0 ? 0 : slot >= EBB_LINK_SLOTS - 1 ? EBB_LINK_SLOTS - 1 : (int)slot;
}

/* Free time up to a moment; within a slot in proportion. */
static double free_before(const ebb_calendar_t *c, double sync)
{
    int slot = slot_of(c, sync);
    double part = (sync - slot * c->slot_ns) / c->slot_ns;
    return c->before[slot] + c->room[slot] * (part < 0 ? 0 : part > 1 ? 1 : part);
}

double ebb_calendar_free(const ebb_calendar_t *c, double from, double to)
{
    return to > from ? free_before(c, to) - free_before(c, from) : 0;
}

double ebb_calendar_take_after(ebb_calendar_t *c, double from, double ns)
{
    int first = slot_of(c, from);
    double end = from;
    for (int i = 0; i < EBB_LINK_SLOTS && ns > 0; i++) {
        int slot = (first + i) % EBB_LINK_SLOTS;
        double taken = c->room[slot] < ns ? c->room[slot] : ns;
        c->room[slot] -= taken;
        ns -= taken;
        if (taken > 0)
            end = (first + i + 1) * c->slot_ns - c->room[slot];
    }
    sum_up(c);
    return end;
}

double ebb_calendar_take_before(ebb_calendar_t *c, double deadline, double ns)
{
    int slot = slot_of(c, deadline) - 1; /* the slot of the deadline itself is its reserve */
    for (; slot >= 0; slot--) {
        double taken = c->room[slot] < ns ? c->room[slot] : ns;
        c->room[slot] -= taken;
        ns -= taken;
        if (ns <= 0)
            break;
    }
    sum_up(c);
    return slot > 0 ? slot * c->slot_ns : 0;
}

/* ---- fetches ----
 *
 * What was copied out and must come back: a heap by the moments at which copies should begin, and a heap by the next
 * use of those whose moment has come.
 */

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
    ebb_buffer_state_t *s = &w->state[buffer];
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
    const uint32_t x = w->state[a].next_operation, y = w->state[b].next_operation;
    return x < y || (x == y && a < b);
}

static void put_away(ebb_planner_walk_t *w, uint32_t at, uint32_t buffer)
{
    w->away[at] = buffer;
    w->state[buffer].away = at;
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
    const uint32_t at = w->state[buffer].away;
    w->state[buffer].booking++;
    if (at == EBB_NONE)
        return;
    w->state[buffer].away = EBB_NONE;
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
        const ebb_buffer_state_t *s = &w->state[a.buffer];
        if (s->booking == a.booking && s->away == EBB_NONE)
            settle(w, w->away_count++, a.buffer);
    }
}

uint32_t ebb_planner_due(ebb_planner_walk_t *w)
{
    collect(w);
    return w->away_count && w->state[w->away[0]].next_operation != EBB_NONE ? w->away[0] : EBB_NONE;
}
