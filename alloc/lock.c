/* lock.c: ebb_lock(), and what its holder has changed of its own thread. */
#include "alloc/ebb_alloc.h"

#include "alloc/base/driver.h"
#include "alloc/base/thread.h"
#include "alloc/device.h"

static struct {
    ebb_mutex_t mutex;
    /* of the thread that holds it: */
    unsigned pushed; /* contexts that ebb has made current */
    bool relaxed;    /* ebb has exchanged the thread's capture mode; what it was: */
    CUstreamCaptureMode mode;
} lock = {.mutex = EBB_MUTEX(EBB_RANK_STATE)};

static void relax(void)
{
    lock.mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    lock.relaxed = !ebb_driver.cuThreadExchangeStreamCaptureMode(&lock.mode);
}

static void unrelax(void)
{
    if (lock.relaxed)
        ebb_driver.cuThreadExchangeStreamCaptureMode(&lock.mode);
    lock.relaxed = false;
}

/* The process is known by whatever device has been current last. */
static void relax_for_captures(void)
{
    const ebb_device_t *dev = ebb_current_device;
    if (dev && ebb_captures_under_way(dev->ebb))
        relax();
}

void ebb_lock(void)
{
    ebb_mutex_lock(&lock.mutex);
    relax_for_captures();
}

bool ebb_try_lock(void)
{
    if (!ebb_mutex_lock_within(&lock.mutex, 0))
        return false;
    relax_for_captures();
    return true;
}

bool ebb_lock_at_exit(void)
{
    return ebb_mutex_lock_within(&lock.mutex, 1);
}

static void pop_all(void)
{
    CUcontext none;
    for (; lock.pushed; lock.pushed--)
        ebb_driver.cuCtxPopCurrent_v2(&none);
}

void ebb_unlock(void)
{
    if (lock.pushed)
        pop_all();
    unrelax();
    ebb_mutex_unlock(&lock.mutex);
}

bool ebb_lock_is_held(void)
{
    return ebb_mutex_is_held(&lock.mutex);
}

/* Out of the way of the common case. */
__attribute__((noinline)) static bool go_to_another(ebb_device_t *dev)
{
    ebb_visit_t visit;
    if (!dev->context || ebb_device_visit(dev, &visit))
        return false;
    lock.pushed += visit.pushed;
    return true;
}

bool ebb_lock_go_to(ebb_device_t *dev)
{
    return dev == ebb_current_device || go_to_another(dev);
}

void ebb_lock_pushed(void)
{
    lock.pushed++;
}

CUresult ebb_lock_step_out(ebb_device_t *dev, CUresult (*issue)(const void *context), const void *context)
{
    bool relaxed = lock.relaxed, pushed = lock.pushed;
    if (pushed)
        pop_all();
    unrelax();
    CUresult result = issue(context);
    if (relaxed)
        relax();
    if (pushed && !ebb_driver.cuCtxPushCurrent_v2(dev->context))
        lock.pushed++;
    return result;
}
