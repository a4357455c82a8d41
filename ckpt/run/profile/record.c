/* record.c: the pass that records what happens in a step; it issues nothing. See profile.h. */
#include "ckpt/run/profile/internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "alloc/base/status.h"
#include "alloc/base/table.h"
#include "alloc/base/thread.h"
#include "alloc/device.h"
#include "alloc/kernel/kernel.h"
#include "ckpt/run/profile/kernels/tiles.h"
#include "ckpt/run/run.h"
#include "ckpt/run/state.h"

_Static_assert((int)EBB_TRACE_TILE_BYTES == (int)EBB_TILE_BYTES,
               "a trace counts in the tiles that are looked at");

/* A live buffer's number in the trace, by its generation. */
typedef struct number {
    uint64_t generation;
    uint32_t id;
} number_t;

/* The event that was recorded last with a handle. */
typedef struct event {
    CUevent handle;
    uint32_t id;
} event_t;

enum { STREAMS = EBB_RECORD_STREAMS, THREADS = 64 };

struct ebb_record {
    ebb_recording_t result;
    bool listens;        /* to what orders streams */
    bool broken;         /* no memory: there will be no trace */
    ebb_table_t numbers; /* number_t */
    uint32_t operation_room, buffer_room;
    pid_t thread[THREADS];
    uint32_t thread_count;
    event_t *event;                           /* handles, in order of appearance */
    uint32_t event_count, event_room, events; /* events: records so far */
};
const size_t ebb_part_record = sizeof(struct ebb_record);

/* ---- buffers by number ---- */

/* The buffer's entry in the trace, made now if it has none: it was there before the step, then. */
static ebb_trace_buffer_t *entry_of(struct ebb_record *record, const ebb_buffer_t *b, uint32_t *id)
{
    ebb_recording_t *r = &record->result;
    bool added;
    number_t *n = ebb_table_add(&record->numbers, sizeof *n, b->generation, &added);
    if (!n)
        return NULL;
    if (added) {
        uint32_t count = r->trace->buffer_count;
        ebb_trace_buffer_t *entry =
            ebb_array_append((void **)&r->buffer, &count, &record->buffer_room, sizeof *r->buffer)
                ? ebb_trace_add_buffer(r->trace)
                : NULL;
        if (!entry)
            return NULL;
        entry->bytes = b->bytes;
        entry->pinned = b->pinned != 0;
        entry->kept = b->kept != 0;
        *n = (number_t){b->generation, r->trace->buffer_count - 1};
        r->buffer[n->id].generation = b->generation;
        r->buffer[n->id].address = b->address;
    }
    *id = n->id;
    return &r->trace->buffer[n->id];
}

static uint32_t number_of_stream(struct ebb_record *record, ebb_stream_t *stream)
{
    ebb_recording_t *r = &record->result;
    uint32_t i = 0;
    while (i < r->stream_count && r->streams[i] != stream)
        i++;
    if (i == r->stream_count && i < STREAMS)
        r->streams[r->stream_count++] = stream;
    return i;
}

/* Threads beyond the last number share it. */
static uint32_t number_of_thread(struct ebb_record *record)
{
    pid_t *id = &ebb_this_thread.id;
    if (!*id)
        *id = (pid_t)syscall(SYS_gettid);
    uint32_t i = 0;
    while (i < record->thread_count && record->thread[i] != *id)
        i++;
    if (i == record->thread_count && i < THREADS)
        record->thread[record->thread_count++] = *id;
    return i < THREADS ? i : THREADS - 1;
}

static bool add_sync(struct ebb_record *record, ebb_sync_kind_t what, ebb_stream_t *stream, uint32_t id)
{
    uint32_t s = stream ? number_of_stream(record, stream) : 0;
    ebb_trace_sync_t *m = s < STREAMS ? ebb_trace_add_sync(record->result.trace) : NULL;
    if (m)
        *m = (ebb_trace_sync_t){what, record->result.trace->operation_count, s, number_of_thread(record), id};
    return m != NULL;
}

/* The number of an event's last record in this step. */
static uint32_t event_of(struct ebb_record *record, const ebb_order_t *o)
{
    uint32_t i = 0;
    while (i < record->event_count && record->event[i].handle != o->event)
        i++;
    if (o->kind != EBB_ORDER_RECORD)
        return i < record->event_count ? record->event[i].id : EBB_NONE;
    if (i == record->event_count) {
        event_t *e = ebb_array_append((void **)&record->event, &record->event_count, &record->event_room,
                                      sizeof *record->event);
        if (!e)
            return EBB_NONE;
        e->handle = o->event;
    }
    return record->event[i].id = record->events++;
}

void ebb_record_order(ebb_device_t *dev, const ebb_order_t *o)
{
    struct ebb_record *record = dev->run->record;
    if (!record->broken && record->result.trace)
        record->broken = o->kind == EBB_ORDER_NOT_RECORDED ||
                         !add_sync(record, (ebb_sync_kind_t)(EBB_SYNC_RECORD + (int)o->kind), o->stream,
                                   o->event ? event_of(record, o) : 0);
}

void ebb_record_lifetime(const ebb_buffer_t *b, ebb_sync_kind_t what, ebb_stream_t *stream)
{
    ebb_device_t *dev = b->range->device;
    struct ebb_record *record = dev->run->record;
    uint32_t id = 0;
    ebb_trace_buffer_t *entry = record->broken ? NULL : entry_of(record, b, &id);
    if (entry)
        *(what == EBB_SYNC_ALLOC ? &entry->born : &entry->dies) = record->result.trace->operation_count;
    record->broken = !entry || !add_sync(record, what, stream, id);
}

/* ---- operations ---- */

static const char *name_of(ebb_device_t *dev, const ebb_operation_t *op)
{
    return op->kind == EBB_KERNEL  ? ebb_know_name(dev, op->function)
           : op->kind == EBB_OTHER ? op->name
           : op->kind == EBB_COPY  ? "copy"
                                   : "set";
}

bool ebb_record_is_resident(ebb_device_t *dev, const ebb_operation_t *op)
{
    return op->kind == EBB_KERNEL &&
           (op->cooperative || (op->told != EBB_TOLD && ebb_name_communicates(name_of(dev, op))));
}

/* What a copy or memset does; of all else nothing is known. */
static ebb_mode_t mode_of(const ebb_operation_t *op, const ebb_access_t *access)
{
    if (op->kind == EBB_KERNEL || op->kind == EBB_OTHER)
        return EBB_UPDATES;
    return access->param_offset && !ebb_record_is_within(op) ? EBB_READS
           : ebb_record_is_whole(op)                         ? EBB_REPLACES
                                                             : EBB_UPDATES;
}

static bool record_access(struct ebb_record *record, const ebb_operation_t *op, const ebb_access_t *access)
{
    uint32_t id;
    if (!entry_of(record, access->buffer, &id))
        return false;
    ebb_trace_access_t *a = ebb_trace_add_access(record->result.trace);
    if (!a)
        return false;
    a->buffer = id;
    a->offset_bytes = access->offset_bytes;
    a->param_offset = access->param_offset;
    a->mode = mode_of(op, access);
    if (op->kind != EBB_KERNEL && op->kind != EBB_OTHER && !access->param_offset && op->bytes) {
        a->first_tile = (uint32_t)(access->offset_bytes / EBB_TILE_BYTES);
        uint64_t last = access->offset_bytes + op->bytes - 1;
        last = last < access->buffer->bytes ? last : access->buffer->bytes - 1;
        a->tile_count = (uint32_t)(last / EBB_TILE_BYTES) + 1 - a->first_tile;
    }
    return true;
}

/* Copies within the device and memsets agree with themselves. */
static void judge(const ebb_operation_t *op, ebb_trace_operation_t *o)
{
    bool device = op->kind == EBB_SET || (op->kind == EBB_COPY && op->access_count == 2 &&
                                          op->access[0].buffer != op->access[1].buffer);
    o->proofs = device ? 3 : 0;
    o->verdict = op->kind == EBB_OTHER                  ? EBB_OTHERWISE
                 : device                               ? EBB_PROVEN
                 : op->kind == EBB_COPY                 ? EBB_HOST
                 : op->plain                            ? EBB_UNTRIED
                 : op->named_at && op->told != EBB_TOLD ? EBB_TABLE
                                                        : EBB_ATTRIBUTES;
}

static bool record_operation(ebb_device_t *dev, const ebb_operation_t *op)
{
    struct ebb_record *record = dev->run->record;
    ebb_recording_t *r = &record->result;
    uint32_t stream = number_of_stream(record, op->stream), index = r->trace->operation_count, count = index;
    ebb_trace_operation_t *o =
        stream < STREAMS && ebb_array_append((void **)&r->operation, &count, &record->operation_room,
                                             sizeof *r->operation)
            ? ebb_trace_add_operation(r->trace)
            : NULL;
    if (!o || op->opaque)
        return false;
    if (!index)
        r->stream = op->stream;
    r->operation[index].function = ebb_record_function(op);
    r->operation[index].attributes = op->attributes;
    r->operation[index].tables_at = op->told == EBB_TOLD ? 0 : op->named_at;
    o->kind = (ebb_trace_kind_t)op->kind;
    o->stream = stream;
    o->thread = number_of_thread(record);
    snprintf(o->name, sizeof o->name, "%s", name_of(dev, op));
    memcpy(o->grid, op->grid, sizeof o->grid);
    memcpy(o->block, op->block, sizeof o->block);
    o->shared_bytes = op->shared_bytes;
    o->param_bytes = (uint32_t)(op->kind == EBB_KERNEL ? op->param_bytes : op->bytes);
    o->resident = ebb_record_is_resident(dev, op);
    o->communicates = op->kind == EBB_KERNEL && ebb_name_communicates(o->name);
    judge(op, o);
    if (!ebb_trace_set_nvtx(r->trace, o, ebb_nvtx_path()) ||
        (op->kind == EBB_KERNEL && !ebb_trace_add_args(r->trace, op->params, (uint32_t)op->param_bytes)))
        return false;
    for (uint32_t i = 0; i < op->access_count; i++)
        if (!record_access(record, op, &op->access[i]))
            return false;
    return true;
}

void ebb_record_operation(ebb_device_t *dev, const ebb_operation_t *op)
{
    struct ebb_record *record = dev->run->record;
    if (!record->broken)
        record->broken = !record_operation(dev, op);
}

/* ---- begin and end ---- */

/* All large buffers that are there, in the order in which they were allocated: also those that the step does
 * not touch. */
static bool list_present(ebb_device_t *dev)
{
    uint32_t id;
    for (ebb_buffer_t *b = ebb_buffer_oldest(dev); b; b = b->newer)
        if (!b->held && !entry_of(dev->run->record, b, &id)) /* held: ebb's own */
            return false;
    return true;
}

bool ebb_record_begin(ebb_device_t *dev)
{
    struct ebb_record *record = dev->run->record;
    record->result.trace = ebb_trace_new(EBB_CHUNK_BYTES);
    record->broken = !record->result.trace || !list_present(dev);
    record->listens = true;
    ebb_run_want_order(dev->ebb, true);
    return true;
}

static void reset(ebb_device_t *dev)
{
    struct ebb_record *record = dev->run->record;
    if (record->listens)
        ebb_run_want_order(dev->ebb, false);
    free(record->numbers.at);
    free(record->event);
    memset(record, 0, sizeof *record);
}

void ebb_recording_delete(ebb_recording_t *r)
{
    ebb_trace_delete(r->trace);
    free(r->operation);
    free(r->buffer);
    free(r->tried);
    free(r->varies);
    *r = (ebb_recording_t){0};
}

bool ebb_recording_launches_from(ebb_device_t *dev, const ebb_recording_t *r, const void *module)
{
    for (uint32_t i = 0; r->trace && i < r->trace->operation_count; i++)
        if (r->trace->operation[i].kind == EBB_TRACE_KERNEL &&
            ebb_function_is_from(dev->ebb, r->operation[i].function, module))
            return true;
    return false;
}

/* NULL: it is a step. */
static const char *why_no_step(const struct ebb_record *record)
{
    return record->broken ? "there is no memory for it, or not all of it can be seen"
                          : ebb_trace_check(record->result.trace);
}

bool ebb_record_end(ebb_device_t *dev, bool good)
{
    struct ebb_record *record = dev->run->record;
    ebb_recording_t *r = &record->result;
    const char *wrong = good ? why_no_step(record) : NULL;
    if (wrong)
        ebb_log(EBB_WARN, "the step could not be recorded: %s", wrong);
    if (good && !wrong) {
        r->tried = calloc((size_t)r->trace->args_bytes + 1, 1);
        r->varies = calloc((size_t)r->trace->args_bytes + 1, 1);
    }
    if (!good || wrong || !r->tried || !r->varies) {
        ebb_recording_delete(r);
        reset(dev);
        return false;
    }
    for (uint32_t i = 0; i < r->trace->buffer_count; i++) {
        ebb_trace_buffer_t *b = &r->trace->buffer[i];
        if (b->born == EBB_NONE && b->dies == EBB_NONE)
            b->next = i; /* until it is seen to be another one */
        r->buffer[i].left = b->dies == EBB_NONE ? r->buffer[i].generation : 0;
        r->buffer[i].left_at = r->buffer[i].address;
    }
    ebb_profile_t *l = dev->run->pass->profile;
    l->recorded = *r;
    reset(dev);
    return ebb_pieces_measure(l);
}
