/* core.c: the life of ebb in a process: asleep until a driver is looked up, set up when the first context
 * needs it, silent in the children of a fork. */
#include "core.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

#include "ahead.h"
#include "arena.h"
#include "capture.h"
#include "chunk.h"
#include "heap.h"
#include "hook.h"
#include "lock.h"
#include "log.h"
#include "mark.h"
#include "options.h"
#include "overhead.h"
#include "pin.h"

extern char **environ;

const ebb_listener_t *ebb_listener;

static ebb_mutex_t lock = EBB_MUTEX(EBB_RANK_STATE);
static atomic_bool have_driver; /* the table is filled */
static atomic_bool asleep; /* for ever: no usable driver, bad options under EBB_STRICT, or a forked child */

static atomic_bool program_failed;

static struct {
    bool ready, failed;
    CUcontext context;
    CUdevice device;
    size_t budget_bytes;
    bool said_unmanaged;
    /* Of the thread that holds the lock. */
    bool outside; /* another context is current than the one that ebb serves */
    bool pushed;  /* ebb has made its own context current */
    bool relaxed; /* ebb has exchanged the thread's capture mode; what it was: */
    CUstreamCaptureMode mode;
} core;

static void relax(void)
{
    core.mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    core.relaxed = !ebb_driver.cuThreadExchangeStreamCaptureMode(&core.mode);
}

static void unrelax(void)
{
    if (core.relaxed)
        ebb_driver.cuThreadExchangeStreamCaptureMode(&core.mode);
    core.relaxed = false;
}

void ebb_lock(void)
{
    ebb_mutex_lock(&lock);
    if (ebb_captures_under_way())
        relax();
}

void ebb_unlock(void)
{
    CUcontext none;
    if (core.pushed)
        ebb_driver.cuCtxPopCurrent_v2(&none);
    core.pushed = core.outside = false;
    unrelax();
    ebb_mutex_unlock(&lock);
}

void ebb_listen(const ebb_listener_t *listener)
{
    ebb_listener = listener;
}

static void after_fork(void)
{
    atomic_store(&asleep, true);
}

void ebb_driver_seen(void *handle)
{
    if (atomic_load(&have_driver) || atomic_load(&asleep))
        return;
    void *real = ebb_real_dlsym(handle, "cuGetProcAddress_v2");
    if (!real || real == ebb_hook_by_symbol("cuGetProcAddress_v2"))
        return;
    ebb_lock();
    if (!atomic_load(&have_driver)) {
        bool good = ebb_options_read(environ);
        if (!good && ebb_options.strict)
            ebb_log(EBB_WARN, "EBB_STRICT=1: ebb does nothing in this process");
        if (ebb_driver_fill((PFN_cuGetProcAddress_v12000)real) || (!good && ebb_options.strict))
            atomic_store(&asleep, true);
        else
            pthread_atfork(NULL, NULL, after_fork);
        atomic_store(&have_driver, true);
    }
    ebb_unlock();
}

bool ebb_have_driver(void)
{
    if (!atomic_load(&have_driver)) {
        void *libcuda = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
        if (libcuda)
            ebb_driver_seen(libcuda);
    }
    return atomic_load(&have_driver);
}

void ebb_fail_program(void)
{
    atomic_store(&program_failed, true);
}

CUresult ebb_waited(CUresult result)
{
    if (!result && ebb_listener && ebb_listener->waited && ebb_enter()) {
        ebb_listener->waited();
        ebb_unlock();
    }
    return result ? result : atomic_load(&program_failed) ? CUDA_ERROR_LAUNCH_FAILED : CUDA_SUCCESS;
}

size_t ebb_device_budget(void)
{
    return core.budget_bytes;
}

static size_t resolve_budget(size_t total)
{
    int64_t b = ebb_options.budget;
    size_t bytes = b < 0 ? (size_t)((double)total * (double)-b / 100.0) : (size_t)b;
    return bytes < total ? bytes : total;
}

static ebb_status_t set_up(CUcontext context)
{
    size_t free_bytes, total;
    EBB_DRIVER(cuCtxGetDevice, 0, (&core.device));
    EBB_DRIVER(cuMemGetInfo, 0, (&free_bytes, &total));
    core.budget_bytes = resolve_budget(total);
    /* What is gone already: the context's and the program's own, and other processes' where that cannot be told. */
    size_t others = ebb_overhead_bytes(core.device, 0) + (size_t)ebb_options.reserve;
    ebb_chunks_init(core.device, core.budget_bytes, others);
    ebb_chunks_follow((size_t)ebb_options.reserve, ebb_options.prealloc);
    EBB_TRY(ebb_arena_reserve(total));
    core.context = context;
    ebb_log(EBB_INFO, "budget %zu MiB, of which %zu MiB are not ebb's to give", core.budget_bytes >> 20,
            others >> 20);
    return 0;
}

static void say_unmanaged(void)
{
    if (!core.said_unmanaged)
        ebb_log(EBB_WARN,
                "ebb serves one context, the first; what another one allocates is the driver's, and "
                "not under the budget");
    core.said_unmanaged = true;
}

/* NULL: none. A question that fails says nothing about what is current; to let an operation pass for that would have
 * it find its buffers wherever they are. */
static CUcontext current_context(void)
{
    static _Thread_local CUcontext last;
    CUcontext context = NULL;
    const CUresult result = ebb_driver.cuCtxGetCurrent(&context);
    if (!result || result == CUDA_ERROR_NOT_INITIALIZED || result == CUDA_ERROR_DEINITIALIZED)
        last = context;
    return last;
}

/* What finds no context, or another one than ebb's, goes straight to the driver. */
static bool enter(bool also_outside, CUdeviceptr address)
{
    CUcontext context;
    if (!ebb_have_driver() || atomic_load_explicit(&asleep, memory_order_relaxed) ||
        !(context = current_context()))
        return false;
    ebb_lock();
    if (!core.ready && !core.failed) {
        core.failed = set_up(context) != 0;
        core.ready = !core.failed;
        if (core.failed)
            ebb_log(EBB_WARN, "%s: ebb leaves this program alone", ebb_last_failure());
    }
    if (core.ready && core.context == context)
        return true;
    core.outside = core.ready && core.context;
    if (core.outside) {
        if (also_outside)
            return true;
        if (ebb_arena_contains(address) && ebb_driver.cuCtxPushCurrent_v2 &&
            !ebb_driver.cuCtxPushCurrent_v2(core.context)) {
            core.pushed = true;
            return true;
        }
    }
    if (core.ready)
        say_unmanaged();
    ebb_unlock();
    return false;
}

bool ebb_enter(void)
{
    return enter(false, 0);
}

bool ebb_enter_at(CUdeviceptr address)
{
    return enter(false, address);
}

bool ebb_enter_work(void)
{
    return enter(true, 0);
}

bool ebb_enter_is_inside(void)
{
    return !core.outside;
}

bool ebb_enter_own(void)
{
    if (!ebb_have_driver() || atomic_load(&asleep))
        return false;
    ebb_lock();
    const CUcontext context = current_context();
    if (core.ready && core.context &&
        (context == core.context ||
         (ebb_driver.cuCtxPushCurrent_v2 && !ebb_driver.cuCtxPushCurrent_v2(core.context)))) {
        core.pushed = context != core.context;
        return true;
    }
    ebb_unlock();
    return false;
}

CUcontext ebb_context(void)
{
    return core.context;
}

bool ebb_is_context(CUcontext context)
{
    return core.ready && core.context && core.context == context;
}

bool ebb_is_device(CUdevice device)
{
    if (!core.ready && ebb_enter()) /* nobody has allocated yet; with the lock held, it is ready */
        ebb_unlock();
    return core.ready && core.context && core.device == device;
}

bool ebb_is_primary_of(CUdevice device)
{
    CUcontext primary;
    if (!ebb_is_device(device) || !ebb_driver.cuDevicePrimaryCtxRetain ||
        ebb_driver.cuDevicePrimaryCtxRetain(&primary, device))
        return false;
    bool ours = ebb_is_context(primary);
    ebb_driver.cuDevicePrimaryCtxRelease_v2(device);
    return ours;
}

/* Every record of it is worthless once the driver has destroyed it, and what ebb holds is the device's, not the
 * context's: it goes back here. The addresses stay reserved, so that nobody else gets them. */
void ebb_context_ends(void)
{
    if (ebb_listener && ebb_listener->interrupted)
        ebb_listener->interrupted("the context is destroyed");
    ebb_driver.cuCtxSynchronize();
    ebb_heap_abandon();
    core.context = NULL;
    ebb_log(EBB_INFO, "the context is destroyed, ebb's work ends with it");
}

void ebb_context_gone(void)
{
    ebb_lock();
    core.context = NULL;
    ebb_log(EBB_INFO, "the context is gone, ebb's work ends with it");
    ebb_unlock();
}

/* ---- operations ---- */

/* In another context than ebb's: what it touches of ebb's memory can neither be ordered nor be taken away. */
static CUresult issue_outside(const ebb_operation_t *op, CUresult (*issue)(const void *context),
                              const void *context)
{
    CUcontext own;
    for (uint32_t i = 0; i < op->access_count; i++) {
        if (op->access[i].buffer->pinned)
            continue;
        if (!ebb_driver.cuCtxPushCurrent_v2)
            return CUDA_ERROR_NOT_SUPPORTED;
        EBB_TRY(ebb_driver.cuCtxPushCurrent_v2(core.context));
        ebb_status_t status = ebb_buffer_pin(op->access[i].buffer);
        ebb_driver.cuCtxPopCurrent_v2(&own);
        EBB_TRY(status);
    }
    return issue(context);
}

CUresult ebb_issue(ebb_operation_t *op, CUresult (*issue)(const void *context), const void *context)
{
    if (core.outside)
        return issue_outside(op, issue, context);
    if (ebb_captures_under_way() && ebb_is_capturing(ebb_stream_handle(op->stream))) {
        EBB_TRY(ebb_capture_note(op));
        unrelax(); /* what the program may not do while capturing, it is told */
        return issue(context);
    }
    if (ebb_listener && ebb_listener->before)
        EBB_TRY(ebb_listener->before(op));
    bool relaxed = core.relaxed;
    unrelax();
    CUresult result = issue(context);
    if (relaxed)
        relax();
    if (!result) {
        ebb_mark_t mark = ebb_mark_issue(op->stream);
        for (uint32_t i = 0; i < op->access_count; i++)
            ebb_buffer_touch(op->access[i].buffer, mark);
        if (op->opaque)
            ebb_buffers_touch(mark);
    }
    if (ebb_listener && ebb_listener->after)
        ebb_listener->after(op, result);
    return result;
}

__attribute__((destructor)) static void at_exit(void)
{
    if (!atomic_load(&asleep))
        ebb_ahead_stop();
    if (core.ready && !atomic_load(&asleep) && ebb_listener && ebb_listener->finish)
        ebb_listener->finish();
}
