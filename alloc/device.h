/* device.h: all that this folder remembers: one ebb_t for the process, and in it one ebb_device_t for each device. Functions are given
 * what they work on: a device, the process, or something that knows its device (a range, a buffer, a stream).
 *
 * A device is the state of one for the life of one context: budget, chunks, heap, streams, copy engine. It is opened when the device's
 * first context is seen and ends with that context; a context that the device gets after that opens another.
 *
 * There is one lock for all of it (ebb_lock). The device that a call is about is chosen by ebb_enter* (hook/hook.h), by the current context,
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
 *   budget_bytes = total_bytes - overhead_bytes - EBB_CHUNK_BYTES ceded
 */
#ifndef EBB_DEVICE_H
#define EBB_DEVICE_H

#include <cuda.h>
#include <stdatomic.h>

#include "alloc/base/table.h"
#include "alloc/base/thread.h"
#include "alloc/ebb_alloc.h"
#include "alloc/foreign.h"
#include "alloc/pool.h"
#include "alloc/slab.h"

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
    size_t ceded;          /* chunks' worth of the budget that others have */
    size_t created, peak;  /* that do, or are being created; and did */
    ebb_chunk_list_t idle; /* nobody uses them */
    ebb_chunk_list_t late; /* in use until their marks, when last asked */
    size_t total_bytes;    /* EBB_BUDGET */
    size_t budget_bytes, overhead_bytes;
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
    /* The chunk that is being created. Filled by this thread, emptied under ebb_lock() by whoever comes first. */
    _Atomic enum { EBB_AHEAD_EMPTY, EBB_AHEAD_CREATING, EBB_AHEAD_DONE } slot;
    CUmemGenericAllocationHandle handle;
    bool created; /* handle is one */
} ebb_ahead_t;

/* heap.c */
typedef struct ebb_heap {
    ebb_buffer_t *newest, *oldest; /* large buffers by last use */
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
    bool failed;    /* ebb cannot serve this device */
    bool leftovers; /* its context went before its memory could be given back */
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
    unsigned first, pending;
    uint64_t asked; /* in which round of questions the driver was asked last */
    ebb_stream_t *next;
};

/* arena.c */
typedef struct ebb_arena {
    CUdeviceptr base;
    atomic_size_t slots; /* 0 until all else is there; neither it nor the base changes after that */
    size_t first_slot;   /* those in front of it are nobody's, ever: ebb_nowhere */
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
    void *device; /* nvmlDevice_t; NULL: not to be had */
    int (*processes)(void *device, unsigned *count, struct ebb_nvml_process *out);
} ebb_nvml_t;

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

    struct ebb_offload *offload; /* offload/internal.h; NULL: there was no driver yet */
    struct ebb_run *run;         /* ckpt/run/state.h; the same */
    struct ebb_hook *hook;       /* hook/internal.h; the same */
    atomic_int order_wanted; /* what orders streams is told of (ckpt/run/run.h); any thread, at any time */
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
} ebb_visit_t;

/* Another device's context is current, if it has one, until ebb_device_return; visits may be nested. Nothing has changed on failure. */
ebb_status_t ebb_device_visit(ebb_device_t *to, ebb_visit_t *visit);
void ebb_device_return(ebb_visit_t visit);

#endif
