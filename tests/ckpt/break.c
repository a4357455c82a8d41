/* break.c: a libebb of the tests' own, linked like the product, with some of its functions wrapped by the linker (CMakeLists.txt). An
 * invariant is broken in it at a given operation. TEST_BREAK tells where:
 *
 *   drive:STEP:OPERATION   behind that operation of that driven step, both counted from 0
 *   learn:OPERATION        behind so many operations that are learned
 *
 * Three times in a row, under ebb's lock; with TEST_BREAK_THREAD=1 by another thread, which has no lock.
 *
 * TEST_PLANS=N: only so many plans are found. And it tells what is pinned, above a MiB, while a plan is installed: with the lock held.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

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
    if (where && sscanf(where, "drive:%llu:%u", &step, &operation) == 2 &&
        ebb_driven(dev->ebb)->step == step && ebb_driven(dev->ebb)->cursor == operation)
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

ebb_plan_t *__real_ebb_planning(ebb_device_t *dev, const ebb_trace_t *trace, const ebb_check_limits_t *limits,
                                const ebb_rates_t *rates, const ebb_boundary_t *boundary, char *why,
                                size_t why_bytes);
ebb_plan_t *__wrap_ebb_planning(ebb_device_t *dev, const ebb_trace_t *trace, const ebb_check_limits_t *limits,
                                const ebb_rates_t *rates, const ebb_boundary_t *boundary, char *why,
                                size_t why_bytes);

ebb_plan_t *__wrap_ebb_planning(ebb_device_t *dev, const ebb_trace_t *trace, const ebb_check_limits_t *limits,
                                const ebb_rates_t *rates, const ebb_boundary_t *boundary, char *why,
                                size_t why_bytes)
{
    static int found;
    const char *most = getenv("TEST_PLANS");
    if (most && found++ >= atoi(most)) {
        snprintf(why, why_bytes, "TEST_PLANS");
        return NULL;
    }
    return __real_ebb_planning(dev, trace, limits, rates, boundary, why, why_bytes);
}
