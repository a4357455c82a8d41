/* planner_link.c: the walk's calendar of the link: an estimate of whether a copy can hide behind the step.
 * What it really comes to, plan/simulate.c computes from the plan. The two ways know nothing of each other: with time that is taken
 * of one of them taken of the other as well, by what each loses while both are in use, steps were as often longer as shorter
 * (by up to two fifths, and a tenth; GPT-2 and tests/ckpt/programs/lanes.c at nine budgets, 25 GB/s out and 11 or 21 in). */
#include "ckpt/planner/planner_walk.h"

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

static int slot_of(const ebb_calendar_t *c, double moment)
{
    double slot = moment / c->slot_ns;
    return slot <= 0 ? 0 : slot >= EBB_LINK_SLOTS - 1 ? EBB_LINK_SLOTS - 1 : (int)slot;
}

/* Free time up to a moment; within a slot in proportion. */
static double free_before(const ebb_calendar_t *c, double moment)
{
    int slot = slot_of(c, moment);
    double part = (moment - slot * c->slot_ns) / c->slot_ns;
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
