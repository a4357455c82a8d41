/* ahead.c: a thread that creates chunks before they are asked for, because creating one takes long (about 190 us on
 * an A100). It takes ebb_lock() only to say what it is about to do and what it has got; the program's threads never
 * wait for the driver on its account. It starts when the program first makes ebb create a chunk. */
#include "alloc/device.h"

#include <stdatomic.h>
#include <time.h>

#include "alloc/base/driver.h"
#include "alloc/base/thread.h"

/* What has been created goes into the pool. Lock held. */
static void hand_over(ebb_device_t *dev)
{
    if (atomic_load(&dev->ahead.state) != EBB_AHEAD_DONE)
        return;
    ebb_chunks_end_ahead(dev, dev->ahead.created ? &dev->ahead.handle : NULL);
    atomic_store(&dev->ahead.state, EBB_AHEAD_EMPTY);
}

bool ebb_ahead_collect(ebb_device_t *dev)
{
    if (atomic_load(&dev->ahead.state) == EBB_AHEAD_EMPTY)
        return false;
    while (atomic_load(&dev->ahead.state) == EBB_AHEAD_CREATING)
        nanosleep(&(struct timespec){.tv_nsec = 20000}, NULL);
    hand_over(dev);
    return true;
}

static void create_what_is_wanted(ebb_device_t *dev)
{
    ebb_ahead_t *a = &dev->ahead;
    ebb_lock();
    ebb_lock_device(dev);
    while (!ebb_thread_ends(&a->thread) && ebb_chunks_begin_ahead(dev)) {
        atomic_store(&a->state, EBB_AHEAD_CREATING);
        ebb_unlock();
        a->created = ebb_chunk_handle(dev->device, &a->handle) == 0;
        atomic_store(&a->state, EBB_AHEAD_DONE);
        ebb_lock();
        ebb_lock_device(dev);
        hand_over(dev); /* unless another thread has done so */
    }
    ebb_unlock();
}

/* Nothing is said about whether cuMemCreate needs a current context. */
static void work(void *mine)
{
    ebb_device_t *dev = mine;
    CUcontext none;
    const bool pushed = ebb_driver.cuCtxPushCurrent_v2 && !ebb_driver.cuCtxPushCurrent_v2(dev->ahead.context);
    create_what_is_wanted(dev);
    if (pushed)
        ebb_driver.cuCtxPopCurrent_v2(&none);
}

void ebb_ahead_wake(ebb_device_t *dev)
{
    if (!dev->ahead.thread.work) {
        if (ebb_driver.cuCtxGetCurrent(&dev->ahead.context))
            return;
        dev->ahead.thread.name = "ebb-chunks";
        dev->ahead.thread.argument = dev;
        dev->ahead.thread.work = work;
    }
    ebb_thread_wake(&dev->ahead.thread);
}

void ebb_ahead_stop(ebb_t *ebb)
{
    for (unsigned i = 0; i < EBB_DEVICES; i++)
        ebb_thread_stop(&ebb->device[i].ahead.thread);
}
