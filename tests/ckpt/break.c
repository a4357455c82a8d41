/* break.c: a libebb of the tests' own in which an invariant is broken at a given operation. It is linked like the product, with
 * two of its functions wrapped by the linker (CMakeLists.txt). TEST_BREAK tells where:
 *
 *   drive:STEP:OPERATION   behind that operation of that driven step, both counted from 0
 *   learn:OPERATION        behind so many operations that are learned
 *
 * Three times in a row, under ebb's lock; with TEST_BREAK_THREAD=1 by another thread, which has no lock.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "ckpt/run/drive/drive_state.h"
#include "ckpt/run/profile/learn.h"

void __real_ebb_drive_after(ebb_device_t *dev, const ebb_operation_t *op, bool issued);
void __wrap_ebb_drive_after(ebb_device_t *dev, const ebb_operation_t *op, bool issued);
void __real_ebb_learn_after(ebb_device_t *dev, const ebb_operation_t *op, CUresult result);
void __wrap_ebb_learn_after(ebb_device_t *dev, const ebb_operation_t *op, CUresult result);

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
        ebb_driven(&ebb_process)->step == step && ebb_driven(&ebb_process)->cursor == operation)
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
