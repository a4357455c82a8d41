/* enter.c: the life of ebb in a process: asleep until a driver is looked up, set up when the first context
 * needs it, silent in the children of a fork. */
#include "hook/internal.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

#include "alloc/base/libc_symbol.h"
#include "alloc/base/options.h"
#include "alloc/base/status.h"
#include "alloc/base/thread.h"
#include "alloc/device.h"
#include "alloc/ebb_alloc.h"
#include "ckpt/run/run.h"
#include "ckpt/run/stats/stats.h"
#include "offload/ebb_offload.h"

extern char **environ;

ebb_t ebb_global;

static void after_fork(void)
{
    atomic_store(&ebb_global.life, EBB_ASLEEP);
}

static bool has_driver(void)
{
    return atomic_load(&ebb_global.life) != EBB_NO_DRIVER_YET;
}

static bool is_awake(void)
{
    return atomic_load_explicit(&ebb_global.life, memory_order_acquire) == EBB_AWAKE;
}

/* The table of the driver's functions is filled: what becomes of ebb. */
static ebb_life_t begin_life(ebb_t *ebb, void *get_proc_address)
{
    ebb_open(ebb);
    ebb->hook = calloc(1, sizeof *ebb->hook);
    const bool bad = !ebb_options_read(environ) && ebb_options.strict;
    if (bad)
        ebb_log(EBB_WARN, "EBB_STRICT=1: ebb does nothing in this process");
    const bool filled = !ebb_driver_fill((PFN_cuGetProcAddress_v12000)get_proc_address);
    return filled && !bad && ebb->hook && ebb_offload_open(ebb) && ebb_run_open(ebb) &&
                   !pthread_atfork(NULL, NULL, after_fork)
               ? EBB_AWAKE
               : EBB_ASLEEP;
}

void ebb_driver_seen(void *handle)
{
    if (has_driver() || ebb_lock_is_held())
        return;
    void *real = ebb_real_dlsym(handle, "cuGetProcAddress_v2");
    if (!real || real == ebb_hook_by_symbol("cuGetProcAddress_v2"))
        return;
    ebb_lock();
    if (!has_driver())
        atomic_store(&ebb_global.life, begin_life(&ebb_global, real));
    ebb_unlock();
}

bool ebb_have_driver(void)
{
    if (!has_driver()) {
        void *libcuda = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
        if (libcuda)
            ebb_driver_seen(libcuda);
    }
    return has_driver();
}

CUresult ebb_waited(CUresult result)
{
    ebb_device_t *dev = ebb_enter();
    if (dev) {
        if (result)
            ebb_run_failed(dev, result);
        else
            ebb_run_waited(dev);
        ebb_unlock();
    }
    return result ? result : ebb_program_has_failed(&ebb_global) ? CUDA_ERROR_LAUNCH_FAILED : CUDA_SUCCESS;
}

/* ---- a device's state is made ---- */

size_t ebb_share_of(ebb_size_t b, size_t total)
{
    const size_t bytes = b.of == EBB_SIZE_BYTES       ? (size_t)b.amount
                         : b.of == EBB_SIZE_OF_DEVICE ? (size_t)((double)total * (double)b.amount / 100.0)
                                                      : total; /* until a step is known */
    return bytes < total ? bytes : total;
}

size_t ebb_budget_of(size_t total)
{
    return ebb_share_of(ebb_options.budget, total);
}

/* Of all devices that this process sees: the first context needs the addresses for all. */
static size_t bytes_of_all_devices(size_t own)
{
    size_t sum = 0, bytes;
    int count = 0;
    if (!ebb_driver.cuDeviceGetCount || ebb_driver.cuDeviceGetCount(&count))
        count = 0;
    for (int i = 0; i < count && i < EBB_DEVICES; i++)
        sum += ebb_driver.cuDeviceTotalMem_v2(&bytes, i) ? 0 : bytes;
    return sum > own ? sum : own;
}

/* `others`: what is gone of it already; of_all: by all processes. */
static void say_budget(const ebb_device_t *dev, size_t total, size_t others, bool of_all)
{
    const size_t budget = dev->budget_bytes;
    char name[128] = "";
    if (ebb_driver.cuDeviceGetName(name, sizeof name, dev->device))
        *name = 0;
    ebb_log(EBB_INFO,
            "the budget is %zu MiB of the %zu MiB of device %d (%s); %zu MiB of it are in use already",
            budget >> 20, total >> 20, dev->device, name, others >> 20);
    if (ebb_options.budget.of == EBB_SIZE_OF_PEAK)
        ebb_log(EBB_INFO, "it becomes %lld%% of a step's peak when a step is known",
                (long long)ebb_options.budget.amount);
    /* A context alone takes less. */
    if (of_all && others >> 20)
        ebb_log(
            others > budget / 4 ? EBB_WARN : EBB_INFO,
            "the %zu MiB in use are those of all processes, because NVML does not tell what this one holds",
            others >> 20);
}

static ebb_status_t set_up(ebb_device_t *dev, size_t total)
{
    ebb_t *ebb = dev->ebb;
    if (!ebb_run_open_device(dev))
        return ebb_fail(CUDA_ERROR_OUT_OF_MEMORY, "calloc", 0);
    EBB_TRY(ebb_vmm_try(dev->device));
    size_t budget = dev->budget_bytes = ebb_budget_of(total);
    if (ebb_options.budget.of == EBB_SIZE_BYTES && ebb_options.budget.amount > (int64_t)total)
        ebb_log(EBB_WARN, "the budget of %lld MiB is more than the %zu MiB of device %d",
                (long long)ebb_options.budget.amount >> 20, total >> 20, dev->device);
    /* What is gone already: the context's and the program's own, and other processes' where they cannot be told apart. */
    const ebb_overhead_t now = ebb_overhead(ebb, dev->device, 0);
    const size_t others = now.bytes + (size_t)ebb_options.reserve;
    if (!ebb->arena.slots)
        EBB_TRY(ebb_arena_reserve(ebb, bytes_of_all_devices(total)));
    ebb_chunks_init(dev, total, others);
    ebb_chunks_budget(dev, budget);
    ebb_heap_make_room_by(ebb, ebb_run_make_room);
    ebb_chunks_follow(dev, (size_t)ebb_options.reserve, ebb_options.prealloc);
    say_budget(dev, total, others, now.of_all);
    return 0;
}

static void say_unmanaged(struct ebb_hook *hook)
{
    if (!hook->unserved_said)
        ebb_log(EBB_WARN, "ebb serves one context of each device, the first; what another one allocates is "
                          "the driver's, counts "
                          "against the budget and never leaves");
    hook->unserved_said = true;
}

/* NULL: none. A question that fails says nothing about what is current: the thread's last answer stands, and a thread that has none yet asks
 * again. To let an operation pass instead would have it find its buffers wherever they are, and allocate beside the budget. */
static CUcontext current_context(void)
{
    enum { TIMES = 3 };
    CUcontext context = NULL;
    for (int i = 0; i < TIMES; i++) {
        const CUresult result = ebb_driver.cuCtxGetCurrent(&context);
        if (!result || result == CUDA_ERROR_NOT_INITIALIZED || result == CUDA_ERROR_DEINITIALIZED)
            return ebb_this_thread.context = context;
        if (ebb_this_thread.context)
            break;
    }
    return ebb_this_thread.context;
}

static bool is_given_up(const ebb_t *ebb, CUdevice device)
{
    for (unsigned i = 0; i < ebb->device_count; i++)
        if (ebb->device[i].failed && ebb->device[i].device == device)
            return true;
    return false;
}

/* What could not be given back when an earlier context of the device was gone already. */
static void give_back_orphaned(ebb_t *ebb, CUdevice device)
{
    ebb_visit_t visit;
    for (unsigned i = 0; i < ebb->device_count; i++) {
        ebb_device_t *dev = &ebb->device[i];
        if (!dev->orphaned || dev->device != device || ebb_device_visit(dev, &visit))
            continue;
        dev->orphaned = false;
        ebb_run_interrupted(dev, "its context is gone");
        ebb_heap_abandon(dev, ebb_run_freeing);
        ebb_run_ended(dev);
        ebb_device_return(visit);
    }
}

/* A context, the current one, that has no device yet: opens it. NULL: ebb does not serve it. */
static ebb_device_t *meet(ebb_t *ebb, CUcontext context)
{
    CUdevice device;
    size_t free_bytes, total = 0;
    /* The second question fails in a context that has been destroyed and is still current. */
    if (ebb_driver.cuCtxGetDevice(&device) || is_given_up(ebb, device))
        return NULL;
    ebb_device_t *dev = NULL;
    if (!ebb_device_of(ebb, device)) {
        if (ebb_driver.cuMemGetInfo_v2(&free_bytes, &total))
            return NULL;
        give_back_orphaned(ebb, device);
        if (ebb_device_of(ebb, device)) /* another thread's, meanwhile */
            return ebb_device_of_context(ebb, context);
        dev = ebb_device_open(ebb, context, device);
    }
    if (!dev) {
        say_unmanaged(ebb->hook);
        return NULL;
    }
    ebb_device_begins(dev);
    if (!set_up(dev, total))
        return dev;
    ebb_log(EBB_WARN, "%s: ebb leaves device %d alone, the program runs on it as without ebb",
            ebb_last_failure(), device);
    dev->context = NULL;
    dev->failed = true;
    return NULL;
}

/* The current context's device; ebb_no_device, if ebb does not serve it. */
static ebb_device_t *find(ebb_t *ebb, CUcontext context)
{
    ebb_device_t *dev = ebb_device_of_context(ebb, context);
    if (!dev) {
        ebb_device_begins(ebb_no_device(ebb));
        dev = meet(ebb, context);
    }
    if (!dev)
        dev = ebb_no_device(ebb);
    ebb_device_begins(dev);
    return dev;
}

/* ---- entering ---- */

/* Not for calls that come out of a driver call of ebb's own, under the lock or on a thread of ebb's (a profiler makes such, and whatever
 * libraries a driver loads): they are none of the program's, and go straight through. */
static bool is_own(void)
{
    return ebb_lock_is_held() || ebb_thread_is_own();
}

bool ebb_is_awake(void)
{
    return (is_awake() || (ebb_have_driver() && is_awake())) && !is_own();
}

bool ebb_call_again(CUresult result)
{
    return !is_own() && ebb_pinned_call_again(result != CUDA_SUCCESS);
}

/* What was allocated last gets its memory when the next call begins (heap.c), unless that only asks, or frees this. */
typedef struct purpose {
    bool at_once; /* or not at all: the lock is not waited for */
    bool to_ask;
    CUdeviceptr to_free;
} purpose_t;

static void shrink(ebb_device_t *dev)
{
    if (ebb_graphs_give_back(dev) && ebb_heap_measure(dev))
        return;
    ebb_run_interrupted(dev, "what is held beside ebb's memory has grown");
    ebb_heap_shrink(dev);
}

void ebb_measure(ebb_device_t *dev)
{
    if (!ebb_heap_measure(dev))
        shrink(dev);
}

/* NULL, and no lock any more, unless `good`. */
static ebb_device_t *held_if(bool good, ebb_device_t *dev)
{
    if (!good)
        ebb_unlock();
    return good ? dev : NULL;
}

static bool is_kept(const ebb_device_t *dev)
{
    return dev && ebb_lock_is_kept(dev);
}

/* The current context's device, or ebb_no_device: the lock is held. Nothing of this call is in preparation yet, so that plans may end
 * here. NULL: there is no context, or ebb sleeps, or another thread has the lock or keeps the device, which is not waited for. */
static ebb_device_t *begin_to(purpose_t purpose)
{
    CUcontext context;
    if (!ebb_is_awake() || !(context = current_context()))
        return NULL;
    if (!purpose.at_once)
        ebb_lock();
    else if (!ebb_try_lock())
        return NULL;
    ebb_t *ebb = &ebb_global;
    if (purpose.at_once && is_kept(ebb_device_of_context(ebb, context)))
        return held_if(false, NULL);
    ebb_device_t *dev = ebb_current_device; /* the last call's, most often */
    if (dev->context != context)
        dev = find(ebb, context);
    else
        ebb_lock_device(dev);
    ebb_forget_failure();
    if (ebb_broken_count())
        ebb_end_plans(ebb, "a condition of ebb's own does not hold");
    ebb_mappings_take_in(ebb);
    if (!purpose.to_ask)
        ebb_heap_back(ebb, purpose.to_free, ebb_run_unbacked);
    if (!ebb_heap_measure_if_due(dev))
        shrink(dev);
    return dev;
}

static ebb_device_t *begin(void)
{
    return begin_to((purpose_t){0});
}

/* Goes on to a device. NULL: there is none, or its context is gone. */
static ebb_device_t *held_at(ebb_device_t *dev)
{
    return held_if(dev && ebb_lock_go_to(dev), dev);
}

/* There is no context of the program's, or it has not been asked for. */
static ebb_device_t *begin_without(ebb_t *ebb)
{
    ebb_device_t *dev = ebb_no_device(ebb);
    ebb_device_begins(dev);
    return dev;
}

ebb_device_t *ebb_enter(void)
{
    ebb_device_t *dev = begin();
    return dev ? held_if(ebb_is_device(dev), dev) : NULL;
}

static ebb_device_t *enter_at(CUdeviceptr address, purpose_t purpose)
{
    ebb_device_t *dev = begin_to(purpose);
    if (!dev)
        return NULL;
    if (!ebb_arena_contains(dev->ebb, address))
        return held_if(ebb_is_device(dev), dev);
    ebb_device_t *of = ebb_arena_device(dev->ebb, address);
    return of ? held_at(of) : dev; /* no device's: the caller's look-up finds none */
}

ebb_device_t *ebb_enter_at(CUdeviceptr address)
{
    return enter_at(address, (purpose_t){0});
}

ebb_device_t *ebb_enter_to_free(CUdeviceptr address)
{
    return enter_at(address, (purpose_t){.to_free = address});
}

ebb_device_t *ebb_enter_work(void)
{
    return begin();
}

static ebb_stream_t *enter_stream(CUstream stream, purpose_t purpose)
{
    ebb_device_t *dev = begin_to(purpose);
    if (!dev)
        return NULL;
    ebb_stream_t *s = ebb_stream_of(dev, stream);
    ebb_device_t *of = ebb_stream_device(s);
    return held_at(ebb_is_device(of) ? of : NULL) ? s : NULL;
}

ebb_stream_t *ebb_enter_stream(CUstream stream)
{
    return enter_stream(stream, (purpose_t){0});
}

ebb_stream_t *ebb_enter_stream_to_free(CUstream stream, CUdeviceptr address)
{
    return enter_stream(stream, (purpose_t){.to_free = address});
}

ebb_device_t *ebb_enter_device(CUdevice device)
{
    ebb_device_t *dev = ebb_enter_any();
    return dev ? held_at(ebb_device_of(dev->ebb, device)) : NULL;
}

ebb_device_t *ebb_enter_any_now(void)
{
    return ebb_is_awake() && ebb_try_lock() ? begin_without(&ebb_global) : NULL;
}

ebb_device_t *ebb_enter_device_now(CUdevice device)
{
    ebb_device_t *dev = begin_to((purpose_t){.at_once = true}),
                 *of = dev ? ebb_device_of(dev->ebb, device) : NULL;
    return dev ? held_at(is_kept(of) ? NULL : of) : NULL;
}

ebb_device_t *ebb_enter_context(CUcontext context)
{
    CUcontext none;
    ebb_device_t *dev = context ? ebb_enter_any() : NULL;
    if (!dev)
        return NULL;
    ebb_device_t *of = ebb_device_of_context(dev->ebb, context);
    if (of)
        return held_at(of);
    if (!ebb_driver.cuCtxPushCurrent_v2 || ebb_driver.cuCtxPushCurrent_v2(context))
        return held_if(false, dev);
    of = find(dev->ebb, context);
    if (ebb_is_device(of))
        ebb_lock_pushed();
    else
        ebb_driver.cuCtxPopCurrent_v2(&none);
    return held_if(ebb_is_device(of), of);
}

ebb_device_t *ebb_enter_beside(void)
{
    CUdevice device;
    ebb_device_t *dev = begin();
    if (!dev)
        return NULL;
    const bool beside = !ebb_is_device(dev) && !ebb_driver.cuCtxGetDevice(&device);
    return held_at(beside ? ebb_device_of(dev->ebb, device) : NULL);
}

static ebb_device_t *enter_any(purpose_t purpose)
{
    ebb_device_t *dev = begin_to(purpose);
    if (dev || !ebb_is_awake())
        return dev;
    ebb_lock();
    return begin_without(&ebb_global);
}

ebb_device_t *ebb_enter_any(void)
{
    return enter_any((purpose_t){0});
}

ebb_device_t *ebb_enter_to_ask(void)
{
    return enter_any((purpose_t){.to_ask = true});
}

bool ebb_is_context(CUcontext context)
{
    if (!ebb_is_awake())
        return false;
    ebb_lock();
    bool served = ebb_device_of_context(&ebb_global, context) != NULL;
    ebb_unlock();
    return served;
}

bool ebb_is_primary_of(CUdevice device)
{
    CUcontext primary;
    unsigned flags;
    int active = 0;
    if (!ebb_driver.cuDevicePrimaryCtxRetain || !ebb_driver.cuDevicePrimaryCtxGetState ||
        ebb_driver.cuDevicePrimaryCtxGetState(device, &flags, &active) || !active ||
        ebb_driver.cuDevicePrimaryCtxRetain(&primary, device))
        return false;
    ebb_driver.cuDevicePrimaryCtxRelease_v2(device);
    return ebb_is_context(primary);
}

CUresult ebb_synchronize_all(void)
{
    const ebb_t *ebb = &ebb_global;
    CUcontext context[EBB_DEVICES], none;
    unsigned count = 0;
    CUresult result = CUDA_SUCCESS;
    ebb_lock();
    for (unsigned i = 0; i < ebb->device_count; i++)
        if (ebb->device[i].context)
            context[count++] = ebb->device[i].context;
    ebb_unlock();
    for (unsigned i = 0; i < count && !result; i++)
        if (!(result = ebb_driver.cuCtxPushCurrent_v2(context[i]))) {
            result = ebb_driver.cuCtxSynchronize();
            ebb_driver.cuCtxPopCurrent_v2(&none);
        }
    return result;
}

/* ---- a context ends ---- */

/* What ebb holds is the device's, not the context's, so it goes back here. */
void ebb_context_ends(ebb_device_t *dev)
{
    ebb_run_interrupted(dev, "the context is destroyed");
    ebb_wait_for_device(dev->ebb);
    ebb_streams_end(dev);
    ebb_signatures_forget(dev->ebb); /* its functions' handles may come again */
    ebb_heap_abandon(dev, ebb_run_freeing);
    ebb_run_ended(dev);
    dev->context = NULL;
    ebb_log(EBB_INFO, "the context is destroyed, ebb's work in it ends");
}

void ebb_context_gone(CUdevice device)
{
    ebb_lock();
    ebb_device_t *dev = ebb_device_of(&ebb_global, device);
    if (dev) {
        ebb_lock_device(dev);
        ebb_streams_end(dev);
        ebb_signatures_forget(dev->ebb);
        dev->context = NULL;
        dev->orphaned = true;
        ebb_log(EBB_INFO, "the context is gone, ebb's work in it ends");
    }
    ebb_unlock();
}

__attribute__((destructor)) static void at_exit(void)
{
    if (atomic_load(&ebb_global.life) == EBB_ASLEEP)
        return;
    ebb_ahead_stop(&ebb_global);
    ebb_offload_stop(&ebb_global);
    ebb_run_stop(&ebb_global);
    if (!ebb_lock_at_exit()) {
        ebb_log(EBB_INFO, "the process ends in another thread's call: there are no statistics");
        return;
    }
    if (ebb_global.device_count)
        ebb_stats_finish(&ebb_global);
    ebb_unlock();
}
