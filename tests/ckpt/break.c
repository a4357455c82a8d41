/* break.c: a libebb of the tests' own, linked like the product, with some of its functions wrapped by the linker (CMakeLists.txt). An
 * invariant is broken in it at a given operation. TEST_BREAK tells where:
 *
 *   drive:STEP:OPERATION   behind that operation of that driven step, both counted from 0
 *   learn:OPERATION        behind so many operations that are learned
 *   check:N                in the first N plans of its own that it checks: they are refused
 *
 * The first two three times in a row, under ebb's lock; with TEST_BREAK_THREAD=1 by another thread, which has no lock.
 *
 * TEST_PLANS=N: only so many plans are found. And it tells what is pinned, above a MiB, while a plan is installed: with the lock held.
 *
 * TEST_PLAN_STEPS=N: a plan is made until the program has come to so many further boundaries of its steps, or until it is given up. There the
 * program waits for it. TEST_FIRST_STEPS=N: the same between what is found first and the search for a better one.
 * TEST_NO_THREADS=1: no thread of ebb's can be had.
 */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "ckpt/planner/planner.h"
#include "ckpt/run/drive/internal.h"
#include "ckpt/run/internal.h"
#include "ckpt/run/profile/profile.h"
#include "ckpt/run/tracker/tracker.h"
#include "offload/internal.h"

/* What the linker wraps, declared as in the library's own headers. */
#define WRAPPED(name) extern __typeof__(name) __real_##name, __wrap_##name
WRAPPED(ebb_drive_after);
WRAPPED(ebb_learn_after);
WRAPPED(ebb_drive_install);
WRAPPED(ebb_extent_make);
WRAPPED(ebb_check_plan);
WRAPPED(ebb_planning);
WRAPPED(ebb_stale_begin_step);
WRAPPED(pthread_create);
struct ebb_fates; /* of ckpt/planner/internal.h, which goes with no header of alloc's */
bool __real_ebb_fates_make_reversal(struct ebb_fates *fates, const ebb_model_t *model, uint32_t chunks);
bool __wrap_ebb_fates_make_reversal(struct ebb_fates *fates, const ebb_model_t *model, uint32_t chunks);

static void *break_thrice(void *unused)
{
    for (int tortoise = 0, hare = 1; tortoise < 3; tortoise++)
        EBB_ASSERT(hare < tortoise);
    return unused;
}

static void break_once(void)
{
    static bool broken;
    pthread_t other;
    if (broken)
        return;
    broken = true;
    if (!getenv("TEST_BREAK_THREAD"))
        break_thrice(NULL);
    else if (!pthread_create(&other, NULL, break_thrice, NULL))
        pthread_join(other, NULL);
}

void __wrap_ebb_drive_after(ebb_device_t *dev, const ebb_operation_t *op, bool issued)
{
    unsigned long long step;
    unsigned operation;
    const char *where = getenv("TEST_BREAK");
    if (where && sscanf(where, "drive:%llu:%u", &step, &operation) == 2 && ebb_driven(dev)->step == step &&
        ebb_driven(dev)->cursor == operation)
        break_once();
    __real_ebb_drive_after(dev, op, issued);
}

void __wrap_ebb_learn_after(ebb_device_t *dev, const ebb_operation_t *op, CUresult result)
{
    static unsigned learned;
    unsigned operation;
    const char *where = getenv("TEST_BREAK");
    if (where && sscanf(where, "learn:%u", &operation) == 1 && learned++ == operation)
        break_once();
    __real_ebb_learn_after(dev, op, result);
}

bool __wrap_ebb_check_plan(const ebb_trace_t *trace, const ebb_plan_t *plan, const ebb_check_limits_t *limits,
                           char *why, size_t why_bytes)
{
    static atomic_uint checked;
    unsigned refused;
    const char *where = getenv("TEST_BREAK");
    if (!where || sscanf(where, "check:%u", &refused) != 1 || atomic_fetch_add(&checked, 1) >= refused)
        return __real_ebb_check_plan(trace, plan, limits, why, why_bytes);
    snprintf(why, why_bytes, "content: TEST_BREAK");
    return false;
}

static _Thread_local bool installing;

ebb_status_t __wrap_ebb_drive_install(ebb_device_t *dev, unsigned plan_index, unsigned counted_as,
                                      ebb_recording_t *learned, const ebb_trace_t *trace,
                                      const ebb_plan_t *plan, ebb_buffer_t *const *present)
{
    installing = true;
    const ebb_status_t status =
        __real_ebb_drive_install(dev, plan_index, counted_as, learned, trace, plan, present);
    installing = false;
    return status;
}

ebb_status_t __wrap_ebb_extent_make(ebb_pinning_t *pinning, const ebb_place_t *place, size_t bytes,
                                    ebb_extent_t *out)
{
    if (installing && bytes > 1 << 20)
        fprintf(stderr, "installing a plan pins %zu bytes\n", bytes);
    return __real_ebb_extent_make(pinning, place, bytes, out);
}

/* Boundaries that the program has come to; and those at which a plan that is being made is done, 0: none is. */
static atomic_uint boundaries, until;

static void wait_a_little(void)
{
    nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
}

static void take_steps(const char *steps, const ebb_plan_request_t *request)
{
    if (!steps)
        return;
    const unsigned end = atomic_load(&boundaries) + (unsigned)atoi(steps);
    atomic_store(&until, end);
    while (atomic_load(&boundaries) < end && !atomic_load(request->given_up))
        wait_a_little();
}

void __wrap_ebb_stale_begin_step(ebb_device_t *dev)
{
    const unsigned here = atomic_fetch_add(&boundaries, 1) + 1;
    const bool waits = atomic_load(&until) == here;
    while (atomic_load(&until) == here)
        wait_a_little();
    for (int i = 0; waits && i < 20; i++) /* the thread says that it is done */
        wait_a_little();
    __real_ebb_stale_begin_step(dev);
}

int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *),
                          void *argument)
{
    return getenv("TEST_NO_THREADS") ? EAGAIN : __real_pthread_create(thread, attributes, run, argument);
}

ebb_plan_t *__wrap_ebb_planning(const ebb_trace_t *trace, const ebb_plan_request_t *request, char *why,
                                size_t why_bytes)
{
    static int found;
    const char *most = getenv("TEST_PLANS");
    ebb_plan_t *plan = NULL;
    take_steps(getenv("TEST_PLAN_STEPS"), request);
    if (most && found++ >= atoi(most))
        snprintf(why, why_bytes, "TEST_PLANS");
    else
        plan = __real_ebb_planning(trace, request, why, why_bytes);
    atomic_store(&until, 0);
    return plan;
}

bool __wrap_ebb_fates_make_reversal(struct ebb_fates *fates, const ebb_model_t *model, uint32_t peak)
{
    take_steps(model->request->given_up ? getenv("TEST_FIRST_STEPS") : NULL, model->request);
    return __real_ebb_fates_make_reversal(fates, model, peak);
}
