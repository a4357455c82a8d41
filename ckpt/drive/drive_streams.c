/* drive_streams.c: the program's streams, where a plan is of several: what waits for what, and whether the program orders them as
 * the plan counts on.
 *
 * The plan knows the events of one step: which were recorded before which operation, and which stream waited for them before which
 * one. The program may record and wait as it likes, with whatever events, as long as each of these waits comes in time, for
 * something on the same stream that was recorded no earlier.
 */
#include <stdlib.h>
#include <string.h>

#include "array.h"
#include "driver.h"
#include "drive_state.h"
#include "ebb_offload.h"

#define D ebb_drive

/* The stream `to` waits before operation `waited` for what `from` is given before operation `recorded`. */
typedef struct edge {
    uint32_t from, recorded, to, waited;
} edge_t;

/* An event of the program's, recorded in this step. */
typedef struct recorded {
    CUevent event;
    uint32_t stream, cursor;
} recorded_t;

static struct {
    CUevent turn; /* recorded and waited for, at once */
    edge_t *edge; /* [edge_count] by `waited` */
    uint32_t edge_count, edge_room, next_edge;
    recorded_t *recorded;
    uint32_t recorded_count, recorded_room;
    /* [to][from]: in this step `to` has waited for what `from` was given before this operation */
    uint32_t reached[EBB_PLAN_STREAMS][EBB_PLAN_STREAMS];
    bool failed; /* no memory to remember an event */
} streams;

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
            return CUDA_ERROR_INVALID_HANDLE;
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
        return CUDA_ERROR_INVALID_HANDLE;
    return ebb_streams_after(ebb_stream_handle(ebb_drive_stream(stream)), after, streams.turn);
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
            EBB_TRY(ebb_streams_after(ebb_stream_handle(copies), UINT32_C(1) << stream, streams.turn));
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
    edge_t *e = ebb_array_append((void **)&streams.edge, &streams.edge_count, &streams.edge_room, sizeof *e);
    if (e)
        *e = (edge_t){record->stream, record->before, wait->stream, wait->before};
    return e;
}

/* NULL, or why not. */
const char *ebb_streams_set_up(void)
{
    if (D.streams == 1)
        return NULL;
    if (D.streams > D.learned->stream_count)
        return "its streams are not known";
    for (uint32_t s = 0; s < D.streams; s++) {
        if (!is_there(s))
            return "one of its streams is gone";
        if (ebb_stream_handle(ebb_drive_stream(s)) == CU_STREAM_PER_THREAD)
            return "one of its streams is a thread's own";
    }
    for (uint32_t i = 0; i < D.trace->moment_count; i++)
        if (D.trace->moment[i].what == EBB_MOMENT_WAIT && !add_edge(&D.trace->moment[i]))
            return "no host memory";
    if (ebb_driver.cuEventCreate(&streams.turn, CU_EVENT_DISABLE_TIMING))
        return "no events";
    ebb_listen_to_order(true);
    return NULL;
}

void ebb_streams_tear_down(void)
{
    if (streams.turn) {
        ebb_listen_to_order(false);
        ebb_driver.cuEventDestroy(streams.turn);
    }
    free(streams.edge);
    free(streams.recorded);
    memset(&streams, 0, sizeof streams);
}

/* What is recorded or waited for between two steps belongs to the one to come. */
static uint32_t cursor(void)
{
    return D.cursor == D.trace->operation_count ? 0 : D.cursor;
}

static recorded_t *find_recorded(CUevent event)
{
    for (uint32_t i = streams.recorded_count; i-- > 0;)
        if (streams.recorded[i].event == event)
            return &streams.recorded[i];
    return NULL;
}

static void note_record(uint32_t stream, CUevent event)
{
    recorded_t *r = find_recorded(event);
    if (!r)
        r = ebb_array_append((void **)&streams.recorded, &streams.recorded_count, &streams.recorded_room,
                             sizeof *r);
    if (r)
        *r = (recorded_t){event, stream, cursor()};
    streams.failed |= !r;
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
    const recorded_t *r = find_recorded(o->event);
    if (!r || r->stream >= D.streams || stream >= D.streams)
        return;
    uint32_t *reached = &streams.reached[stream][r->stream];
    *reached = r->cursor > *reached ? r->cursor : *reached;
}

const char *ebb_streams_before(uint32_t operation)
{
    if (D.streams == 1)
        return NULL;
    if (streams.failed)
        return "no host memory";
    for (; streams.next_edge < streams.edge_count && streams.edge[streams.next_edge].waited <= operation;
         streams.next_edge++) {
        const edge_t *e = &streams.edge[streams.next_edge];
        if (streams.reached[e->to][e->from] < e->recorded)
            return "a stream has not waited for another one";
    }
    return NULL;
}

void ebb_streams_begin_step(void)
{
    if (D.streams == 1)
        return;
    memset(streams.reached, 0, sizeof streams.reached);
    streams.next_edge = streams.recorded_count = 0;
}
