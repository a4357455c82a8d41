/* trace.h: one step of a program, as data.
 *
 * A trace lists the step's operations in the order in which they were issued, the buffers that they touch and
 * how, and what else happened between them: allocations, frees, event edges, waits of the host. Planners read
 * it; `ebb trace` shows it; EBB_TRACE=FILE writes it.
 *
 * A step is a period: after the last operation comes the first one of the next step. Buffers that are not
 * born in the step are there at its beginning and keep their content across it. What is there at the end is there at the
 * beginning of the next one, as `next` says: the same buffer where it persists (next is its own number); where a buffer
 * outlives its next allocation, the one that is born in the step is in the next step what an older one was in this step,
 * and that one dies, or goes on to be a third. What is born in the step may also outlive it and be none of the next step's, as a
 * loss that the program keeps in a list.
 *
 * Operations on different streams are ordered by the moments between them and by nothing else; their order in
 * the list is that of one step, and may be another in the next.
 *
 * The version of a buffer's content is not stored: at an operation it is the number of operations in front of
 * it, in this list, whose mode for the buffer is 2 or 3.
 *
 * The file is JSON lines (one object a line, UTF-8), version EBB_TRACE_VERSION in the first:
 *   {"ebb_trace": 3, "chunk_bytes": .., "tile_bytes": .., "operations": n, "buffers": m, "moments": k,
 *    "device": .., "hardware": {"out_bytes_per_ns": .., ..}}
 *   {"buffer": id, "bytes": .., "born": op|null, "dies": op|null, "next": id|null}    m lines, ids ascending from 0;
 *       "pinned": true in it: something else than the operations may read and write it at any time, it stays where it is;
 *       "kept": true: the program wants it on the device (ckpt/run/ebb.h);
 *       "changes": true: it was found to change although no operation is seen to write it
 *   {"op": index, "kind": "kernel|copy|set|other", "stream": s, "thread": t, "name": .., "nvtx": ..,
 *    "grid": [x,y,z], "block": [x,y,z], "shared": .., "param_bytes": .., "at": .., "ns": ..,
 *    "verdict": .., "proofs": .., "proof_ns": .., "proof_bytes": .., "args": "hex",
 *    "access": [[buffer, offset, param_offset, first_tile, tiles, mode], ..]}     n lines, in order
 *       "resident": true in it: a kernel that may touch more than its accesses tell, when memory tells it to (checker.h)
 *       "communicates": true in it: one that waits for other ranks and moves data between them
 *   {"moment": index, "before": op, "what": .., "stream": s, "thread": t, "id": ..}   k lines, in order
 * chunk_bytes  of device memory that a plan moves at once; a power of two
 * tile_bytes   the unit of first_tile and tiles; a power of two
 * device       the name of the device on which the step was recorded, as the driver tells it; missing: not known
 * hardware     what the link, work of ebb's own and calls of the driver took there: an object with the fields of
 *              ebb_hardware_t; missing, or without one of them: not known
 * born         allocated before this operation (null: before the step)
 * dies         freed before this operation (null: outlives the step; n: freed after the last one)
 * next         what it is at the beginning of the next step (null: it dies, or it is not known; left out: its own number
 *              if it is neither born nor dies, else null)
 * stream       numbered from 0 in order of appearance; so is thread: the host's that issued it
 * name         the kernel's, or what it is
 * nvtx         the ranges that were open on the thread, outermost first, separated by '/'
 * param_bytes  of the argument block; of a copy or memset the bytes that it writes, modulo 2^32
 * at           begin on the device, since the beginning of the step
 * ns           the operation's own time on the device: nothing it waits for, no copies beside it, and none of the host's time
 * args         the argument block of a kernel, param_bytes of it, in hexadecimal; empty if unknown
 * verdict      "proven", or why it may not be replayed: see ebb_verdict_t
 * proofs       how many replays gave the same bits; 0: it may not be replayed
 * proof_ns     time of one replay, with its copies and comparisons, as learned
 * proof_bytes  scratch that a replay needs beside the program's buffers, with all that it touches copied
 * first_tile, tiles   of the buffer, from the first to the last in which a write was seen; 0, 0: none was
 * mode         1 reads, 2 replaces, 3 updates
 * before       this operation: the moment lies between it and the one in front of it (n: after the last one)
 * what         see ebb_sync_kind_t; alloc and free have the buffer's number for `id`, records and waits an
 *              event's (from 0, a new one with each record; 4294967295: recorded before the step)
 * Readers ignore keys that they do not know; a version they do not know they refuse.
 *
 * A trace is a value: it owns its memory and refers to nothing outside.
 */
#ifndef EBB_TRACE_H
#define EBB_TRACE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "alloc/base/status.h"

/* ---- hardware ----
 *
 * What work takes on a device and its link, and of the host: as measured where a trace was recorded, and what plans are
 * simulated with. Pure data.
 */

/* Rates in bytes per nanosecond, times in nanoseconds. 0, but of the link's rates: nothing of the kind takes any time. */
#define EBB_HARDWARE(X)                                                                                      \
    X(out_bytes_per_ns) /* the link, each way alone */                                                       \
    X(in_bytes_per_ns)                                                                                       \
    X(out_ns) /* of a copy, beside its bytes */                                                              \
    X(in_ns)                                                                                                 \
    X(out_both) /* part of its rate that each way keeps while both are in use (offload/link.h); 0: all */    \
    X(in_both)                                                                                               \
    X(out_slowdown) /* while copies run, operations take so much longer: 1 + the sum of both ways, times */  \
    X(in_slowdown)                                                                                           \
    X(zero_ns) /* what a replay replaces is zeroed before: a launch, and its bytes */                        \
    X(zero_bytes_per_ns)                                                                                     \
    X(hash_ns) /* a hash: a launch, and its bytes */                                                         \
    X(hash_bytes_per_ns)                                                                                     \
    X(checked) /* part of what is recomputed that is hashed, before and after, and compared */               \
    X(clean)   /* not 0: what the host has already is not copied out again (ebb_plan_spared) */              \
    X(call_ns) /* of the host: a call of the driver */                                                       \
    X(multiprocessors) /* of the device: what communicates takes one for each of its blocks; 0: none */

typedef struct ebb_hardware {
#define FIELD(name) double name;
    EBB_HARDWARE(FIELD)
#undef FIELD
} ebb_hardware_t;

/* The part of its rate that a way has (0 out, 1 in); `both`: the other one is in use as well. */
static inline double ebb_hardware_part(const ebb_hardware_t *hardware, int way, bool both)
{
    const double part = way ? hardware->in_both : hardware->out_both;
    return both && part > 0 ? part : 1;
}

/* ---- the trace ---- */

enum {
    EBB_TRACE_VERSION = 3,
    EBB_TRACE_NAME = 120,
    EBB_TRACE_DEVICE = 96,
    EBB_TRACE_TILE_BYTES = 64 << 10 /* of those that ebb records */
};
#define EBB_NONE UINT32_MAX /* no operation, buffer, content, action, chunk or place; never */

typedef struct ebb_trace_buffer {
    uint64_t bytes;
    uint32_t born, dies; /* operation, or EBB_NONE */
    uint32_t next;       /* buffer, or EBB_NONE */
    bool pinned;         /* something else may read and write it at any time */
    bool kept;           /* plans leave it on the device */
    bool changes;        /* by what no operation shows */
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
    uint64_t offset_bytes;           /* of the pointer, into the buffer */
    uint32_t first_tile, tile_count; /* in which writes were seen */
    ebb_mode_t mode;
} ebb_trace_access_t;

typedef enum ebb_trace_kind {
    EBB_TRACE_KERNEL,
    EBB_TRACE_COPY,
    EBB_TRACE_SET,
    EBB_TRACE_OTHER /* whatever else touches buffers: updates all of them, is never replayed */
} ebb_trace_kind_t;

/* Whether an operation may be replayed, and if not, why. */
typedef enum ebb_verdict {
    EBB_UNTRIED, /* it was not needed, or learning was short */
    EBB_PROVEN,  /* at least three replays over two steps gave the same bits */
    EBB_DIFFERS, /* one gave others */
    EBB_NO_ROOM, /* its copies do not fit into the budget */
    EBB_FOREIGN, /* an argument points to memory that ebb does not serve: mapped host, managed, peer, exported */
    EBB_TABLE,        /* a buffer that it touches holds pointers */
    EBB_ATTRIBUTES,   /* launched with attributes that name other work, or as a cooperative kernel */
    EBB_OPAQUE,       /* its arguments cannot be read */
    EBB_HOST,         /* a copy from or to host memory */
    EBB_GLOBALS,      /* its module has variables that the host has looked up */
    EBB_COMMUNICATES, /* a kernel of NCCL's or NVSHMEM's */
    EBB_REFUSED,      /* the driver refused the replay */
    EBB_OTHERWISE     /* "other": an operation that is never issued again */
} ebb_verdict_t;
enum { EBB_VERDICTS = EBB_OTHERWISE + 1 };
extern const char *const ebb_verdict_word[EBB_VERDICTS];

typedef struct ebb_trace_operation {
    ebb_trace_kind_t kind;
    uint32_t stream, thread;
    char name[EBB_TRACE_NAME];
    uint32_t nvtx; /* a text of the trace's; 0: none */
    uint32_t grid[3], block[3], shared_bytes, param_bytes;
    uint64_t at_ns, duration_ns;
    ebb_verdict_t verdict;
    uint32_t proofs; /* replays that gave the same bits; 0: may not be replayed */
    uint64_t proof_ns, proof_bytes;
    bool resident;     /* may touch more than its accesses, while it runs */
    bool communicates; /* with other ranks: operations of other streams run beside it */
    uint32_t first_access, access_count;
    uint32_t first_arg, arg_bytes; /* in the trace's argument bytes */
} ebb_trace_operation_t;

typedef enum ebb_sync_kind {
    EBB_SYNC_ALLOC,
    EBB_SYNC_FREE,
    EBB_SYNC_RECORD,      /* "record": an event on a stream */
    EBB_SYNC_WAIT,        /* "wait": a stream for an event */
    EBB_SYNC_SYNC_EVENT,  /* "sync_event": the host for an event */
    EBB_SYNC_SYNC_STREAM, /* "sync_stream": the host for a stream, also at the end of a blocking copy */
    EBB_SYNC_SYNC_DEVICE  /* "sync_device": the host for everything */
} ebb_sync_kind_t;
enum { EBB_SYNC_KINDS = EBB_SYNC_SYNC_DEVICE + 1 };
extern const char *const ebb_sync_word[EBB_SYNC_KINDS];

typedef struct ebb_trace_sync {
    ebb_sync_kind_t what;
    uint32_t before; /* operation, or operation_count */
    uint32_t stream, thread;
    uint32_t id; /* buffer or event; else 0 */
} ebb_trace_sync_t;

typedef struct ebb_trace {
    uint64_t chunk_bytes, tile_bytes;
    char device[EBB_TRACE_DEVICE]; /* where it was recorded; empty: not known */
    ebb_hardware_t hardware;       /* there; out_bytes_per_ns 0: not known */
    ebb_trace_operation_t *operation;
    ebb_trace_buffer_t *buffer;
    ebb_trace_access_t *access; /* of all operations, in order */
    ebb_trace_sync_t *sync;     /* in order */
    char *text;                 /* zero-terminated one after another; the first is empty */
    unsigned char *args;
    uint32_t operation_count, buffer_count, access_count, sync_count, text_bytes, args_bytes;
    uint32_t operation_room, buffer_room, access_room, sync_room, text_room, args_room;
} ebb_trace_t;

ebb_trace_t *ebb_trace_new(uint64_t chunk_bytes);
void ebb_trace_delete(ebb_trace_t *trace);
/* All of it. NULL: no memory. */
ebb_trace_t *ebb_trace_copy(const ebb_trace_t *trace);

/* Append; the new element, zeroed, or NULL: no memory. Accesses and arguments belong to the operation added
 * last. */
ebb_trace_operation_t *ebb_trace_add_operation(ebb_trace_t *trace);
ebb_trace_buffer_t *ebb_trace_add_buffer(ebb_trace_t *trace);
ebb_trace_access_t *ebb_trace_add_access(ebb_trace_t *trace);
ebb_trace_sync_t *ebb_trace_add_sync(ebb_trace_t *trace);
/* False: no memory. */
bool ebb_trace_add_args(ebb_trace_t *trace, const void *bytes, uint32_t count);
bool ebb_trace_set_nvtx(ebb_trace_t *trace, ebb_trace_operation_t *operation, const char *path);
static inline const char *ebb_trace_nvtx(const ebb_trace_t *trace, const ebb_trace_operation_t *operation)
{
    return operation->nvtx ? trace->text + operation->nvtx : "";
}

/* What an operation does to a buffer; 0: nothing. */
ebb_mode_t ebb_trace_mode(const ebb_trace_t *trace, uint32_t operation, uint32_t buffer);

/* A copy of the program's between host and device: it takes the link, not compute. */
static inline bool ebb_trace_is_host_copy(const ebb_trace_operation_t *operation)
{
    return operation->kind == EBB_TRACE_COPY && operation->verdict == EBB_HOST;
}

/* Whether this access (of the trace's, one of the operation's) is the operation's first one to its buffer. */
static inline bool ebb_trace_is_first(const ebb_trace_t *trace, uint32_t operation, uint32_t access)
{
    uint32_t k = trace->operation[operation].first_access;
    while (trace->access[k].buffer != trace->access[access].buffer)
        k++;
    return k == access;
}

/* By buffer: the operation that touches it first, if the buffer is born in the step; else, and if nothing touches it,
 * EBB_NONE. What that operation finds there, if it replaces it, is what an allocation holds: nothing that a program can
 * count on. The caller's, to be freed; NULL: no memory. */
uint32_t *ebb_trace_first_touches(const ebb_trace_t *trace);

/* What a buffer is in the next step; EBB_NONE: nothing, or it is not known. What is neither born nor dies is itself, unless the
 * trace says otherwise. */
static inline uint32_t ebb_trace_next(const ebb_trace_t *trace, uint32_t buffer)
{
    const ebb_trace_buffer_t *b = &trace->buffer[buffer];
    return b->next == EBB_NONE && b->born == EBB_NONE && b->dies == EBB_NONE ? buffer : b->next;
}

/* The same in every step. */
static inline bool ebb_trace_stays_itself(const ebb_trace_t *trace, uint32_t buffer)
{
    return ebb_trace_next(trace, buffer) == buffer;
}

/* Small (up to half a chunk), and it outlives the step or is older. No plan has a place for it: it is where the allocator has put it. */
static inline bool ebb_trace_is_unplaced(const ebb_trace_t *trace, uint32_t buffer)
{
    const ebb_trace_buffer_t *b = &trace->buffer[buffer];
    return (b->born == EBB_NONE || b->dies == EBB_NONE) && b->bytes <= trace->chunk_bytes / 2;
}

/* It is another one in the next step, or was in the one before, and their places are plans' business. */
static inline bool ebb_trace_rotates(const ebb_trace_t *trace, uint32_t buffer)
{
    const ebb_trace_buffer_t *b = &trace->buffer[buffer];
    return (b->born == EBB_NONE || b->dies == EBB_NONE) && !ebb_trace_stays_itself(trace, buffer) &&
           !ebb_trace_is_unplaced(trace, buffer);
}

/* A buffer that dies in the step does so before this operation, from now on, or not in the step (EBB_NONE). No moment says so. */
void ebb_trace_dies_later(ebb_trace_t *trace, uint32_t buffer, uint32_t dies);

/* False: the file could not be written; errno tells. */
bool ebb_trace_write(const ebb_trace_t *trace, FILE *out);
/* NULL: not a trace; `error` then says what is wrong and in which line. */
ebb_trace_t *ebb_trace_read(FILE *in, char *error, size_t error_size);

/* A reader's and recorder's check: indices in range, lifetimes in order, accesses only while alive and
 * inside. NULL: all holds, else what does not. */
const char *ebb_trace_check(const ebb_trace_t *trace);

/* ---- uses ----
 *
 * When the buffers of a recorded step are touched: what a trace says about the future, for any place in it.
 *
 * A value of its own beside the trace, which it borrows. Pure C, any thread, one at a time.
 */

typedef struct ebb_uses {
    const ebb_trace_t *trace;    /* borrowed */
    uint32_t *first, *operation; /* [buffers + 1], [accesses]: the operations that touch buffer i are
                                      operation[first[i]] .. operation[first[i + 1] - 1], ascending, each once */
    uint64_t *begin_ns;          /* [operations + 1]: when each would begin, one behind the other */
    uint64_t *born; /* [operations + 1]: chunks of large buffers that are allocated just before */
    uint32_t *first_death,
        *death; /* [operations + 2], [buffers]: those that are freed just before operation i are
                                        death[first_death[i]] .. death[first_death[i + 1] - 1] */
} ebb_uses_t;

/* False: no memory; nothing is owned then. */
bool ebb_uses_make(ebb_uses_t *out, const ebb_trace_t *trace);
void ebb_uses_free(ebb_uses_t *uses);

/* The first operation at or behind `at` that touches the buffer, or where it dies untouched; counted on into the next step
 * (operations + i) for a buffer that outlives this one. EBB_NONE: no more. */
uint32_t ebb_uses_next(const ebb_uses_t *uses, uint32_t buffer, uint32_t at);
/* Chunks of a buffer; small ones have none. */
uint32_t ebb_uses_chunks(const ebb_trace_buffer_t *buffer);
/* Device time from the beginning of operation `at` to that of `to` (>= at; both may lie in the next step). */
uint64_t ebb_uses_ns(const ebb_uses_t *uses, uint32_t at, uint32_t to);

/* ---- what is worth giving up (worth.c) ---- */

/* Which contents of a step are worth giving up, and which launches would have to be issued again to have
 * them back. Pure reading of a trace; any thread.
 *
 * Worth giving up is a content that lies idle for a real gap: what a forward pass saves for the backward pass. A gap
 * that is not several times as long as it takes to make the content again is none: such contents are given up last, when no
 * plan fits otherwise.
 * A content is made by the operations that have written its buffer since that was allocated, in this step. What these have
 * read must be there when the gap ends, with the same version; where it is not (freed, or overwritten), it has to
 * be made again as well. What cannot be (what a collective has gathered, what came from the host) may be held instead: the
 * buffer is freed behind the gap, where nothing has overwritten it (plan.h: until).
 *
 * Threads: any; the trace must not change. */

typedef struct ebb_saved {
    uint32_t buffer;
    uint32_t from, to; /* operations: the last one before the gap, and the first one after it, which reads */
    bool possible;     /* it can be made from what is there at `to` */
    bool proven;       /* and every operation that this takes may be replayed */
} ebb_saved_t;

/* For what an operation would be issued again. */
typedef enum ebb_need {
    EBB_NOT_WANTED,
    EBB_WANTED_LAST, /* contents that are hardly worth it */
    EBB_WANTED       /* at least one that is */
} ebb_need_t;

typedef struct ebb_worth {
    ebb_saved_t *saved; /* by buffer; of several gaps of a buffer each is one */
    uint32_t saved_count;
    ebb_need_t *need; /* [operations] of contents that are possible and large enough */
    uint32_t *held;   /* [buffers] before which operation it would be freed, for those that are proven; EBB_NONE: as it is */
} ebb_worth_t;

/* For buffers below `least_bytes` nothing is wanted. False: no memory. */
bool ebb_worth_find(const ebb_trace_t *trace, uint64_t least_bytes, ebb_worth_t *out);
void ebb_worth_free(ebb_worth_t *worth);

#endif
