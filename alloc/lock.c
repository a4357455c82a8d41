/* lock.c: ebb_lock(), and what its holder has changed of its own thread. */
#include "alloc/ebb_alloc.h"

#include "alloc/base/driver.h"
#include "alloc/base/thread.h"
#include "alloc/device.h"

static ebb_mutex_t lock = EBB_MUTEX(EBB_RANK_STATE);

/* Of the thread that holds it. */
static struct {
    unsigned pushed; /* contexts that ebb has made current */
    bool relaxed;    /* ebb has exchanged the thread's capture mode; what it was: */
    CUstreamCaptureMode mode;
} held;

static void relax(void)
{
    held.mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    held.relaxed = !ebb_driver.cuThreadExchangeStreamCaptureMode(&held.mode);
}

static void unrelax(void)
{
    if (held.relaxed)
        ebb_driver.cuThreadExchangeStreamCaptureMode(&held.mode);
    held.relaxed = false;
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
    ebb_mutex_lock(&lock);
    relax_for_captures();
}

bool ebb_try_lock(void)
{
    if (!ebb_mutex_lock_within(&lock, 0))
        return false;
    relax_for_captures();
    return true;
}

bool ebb_lock_at_exit(void)
{
    return ebb_mutex_lock_within(&lock, 1);
}

static void pop_all(void)
{
    CUcontext none;
    for (; held.pushed; held.pushed--)
        ebb_driver.cuCtxPopCurrent_v2(&none);
}

void ebb_unlock(void)
{
    if (held.pushed)
        pop_all();
    unrelax();
    ebb_mutex_unlock(&lock);
}

bool ebb_lock_is_held(void)
{
    return ebb_mutex_is_held(&lock);
}

/* Out of the way of the common case. */
__attribute__((noinline)) static bool go_to_another(ebb_device_t *dev)
{
    ebb_visit_t visit;
    if (!dev->context || ebb_device_visit(dev, &visit))
        return false;
    held.pushed += visit.pushed;
    return true;
}

bool ebb_lock_go_to(ebb_device_t *dev)
{
    return dev == ebb_current_device || go_to_another(dev);
}

void ebb_lock_pushed(void)
{
    held.pushed++;
}

CUresult ebb_lock_step_out(ebb_device_t *dev, CUresult (*issue)(const void *context), const void *context)
{
    bool relaxed = held.relaxed, pushed = held.pushed;
    if (pushed)
        pop_all();
    unrelax();
    CUresult result = issue(context);
    if (relaxed)
        relax();
    if (pushed && !ebb_driver.cuCtxPushCurrent_v2(dev->context))
        held.pushed++;
    return result;
}
