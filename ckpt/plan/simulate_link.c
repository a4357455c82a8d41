/* simulate_link.c: both ways of the link, followed from change to change; see simulate_parts.h. */
#include "ckpt/plan/simulate_parts.h"

/* When a copy may begin; NOT_YET: it waits for one that has not ended. */
static double ready_at(const ebb_link_state_t *l, const ebb_copy_t *c)
{
    const ebb_action_t *a = &l->plan->action[c->action];
    double at = c->ready;
    for (uint32_t i = a->first_wait; i < a->first_wait + a->wait_count; i++) {
        const uint32_t other = l->plan->wait[i];
        const double end = other < c->action ? c->end_now[other] : c->end_before[other];
        at = end > at ? end : at;
    }
    return at;
}

static ebb_copy_t *head(ebb_way_t *w)
{
    return w->first < w->count ? &w->copy[w->first] : NULL;
}

static void end_copy(ebb_link_state_t *l, int way, double now)
{
    ebb_way_t *w = &l->way[way];
    ebb_copy_t *c = w->at;
    w->at = NULL;
    w->free = now;
    *c->end = now;
    if (c == &w->own)
        return;
    w->first++;
    if (c->counts)
        l->out->lane_ns[way ? EBB_LANE_IN : EBB_LANE_OUT] += now - c->begin;
    if (c->span == EBB_TRACE_NEVER)
        return;
    l->out->span[c->span].begin_ns += c->begin; /* until then less the step's beginning */
    l->out->span[c->span].end_ns += now;
}

/* What may begin by now begins. */
static void start(ebb_link_state_t *l)
{
    for (int i = 0; i < 2; i++) {
        ebb_way_t *w = &l->way[i];
        for (ebb_copy_t *c = head(w); c && !w->at && ready_at(l, c) <= l->now; c = head(w)) {
            const double ready = ready_at(l, c);
            c->begin = ready > w->free ? ready : w->free;
            c->left -= l->now - c->begin;
            w->at = c;
            if (c->left <= 0)
                end_copy(l, i, l->now + c->left);
        }
    }
}

static double rate(const ebb_link_state_t *l, int way)
{
    return ebb_hardware_part(l->hardware, way, l->way[0].at && l->way[1].at);
}

int ebb_link_busy(const ebb_link_state_t *l)
{
    return (l->way[0].at != NULL) + (l->way[1].at != NULL);
}

double ebb_link_next(ebb_link_state_t *l)
{
    double next = EBB_NOT_YET;
    start(l);
    for (int i = 0; i < 2; i++) {
        ebb_way_t *w = &l->way[i];
        const double at = w->at     ? l->now + w->at->left / rate(l, i)
                          : head(w) ? ready_at(l, head(w))
                                    : EBB_NOT_YET;
        next = at < next ? at : next;
    }
    return next;
}

/* No further than to the next change. */
static void pass(ebb_link_state_t *l, double to)
{
    static const double nothing =
        1e-6; /* what is left by rounding, in nanoseconds; or what is lost beside the time itself */
    const double done[2] = {(to - l->now) * rate(l, 0), (to - l->now) * rate(l, 1)};
    l->now = to;
    for (int i = 0; i < 2; i++)
        if (l->way[i].at)
            l->way[i].at->left -= done[i];
    for (int i = 0; i < 2; i++)
        if (l->way[i].at && (l->way[i].at->left <= nothing || l->now + l->way[i].at->left <= l->now))
            end_copy(l, i, l->now);
}

void ebb_link_follow(ebb_link_state_t *l, double to)
{
    while (l->now < to) {
        const double next = ebb_link_next(l);
        pass(l, next < to ? next : to);
    }
    start(l);
}

double ebb_link_wait(ebb_link_state_t *l, const double *end)
{
    while (*end >= EBB_NOT_YET) {
        const double next = ebb_link_next(l);
        if (next >= EBB_NOT_YET)
            return l->now; /* it waits for what never comes: the checker would have refused the plan */
        pass(l, next);
    }
    return *end;
}

double ebb_link_use(ebb_link_state_t *l, int way, double ns)
{
    ebb_way_t *w = &l->way[way];
    double end = EBB_NOT_YET;
    for (start(l); w->at; start(l))
        pass(l, ebb_link_next(l));
    w->own = (ebb_copy_t){.left = ns, .end = &end};
    w->at = &w->own;
    return ebb_link_wait(l, &end);
}

void ebb_link_end(ebb_link_state_t *l)
{
    for (double next; (next = ebb_link_next(l)) < EBB_NOT_YET;)
        pass(l, next);
}
