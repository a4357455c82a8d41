/* stream.c: the calls on streams, events and contexts' synchronisation. The queues themselves: streams.h. */
#include "softgpu/driver/rules.h"
#include "softgpu/driver/stream/streams.h"
#include "softgpu/driver/table.h"

#include <stdlib.h>

/* ---- streams ---- */

static CUresult stream_create(CUstream *out, unsigned flags, int priority)
{
    SG_TRY(sg_enter_context());
    if (!out || flags & ~(unsigned)CU_STREAM_NON_BLOCKING)
        return CUDA_ERROR_INVALID_VALUE;
    /* As on hardware, a priority out of range is clamped. */
    priority = priority > 0 ? 0 : priority < -5 ? -5 : priority;
    sg_lock();
    sg_stream_t *s = sg_stream_create_locked(!(flags & CU_STREAM_NON_BLOCKING), priority, flags);
    sg_unlock();
    *out = (CUstream)s;
    return s ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

SG_EXPORT CUresult cuStreamCreate(CUstream *out, unsigned flags)
{
    return stream_create(out, flags, 0);
}

SG_EXPORT CUresult cuStreamCreateWithPriority(CUstream *out, unsigned flags, int priority)
{
    return stream_create(out, flags, priority);
}

/* Returns at once; what is queued still runs. */
SG_EXPORT CUresult cuStreamDestroy_v2(CUstream handle)
{
    SG_TRY(sg_enter_context());
    if (!handle || handle == CU_STREAM_LEGACY || handle == CU_STREAM_PER_THREAD)
        return CUDA_ERROR_INVALID_HANDLE;
    sg_lock();
    sg_stream_t *s = sg_stream_resolve_locked(handle);
    CUresult result = s ? sg_capture_destroy_stream_locked(s) : CUDA_ERROR_INVALID_HANDLE;
    if (!result) {
        s->destroyed = true;
        sg_stream_unref_locked(s);
    }
    sg_unlock();
    return result;
}

/* Resolves a handle and takes a reference, which drop_stream gives back. */
static sg_stream_t *take_stream(CUstream handle, uint64_t *submitted)
{
    sg_lock();
    sg_stream_t *s = sg_stream_resolve_locked(handle);
    if (s) {
        s->refs++;
        if (submitted)
            *submitted = s->submitted;
    }
    sg_unlock();
    return s;
}

static void drop_stream(sg_stream_t *s)
{
    sg_lock();
    sg_stream_unref_locked(s);
    sg_unlock();
}

static CUresult stream_synchronize(CUstream handle)
{
    SG_TRY(sg_enter_context());
    SG_TRY(sg_capture_sync_call(handle));
    uint64_t number;
    sg_stream_t *s = take_stream(handle, &number);
    if (!s)
        return CUDA_ERROR_INVALID_HANDLE;
    /* The legacy stream stands for all blocking ones. */
    CUresult result = s == s->ctx->legacy ? sg_wait_blocking(s->ctx) : sg_wait_number(s, number);
    drop_stream(s);
    sg_pools_trim_to_threshold();
    return result;
}

static CUresult stream_query(CUstream handle)
{
    SG_TRY(sg_enter_context());
    sg_lock();
    sg_stream_t *s = sg_stream_resolve_locked(handle);
    CUresult captures = s ? sg_capture_sync_locked(s) : CUDA_ERROR_INVALID_HANDLE;
    bool idle = false;
    if (!captures) {
        s->refs++;
        idle = s == s->ctx->legacy ? sg_blocking_idle_locked(s->ctx)
                                   : sg_scheduler->reached_locked(s, s->submitted);
        sg_stream_unref_locked(s);
    }
    sg_unlock();
    return captures ? captures : idle ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

ASYNC_CALL(cuStreamSynchronize, (CUstream stream), stream_synchronize(stream))
ASYNC_CALL(cuStreamQuery, (CUstream stream), stream_query(stream))

static CUresult stream_info(CUstream handle, int *priority, unsigned *flags, unsigned long long *id)
{
    SG_TRY(sg_enter_context());
    sg_stream_t *s = take_stream(handle, NULL);
    if (!s)
        return CUDA_ERROR_INVALID_HANDLE;
    if (priority)
        *priority = s->priority;
    if (flags)
        *flags = s->flags;
    if (id)
        *id = s->id;
    drop_stream(s);
    return priority || flags || id ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

ASYNC_CALL(cuStreamGetPriority, (CUstream stream, int *priority), stream_info(stream, priority, NULL, NULL))
ASYNC_CALL(cuStreamGetFlags, (CUstream stream, unsigned *flags), stream_info(stream, NULL, flags, NULL))
ASYNC_CALL(cuStreamGetId, (CUstream stream, unsigned long long *id), stream_info(stream, NULL, NULL, id))

static CUresult stream_context(CUstream handle, CUcontext *ctx)
{
    SG_TRY(sg_enter_context());
    sg_stream_t *s = take_stream(handle, NULL);
    if (!s)
        return CUDA_ERROR_INVALID_HANDLE;
    if (ctx)
        *ctx = s->ctx;
    drop_stream(s);
    return ctx ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

ASYNC_CALL(cuStreamGetCtx, (CUstream stream, CUcontext *ctx), stream_context(stream, ctx))

static CUresult stream_device(CUstream handle, CUdevice *device)
{
    CUcontext ctx;
    SG_TRY(stream_context(handle, &ctx));
    if (!device)
        return CUDA_ERROR_INVALID_VALUE;
    *device = (CUdevice)ctx->device;
    return CUDA_SUCCESS;
}

ASYNC_CALL(cuStreamGetDevice, (CUstream stream, CUdevice *device), stream_device(stream, device))

/* ---- host functions ---- */

static CUresult host_function(CUstream stream, CUhostFn function, CUstreamCallback callback, void *data)
{
    SG_TRY(sg_enter_context());
    if (!function && !callback)
        return CUDA_ERROR_INVALID_VALUE;
    sg_op_t *op = sg_op_new(SG_OP_HOST, 0);
    if (op) {
        op->host.function = function;
        op->host.callback = callback;
        op->host.api_stream = stream;
        op->host.data = data;
    }
    return sg_submit(stream, op, false);
}

ASYNC_CALL(cuLaunchHostFunc, (CUstream stream, CUhostFn function, void *data),
           host_function(stream, function, NULL, data))
ASYNC_CALL(cuStreamAddCallback, (CUstream stream, CUstreamCallback callback, void *data, unsigned flags),
           flags ? CUDA_ERROR_INVALID_VALUE : host_function(stream, NULL, callback, data))

/* ---- events ---- */

static sg_table_t events; /* all; guarded by sg.lock */

sg_event_t *sg_event_find_locked(CUevent handle)
{
    if (sg_table_contains(&events, handle))
        return (sg_event_t *)handle;
    sg_broken(SG_RULE_HANDLE, CUDA_ERROR_INVALID_HANDLE, "%p is not an event, or destroyed", (void *)handle);
    return NULL;
}

void sg_event_forget_locked(sg_event_t *e)
{
    if (e->stream)
        sg_stream_unref_locked(e->stream);
    if (e->record && !--e->record->refs)
        free(e->record);
    e->stream = NULL;
    e->record = NULL;
    sg_capture_forget_event(e);
}

/* Of an event that is in no list any more. */
static void event_free(sg_event_t *e)
{
    if (e && e->shared)
        sg_shared_event_close(e->shared_fd);
    free(e);
}

static CUresult event_new(CUevent *out, unsigned flags, sg_shared_event_t *shared, int fd)
{
    sg_event_t *e = calloc(1, sizeof *e);
    if (!e)
        return CUDA_ERROR_OUT_OF_MEMORY;
    e->ctx = sg_current_context();
    e->flags = flags;
    e->shared = shared;
    e->shared_fd = fd;
    if (shared)
        sg_poll_start();
    sg_lock();
    bool kept = sg_table_insert(&events, e);
    sg_unlock();
    if (!kept) {
        free(e);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    *out = (CUevent)e;
    return CUDA_SUCCESS;
}

bool sg_event_flags(CUevent event, unsigned *flags)
{
    sg_lock();
    const sg_event_t *e = sg_event_find_locked(event);
    if (e)
        *flags = e->flags;
    sg_unlock();
    return e;
}

SG_EXPORT CUresult cuEventCreate(CUevent *out, unsigned flags)
{
    SG_TRY(sg_enter_context());
    if (!out || flags & ~(unsigned)(CU_EVENT_BLOCKING_SYNC | CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS))
        return CUDA_ERROR_INVALID_VALUE;
    if (!(flags & CU_EVENT_INTERPROCESS))
        return event_new(out, flags, NULL, -1);
    if (!(flags & CU_EVENT_DISABLE_TIMING))
        return CUDA_ERROR_INVALID_VALUE;
    int fd;
    sg_shared_event_t *shared = sg_shared_event_new(&fd);
    return shared ? event_new(out, flags, shared, fd) : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult sg_event_open_shared(CUevent *out, sg_shared_event_t *shared, int fd)
{
    return event_new(out, CU_EVENT_INTERPROCESS | CU_EVENT_DISABLE_TIMING, shared, fd);
}

int sg_event_shared_fd_locked(CUevent event)
{
    const sg_event_t *e = sg_event_find_locked(event);
    return e && e->shared ? e->shared_fd : -1;
}

SG_EXPORT CUresult cuEventDestroy_v2(CUevent handle)
{
    SG_TRY(sg_enter_context());
    sg_lock();
    sg_event_t *e = sg_event_find_locked(handle);
    if (e) {
        sg_table_remove(&events, e);
        sg_event_forget_locked(e);
    }
    sg_unlock();
    event_free(e);
    return e ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

void sg_events_drop_locked(CUcontext ctx)
{
    size_t at = 0;
    for (sg_event_t *e; (e = sg_table_next(&events, &at));) {
        if (e->ctx != ctx)
            continue;
        sg_table_remove(&events, e);
        at--; /* another one may have moved there */
        sg_event_forget_locked(e);
        event_free(e);
    }
}

CUresult sg_event_record_locked(sg_event_t *e, sg_stream_t *s)
{
    if (e->shared) {
        SG_TRY(sg_shared_event_record_locked(e->shared, s));
        sg_event_forget_locked(e);
        e->stream = s;
        e->number = s->submitted;
        s->refs++;
        return CUDA_SUCCESS;
    }
    sg_op_t *op = sg_op_new(SG_OP_RECORD, 0);
    sg_record_t *record = e->flags & CU_EVENT_DISABLE_TIMING ? NULL : calloc(1, sizeof *record);
    if (!op || (!record && !(e->flags & CU_EVENT_DISABLE_TIMING))) {
        free(op);
        free(record);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    sg_event_forget_locked(e);
    if (record)
        record->refs = 2; /* the event's and the op's */
    op->record.record = record;
    e->record = record;
    e->stream = s;
    s->refs++;
    e->number = sg_submit_locked(s, op);
    return CUDA_SUCCESS;
}

static CUresult event_record(CUevent handle, CUstream stream, unsigned flags)
{
    SG_TRY(sg_enter_context());
    if (flags & ~(unsigned)CU_EVENT_RECORD_EXTERNAL)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult result = CUDA_ERROR_INVALID_HANDLE;
    sg_lock();
    sg_event_t *e = sg_event_find_locked(handle);
    sg_stream_t *s = sg_stream_resolve_locked(stream);
    if (e && s && e->ctx != s->ctx)
        sg_broken(SG_RULE_CONTEXT, result, "an event is recorded in a stream of another context");
    else if (e && s && !sg_capture_record_locked(s, e, handle, flags, &result))
        result = sg_event_record_locked(e, s);
    sg_unlock();
    return result;
}

ASYNC_CALL(cuEventRecord, (CUevent event, CUstream stream), event_record(event, stream, 0))
ASYNC_CALL(cuEventRecordWithFlags, (CUevent event, CUstream stream, unsigned flags),
           event_record(event, stream, flags))

CUresult sg_event_wait_locked(sg_event_t *e, sg_stream_t *s)
{
    return e->shared   ? sg_shared_event_wait_locked(e->shared, s)
           : e->stream ? sg_submit_wait_locked(s, e->stream, e->number)
                       : CUDA_SUCCESS;
}

static CUresult stream_wait_event(CUstream handle, CUevent event, unsigned flags)
{
    SG_TRY(sg_enter_context());
    if (flags & ~(unsigned)CU_EVENT_WAIT_EXTERNAL)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult result = CUDA_ERROR_INVALID_HANDLE;
    sg_lock();
    sg_event_t *e = sg_event_find_locked(event);
    sg_stream_t *s = sg_stream_resolve_locked(handle);
    if (e && s && !sg_capture_wait_locked(s, e, event, flags, &result))
        result = sg_event_wait_locked(e, s);
    sg_unlock();
    return result;
}

ASYNC_CALL(cuStreamWaitEvent, (CUstream stream, CUevent event, unsigned flags),
           stream_wait_event(stream, event, flags))

/* The stream and number an event stands for; `out` NULL: never recorded. Takes a reference. */
static CUresult event_target(CUevent handle, sg_stream_t **out, uint64_t *number)
{
    sg_lock();
    sg_event_t *e = sg_event_find_locked(handle);
    CUresult result = e ? sg_capture_event_locked(e) : CUDA_ERROR_INVALID_HANDLE;
    *out = result ? NULL : e->stream;
    *number = e ? e->number : 0;
    if (*out)
        (*out)->refs++;
    sg_unlock();
    return result;
}

static const sg_shared_event_t *shared_of(CUevent handle)
{
    sg_lock();
    const sg_event_t *e = sg_event_find_locked(handle);
    const sg_shared_event_t *shared = e ? e->shared : NULL;
    sg_unlock();
    return shared;
}

SG_EXPORT CUresult cuEventQuery(CUevent handle)
{
    SG_TRY(sg_enter_context());
    const sg_shared_event_t *shared = shared_of(handle);
    sg_stream_t *s;
    uint64_t number;
    bool reached = true;
    SG_TRY(event_target(handle, &s, &number));
    if (s) {
        sg_lock();
        reached = sg_scheduler->reached_locked(s, number);
        sg_stream_unref_locked(s);
        sg_unlock();
    }
    /* One that processes share may have been recorded by another. */
    return reached && (!shared || sg_shared_event_over(shared)) ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

SG_EXPORT CUresult cuEventSynchronize(CUevent handle)
{
    SG_TRY(sg_enter_context());
    const sg_shared_event_t *shared = shared_of(handle);
    sg_stream_t *s;
    uint64_t number;
    CUresult result = CUDA_SUCCESS;
    SG_TRY(event_target(handle, &s, &number));
    if (s) {
        result = sg_wait_number(s, number);
        drop_stream(s);
    }
    if (shared && !result) {
        sg_shared_event_synchronize(shared);
        result = (CUresult)atomic_load(&sg_current_context()->sticky);
    }
    sg_pools_trim_to_threshold();
    return result;
}

/* When the event's last record happened; 0: not yet. The event may be gone afterwards. */
static uint64_t record_time_locked(sg_event_t *e)
{
    sg_stream_t *s = e->stream;
    sg_record_t *record = e->record;
    uint64_t number = e->number;
    s->refs++;
    record->refs++;
    uint64_t time_ns = sg_scheduler->reached_locked(s, number) ? record->time_ns : 0;
    if (time_ns && record->floor_ns > time_ns)
        time_ns = record->floor_ns;
    if (!--record->refs)
        free(record);
    sg_stream_unref_locked(s);
    return time_ns;
}

SG_EXPORT CUresult cuEventElapsedTime_v2(float *ms, CUevent start, CUevent end)
{
    SG_TRY(sg_enter_context());
    if (!ms)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult result = CUDA_ERROR_INVALID_HANDLE;
    sg_lock();
    sg_event_t *a = sg_event_find_locked(start), *b = sg_event_find_locked(end);
    if (a && b && (a->captured || b->captured)) {
        result = CUDA_ERROR_CAPTURED_EVENT;
    } else if (a && b && a->ctx == b->ctx && a->record && b->record) {
        uint64_t from = record_time_locked(a), to = 0;
        if ((b = sg_event_find_locked(end)) && b->record)
            to = record_time_locked(b);
        result = from && to ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
        if (!result)
            *ms = (float)((double)((int64_t)(to - from)) * 1e-6);
    }
    sg_unlock();
    return result;
}

SG_EXPORT CUresult cuEventElapsedTime(float *ms, CUevent start, CUevent end)
{
    return cuEventElapsedTime_v2(ms, start, end);
}

/* ---- the context as a whole ---- */

/* Records on the context's stream `all`, behind everything that its streams hold. */
SG_EXPORT CUresult cuCtxRecordEvent(CUcontext ctx, CUevent handle)
{
    SG_TRY(sg_enter());
    sg_lock();
    CUresult result = sg_context_check_locked(ctx);
    sg_event_t *e = sg_event_find_locked(handle);
    if (!result && (!e || e->ctx != ctx))
        result = CUDA_ERROR_INVALID_HANDLE;
    if (!result)
        result = sg_capture_context_locked(ctx, NULL);
    if (!result)
        result = sg_submit_wait_for_context_locked(ctx);
    if (!result)
        result = sg_event_record_locked(e, ctx->all);
    sg_unlock();
    return result;
}

SG_EXPORT CUresult cuCtxWaitEvent(CUcontext ctx, CUevent handle)
{
    SG_TRY(sg_enter());
    sg_lock();
    CUresult result = sg_context_check_locked(ctx);
    const sg_event_t *e = sg_event_find_locked(handle);
    if (!result && !e)
        result = CUDA_ERROR_INVALID_HANDLE;
    if (!result)
        result = sg_capture_context_locked(ctx, e);
    if (!result && e->stream)
        result = sg_submit_gate_locked(ctx, e->stream, e->number);
    sg_unlock();
    return result;
}
