/* pin_ahead.c: pinning without ebb_lock(), for a GiB takes 0.1 s and more. A thread does it before a block is asked for; it starts when
 * something is first expected. A call of the program that wants a block which is not there gives up what it has prepared, does it, and
 * begins again. Both take the lock only to say what they are about to do and what they have got. */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "alloc/base/driver.h"
#include "alloc/base/options.h"
#include "offload/internal.h"

/* ---- under the lock ---- */

/* Of any device: what cannot be kept is unpinned again, in its context. */
static void hand_over(ebb_pin_thread_t *pins)
{
    CUcontext none;
    if (atomic_load(&pins->state) != EBB_PIN_DONE)
        return;
    if (!pins->job.unpin && !pins->status)
        pins->job.extent = pins->made;
    const bool pushed = !ebb_driver.cuCtxPushCurrent_v2(pins->context);
    if (!ebb_pinned_end_ahead(pins->device, &pins->job, pins->status))
        ebb_offload_of(pins->device)->expected.refused = true;
    if (pushed)
        ebb_driver.cuCtxPopCurrent_v2(&none);
    atomic_store(&pins->state, EBB_PIN_IDLE);
}

bool ebb_pin_ahead_has(ebb_device_t *dev, size_t rounded)
{
    const ebb_pin_thread_t *pins = &dev->ebb->offload->pins;
    return atomic_load(&pins->state) != EBB_PIN_IDLE && pins->device == dev && !pins->job.unpin &&
           pins->job.extent.bytes == rounded;
}

static void wait_for_thread(const ebb_pin_thread_t *pins)
{
    while (atomic_load(&pins->state) == EBB_PIN_WORKING)
        nanosleep(&(struct timespec){.tv_nsec = 20000}, NULL);
}

bool ebb_pin_ahead_collect(ebb_t *ebb)
{
    ebb_pin_thread_t *pins = &ebb->offload->pins;
    if (atomic_load(&pins->state) == EBB_PIN_IDLE)
        return false;
    const ebb_away_t away = ebb_lock_leave();
    wait_for_thread(pins);
    ebb_lock_return(away);
    hand_over(pins);
    return true;
}

static bool find_next(ebb_device_t *dev, ebb_pin_job_t *job)
{
    const ebb_expected_t *expected = &ebb_offload_of(dev)->expected;
    return !expected->refused && ebb_pinned_next_ahead(dev, expected->bytes, expected->count, job);
}

static bool begin_any(ebb_t *ebb)
{
    ebb_pin_thread_t *pins = &ebb->offload->pins;
    for (unsigned i = 0; i < ebb->device_count; i++) {
        ebb_device_t *dev = &ebb->device[i];
        ebb_lock_only(0);
        ebb_lock_device(dev);
        if (!dev->context || !find_next(dev, &pins->job))
            continue;
        ebb_pinned_begin_ahead(dev, &pins->job);
        pins->device = dev;
        pins->context = dev->context;
        atomic_store(&pins->state, EBB_PIN_WORKING);
        return true;
    }
    return false;
}

/* ---- without the lock ---- */

static ebb_status_t do_job(ebb_pinning_t *pinning, const ebb_pin_job_t *job, CUcontext context,
                           ebb_extent_t *made)
{
    CUcontext none;
    EBB_DRIVER(cuCtxPushCurrent_v2, 0, (context));
    const ebb_status_t status = job->unpin ? ebb_extent_delete(pinning, &job->extent)
                                           : ebb_extent_make(pinning, job->place, job->extent.bytes, made);
    ebb_driver.cuCtxPopCurrent_v2(&none);
    return status;
}

/* ---- the thread ---- */

static void pin_what_is_expected(void *process)
{
    ebb_t *ebb = process;
    ebb_pin_thread_t *pins = &ebb->offload->pins;
    ebb_lock();
    while (!ebb_thread_ends(&pins->thread) && begin_any(ebb)) {
        ebb_unlock();
        pins->status = do_job(&ebb->offload->pinning, &pins->job, pins->context, &pins->made);
        atomic_store(&pins->state, EBB_PIN_DONE);
        ebb_lock();
        hand_over(pins); /* unless another thread has been quicker */
    }
    ebb_unlock();
}

bool ebb_offload_open(ebb_t *ebb)
{
    ebb->offload = calloc(1, sizeof *ebb->offload);
    if (!ebb->offload)
        return false;
    ebb->offload->pinning = EBB_PINNING;
    snprintf(ebb->offload->pinned.node.name, sizeof ebb->offload->pinned.node.name, EBB_NODE_NAME,
             (unsigned)getuid());
    ebb->offload->pins.thread =
        (ebb_thread_t){.name = "ebb-pins", .work = pin_what_is_expected, .argument = ebb};
    return true;
}

void ebb_offload_stop(ebb_t *ebb)
{
    if (!ebb->offload)
        return;
    atomic_store(&ebb->offload->exiting, true);
    ebb_thread_stop(&ebb->offload->pins.thread);
}

void ebb_pinned_expect(ebb_device_t *dev, const size_t *bytes, size_t count)
{
    ebb_expected_t *expected = &ebb_offload_of(dev)->expected;
    ebb_pin_job_t next;
    count = !ebb_options.prealloc ? 0 : count < EBB_MOST_EXPECTED ? count : EBB_MOST_EXPECTED;
    expected->count = count;
    if (count)
        memcpy(expected->bytes, bytes, count * sizeof *bytes);
    if (ebb_driver.cuCtxPushCurrent_v2 && ebb_driver.cuCtxPopCurrent_v2 && find_next(dev, &next))
        ebb_thread_wake(&dev->ebb->offload->pins.thread);
}

void ebb_pinned_expect_nothing(ebb_device_t *dev)
{
    ebb_pinned_expect(dev, NULL, 0);
    ebb_pin_ahead_collect(dev->ebb);
}

/* ---- a call of the program that wants what is not pinned ---- */

enum { MOST_TRIES = 4 };

_Thread_local ebb_pinned_call_t ebb_pinned_call;

void ebb_pinned_call_is_final(void)
{
    ebb_pinned_call.final = ebb_pinned_call.open = true;
}

bool ebb_pinned_defer(bool defer)
{
    ebb_pinned_call.deferring = defer && !ebb_pinned_call.final;
    return ebb_pinned_call.deferring;
}

bool ebb_pinned_want(ebb_device_t *dev, const size_t *bytes, size_t count, bool content)
{
    ebb_pinned_call_t *call = &ebb_pinned_call;
    if (!call->deferring || call->count)
        return !call->count;
    free(call->bytes);
    call->bytes = malloc((count + 1) * sizeof *call->bytes);
    call->count = call->bytes ? ebb_pinned_missing(dev, bytes, count, content, call->bytes) : 0;
    call->device = dev;
    call->context = dev->context;
    call->open |= call->count != 0;
    return !call->count;
}

bool ebb_pinned_is_wanted(void)
{
    return ebb_pinned_call.count != 0;
}

/* With the lock and the context; false: without the context, which is gone. */
static bool come_back(const ebb_device_t *dev, CUcontext context)
{
    ebb_lock();
    ebb_lock_device(dev);
    return context && !ebb_driver.cuCtxPushCurrent_v2(context);
}

static void step_out(bool pushed)
{
    CUcontext none;
    if (pushed)
        ebb_driver.cuCtxPopCurrent_v2(&none);
    ebb_unlock();
}

/* Once. `again`: it could not be, but others that were cached have made room. */
static bool try_to_pin(ebb_device_t *dev, size_t bytes, CUcontext context, bool *again)
{
    struct ebb_offload *offload = dev->ebb->offload;
    ebb_pin_job_t job;
    bool pushed = come_back(dev, context);
    const bool has = ebb_pin_ahead_has(dev, bytes),
               begun = !has && pushed && ebb_pinned_begin_wanted(dev, bytes, &job);
    step_out(pushed);
    *again = false;
    if (!has && !begun)
        return false;
    if (has)
        wait_for_thread(&offload->pins);
    ebb_thread_lend(true);
    const ebb_status_t status = has ? 0 : do_job(&offload->pinning, &job, context, &job.extent);
    ebb_thread_lend(false);
    pushed = come_back(dev, context);
    if (has)
        hand_over(&offload->pins);
    const bool pinned = has || ebb_pinned_end_ahead(dev, &job, status);
    *again = !pinned && pushed && ebb_pinned_make_room(dev, bytes);
    step_out(pushed);
    return pinned;
}

static bool pin(ebb_device_t *dev, size_t bytes, CUcontext context)
{
    bool pinned, again;
    do
        pinned = try_to_pin(dev, bytes, context, &again);
    while (again);
    return pinned;
}

bool ebb_pinned_call_again(bool failed)
{
    ebb_pinned_call_t *call = &ebb_pinned_call;
    const bool again = failed && call->count;
    bool good = true;
    for (size_t i = 0; i < call->count && good; i++)
        good = pin(call->device, call->bytes[i], call->context);
    free(call->bytes);
    call->bytes = NULL;
    call->count = 0;
    call->tries = again ? call->tries + 1 : 0;
    call->final = again && !(good && call->tries < MOST_TRIES);
    call->open = again;
    return again;
}
