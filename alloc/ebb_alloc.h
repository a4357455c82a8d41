/* ebb_alloc.h: the room that stands between a CUDA program and the driver.
 *
 * It hooks the look-ups by which a program reaches the driver (hook.h), serves the program's device memory
 * from chunks mapped under address ranges of its own, keeps the table of buffers, and tells whoever listens
 * (ebb_listener_t: the rooms above) about every operation before and after it is issued, with the buffers
 * that its arguments point to.
 *
 * Glossary
 *   driver     the real one, called only through ebb_driver, a table of functions (driver.h)
 *   arena      the part of the address space that this room has reserved; every served address lies in it
 *   chunk      EBB_CHUNK_BYTES of physical memory: one VMM handle
 *   range      consecutive chunks' worth of arena, owned by one large buffer or by one slab; mapped or not
 *   slab       a range of one chunk that is cut into small buffers
 *   buffer     one allocation of the program
 *   operation  a kernel launch, copy or memset on a stream
 *   mark       (stream, number): the point in a stream after its number-th operation
 *
 * Threads and locks. Any program thread may enter through any hooked function. One lock, ebb_lock(), guards
 * all state of this room and is held while an operation is prepared and issued, so that listener, tables and
 * driver see one order. It is recursive for no one: ebb's own driver calls go through ebb_driver and do not
 * come back. Functions below want it held unless they say otherwise.
 *
 * Errors. ebb_status_t is 0 or a CUresult (status.h): it may be given to the program as it is.
 */
#ifndef EBB_ALLOC_H
#define EBB_ALLOC_H

#include <cuda.h>

#include "status.h"

#define EBB_CHUNK_BYTES ((size_t)2 << 20)
/* Requests up to this size share slabs; larger ones get a range of whole chunks. */
#define EBB_SMALL_BYTES (EBB_CHUNK_BYTES / 2)
/* Every address served is aligned to this, as the driver's are. */
#define EBB_ALIGN_BYTES ((size_t)512)

/* Streams whose last use of a buffer is remembered one by one; beyond that all streams count. */
#define EBB_USE_MARKS 4

typedef CUmemGenericAllocationHandle ebb_chunk_t;

typedef struct ebb_stream ebb_stream_t;
typedef struct ebb_mark {
    ebb_stream_t *stream; /* NULL: the beginning of time, always reached */
    uint64_t number;
} ebb_mark_t;

/* ---- ranges: addresses, with chunks under them or not (arena.c) ---- */

typedef struct ebb_buffer ebb_buffer_t;
typedef struct ebb_slab ebb_slab_t;

typedef struct ebb_range {
    CUdeviceptr base;
    uint32_t chunk_count;
    bool mapped;
    ebb_buffer_t *buffer;   /* its owner, or NULL */
    ebb_slab_t *slab;       /* its owner, or NULL */
    struct ebb_range *next; /* in the heap's list of spare ranges */
    ebb_mark_t freed;       /* while spare: its chunks may still be in use until here */
    ebb_chunk_t chunk[];    /* [chunk_count], valid while mapped */
} ebb_range_t;

/* Puts chunks under a range, or takes them away. Taking: every operation on them must have completed. Giving
 * fails with CUDA_ERROR_OUT_OF_MEMORY when the pool has not enough chunks and may not create more; nothing
 * has changed then. */
ebb_status_t ebb_range_map(ebb_range_t *range);
ebb_status_t ebb_range_unmap(ebb_range_t *range);

/* ---- chunks: physical memory under the budget (chunk.c) ---- */

typedef struct ebb_usage {
    size_t budget_bytes;  /* for chunks: EBB_BUDGET less reserve and what else is on the device for this
                             process */
    size_t created_bytes; /* chunks that exist */
    size_t peak_bytes;    /* the most that ever existed at once */
    size_t mapped_bytes;  /* under ranges */
    size_t live_bytes;    /* in buffers of the program, as requested */
    size_t live_peak_bytes;
} ebb_usage_t;
ebb_usage_t ebb_usage(void);

/* ---- buffers (heap.c) ---- */

struct ebb_buffer {
    CUdeviceptr address;
    size_t bytes;                  /* as requested */
    uint64_t generation;           /* counts allocations: two buffers at one address differ in it */
    ebb_range_t *range;            /* its own (large) or its slab's */
    bool stream_ordered;           /* by cuMemAllocAsync */
    CUmemoryPool pool;             /* what the program said; NULL: the default one */
    ebb_mark_t use[EBB_USE_MARKS]; /* the last operation on each stream that touched it */
    unsigned use_count;            /* EBB_USE_MARKS + 1: on more streams than there is room for */
    ebb_buffer_t *evicting;        /* in a list of victims */
    unsigned held;               /* > 0: must stay resident (an operation in preparation, exported memory) */
    ebb_buffer_t *newer, *older; /* all live large buffers, by last use */
    void *listener_state;        /* the rooms above; freed by their `freeing` */
};

static inline bool ebb_buffer_is_large(const ebb_buffer_t *b)
{
    return b->range->buffer == b;
}

/* The live buffer that holds an address; one past the end counts, if nothing else begins there. NULL: none.
 */
ebb_buffer_t *ebb_buffer_at(CUdeviceptr address);

/* The live large buffer that was not used for the longest time; then `newer`. */
ebb_buffer_t *ebb_buffer_oldest(void);

/* ---- streams and marks (mark.c) ---- */

/* The record of a stream handle (legacy and per-thread handles resolved). Never NULL. */
ebb_stream_t *ebb_stream_of(CUstream handle);
CUstream ebb_stream_handle(const ebb_stream_t *stream);
ebb_mark_t ebb_mark_here(ebb_stream_t *stream);
bool ebb_mark_reached(ebb_mark_t mark);
/* `stream` continues only after the mark. No host wait. */
ebb_status_t ebb_mark_join(CUstream stream, ebb_mark_t mark);
/* The host waits for the mark. */
ebb_status_t ebb_mark_wait(ebb_mark_t mark);
/* Counts one more operation on a stream: for operations that ebb itself issues there. Call it right after
 * issuing. */
ebb_mark_t ebb_mark_issue(ebb_stream_t *stream);
/* `stream` continues only after everything that touched the buffer so far. */
ebb_status_t ebb_buffer_join(CUstream stream, const ebb_buffer_t *buffer);

/* ---- operations ---- */

typedef enum ebb_operation_kind { EBB_KERNEL, EBB_COPY, EBB_SET } ebb_operation_kind_t;

/* One pointer among an operation's arguments. */
typedef struct ebb_access {
    ebb_buffer_t *buffer;
    size_t offset_bytes;   /* into the buffer */
    uint32_t param_offset; /* kernel: where the word stands in the argument block */
} ebb_access_t;

typedef struct ebb_operation {
    ebb_operation_kind_t kind;
    ebb_stream_t *stream;
    CUfunction function; /* kernel */
    unsigned grid[3], block[3], shared_bytes;
    const unsigned char *params; /* kernel: the argument block, each argument at its offset */
    size_t param_bytes;
    CUdeviceptr dst, src; /* copy: either may be host memory; set: dst */
    size_t bytes;
    uint32_t value, width; /* set */
    uint32_t access_count;
    ebb_access_t *access;
    bool opaque; /* its arguments could not be read: it may touch anything */
} ebb_operation_t;

/* What the rooms above do. All called with the lock held; any may be NULL. */
typedef struct ebb_listener {
    void (*allocated)(ebb_buffer_t *buffer, ebb_stream_t *stream);
    void (*freeing)(ebb_buffer_t *buffer, ebb_stream_t *stream);
    /* Makes all buffers of the operation resident, ordered before it on its stream. A failure goes to the
     * program. */
    ebb_status_t (*before)(ebb_operation_t *operation);
    /* It has been issued, with this result of the driver's. Called for every operation that `before` let
     * pass. */
    void (*after)(const ebb_operation_t *operation, CUresult result);
    /* The pool has too few: get `chunks` more into it. False: cannot. */
    bool (*make_room)(size_t chunks);
    /* The process ends (also with CUDA gone); the driver may not be called. */
    void (*finish)(void);
} ebb_listener_t;

/* Set by the library's constructor, before any operation. */
void ebb_listen(const ebb_listener_t *listener);
extern const ebb_listener_t *ebb_listener;

void ebb_lock(void);
void ebb_unlock(void);

/* The program has looked up a driver function on this dlopen handle (or RTLD_*): from now on there is a
 * driver. Lock not held. */
void ebb_driver_seen(void *handle);

#endif
