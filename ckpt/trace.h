/* trace.h: one step of a program, as data.
 *
 * A trace lists the step's operations in the order in which they were issued, the buffers that they touch and
 * how, and where between the operations buffers were allocated and freed. Planners read it; `ebb trace` shows
 * it; EBB_TRACE=FILE writes it.
 *
 * A step is a period: after the last operation comes the first one of the next step. Buffers that are not
 * born in the step are there at its beginning and keep their content across it.
 *
 * The file is JSON lines (one object a line, UTF-8), version EBB_TRACE_VERSION in the first:
 *   {"ebb_trace": 2, "chunk_bytes": .., "operations": n, "buffers": m}
 *   {"buffer": id, "bytes": .., "born": op|null, "dies": op|null}       m lines, ids ascending from 0
 *   {"op": index, "kind": "kernel|copy|set|other", "stream": s, "name": .., "grid": [x,y,z], "block": [x,y,z],
 *    "shared": .., "param_bytes": .., "ns": .., "proofs": ..,
 *    "access": [[buffer, offset, param_offset, mode], ..]}              n lines, in order
 * born         allocated before this operation (null: before the step)
 * dies         freed before this operation (null: outlives the step; n: freed after the last one)
 * param_bytes  of the argument block; of a copy or memset the bytes that it writes, modulo 2^32
 * ns           the operation's own time on the device
 * proofs       how many replays gave the same bits; 0: it may not be replayed
 * mode         1 reads, 2 replaces, 3 updates
 * Readers ignore keys that they do not know; a version they do not know they refuse.
 *
 * A trace is a value: it owns its memory and refers to nothing outside.
 */
#ifndef EBB_TRACE_H
#define EBB_TRACE_H

#include <stdint.h>
#include <stdio.h>

#include "status.h"

enum { EBB_TRACE_VERSION = 2, EBB_TRACE_NAME = 120 };
#define EBB_TRACE_NEVER UINT32_MAX

typedef struct ebb_trace_buffer {
    uint64_t bytes;
    uint32_t born, dies; /* operation, or EBB_TRACE_NEVER */
} ebb_trace_buffer_t;

/* What an operation does to a buffer as a whole; the same for all its accesses to that buffer. */
typedef enum ebb_mode {
    EBB_READS = 1,
    EBB_REPLACES = 2, /* all that the buffer holds afterwards follows from the other arguments: from a zeroed
                         buffer the same bits come out */
    EBB_UPDATES = 3 /* writes, and the outcome depends on what was there (also: writes a part of it). What is
                       not known counts as this */
} ebb_mode_t;

typedef struct ebb_trace_access {
    uint32_t buffer, param_offset;
    uint64_t offset_bytes; /* of the pointer, into the buffer */
    ebb_mode_t mode;
} ebb_trace_access_t;

typedef enum ebb_trace_kind {
    EBB_TRACE_KERNEL,
    EBB_TRACE_COPY,
    EBB_TRACE_SET,
    EBB_TRACE_OTHER /* whatever else touches buffers: updates all of them, is never replayed */
} ebb_trace_kind_t;

typedef struct ebb_trace_operation {
    ebb_trace_kind_t kind;
    uint32_t stream; /* numbered from 0 in order of appearance */
    char name[EBB_TRACE_NAME];
    uint32_t grid[3], block[3], shared_bytes, param_bytes;
    uint64_t duration_ns;
    uint32_t proofs; /* replays that gave the same bits; 0: may not be replayed */
    uint32_t first_access, access_count;
} ebb_trace_operation_t;

typedef struct ebb_trace {
    uint64_t chunk_bytes;
    ebb_trace_operation_t *operation;
    ebb_trace_buffer_t *buffer;
    ebb_trace_access_t *access; /* of all operations, in order */
    uint32_t operation_count, buffer_count, access_count;
    uint32_t operation_room, buffer_room, access_room;
} ebb_trace_t;

ebb_trace_t *ebb_trace_new(uint64_t chunk_bytes);
void ebb_trace_delete(ebb_trace_t *trace);

/* Append; the new element, zeroed, or NULL: no memory. Accesses belong to the operation added last. */
ebb_trace_operation_t *ebb_trace_add_operation(ebb_trace_t *trace);
ebb_trace_buffer_t *ebb_trace_add_buffer(ebb_trace_t *trace);
ebb_trace_access_t *ebb_trace_add_access(ebb_trace_t *trace);

/* False: the file could not be written; errno tells. */
bool ebb_trace_write(const ebb_trace_t *trace, FILE *out);
/* NULL: not a trace; `error` then says what is wrong and in which line. */
ebb_trace_t *ebb_trace_read(FILE *in, char *error, size_t error_size);

/* A reader's and recorder's check: indices in range, lifetimes in order, accesses only while alive and
 * inside. NULL: all holds, else what does not. */
const char *ebb_trace_check(const ebb_trace_t *trace);

#endif
