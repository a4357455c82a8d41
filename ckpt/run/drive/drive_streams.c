/* drive_streams.c: the program's streams, where a plan is of several: what waits for what, and whether the program orders them as
 * the plan counts on.
 *
 * The plan knows the events of one step: which were recorded before which operation, and which stream waited for them before which
 * one. The program may record and wait as it likes, with whatever events and by way of whichever of the plan's streams, as long as
 * each is in time behind all that it was behind in the recorded step.
 */
#include <stdlib.h>
#include <string.h>

#include "alloc/base/driver.h"
#include "alloc/base/table.h"
#include "ckpt/run/drive/internal.h"
#include "ckpt/run/run.h"
#include "offload/ebb_offload.h"

/* ---- which stream waits for which ---- */

ebb_stream_t *ebb_drive_stream(const drive_t *drive, uint32_t stream)
{
    return drive->streams > 1 ? drive->learned->streams[stream] : drive->stream;
}

uint32_t ebb_drive_stream_number(const drive_t *drive, const ebb_stream_t *stream)
{
    uint32_t s = 0;
    while (s < drive->streams && ebb_drive_stream(drive, s) != stream)
        s++;
    return s;
}

ebb_status_t ebb_streams_handle(const drive_t *drive, uint32_t stream, CUstream *out)
{
    const ebb_stream_t *s = ebb_drive_stream(drive, stream);
    *out = ebb_stream_handle(s);
    return ebb_stream_is_gone(s)
               ? ebb_fail(CUDA_ERROR_INVALID_HANDLE, "a stream of the plan's that is gone", 0)
               : 0;
}

ebb_status_t ebb_streams_after(drive_t *drive, CUstream waiter, uint32_t after, CUevent event)
{
    for (uint32_t s = 0; s < drive->streams; s++) {
        CUstream stream;
        if (!(after >> s & 1))
            continue;
        EBB_TRY(ebb_streams_handle(drive, s, &stream));
        if (stream == waiter)
            continue;
        EBB_DRIVER(cuEventRecord, 0, (event, stream));
        EBB_DRIVER(cuStreamWaitEvent, 0, (waiter, event, 0));
    }
    return 0;
}

ebb_status_t ebb_streams_order(drive_t *drive, uint32_t stream, uint32_t after)
{
    CUstream handle;
    EBB_TRY(ebb_streams_handle(drive, stream, &handle));
    return ebb_streams_after(drive, handle, after, drive->order.turn);
}

/* The copies' streams too: what they bring takes memory that the stream has read. */
ebb_status_t ebb_streams_scatter(drive_t *drive, uint32_t stream, uint32_t others)
{
    if (drive->streams == 1)
        return 0;
    for (uint32_t s = 0; s < drive->streams; s++)
        if (s != stream && others >> s & 1)
            EBB_TRY(ebb_streams_order(drive, s, UINT32_C(1) << stream));
    for (int direction = 0; direction < 2; direction++) {
        ebb_stream_t *copies = ebb_copy_stream(drive->device, direction ? EBB_IN : EBB_OUT);
        if (copies)
            EBB_TRY(ebb_streams_after(drive, ebb_stream_handle(copies), UINT32_C(1) << stream,
                                      drive->order.turn));
    }
    return 0;
}

/* ---- the program's events ---- */

/* A wait of the recorded step, for what the event has reached: an edge for each stream of which that is more than what is known. */
static bool add_edges(drive_t *drive, const ebb_trace_sync_t *wait, const uint32_t *event)
{
    uint32_t *reached = drive->order.reached[wait->stream];
    for (uint32_t from = 0; from < drive->streams; from++) {
        if (from == wait->stream || event[from] <= reached[from] ||
            wait->before >= drive->trace->operation_count)
            continue;
        ebb_drive_edge_t *e = ebb_array_append((void **)&drive->order.edge, &drive->order.edge_count,
                                               &drive->order.edge_room, sizeof *e);
        if (!e)
            return false;
        *e = (ebb_drive_edge_t){from, event[from], wait->stream, wait->before};
        reached[from] = event[from];
    }
    return true;
}

/* As the checker walks through them (checker/walk.c). An event that was not recorded before in the step orders nothing. */
static bool list_edges(drive_t *drive)
{
    const ebb_trace_t *t = drive->trace;
    uint32_t(*event)[EBB_PLAN_STREAMS] = calloc((size_t)t->sync_count + 1, sizeof *event);
    bool good = event;
    for (uint32_t i = 0; good && i < t->sync_count; i++) {
        const ebb_trace_sync_t *m = &t->sync[i];
        if (m->id >= t->sync_count)
            continue;
        if (m->what == EBB_SYNC_RECORD) {
            memcpy(event[m->id], drive->order.reached[m->stream], sizeof *event);
            event[m->id][m->stream] = m->before;
        } else if (m->what == EBB_SYNC_WAIT) {
            good = add_edges(drive, m, event[m->id]);
        }
    }
    free(event);
    memset(drive->order.reached, 0, sizeof drive->order.reached);
    return good;
}

ebb_status_t ebb_streams_set_up(drive_t *drive)
{
    if (drive->streams == 1)
        return 0;
    if (drive->streams > drive->learned->stream_count)
        return ebb_fail(CUDA_ERROR_NOT_FOUND, "the step's streams", 0);
    for (uint32_t s = 0; s < drive->streams; s++) {
        if (ebb_stream_is_gone(ebb_drive_stream(drive, s)))
            return ebb_fail(CUDA_ERROR_NOT_FOUND, "one of the step's streams", 0);
        if (ebb_stream_handle(ebb_drive_stream(drive, s)) == CU_STREAM_PER_THREAD)
            return ebb_fail(CUDA_ERROR_NOT_SUPPORTED, "a step on a thread's own stream", 0);
    }
    if (!list_edges(drive))
        return ebb_fail(CUDA_ERROR_OUT_OF_MEMORY, "host memory for a plan", 0);
    EBB_DRIVER(cuEventCreate, 0, (&drive->order.turn, CU_EVENT_DISABLE_TIMING));
    ebb_run_want_order(drive->device->ebb, true);
    return 0;
}

void ebb_streams_tear_down(drive_t *drive)
{
    if (drive->order.turn) {
        ebb_run_want_order(drive->device->ebb, false);
        ebb_driver.cuEventDestroy_v2(drive->order.turn);
    }
    free(drive->order.edge);
    free(drive->order.recorded);
    drive->order = (ebb_drive_order_t){0};
}

/* What is recorded or waited for between two steps belongs to the one to come. */
static uint32_t cursor(drive_t *drive)
{
    return drive->cursor == drive->trace->operation_count ? 0 : drive->cursor;
}

static ebb_drive_event_t *find_recorded(drive_t *drive, CUevent event)
{
    for (uint32_t i = drive->order.recorded_count; i-- > 0;)
        if (drive->order.recorded[i].event == event)
            return &drive->order.recorded[i];
    return NULL;
}

/* Also on a stream that is none of the plan's: the event is no longer what it was. */
static void note_record(drive_t *drive, uint32_t stream, CUevent event)
{
    ebb_drive_event_t *r = find_recorded(drive, event);
    if (!r)
        r = ebb_array_append((void **)&drive->order.recorded, &drive->order.recorded_count,
                             &drive->order.recorded_room, sizeof *r);
    if (r)
        *r = (ebb_drive_event_t){.event = event};
    if (r && stream < drive->streams) {
        memcpy(r->reached, drive->order.reached[stream], sizeof r->reached);
        r->reached[stream] = cursor(drive);
    }
    drive->order.failed |= !r;
}

void ebb_drive_ordered(ebb_device_t *dev, const ebb_order_t *o)
{
    drive_t *drive = ebb_driven(dev);
    if (!drive->active || drive->streams == 1)
        return;
    if (o->kind == EBB_ORDER_NOT_RECORDED)
        note_record(drive, drive->streams, o->event);
    if ((o->kind != EBB_ORDER_RECORD && o->kind != EBB_ORDER_WAIT) || !o->stream)
        return;
    const uint32_t stream = ebb_drive_stream_number(drive, o->stream);
    if (o->kind == EBB_ORDER_RECORD) {
        note_record(drive, stream, o->event);
        return;
    }
    const ebb_drive_event_t *r = find_recorded(drive, o->event);
    for (uint32_t from = 0; r && stream < drive->streams && from < drive->streams; from++) {
        uint32_t *reached = &drive->order.reached[stream][from];
        *reached = r->reached[from] > *reached ? r->reached[from] : *reached;
    }
}

const char *ebb_streams_before(drive_t *drive, uint32_t operation)
{
    if (drive->streams == 1)
        return NULL;
    if (drive->order.failed)
        return "no host memory";
    for (; drive->order.next_edge < drive->order.edge_count &&
           drive->order.edge[drive->order.next_edge].waited <= operation;
         drive->order.next_edge++) {
        const ebb_drive_edge_t *e = &drive->order.edge[drive->order.next_edge];
        if (drive->order.reached[e->to][e->from] < e->recorded)
            return "a stream has not waited for another one";
    }
    return NULL;
}

void ebb_streams_begin_step(drive_t *drive)
{
    if (drive->streams == 1)
        return;
    memset(drive->order.reached, 0, sizeof drive->order.reached);
    drive->order.next_edge = drive->order.recorded_count = 0;
}
