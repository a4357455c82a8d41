/* curve.c: see curve.h. */
#include "cli/report/curve.h"

#include <stdio.h>
#include <stdlib.h>

#include "ckpt/checker/checker.h"

/* UINT64_MAX: no memory. */
static uint64_t moved_state(const ebb_plan_t *p, const ebb_trace_t *t)
{
    bool *moves = calloc((size_t)t->buffer_count + 1, sizeof *moves);
    uint64_t bytes = 0;
    for (uint32_t i = 0; moves && i < p->action_count; i++)
        if (p->action[i].kind <= EBB_DISCARD && p->action[i].place < t->buffer_count)
            moves[p->action[i].place] = true;
    for (uint32_t i = 0; moves && i < t->buffer_count; i++)
        if (t->buffer[i].born == EBB_NONE && t->buffer[i].dies == EBB_NONE &&
            (moves[i] || p->place[i].at_start == EBB_ON_HOST))
            bytes += t->buffer[i].bytes;
    free(moves);
    return moves ? bytes : UINT64_MAX;
}

/* No plan for that budget: no point. False: `why`. */
static bool add_point(ebb_curve_t *c, const ebb_trace_t *t, const ebb_plan_request_t *request,
                      uint64_t budget, double operations_ns, char *why, size_t why_bytes)
{
    ebb_plan_request_t r = *request;
    r.device_bytes = budget;
    ebb_plan_t *p = ebb_plan_make(t, &r, why, why_bytes);
    if (!p)
        return true;
    const ebb_check_limits_t limits = {budget, r.host_bytes, r.behind_bytes};
    const bool good = ebb_check_plan(t, p, &limits, why, why_bytes);
    ebb_curve_point_t *x = &c->point[c->count++];
    const uint64_t least = ebb_plan_bound_ns(t, &r); /* there is a plan: it is a number */
    *x = (ebb_curve_point_t){
        .budget_bytes = budget,
        .percent = 100 * ((double)p->predicted_ns / operations_ns - 1),
        .least_percent = (double)least > operations_ns ? 100 * ((double)least / operations_ns - 1) : 0,
        .state_bytes = moved_state(p, t),
        .sum = ebb_plan_sum(p, t)};
    c->most_percent = x->percent > c->most_percent ? x->percent : c->most_percent;
    ebb_plan_delete(p);
    return good && x->state_bytes != UINT64_MAX;
}

static void find_marks(ebb_curve_t *c)
{
    c->sensible = c->state = -1;
    for (int i = (int)c->count - 1; i >= 0 && c->point[i].percent <= EBB_CURVE_SENSIBLE_PERCENT; i--)
        c->sensible = i;
    for (int i = 0; i < (int)c->count; i++)
        if (c->point[i].state_bytes)
            c->state = i;
}

bool ebb_curve_at(ebb_curve_t *out, const ebb_trace_t *t, const ebb_plan_request_t *request,
                  const uint64_t *budgets, unsigned count, char *why, size_t why_bytes)
{
    const double operations_ns = ebb_simulate_alone_ns(t);
    *out = (ebb_curve_t){.sensible = -1, .state = -1};
    snprintf(why, why_bytes, "there is no plan for any budget, or the step takes no time");
    for (unsigned i = 0; i < count && operations_ns > 0; i++)
        if (!add_point(out, t, request, budgets[i], operations_ns, why, why_bytes))
            return false;
    find_marks(out);
    return out->count;
}

bool ebb_curve_make(ebb_curve_t *out, const ebb_trace_t *t, const ebb_plan_request_t *request,
                    uint64_t keep_bytes, unsigned points, char *why, size_t why_bytes)
{
    uint64_t budgets[EBB_CURVE_POINTS], low = ebb_plan_floor(t, request);
    low = low < keep_bytes ? low : keep_bytes;
    const uint64_t step = (keep_bytes - low) / (points - 1);
    unsigned count = 0;
    for (unsigned i = 0; low && i < points; i++) {
        const uint64_t budget = i == points - 1 ? keep_bytes : low + step * i;
        if (!i || budget > low)
            budgets[count++] = budget;
    }
    return ebb_curve_at(out, t, request, budgets, count, why, why_bytes);
}
