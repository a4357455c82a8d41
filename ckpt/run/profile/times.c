/* times.c: how long the operations of a step take, by events around them, read when the step is over.
 *
 * Operations of one shape (kernel, geometry, sizes of its buffers; size of a copy) take the same time, so two of each are measured and
 * the others take the shorter of those; one, where few of a step's operations are alike.
 *
 * What communicates waits for other ranks, which learn in the same steps, each at its own pace; how long they are waited for says nothing of
 * other steps. So all of it is measured, and none is taken to last longer than the shortest does and what its operands take at the best rate at
 * which any moved its own.
 *
 * It is the device's time that counts: neither what the stream waits for before the operation (copies, where memory is short), so
 * that each has an event of its own just before it; nor what copies beside it take from it, so that none runs then; nor the
 * host's way from one call to the next, so that the stream is held (profile.h) for a while where the host is not some operations
 * ahead.
 */
#include <stdlib.h>
#include <string.h>

#include "alloc/base/driver.h"
#include "alloc/base/table.h"
#include "alloc/device.h"
#include "alloc/kernel/kernel.h"
#include "ckpt/run/profile/internal.h"
#include "ckpt/run/state.h"
#include "offload/ebb_offload.h"

enum { OF_EACH = 2, ONE_IN = 5 /* operations is measured, at most, or one of each */ };

typedef struct span {
    uint32_t like; /* the first operation of its shape */
    bool measured;
    CUevent start, stop;
    double share; /* of the recording's bytes that the operation's buffers have in this step */
} span_t;

struct ebb_times {
    span_t *span; /* [operations] */
    CUevent origin;
    /* Made once: making one is as dear as recording it. */
    CUevent *event;
    uint32_t count, room, used;
};
const size_t ebb_part_times = sizeof(struct ebb_times);

static uint64_t shape_of(const ebb_recording_t *r, uint32_t i)
{
    const ebb_trace_operation_t *o = &r->trace->operation[i];
    uint64_t h = (uintptr_t)r->operation[i].function * 0x9e3779b97f4a7c15u + (uint64_t)o->kind;
    const uint32_t parts[] = {o->grid[0],  o->grid[1],  o->grid[2],      o->block[0],
                              o->block[1], o->block[2], o->shared_bytes, o->param_bytes};
    for (size_t k = 0; k < sizeof parts / sizeof *parts; k++)
        h = ebb_mix(h, parts[k]);
    /* A library's kernel may have one geometry for all sizes. */
    for (uint32_t k = o->first_access; k < o->first_access + o->access_count; k++)
        h = ebb_mix(h, r->trace->buffer[r->trace->access[k].buffer].bytes);
    return h;
}

typedef struct shape {
    uint64_t key; /* a hash; equal hashes are taken for equal shapes */
    uint32_t first, seen;
} shape_t;

/* Into classes by shape. */
static bool classify(struct ebb_times *times, const ebb_recording_t *r)
{
    const uint32_t n = r->trace->operation_count;
    uint32_t measured = 0;
    ebb_table_t shapes = {0};
    bool good = true, added;
    for (uint32_t i = 0; good && i < n; i++) {
        shape_t *s = ebb_table_add(&shapes, sizeof *s, shape_of(r, i) | 1, &added);
        if (!(good = s))
            continue;
        if (added)
            s->first = i;
        times->span[i].like = s->first;
        times->span[i].measured = s->seen++ < OF_EACH;
        measured += times->span[i].measured;
    }
    for (uint32_t i = 0; good && i < n; i++) {
        if (measured > n / ONE_IN)
            times->span[i].measured = times->span[i].like == i;
        times->span[i].measured |= ebb_name_communicates(r->trace->operation[i].name);
    }
    free(shapes.at);
    return good;
}

static void clear(ebb_device_t *dev)
{
    struct ebb_times *times = dev->run->times;
    free(times->span);
    times->span = NULL;
    times->origin = NULL;
    times->used = 0;
}

bool ebb_times_begin(ebb_device_t *dev)
{
    struct ebb_times *times = dev->run->times;
    const ebb_recording_t *r = &dev->run->pass->profile->recorded;
    size_t n = (size_t)r->trace->operation_count + 1;
    ebb_prices(dev); /* not in the middle of the step */
    times->span = calloc(n, sizeof *times->span);
    if (times->span && classify(times, r))
        return true;
    clear(dev);
    return false;
}

static CUevent record(ebb_device_t *dev, const ebb_operation_t *op)
{
    struct ebb_times *times = dev->run->times;
    if (times->used == times->count) {
        CUevent *made = ebb_array_append((void **)&times->event, &times->count, &times->room, sizeof *made);
        if (!made || ebb_driver.cuEventCreate(made, CU_EVENT_DEFAULT)) {
            times->count -= made != NULL;
            return NULL;
        }
    }
    const CUevent e = times->event[times->used++];
    return ebb_driver.cuEventRecord(e, ebb_stream_handle(op->stream)) ? NULL : e;
}

/* The host is far enough ahead if so many operations, of two microseconds at least, are not over when it issues event, operation and
 * event; else it gets a lead of so many calls. */
enum { AHEAD = 2, LEAD = 8, LEAST_LEAD = 3 };

static bool has_copies(ebb_device_t *dev)
{
    const ebb_traffic_t t = ebb_traffic(dev);
    return t.evictions || t.fetches;
}

/* Those that are under way end before, the next ones begin behind `event`. */
static void keep_copies_away(ebb_device_t *dev, CUevent event)
{
    for (int d = EBB_OUT; d <= EBB_IN; d++) {
        ebb_stream_t *s = ebb_copy_stream(dev, (ebb_direction_t)d);
        if (s && event)
            ebb_driver.cuStreamWaitEvent(ebb_stream_handle(s), event, 0);
        else if (s)
            ebb_mark_wait(ebb_mark_here(s));
    }
}

/* By the last event that is so far back. */
static bool is_ahead(struct ebb_times *times, uint32_t i)
{
    uint32_t back = i > AHEAD ? i - AHEAD : 0;
    while (back && !times->span[back].stop)
        back--;
    const CUevent e = times->span[back].stop;
    return e && ebb_driver.cuEventQuery(e) == CUDA_ERROR_NOT_READY;
}

void ebb_times_before(ebb_device_t *dev, uint32_t i, const ebb_operation_t *op)
{
    struct ebb_times *times = dev->run->times;
    if (times->span[i].measured) {
        if (has_copies(dev)) {
            keep_copies_away(dev, NULL);
            ebb_hold(dev, op->stream, LEAST_LEAD);
        } else if (!is_ahead(times, i)) {
            ebb_hold(dev, op->stream, LEAD);
        }
        times->span[i].start = record(dev, op);
    }
    if (!times->origin)
        times->origin = times->span[i].start;
}

/* Where steps are of any size; else 1. */
static double share_of(ebb_device_t *dev, uint32_t i, const ebb_operation_t *op)
{
    const ebb_recording_t *r = &dev->run->pass->profile->recorded;
    double bytes = 0;
    for (uint32_t k = 0; k < op->access_count; k++)
        bytes += (double)op->access[k].buffer->bytes;
    return r->any_size && bytes > 0 ? bytes / ebb_operand_bytes(r->trace, i) : 1;
}

void ebb_times_after(ebb_device_t *dev, uint32_t i, const ebb_operation_t *op)
{
    struct ebb_times *times = dev->run->times;
    if (!times->span[i].start)
        return;
    times->span[i].stop = record(dev, op);
    times->span[i].share = share_of(dev, i, op);
    if (times->span[i].stop && has_copies(dev))
        keep_copies_away(dev, times->span[i].stop);
}

static uint64_t between(CUevent a, CUevent b)
{
    float ms = 0;
    if (!a || !b || ebb_driver.cuEventElapsedTime(&ms, a, b) || ms < 0)
        return 0;
    return (uint64_t)((double)ms * 1e6);
}

/* Of the first of each shape, which has the shape's time. */
static void leave_out_waiting(const struct ebb_times *times, ebb_trace_t *t)
{
    double rate = 0;
    uint64_t shortest = UINT64_MAX;
    for (int again = 0; again < 2; again++)
        for (uint32_t i = 0; i < t->operation_count; i++) {
            ebb_trace_operation_t *o = &t->operation[i];
            if (times->span[i].like != i || !o->duration_ns || !ebb_name_communicates(o->name))
                continue;
            const double ns = (double)o->duration_ns, bytes = ebb_operand_bytes(t, i);
            if (!again) {
                rate = bytes / ns > rate ? bytes / ns : rate;
                shortest = o->duration_ns < shortest ? o->duration_ns : shortest;
            } else if (rate > 0 && ns > (double)shortest + bytes / rate) {
                o->duration_ns = shortest + (uint64_t)(bytes / rate);
            }
        }
}

bool ebb_times_end(ebb_device_t *dev, bool good)
{
    struct ebb_times *times = dev->run->times;
    ebb_trace_t *t = dev->run->pass->profile->recorded.trace;
    uint64_t end[EBB_RECORD_STREAMS] = {0};
    good = good && !ebb_wait_for_device(dev->ebb);
    for (uint32_t i = 0; good && i < t->operation_count; i++) {
        const span_t *s = &times->span[i];
        ebb_trace_operation_t *c = &t->operation[s->like];
        const uint64_t ns = s->stop ? (uint64_t)((double)between(s->start, s->stop) / s->share) : 0;
        if (ns && (!c->duration_ns || ns < c->duration_ns))
            c->duration_ns = ns;
    }
    if (good)
        leave_out_waiting(times, t);
    for (uint32_t i = 0; good && i < t->operation_count; i++) {
        ebb_trace_operation_t *o = &t->operation[i];
        o->duration_ns = t->operation[times->span[i].like].duration_ns;
        o->at_ns = end[o->stream];
        if (!o->at_ns && times->span[i].start) /* a stream's first one */
            o->at_ns = between(times->origin, times->span[i].start);
        end[o->stream] = o->at_ns + o->duration_ns;
    }
    clear(dev);
    return true;
}
