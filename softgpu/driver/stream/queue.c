/* queue.c: what a stream is: queued ops, the default stream's rules, waits, and which op's turn has come. Who
 * runs those ops is the scheduler's business (streams.h).
 */
#include "softgpu/driver/rules.h"
#include "softgpu/driver/simt/shadow.h"
#include "softgpu/driver/stream/streams.h"
#include "softgpu/driver/table.h"

#include <stdlib.h>
#include <string.h>

static struct {
    sg_stream_t *streams; /* all */
    sg_table_t handles;   /* all */
    unsigned stalled;     /* streams whose head is a wait that is not over */
    uint64_t next_id;
} queues;

static _Thread_local sg_stream_t *own_streams; /* the per-thread default streams, one a context */
static pthread_key_t own_stream_key;
static _Thread_local bool on_caller;
const sg_scheduler_t *sg_scheduler;

bool sg_on_caller_thread(void)
{
    return on_caller;
}

void sg_mark_caller_thread(void)
{
    on_caller = true;
}

/* ---- ops ---- */

sg_op_t *sg_op_new(sg_op_kind_t kind, size_t payload)
{
    sg_op_t *op = aligned_alloc(_Alignof(sg_op_t), sizeof *op);
    if (!op)
        return NULL;
    memset(op, 0, offsetof(sg_op_t, payload));
    op->kind = kind;
    op->payload_bytes = payload;
    op->watch = sg_op_is_work(op) ? sg_watch_new() : NULL;
    if (payload > sizeof op->payload &&
        !(op->heap_payload =
              aligned_alloc(SG_PAYLOAD_ALIGN, SG_ROUND_UP(payload, (size_t)SG_PAYLOAD_ALIGN)))) {
        sg_watch_free(op->watch);
        free(op);
        return NULL;
    }
    return op;
}

void sg_op_drop(sg_op_t *op)
{
    sg_watch_free(op->watch);
    free(op->heap_payload);
    free(op);
}

void sg_run_host_function(const sg_op_t *op)
{
    if (op->host.callback)
        op->host.callback(op->host.api_stream, (CUresult)atomic_load(&op->stream->ctx->sticky),
                          op->host.data);
    else
        op->host.function(op->host.data);
}

/* ---- streams ---- */

sg_stream_t *sg_stream_create_in_locked(CUcontext ctx, bool blocking, int priority, unsigned flags)
{
    sg_stream_t *s = calloc(1, sizeof *s);
    if (!s || !sg_table_insert(&queues.handles, s)) {
        free(s);
        return NULL;
    }
    s->ctx = ctx;
    s->refs = 1;
    s->blocking = blocking;
    s->priority = priority;
    s->flags = flags;
    s->id = ++queues.next_id;
    s->next = queues.streams;
    s->link = &queues.streams;
    if (s->next)
        s->next->link = &s->next;
    queues.streams = s;
    if (ctx->gate)
        sg_submit_wait_locked(s, ctx->all, ctx->gate);
    return s;
}

sg_stream_t *sg_stream_create_locked(bool blocking, int priority, unsigned flags)
{
    return sg_stream_create_in_locked(sg_current_context(), blocking, priority, flags);
}

void sg_stream_unref_locked(sg_stream_t *stream)
{
    if (--stream->refs)
        return;
    *stream->link = stream->next;
    if (stream->next)
        stream->next->link = stream->link;
    sg_table_remove(&queues.handles, stream);
    free(stream->seen);
    free(stream);
}

sg_stream_t *sg_stream_by_id_locked(uint64_t id)
{
    sg_stream_t *s = queues.streams;
    while (s && s->id != id)
        s = s->next;
    return s;
}

void sg_each_queued_locked(void (*visit)(sg_op_t *op, void *argument), void *argument)
{
    for (sg_stream_t *s = queues.streams; s; s = s->next)
        for (sg_op_t *op = s->head; op; op = op->next)
            visit(op, argument);
}

/* When a thread ends. */
static void drop_own_streams(void *first)
{
    if (atomic_load(&sg.forked))
        return;
    sg_lock();
    for (sg_stream_t *s = first, *next; s; s = next) {
        next = s->next_own;
        sg_stream_unref_locked(s);
    }
    own_streams = NULL;
    sg_unlock();
}

static sg_stream_t *own_stream_locked(CUcontext ctx)
{
    for (sg_stream_t *s = own_streams; s; s = s->next_own)
        if (s->ctx == ctx && !s->destroyed)
            return s;
    sg_stream_t *s = ctx ? sg_stream_create_in_locked(ctx, true, 0, 0) : NULL;
    if (!s)
        return NULL;
    s->own = true;
    s->next_own = own_streams;
    own_streams = s;
    pthread_setspecific(own_stream_key, s);
    return s;
}

/* A thread's default streams stay until it ends, without being found any more. */
void sg_streams_drop_locked(CUcontext ctx)
{
    for (sg_stream_t *s = queues.streams, *next; s; s = next) {
        next = s->next;
        if (s->ctx != ctx || s->destroyed || s == ctx->legacy || s == ctx->all)
            continue;
        s->destroyed = true;
        if (!s->own)
            sg_stream_unref_locked(s);
    }
}

sg_stream_t *sg_stream_resolve_locked(CUstream handle)
{
    CUcontext ctx = sg_current_context();
    if (!handle || handle == CU_STREAM_LEGACY)
        return ctx ? ctx->legacy : NULL;
    if (handle == CU_STREAM_PER_THREAD)
        return own_stream_locked(ctx);
    sg_stream_t *s = (sg_stream_t *)handle;
    if (sg_table_contains(&queues.handles, s) && !s->destroyed)
        return s;
    sg_broken(SG_RULE_HANDLE, CUDA_ERROR_INVALID_HANDLE, "%p is not a stream, or destroyed", (void *)handle);
    return NULL;
}

/* ---- moving streams on; all under the lock ---- */

static void release_op_locked(sg_op_t *op)
{
    if (op->kind == SG_OP_WAIT && op->wait.stream)
        sg_stream_unref_locked(op->wait.stream);
    else if (op->kind == SG_OP_WAIT)
        sg_poll_count_locked(-1);
    else if (op->kind == SG_OP_RECORD && op->record.record && !--op->record.record->refs)
        free(op->record.record);
    if (op->touches)
        sg_order_forget_locked(op);
    sg_op_drop(op);
}

/* Takes the finished head off its stream. */
static void retire_locked(sg_stream_t *s)
{
    sg_op_t *op = s->head;
    s->head = op->next;
    if (!s->head)
        s->tail = NULL;
    s->running = false;
    atomic_store(&s->completed, op->number);
    release_op_locked(op);
}

static bool wait_is_over(const sg_op_t *op)
{
    return op->wait.stream ? atomic_load(&op->wait.stream->completed) >= op->wait.number
                           : sg_poll_over_locked(&op->wait.poll, op->stream->ctx);
}

/* Starts what can start at the head of the stream; passes over what needs no time. The stream may be gone
 * afterwards unless the caller holds a reference. */
static void advance_locked(sg_stream_t *s)
{
    s->refs++;
    while (s->head && !s->running) {
        sg_op_t *op = s->head;
        bool failed = atomic_load(&s->ctx->sticky) != CUDA_SUCCESS;
        if (op->kind == SG_OP_WAIT && !wait_is_over(op)) {
            s->stalled = true;
            queues.stalled++;
            break;
        }
        if (op->kind == SG_OP_RECORD || op->kind == SG_OP_WAIT)
            sg_scheduler->passed_locked(op);
        if (sg_op_is_work(op) && op->units && !failed) {
            s->running = true;
            sg_scheduler->ready_locked(op);
        } else if (op->kind == SG_OP_HOST &&
                   (!failed || op->host.callback)) { /* callbacks are told of errors */
            s->running = true;
            sg_scheduler->ready_locked(op);
        } else {
            retire_locked(s);
            sg_stream_unref_locked(s); /* the op's reference */
        }
    }
    sg_stream_unref_locked(s);
}

/* Some stream has moved: those that waited for it may go on, which may free others. */
void sg_settle_locked(void)
{
    for (bool moved = true; moved && queues.stalled;) {
        moved = false;
        for (sg_stream_t *s = queues.streams; s; s = s->next) {
            if (!s->stalled || !wait_is_over(s->head))
                continue;
            s->stalled = false;
            queues.stalled--;
            advance_locked(s);
            moved = true;
            break; /* the list may have changed */
        }
    }
    sg_scheduler->moved_locked();
}

void sg_op_finish_locked(sg_op_t *op)
{
    sg_stream_t *s = op->stream;
    retire_locked(s);
    advance_locked(s);
    sg_stream_unref_locked(s);
    sg_settle_locked();
}

/* ---- submitting ---- */

static void append_locked(sg_stream_t *s, sg_op_t *op)
{
    op->stream = s;
    op->number = ++s->submitted;
    if (op->kind == SG_OP_WAIT && !op->wait.stream)
        sg_poll_count_locked(1);
    s->refs++;
    sg_scheduler->queued_locked(op);
    bool idle = !s->head;
    *(s->head ? &s->tail->next : &s->head) = op;
    s->tail = op;
    if (idle) {
        advance_locked(s);
        sg_settle_locked();
    }
}

CUresult sg_submit_wait_locked(sg_stream_t *stream, sg_stream_t *on, uint64_t number)
{
    if (stream == on || sg_scheduler->past_locked(on, number))
        return CUDA_SUCCESS;
    sg_order_wait_locked(stream, on, number);
    sg_op_t *op = sg_op_new(SG_OP_WAIT, 0);
    if (!op)
        return CUDA_ERROR_OUT_OF_MEMORY;
    op->wait.stream = on;
    op->wait.number = number;
    on->refs++;
    append_locked(stream, op);
    return CUDA_SUCCESS;
}

/* CUDA's rules for the legacy default stream: it waits for all that blocking streams hold, and they for it.
 */
static void apply_legacy_rules_locked(sg_stream_t *s)
{
    sg_stream_t *legacy = s->ctx->legacy;
    if (s == legacy) {
        for (sg_stream_t *other = queues.streams; other; other = other->next)
            if (other->blocking && other != legacy && other->ctx == s->ctx &&
                sg_submit_wait_locked(legacy, other, other->submitted))
                sg_log(1, "out of host memory");
    } else if (s->blocking && legacy->submitted > s->legacy_seen) {
        if (sg_submit_wait_locked(s, legacy, legacy->submitted))
            sg_log(1, "out of host memory");
        s->legacy_seen = legacy->submitted;
    }
}

uint64_t sg_submit_locked(sg_stream_t *stream, sg_op_t *op)
{
    apply_legacy_rules_locked(stream);
    sg_order_check_locked(stream, op);
    append_locked(stream, op);
    return stream->submitted;
}

static bool blocking_streams_hold_work(CUcontext ctx)
{
    for (const sg_stream_t *s = queues.streams; s; s = s->next)
        if (s->ctx == ctx && s->blocking && s->head)
            return true;
    return false;
}

void sg_submit_legacy_barrier_locked(sg_stream_t *stream)
{
    CUcontext ctx = stream->ctx;
    bool waits =
        stream == ctx->legacy ? blocking_streams_hold_work(ctx) : stream->blocking && ctx->legacy->head;
    sg_op_t *op = waits ? sg_op_new(SG_OP_RECORD, 0) : NULL;
    if (op)
        sg_submit_locked(stream, op);
}

CUresult sg_submit_wait_for_context_locked(CUcontext ctx)
{
    for (sg_stream_t *s = queues.streams; s; s = s->next)
        if (s->ctx == ctx && s != ctx->all)
            SG_TRY(sg_submit_wait_locked(ctx->all, s, s->submitted));
    return CUDA_SUCCESS;
}

CUresult sg_submit_gate_locked(CUcontext ctx, sg_stream_t *on, uint64_t number)
{
    SG_TRY(sg_submit_wait_locked(ctx->all, on, number));
    ctx->gate = ctx->all->submitted;
    for (sg_stream_t *s = queues.streams; s; s = s->next)
        if (s->ctx == ctx && s != ctx->all)
            SG_TRY(sg_submit_wait_locked(s, ctx->all, ctx->gate));
    return CUDA_SUCCESS;
}

CUresult sg_submit(CUstream handle, sg_op_t *op, bool wait)
{
    if (!op)
        return CUDA_ERROR_OUT_OF_MEMORY;
    if (sg_op_is_work(op))
        sg_fault_keep_handlers();
    sg_lock();
    sg_stream_t *stream = sg_stream_resolve_locked(handle);
    CUresult refused = !stream ? CUDA_ERROR_INVALID_HANDLE : (CUresult)atomic_load(&stream->ctx->sticky);
    CUcontext owner = op->kind == SG_OP_KERNEL ? sg_function_context(op->kernel.function) : NULL;
    if (!refused && owner && owner != stream->ctx)
        refused = sg_broken(SG_RULE_CONTEXT, CUDA_ERROR_INVALID_HANDLE,
                            "a kernel is launched in a stream of another context");
    if (refused) {
        sg_unlock();
        sg_op_drop(op);
        return refused;
    }
    CUresult captured;
    if (sg_capture_take_locked(stream, op, &captured)) {
        sg_unlock();
        return captured;
    }
    stream->refs++;
    uint64_t number = sg_submit_locked(stream, op);
    CUresult result = CUDA_SUCCESS;
    if (wait) {
        sg_unlock();
        result = sg_wait_number(stream, number);
        sg_lock();
    }
    sg_stream_unref_locked(stream);
    sg_unlock();
    return result;
}

/* ---- waiting ---- */

CUresult sg_wait_number(sg_stream_t *stream, uint64_t number)
{
    if (!sg_scheduler->spin(stream, number)) {
        sg_lock();
        sg_scheduler->wait_locked(stream, number);
        sg_unlock();
    }
    return (CUresult)atomic_load(&stream->ctx->sticky);
}

bool sg_blocking_idle_locked(CUcontext ctx)
{
    bool idle = true;
    for (sg_stream_t *s = queues.streams, *next; s && idle; s = next) {
        s->refs++; /* keeps it, and its place in the list */
        if (s->blocking && s->ctx == ctx)
            idle = sg_scheduler->reached_locked(s, s->submitted);
        next = s->next;
        sg_stream_unref_locked(s);
    }
    return idle;
}

/* Waits for what is queued now, stream after stream; what other threads add meanwhile is theirs. */
static CUresult wait_streams(CUcontext ctx, bool blocking_only)
{
    sg_lock();
    for (sg_stream_t *s = queues.streams, *next; s; s = next) {
        uint64_t number = s->submitted;
        s->refs++; /* keeps it, and its place in the list */
        if ((s->blocking || !blocking_only) && (!ctx || s->ctx == ctx))
            sg_scheduler->wait_locked(s, number);
        next = s->next;
        sg_stream_unref_locked(s);
    }
    sg_unlock();
    if (!ctx)
        ctx = sg_current_context();
    return ctx ? (CUresult)atomic_load(&ctx->sticky) : CUDA_SUCCESS;
}

CUresult sg_wait_all(void)
{
    return wait_streams(sg_current_context(), false);
}

CUresult sg_wait_context(CUcontext ctx)
{
    return wait_streams(ctx, false);
}

CUresult sg_wait_blocking(CUcontext ctx)
{
    return wait_streams(ctx, true);
}

CUresult sg_queue_init(void)
{
    return pthread_key_create(&own_stream_key, drop_own_streams) ? CUDA_ERROR_OPERATING_SYSTEM : CUDA_SUCCESS;
}
