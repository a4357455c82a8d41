/* mark.c: what a stream has reached, without an event per operation.
 *
 * Operations of a stream are counted as they are issued. Only a question whether the stream has got as far
 * as number n records an event, behind everything issued so far; it then answers for all numbers
 * up to there. A few events may be pending, so that a host that runs ahead and asks all the time still gets
 * its answers. So the hot path pays one increment, and a question is at worst answered a little late, never
 * too early.
 */
#include "alloc/device.h"

#include <stdlib.h>

#include "alloc/base/driver.h"
#include "alloc/base/status.h"

enum { EVENTS = EBB_STREAM_EVENTS };

/* Handles that mean different streams at different times or in different threads are told apart by the
 * driver's id. */
static bool is_ambiguous(CUstream handle)
{
    return handle == CU_STREAM_PER_THREAD;
}

static unsigned long long own_id(void)
{
    unsigned long long id = 0;
    return ebb_driver.cuStreamGetId(CU_STREAM_PER_THREAD, &id) ? 0 : id;
}

/* The handle under which the calling thread reaches the stream. Of another thread's default stream there is
 * none: an event on the legacy stream stands behind all that those have been given. */
static CUstream handle_here(const ebb_stream_t *s)
{
    return is_ambiguous(s->handle) && (!s->id || s->id != own_id()) ? CU_STREAM_LEGACY : s->handle;
}

/* Out of the way of the common case. */
__attribute__((noinline)) static ebb_stream_t *look_up(ebb_device_t *dev, CUstream handle)
{
    const unsigned long long id = is_ambiguous(handle) ? own_id() : 0;
    for (ebb_stream_t *s = dev->ebb->streams; s; s = s->next)
        if (s->handle == handle && s->id == id && (!ebb_is_default_stream(handle) || s->device == dev))
            return dev->last_stream = s;
    ebb_stream_t *s = calloc(1, sizeof *s);
    if (!s) {
        /* All streams without a record share one: its marks are reached later than need be. */
        ebb_log(EBB_WARN, "out of host memory");
        dev->ebb->shared_stream.device = dev;
        return &dev->ebb->shared_stream;
    }
    s->handle = handle;
    s->device = ebb_is_default_stream(handle) ? dev : ebb_device_of_stream(dev, handle);
    s->id = id;
    s->next = dev->ebb->streams;
    dev->ebb->streams = s;
    return dev->last_stream = s;
}

ebb_stream_t *ebb_stream_of(ebb_device_t *dev, CUstream handle)
{
    if (handle == CU_STREAM_LEGACY)
        handle = NULL;
    ebb_stream_t *last = dev->last_stream;
    return last && last->handle == handle && !is_ambiguous(handle) ? last : look_up(dev, handle);
}

ebb_device_t *ebb_stream_device(const ebb_stream_t *s)
{
    return s->device;
}

CUstream ebb_stream_handle(const ebb_stream_t *s)
{
    return s->handle;
}

bool ebb_stream_is_gone(const ebb_stream_t *s)
{
    return s->handle == (CUstream)s;
}

ebb_mark_t ebb_mark_here(ebb_stream_t *s)
{
    return (ebb_mark_t){.stream = s, .number = s->issued};
}

ebb_mark_t ebb_mark_issue(ebb_stream_t *s)
{
    s->issued++;
    return ebb_mark_here(s);
}

/* ---- captures ---- */

bool ebb_is_capturing(CUstream stream)
{
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    return ebb_driver.cuStreamIsCapturing && !ebb_driver.cuStreamIsCapturing(stream, &status) &&
           status != CU_STREAM_CAPTURE_STATUS_NONE;
}

/* Whether an event may be recorded on a stream: not on one that is captured, nor on the legacy stream while any other is. */
static bool may_record(ebb_t *ebb, CUstream stream)
{
    return !ebb_captures_under_way(ebb) || (!ebb_is_legacy_stream(stream) && !ebb_is_capturing(stream));
}

/* ---- the events of a stream ---- */

static unsigned newest(const ebb_stream_t *s)
{
    return (s->first + s->pending - 1) % EVENTS;
}

static bool is_recorded(const ebb_stream_t *s, uint64_t number)
{
    return s->pending && s->event_at[newest(s)] >= number;
}

/* Everything up to the first pending event is over. */
static void pass_first(ebb_stream_t *s)
{
    if (s->event_at[s->first] > s->reached)
        s->reached = s->event_at[s->first];
    s->first = (s->first + 1) % EVENTS;
    s->pending--;
}

static void poll(ebb_stream_t *s)
{
    while (s->pending && ebb_driver.cuEventQuery(s->event[s->first]) == CUDA_SUCCESS)
        pass_first(s);
}

/* All events are pending. One that may be done without becomes the next, the newest of these but the last, which stands for both then. */
static void free_event(ebb_stream_t *s)
{
    unsigned at = EVENTS - 1;
    while (at && s->kept[(s->first + at - 1) % EVENTS])
        at--;
    if (!at)
        return;
    const unsigned from = (s->first + at - 1) % EVENTS;
    const CUevent freed = s->event[from];
    for (unsigned k = at; k < EVENTS; k++) {
        const unsigned to = (s->first + k - 1) % EVENTS, next = (s->first + k) % EVENTS;
        s->event[to] = s->event[next];
        s->event_at[to] = s->event_at[next];
        s->kept[to] = s->kept[next];
    }
    s->event[newest(s)] = freed;
    s->pending--;
}

/* Records behind everything issued so far: with the next event, or once more with the newest if all are
 * pending and none may be done without. */
static ebb_status_t record_here(ebb_stream_t *s)
{
    if (!may_record(s->device->ebb, handle_here(s))) /* it would become part of the graph */
        return ebb_fail(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, "an event on a captured stream", 0);
    if (s->pending == EVENTS)
        poll(s);
    if (s->pending == EVENTS)
        free_event(s);
    unsigned i = s->pending < EVENTS ? (s->first + s->pending) % EVENTS : newest(s);
    if (!s->event[i])
        EBB_DRIVER(cuEventCreate, 0, (&s->event[i], CU_EVENT_DISABLE_TIMING));
    EBB_DRIVER(cuEventRecord, 0, (s->event[i], handle_here(s)));
    s->event_at[i] = s->issued;
    s->kept[i] = false;
    s->pending += s->pending < EVENTS;
    return 0;
}

static ebb_status_t record(ebb_stream_t *s)
{
    ebb_visit_t visit;
    EBB_TRY(ebb_context_visit(s->device, &visit));
    ebb_status_t status = record_here(s);
    ebb_device_return(visit);
    return status;
}

/* The first pending event behind the mark, recorded now if need be. */
static ebb_status_t event_behind(ebb_stream_t *s, uint64_t number, CUevent *out)
{
    if (!is_recorded(s, number))
        EBB_TRY(record(s));
    unsigned i = s->first;
    while (s->event_at[i] < number)
        i = (i + 1) % EVENTS;
    *out = s->event[i];
    return 0;
}

bool ebb_mark_reached(ebb_mark_t mark)
{
    ebb_stream_t *s = mark.stream;
    if (!s || s->reached >= mark.number)
        return true;
    poll(s);
    /* While all events are pending none is moved: that would put the answer off for ever. */
    if (s->reached < mark.number && s->pending < EVENTS && !is_recorded(s, mark.number) && !record(s))
        poll(s);
    return s->reached >= mark.number;
}

void ebb_marks_ask_again(ebb_t *ebb)
{
    ebb->round_of_questions++;
}

bool ebb_mark_reached_lately(ebb_mark_t mark)
{
    ebb_stream_t *s = mark.stream;
    if (!s || s->reached >= mark.number)
        return true;
    const uint64_t round = s->device->ebb->round_of_questions;
    if (s->asked == round)
        return false;
    s->asked = round;
    /* For what has been issued so far: later questions of this round are about nothing else. */
    return ebb_mark_reached(mark);
}

bool ebb_mark_later(ebb_mark_t *mark, ebb_mark_t other)
{
    if (ebb_mark_reached_lately(other))
        return true;
    if (mark->stream == other.stream) {
        if (other.number > mark->number)
            *mark = other;
        return true;
    }
    if (!ebb_mark_reached_lately(*mark))
        return false;
    *mark = other;
    return true;
}

ebb_status_t ebb_mark_join(ebb_stream_t *stream, ebb_mark_t mark)
{
    const ebb_stream_t *s = mark.stream;
    if (!s || s->reached >= mark.number || ebb_stream_is_gone(stream)) /* which gets no more work */
        return 0;
    /* Streams that share a record cannot be told apart: the host waits. */
    if (stream == &stream->device->ebb->shared_stream)
        return ebb_mark_wait(mark);
    if (s == stream)
        return 0;
    CUevent event;
    EBB_TRY(event_behind(mark.stream, mark.number, &event));
    ebb_visit_t visit;
    EBB_TRY(ebb_context_visit(stream->device, &visit));
    const CUresult result = ebb_driver.cuStreamWaitEvent(handle_here(stream), event, 0);
    ebb_device_return(visit);
    if (result)
        return ebb_fail(result, "cuStreamWaitEvent", 0);
    ebb_mark_issue(stream);
    return 0;
}

ebb_status_t ebb_mark_wait(ebb_mark_t mark)
{
    ebb_stream_t *s = mark.stream;
    CUevent event;
    if (!s || s->reached >= mark.number)
        return 0;
    EBB_TRY(event_behind(s, mark.number, &event));
    const CUresult result = ebb_await_event(event);
    if (result)
        return ebb_fail(result, "cuEventSynchronize", 0);
    /* What another thread may have recorded the event for meanwhile is behind that. Queries may fail where waiting does not. */
    ebb_stream_synchronised(s, mark.number);
    poll(s);
    return 0;
}

void ebb_streams_record(ebb_t *ebb, bool legacy)
{
    for (ebb_stream_t *s = ebb->streams; s; s = s->next) {
        if (ebb_stream_is_gone(s) || s->reached >= s->issued ||
            (!legacy && ebb_is_legacy_stream(handle_here(s))))
            continue;
        if (is_recorded(s, s->issued) || !record(s))
            s->kept[newest(s)] = true;
    }
}

void ebb_stream_synchronised(ebb_stream_t *s, uint64_t number)
{
    if (number > s->reached)
        s->reached = number;
}

ebb_status_t ebb_streams_join(ebb_device_t *dev, ebb_stream_t *stream, bool peer_used)
{
    for (ebb_stream_t *s = dev->ebb->streams; s; s = s->next)
        if (peer_used || s->device == dev)
            EBB_TRY(ebb_mark_join(stream, ebb_mark_here(s)));
    return 0;
}

ebb_status_t ebb_streams_wait(ebb_device_t *dev, bool peer_used)
{
    for (ebb_stream_t *s = dev->ebb->streams; s; s = s->next)
        if (peer_used || s->device == dev)
            EBB_TRY(ebb_mark_wait(ebb_mark_here(s)));
    return 0;
}

void ebb_buffer_touch_by_all(ebb_buffer_t *b)
{
    const ebb_device_t *dev = b->range->device;
    for (ebb_stream_t *s = dev->ebb->streams; s; s = s->next)
        if (!ebb_mark_reached_lately(ebb_mark_here(s))) {
            b->peer_used |= s->device != dev;
            ebb_buffer_touch(b, ebb_mark_here(s));
        }
}

static void lose_device(ebb_device_t *dev, ebb_stream_t *s)
{
    s->handle = (CUstream)s;
    for (unsigned i = 0; i < EBB_STATES; i++)
        if (dev->ebb->device[i].last_stream == s)
            dev->ebb->device[i].last_stream = NULL;
}

void ebb_streams_end(ebb_device_t *dev)
{
    for (ebb_stream_t *s = dev->ebb->streams; s; s = s->next) {
        if (s->device != dev)
            continue;
        s->reached = s->issued;
        s->pending = 0;
        lose_device(dev, s);
    }
}

void ebb_stream_forget(ebb_device_t *dev, ebb_stream_t *s)
{
    /* Marks may name it for as long as the process lives, so the record stays; the handle may come again. */
    const uint64_t issued = s->issued;
    if (s->reached < issued && !is_recorded(s, issued) && record(s) && !ebb_await_stream(s->handle))
        ebb_stream_synchronised(s, issued);
    lose_device(dev, s);
}

/* ---- the device as a whole ---- */

ebb_status_t ebb_wait_for_device(ebb_t *ebb)
{
    if (!ebb_await_context())
        return 0;
    const ebb_status_t status = ebb_await_context();
    if (!status)
        return 0;
    size_t free_bytes, total;
    if (!ebb_driver.cuMemGetInfo_v2(&free_bytes, &total))
        ebb_fail_program(ebb);
    return ebb_fail(status, "cuCtxSynchronize", 0);
}

void ebb_fail_program(ebb_t *ebb)
{
    atomic_store(&ebb->program_failed, true);
}

bool ebb_program_has_failed(const ebb_t *ebb)
{
    return atomic_load(&ebb->program_failed);
}
