/* enter.c: the life of ebb in a process: asleep until a driver is looked up, set up when the first context
 * needs it, silent in the children of a fork. */
#include "hook/internal.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

#include "alloc/ahead.h"
#include "alloc/arena.h"
#include "alloc/base/libc_symbol.h"
#include "alloc/base/log.h"
#include "alloc/base/options.h"
#include "alloc/base/thread.h"
#include "alloc/chunk.h"
#include "alloc/device.h"
#include "alloc/heap.h"
#include "alloc/lock.h"
#include "alloc/mark.h"
#include "alloc/overhead.h"
#include "alloc/vmm.h"
#include "ckpt/run/pin.h"
#include "ckpt/run/run.h"
#include "ckpt/run/stats/stats.h"
#include "offload/ebb_offload.h"

extern char **environ;

static atomic_bool have_driver; /* the table is filled */
static atomic_bool awake;       /* and ebb works with it: what every call asks first */
static atomic_bool asleep; /* for ever: no usable driver, bad options under EBB_STRICT, or a forked child */

static void after_fork(void)
{
    atomic_store(&asleep, true);
    atomic_store(&awake, false);
}

void ebb_driver_seen(void *handle)
{
    if (atomic_load(&have_driver) || atomic_load(&asleep) || ebb_lock_is_held())
        return;
    void *real = ebb_real_dlsym(handle, "cuGetProcAddress_v2");
    if (!real || real == ebb_hook_by_symbol("cuGetProcAddress_v2"))
        return;
    ebb_lock();
    if (!atomic_load(&have_driver)) {
        ebb_open(&ebb_process);
        bool good = ebb_options_read(environ);
        if (!good && ebb_options.strict)
            ebb_log(EBB_WARN, "EBB_STRICT=1: ebb does nothing in this process");
        if (ebb_driver_fill((PFN_cuGetProcAddress_v12000)real) || (!good && ebb_options.strict) ||
            !ebb_offload_open(&ebb_process) || !ebb_run_open(&ebb_process))
            atomic_store(&asleep, true);
        else if (!pthread_atfork(NULL, NULL, after_fork))
            atomic_store(&awake, true);
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

CUresult ebb_waited(CUresult result)
{
    if (!result && ebb_enter()) {
        ebb_run_waited(ebb_here);
        ebb_unlock();
    }
    return result ? result : ebb_program_has_failed() ? CUDA_ERROR_LAUNCH_FAILED : CUDA_SUCCESS;
}

size_t ebb_device_budget(void)
{
    return ebb_here->budget_bytes;
}

/* ---- a device's state is made ---- */

size_t ebb_budget_of(size_t total)
{
    int64_t b = ebb_options.budget;
    size_t bytes = b < 0 ? (size_t)((double)total * (double)-b / 100.0) : (size_t)b;
    return bytes < total ? bytes : total;
}

/* Of all devices that this process sees: the first context needs the addresses for all. */
static size_t bytes_of_all_devices(size_t own)
{
    size_t sum = 0, bytes;
    int count = 0;
    if (!ebb_driver.cuDeviceGetCount || ebb_driver.cuDeviceGetCount(&count))
        count = 0;
    for (int i = 0; i < count && i < EBB_SLOTS; i++)
        sum += ebb_driver.cuDeviceTotalMem_v2(&bytes, i) ? 0 : bytes;
    return sum > own ? sum : own;
}

static ebb_status_t set_up(CUdevice device, size_t total)
{
    EBB_TRY(ebb_vmm_try(device));
    size_t budget = ebb_here->budget_bytes = ebb_budget_of(total);
    /* What is gone already: the context's and the program's own, and other processes' where that cannot be told. */
    const ebb_overhead_t now = ebb_overhead(ebb_here->ebb, device, 0);
    const size_t others = now.bytes + (size_t)ebb_options.reserve;
    if (!ebb_here->ebb->arena.slots)
        EBB_TRY(ebb_arena_reserve(ebb_here->ebb, bytes_of_all_devices(total)));
    ebb_chunks_init(ebb_here, budget, others);
    ebb_heap_make_room_by(ebb_here->ebb, ebb_run_make_room);
    ebb_chunks_follow(ebb_here, (size_t)ebb_options.reserve, ebb_options.prealloc);
    /* A context alone takes less. */
    ebb_log(now.of_all && others > budget / 4 ? EBB_WARN : EBB_INFO,
            "device %d: budget %zu MiB, of which %zu MiB are not ebb's to give%s", device, budget >> 20,
            others >> 20,
            now.of_all ? ": what all processes hold, for NVML does not tell what this one does" : "");
    return 0;
}

static void say_unmanaged(void)
{
    static bool said;
    if (!said)
        ebb_log(EBB_WARN, "ebb serves one context of each device, the first; what another one allocates is "
                          "the driver's, counts "
                          "against the budget and never leaves");
    said = true;
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

static bool is_given_up(CUdevice device)
{
    for (unsigned i = 0; i < ebb_process.device_count; i++)
        if (ebb_process.device[i].failed && ebb_process.device[i].device == device)
            return true;
    return false;
}

/* What could not be given back when an earlier context of the device was gone already. */
static void give_back_leftovers(CUdevice device)
{
    for (unsigned i = 0; i < ebb_process.device_count; i++) {
        if (!ebb_process.device[i].leftovers || ebb_process.device[i].device != device)
            continue;
        const unsigned now = ebb_slot_swap(i);
        ebb_process.device[i].leftovers = false;
        ebb_heap_abandon(ebb_here, ebb_run_freeing);
        ebb_run_ended(ebb_here);
        ebb_here = &ebb_process.device[now];
    }
}

/* A context, the current one, that has no slot. */
static void meet(CUcontext context)
{
    CUdevice device;
    size_t free_bytes, total = 0;
    ebb_here = &ebb_process.device[EBB_NOWHERE];
    /* The second question fails in a context that has been destroyed and is still current. */
    if (ebb_driver.cuCtxGetDevice(&device) || is_given_up(device))
        return;
    if (ebb_slot_of_device(ebb_here->ebb, device) == EBB_NOWHERE) {
        if (ebb_driver.cuMemGetInfo_v2(&free_bytes, &total))
            return;
        give_back_leftovers(device);
        ebb_here = &ebb_process.device[ebb_slot_open(ebb_here->ebb, context, device)];
    }
    if (ebb_here->number == EBB_NOWHERE) {
        say_unmanaged();
    } else if (set_up(device, total)) {
        ebb_log(EBB_WARN, "%s: ebb leaves device %d alone, the program runs on it as without ebb",
                ebb_last_failure(), device);
        ebb_here->context = NULL;
        ebb_here->failed = true;
        ebb_here = &ebb_process.device[EBB_NOWHERE];
    }
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
    return (atomic_load_explicit(&awake, memory_order_acquire) ||
            (ebb_have_driver() && atomic_load_explicit(&awake, memory_order_acquire))) &&
           !is_own();
}

bool ebb_call_again(CUresult result)
{
    return !is_own() && ebb_pinned_call_again(result != CUDA_SUCCESS);
}

static _Thread_local struct {
    bool to_ask;
    CUdeviceptr to_free;
} entering;

void ebb_enter_to_ask(void)
{
    entering.to_ask = true;
}

void ebb_enter_to_free(CUdeviceptr address)
{
    entering.to_free = address;
}

static void shrink(void)
{
    ebb_run_interrupted(ebb_here, "what is held beside ebb's memory has grown");
    ebb_heap_shrink(ebb_here);
}

void ebb_measure(void)
{
    if (!ebb_heap_measure(ebb_here))
        shrink();
}

/* True: the lock is held, and ebb_here->number is the current context's. Nothing of this call is in preparation yet, so that plans may
 * end here. False also if another thread holds it, unless it is to be waited for. */
static bool begin_if(bool wait)
{
    CUcontext context;
    const bool to_ask = entering.to_ask;
    const CUdeviceptr to_free = entering.to_free;
    entering.to_ask = false;
    entering.to_free = 0;
    if (!ebb_is_awake() || !(context = current_context()))
        return false;
    if (wait)
        ebb_lock();
    else if (!ebb_try_lock())
        return false;
    if (ebb_here->context != context) {
        ebb_here = &ebb_process.device[ebb_slot_of_context(&ebb_process, context)];
        if (ebb_here->number == EBB_NOWHERE)
            meet(context);
    }
    ebb_forget_failure();
    if (ebb_broken_count())
        ebb_end_plans(ebb_here, "a condition of ebb's own does not hold");
    ebb_mappings_take_in();
    if (!to_ask)
        ebb_heap_back(ebb_here->ebb, to_free, ebb_run_unbacked);
    if (!ebb_heap_measure_if_due(ebb_here))
        shrink();
    return true;
}

static bool begin(void)
{
    return begin_if(true);
}

/* False, and no lock any more, unless `good`. */
static bool held_if(bool good)
{
    if (!good)
        ebb_unlock();
    return good;
}

bool ebb_enter(void)
{
    return begin() && held_if(ebb_here->number != EBB_NOWHERE);
}

bool ebb_enter_at(CUdeviceptr address)
{
    if (!begin())
        return false;
    if (!ebb_arena_contains(&ebb_process, address))
        return held_if(ebb_here->number != EBB_NOWHERE);
    unsigned slot = ebb_arena_slot(ebb_here->ebb, address);
    return slot == EBB_NOWHERE ||
           held_if(ebb_lock_go_to(slot)); /* of nobody's: whoever looks it up will see */
}

bool ebb_enter_work(void)
{
    return begin();
}

ebb_stream_t *ebb_enter_stream(CUstream stream)
{
    if (!begin())
        return NULL;
    ebb_stream_t *s = ebb_stream_of(ebb_here, stream);
    unsigned slot = ebb_stream_slot(s);
    return held_if(slot != EBB_NOWHERE && ebb_lock_go_to(slot)) ? s : NULL;
}

bool ebb_enter_device(CUdevice device)
{
    if (!ebb_enter_any())
        return false;
    unsigned slot = ebb_slot_of_device(ebb_here->ebb, device);
    return held_if(slot != EBB_NOWHERE && ebb_lock_go_to(slot));
}

bool ebb_enter_any_now(void)
{
    if (!ebb_is_awake() || !ebb_try_lock())
        return false;
    ebb_here = &ebb_process.device[EBB_NOWHERE];
    return true;
}

bool ebb_enter_device_now(CUdevice device)
{
    if (!begin_if(false))
        return false;
    unsigned slot = ebb_slot_of_device(ebb_here->ebb, device);
    return held_if(slot != EBB_NOWHERE && ebb_lock_go_to(slot));
}

bool ebb_enter_context(CUcontext context)
{
    CUcontext none;
    if (!context || !ebb_enter_any())
        return false;
    unsigned slot = ebb_slot_of_context(ebb_here->ebb, context);
    if (slot != EBB_NOWHERE)
        return held_if(ebb_lock_go_to(slot));
    if (!ebb_driver.cuCtxPushCurrent_v2 || ebb_driver.cuCtxPushCurrent_v2(context))
        return held_if(false);
    meet(context);
    if (ebb_here->number == EBB_NOWHERE)
        ebb_driver.cuCtxPopCurrent_v2(&none);
    else
        ebb_lock_pushed();
    return held_if(ebb_here->number != EBB_NOWHERE);
}

bool ebb_enter_beside(void)
{
    CUdevice device;
    if (!begin())
        return false;
    unsigned slot = ebb_here->number == EBB_NOWHERE && !ebb_driver.cuCtxGetDevice(&device)
                        ? ebb_slot_of_device(ebb_here->ebb, device)
                        : EBB_NOWHERE;
    return held_if(slot != EBB_NOWHERE && ebb_lock_go_to(slot));
}

bool ebb_enter_any(void)
{
    if (begin())
        return true;
    if (!ebb_is_awake())
        return false;
    ebb_lock();
    ebb_here = &ebb_process.device[EBB_NOWHERE];
    return true;
}

bool ebb_enter_goes_on(unsigned slot)
{
    return ebb_lock_go_to(slot);
}

bool ebb_enter_is_inside(void)
{
    return ebb_here->number != EBB_NOWHERE;
}

CUcontext ebb_context(void)
{
    return ebb_here->context;
}

bool ebb_is_context(CUcontext context)
{
    if (!ebb_is_awake())
        return false;
    ebb_lock();
    bool served = ebb_slot_of_context(ebb_here->ebb, context) != EBB_NOWHERE;
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
    CUcontext context[EBB_SLOTS], none;
    unsigned count = 0;
    CUresult result = CUDA_SUCCESS;
    ebb_lock();
    for (unsigned i = 0; i < ebb_process.device_count; i++)
        if (ebb_process.device[i].context)
            context[count++] = ebb_process.device[i].context;
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
void ebb_context_ends(void)
{
    ebb_run_interrupted(ebb_here, "the context is destroyed");
    ebb_wait_for_device();
    ebb_streams_end(ebb_here);
    ebb_heap_abandon(ebb_here, ebb_run_freeing);
    ebb_run_ended(ebb_here);
    ebb_here->context = NULL;
    ebb_log(EBB_INFO, "device %d: the context is destroyed, ebb's work in it ends", ebb_here->device);
}

void ebb_context_gone(CUdevice device)
{
    ebb_lock();
    ebb_here = &ebb_process.device[ebb_slot_of_device(ebb_here->ebb, device)];
    if (ebb_here->number != EBB_NOWHERE) {
        ebb_streams_end(ebb_here);
        ebb_here->context = NULL;
        ebb_here->leftovers = true;
        ebb_log(EBB_INFO, "device %d: the context is gone, ebb's work in it ends", device);
    }
    ebb_unlock();
}

/* ---- operations ---- */

/* On a stream of a context that ebb does not serve: what it touches of ebb's memory can neither be ordered nor be
 * taken away. */
static CUresult issue_outside(const ebb_operation_t *op, CUresult (*issue)(const void *context),
                              const void *context)
{
    for (uint32_t i = 0; i < op->access_count; i++)
        if (!op->access[i].buffer->pinned)
            EBB_TRY(ebb_buffer_pin(op->access[i].buffer));
    return ebb_lock_step_out(issue, context);
}

/* Buffers of other devices than the stream's are pinned until the operation is issued; then it counts as a use of
 * them, behind which their own device puts what it does with them. */
static void let_go(const ebb_operation_t *op, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        if (op->access[i].buffer->range->device->number != ebb_here->number)
            ebb_buffer_release(op->access[i].buffer);
}

static ebb_status_t bring(const ebb_operation_t *op)
{
    for (uint32_t i = 0; i < op->access_count; i++) {
        ebb_buffer_t *b = op->access[i].buffer;
        ebb_status_t status = b->range->device->number == ebb_here->number ? 0 : ebb_buffer_pin(b);
        if (status) {
            let_go(op, i);
            return status;
        }
    }
    return 0;
}

static void note_use(const ebb_operation_t *op)
{
    ebb_mark_t mark = ebb_mark_issue(op->stream);
    if (ebb_process.device_count == 1) {
        ebb_operation_touch(ebb_here, op, mark);
    } else {
        for (uint32_t i = 0; i < op->access_count; i++) {
            ebb_buffer_t *b = op->access[i].buffer;
            const unsigned own = ebb_slot_swap(b->range->device->number);
            b->abroad |= b->range->device->number != own;
            ebb_buffer_touch(b, mark);
            ebb_here = &ebb_process.device[own];
        }
    }
    if (op->opaque)
        ebb_buffers_touch(ebb_here, mark);
}

static CUresult issue_inside(ebb_operation_t *op, CUresult (*issue)(const void *context), const void *context)
{
    EBB_TRY(ebb_run_before(ebb_here, op));
    CUresult result = ebb_lock_step_out(issue, context);
    if (!result)
        note_use(op);
    ebb_run_after(ebb_here, op, result);
    return result;
}

CUresult ebb_issue(ebb_operation_t *op, CUresult (*issue)(const void *context), const void *context)
{
    const unsigned slot = ebb_stream_slot(op->stream);
    if (slot == EBB_NOWHERE || !ebb_lock_go_to(slot))
        return issue_outside(op, issue, context);
    if (ebb_captures_under_way() && ebb_is_capturing(ebb_stream_handle(op->stream))) {
        EBB_TRY(ebb_capture_note(op));
        return ebb_lock_step_out(issue,
                                 context); /* what the program may not do while capturing, it is told */
    }
    if (ebb_process.device_count == 1)
        return issue_inside(op, issue, context);
    EBB_TRY(bring(op));
    CUresult result = issue_inside(op, issue, context);
    let_go(op, op->access_count);
    return result;
}

__attribute__((destructor)) static void at_exit(void)
{
    if (atomic_load(&asleep))
        return;
    ebb_ahead_stop(&ebb_process);
    ebb_offload_stop(&ebb_process);
    if (!ebb_lock_at_exit()) {
        ebb_log(EBB_INFO, "the process ends in another thread's call: there are no statistics");
        return;
    }
    if (ebb_process.device_count)
        ebb_stats_finish(ebb_here);
    ebb_unlock();
}
