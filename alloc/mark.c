/* mark.c: what a stream has reached, without an event per operation.
 *
 * Operations of a stream are counted as they are issued. Only when somebody asks whether the stream has got
 * as far as number n is an event recorded, behind everything issued so far; it then answers for all numbers
 * up to there. So the hot path pays one increment, and a question is at worst answered a little late, never
 * too early.
 */
#include "mark.h"

#include <stdlib.h>

#include "capture.h"
#include "driver.h"
#include "log.h"

struct ebb_stream {
    CUstream handle;
    unsigned long long id; /* the driver's: a handle may come again for another stream */
    uint64_t issued, reached;
    CUevent event;     /* made when first needed */
    uint64_t event_at; /* the number it was recorded behind; 0: not recorded, or seen to be over */
    ebb_stream_t *next;
};

static ebb_stream_t *streams, *last;

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

ebb_stream_t *ebb_stream_of(CUstream handle)
{
    if (handle == CU_STREAM_LEGACY)
        handle = NULL;
    if (last && last->handle == handle && !is_ambiguous(handle))
        return last;
    const unsigned long long id = is_ambiguous(handle) ? own_id() : 0;
    for (ebb_stream_t *s = streams; s; s = s->next)
        if (s->handle == handle && s->id == id)
            return last = s;
    ebb_stream_t *s = calloc(1, sizeof *s);
    if (!s) {
        /* All streams without a record share one: its marks are reached later than need be. */
        ebb_log(EBB_WARN, "out of host memory");
        static ebb_stream_t shared;
        return &shared;
    }
    s->handle = handle;
    s->id = id;
    s->next = streams;
    streams = s;
    return last = s;
}

CUstream ebb_stream_handle(const ebb_stream_t *s)
{
    return s->handle;
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

static ebb_status_t record(ebb_stream_t *s)
{
    if (!ebb_may_record(handle_here(s))) /* it would become part of the graph */
        return ebb_fail(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, "an event on a captured stream", 0);
    if (!s->event)
        EBB_DRIVER(cuEventCreate, 0, (&s->event, CU_EVENT_DISABLE_TIMING));
    EBB_DRIVER(cuEventRecord, 0, (s->event, handle_here(s)));
    s->event_at = s->issued;
    return 0;
}

static void poll(ebb_stream_t *s)
{
    if (s->event_at && ebb_driver.cuEventQuery(s->event) == CUDA_SUCCESS) {
        s->reached = s->event_at;
        s->event_at = 0;
    }
}

bool ebb_mark_reached(ebb_mark_t mark)
{
    ebb_stream_t *s = mark.stream;
    if (!s || s->reached >= mark.number)
        return true;
    poll(s);
    if (s->reached < mark.number && s->event_at < mark.number && !record(s))
        poll(s);
    return s->reached >= mark.number;
}

ebb_status_t ebb_mark_join(CUstream stream, ebb_mark_t mark)
{
    ebb_stream_t *s = mark.stream;
    if (!s || s->reached >= mark.number || (s->handle == stream && handle_here(s) == stream))
        return 0;
    if (s->event_at < mark.number)
        EBB_TRY(record(s));
    EBB_DRIVER(cuStreamWaitEvent, 0, (stream, s->event, 0));
    return 0;
}

ebb_status_t ebb_mark_wait(ebb_mark_t mark)
{
    ebb_stream_t *s = mark.stream;
    if (!s || s->reached >= mark.number)
        return 0;
    if (s->event_at < mark.number)
        EBB_TRY(record(s));
    uint64_t at = s->event_at;
    EBB_DRIVER(cuEventSynchronize, 0, (s->event));
    s->reached = at;
    s->event_at = 0;
    return 0;
}

void ebb_streams_record(void)
{
    for (ebb_stream_t *s = streams; s; s = s->next)
        if (s->handle != (CUstream)s && s->reached < s->issued && s->event_at < s->issued)
            record(s);
}

void ebb_stream_synchronised(ebb_stream_t *s, uint64_t number)
{
    if (number > s->reached)
        s->reached = number;
}

ebb_status_t ebb_streams_join(CUstream stream)
{
    for (ebb_stream_t *s = streams; s; s = s->next)
        EBB_TRY(ebb_mark_join(stream, ebb_mark_here(s)));
    return 0;
}

void ebb_stream_forget(ebb_stream_t *s)
{
    /* Marks may name it for as long as the process lives, so the record stays; the handle may come again. */
    if (s->reached < s->issued && s->event_at < s->issued && record(s) &&
        !ebb_driver.cuStreamSynchronize(s->handle))
        s->reached = s->issued;
    s->handle = (CUstream)s; /* nobody's */
    if (last == s)
        last = NULL;
}
