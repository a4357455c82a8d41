/* ahead.c: a thread that creates chunks before they are asked for, because creating one takes long (about 190 us on
 * an A100). It takes ebb_lock() only to say what it is about to do and what it has got; the program's threads never
 * wait for the driver on its account. It starts when the program first makes ebb create a chunk. */
#include "alloc/ahead.h"

#include <stdatomic.h>
#include <time.h>

#include "alloc/base/driver.h"
#include "alloc/base/thread.h"
#include "alloc/chunk.h"

static struct helper {
    ebb_thread_t thread;
    unsigned slot_of; /* the device it works for */
    CUdevice device;
    CUcontext context; /* of the program's thread that made this one start */
    /* The chunk that is being created. Filled by this thread, emptied under ebb_lock() by whoever comes first. */
    _Atomic enum { EMPTY, CREATING, DONE } slot;
    CUmemGenericAllocationHandle handle;
    bool created; /* handle is one */
} aheads[EBB_STATES];
#define ahead (aheads[ebb_slot]) /* under the lock; the thread itself has a pointer */

/* What has been created goes into the pool. Lock held. */
static void hand_over(void)
{
    if (atomic_load(&ahead.slot) != DONE)
        return;
    ebb_chunks_end_ahead(ahead.created ? &ahead.handle : NULL);
    atomic_store(&ahead.slot, EMPTY);
}

bool ebb_ahead_collect(void)
{
    if (atomic_load(&ahead.slot) == EMPTY)
        return false;
    while (atomic_load(&ahead.slot) == CREATING)
        nanosleep(&(struct timespec){.tv_nsec = 20000}, NULL);
    hand_over();
    return true;
}

static void lock_for(const struct helper *a)
{
    ebb_lock();
    ebb_slot = a->slot_of;
}

static void create_what_is_wanted(struct helper *a)
{
    lock_for(a);
    while (!ebb_thread_ends(&a->thread) && ebb_chunks_begin_ahead()) {
        atomic_store(&a->slot, CREATING);
        ebb_unlock();
        a->created = ebb_chunk_handle(a->device, &a->handle) == 0;
        atomic_store(&a->slot, DONE);
        lock_for(a);
        hand_over(); /* unless somebody has been quicker */
    }
    ebb_unlock();
}

/* Nothing is said about whether cuMemCreate needs a current context. */
static void work(void *mine)
{
    struct helper *a = mine;
    CUcontext none;
    const bool pushed = ebb_driver.cuCtxPushCurrent_v2 && !ebb_driver.cuCtxPushCurrent_v2(a->context);
    create_what_is_wanted(a);
    if (pushed)
        ebb_driver.cuCtxPopCurrent_v2(&none);
}

void ebb_ahead_wake(void)
{
    if (!ahead.thread.work) {
        if (ebb_driver.cuCtxGetCurrent(&ahead.context))
            return;
        ahead.slot_of = ebb_slot;
        ahead.device = ebb_chunk_device();
        ahead.thread.name = "ebb-chunks";
        ahead.thread.argument = &ahead;
        ahead.thread.work = work;
    }
    ebb_thread_wake(&ahead.thread);
}

void ebb_ahead_stop(void)
{
    for (unsigned i = 0; i < EBB_SLOTS; i++)
        ebb_thread_stop(&aheads[i].thread);
}
