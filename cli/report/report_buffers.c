/* report_buffers.c: which buffer leaves the device when, what brings it back, and what either would cost. */
#include <stdlib.h>
#include <string.h>

#include "alloc/base/table.h"
#include "ckpt/trace/trace.h"
#include "cli/report/report_parts.h"

/* What the plan does in a gap; one for each use of each buffer, the one that begins it. The last is the wrap-around gap of a
 * buffer that outlives the step. */
typedef struct deed {
    bool evicted, fetched, discarded; /* discarded: and made again */
    bool spared;                      /* evicted, without a copy */
    uint32_t replays;
    double cost_ns;
} deed_t;

typedef struct finder {
    ebb_report_t *report;
    const ebb_trace_t *trace;
    const ebb_plan_t *plan;
    ebb_uses_t uses;
    ebb_trace_t *step; /* under the plan; owned, as what follows */
    ebb_model_t model;
    bool has_model;
    deed_t *deed;         /* as uses.operation */
    uint32_t *completion; /* of discards: ebb_plan_completions */
    bool *spared;         /* of evicts: ebb_plan_spared; NULL: none are */
    double pending_ns;    /* replays that only made what others are made from */
    uint32_t pending;
} finder_t;

/* The gap of a buffer in which a point lies, as an index of `deed`; EBB_NONE: in none. */
static uint32_t gap_at(const finder_t *f, uint32_t buffer, uint32_t point)
{
    const uint32_t first = f->uses.first[buffer], end = f->uses.first[buffer + 1];
    uint32_t low = first, high = end; /* the first use at or behind the point */
    while (low < high) {
        const uint32_t middle = low + (high - low) / 2;
        if (f->uses.operation[middle] < point)
            low = middle + 1;
        else
            high = middle;
    }
    if (low > first && low < end)
        return low - 1;
    const bool persists =
        f->trace->buffer[buffer].born == EBB_NONE && f->trace->buffer[buffer].dies == EBB_NONE;
    return first < end && persists ? end - 1 : EBB_NONE;
}

static deed_t *deed_at(const finder_t *f, uint32_t place, uint32_t point)
{
    const uint32_t gap = place < f->plan->buffer_count ? gap_at(f, place, point) : EBB_NONE;
    return gap == EBB_NONE ? NULL : &f->deed[gap];
}

/* ---- what the plan does ---- */

/* The k-th dropped gap that a replay rebuilds, or NULL. */
static deed_t *rebuilt_by(const finder_t *f, const ebb_action_t *a, uint32_t k)
{
    const ebb_trace_operation_t *o = &f->trace->operation[a->operation];
    for (uint32_t i = o->first_access; i < o->first_access + o->access_count; i++) {
        const ebb_trace_access_t *x = &f->trace->access[i];
        if (x->mode == EBB_READS || !ebb_trace_is_first(f->trace, a->operation, i) ||
            ebb_plan_place(f->plan, a, x->buffer) != x->buffer)
            continue;
        deed_t *d = deed_at(f, x->buffer, a->point);
        if (d && d->discarded && !k--)
            return d;
    }
    return NULL;
}

/* Of several that one replay rebuilds, each bears a part. */
static void share_replay(finder_t *f, const ebb_action_t *a)
{
    uint32_t count = 0;
    f->pending++;
    f->pending_ns += (double)f->trace->operation[a->operation].duration_ns;
    while (rebuilt_by(f, a, count))
        count++;
    for (uint32_t k = 0; k < count; k++) {
        deed_t *d = rebuilt_by(f, a, k);
        d->replays += f->pending;
        d->cost_ns += f->pending_ns / count;
    }
    if (count) {
        f->pending = 0;
        f->pending_ns = 0;
    }
}

static void read_actions(finder_t *f)
{
    for (uint32_t i = 0; i < f->plan->action_count; i++) {
        const ebb_action_t *a = &f->plan->action[i];
        if (a->kind == EBB_REPLAY) {
            share_replay(f, a);
            continue;
        }
        deed_t *d = deed_at(f, a->place, a->point);
        if (d) {
            d->evicted |= a->kind == EBB_EVICT;
            d->spared |= f->spared && f->spared[i];
            d->fetched |= a->kind == EBB_FETCH;
            d->discarded |= a->kind == EBB_DISCARD && f->completion[i] != EBB_NONE;
        }
    }
}

/* A copy out that waits is for the next gap in which the buffer is away: it may be begun earlier. */
static void share_waits(finder_t *f)
{
    for (uint32_t i = 0; i < f->report->wait_count; i++) {
        const ebb_report_wait_t *w = &f->report->wait[i];
        const ebb_action_t *a = &f->plan->action[w->action];
        deed_t *d = deed_at(f, a->place, a->point);
        const uint32_t first = d ? f->uses.first[a->place] : 0, end = d ? f->uses.first[a->place + 1] : 0;
        for (uint32_t k = first; d && !d->fetched && k < end; k++) {
            deed_t *next = d + 1 < f->deed + end ? d + 1 : f->deed + first;
            d = next;
        }
        if (d)
            d->cost_ns += w->end_ns - w->begin_ns;
    }
}

/* ---- gaps ---- */

/* What is copied out may stay all the same, until a later gap; but not if it is written anew after this one. */
static ebb_report_class_t fate_of(const finder_t *f, const deed_t *d, uint32_t buffer, uint32_t to)
{
    if (d->fetched || (d->evicted && ebb_trace_mode(f->trace, to, buffer) == EBB_REPLACES))
        return d->spared ? EBB_CLASS_CLEAN : EBB_CLASS_OFFLOADED;
    return d->discarded ? EBB_CLASS_DROPPED : EBB_CLASS_KEPT;
}

/* False: the last use of a buffer that does not outlive the step begins none. */
static bool is_gap(const finder_t *f, uint32_t buffer, uint32_t index, ebb_report_gap_t *out)
{
    const uint32_t first = f->uses.first[buffer], end = f->uses.first[buffer + 1];
    const bool wraps = index + 1 == end;
    if (wraps && gap_at(f, buffer, 0) == EBB_NONE)
        return false;
    *out = (ebb_report_gap_t){.from = f->uses.operation[index],
                              .to = f->uses.operation[wraps ? first : index + 1],
                              .cost_ns = f->deed[index].cost_ns,
                              .replays = f->deed[index].replays,
                              .replay_ns = -1};
    out->fate = fate_of(f, &f->deed[index], buffer, out->to);
    out->ns = f->report->begin_ns[out->to] - f->report->end_ns[out->from] +
              (wraps ? f->report->simulation.step_ns : 0);
    out->ns = out->ns > 0 ? out->ns : 0;
    return true;
}

/* What replays would cost, by the planner's model of what makes it. */
static void find_replay(const finder_t *f, uint32_t buffer, uint32_t index, ebb_report_gap_t *g)
{
    const uint32_t first = f->uses.first[buffer];
    if (!f->has_model || !f->model.buffer[buffer].movable)
        return;
    const bool wraps = g->to <= g->from;
    const ebb_use_t *use = &f->model.use[f->model.buffer[buffer].first_use + (wraps ? 0 : index + 1 - first)];
    const ebb_content_t *c = &f->model.content[use->before];
    if (wraps)
        g->no_replay = "it goes on into the next step";
    else if (use->mode == EBB_REPLACES)
        g->replay_ns = 0; /* it is not read again */
    else if (c->rebuild >= g->to)
        g->replay_ns = (double)c->cost_ns;
    else
        g->no_replay = ebb_report_obstacle(&f->model, use->before);
}

static bool add_gap(finder_t *f, uint32_t buffer, uint32_t index)
{
    ebb_report_t *r = f->report;
    ebb_report_gap_t *g = ebb_array_append((void **)&r->gap, &r->gap_count, &r->gap_room, sizeof *g);
    if (!g)
        return false;
    is_gap(f, buffer, index, g);
    g->out_ns = ebb_report_copy_ns(r, buffer, false);
    g->in_ns = ebb_report_copy_ns(r, buffer, true);
    find_replay(f, buffer, index, g);
    g->why = ebb_report_why(r, buffer, g);
    return g->why != NULL;
}

/* A buffer's gaps in which it leaves the device, or the longest of all. */
static bool find_gaps(finder_t *f, uint32_t buffer)
{
    ebb_report_t *r = f->report;
    ebb_report_buffer_t *b = &r->buffer[buffer];
    uint32_t longest = EBB_NONE;
    double most = -1;
    ebb_report_gap_t g;
    b->first_gap = r->gap_count;
    for (uint32_t i = f->uses.first[buffer]; i < f->uses.first[buffer + 1]; i++) {
        if (!is_gap(f, buffer, i, &g))
            continue;
        if (g.fate != EBB_CLASS_KEPT && !add_gap(f, buffer, i))
            return false;
        if (g.ns > most) {
            longest = i;
            most = g.ns;
        }
    }
    if (r->gap_count == b->first_gap && longest != EBB_NONE && !add_gap(f, buffer, longest))
        return false;
    b->gap_count = r->gap_count - b->first_gap;
    b->decisive = b->gap_count ? b->first_gap : EBB_NONE;
    for (uint32_t k = b->first_gap; k < r->gap_count; k++)
        if (r->gap[k].ns > r->gap[b->decisive].ns)
            b->decisive = k;
    return true;
}

static void judge(finder_t *f, uint32_t buffer)
{
    ebb_report_t *r = f->report;
    ebb_report_buffer_t *b = &r->buffer[buffer];
    const uint32_t first = f->uses.first[buffer];
    b->maker = first < f->uses.first[buffer + 1] ? f->uses.operation[first] : EBB_NONE;
    if (b->decisive != EBB_NONE) {
        b->fate = r->gap[b->decisive].fate;
        b->why = r->gap[b->decisive].why;
        return;
    }
    b->fate = f->plan->place[buffer].at_start == EBB_ON_HOST ? EBB_CLASS_OFFLOADED : EBB_CLASS_KEPT;
    b->why = ebb_report_why_alone(r, buffer);
}

bool ebb_report_find_buffers(ebb_report_t *r)
{
    finder_t f = {.report = r, .trace = r->in.trace, .plan = r->in.plan};
    const ebb_plan_request_t request = {.hardware = r->in.hardware, .min_buffer = r->in.min_buffer};
    f.step = ebb_plan_step(f.plan, f.trace);
    f.has_model = f.step && ebb_model_make(&f.model, f.step, &request, r->refusal, sizeof r->refusal);
    if (f.has_model)
        r->refusal[0] = 0;
    r->buffer = calloc((size_t)f.trace->buffer_count + 1, sizeof *r->buffer);
    f.deed = calloc((size_t)f.trace->access_count + 1, sizeof *f.deed);
    f.completion = ebb_plan_completions(f.plan, f.trace);
    f.spared = r->in.hardware.clean > 0 ? ebb_plan_spared(f.plan, f.trace) : NULL;
    bool good = f.step && r->buffer && f.deed && f.completion && ebb_uses_make(&f.uses, f.trace);
    if (good) {
        read_actions(&f);
        share_waits(&f);
    }
    for (uint32_t i = 0; good && i < f.trace->buffer_count; i++) {
        good = find_gaps(&f, i);
        if (good)
            judge(&f, i);
    }
    if (f.uses.first)
        ebb_uses_free(&f.uses);
    if (f.has_model)
        ebb_model_delete(&f.model);
    ebb_trace_delete(f.step);
    free(f.deed);
    free(f.completion);
    free(f.spared);
    return good;
}
