/* break.c: a libebb of the tests' own, linked like the product, with some of its functions wrapped by the linker (CMakeLists.txt). An
 * invariant is broken in it at a given operation. TEST_BREAK tells where:
 *
 *   drive:STEP:OPERATION   behind that operation of that driven step, both counted from 0
 *   learn:OPERATION        behind so many operations that are learned
 *
 * Three times in a row, under ebb's lock; with TEST_BREAK_THREAD=1 by another thread, which has no lock.
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
#include "offload/internal.h"

void __real_ebb_drive_after(ebb_device_t *dev, const ebb_operation_t *op, bool issued);
void __wrap_ebb_drive_after(ebb_device_t *dev, const ebb_operation_t *op, bool issued);
void __real_ebb_learn_after(ebb_device_t *dev, const ebb_operation_t *op, CUresult result);
void __wrap_ebb_learn_after(ebb_device_t *dev, const ebb_operation_t *op, CUresult result);
ebb_status_t __real_ebb_drive_install(ebb_device_t *dev, unsigned plan_index, ebb_recording_t *learned,
                                      const ebb_plan_t *plan, ebb_buffer_t *const *present);
ebb_status_t __wrap_ebb_drive_install(ebb_device_t *dev, unsigned plan_index, ebb_recording_t *learned,
                                      const ebb_plan_t *plan, ebb_buffer_t *const *present);
ebb_status_t __real_ebb_extent_make(ebb_pinning_t *pinning, const ebb_place_t *place, size_t bytes,
                                    ebb_extent_t *out);
ebb_status_t __wrap_ebb_extent_make(ebb_pinning_t *pinning, const ebb_place_t *place, size_t bytes,
                                    ebb_extent_t *out);

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

static _Thread_local bool installing;

ebb_status_t __wrap_ebb_drive_install(ebb_device_t *dev, unsigned plan_index, ebb_recording_t *learned,
                                      const ebb_plan_t *plan, ebb_buffer_t *const *present)
{
    installing = true;
    const ebb_status_t status = __real_ebb_drive_install(dev, plan_index, learned, plan, present);
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

ebb_plan_t *__real_ebb_planning(const ebb_trace_t *trace, const ebb_plan_request_t *request, char *why,
                                size_t why_bytes);
ebb_plan_t *__wrap_ebb_planning(const ebb_trace_t *trace, const ebb_plan_request_t *request, char *why,
                                size_t why_bytes);
void __real_ebb_stale_begin_step(ebb_t *ebb);
void __wrap_ebb_stale_begin_step(ebb_t *ebb);
int __real_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *),
                          void *argument);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *),
                          void *argument);

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

void __wrap_ebb_stale_begin_step(ebb_t *ebb)
{
    const unsigned here = atomic_fetch_add(&boundaries, 1) + 1;
    const bool waits = atomic_load(&until) == here;
    while (atomic_load(&until) == here)
        wait_a_little();
    for (int i = 0; waits && i < 20; i++) /* the thread says that it is done */
        wait_a_little();
    __real_ebb_stale_begin_step(ebb);
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

struct ebb_fates;
bool __real_ebb_fates_make_reversal(struct ebb_fates *fates, const ebb_model_t *model, uint32_t peak);
bool __wrap_ebb_fates_make_reversal(struct ebb_fates *fates, const ebb_model_t *model, uint32_t peak);

bool __wrap_ebb_fates_make_reversal(struct ebb_fates *fates, const ebb_model_t *model, uint32_t peak)
{
    take_steps(model->request->given_up ? getenv("TEST_FIRST_STEPS") : NULL, model->request);
    return __real_ebb_fates_make_reversal(fates, model, peak);
}
