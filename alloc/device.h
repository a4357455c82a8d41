/* device.h: all that this folder remembers: one ebb_t for the process, and in it one ebb_device_t for each device. Functions are given
 * what they work on: a device, the process, or something that knows its device (a range, a buffer, a stream).
 *
 * A device is the state of one for the life of one context: budget, chunks, heap, streams, copy engine. It is opened when the device's
 * first context is seen and ends with that context; a context that the device gets after that opens another.
 *
 * There is one lock for all of it (ebb_lock), which a thread that waits for a device gives away to calls about others (ebb_lock_leave). The
 * device that a call is about is chosen by ebb_enter* (hook/hook.h), by the current context,
 * by the address that the call is about, or by the stream, and its context is current from then on. What has to do with another one in the
 * middle of a call visits it.
 *
 * Of the process, not of a device: the arena (one reservation of addresses, so that one comparison tells ebb's pointers; a range knows its
 * device), the table of foreign memory and those of graphs, captures, tensor maps, pointer tables, textures and functions (handles and
 * addresses are unique in the process), stream records (each knows its device, and marks may be asked for, joined and waited for in any),
 * the options, EBB_HOST_BUDGET and pageable memory.
 *
 * Invariants
 *   a chunk has one owner, or is in `idle` or `late`;  created <= limit + excess
 *   bytes mapped = EBB_CHUNK_BYTES (created - idle - late) <= budget_bytes
 *   budget_bytes = total_bytes - overhead_bytes - EBB_CHUNK_BYTES lent
 */
#ifndef EBB_DEVICE_H
#define EBB_DEVICE_H

#include <cuda.h>
#include <stdatomic.h>

#include "alloc/base/table.h"
#include "alloc/base/thread.h"
#include "alloc/ebb_alloc.h"

/* ---- the program's memory pools (pool.c) ---- */

/* The program's memory pools. To ebb a pool is a name on a buffer, unless its memory is to be exported,
 * lies elsewhere or comes from another process: then it is native, the driver serves it. */

/* The program has a pool of this device's memory, of at most so many bytes (0: any number). False: no host memory. */
bool ebb_pool_note(ebb_t *ebb, CUmemoryPool pool, CUdevice device, bool native, size_t max_bytes);
/* NULL: the device's current one. */
bool ebb_pool_is_native(ebb_device_t *dev, CUmemoryPool pool);
/* The device whose memory it gives; NULL: ebb does not serve that. Of no pool, or one that is not known: the given one. */
ebb_device_t *ebb_pool_device(ebb_device_t *dev, CUmemoryPool pool);
void ebb_pool_forget(ebb_t *ebb, CUmemoryPool pool);

/* Bytes that the program has in one pool, in whole EBB_ALIGN_BYTES. */
typedef struct ebb_pool_usage {
    size_t used_bytes, high_bytes; /* now; at most, since the program has last asked to forget it */
} ebb_pool_usage_t;
/* NULL: the device's default one; the same for the handle of that. */
ebb_pool_usage_t *ebb_pool_usage(ebb_device_t *dev, CUmemoryPool pool);
/* Whether so many bytes more are within the pool's size. */
bool ebb_pool_has_room(ebb_t *ebb, CUmemoryPool pool, size_t bytes);
void ebb_pool_took(ebb_device_t *dev, CUmemoryPool pool, size_t bytes);
void ebb_pool_gave(ebb_device_t *dev, CUmemoryPool pool, size_t bytes);
/* Whatever was allocated on the device is gone. */
void ebb_pools_emptied(ebb_device_t *dev);

/* What cuMemAllocAsync takes from on the device; NULL: its default pool. */
CUmemoryPool ebb_pool_current(ebb_device_t *dev);
void ebb_pool_set_current(ebb_t *ebb, CUdevice device, CUmemoryPool pool);

/* ---- memory that ebb does not serve (foreign.c) ---- */

/* Memory that the device can reach and ebb does not serve: host memory that is mapped, module
 * variables, managed memory, the program's own mappings, pools that ebb leaves to the driver, memory of other
 * processes. Ebb knows where it is, and counts what of it is device memory against the budget; it never leaves. */

typedef enum ebb_foreign_kind {
    EBB_FOREIGN_HOST,     /* allocated or registered, and mapped */
    EBB_FOREIGN_VARIABLE, /* of a module */
    EBB_FOREIGN_MANAGED,
    EBB_FOREIGN_MAPPING, /* cuMemMap */
    EBB_FOREIGN_POOL,    /* from a pool that is left to the driver */
    EBB_FOREIGN_IMPORT,  /* of another process or interface */
} ebb_foreign_kind_t;

typedef struct ebb_foreign {
    CUdeviceptr base;
    size_t bytes;
    ebb_foreign_kind_t kind;
    const void *owner; /* a module, or what else tells it apart */
    size_t counted;    /* device bytes, counted against the budget */
} ebb_foreign_t;

/* The range at an address, or NULL. Valid until the next change. */
const ebb_foreign_t *ebb_foreign_at(ebb_t *ebb, CUdeviceptr address);
/* Counts on the device. What has the same base is replaced. False: no host memory (it is then unknown; the driver knows it). */
bool ebb_foreign_add(ebb_device_t *dev, const ebb_foreign_t *range);
/* Also uncounts it. False: there is none with that base. */
bool ebb_foreign_remove(ebb_t *ebb, CUdeviceptr base);
/* All of one owner. */
void ebb_foreign_forget(ebb_t *ebb, const void *owner);

/* Of the device: takes device bytes off the budget for memory that the driver is about to serve, evicting what must go. False:
 * they are not there. */
bool ebb_foreign_count(ebb_device_t *dev, size_t bytes);
void ebb_foreign_uncount(ebb_device_t *dev, size_t bytes);
size_t ebb_foreign_counted(ebb_device_t *dev);

/* ---- slabs (slab.c) ---- */

/* Address space that small buffers share, tiled by blocks in units of EBB_ALIGN_BYTES. For this folder.
 *
 * Every unit belongs to one block: live (a buffer), waiting (freed, kept for the next request of its size) or
 * free (merged with its neighbours). There are chunks only where blocks need them: a chunk's worth of units that
 * lies in free blocks may be without. */

enum {
    EBB_CHUNK_UNITS = EBB_CHUNK_BYTES / EBB_ALIGN_BYTES,
    EBB_LARGEST_UNITS = EBB_SMALL_BYTES / EBB_ALIGN_BYTES
};

typedef enum ebb_block_state { EBB_LIVE, EBB_WAITING, EBB_FREE } ebb_block_state_t;

typedef struct ebb_block {
    ebb_buffer_t buffer; /* first: a small buffer is its block */
    uint32_t first, units;
    ebb_block_state_t state;
    ebb_mark_t freed;              /* waiting or free: may be in use until here */
    struct ebb_block *next, *prev; /* in its list (small.c) */
} ebb_block_t;

struct ebb_slab {
    ebb_range_t *range;
    struct ebb_slab *next;
    uint32_t units;
    uint32_t chunks;   /* of its range that are there */
    uint16_t *live;    /* live blocks that touch each chunk's worth of units */
    uint64_t *begins;  /* a bit for each unit: a block begins here */
    ebb_block_t *at[]; /* [units] the block that begins there */
};

/* A slab on a range, without blocks, not in the list. NULL: no host memory. */
ebb_slab_t *ebb_slab_new(ebb_range_t *range);
/* Unmaps and deletes range and slab; there must be no live block. False: the driver does not want to. */
bool ebb_slab_delete(ebb_slab_t *slab);

static inline ebb_slab_t *ebb_slab_of(const ebb_block_t *b)
{
    return b->buffer.range->slab;
}

/* A block at a place that belongs to no block; `units` above 0. NULL: no host memory. */
ebb_block_t *ebb_block_new(ebb_slab_t *slab, uint32_t first, uint32_t units);
void ebb_block_delete(ebb_block_t *block);
/* Its neighbours, or NULL. */
ebb_block_t *ebb_block_behind(const ebb_block_t *block);
ebb_block_t *ebb_block_before(const ebb_block_t *block);
/* The block of a unit, or NULL if there is none (in slabs of a plan) or it begins more than a large small buffer
 * before. */
ebb_block_t *ebb_block_of(const ebb_slab_t *slab, uint32_t unit);

/* The chunks, of those that the units touch, that are not there. */
unsigned ebb_slab_missing(const ebb_slab_t *slab, uint32_t first, uint32_t units);
/* Maps them on `chunks`; returns a failure when nothing has changed. */
ebb_status_t ebb_slab_back(ebb_slab_t *slab, uint32_t first, uint32_t units, const ebb_chunk_t *chunks);
/* A block comes to life, or dies. Returns in how many chunks' worth of units none was, or is, but it. */
unsigned ebb_slab_born(const ebb_block_t *block);
unsigned ebb_slab_died(const ebb_block_t *block);
/* Gives the chunks that lie wholly in these units, which no block uses any more, back to the pool. */
void ebb_slab_strip(ebb_slab_t *slab, uint32_t first, uint32_t units);

enum {
    EBB_DEVICES = 16, /* contexts that are served in the life of a process; beyond, they are the driver's */
    EBB_NO_DEVICE = EBB_DEVICES, /* the number of ebb_no_device */
    EBB_STATES = EBB_DEVICES + 1,
    EBB_DRIVER_DEVICES = 64 /* device numbers of the driver's that ebb can tell apart */
};

/* ---- parts of a device ---- */

/* Free chunks in no order. */
typedef struct ebb_chunk_list {
    ebb_chunk_t *chunk; /* [limit] */
    size_t count;
} ebb_chunk_list_t;

/* chunk.c */
typedef struct ebb_chunks {
    size_t room;           /* of the lists */
    size_t limit;          /* chunks that may exist */
    size_t lent;           /* chunks' worth of the budget that others have */
    size_t created, peak;  /* that do, or are being created; and did */
    ebb_chunk_list_t idle; /* no work uses them */
    ebb_chunk_list_t late; /* in use until their marks, when last asked */
    size_t total_bytes;    /* EBB_BUDGET */
    size_t budget_bytes, overhead_bytes;
    size_t headroom_bytes;       /* of the overhead: nothing has it yet */
    size_t least_overhead_bytes; /* what it was at first: a context does not shrink */
    size_t reserve_bytes;
    bool follow;        /* measure the overhead */
    bool ahead;         /* create ahead of need */
    bool wanted;        /* some have been taken since */
    size_t expected;    /* chunks that what is alive needs: ahead is beyond these */
    unsigned under_way; /* being created ahead */
    uint64_t released;  /* counts releases: what is under way then is not wanted any more */
    uint64_t under_way_since;
    uint64_t refused_ns;  /* when the driver last had none; 0: it had */
    ebb_status_t refusal; /* and what it said */
} ebb_chunks_t;

/* ahead.c */
typedef struct ebb_ahead {
    ebb_thread_t thread;
    CUcontext context; /* of the program's thread that made this one start */
    /* The chunk that is being created. Filled by this thread, emptied by the first thread that holds ebb_lock(). */
    _Atomic enum { EBB_AHEAD_EMPTY, EBB_AHEAD_CREATING, EBB_AHEAD_DONE } state;
    CUmemGenericAllocationHandle handle;
    bool created; /* handle is one */
} ebb_ahead_t;

/* heap.c */
typedef struct ebb_heap {
    ebb_buffer_t *newest, *oldest; /* large buffers in the order of their allocation */
    uint64_t operations;           /* of the program, so far */
    size_t live_bytes, live_peak_bytes;
    size_t taken;           /* chunks' worth by live buffers, where small ones lie whole chunks */
    ebb_buffer_t *unused;   /* records to be used again, linked through `older` */
    bool measure;           /* with the next call */
    ebb_buffer_t *unbacked; /* the one that has no memory yet */
} ebb_heap_t;

/* small.c. Free blocks of fewer than EBB_EXACT_UNITS units have a bin for each size, others eight for each power of two. */
enum { EBB_EXACT_UNITS = 64, EBB_BINS = EBB_EXACT_UNITS + 26 * 8 };

/* Waiting blocks of one size that were freed on one stream. */
typedef struct ebb_queue {
    const ebb_stream_t *stream;
    ebb_block_t *head;
    struct ebb_queue *next;
} ebb_queue_t;

typedef struct ebb_small {
    ebb_queue_t *waiting[EBB_LARGEST_UNITS + 1]; /* by units */
    size_t waiting_count;
    ebb_block_t *bin[EBB_BINS];
    uint64_t filled[(EBB_BINS + 63) / 64]; /* a bit for each bin that is not empty */
    bool seams; /* some neighbours could not be merged because their streams differ */
} ebb_small_t;

/* spare.c. By chunk count: ranges of up to EBB_EXACT_CHUNKS have lists of their own, others share by modulo. */
enum {
    EBB_EXACT_CHUNKS = 1024,
    EBB_SHARED_CLASSES = 256,
    EBB_RANGE_CLASSES = EBB_EXACT_CHUNKS + EBB_SHARED_CLASSES
};

typedef struct ebb_range_list {
    ebb_range_t *of_class[EBB_RANGE_CLASSES];
    ebb_range_t *newest, *oldest;
    size_t chunks;
} ebb_range_list_t;

typedef struct ebb_spare {
    ebb_range_list_t spares, ghosts;
    size_t most_owned; /* chunks under owners at once */
    size_t mapped; /* chunks under new ranges, since a program that does not settle was last given new ones */
} ebb_spare_t;

/* share.c: the rights that every mapping has to give. */
typedef struct ebb_access_rights {
    CUmemAccessDesc desc[EBB_DRIVER_DEVICES];
    size_t count;
} ebb_access_rights_t;

struct ebb_device {
    ebb_t *ebb;
    unsigned number;   /* its place in ebb->device */
    CUcontext context; /* NULL: it is gone, or could not be served */
    CUdevice device;
    bool failed;   /* ebb cannot serve this device */
    bool orphaned; /* its context went before its memory could be given back */
    size_t budget_bytes;

    ebb_chunks_t chunks;
    ebb_ahead_t ahead;
    ebb_heap_t heap;
    ebb_small_t small;
    ebb_slab_t *slabs; /* all that are closed */
    ebb_spare_t spare;
    ebb_access_rights_t access;
    size_t foreign_bytes;          /* that the driver serves and that count here (foreign.c) */
    ebb_pool_usage_t default_pool; /* pool.c */
    ebb_stream_t *last_stream;     /* looked up last (mark.c) */
    struct ebb_run *run; /* ckpt/run/state.h; NULL: it has not been opened, or there was no host memory */
};

/* ---- parts of the process ---- */

/* mark.c */
enum { EBB_STREAM_EVENTS = 4 }; /* pending at once on one stream */
struct ebb_stream {
    CUstream handle;
    ebb_device_t *device;  /* whose; ebb_no_device: a context's that ebb does not serve */
    unsigned long long id; /* the driver's: a handle may come again for another stream */
    uint64_t issued, reached;
    CUevent event[EBB_STREAM_EVENTS];     /* a ring, made when first needed */
    uint64_t event_at[EBB_STREAM_EVENTS]; /* the number each was recorded behind, ascending while pending */
    bool kept[EBB_STREAM_EVENTS];         /* what is behind it may wait for the host: no later one will do */
    unsigned first, pending;
    uint64_t asked; /* in which round of questions the driver was asked last */
    ebb_stream_t *next;
};

/* arena.c */
typedef struct ebb_arena {
    CUdeviceptr base;
    atomic_size_t slots; /* 0 until all else is there; neither it nor the base changes after that */
    size_t first_slot;   /* those in front of it never get a range: ebb_nowhere */
    ebb_range_t **range; /* [slots]: the range that a place belongs to, or NULL */
    size_t next_slot;    /* where the search for room goes on */
    ebb_range_t *stale;  /* deleted, but for what the driver has refused to unmap; through `next` */
} ebb_arena_t;

/* foreign.c */
typedef struct ebb_foreign_ranges {
    struct ebb_foreign_range *range; /* by base; they do not overlap */
    size_t count, room;
} ebb_foreign_ranges_t;

/* pool.c */
typedef struct ebb_pools {
    struct ebb_known_pool *list;
    CUmemoryPool current[EBB_DRIVER_DEVICES]; /* NULL: the device's default one */
    bool any_current;
} ebb_pools_t;

/* kernel/tensor_map.c. Open addressing by the bytes. */
typedef struct ebb_tensor_maps {
    struct ebb_tensor_map *table;
    size_t capacity; /* 0 or a power of two */
    size_t count;
} ebb_tensor_maps_t;

/* overhead.c */
struct ebb_nvml_process;
typedef struct ebb_nvml {
    bool tried;
    int (*by_bus)(const char *bus, void **device); /* NULL: there is no NVML */
    struct {
        bool tried;
        void *handle; /* nvmlDevice_t; NULL: not to be had */
    } device[EBB_DRIVER_DEVICES];
    int (*processes)(void *device, unsigned *count, struct ebb_nvml_process *out);
} ebb_nvml_t;

/* Of ebb in a process. Asleep, for ever: no usable driver, bad options under EBB_STRICT, or a forked child. */
typedef enum ebb_life { EBB_NO_DRIVER_YET, EBB_AWAKE, EBB_ASLEEP } ebb_life_t;

struct ebb {
    ebb_device_t device[EBB_STATES];
    unsigned device_count; /* those below have been opened */

    ebb_arena_t arena;
    bool (*make_room)(ebb_device_t *dev, size_t chunks); /* heap.c */
    unsigned unbacked_count;                             /* buffers without memory */
    uint64_t generations;                                /* of buffers: no two of the process share one */
    /* mark.c */
    ebb_stream_t *streams;       /* of all devices, because a mark may be any device's */
    ebb_stream_t shared_stream;  /* in place of those for which there was no host memory */
    uint64_t round_of_questions; /* from 1 on (ebb_mark_reached_lately) */
    atomic_uint captures;        /* of streams into graphs, under way; any thread reads it */
    atomic_bool program_failed;  /* any thread */
    ebb_foreign_ranges_t foreign;
    ebb_pools_t pools;
    /* kernel/ */
    ebb_table_t functions; /* function.c */
    struct {
        ebb_table_t by_function; /* ebb_signature_t */
        bool grew;
    } signatures;
    struct {
        struct ebb_module *list;
        uint64_t unloaded; /* how often one was */
    } modules;
    ebb_obscure_t *obscure; /* by name */
    ebb_tensor_maps_t tensor_maps;
    ebb_nvml_t nvml;

    struct ebb_offload *offload;       /* offload/internal.h; NULL: there was no driver yet */
    struct ebb_run_shared *run_shared; /* ckpt/run/state.h; the same */
    struct ebb_hook *hook;             /* hook/internal.h; the same */
    _Atomic(ebb_life_t) life;          /* hook/enter.c; any thread */
    atomic_int order_wanted; /* what orders streams is reported (ckpt/run/run.h); any thread, at any time */
};

/* Numbers the devices, and what else does not begin at 0. Once, before anything else of this folder. */
void ebb_open(ebb_t *ebb);

/* NULL: none left. */
ebb_device_t *ebb_device_open(ebb_t *ebb, CUcontext context, CUdevice device);
/* The one that serves it now, or NULL. */
ebb_device_t *ebb_device_of_context(ebb_t *ebb, CUcontext context);
ebb_device_t *ebb_device_of(ebb_t *ebb, CUdevice device);
/* Of a stream's handle that is none of the default ones: that of its context, or ebb_no_device; `dev` if the driver does not tell. */
ebb_device_t *ebb_device_of_stream(ebb_device_t *dev, CUstream handle);

/* Stands for a context that ebb does not serve, and for none. It has no context, and its state stays empty. */
static inline ebb_device_t *ebb_no_device(ebb_t *ebb)
{
    return &ebb->device[EBB_NO_DEVICE];
}
static inline bool ebb_is_device(const ebb_device_t *dev)
{
    return dev->number != EBB_NO_DEVICE;
}

/* ---- whose context is current to the lock's holder (lock.h): known so that none is pushed for nothing ---- */

/* The program's call finds this device's; ebb_no_device: that of none. */
void ebb_device_begins(ebb_device_t *dev);
/* Only for what pushes contexts, and for handles that mean another stream in each (mark.c): all else is given its device. */
extern ebb_device_t *ebb_current_device; /* until a call begins, the last one's; guarded by ebb_lock() */

typedef struct ebb_visit {
    ebb_device_t *from;
    bool pushed;
    bool owns;        /* the device's state, too */
    uint32_t devices; /* then: that the call was about before, */
    int named;        /* and ebb_this_thread.device */
} ebb_visit_t;

/* Another device's context is current, if it has one, until ebb_device_return; visits may be nested. Nothing has changed on failure. */
ebb_status_t ebb_device_visit(ebb_device_t *to, ebb_visit_t *visit);
/* The same, for what leaves the device's state alone (mark.c): another thread may keep it. */
ebb_status_t ebb_context_visit(ebb_device_t *to, ebb_visit_t *visit);
void ebb_device_return(ebb_visit_t visit);

/* ---- streams and marks, beyond what every folder uses (mark.c) ---- */

/* The side of streams and marks that only this folder uses */

/* `stream` continues only after all that other streams of the device, or of all, have been given so far; or
 * the host does. */
ebb_status_t ebb_streams_join(ebb_device_t *dev, ebb_stream_t *stream, bool peer_used);
ebb_status_t ebb_streams_wait(ebb_device_t *dev, bool peer_used);

/* The device's context is at its end, its work done: every mark of its streams is reached. */
void ebb_streams_end(ebb_device_t *dev);

/* Makes sure that how far each stream of every device is can be asked later without recording an event on it. `legacy`: also of those that only an
 * event on the legacy stream tells of from this thread, which then waits for all blocking streams, and they for it. */
void ebb_streams_record(ebb_t *ebb, bool legacy);

/* The program itself has waited for a stream up to a number. */
void ebb_stream_synchronised(ebb_stream_t *stream, uint64_t number);

/* The program is about to destroy the stream. */
void ebb_stream_forget(ebb_device_t *dev, ebb_stream_t *stream);
/* It has been: its handle is none any more, but there may be marks of it. */
bool ebb_stream_is_gone(const ebb_stream_t *stream);

/* Like ebb_mark_reached, but asks the driver at most once about each stream until ebb_marks_ask_again: for
 * walks over many marks. May say no a little longer than need be. */
bool ebb_mark_reached_lately(ebb_mark_t mark);
void ebb_marks_ask_again(ebb_t *ebb);

/* May `stream` use now what is in use until the mark? NULL: may every stream? */
static inline bool ebb_mark_suits(ebb_mark_t mark, const ebb_stream_t *stream)
{
    return !mark.stream || mark.stream == stream || ebb_mark_reached_lately(mark);
}

/* Both marks are reached where the later is; false if neither is known to be the later one. */
bool ebb_mark_later(ebb_mark_t *mark, ebb_mark_t other);

/* After ebb_fail_program. Any thread. */
bool ebb_program_has_failed(const ebb_t *ebb);

/* ---- streams that are captured into graphs ---- */

/* Any thread. */
static inline bool ebb_captures_under_way(const ebb_t *ebb)
{
    return atomic_load_explicit(&ebb->captures, memory_order_relaxed) != 0;
}

/* Whether a stream takes part in a capture. Asks the driver; lock not wanted. */
bool ebb_is_capturing(CUstream stream);

/* ---- the pool of chunks (chunk.c) ---- */

/* The pool of physical memory. Chunks are created one by one up to the budget and kept: creating and
 * releasing them are the slowest calls of the VMM family.
 *
 * A chunk is free (in the pool) or taken. A free one may still be in use by work that was issued before it was
 * given: until its mark `freed`; a stream that has been given that work may have it at once. Ranges without
 * an owner may still be mapped on a chunk, free or taken: ghosts (heap.c).
 *
 * All chunks are of one size. Larger handles for large buffers that live long would be created in less time (published: 193 us each on an
 * A100, so 10 s for 100 GB in pieces of 2 MiB, once), but cuMemMap takes whole handles: what an eviction, a plan's overlay or a slab needs could
 * not be made of any free chunks any more, and memory that is free in the other size would be no use. bench/gpu_costs measures both. */

struct ebb_chunk {
    CUmemGenericAllocationHandle handle;
    bool free;
    uint32_t at;     /* where in its list of free ones */
    uint32_t ghosts; /* ghosts mapped on it: it cannot be released */
    ebb_range_t
        *holder; /* the range, owned or spare, that has it to itself; NULL: none, or not known (spare.c) */
    ebb_mark_t freed; /* while free */
};

/* The most that a budget may be; it is that at first. `others_bytes` of the budget are held by what ebb does not serve (context,
 * modules, libraries). */
void ebb_chunks_init(ebb_device_t *dev, size_t budget_bytes, size_t others_bytes);
/* Another budget from now on, no larger than what the pool was made for. What exists beyond it is released as it becomes free (ebb_heap_shrink). */
void ebb_chunks_budget(ebb_device_t *dev, size_t budget_bytes);
/* The peak is counted from now on. */
void ebb_chunks_forget_peak(ebb_device_t *dev);
/* From now on what else the process holds is measured before chunks are created, `reserve_bytes` more are held back, and headroom for
 * what grows in between (of a budget of 128 chunks or more); and `ahead` of need some are created by a thread (ahead.c). */
void ebb_chunks_follow(ebb_device_t *dev, size_t reserve_bytes, bool ahead);
/* The budget that has room for so many bytes, what ebb does not own included, beside that headroom. */
size_t ebb_chunks_with_headroom(size_t bytes);
/* Measures now: for callers that have seen something loaded. */
void ebb_chunks_measure(ebb_device_t *dev);

/* So many chunks less may exist, because the driver serves memory of that size itself; those that are
 * free go back to it. False: more of them are taken than that. And back. */
bool ebb_chunks_lend(ebb_device_t *dev, size_t count);
void ebb_chunks_regain(ebb_device_t *dev, size_t count);

/* All of ebb_usage() but the live bytes, which the heap knows. */
ebb_usage_t ebb_chunks_usage(ebb_device_t *dev);

/* Chunks that exist, and those of them that are free, whether or not in use until some mark. */
size_t ebb_chunks_created(ebb_device_t *dev);
size_t ebb_chunks_free(ebb_device_t *dev);

/* Chunks that exist beyond what the budget now allows, because what else the process holds has grown: they are
 * released when they are free, and not given out. */
size_t ebb_chunks_excess(ebb_device_t *dev);

/* Free chunks that `stream` may use now, or, if it is NULL, any stream. */
size_t ebb_chunks_suiting(ebb_device_t *dev, const ebb_stream_t *stream);
/* Takes up to `count` free chunks that `stream` may use now, or, if it is NULL, any stream; creates none.
 * Returns how many. */
size_t ebb_chunks_gather(ebb_device_t *dev, size_t count, const ebb_stream_t *stream, ebb_chunk_t *out);
/* The same, of those that `stream` may use after waiting for other streams: makes it wait. */
size_t ebb_chunks_join(ebb_device_t *dev, size_t count, ebb_stream_t *stream, ebb_chunk_t *out);
/* Waits for marks of free chunks until `chunks` can be taken, or there are none left to wait for. */
void ebb_chunks_wait(ebb_device_t *dev, size_t chunks);
/* Takes up to `count` new ones, as far as budget and driver allow. Returns how many. */
size_t ebb_chunks_create(ebb_device_t *dev, size_t count, ebb_chunk_t *out);
/* So many are needed for what is alive: no more are created ahead than a few beyond these. */
void ebb_chunks_expect(ebb_device_t *dev, size_t count);

/* What to tell the program when there are too few: CUDA_ERROR_OUT_OF_MEMORY, or, if the driver has refused the last
 * one for another reason, that, or a kernel's fault, which stays with the context (as its reference says, cuMemGetInfo
 * returns it, too). */
ebb_status_t ebb_chunks_refusal(ebb_device_t *dev);
/* For ahead.c, lock held: may one more be created? Then it counts already; end with the handle, or NULL if there is
 * none. */
bool ebb_chunks_begin_ahead(ebb_device_t *dev);
void ebb_chunks_end_ahead(ebb_device_t *dev, const CUmemGenericAllocationHandle *handle);
/* The driver's call; no lock. */
ebb_status_t ebb_chunk_handle(CUdevice device, CUmemGenericAllocationHandle *out);
/* Takes a free one. */
void ebb_chunk_claim(ebb_device_t *dev, ebb_chunk_t chunk);
/* Gives chunks that are in use until their marks `freed`. */
void ebb_chunks_give_back(ebb_device_t *dev, size_t count, const ebb_chunk_t *chunks);

/* ---- chunks created ahead of need (ahead.c) ---- */

/* Chunks created ahead of need by a thread of ebb's own, one for each device. */

/* Lets the thread create what the pool wants (ebb_chunks_wanted); starts it at the first call. Lock held. */
void ebb_ahead_wake(ebb_device_t *dev);
/* If a chunk is being created, waits until it is in the pool. True if so. Lock held. */
bool ebb_ahead_collect(ebb_device_t *dev);
/* Ends the threads, for the end of the process. Lock not held. */
void ebb_ahead_stop(ebb_t *ebb);

/* ---- the arena (arena.c) ---- */

/* The arena's inside */

/* No buffer lies less than this above a multiple of 4 GiB, if it can be helped: a word there is a number
 * below it beside the upper half of some pointer, as the padding of a struct often holds it. */
#define EBB_LOW_WORDS ((CUdeviceptr)32 << 20)
/* Nor where the lower half is a float from 1e-8 to 2, such as rates and factors are. */
#define EBB_FLOAT_WORDS_BEGIN ((CUdeviceptr)0x32000000)
#define EBB_FLOAT_WORDS_END   ((CUdeviceptr)0x40000000)

/* Once. `device_bytes`: of all devices. */
ebb_status_t ebb_arena_reserve(ebb_t *ebb, size_t device_bytes);

/* What the driver has refused to unmap goes now: of a range; of those that were deleted since. */
ebb_status_t ebb_range_clear(ebb_range_t *range);
void ebb_arena_clear(ebb_device_t *dev);

/* Puts chunks under a part of a range, or gives a part's, which no work may use any more, back to the pool. */
ebb_status_t ebb_range_map_part(ebb_range_t *range, uint32_t first, uint32_t count,
                                const ebb_chunk_t *chunks);
ebb_status_t ebb_range_unmap_part(ebb_range_t *range, uint32_t first, uint32_t count);

/* Also without the lock. */
static inline bool ebb_arena_contains(ebb_t *ebb, CUdeviceptr address)
{
    const size_t slots = atomic_load_explicit(&ebb->arena.slots, memory_order_acquire);
    return slots && address - ebb->arena.base < slots * EBB_CHUNK_BYTES;
}

/* The range at an address of the arena, or NULL. */
static inline ebb_range_t *ebb_arena_range(ebb_t *ebb, CUdeviceptr address)
{
    return ebb->arena.range[(address - ebb->arena.base) / EBB_CHUNK_BYTES];
}

/* Whose an address is: NULL if it is in no range. */
static inline ebb_device_t *ebb_arena_device(ebb_t *ebb, CUdeviceptr address)
{
    const ebb_range_t *r = ebb_arena_contains(ebb, address) ? ebb_arena_range(ebb, address) : NULL;
    return r ? r->device : NULL;
}

/* ---- the caching allocator (heap.c, small.c) ---- */

/* Serving the program's allocations */

/* The live buffer that begins at an address, or NULL. */
ebb_buffer_t *ebb_heap_find(ebb_t *ebb, CUdeviceptr address);

/* The host waits for everything that touched the buffer so far. */
ebb_status_t ebb_buffer_wait(const ebb_buffer_t *buffer);

/* Notes that all large buffers may be in use until here. */
void ebb_buffers_touch(ebb_device_t *dev, ebb_mark_t mark);
/* Those of an operation of the program's, which are all of this device; and notes how long they lay idle (ebb_operation_t). */
void ebb_operation_touch(ebb_device_t *dev, ebb_operation_t *operation, ebb_mark_t mark);

/* Makes room for so many chunks and leaves it to the driver (ebb_chunks_lend). */
bool ebb_heap_lend(ebb_device_t *dev, size_t chunks);

/* Measures what else is held on the device. False: that has grown so far that more chunks exist than the budget now allows. Not while a
 * stream is captured. */
bool ebb_heap_measure(ebb_device_t *dev);
/* If that was asked for since (ebb_heap_measure_soon). */
bool ebb_heap_measure_if_due(ebb_device_t *dev);
/* Then something is evicted. No plan may be driven: it has given its part of the chunks away. */
void ebb_heap_shrink(ebb_device_t *dev);

/* On every device, what was allocated without memory gets it, unless it is at the address `but`. Called when a call begins. What cannot be
 * had any more goes through `unbacked`: the next operation that touches it gets it memory. */
void ebb_heap_back(ebb_t *ebb, CUdeviceptr but, void (*unbacked)(ebb_buffer_t *buffer));

/* What the program is told to be free: the budget less the chunks that live buffers take on the device when they are there. */
size_t ebb_heap_told_free(ebb_device_t *dev);

/* Gives all memory of the device back to the driver, under live buffers too: it is idle, and no work will use it again.
 * Some context must be current. `freeing` is asked of each large buffer: true: it is gone already (a placed one). */
void ebb_heap_abandon(ebb_device_t *dev, bool (*freeing)(ebb_buffer_t *buffer, ebb_stream_t *stream));

/* How chunks are got that live buffers have: `evict` gets so many into the pool. False: it cannot. The one call from here upwards. */
void ebb_heap_make_room_by(ebb_t *ebb, bool (*evict)(ebb_device_t *dev, size_t chunks));

/* Checks all structures (debug builds and tests). */
void ebb_heap_check(ebb_device_t *dev);

/* ---- small.c: buffers that share slabs; heap.c calls these ---- */

ebb_status_t ebb_small_alloc(ebb_device_t *dev, const ebb_request_t *request, ebb_buffer_t **out);
void ebb_small_free(ebb_buffer_t *buffer, ebb_mark_t at);
ebb_buffer_t *ebb_small_place(ebb_slab_t *slab, size_t offset_bytes, size_t bytes);
void ebb_small_displace(ebb_buffer_t *buffer);
ebb_buffer_t *ebb_small_at(const ebb_slab_t *slab, CUdeviceptr address);
/* Merges spare blocks and gives back the chunks that hold nothing and whose marks are reached, or waits for them. */
void ebb_small_reclaim(ebb_device_t *dev, bool wait);
void ebb_small_check(ebb_device_t *dev);

/* ---- rights to ebb's memory (share.c) ---- */

/* Which other devices may reach ebb's memory. */

/* The rights that every mapping of the device's memory has to give: its own, and those of the devices that
 * the program has given access. Valid until the next grant. */
const CUmemAccessDesc *ebb_access_descs(ebb_device_t *dev, size_t *count);
/* One more device; all present mappings get it now. */
ebb_status_t ebb_access_grant(ebb_device_t *dev, CUdevice device);

/* ---- virtual memory management (vmm.c) ---- */

/* Whether the device's virtual memory management does what ebb needs of it. */

/* What every chunk is made with. */
CUmemAllocationProp ebb_chunk_properties(CUdevice device);

/* One chunk through its life: addresses, memory, mapping, access, a write on a stream of its own, and back. The first call that fails is
 * what is returned (ebb_last_failure); what it leaves behind is one chunk and its addresses at most. A device that has no chunk left to
 * try it with is taken at its word. A context must be current; a millisecond or less. */
ebb_status_t ebb_vmm_try(CUdevice device);

/* ---- what else the process holds (overhead.c) ---- */

/* How much device memory the process holds beside ebb's chunks. */

typedef struct ebb_overhead {
    size_t bytes; /* that context, modules, libraries and the program's own allocations past ebb hold now */
    bool of_all;  /* all processes' on the device: nothing tells this one's */
} ebb_overhead_t;

/* `chunk_bytes`: what ebb has created. NVML says what this process holds; without it, or where what it says cannot be (as in
 * containers), all that is not free on the device counts: never too little. A context must be current. A few microseconds to some
 * ten. */
ebb_overhead_t ebb_overhead(ebb_t *ebb, CUdevice device, size_t chunk_bytes);

#endif
