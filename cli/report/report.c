/* report.c: the facts of report.h, but those about buffers: report_buffers.c. */
#include "cli/report/report.h"

#include <stdlib.h>

#include "alloc/base/table.h"
#include "ckpt/planner/planner.h"
#include "cli/report/report_parts.h"

const char *const ebb_class_word[EBB_CLASSES] = {"kept", "offloaded", "clean", "dropped", "scratch", "small"};
const char *const ebb_cause_word[EBB_CAUSES] = {
    "replayed compute",  "waits for the host", "exposed copies out", "exposed copies in",
    "queued copies out", "queued copies in",   "slowed by copies",   "comparing"};

/* ---- a plan that keeps everything ---- */

static uint64_t chunks_of(const ebb_trace_t *t, uint64_t bytes)
{
    return (bytes + t->chunk_bytes - 1) / t->chunk_bytes;
}

static bool is_small(const ebb_trace_t *t, uint32_t buffer)
{
    return t->buffer[buffer].bytes <= t->chunk_bytes / 2;
}

/* Sums up what is added before each operation, and is born or dies there. */
static void add_life(const ebb_trace_t *t, uint32_t buffer, uint64_t bytes, uint64_t *alive)
{
    const ebb_trace_buffer_t *b = &t->buffer[buffer];
    alive[b->born == EBB_NONE ? 0 : b->born] += bytes;
    alive[b->dies == EBB_NONE ? t->operation_count + 1 : b->dies] -= bytes; /* modulo 2^64 */
}

/* Bytes of large buffers alive at each operation, in whole chunks, and of small ones born in the step as they are; the latter
 * alone at most: `small_bytes`. NULL: no memory. */
static uint64_t *find_everything(const ebb_trace_t *t, uint64_t *small_bytes)
{
    const size_t n = (size_t)t->operation_count + 2;
    uint64_t *large = calloc(n, sizeof *large), *small = calloc(n, sizeof *small);
    for (uint32_t i = 0; large && small && i < t->buffer_count; i++) {
        if (!is_small(t, i))
            add_life(t, i, chunks_of(t, t->buffer[i].bytes) * t->chunk_bytes, large);
        else if (t->buffer[i].born != EBB_NONE)
            add_life(t, i, t->buffer[i].bytes, small);
    }
    *small_bytes = 0;
    for (uint32_t i = 0; large && small && i <= t->operation_count; i++) {
        large[i] += i ? large[i - 1] : 0;
        small[i] += i ? small[i - 1] : 0;
        *small_bytes = small[i] > *small_bytes ? small[i] : *small_bytes;
    }
    *small_bytes = chunks_of(t, *small_bytes) * t->chunk_bytes;
    free(small);
    return small ? large : (free(large), NULL);
}

/* Places on chunks of their own. */
static ebb_plan_t *keep_all(const ebb_trace_t *t, uint64_t small_bytes)
{
    ebb_plan_t *p = ebb_plan_new(t);
    bool good = p != NULL;
    for (uint32_t i = 0; good && i < t->buffer_count; i++)
        for (uint64_t k = is_small(t, i) ? 0 : chunks_of(t, t->buffer[i].bytes); good && k > 0; k--)
            good = ebb_plan_add_chunk(p, &p->place[i], p->chunk_count++);
    if (!good) {
        ebb_plan_delete(p);
        return NULL;
    }
    p->small_bytes = small_bytes;
    return p;
}

/* What everything together takes, and a plan if there is none. */
static bool find_plan(ebb_report_t *r)
{
    const ebb_trace_t *t = r->in.trace;
    uint64_t small_bytes, peak = 0;
    r->everything_bytes = find_everything(t, &small_bytes);
    for (uint32_t i = 0; r->everything_bytes && i <= t->operation_count; i++)
        peak = r->everything_bytes[i] > peak ? r->everything_bytes[i] : peak;
    if (r->everything_bytes && !r->in.plan)
        r->in.plan = r->all_kept = keep_all(t, small_bytes);
    if (!r->everything_bytes || !r->in.plan)
        return false;
    for (uint32_t i = 0; i <= t->operation_count; i++)
        r->everything_bytes[i] += r->in.plan->small_bytes;
    r->everything_peak_bytes = peak + r->in.plan->small_bytes;
    return true;
}

/* ---- time ---- */

double ebb_report_copy_ns(const ebb_report_t *r, uint32_t place, bool in)
{
    const ebb_hardware_t *h = &r->in.hardware;
    return (in ? h->in_ns : h->out_ns) +
           ebb_copy_ns(r->in.plan->place[place].bytes, in ? h->in_bytes_per_ns : h->out_bytes_per_ns);
}

/* The copy ends when the wait does. */
static bool add_wait(ebb_report_t *r, const ebb_span_t *s)
{
    const bool in = s->track == EBB_TRACK_WAIT_IN;
    const double copy = s->end_ns - ebb_report_copy_ns(r, r->in.plan->action[s->index].place, in);
    ebb_report_wait_t *w = ebb_array_append((void **)&r->wait, &r->wait_count, &r->wait_room, sizeof *w);
    if (!w)
        return false;
    *w = (ebb_report_wait_t){s->index, s->begin_ns, s->end_ns, copy};
    const double queued = copy > s->begin_ns ? copy - s->begin_ns : 0;
    r->overhead_ns[in ? EBB_CAUSE_QUEUED_IN : EBB_CAUSE_QUEUED_OUT] += queued;
    r->overhead_ns[in ? EBB_CAUSE_EXPOSED_IN : EBB_CAUSE_EXPOSED_OUT] += s->end_ns - s->begin_ns - queued;
    return true;
}

static bool find_times(ebb_report_t *r)
{
    const ebb_simulation_t *s = &r->simulation;
    r->begin_ns = calloc((size_t)r->in.trace->operation_count + 1, sizeof *r->begin_ns);
    r->end_ns = calloc((size_t)r->in.trace->operation_count + 1, sizeof *r->end_ns);
    if (!r->begin_ns || !r->end_ns)
        return false;
    for (uint32_t i = 0; i < s->span_count; i++) {
        const ebb_span_t *x = &s->span[i];
        r->copies_out += x->track == EBB_TRACK_OUT;
        r->copies_in += x->track == EBB_TRACK_IN;
        r->checks += x->track == EBB_TRACK_CHECK;
        r->host_waits += x->track == EBB_TRACK_WAIT_HOST;
        if (x->track == EBB_TRACK_OPERATION) {
            r->begin_ns[x->index] = x->begin_ns;
            r->end_ns[x->index] = x->end_ns;
        } else if ((x->track == EBB_TRACK_WAIT_OUT || x->track == EBB_TRACK_WAIT_IN) && !add_wait(r, x)) {
            return false;
        }
    }
    r->operations_ns = s->alone_ns;
    r->overhead_ns[EBB_CAUSE_REPLAYS] = s->track_ns[EBB_TRACK_REPLAY];
    r->overhead_ns[EBB_CAUSE_HOST] = s->track_ns[EBB_TRACK_WAIT_HOST];
    r->overhead_ns[EBB_CAUSE_SLOWED] = s->slowed_ns;
    r->overhead_ns[EBB_CAUSE_CHECKS] = s->track_ns[EBB_TRACK_CHECK];
    return true;
}

/* ---- memory by class ---- */

typedef struct change {
    double ns;
    ebb_report_class_t class;
    uint64_t bytes; /* modulo 2^64 */
} change_t;

static int by_time(const void *a, const void *b)
{
    const change_t *x = a, *y = b;
    return x->ns < y->ns ? -1 : x->ns > y->ns;
}

static bool find_levels(ebb_report_t *r)
{
    const ebb_simulation_t *s = &r->simulation;
    const ebb_plan_t *p = r->in.plan;
    uint32_t count = 0;
    ebb_report_level_t now = {.bytes = {[EBB_CLASS_SMALL] = p->small_bytes}};
    change_t *change = calloc(2 * (size_t)s->hold_count + 1, sizeof *change);
    if (!change)
        return false;
    for (uint32_t i = 0; i < s->hold_count; i++) {
        const ebb_hold_t *h = &s->hold[i];
        const uint64_t bytes = p->place[h->place].chunk_count * p->chunk_bytes;
        const ebb_report_class_t class =
            h->place < p->buffer_count ? r->buffer[h->place].fate : EBB_CLASS_SCRATCH;
        change[count++] = (change_t){h->begin_ns, class, bytes};
        change[count++] = (change_t){h->end_ns, class, -bytes};
    }
    qsort(change, count, sizeof *change, by_time);
    bool good = true;
    for (uint32_t i = 0; good && i <= count; i++) {
        if (i == count || change[i].ns > now.ns) {
            ebb_report_level_t *l =
                ebb_array_append((void **)&r->level, &r->level_count, &r->level_room, sizeof *l);
            good = l != NULL;
            if (l)
                *l = now;
        }
        if (i < count) {
            now.ns = change[i].ns;
            now.bytes[change[i].class] += change[i].bytes;
        }
    }
    free(change);
    return good;
}

/* ---- */

static double above_best(const ebb_report_t *r)
{
    const ebb_plan_request_t q = {.device_bytes = r->in.budget_bytes,
                                  .host_bytes = UINT64_MAX,
                                  .min_buffer = r->in.min_buffer,
                                  .offload = true,
                                  .recompute = true,
                                  .hardware = r->in.hardware};
    const uint64_t least = r->all_kept || !q.device_bytes ? 0 : ebb_plan_bound_ns(r->in.trace, &q);
    if (!least || least == UINT64_MAX)
        return -1;
    return r->simulation.step_ns > (double)least ? r->simulation.step_ns / (double)least - 1 : 0;
}

ebb_report_t *ebb_report_make(const ebb_report_input_t *input)
{
    ebb_report_t *r = calloc(1, sizeof *r);
    if (!r)
        return NULL;
    r->in = *input;
    if (find_plan(r) && ebb_simulate(&r->simulation, r->in.plan, r->in.trace, &r->in.hardware, true)) {
        r->sum = ebb_plan_sum(r->in.plan, r->in.trace);
        if (r->all_kept) /* whose chunks are not all in use at once */
            r->sum.peak_bytes = r->everything_peak_bytes;
        r->above_best = above_best(r);
        if (find_times(r) && ebb_report_find_buffers(r) && find_levels(r))
            return r;
    }
    ebb_report_delete(r);
    return NULL;
}

void ebb_report_delete(ebb_report_t *r)
{
    if (!r)
        return;
    for (uint32_t i = 0; i < r->gap_count; i++)
        free((char *)(uintptr_t)r->gap[i].why);
    ebb_plan_delete(r->all_kept);
    ebb_simulation_delete(&r->simulation);
    free(r->everything_bytes);
    free(r->begin_ns);
    free(r->end_ns);
    free(r->buffer);
    free(r->gap);
    free(r->wait);
    free(r->level);
    free(r);
}
