/* lock.c: ebb_lock(), and what its holder has changed of its own thread. */
#include "alloc/ebb_alloc.h"

#include "alloc/base/driver.h"
#include "alloc/base/thread.h"
#include "alloc/device.h"

static struct {
    ebb_mutex_t mutex;
    uint32_t kept;       /* devices, a bit for each, of threads that are away from the lock */
    pthread_cond_t back; /* one has come back */
    ebb_away_t held;     /* of the thread that holds it */
} lock = {.mutex = EBB_MUTEX(EBB_RANK_STATE), .back = PTHREAD_COND_INITIALIZER};

static void relax(void)
{
    lock.held.mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    lock.held.relaxed = !ebb_driver.cuThreadExchangeStreamCaptureMode(&lock.held.mode);
}

static void unrelax(void)
{
    if (lock.held.relaxed)
        ebb_driver.cuThreadExchangeStreamCaptureMode(&lock.held.mode);
    lock.held.relaxed = false;
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
    for (; lock.held.pushed; lock.held.pushed--)
        ebb_driver.cuCtxPopCurrent_v2(&none);
}

void ebb_unlock(void)
{
    if (lock.held.pushed)
        pop_all();
    unrelax();
    lock.held.devices = 0;
    ebb_this_thread.device = 0;
    ebb_mutex_unlock(&lock.mutex);
}

/* ---- several devices ---- */

static uint32_t bit_of(const ebb_device_t *dev)
{
    return ebb_is_device(dev) ? (uint32_t)1 << dev->number : 0;
}

/* The thread goes on being in a call of ebb's (ebb_lock_is_held). */
static ebb_away_t set_aside(uint32_t devices)
{
    ebb_away_t away = lock.held;
    away.current = ebb_current_device;
    lock.kept |= devices;
    lock.held = (ebb_away_t){0};
    return away;
}

static void resume(ebb_away_t away, uint32_t devices)
{
    lock.held = away;
    ebb_current_device = away.current;
    lock.kept &= ~devices;
    if (devices)
        pthread_cond_broadcast(&lock.back);
    if (!lock.held.relaxed)
        relax_for_captures(); /* one may have begun meanwhile */
}

bool ebb_has_several_devices(const ebb_t *ebb)
{
    unsigned count = 0;
    for (unsigned i = 0; i < ebb->device_count && count < 2; i++)
        count += ebb->device[i].context != NULL;
    return count > 1;
}

static inline bool stays(void)
{
    const ebb_device_t *dev = ebb_current_device; /* NULL: no call has been about any */
    return !dev || lock.held.stays || !ebb_has_several_devices(dev->ebb);
}

ebb_away_t ebb_lock_leave(void)
{
    if (stays())
        return (ebb_away_t){.stayed = true};
    const ebb_away_t away = set_aside(lock.held.devices);
    pthread_mutex_unlock(&lock.mutex.mutex);
    return away;
}

void ebb_lock_return(ebb_away_t away)
{
    if (away.stayed)
        return;
    pthread_mutex_lock(&lock.mutex.mutex);
    resume(away, away.devices);
}

void ebb_lock_stay(bool stay)
{
    lock.held.stays += stay ? 1 : -1;
}

bool ebb_lock_is_kept(const ebb_device_t *dev)
{
    return lock.kept & bit_of(dev);
}

bool ebb_lock_is_kept_by_any(void)
{
    return lock.kept != 0;
}

/* Two threads that kept what they have would wait for each other. */
__attribute__((noinline)) static void wait_until_back(uint32_t devices)
{
    const ebb_away_t away = set_aside(0);
    while (lock.kept & devices)
        pthread_cond_wait(&lock.back, &lock.mutex.mutex);
    resume(away, 0);
}

uint32_t ebb_lock_device(const ebb_device_t *dev)
{
    const uint32_t before = lock.held.devices, all = before | bit_of(dev);
    if (lock.kept & all)
        wait_until_back(all);
    lock.held.devices = all;
    ebb_this_thread.device = dev->ebb->device_count > 1 && ebb_is_device(dev) ? dev->device + 1 : 0;
    return before;
}

void ebb_lock_only(uint32_t devices)
{
    lock.held.devices = devices;
}

CUresult ebb_await_event(CUevent event)
{
    const ebb_away_t away = ebb_lock_leave();
    const CUresult result = ebb_driver.cuEventSynchronize(event);
    ebb_lock_return(away);
    return result;
}

CUresult ebb_await_stream(CUstream stream)
{
    const ebb_away_t away = ebb_lock_leave();
    const CUresult result = ebb_driver.cuStreamSynchronize(stream);
    ebb_lock_return(away);
    return result;
}

CUresult ebb_await_context(void)
{
    const ebb_away_t away = ebb_lock_leave();
    const CUresult result = ebb_driver.cuCtxSynchronize();
    ebb_lock_return(away);
    return result;
}

bool ebb_lock_is_held(void)
{
    return ebb_mutex_is_held(&lock.mutex);
}

/* Out of the way of the common case. */
__attribute__((noinline)) static bool go_to_another(ebb_device_t *dev)
{
    ebb_visit_t visit;
    ebb_lock_only(0);
    if (!dev->context || ebb_device_visit(dev, &visit))
        return false;
    lock.held.pushed += visit.pushed;
    return true;
}

bool ebb_lock_go_to(ebb_device_t *dev)
{
    return dev == ebb_current_device || go_to_another(dev);
}

void ebb_lock_pushed(void)
{
    lock.held.pushed++;
}

/* Out of the way of the common case. */
__attribute__((noinline)) static CUresult issue_away(CUresult (*issue)(const void *context),
                                                     const void *context)
{
    const ebb_away_t away = ebb_lock_leave();
    const CUresult result = issue(context);
    ebb_lock_return(away);
    return result;
}

CUresult ebb_lock_step_out(ebb_device_t *dev, CUresult (*issue)(const void *context), const void *context)
{
    bool relaxed = lock.held.relaxed, pushed = lock.held.pushed;
    if (pushed)
        pop_all();
    unrelax();
    const CUresult result = stays() ? issue(context) : issue_away(issue, context);
    if (relaxed && !lock.held.relaxed)
        relax();
    if (pushed && !ebb_driver.cuCtxPushCurrent_v2(dev->context))
        lock.held.pushed++;
    return result;
}
