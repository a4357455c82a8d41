/* streams.h: streams, their operations, and who runs them.
 *
 * A stream is a queue of ops with consecutive numbers; `completed` is the number of the last one that is
 * done, so "stream s has reached n" is all that an event, a wait or a freed block needs to remember. Ops of
 * one stream complete in order.
 *
 * queue.c keeps the queues and says which op's turn has come; a scheduler (sg_scheduler_t) runs it and reports
 * with sg_op_finish_locked. There are two: real threads (threads.c), and one whose order is drawn from a seed
 * and whose time is computed (deterministic.c, clock.c).
 */
#ifndef SG_STREAMS_H
#define SG_STREAMS_H

#include "softgpu/driver/sg.h"

typedef enum sg_op_kind {
    SG_OP_KERNEL,
    SG_OP_COPY,
    SG_OP_SET,
    SG_OP_WAIT,   /* until another stream has reached a number */
    SG_OP_RECORD, /* an event */
    SG_OP_HOST    /* a host function */
} sg_op_kind_t;

/* What a stream waits for in memory: a value of 4 or 8 bytes, a CUstreamWaitValue_flags condition. */
typedef struct sg_poll {
    CUdeviceptr address;
    uint64_t value;
    size_t bytes;
    unsigned condition;
} sg_poll_t;

/* One record of an event: shared by the event and the op that will stamp it. */
typedef struct sg_record {
    uint32_t refs;
    uint64_t time_ns;  /* 0: not yet */
    uint64_t floor_ns; /* it happened no earlier: see sg_lane_t */
} sg_record_t;

enum { SG_PAYLOAD_ALIGN = 128 }; /* arguments may hold structures as aligned as a CUtensorMap */

struct sg_op {
    sg_op_kind_t kind;
    sg_stream_t *stream;
    uint64_t number;
    sg_op_t *next;            /* in the stream */
    sg_op_t *next_run;        /* in the run list */
    struct sg_touch *touches; /* order.c's */
    /* Work, split into units that workers claim in groups. */
    uint64_t units, group;
    _Atomic uint64_t next_unit;
    unsigned active; /* workers at it; guarded by sg.lock */
    bool listed;     /* in the run list */
    union {
        struct {
            CUfunction function;
            softgpu_launch_t launch;
            uint64_t ends; /* order.c's: bits for words that may point behind what another one points to */
        } kernel;
        struct {
            char *dst;
            const char *src;
            size_t bytes; /* in all */
            size_t width,
                rows; /* rows > 0: a box (copy.h) of bytes / width rows, `rows` of them in a slice */
            size_t dst_pitch, src_pitch, dst_slice, src_slice;
        } copy;
        struct {
            char *dst;
            uint32_t value;
            unsigned width;    /* bytes of an element: 1, 2, 4 */
            size_t count;      /* in all */
            size_t row, pitch; /* row > 0: elements of a row; rows lie `pitch` bytes apart */
        } set;
        struct {
            sg_stream_t *stream; /* holds a reference; NULL: until memory holds a value */
            uint64_t number;
            sg_poll_t poll;
        } wait;
        struct {
            sg_record_t *record; /* holds a reference; NULL: no timing */
        } record;
        struct {
            CUhostFn function;
            CUstreamCallback callback; /* the older form, if not NULL */
            CUstream api_stream;
            void *data;
        } host;
    };
    struct sg_watch *watch; /* owned; of work in checked mode, else NULL (shadow.h) */
    void *heap_payload;     /* owned: arguments or a staged copy too large for `payload` */
    size_t payload_bytes;
    _Alignas(SG_PAYLOAD_ALIGN) char payload[256];
};

typedef struct sg_seen {
    uint64_t stream_id, number;
} sg_seen_t;

/* A stream in virtual time (clock.c). */
typedef struct sg_lane {
    struct sg_act *head, *tail; /* what is not over yet */
    uint64_t done;              /* the number of the last op that is over */
    /* An op that the host, or another stream, kept from ending was observed to end at this time: what follows it cannot
     * be earlier, whatever was computed. */
    uint64_t floor_ns;
    /* deterministic.c: if `mark` is the current search's, ops up to `needed` have to run; those before `search` have
     * been looked at. */
    uint64_t needed, mark;
    const sg_op_t *search;
    bool to_search;
    struct sg_stream *next_to_search;
} sg_lane_t;

typedef struct sg_shared_event sg_shared_event_t;

/* Where an event was last recorded. A wait reads it when it is called: recording again later does not move
 * it. */
typedef struct sg_event {
    CUcontext ctx;
    unsigned flags;
    sg_stream_t *stream; /* holds a reference; NULL: never recorded */
    uint64_t number;
    sg_record_t *record;          /* holds a reference; NULL without timing */
    struct sg_captured *captured; /* last recorded in a capturing stream (graph.h); owned */
    sg_shared_event_t *shared;    /* of an event that processes share (ipc_event.c) */
    int shared_fd;
} sg_event_t;

struct sg_stream {
    CUcontext ctx;
    bool destroyed; /* its handle is not valid any more */
    bool own;       /* a thread's default stream */
    uint32_t refs;  /* the handle's, and one per wait, event record and freed block that names it */
    bool blocking;  /* waits for, and is waited for by, the legacy default stream */
    int priority;
    unsigned flags;
    uint64_t id;
    uint64_t submitted;         /* guarded by sg.lock */
    _Atomic uint64_t completed; /* written under sg.lock */
    uint64_t legacy_seen;       /* the legacy stream's ops up to here are waited for already */
    bool stalled;               /* the head is a wait whose time has not come */
    bool running;               /* the head is with the workers or the caller */
    sg_op_t *head, *tail;
    struct sg_seen *seen; /* what its future work is ordered after (order.c) */
    unsigned seen_count, seen_capacity;
    bool untracked;
    struct {
        CUaccessPolicyWindow window;
        CUsynchronizationPolicy policy; /* 0: never set, and read so, which is not CU_SYNC_POLICY_AUTO */
        CUlaunchMemSyncDomain domain;
    } attributes;
    sg_lane_t lane;
    struct sg_capturing *capturing; /* its part in a capture (graph.h), or NULL */
    sg_stream_t *next, **link;      /* all streams; what points here */
    sg_stream_t *next_own;          /* of a thread's default streams, one a context */
};

/* Who runs what the queues hand over. One for the life of the process, chosen when the driver starts. */
typedef struct sg_scheduler {
    CUresult (*start)(unsigned workers);
    /* A call of a host thread begins; it holds no lock. NULL: nothing to do. */
    void (*enter)(void);
    /* An op has got its place in its stream, and may run (be freed, even) as soon as this returns. */
    void (*queued_locked)(const sg_op_t *op);
    /* An op whose turn has come: work or a host function. Run it, then sg_op_finish_locked. */
    void (*ready_locked)(sg_op_t *op);
    /* A wait that is over, or a record whose turn has come, leaves its stream. */
    void (*passed_locked)(const sg_op_t *op);
    void (*moved_locked)(void); /* some stream has moved */
    /* The stream has reached the number for good: nobody needs to wait for it. */
    bool (*past_locked)(const sg_stream_t *stream, uint64_t number);
    /* The host asks whether the stream has reached the number, or waits until it has. The caller holds a reference: the
     * lock may be given up meanwhile. */
    bool (*reached_locked)(sg_stream_t *stream, uint64_t number);
    void (*wait_locked)(sg_stream_t *stream, uint64_t number);
    /* Without the lock, before a host thread waits: true if the stream has reached the number meanwhile. */
    bool (*spin)(const sg_stream_t *stream, uint64_t number);
} sg_scheduler_t;
extern const sg_scheduler_t sg_threads_scheduler;       /* threads.c */
extern const sg_scheduler_t sg_deterministic_scheduler; /* deterministic.c */
extern const sg_scheduler_t *sg_scheduler;
/* A detached thread of the driver: no signals but faults. */
CUresult sg_start_thread(void *(*body)(void *), void *argument, const char *name);
/* Calls the program's function; on the thread for that. */
void sg_run_host_function(const sg_op_t *op);

CUresult sg_queue_init(void);
/* In the current context; the second form in any. */
sg_stream_t *sg_stream_create_locked(bool blocking, int priority, unsigned flags);
sg_stream_t *sg_stream_create_in_locked(CUcontext ctx, bool blocking, int priority, unsigned flags);
/* Those of a context lose their handles; with the events. */
void sg_streams_drop_locked(CUcontext ctx);
void sg_events_drop_locked(CUcontext ctx);
void sg_stream_unref_locked(sg_stream_t *stream);
/* The stream behind a handle: legacy (NULL, CU_STREAM_LEGACY) or per-thread of the current context, or a created one
 * of any context. NULL: not a stream. */
sg_stream_t *sg_stream_resolve_locked(CUstream handle);

/* A fresh op with room for `payload` bytes (sg_op_payload). NULL: out of host memory. */
sg_op_t *sg_op_new(sg_op_kind_t kind, size_t payload);
static inline void *sg_op_payload(sg_op_t *op)
{
    return op->heap_payload ? op->heap_payload : op->payload;
}
void sg_op_drop(sg_op_t *op);
static inline bool sg_op_is_work(const sg_op_t *op)
{
    return op->kind == SG_OP_KERNEL || op->kind == SG_OP_COPY || op->kind == SG_OP_SET;
}
/* A kernel that waits for other launches (softgpu/kernel_abi.h). */
static inline bool sg_op_waits(const sg_op_t *op)
{
    return op->kind == SG_OP_KERNEL && op->kernel.function->kernel->communication_ns;
}
/* In how many units the kernel is run, once `function` and `launch` are there. */
static inline uint64_t sg_op_kernel_units(const sg_op_t *op)
{
    const softgpu_launch_t *l = &op->kernel.launch;
    return l->cooperative || sg_op_waits(op) ? 1 : (uint64_t)l->grid[0] * l->grid[1] * l->grid[2];
}
/* The scheduler has run the op, the head of its stream: takes it off, moves the stream on and those that waited
 * for it. */
void sg_op_finish_locked(sg_op_t *op);

/* Appends the op to the stream, after what the default stream's rules put before it. Returns its number. */
uint64_t sg_submit_locked(sg_stream_t *stream, sg_op_t *op);
/* What has no op, such as a free, has its place in the stream too: after what the default stream's rules put before
 * it. */
void sg_submit_legacy_barrier_locked(sg_stream_t *stream);
/* Resolves, submits and, if `wait`, blocks until it is done. Takes the op over, also on failure. */
CUresult sg_submit(CUstream stream, sg_op_t *op, bool wait);
/* Makes `stream` wait until `on` has reached `number`. */
CUresult sg_submit_wait_locked(sg_stream_t *stream, sg_stream_t *on, uint64_t number);

/* Makes the context's stream `all` wait for what its other streams hold; makes all of its streams, those to come
 * too, wait for another stream. */
CUresult sg_submit_wait_for_context_locked(CUcontext ctx);
CUresult sg_submit_gate_locked(CUcontext ctx, sg_stream_t *on, uint64_t number);

/* Block the calling thread. Return the context's sticky error, if any. */
CUresult sg_wait_number(sg_stream_t *stream, uint64_t number);
CUresult sg_wait_all(void);              /* the current context's streams */
CUresult sg_wait_context(CUcontext ctx); /* NULL: every context's */
/* The same for the streams that the context's legacy default stream waits for, and itself. */
CUresult sg_wait_blocking(CUcontext ctx);
bool sg_blocking_idle_locked(CUcontext ctx);
/* True on a thread that runs host functions: CUDA calls are not allowed there. */
bool sg_on_caller_thread(void);
void sg_mark_caller_thread(void); /* by the scheduler, of the calling thread */

/* memop.c: batches of operations on values in memory. INVALID_VALUE unless all are valid; not under the lock. */
enum { SG_MAX_MEMOPS = 256 };
CUresult sg_memop_check(unsigned count, const CUstreamBatchMemOpParams *params, unsigned flags);
/* Their ops, linked by `next`; if memory runs out, those made so far. sg_poll_start comes before they are submitted. */
CUresult sg_memop_ops(unsigned count, const CUstreamBatchMemOpParams *params, sg_op_t **out);

/* stream.c: events. */
sg_event_t *sg_event_find_locked(CUevent handle);
CUresult sg_event_record_locked(sg_event_t *e, sg_stream_t *s);
CUresult sg_event_wait_locked(sg_event_t *e, sg_stream_t *s); /* the stream, for its last record */
void sg_event_forget_locked(sg_event_t *e);                   /* as if it had never been recorded */
/* The flags of an event; false if it is none. */
bool sg_event_flags(CUevent event, unsigned *flags);
CUresult cuEventRecord(CUevent event, CUstream stream);

/* order.c: rules about the order of ops in different streams. All under sg.lock. */
/* Before an op is appended to the stream. Breaking a rule fails the stream's context. */
void sg_order_check_locked(sg_stream_t *s, sg_op_t *op);
/* The op leaves the queues. */
void sg_order_forget_locked(sg_op_t *op);
/* The stream's future work waits until `on` has reached the number. */
void sg_order_wait_locked(sg_stream_t *s, const sg_stream_t *on, uint64_t number);

void sg_order_mapped_locked(sg_handle_t *handle);
void sg_order_unmapped_locked(sg_handle_t *handle);
void sg_order_unmapping_locked(CUdeviceptr base, size_t bytes);
void sg_order_allocated_locked(CUdeviceptr base, size_t bytes, const sg_stream_t *s);
void sg_order_freed_locked(CUdeviceptr base, size_t bytes, const sg_stream_t *s);

/* launch.c: how a launch is asked for. */
typedef struct sg_wish {
    CUfunction function; /* or a CUkernel cast */
    unsigned grid[3], block[3], shared;
    bool cooperative;
    CUstream stream;
    void **params, **extra;
} sg_wish_t;
/* Checks it and makes its op: the launch's errors, without those of the stream. Not under the lock. */
CUresult sg_kernel_op(const sg_wish_t *wish, sg_op_t **out);

/* graph/capture.c: what calls have to ask because streams may be capturing. All return success, or false, at once while
 * none is.
 *
 * An op that comes for a stream. True: the stream captures it, or may not have it because of another one that
 * captures; the op is taken over, `result` is the call's. */
bool sg_capture_take_locked(sg_stream_t *stream, sg_op_t *op, CUresult *result);
/* The same for an event that is recorded, and waited for. */
bool sg_capture_record_locked(sg_stream_t *s, sg_event_t *e, CUevent handle, unsigned flags,
                              CUresult *result);
bool sg_capture_wait_locked(sg_stream_t *s, sg_event_t *e, CUevent handle, unsigned flags, CUresult *result);
/* And for operations on values in memory, not under the lock, and allocations and frees in stream order. */
bool sg_capture_memops(CUstream stream, unsigned count, const CUstreamBatchMemOpParams *params,
                       CUresult *result);
bool sg_capture_alloc_locked(sg_stream_t *s, unsigned device, size_t bytes, CUdeviceptr *out,
                             CUresult *result);
bool sg_capture_free_locked(sg_stream_t *s, CUdeviceptr address, CUresult *result);
/* Before the host waits for a stream, asks about it, or copies in it and waits. */
CUresult sg_capture_sync_locked(sg_stream_t *s);
CUresult sg_capture_sync_call(CUstream stream);
/* Before the host waits for an event or asks about it. */
CUresult sg_capture_event_locked(sg_event_t *e);
/* Before a call that concerns all of a context: UNSUPPORTED if a stream of it captures, or the event was captured;
 * captures in conflict end badly. */
CUresult sg_capture_context_locked(CUcontext ctx, const sg_event_t *e);
CUresult sg_capture_context_sync(void); /* the current one's */
bool sg_stream_captures(CUstream stream);
/* For work that graphs have no nodes for: UNSUPPORTED if the stream captures. */
CUresult sg_capture_refuse(CUstream stream);
/* A stream's handle goes: UNSUPPORTED for the one in which a capture began. */
CUresult sg_capture_destroy_stream_locked(sg_stream_t *s);
void sg_capture_forget_event(sg_event_t *e);
/* The context goes: its captures are over. */
void sg_capture_drop_locked(CUcontext ctx);

/* graph/memory.c: frees memory of a graph's allocation node behind what `stream` holds. INVALID_VALUE: it is not. */
CUresult sg_block_free_locked(CUdeviceptr address, sg_stream_t *stream);
bool sg_block_is_live_locked(CUdeviceptr address);
CUresult sg_block_free(CUdeviceptr address); /* once all work is done */
bool sg_block_extent_locked(void *block, CUdeviceptr address, sg_extent_t *out);
sg_stream_t *sg_stream_by_id_locked(uint64_t id); /* NULL: it is gone, and all that it held is done */
void sg_each_queued_locked(void (*visit)(sg_op_t *op, void *argument), void *argument);
/* Some stream may have moved for a reason that the queues do not see. */
void sg_settle_locked(void);

/* poll.c: waits for values in memory. */
bool sg_poll_over_locked(const sg_poll_t *p, CUcontext ctx);
void sg_poll_count_locked(int change); /* how many such waits are in the queues */
unsigned sg_poll_waiting(void);
void sg_poll_start(void); /* before the first of them */

/* ipc_event.c: events that processes share. */
sg_shared_event_t *sg_shared_event_new(int *fd); /* NULL: out of memory */
void sg_shared_event_close(int fd);
CUresult sg_shared_event_record_locked(sg_shared_event_t *e, sg_stream_t *s);
CUresult sg_shared_event_wait_locked(sg_shared_event_t *e, sg_stream_t *s);
bool sg_shared_event_over(const sg_shared_event_t *e);
void sg_shared_event_synchronize(const sg_shared_event_t *e);
/* stream.c: the events around them. */
int sg_event_shared_fd_locked(CUevent event); /* -1: not such an event */
CUresult sg_event_open_shared(CUevent *out, sg_shared_event_t *shared, int fd);

/* copy.c: what a worker does for copy and set ops. */
void sg_copy_run(const sg_op_t *op, uint64_t first, uint64_t count);
void sg_copy_split(sg_op_t *op);
size_t sg_copy_bytes(const sg_op_t *op); /* how much a copy or set op writes */
/* A set op of the heap's poison, or NULL. */
sg_op_t *sg_poison_op(CUdeviceptr address, size_t bytes, unsigned char pattern);

static inline void *sg_host(CUdeviceptr address)
{
    return (void *)(uintptr_t)address;
}

/* Calls that exist twice: plainly, with the legacy default stream, and as _ptds/_ptsz, where the default
 * stream is the calling thread's own. In SYNC_CALL `stream` is the default stream; in ASYNC_CALL it is a
 * parameter. */
#define SYNC_CALL(name, parameters, call)                                                                    \
    SG_EXPORT CUresult name parameters;                                                                      \
    SG_EXPORT CUresult name##_ptds parameters;                                                               \
    CUresult name parameters                                                                                 \
    {                                                                                                        \
        const CUstream stream = CU_STREAM_LEGACY;                                                            \
        return call;                                                                                         \
    }                                                                                                        \
    CUresult name##_ptds parameters                                                                          \
    {                                                                                                        \
        const CUstream stream = CU_STREAM_PER_THREAD;                                                        \
        return call;                                                                                         \
    }
#define ASYNC_CALL(name, parameters, call)                                                                   \
    SG_EXPORT CUresult name parameters;                                                                      \
    SG_EXPORT CUresult name##_ptsz parameters;                                                               \
    CUresult name parameters                                                                                 \
    {                                                                                                        \
        return call;                                                                                         \
    }                                                                                                        \
    CUresult name##_ptsz parameters                                                                          \
    {                                                                                                        \
        if (!stream)                                                                                         \
            stream = CU_STREAM_PER_THREAD;                                                                   \
        return call;                                                                                         \
    }

#endif
