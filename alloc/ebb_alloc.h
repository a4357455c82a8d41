/* ebb_alloc.h: device memory: the program's is served from chunks that are mapped under address ranges of ebb's own.
 *
 * Here are the table of buffers, streams and how far they are, the budget, and what is known of kernels and modules (kernel/). What a CUDA
 * program calls comes in by hook/, and from there here and to ckpt/run. One call goes upwards: ebb_heap_make_room_by.
 *
 * Glossary
 *   driver     the real one, called only through ebb_driver, a table of functions (driver.h)
 *   arena      the part of the address space that this room has reserved; every served address lies in it
 *   chunk      EBB_CHUNK_BYTES of physical memory: one VMM handle
 *   range      consecutive chunks' worth of arena, owned by one large buffer or by one slab; mapped or not
 *   slab       a range that is cut into small buffers
 *   buffer     one allocation of the program
 *   placed     of a buffer: put into a range of its own making by a plan, not by the allocator
 *   operation  a kernel launch, copy or memset on a stream
 *   mark       (stream, number): the point in a stream after its number-th operation
 *   device     the state of one, for the life of one context (device.h)
 *
 * Threads and locks. Any program thread may enter through any hooked function. One lock, ebb_lock(), guards
 * all state of this room and is held while an operation is prepared and issued, so that runner, tables and
 * driver see one order (with several devices: the operations of each; ebb_lock_leave). It is recursive for no one: ebb's own driver calls
 * go through ebb_driver, and what comes back out of one (a profiler's call, a library's that the driver has loaded) passes straight on to the
 * driver, if ebb made it with the lock held or on a thread of its own (base/thread.h); out of any other call it enters as the program's do. What the driver itself looks up ebb does
 * not answer (hook/lookup.c), and calls about memory that the program creates itself (cuMemCreate, cuMemMap: NCCL's) are passed on without the
 * lock. Functions below want it held unless they say otherwise, and are about the device that they are given; what they
 * are given (a buffer, a range, a chunk) belongs to it, but for marks and streams, which may be any device's.
 *
 * Errors. ebb_status_t is 0 or a CUresult (status.h): it may be given to the program as it is.
 */
#ifndef EBB_ALLOC_H
#define EBB_ALLOC_H

#include <cuda.h>

#include "alloc/base/status.h"

/* Every address served is aligned to this, as the driver's are. */
#define EBB_ALIGN_BYTES ((size_t)512)

/* Streams whose last use of a buffer is remembered one by one; beyond that all streams count. */
#define EBB_USE_MARKS 4

/* "0.1.0". The one symbol of ebb's own that libebb.so exports (node EBB_1 of libebb.map): a program that finds it by dlsym knows that it
 * runs under ebb; nothing may depend on it. Any thread, also before cuInit. */
const char *ebb_version(void);

typedef struct ebb_chunk *ebb_chunk_t; /* device.h */

typedef struct ebb ebb_t;               /* the process: device.h */
typedef struct ebb_device ebb_device_t; /* one device */

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
    ebb_device_t *device; /* whose */
    bool mapped;
    uint32_t stale; /* not mapped, but so many of its first chunks, others' now, could not be unmapped */
    ebb_buffer_t *buffer; /* its owner, or NULL */
    ebb_slab_t *slab;     /* its owner, or NULL */
    /* Spares and ghosts (spare.c): */
    bool spare;
    bool holds;                      /* its chunks have it as their holder */
    ebb_mark_t freed;                /* it may still be in use until here */
    struct ebb_range *next, *prev;   /* among those of its size */
    struct ebb_range *newer, *older; /* in the order of freeing */
    ebb_chunk_t chunk[];             /* [chunk_count], valid while mapped; of a slab: NULL where nothing is */
} ebb_range_t;

/* Puts chunks under a range, or takes them away. Taking: every operation on them must have completed. Giving
 * fails with CUDA_ERROR_OUT_OF_MEMORY when the pool has not enough chunks and may not create more; nothing
 * has changed then. Taking never fails: where the driver refuses to unmap, the addresses go on leading to chunks that are
 * others' (they are not given back to the driver meanwhile), and it is asked again before anything else is mapped there, or
 * the addresses are given to another range. */
ebb_status_t ebb_range_map(ebb_range_t *range);
void ebb_range_unmap(ebb_range_t *range);

/* The same with chunks that `stream` may use from now on: it waits for what others still do with them, the host only if
 * nothing else helps. */
ebb_status_t ebb_range_map_for(ebb_range_t *range, ebb_stream_t *stream);

/* Addresses without chunks, for `chunk_count` of them. NULL: no host memory, or no room left in the arena. */
ebb_range_t *ebb_range_new(ebb_device_t *dev, size_t chunk_count);
void ebb_range_delete(ebb_range_t *range); /* must be unmapped, without an owner */

/* The same with chunks that stay the caller's: several ranges may be mapped on one chunk, in use at different
 * times. Between the last operation through one range and the first through another there must be a full
 * dependency. */
ebb_status_t ebb_range_map_on(ebb_range_t *range, const ebb_chunk_t *chunks);
void ebb_range_unmap_from(ebb_range_t *range);

/* ---- chunks: physical memory under the budget (chunk.c) ---- */

typedef struct ebb_usage {
    size_t budget_bytes;   /* for chunks: EBB_BUDGET less reserve and what else is on the device for this
                              process */
    size_t overhead_bytes; /* held by the context and others, and kept free for their growth: taken off */
    size_t headroom_bytes; /* of them, what is still free */
    size_t foreign_bytes;  /* of them, what the driver serves the program itself (device.h), to the byte */
    size_t created_bytes;  /* chunks that exist */
    size_t peak_bytes;     /* the most that ever existed at once */
    size_t mapped_bytes;   /* under ranges */
    size_t live_bytes;     /* in buffers of the program, as requested */
    size_t live_peak_bytes;
} ebb_usage_t;
ebb_usage_t ebb_usage(ebb_device_t *dev);
size_t ebb_live_bytes(ebb_device_t *dev); /* the same as its live_bytes */

/* Takes `count` chunks, creating what is missing. Nothing is taken on failure: CUDA_ERROR_OUT_OF_MEMORY when
 * that would exceed the budget or the driver has none. */
ebb_status_t ebb_chunks_take(ebb_device_t *dev, size_t count, ebb_chunk_t *out);
void ebb_chunks_give(ebb_device_t *dev, size_t count, const ebb_chunk_t *chunks);
/* How many can be taken; how many the budget allows in all. */
size_t ebb_chunks_available(ebb_device_t *dev);
/* Chunks that may exist and have no owner, whether or not work that is under way still uses them. Asks the driver nothing. */
size_t ebb_chunks_unowned(ebb_device_t *dev);
size_t ebb_chunks_limit(ebb_device_t *dev);
/* Gives the pool's free chunks back to the driver. */
void ebb_chunks_release(ebb_device_t *dev);

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
    unsigned held;     /* > 0: may not be evicted (an operation in preparation, a pinned buffer) */
    unsigned pinned;   /* > 0: something that ebb does not see reaches it (pin.h); no plan knows it */
    unsigned kept;     /* > 0: the program wants it on the device (ebb_memory_keep); plans go by it */
    uint64_t kept_since; /* steps until then */
    bool peer_used;    /* some of its uses were on streams of other devices */
    bool is_table;     /* pointers have been copied into it (hook/tables.c), */
    uint64_t followed; /* and the last search that some led here in */
    uint64_t used_at;  /* the operation of the program, on its device, that touched it last; of a new one, the one to come */
    ebb_buffer_t *newer, *older; /* all live large buffers, in the order of their allocation */
    void *residence;             /* ckpt/run/residence; NULL: it never left */
    uint32_t number;             /* ckpt/: 1 + its number in the step that is followed or driven; 0: none */
};

static inline bool ebb_buffer_is_large(const ebb_buffer_t *b)
{
    return b->range->buffer == b;
}

/* The live buffer that holds an address; one past the end counts, if nothing else begins there. NULL: none.
 */
ebb_buffer_t *ebb_buffer_at(ebb_t *ebb, CUdeviceptr address);

/* Whether ebb alone may have memory there: it is in the arena. */
bool ebb_address_is_served(ebb_t *ebb, CUdeviceptr address);
/* In place of a pointer that nothing may go by: where there never is memory, so that reading or writing faults, for gibibytes
 * around it; as far into a chunk as it was, so that it is aligned alike. */
CUdeviceptr ebb_nowhere(ebb_t *ebb, CUdeviceptr word);

/* The live large buffer that was allocated first; then `newer`. */
ebb_buffer_t *ebb_buffer_oldest(ebb_device_t *dev);

typedef struct ebb_request {
    size_t bytes;
    ebb_stream_t *stream; /* stream-ordered on it; NULL: for every stream at once (cuMemAlloc) */
    CUmemoryPool pool;
    bool later;   /* the program's: its memory may come with the next call (heap.c) */
    bool planned; /* a plan is driven, which would be left if memory was needed for anything else */
} ebb_request_t;

/* A buffer for the request, or CUDA_ERROR_OUT_OF_MEMORY after everything spare was given up and no more
 * could be evicted. */
ebb_status_t ebb_heap_alloc(ebb_device_t *dev, const ebb_request_t *request, ebb_buffer_t **out);
/* Whether a large request may do without memory until the next call. */
bool ebb_heap_may_wait(ebb_device_t *dev, const ebb_request_t *request);
/* Frees at a mark: memory is used again on the mark's stream at once, elsewhere when the mark is reached. The
 * buffer is gone. */
void ebb_heap_free(ebb_buffer_t *buffer, ebb_mark_t at);
/* Unmaps spare memory until the pool can give `chunks`; waits for marks only if `wait`. True if it can. */
bool ebb_heap_reclaim(ebb_device_t *dev, size_t chunks, bool wait);
/* Gets the pool to where it can give `chunks`, by all means there are, evicting included. True if it
 * can. */
bool ebb_heap_make_room(ebb_device_t *dev, size_t chunks);

/* Measures what else is held on the device when the program's next call begins: for calls that made the driver take some. */
void ebb_heap_measure_soon(ebb_device_t *dev);

/* A buffer at the beginning of a range that has no owner. NULL: no host memory. */
ebb_buffer_t *ebb_buffer_place(ebb_range_t *range, const ebb_request_t *request);
/* A placed buffer is gone; its range stays as it is, without owner. Small ones alike. */
void ebb_buffer_displace(ebb_buffer_t *buffer);

/* A mapped range becomes a slab into which small buffers are placed; places may overlap, buffers may not.
 * NULL: no host memory. Closing ends that: what it holds stays, and from then on it is a slab like others. */
ebb_slab_t *ebb_slab_open(ebb_range_t *range);
void ebb_slab_close(ebb_slab_t *slab);
/* NULL: a buffer lies there, or no host memory. */
ebb_buffer_t *ebb_buffer_place_small(ebb_slab_t *slab, size_t offset_bytes, const ebb_request_t *request);

/* ---- streams and marks (mark.c) ---- */

/* The legacy default stream, by either handle; it or the per-thread one: handles that mean another stream in each context or thread. */
static inline bool ebb_is_legacy_stream(CUstream handle)
{
    return !handle || handle == CU_STREAM_LEGACY;
}
static inline bool ebb_is_default_stream(CUstream handle)
{
    return ebb_is_legacy_stream(handle) || handle == CU_STREAM_PER_THREAD;
}
/* The record of a stream handle (legacy and per-thread handles resolved, on the device). Never NULL. */
ebb_stream_t *ebb_stream_of(ebb_device_t *dev, CUstream handle);
/* Whose it is; ebb_no_device: it belongs to a context that ebb does not serve. */
ebb_device_t *ebb_stream_device(const ebb_stream_t *stream);
CUstream ebb_stream_handle(const ebb_stream_t *stream);
ebb_mark_t ebb_mark_here(ebb_stream_t *stream);
bool ebb_mark_reached(ebb_mark_t mark);
/* `stream`, of any device, continues only after the mark. No host wait. What is joined counts as an operation of the stream: ebb_mark_here
 * is behind it, also if nothing follows. */
ebb_status_t ebb_mark_join(ebb_stream_t *stream, ebb_mark_t mark);
/* The host waits for the mark. */
ebb_status_t ebb_mark_wait(ebb_mark_t mark);
/* Counts one more operation on a stream: for operations that ebb itself issues there. Call it right after
 * issuing. */
ebb_mark_t ebb_mark_issue(ebb_stream_t *stream);
/* `stream` continues only after everything that touched the buffer so far. */
ebb_status_t ebb_buffer_join(ebb_stream_t *stream, const ebb_buffer_t *buffer);

/* Notes a use, by an operation of the program or of ebb's own. */
void ebb_buffer_touch(ebb_buffer_t *buffer, ebb_mark_t mark);
/* All that any stream has been given so far counts as a use. */
void ebb_buffer_touch_by_all(ebb_buffer_t *buffer);

/* ---- operations ---- */

/* EBB_OTHER: anything else that touches buffers. Of each of them it may read and write anything; it is never
 * issued again. */
typedef enum ebb_operation_kind { EBB_KERNEL, EBB_COPY, EBB_SET, EBB_OTHER } ebb_operation_kind_t;

/* One pointer among an operation's arguments. */
typedef struct ebb_access {
    ebb_buffer_t *buffer;
    size_t offset_bytes; /* into the buffer */
    uint32_t
        param_offset; /* kernel: where the word stands in the argument block; else: which operand it is */
} ebb_access_t;

/* The most tensor maps that are listed of a kernel's arguments, and the size of each. */
enum { EBB_TENSOR_MAPS = 8, EBB_TENSOR_MAP_BYTES = 128 };

/* Whether a program has told NCCL, and so ebb, what a kernel reaches (hook/nccl.c). */
typedef enum ebb_told {
    EBB_NEVER_TOLD, /* no call of NCCL's has been heard in this process */
    EBB_TOLD,       /* the launch is made by one that has been */
    EBB_UNTOLD      /* others have been heard, none that makes this launch */
} ebb_told_t;

typedef struct ebb_operation {
    ebb_operation_kind_t kind;
    ebb_stream_t *stream;
    CUfunction function; /* kernel */
    const char *name;    /* other: the driver's function, one address for each */
    unsigned grid[3], block[3], shared_bytes;
    const unsigned char *params; /* kernel: the argument block, each argument at its offset */
    size_t param_bytes;
    uint32_t
        named_at; /* kernel: from here on the block has pointers that are no arguments: NCCL's operands, what tables point to; 0: none */
    ebb_told_t told;                    /* kernel */
    bool structures;                    /* kernel: some arguments are larger than 8 bytes */
    uint64_t attributes;                /* plain kernel: a hash of its launch attributes; 0: none */
    const CUlaunchAttribute *attribute; /* [attribute_count] the same, valid as long as `params` */
    unsigned attribute_count;
    unsigned map_count;               /* plain kernel: tensor maps among its arguments, */
    uint16_t map_at[EBB_TENSOR_MAPS]; /* [map_count] in bytes: the driver can put another address into them */
    bool cooperative; /* kernel: all of its blocks are on the device at once, and may wait for each other */
    bool
        plain; /* kernel: its arguments, its geometry and these attributes are all there is to it, and it may be issued again */
    CUdeviceptr dst, src;  /* copy: either may be host memory; set: dst */
    size_t bytes;          /* copy, set, other: what it moves */
    uint32_t value, width; /* set */
    uint32_t access_count;
    ebb_access_t *access;
    /* Its arguments could not be read, or nothing is known of what they lead to (kernel.h): it may touch anything. */
    bool opaque;
    uint64_t coarse, fine; /* set by ebb_run_before: what tells it from others in a step (tracker.h) */
    /* Set when it has been issued: how many operations ago the one of its large buffers was used, or allocated, that lay idle for longest. */
    uint64_t idle;
    /* Set by ebb_run_before, for a plain kernel: launched with this block in place of the program's. Until `after`. */
    const unsigned char *instead;
} ebb_operation_t;

/* What orders the program's streams and its host besides the operations themselves. */
typedef enum ebb_order_kind {
    EBB_ORDER_RECORD,      /* an event, on a stream: all that was issued so far, at least */
    EBB_ORDER_WAIT,        /* a stream waits for an event */
    EBB_ORDER_SYNC_EVENT,  /* the host has waited for an event */
    EBB_ORDER_SYNC_STREAM, /* for a stream, also in a blocking copy */
    EBB_ORDER_SYNC_DEVICE, /* for everything */
    EBB_ORDER_NOT_RECORDED /* an event, reported as recorded before: the driver has refused it */
} ebb_order_kind_t;

typedef struct ebb_order {
    ebb_order_kind_t kind;
    ebb_stream_t *stream; /* NULL where there is none */
    CUevent event;
} ebb_order_t;

/* A kernel's name (of a CUkernel cast, too), mangled. NULL: the driver does not tell. Valid until its module is unloaded. */
const char *ebb_function_name(ebb_t *ebb, CUfunction function);
/* Where a parameter of a kernel is in its block of arguments. False: there is none, or the driver does not tell. Lock held. */
bool ebb_function_parameter(ebb_t *ebb, CUfunction function, uint32_t index, uint32_t *offset_bytes,
                            uint32_t *size_bytes);

/* Launches a kernel with a block of arguments as ebb_operation_t.params has it. Lock held. */
CUresult ebb_launch_block(ebb_t *ebb, const CUlaunchConfig *config, CUfunction function,
                          const unsigned char *params);

/* Kernels whose launches count as touching everything, because nothing is known of what they reach (kernel.h), by name. Lock held. */
typedef struct ebb_obscure {
    struct ebb_obscure *next;
    uint64_t launches;
    const char *why;
    char name[]; /* mangled */
} ebb_obscure_t;
const ebb_obscure_t *ebb_obscure_kernels(ebb_t *ebb); /* the first, or NULL */

/* How often a module has been unloaded: functions may be others since. */
uint64_t ebb_modules_unloaded(ebb_t *ebb);
/* Whether the module of a kernel (a CUkernel cast, too) has variables, or the program has looked one up there: a kernel may
 * then read what the program writes there unseen, or write what it reads. Unknown counts as yes. Lock held. */
bool ebb_function_has_variables(ebb_t *ebb, CUfunction function);
/* Whether a kernel (a CUkernel cast, too) is from this CUmodule or CUlibrary. Unknown counts as yes. Lock held. */
bool ebb_function_is_from(ebb_t *ebb, CUfunction function, const void *handle);

/* Something was lost that cannot be brought back: from now on every call with which the program waits for its
 * work returns CUDA_ERROR_LAUNCH_FAILED. */
void ebb_fail_program(ebb_t *ebb);

/* The device has done all that the present context has given it, or will do no more: then an error. A driver that refuses once is asked
 * once more. If it refuses again the context is lost, as other calls say as well, and contents with it; if they do not, the program fails,
 * as above. */
ebb_status_t ebb_wait_for_device(ebb_t *ebb);

void ebb_lock(void);
void ebb_unlock(void);

/* The program has looked up a driver function on this dlopen handle (or RTLD_*): from now on there is a
 * driver. Lock not held. */
void ebb_driver_seen(void *handle);

/* ---- the lock, for those that take it at the program's calls (lock.c) ---- */

/* Ebb_lock() (ebb_alloc.h), and what its holder has changed of its own thread until ebb_unlock: the current context, the capture
 * mode. */

/* By this thread. Any thread. */
bool ebb_lock_is_held(void);

/* False: another thread holds it. */
bool ebb_try_lock(void);
/* ebb_lock() where the process ends, in any case: other threads may be in calls for ever. False: it is not to be had. */
bool ebb_lock_at_exit(void);

/* ---- with it held ---- */

/* Several devices. Where a thread waits in the driver, for a device's work or because a call of the driver's may wait for that (a kernel that is
 * loaded, a launch into a full queue), it gives the lock away meanwhile: that work may wait for what another thread gives to another device, as
 * collectives do. It keeps the devices that its call is about so far: calls that are about one of these wait for it to come back.
 *
 * So behind a wait a device's own state is as it was, and what is the process's may be another: functions, modules, captures, graphs, mappings,
 * pointer tables, streams' marks, what is pinned in all. What goes through any of these and may wait in the middle stays (ebb_lock_stay).
 * With one device nothing is given away. */
typedef struct ebb_away {
    bool stayed;
    int stays;
    uint32_t devices; /* a bit for each */
    ebb_device_t *current;
    unsigned pushed; /* contexts that ebb has made current */
    bool relaxed;    /* ebb has exchanged the thread's capture mode; what it was: */
    CUstreamCaptureMode mode;
} ebb_away_t;
/* Whose contexts are there. */
bool ebb_has_several_devices(const ebb_t *ebb);
ebb_away_t ebb_lock_leave(void);
void ebb_lock_return(ebb_away_t away);
/* Until as many `false`, the lock is kept while the device is waited for. */
void ebb_lock_stay(bool stay);
/* The call is about this device, too. Waits until no other thread keeps it, or any that the call is about already: none of those is kept
 * meanwhile, so that nothing may be in preparation. Returns these. */
uint32_t ebb_lock_device(const ebb_device_t *dev);
/* It is about these alone. */
void ebb_lock_only(uint32_t devices);
bool ebb_lock_is_kept(const ebb_device_t *dev);
bool ebb_lock_is_kept_by_any(void);
/* As the driver's, of what is current. */
CUresult ebb_await_event(CUevent event);
CUresult ebb_await_stream(CUstream stream);
CUresult ebb_await_context(void);

/* Another device is meant, and its context current, until ebb_unlock. False: it has none any more. */
bool ebb_lock_go_to(ebb_device_t *dev);
/* The context of the device that it began at has been pushed: not current any more from ebb_unlock on. */
void ebb_lock_pushed(void);

/* Calls `issue(context)` as the program would: in the context and the capture mode that it has. `dev` is where it goes on after that. */
CUresult ebb_lock_step_out(ebb_device_t *dev, CUresult (*issue)(const void *context), const void *context);

#endif
