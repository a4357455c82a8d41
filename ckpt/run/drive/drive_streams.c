/* drive_streams.c: the program's streams, where a plan is of several: what waits for what, and whether the program orders them as
 * the plan counts on.
 *
 * The plan knows the events of one step: which were recorded before which operation, and which stream waited for them before which
 * one. The program may record and wait as it likes, with whatever events, as long as each of these waits comes in time, for
 * something on the same stream that was recorded no earlier.
 */
#include <stdlib.h>
#include <string.h>

#include "alloc/base/array.h"
#include "alloc/base/driver.h"
#include "ckpt/run/drive/drive_state.h"
#include "ckpt/run/run.h"
#include "offload/ebb_offload.h"

#define D ebb_drive

/* ---- who waits for whom ---- */

ebb_stream_t *ebb_drive_stream(uint32_t stream)
{
    return D.streams > 1 ? D.learned->streams[stream] : D.stream;
}

uint32_t ebb_drive_stream_number(const ebb_stream_t *stream)
{
    uint32_t s = 0;
    while (s < D.streams && ebb_drive_stream(s) != stream)
        s++;
    return s;
}

/* False: it has been destroyed. */
static bool is_there(uint32_t stream)
{
    const ebb_stream_t *s = ebb_drive_stream(stream);
    return ebb_stream_handle(s) != (CUstream)s; /* mark.c */
}

ebb_status_t ebb_streams_after(CUstream waiter, uint32_t after, CUevent event)
{
    for (uint32_t s = 0; s < D.streams; s++) {
        if (!(after >> s & 1))
            continue;
        if (!is_there(s))
            return ebb_fail(CUDA_ERROR_INVALID_HANDLE, "a stream of the plan's that is gone", 0);
        const CUstream stream = ebb_stream_handle(ebb_drive_stream(s));
        if (stream == waiter)
            continue;
        EBB_DRIVER(cuEventRecord, 0, (event, stream));
        EBB_DRIVER(cuStreamWaitEvent, 0, (waiter, event, 0));
    }
    return 0;
}

ebb_status_t ebb_streams_order(uint32_t stream, uint32_t after)
{
    if (!after)
        return 0;
    if (!is_there(stream))
        return ebb_fail(CUDA_ERROR_INVALID_HANDLE, "a stream of the plan's that is gone", 0);
    return ebb_streams_after(ebb_stream_handle(ebb_drive_stream(stream)), after, D.order.turn);
}

ebb_status_t ebb_streams_gather(uint32_t stream)
{
    return D.streams > 1 ? ebb_streams_order(stream, UINT32_MAX) : 0;
}

/* The copies' streams too: what they bring takes memory that the stream has read. */
ebb_status_t ebb_streams_scatter(uint32_t stream)
{
    if (D.streams == 1)
        return 0;
    for (uint32_t s = 0; s < D.streams; s++)
        if (s != stream)
            EBB_TRY(ebb_streams_order(s, UINT32_C(1) << stream));
    for (int direction = 0; direction < 2; direction++) {
        ebb_stream_t *copies = ebb_copy_stream(direction ? EBB_IN : EBB_OUT);
        if (copies)
            EBB_TRY(ebb_streams_after(ebb_stream_handle(copies), UINT32_C(1) << stream, D.order.turn));
    }
    return 0;
}

/* ---- the program's events ---- */

static bool add_edge(const ebb_trace_moment_t *wait)
{
    const ebb_trace_moment_t *record = wait;
    while (record > D.trace->moment && (record->what != EBB_MOMENT_RECORD || record->id != wait->id))
        record--;
    if (record->what != EBB_MOMENT_RECORD || record->id != wait->id || record->stream == wait->stream ||
        !record->before || wait->before >= D.trace->operation_count)
        return true;
    ebb_drive_edge_t *e =
        ebb_array_append((void **)&D.order.edge, &D.order.edge_count, &D.order.edge_room, sizeof *e);
    if (e)
        *e = (ebb_drive_edge_t){record->stream, record->before, wait->stream, wait->before};
    return e;
}

ebb_status_t ebb_streams_set_up(void)
{
    if (D.streams == 1)
        return 0;
    if (D.streams > D.learned->stream_count)
        return ebb_fail(CUDA_ERROR_NOT_FOUND, "the step's streams", 0);
    for (uint32_t s = 0; s < D.streams; s++) {
        if (!is_there(s))
            return ebb_fail(CUDA_ERROR_NOT_FOUND, "one of the step's streams", 0);
        if (ebb_stream_handle(ebb_drive_stream(s)) == CU_STREAM_PER_THREAD)
            return ebb_fail(CUDA_ERROR_NOT_SUPPORTED, "a step on a thread's own stream", 0);
    }
    for (uint32_t i = 0; i < D.trace->moment_count; i++)
        if (D.trace->moment[i].what == EBB_MOMENT_WAIT && !add_edge(&D.trace->moment[i]))
            return ebb_fail(CUDA_ERROR_OUT_OF_MEMORY, "host memory for a plan", 0);
    EBB_DRIVER(cuEventCreate, 0, (&D.order.turn, CU_EVENT_DISABLE_TIMING));
    ebb_run_want_order(true);
    return 0;
}

void ebb_streams_tear_down(void)
{
    if (D.order.turn) {
        ebb_run_want_order(false);
        ebb_driver.cuEventDestroy_v2(D.order.turn);
    }
    free(D.order.edge);
    free(D.order.recorded);
    D.order = (ebb_drive_order_t){0};
}

/* What is recorded or waited for between two steps belongs to the one to come. */
static uint32_t cursor(void)
{
    return D.cursor == D.trace->operation_count ? 0 : D.cursor;
}

static ebb_drive_event_t *find_recorded(CUevent event)
{
    for (uint32_t i = D.order.recorded_count; i-- > 0;)
        if (D.order.recorded[i].event == event)
            return &D.order.recorded[i];
    return NULL;
}

static void note_record(uint32_t stream, CUevent event)
{
    ebb_drive_event_t *r = find_recorded(event);
    if (!r)
        r = ebb_array_append((void **)&D.order.recorded, &D.order.recorded_count, &D.order.recorded_room,
                             sizeof *r);
    if (r)
        *r = (ebb_drive_event_t){event, stream, cursor()};
    D.order.failed |= !r;
}

void ebb_drive_ordered(const ebb_order_t *o)
{
    if (!D.active || D.streams == 1)
        return;
    if (o->kind == EBB_ORDER_NOT_RECORDED)
        note_record(D.streams, o->event);
    if ((o->kind != EBB_ORDER_RECORD && o->kind != EBB_ORDER_WAIT) || !o->stream)
        return;
    const uint32_t stream = ebb_drive_stream_number(o->stream);
    /* On a stream that is none of the plan's, too: the event is no longer what it was. */
    if (o->kind == EBB_ORDER_RECORD) {
        note_record(stream, o->event);
        return;
    }
    const ebb_drive_event_t *r = find_recorded(o->event);
    if (!r || r->stream >= D.streams || stream >= D.streams)
        return;
    uint32_t *reached = &D.order.reached[stream][r->stream];
    *reached = r->cursor > *reached ? r->cursor : *reached;
}

const char *ebb_streams_before(uint32_t operation)
{
    if (D.streams == 1)
        return NULL;
    if (D.order.failed)
        return "no host memory";
    for (; D.order.next_edge < D.order.edge_count && D.order.edge[D.order.next_edge].waited <= operation;
         D.order.next_edge++) {
        const ebb_drive_edge_t *e = &D.order.edge[D.order.next_edge];
        if (D.order.reached[e->to][e->from] < e->recorded)
            return "a stream has not waited for another one";
    }
    return NULL;
}

void ebb_streams_begin_step(void)
{
    if (D.streams == 1)
        return;
    memset(D.order.reached, 0, sizeof D.order.reached);
    D.order.next_edge = D.order.recorded_count = 0;
}
