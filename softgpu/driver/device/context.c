/* context.c: contexts: each device's primary one and created ones, the calling thread's stack of them, what they can
 * be asked, and what goes with one when it ends.
 *
 * A context's streams, events and modules, and what cuMemAlloc has given out in it, end with it; pools and VMM
 * memory belong to the device and stay. A context's handle is never used again, so that one that is gone is told from
 * one that never was.
 */
#include "softgpu/driver/rules.h"
#include "softgpu/driver/stream/streams.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

/* All contexts, the dead ones too; guarded by sg.lock. */
static struct {
    CUcontext first;
    uint64_t last_id;
} contexts;

/* Thread-local storage is scarce where the library is loaded late: only a pointer lies there. */
typedef struct stack {
    unsigned depth, capacity;
    CUcontext context[];
} stack_t;
static _Thread_local stack_t *stack; /* NULL: nothing was ever pushed; freed when the thread ends */
static pthread_key_t stack_key;

CUcontext sg_current_context(void)
{
    return stack && stack->depth ? stack->context[stack->depth - 1] : NULL;
}

CUresult sg_enter_look_up(void)
{
    SG_TRY(sg_enter());
    if (sg_on_caller_thread())
        return CUDA_ERROR_NOT_PERMITTED;
    CUcontext ctx = sg_current_context();
    if (!ctx)
        return CUDA_ERROR_INVALID_CONTEXT;
    if (!ctx->active)
        return CUDA_ERROR_CONTEXT_IS_DESTROYED;
    return (CUresult)atomic_load(&ctx->sticky);
}

CUresult sg_enter_context(void)
{
    SG_TRY(sg_enter_look_up());
    if (!sg_scheduler->enter)
        return CUDA_SUCCESS;
    sg_scheduler->enter();
    return (CUresult)atomic_load(&sg_current_context()->sticky);
}

void sg_set_sticky(CUresult error, const char *format, ...)
{
    char text[512];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    CUcontext ctx = sg_working_for();
    if (!ctx)
        ctx = sg_current_context();
    sg_set_sticky_in(ctx ? ctx : &sg.primary[0], error, "%s", text);
}

CUresult sg_device_check(int device)
{
    SG_TRY(sg_enter());
    return device < 0 || (unsigned)device >= sg.config.devices ? CUDA_ERROR_INVALID_DEVICE : CUDA_SUCCESS;
}

CUresult sg_context_check_locked(CUcontext ctx)
{
    for (CUcontext c = contexts.first; c; c = c->next)
        if (c == ctx)
            return c->active || c->primary ? CUDA_SUCCESS : CUDA_ERROR_CONTEXT_IS_DESTROYED;
    return CUDA_ERROR_INVALID_CONTEXT;
}

/* The context behind an argument: NULL stands for the current one. */
static CUresult resolve_locked(CUcontext ctx, CUcontext *out)
{
    *out = ctx ? ctx : sg_current_context();
    CUresult result = *out ? sg_context_check_locked(*out) : CUDA_ERROR_INVALID_CONTEXT;
    if (!result && !(*out)->active)
        result = CUDA_ERROR_CONTEXT_IS_DESTROYED;
    return result;
}

/* ---- life and death ---- */

static void set_defaults(CUcontext ctx)
{
    for (int i = 0; i < CU_LIMIT_MAX; i++)
        ctx->limit[i] = 0;
    ctx->limit[CU_LIMIT_STACK_SIZE] = 1024;
    ctx->limit[CU_LIMIT_PRINTF_FIFO_SIZE] = 1 << 20;
    ctx->limit[CU_LIMIT_MALLOC_HEAP_SIZE] = 8 << 20;
    ctx->limit[CU_LIMIT_DEV_RUNTIME_SYNC_DEPTH] = 2;
    ctx->limit[CU_LIMIT_DEV_RUNTIME_PENDING_LAUNCH_COUNT] = 2048;
    ctx->limit[CU_LIMIT_MAX_L2_FETCH_GRANULARITY] = 64;
    atomic_store(&ctx->cache_config, CU_FUNC_CACHE_PREFER_NONE);
}

static bool enlist_locked(CUcontext ctx, unsigned device)
{
    ctx->device = device;
    ctx->id = ++contexts.last_id;
    ctx->api_version = 3020;
    set_defaults(ctx);
    ctx->legacy = sg_stream_create_in_locked(ctx, true, 0, 0);
    ctx->all = sg_stream_create_in_locked(ctx, false, 0, CU_STREAM_NON_BLOCKING);
    if (!ctx->legacy || !ctx->all)
        return false; /* the streams, a hundred bytes, stay with the list of all streams */
    ctx->next = contexts.first;
    contexts.first = ctx;
    return true;
}

static void drop_stack(void *mine)
{
    stack = NULL;
    free(mine);
}

CUresult sg_context_init(void)
{
    if (pthread_key_create(&stack_key, drop_stack))
        return CUDA_ERROR_OPERATING_SYSTEM;
    for (unsigned i = 0; i < sg.config.devices; i++) {
        sg.primary[i].primary = true;
        if (!enlist_locked(&sg.primary[i], i))
            return CUDA_ERROR_OUT_OF_MEMORY;
    }
    return CUDA_SUCCESS;
}

static bool has_another_locked(CUcontext ctx)
{
    for (CUcontext c = contexts.first; c; c = c->next)
        if (c != ctx && c->active && c->device == ctx->device)
            return true;
    return false;
}

/* Waits for the context's work, then ends all that belongs to it. What the pools hold goes with the device's last
 * context if the caller says so. */
static void clear(CUcontext ctx, bool pools)
{
    sg_wait_context(ctx);
    sg_lock();
    sg_capture_drop_locked(ctx);
    sg_heap_drop_locked(ctx, pools && !has_another_locked(ctx));
    sg_unlock();
    sg_wait_context(ctx); /* for the poison over what was freed */
    sg_pools_trim_to_threshold();
    sg_lock();
    sg_host_drop_locked(ctx);
    sg_events_drop_locked(ctx);
    sg_modules_drop_locked(ctx);
    sg_streams_drop_locked(ctx);
    sg_peers_drop_locked(ctx, contexts.first);
    sg_unlock();
}

static bool flags_are_valid(unsigned flags)
{
    unsigned sched = flags & CU_CTX_SCHED_MASK;
    return !(flags & ~(unsigned)CU_CTX_FLAGS_MASK) && !(sched & (sched - 1));
}

static CUresult create(CUcontext *out, const CUctxCreateParams *params, unsigned flags, CUdevice device,
                       unsigned version)
{
    SG_TRY(sg_device_check(device));
    if (!out || !flags_are_valid(flags))
        return CUDA_ERROR_INVALID_VALUE;
    if (params && params->numExecAffinityParams && !params->execAffinityParams)
        return CUDA_ERROR_INVALID_VALUE;
    /* Shares of a device exist under MPS only, a graphics client not at all. */
    if (params && (params->numExecAffinityParams || params->cigParams))
        return params->cigParams ? CUDA_ERROR_NOT_SUPPORTED : CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY;
    CUcontext ctx = calloc(1, sizeof *ctx);
    if (!ctx)
        return CUDA_ERROR_OUT_OF_MEMORY;
    sg_lock();
    bool made = enlist_locked(ctx, (unsigned)device);
    sg_unlock();
    if (!made)
        return CUDA_ERROR_OUT_OF_MEMORY;
    ctx->flags = flags;
    ctx->api_version = version;
    ctx->active = true;
    SG_TRY(cuCtxPushCurrent_v2(ctx));
    *out = ctx;
    return CUDA_SUCCESS;
}

SG_EXPORT CUresult cuCtxCreate_v2(CUcontext *out, unsigned flags, CUdevice device);
SG_EXPORT CUresult cuCtxCreate_v2(CUcontext *out, unsigned flags, CUdevice device)
{
    return create(out, NULL, flags, device, 3020);
}

SG_EXPORT CUresult cuCtxCreate_v3(CUcontext *out, CUexecAffinityParam *affinity, int count, unsigned flags,
                                  CUdevice device);
SG_EXPORT CUresult cuCtxCreate_v3(CUcontext *out, CUexecAffinityParam *affinity, int count, unsigned flags,
                                  CUdevice device)
{
    CUctxCreateParams params = {.execAffinityParams = affinity, .numExecAffinityParams = count};
    return create(out, &params, flags, device, 3020);
}

SG_EXPORT CUresult cuCtxCreate_v4(CUcontext *out, CUctxCreateParams *params, unsigned flags, CUdevice device)
{
    return create(out, params, flags, device, 3020);
}

SG_EXPORT CUresult cuCtxDestroy_v2(CUcontext ctx)
{
    SG_TRY(sg_enter());
    if (sg_on_caller_thread())
        return CUDA_ERROR_NOT_PERMITTED;
    sg_lock();
    CUresult result = sg_context_check_locked(ctx);
    if (!result && ctx->primary) /* its references are given back instead */
        result = CUDA_ERROR_INVALID_CONTEXT;
    bool again = result == CUDA_ERROR_CONTEXT_IS_DESTROYED;
    sg_unlock();
    if (result)
        return sg_broken(SG_RULE_HANDLE, again ? CUDA_ERROR_CONTEXT_IS_DESTROYED : CUDA_ERROR_INVALID_CONTEXT,
                         "cuCtxDestroy: %p is not a created context%s", (void *)ctx,
                         again ? " any more" : "");
    clear(ctx, false);
    atomic_store(&ctx->active, false);
    if (sg_current_context() == ctx)
        stack->depth--;
    return CUDA_SUCCESS;
}

/* The form of long ago, which counted: one reference is all that there is. */
SG_EXPORT CUresult cuCtxDetach(CUcontext ctx)
{
    return cuCtxDestroy_v2(ctx);
}

/* ---- the primary contexts ---- */

SG_EXPORT CUresult cuDevicePrimaryCtxRetain(CUcontext *out, CUdevice device)
{
    SG_TRY(sg_device_check(device));
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    CUcontext ctx = &sg.primary[device];
    sg_lock();
    ctx->primary_refs++;
    ctx->active = true;
    sg_unlock();
    *out = ctx;
    return CUDA_SUCCESS;
}

static void reset_primary(CUcontext ctx)
{
    clear(ctx, true);
    sg_lock();
    ctx->active = ctx->primary_refs > 0; /* who still holds it gets a fresh one */
    set_defaults(ctx);
    atomic_store(&ctx->sticky, CUDA_SUCCESS);
    sg_unlock();
}

SG_EXPORT CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device)
{
    SG_TRY(sg_device_check(device));
    CUcontext ctx = &sg.primary[device];
    sg_lock();
    bool retained = ctx->primary_refs > 0, last = retained && !--ctx->primary_refs;
    if (last)
        ctx->active = false;
    sg_unlock();
    if (last)
        reset_primary(ctx);
    return retained ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
}

SG_EXPORT CUresult cuDevicePrimaryCtxReset_v2(CUdevice device)
{
    SG_TRY(sg_device_check(device));
    reset_primary(&sg.primary[device]);
    return CUDA_SUCCESS;
}

SG_EXPORT CUresult cuDevicePrimaryCtxGetState(CUdevice device, unsigned *flags, int *active)
{
    SG_TRY(sg_device_check(device));
    if (!flags || !active)
        return CUDA_ERROR_INVALID_VALUE;
    sg_lock();
    *flags = sg.primary[device].flags;
    *active = sg.primary[device].active;
    sg_unlock();
    return CUDA_SUCCESS;
}

SG_EXPORT CUresult cuDevicePrimaryCtxSetFlags_v2(CUdevice device, unsigned flags)
{
    SG_TRY(sg_device_check(device));
    if (!flags_are_valid(flags))
        return CUDA_ERROR_INVALID_VALUE;
    sg.primary[device].flags = flags;
    return CUDA_SUCCESS;
}

/* ---- the calling thread's stack ---- */

SG_EXPORT CUresult cuCtxGetCurrent(CUcontext *out)
{
    SG_TRY(sg_enter());
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    *out = sg_current_context();
    return CUDA_SUCCESS;
}

static CUresult check(CUcontext ctx)
{
    sg_lock();
    CUresult result = sg_context_check_locked(ctx);
    sg_unlock();
    if (result)
        return sg_broken(SG_RULE_HANDLE, result, "%p is not a context%s", (void *)ctx,
                         result == CUDA_ERROR_CONTEXT_IS_DESTROYED ? " any more" : "");
    return CUDA_SUCCESS;
}

static CUresult push(CUcontext ctx)
{
    if (!stack || stack->depth == stack->capacity) {
        unsigned capacity = stack ? 2 * stack->capacity : 14;
        stack_t *grown = realloc(stack, sizeof *grown + capacity * sizeof grown->context[0]);
        if (!grown)
            return CUDA_ERROR_OUT_OF_MEMORY;
        if (!stack)
            grown->depth = 0;
        grown->capacity = capacity;
        stack = grown;
        pthread_setspecific(stack_key, grown);
    }
    stack->context[stack->depth++] = ctx;
    return CUDA_SUCCESS;
}

SG_EXPORT CUresult cuCtxPushCurrent_v2(CUcontext ctx)
{
    SG_TRY(sg_enter());
    SG_TRY(check(ctx));
    return push(ctx);
}

SG_EXPORT CUresult cuCtxPopCurrent_v2(CUcontext *out)
{
    SG_TRY(sg_enter());
    CUcontext top = sg_current_context();
    if (!top)
        return CUDA_ERROR_INVALID_CONTEXT;
    stack->depth--;
    if (out)
        *out = top;
    return CUDA_SUCCESS;
}

SG_EXPORT CUresult cuCtxSetCurrent(CUcontext ctx)
{
    SG_TRY(sg_enter());
    if (ctx)
        SG_TRY(check(ctx));
    if (sg_current_context())
        stack->depth--;
    return ctx ? push(ctx) : CUDA_SUCCESS;
}

/* ---- what a context can be asked ---- */

static CUresult device_of(CUdevice *device, CUcontext ctx)
{
    SG_TRY(sg_enter());
    if (!device)
        return CUDA_ERROR_INVALID_VALUE;
    sg_lock();
    CUresult result = resolve_locked(ctx, &ctx);
    if (!result)
        *device = (CUdevice)ctx->device;
    sg_unlock();
    return result;
}

SG_EXPORT CUresult cuCtxGetDevice(CUdevice *device)
{
    return device_of(device, NULL);
}

SG_EXPORT CUresult cuCtxGetDevice_v2(CUdevice *device, CUcontext ctx);
SG_EXPORT CUresult cuCtxGetDevice_v2(CUdevice *device, CUcontext ctx)
{
    return device_of(device, ctx);
}

SG_EXPORT CUresult cuCtxGetFlags(unsigned *flags)
{
    SG_TRY(sg_enter_context());
    if (!flags)
        return CUDA_ERROR_INVALID_VALUE;
    *flags = sg_current_context()->flags;
    return CUDA_SUCCESS;
}

SG_EXPORT CUresult cuCtxSetFlags(unsigned flags)
{
    SG_TRY(sg_enter_context());
    if (!flags_are_valid(flags))
        return CUDA_ERROR_INVALID_VALUE;
    sg_current_context()->flags = flags;
    return CUDA_SUCCESS;
}

SG_EXPORT CUresult cuCtxGetApiVersion(CUcontext ctx, unsigned *version)
{
    SG_TRY(sg_enter());
    if (!version)
        return CUDA_ERROR_INVALID_VALUE;
    sg_lock();
    CUresult result = resolve_locked(ctx, &ctx);
    if (!result)
        *version = ctx->api_version;
    sg_unlock();
    return result;
}

SG_EXPORT CUresult cuCtxGetId(CUcontext ctx, unsigned long long *id)
{
    SG_TRY(sg_enter());
    if (!id)
        return CUDA_ERROR_INVALID_VALUE;
    sg_lock();
    CUresult result = resolve_locked(ctx, &ctx);
    if (!result)
        *id = ctx->id;
    sg_unlock();
    return result;
}

SG_EXPORT CUresult cuCtxGetStreamPriorityRange(int *least, int *greatest)
{
    SG_TRY(sg_enter_context());
    if (least)
        *least = 0;
    if (greatest)
        *greatest = -5;
    return CUDA_SUCCESS;
}

/* Limits concern the device's stack, printf buffer and heap, which have no counterpart here: a value is kept. */
SG_EXPORT CUresult cuCtxGetLimit(size_t *value, CUlimit limit)
{
    SG_TRY(sg_enter_context());
    if (!value)
        return CUDA_ERROR_INVALID_VALUE;
    if ((unsigned)limit >= CU_LIMIT_MAX)
        return CUDA_ERROR_UNSUPPORTED_LIMIT;
    sg_lock();
    *value = sg_current_context()->limit[limit];
    sg_unlock();
    return CUDA_SUCCESS;
}

SG_EXPORT CUresult cuCtxSetLimit(CUlimit limit, size_t value)
{
    SG_TRY(sg_enter_context());
    if ((unsigned)limit >= CU_LIMIT_MAX)
        return CUDA_ERROR_UNSUPPORTED_LIMIT;
    if (limit == CU_LIMIT_MAX_L2_FETCH_GRANULARITY && value > 128)
        value = 128;
    sg_lock();
    sg_current_context()->limit[limit] = value;
    sg_unlock();
    return CUDA_SUCCESS;
}

SG_EXPORT CUresult cuCtxGetCacheConfig(CUfunc_cache *config)
{
    SG_TRY(sg_enter_context());
    if (!config)
        return CUDA_ERROR_INVALID_VALUE;
    *config = (CUfunc_cache)atomic_load(&sg_current_context()->cache_config);
    return CUDA_SUCCESS;
}

SG_EXPORT CUresult cuCtxSetCacheConfig(CUfunc_cache config)
{
    SG_TRY(sg_enter_context());
    if (config > CU_FUNC_CACHE_PREFER_EQUAL)
        return CUDA_ERROR_INVALID_VALUE;
    atomic_store(&sg_current_context()->cache_config, (int)config);
    return CUDA_SUCCESS;
}

/* Banks have had one width since compute capability 5. */
SG_EXPORT CUresult cuCtxGetSharedMemConfig(CUsharedconfig *config)
{
    SG_TRY(sg_enter_context());
    if (!config)
        return CUDA_ERROR_INVALID_VALUE;
    *config = CU_SHARED_MEM_CONFIG_FOUR_BYTE_BANK_SIZE;
    return CUDA_SUCCESS;
}

SG_EXPORT CUresult cuCtxSetSharedMemConfig(CUsharedconfig config)
{
    SG_TRY(sg_enter_context());
    return config > CU_SHARED_MEM_CONFIG_EIGHT_BYTE_BANK_SIZE ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

SG_EXPORT CUresult cuCtxResetPersistingL2Cache(void)
{
    return sg_enter_context();
}

SG_EXPORT CUresult cuCtxGetExecAffinity(CUexecAffinityParam *out, CUexecAffinityType type)
{
    SG_TRY(sg_enter_context());
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    return (unsigned)type >= CU_EXEC_AFFINITY_TYPE_MAX ? CUDA_ERROR_INVALID_VALUE
                                                       : CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY;
}

SG_EXPORT CUresult cuCtxSynchronize(void)
{
    SG_TRY(sg_enter_context());
    SG_TRY(sg_capture_context_sync());
    CUresult result = sg_wait_all();
    sg_pools_trim_to_threshold();
    return result;
}

SG_EXPORT CUresult cuCtxSynchronize_v2(CUcontext ctx);
SG_EXPORT CUresult cuCtxSynchronize_v2(CUcontext ctx)
{
    SG_TRY(sg_enter());
    if (sg_on_caller_thread())
        return CUDA_ERROR_NOT_PERMITTED;
    sg_lock();
    CUresult result = resolve_locked(ctx, &ctx);
    if (!result)
        result = sg_capture_context_locked(ctx, NULL);
    sg_unlock();
    SG_TRY(result);
    sg_wait_context(ctx);
    sg_pools_trim_to_threshold();
    return (CUresult)atomic_load(&ctx->sticky);
}
