/* pin_ahead.c: pinning without ebb_lock(), for a GiB takes 0.1 s and more. A thread does it before a block is asked for; it starts when
 * something is first expected. A call of the program that wants a block which is not there gives up what it has prepared, does it, and
 * begins again. Both take the lock only to say what they are about to do and what they have got. */
#include "offload/pin_ahead.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "alloc/base/driver.h"
#include "alloc/base/options.h"
#include "alloc/base/thread.h"
#include "alloc/device.h"
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

static void wait_for_thread(void)
{
    while (atomic_load(&current.state) == WORKING)
        nanosleep(&(struct timespec){.tv_nsec = 20000}, NULL);
}

bool ebb_pin_ahead_collect(void)
{
    if (atomic_load(&current.state) == IDLE)
        return false;
    wait_for_thread();
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

/* ---- without the lock ---- */

static ebb_status_t do_job(const ebb_pin_job_t *job, CUcontext context, ebb_extent_t *made)
{
    CUcontext none;
    EBB_DRIVER(cuCtxPushCurrent_v2, 0, (context));
    const ebb_status_t status =
        job->unpin ? ebb_extent_delete(&job->extent) : ebb_extent_make(job->place, job->extent.bytes, made);
    ebb_driver.cuCtxPopCurrent_v2(&none);
    return status;
}

/* ---- the thread ---- */

static void pin_what_is_expected(void *thread)
{
    ebb_lock();
    while (!ebb_thread_ends(thread) && begin_any()) {
        ebb_unlock();
        current.status = do_job(&current.job, current.context, &current.made);
        atomic_store(&current.state, DONE);
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

/* ---- a call of the program that wants what is not pinned ---- */

enum { MOST_TRIES = 4 };

static _Thread_local struct {
    bool final, deferring;
    unsigned tries, slot;
    CUcontext context;    /* the slot's */
    size_t *bytes, count; /* owns; what is wanted there */
} call __attribute__((tls_model("initial-exec")));
_Thread_local bool ebb_pinned_call_open;

void ebb_pinned_call_is_final(void)
{
    call.final = ebb_pinned_call_open = true;
}

bool ebb_pinned_defer(bool defer)
{
    call.deferring = defer && !call.final;
    return call.deferring;
}

bool ebb_pinned_want(const size_t *bytes, size_t count, bool content)
{
    if (!call.deferring || call.count)
        return !call.count;
    free(call.bytes);
    call.bytes = malloc((count + 1) * sizeof *call.bytes);
    call.count = call.bytes ? ebb_pinned_missing(bytes, count, content, call.bytes) : 0;
    call.slot = ebb_here->number;
    call.context = ebb_here->context;
    ebb_pinned_call_open |= call.count != 0;
    return !call.count;
}

bool ebb_pinned_is_wanted(void)
{
    return call.count != 0;
}

/* With the lock, at the slot of what is wanted. */
typedef struct place {
    unsigned from;
    bool pushed;
} place_t;

static place_t come_back(CUcontext context)
{
    ebb_lock();
    const unsigned from = ebb_slot_swap(call.slot);
    return (place_t){from, context && !ebb_driver.cuCtxPushCurrent_v2(context)};
}

static void step_out(place_t place)
{
    CUcontext none;
    if (place.pushed)
        ebb_driver.cuCtxPopCurrent_v2(&none);
    ebb_slot_swap(place.from);
    ebb_unlock();
}

/* Once. `again`: it could not be, but others that were cached have made room. */
static bool try_to_pin(size_t bytes, CUcontext context, bool *again)
{
    ebb_pin_job_t job;
    place_t place = come_back(context);
    const bool has = ebb_pin_ahead_has(bytes),
               begun = !has && place.pushed && ebb_pinned_begin_wanted(bytes, &job);
    step_out(place);
    *again = false;
    if (!has && !begun)
        return false;
    if (has)
        wait_for_thread();
    ebb_thread_lend(true);
    const ebb_status_t status = has ? 0 : do_job(&job, context, &job.extent);
    ebb_thread_lend(false);
    place = come_back(context);
    if (has)
        hand_over();
    const bool pinned = has || ebb_pinned_end_ahead(&job, status);
    *again = !pinned && place.pushed && ebb_pinned_make_room(bytes);
    step_out(place);
    return pinned;
}

static bool pin(size_t bytes)
{
    bool pinned, again;
    do
        pinned = try_to_pin(bytes, call.context, &again);
    while (again);
    return pinned;
}

bool ebb_pinned_call_again(bool failed)
{
    const bool again = failed && call.count;
    bool good = true;
    for (size_t i = 0; i < call.count && good; i++)
        good = pin(call.bytes[i]);
    free(call.bytes);
    call.bytes = NULL;
    call.count = 0;
    call.tries = again ? call.tries + 1 : 0;
    call.final = again && !(good && call.tries < MOST_TRIES);
    ebb_pinned_call_open = again;
    return again;
}
