/* pin_ahead.c: a thread that pins host memory before it is asked for: pinning a GiB takes 0.1 s and more, and what evicts has the lock.
 * It takes ebb_lock() only to say what it is about to do and what it has got. It starts when something is first expected. */
#include "offload/pin_ahead.h"

#include <stdatomic.h>
#include <string.h>
#include <time.h>

#include "alloc/device.h"
#include "alloc/base/driver.h"
#include "alloc/base/options.h"
#include "alloc/base/thread.h"
#include "alloc/ebb_alloc.h"

enum { MOST = 32 };

/* What the thread does. It fills `made` and `status` while it works; the rest is guarded by the lock. */
static struct {
    _Atomic enum { IDLE, WORKING, DONE } state;
    unsigned slot;
    CUcontext context;
    ebb_pin_job_t job;
    ebb_extent_t made;
    ebb_status_t status;
} current;

/* What is expected, the next one first; guarded by the lock. */
static struct {
    size_t bytes[MOST], count;
    bool refused; /* once: a device that has refused one would refuse the next, for ever */
} expected_of[EBB_STATES];

/* ---- under the lock ---- */

/* Of any device: what cannot be kept is unpinned again, in its context. */
static void hand_over(void)
{
    CUcontext none;
    if (atomic_load(&current.state) != DONE)
        return;
    if (!current.job.unpin && !current.status)
        current.job.extent = current.made;
    const unsigned now = ebb_slot_swap(current.slot);
    const bool pushed = !ebb_driver.cuCtxPushCurrent_v2(current.context);
    if (!ebb_pinned_end_ahead(&current.job, current.status))
        expected_of[ebb_here->number].refused = true;
    if (pushed)
        ebb_driver.cuCtxPopCurrent_v2(&none);
    ebb_here = &ebb_process.device[now];
    atomic_store(&current.state, IDLE);
}

bool ebb_pin_ahead_has(size_t rounded)
{
    return atomic_load(&current.state) != IDLE && current.slot == ebb_here->number && !current.job.unpin &&
           current.job.extent.bytes == rounded;
}

bool ebb_pin_ahead_collect(void)
{
    if (atomic_load(&current.state) == IDLE)
        return false;
    while (atomic_load(&current.state) == WORKING)
        nanosleep(&(struct timespec){.tv_nsec = 20000}, NULL);
    hand_over();
    return true;
}

/* What there is to do for the present device. */
static bool find_next(ebb_pin_job_t *job)
{
    return !expected_of[ebb_here->number].refused &&
           ebb_pinned_next_ahead(expected_of[ebb_here->number].bytes, expected_of[ebb_here->number].count,
                                 job);
}

static bool begin_any(void)
{
    const unsigned now = ebb_here->number;
    bool begun = false;
    for (unsigned slot = 0; slot < ebb_process.device_count && !begun; slot++) {
        ebb_here = &ebb_process.device[slot];
        if (!ebb_process.device[slot].context || !find_next(&current.job))
            continue;
        ebb_pinned_begin_ahead(&current.job);
        current.slot = slot;
        current.context = ebb_process.device[slot].context;
        atomic_store(&current.state, WORKING);
        begun = true;
    }
    ebb_here = &ebb_process.device[now];
    return begun;
}

/* ---- the thread ---- */

static void do_job(void)
{
    CUcontext none;
    const ebb_pin_job_t *job = &current.job;
    current.status = (ebb_status_t)ebb_driver.cuCtxPushCurrent_v2(current.context);
    if (!current.status) {
        current.status = job->unpin ? ebb_extent_delete(&job->extent)
                                    : ebb_extent_make(job->place, job->extent.bytes, &current.made);
        ebb_driver.cuCtxPopCurrent_v2(&none);
    }
    atomic_store(&current.state, DONE);
}

static void pin_what_is_expected(void *thread)
{
    ebb_lock();
    while (!ebb_thread_ends(thread) && begin_any()) {
        ebb_unlock();
        do_job();
        ebb_lock();
        hand_over(); /* unless somebody has been quicker */
    }
    ebb_unlock();
}

static ebb_thread_t thread = {.name = "ebb-pins", .work = pin_what_is_expected, .argument = &thread};

void ebb_pinned_expect(const size_t *bytes, size_t count)
{
    ebb_pin_job_t next;
    count = !ebb_options.prealloc ? 0 : count < MOST ? count : MOST;
    expected_of[ebb_here->number].count = count;
    if (count)
        memcpy(expected_of[ebb_here->number].bytes, bytes, count * sizeof *bytes);
    if (ebb_driver.cuCtxPushCurrent_v2 && ebb_driver.cuCtxPopCurrent_v2 && find_next(&next))
        ebb_thread_wake(&thread);
}

__attribute__((destructor)) static void stop(void)
{
    ebb_thread_stop(&thread);
}
