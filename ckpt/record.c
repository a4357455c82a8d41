#include "record.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "driver.h"
#include "log.h"

/* A live buffer's number in the trace, by its generation. Open addressing. */
typedef struct number {
    uint64_t generation; /* 0: free */
    uint32_t id;
} number_t;

/* When an operation ended: an event of its own. */
typedef struct stamp {
    CUevent event;
    uint32_t stream;
} stamp_t;

enum { STREAMS = 64 };

static struct {
    ebb_trace_t *trace;
    bool broken; /* no memory, or no event: there will be no trace */
    number_t *number;
    size_t number_room, number_count;
    stamp_t *stamp; /* [operations + one per stream]: the first of a stream is its beginning */
    size_t stamp_count, stamp_room;
    const ebb_stream_t *stream[STREAMS];
    uint32_t stream_count;
} record;

bool ebb_record_running(void)
{
    return record.trace != NULL;
}

/* ---- buffers by number ---- */

static number_t *find_number(number_t *table, size_t room, uint64_t generation)
{
    size_t i = (size_t)(generation * 0x9e3779b97f4a7c15u >> 30) & (room - 1);
    while (table[i].generation && table[i].generation != generation)
        i = (i + 1) & (room - 1);
    return &table[i];
}

static bool grow_numbers(void)
{
    size_t room = record.number_room ? 2 * record.number_room : 1024;
    number_t *table = calloc(room, sizeof *table);
    if (!table)
        return false;
    for (size_t i = 0; i < record.number_room; i++)
        if (record.number[i].generation)
            *find_number(table, room, record.number[i].generation) = record.number[i];
    free(record.number);
    record.number = table;
    record.number_room = room;
    return true;
}

/* The buffer's entry in the trace, made now if it has none: it was there before the step, then. */
static ebb_trace_buffer_t *entry_of(const ebb_buffer_t *b, uint32_t *id)
{
    if (2 * record.number_count >= record.number_room && !grow_numbers())
        return NULL;
    number_t *n = find_number(record.number, record.number_room, b->generation);
    if (!n->generation) {
        ebb_trace_buffer_t *entry = ebb_trace_add_buffer(record.trace);
        if (!entry)
            return NULL;
        entry->bytes = b->bytes;
        *n = (number_t){b->generation, record.trace->buffer_count - 1};
        record.number_count++;
    }
    *id = n->id;
    return &record.trace->buffer[n->id];
}

void ebb_record_allocated(const ebb_buffer_t *b)
{
    uint32_t id;
    ebb_trace_buffer_t *entry = record.trace ? entry_of(b, &id) : NULL;
    if (entry)
        entry->born = record.trace->operation_count;
    else
        record.broken = true;
}

void ebb_record_freed(const ebb_buffer_t *b)
{
    uint32_t id;
    ebb_trace_buffer_t *entry = record.trace ? entry_of(b, &id) : NULL;
    if (entry)
        entry->dies = record.trace->operation_count;
    else
        record.broken = true;
}

/* ---- operations ---- */

static bool stamp(const ebb_stream_t *stream, uint32_t number)
{
    if (record.stamp_count == record.stamp_room) {
        size_t room = record.stamp_room ? 2 * record.stamp_room : 1024;
        stamp_t *grown = realloc(record.stamp, room * sizeof *grown);
        if (!grown)
            return false;
        record.stamp = grown;
        record.stamp_room = room;
    }
    stamp_t *s = &record.stamp[record.stamp_count];
    s->stream = number;
    if (ebb_driver.cuEventCreate(&s->event, CU_EVENT_DEFAULT))
        return false;
    record.stamp_count++;
    return !ebb_driver.cuEventRecord(s->event, ebb_stream_handle(stream));
}

static uint32_t number_of_stream(const ebb_stream_t *stream)
{
    uint32_t i = 0;
    while (i < record.stream_count && record.stream[i] != stream)
        i++;
    if (i == record.stream_count && i < STREAMS)
        record.stream[record.stream_count++] = stream;
    return i;
}

static void name_operation(const ebb_operation_t *op, char name[EBB_TRACE_NAME])
{
    const char *text = op->kind == EBB_COPY ? "copy" : "set";
    if (op->kind == EBB_KERNEL && (ebb_driver.cuFuncGetName(&text, op->function) || !text))
        text = "?";
    snprintf(name, EBB_TRACE_NAME, "%s", text);
}

static bool record_operation(const ebb_operation_t *op)
{
    uint32_t stream = number_of_stream(op->stream);
    ebb_trace_operation_t *o = stream < STREAMS ? ebb_trace_add_operation(record.trace) : NULL;
    if (!o)
        return false;
    o->kind = (ebb_trace_kind_t)op->kind;
    o->stream = stream;
    name_operation(op, o->name);
    memcpy(o->grid, op->grid, sizeof o->grid);
    memcpy(o->block, op->block, sizeof o->block);
    o->shared_bytes = op->shared_bytes;
    o->param_bytes = (uint32_t)op->param_bytes;
    for (uint32_t i = 0; i < op->access_count; i++) {
        uint32_t id;
        if (!entry_of(op->access[i].buffer, &id))
            return false;
        ebb_trace_access_t *a = ebb_trace_add_access(record.trace);
        if (!a)
            return false;
        a->buffer = id;
        a->offset_bytes = op->access[i].offset_bytes;
        a->param_offset = op->access[i].param_offset;
        a->mode = EBB_UPDATES; /* nothing is known yet */
    }
    return stamp(op->stream, stream);
}

void ebb_record_operation(const ebb_operation_t *op)
{
    if (record.trace && !record.broken)
        record.broken = !record_operation(op);
}

/* ---- begin and end ---- */

void ebb_record_begin(void)
{
    ebb_record_abandon();
    record.trace = ebb_trace_new(EBB_CHUNK_BYTES);
}

static void reset(void)
{
    for (size_t i = 0; i < record.stamp_count; i++)
        ebb_driver.cuEventDestroy(record.stamp[i].event);
    free(record.stamp);
    free(record.number);
    memset(&record, 0, sizeof record);
}

void ebb_record_abandon(void)
{
    ebb_trace_delete(record.trace);
    reset();
}

/* From the end of the stream's operation before, which is the event before on that stream. */
static bool read_times(void)
{
    CUevent before[STREAMS] = {0};
    if (!record.stamp_count || ebb_driver.cuCtxSynchronize())
        return false;
    for (size_t i = 0; i < record.stamp_count; i++) {
        const stamp_t *s = &record.stamp[i];
        float ms = 0;
        if (before[s->stream] && ebb_driver.cuEventElapsedTime(&ms, before[s->stream], s->event))
            return false;
        record.trace->operation[i].duration_ns = ms > 0 ? (uint64_t)((double)ms * 1e6) : 0;
        before[s->stream] = s->event;
    }
    return true;
}

ebb_trace_t *ebb_record_end(void)
{
    ebb_trace_t *trace = record.trace;
    if (!trace)
        return NULL;
    const char *wrong =
        record.broken || !read_times() ? "there is no memory or no event for it" : ebb_trace_check(trace);
    if (wrong) {
        ebb_log(EBB_WARN, "the step could not be recorded: %s", wrong);
        ebb_trace_delete(trace);
        trace = NULL;
    }
    reset();
    return trace;
}
