/* core.c: the life of ebb in a process: asleep until a driver is looked up, set up when the first context
 * needs it, silent in the children of a fork. */
#include "core.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

#include "ahead.h"
#include "arena.h"
#include "chunk.h"
#include "heap.h"
#include "hook.h"
#include "log.h"
#include "mark.h"
#include "options.h"
#include "overhead.h"

extern char **environ;

const ebb_listener_t *ebb_listener;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static atomic_bool have_driver; /* the table is filled */
static atomic_bool asleep; /* for ever: no usable driver, bad options under EBB_STRICT, or a forked child */

static atomic_bool program_failed;

static struct {
    bool ready, failed;
    CUcontext context;
    size_t budget_bytes;
} core;

void ebb_lock(void)
{
    pthread_mutex_lock(&lock);
}

void ebb_unlock(void)
{
    pthread_mutex_unlock(&lock);
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
    CUdevice device = 0;
    size_t free_bytes, total;
    EBB_DRIVER(cuCtxGetDevice, 0, (&device));
    EBB_DRIVER(cuMemGetInfo, 0, (&free_bytes, &total));
    core.budget_bytes = resolve_budget(total);
    /* What is gone already: the context's and the program's own, and other processes' where that cannot be told. */
    size_t others = ebb_overhead_bytes(device, 0) + (size_t)ebb_options.reserve;
    ebb_chunks_init(device, core.budget_bytes, others);
    ebb_chunks_follow((size_t)ebb_options.reserve, ebb_options.prealloc);
    EBB_TRY(ebb_arena_reserve(total));
    core.context = context;
    ebb_log(EBB_INFO, "budget %zu MiB, of which %zu MiB are not ebb's to give", core.budget_bytes >> 20,
            others >> 20);
    return 0;
}

bool ebb_enter(void)
{
    CUcontext context = NULL;
    if (!ebb_have_driver() || atomic_load(&asleep) || ebb_driver.cuCtxGetCurrent(&context) || !context)
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
    ebb_unlock();
    return false;
}

CUresult ebb_issue(ebb_operation_t *op, CUresult (*issue)(const void *context), const void *context)
{
    if (ebb_listener && ebb_listener->before)
        EBB_TRY(ebb_listener->before(op));
    CUresult result = issue(context);
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
