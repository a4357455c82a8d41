#include "match.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A buffer of this step, by its generation. Open addressing. */
typedef struct entry {
    uint64_t generation; /* 0: free */
    uint32_t born;       /* operations matched before; NEVER: it was there */
    uint32_t id;         /* of the recording; NEVER: not touched yet */
} entry_t;

static struct {
    const ebb_recording_t *recorded;
    uint32_t *next;                      /* [operations] on the same stream */
    uint32_t cursor[EBB_RECORD_STREAMS]; /* per stream */
    uint32_t matched, allocations;
    ebb_buffer_t **buffer; /* [buffers], valid while it is alive */
    uint64_t *generation;  /* [buffers] bound; 0: none */
    bool *freed;           /* [buffers] */
    entry_t *entry;
    size_t room, count;
    char difference[256];
} match;

static uint32_t differ(const char *what, uint32_t operation, const char *name)
{
    if (!match.difference[0])
        snprintf(match.difference, sizeof match.difference, "%s, at operation %u (%.120s)", what, operation,
                 name);
    return EBB_TRACE_NEVER;
}

/* ---- buffers ---- */

static entry_t *slot_of(entry_t *table, size_t room, uint64_t generation)
{
    size_t i = (size_t)(generation * 0x9e3779b97f4a7c15u >> 30) & (room - 1);
    while (table[i].generation && table[i].generation != generation)
        i = (i + 1) & (room - 1);
    return &table[i];
}

static bool grow(void)
{
    size_t room = match.room ? 2 * match.room : 1024;
    entry_t *table = calloc(room, sizeof *table);
    if (!table)
        return false;
    for (size_t i = 0; i < match.room; i++)
        if (match.entry[i].generation)
            *slot_of(table, room, match.entry[i].generation) = match.entry[i];
    free(match.entry);
    match.entry = table;
    match.room = room;
    return true;
}

static entry_t *entry_of(const ebb_buffer_t *b)
{
    if (2 * match.count >= match.room && !grow())
        return NULL;
    entry_t *e = slot_of(match.entry, match.room, b->generation);
    if (!e->generation) {
        *e = (entry_t){b->generation, EBB_TRACE_NEVER, EBB_TRACE_NEVER};
        match.count++;
    }
    return e;
}

static bool is_single(void)
{
    return match.recorded->stream_count <= 1;
}

void ebb_match_allocated(const ebb_buffer_t *b)
{
    entry_t *e = entry_of(b);
    match.allocations++;
    if (e)
        e->born = match.matched;
    else
        differ("out of memory", match.matched, "allocations");
}

void ebb_match_freed(const ebb_buffer_t *b)
{
    entry_t *e = entry_of(b);
    if (!e || e->id == EBB_TRACE_NEVER)
        return;
    const ebb_trace_buffer_t *recorded = &match.recorded->trace->buffer[e->id];
    match.freed[e->id] = true;
    match.buffer[e->id] = NULL;
    if (is_single() ? recorded->dies != match.matched : recorded->dies == EBB_TRACE_NEVER)
        differ("when a buffer is freed", match.matched, "frees");
}

static bool bind(ebb_buffer_t *b, uint32_t id)
{
    entry_t *e = entry_of(b);
    const ebb_trace_buffer_t *recorded = &match.recorded->trace->buffer[id];
    if (!e || b->pinned || (e->id != EBB_TRACE_NEVER && e->id != id) ||
        (match.generation[id] && match.generation[id] != b->generation))
        return false;
    if (e->id == id)
        return true;
    bool born = recorded->born != EBB_TRACE_NEVER;
    if (b->bytes != recorded->bytes || born != (e->born != EBB_TRACE_NEVER) ||
        (!born && b->generation != match.recorded->generation[id]) ||
        (born && is_single() && e->born != recorded->born))
        return false;
    e->id = id;
    match.generation[id] = b->generation;
    match.buffer[id] = b;
    return true;
}

ebb_buffer_t *ebb_match_buffer(uint32_t id)
{
    return match.buffer[id];
}

/* ---- operations ---- */

uint32_t ebb_match_operation(const ebb_operation_t *op)
{
    const ebb_recording_t *r = match.recorded;
    uint32_t s = 0;
    if (match.difference[0])
        return EBB_TRACE_NEVER;
    while (s < r->stream_count && r->streams[s] != op->stream)
        s++;
    uint32_t i = s < r->stream_count ? match.cursor[s] : EBB_TRACE_NEVER;
    if (i == EBB_TRACE_NEVER)
        return differ("the number of operations", match.matched, "one more");
    const ebb_trace_operation_t *o = &r->trace->operation[i];
    if (ebb_record_difference(r, i, op))
        return differ("an operation", i, o->name);
    for (uint32_t k = 0; k < op->access_count; k++) {
        const ebb_trace_access_t *a = &r->trace->access[o->first_access + k];
        if (a->offset_bytes != op->access[k].offset_bytes || a->param_offset != op->access[k].param_offset ||
            !bind(op->access[k].buffer, a->buffer))
            return differ("the buffers that an operation touches", i, o->name);
    }
    return i;
}

void ebb_match_advance(uint32_t operation)
{
    match.cursor[match.recorded->trace->operation[operation].stream] = match.next[operation];
    match.matched++;
}

uint32_t ebb_match_next(uint32_t operation)
{
    return match.next[operation];
}

const char *ebb_match_difference(bool whole)
{
    const ebb_trace_t *t = match.recorded->trace;
    uint32_t born = 0;
    if (match.difference[0] || !whole)
        return match.difference[0] ? match.difference : NULL;
    if (match.matched != t->operation_count)
        differ("the number of operations", match.matched, "the end");
    for (uint32_t i = 0; i < t->buffer_count; i++) {
        born += t->buffer[i].born != EBB_TRACE_NEVER;
        if (match.generation[i] && t->buffer[i].dies != EBB_TRACE_NEVER && !match.freed[i])
            differ("a buffer that is not freed", t->buffer[i].dies, "frees");
    }
    if (born != match.allocations)
        differ("the number of allocations", match.matched, "the end");
    return match.difference[0] ? match.difference : NULL;
}

/* ---- begin and end ---- */

static void link_streams(void)
{
    const ebb_trace_t *t = match.recorded->trace;
    for (uint32_t s = 0; s < EBB_RECORD_STREAMS; s++)
        match.cursor[s] = EBB_TRACE_NEVER;
    for (uint32_t i = t->operation_count; i-- > 0;) {
        uint32_t s = t->operation[i].stream;
        match.next[i] = match.cursor[s];
        match.cursor[s] = i;
    }
}

bool ebb_match_begin(const ebb_recording_t *recorded)
{
    const ebb_trace_t *t = recorded->trace;
    ebb_match_end();
    match.recorded = recorded;
    match.next = calloc((size_t)t->operation_count + 1, sizeof *match.next);
    match.buffer = calloc((size_t)t->buffer_count + 1, sizeof(ebb_buffer_t *));
    match.generation = calloc((size_t)t->buffer_count + 1, sizeof *match.generation);
    match.freed = calloc((size_t)t->buffer_count + 1, sizeof *match.freed);
    if (!match.next || !match.buffer || !match.generation || !match.freed) {
        ebb_match_end();
        return false;
    }
    link_streams();
    return true;
}

void ebb_match_end(void)
{
    free(match.next);
    free(match.buffer);
    free(match.generation);
    free(match.freed);
    free(match.entry);
    memset(&match, 0, sizeof match);
}
