/* ahead.c: a thread that creates chunks before they are asked for, because creating one takes long (about 190 us on
 * an A100). It takes ebb_lock() only to say what it is about to do and what it has got; the program's threads never
 * wait for the driver on its account. It starts when the program first makes ebb create a chunk, takes no signals
 * and ends with the process; in the child of a fork it does not exist and is not missed (core.c: asleep). */
#include "ahead.h"

#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <time.h>

#include "chunk.h"
#include "driver.h"
#include "log.h"

static struct helper {
    bool tried, running;
    unsigned slot_of; /* the device it works for */
    CUdevice device;
    pthread_t thread;
    CUcontext context; /* of the program's thread that made this one start */
    sem_t wake;
    atomic_bool stop;
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
    while (!atomic_load(&a->stop) && ebb_chunks_begin_ahead()) {
        atomic_store(&a->slot, CREATING);
        ebb_unlock();
        a->created = ebb_chunk_handle(a->device, &a->handle) == 0;
        atomic_store(&a->slot, DONE);
        lock_for(a);
        hand_over(); /* unless somebody has been quicker */
    }
    ebb_unlock();
}

static void *run(void *mine)
{
    struct helper *a = mine;
    /* Nothing is said about whether cuMemCreate needs a current context. */
    if (ebb_driver.cuCtxPushCurrent_v2)
        ebb_driver.cuCtxPushCurrent_v2(a->context);
    while (!atomic_load(&a->stop)) {
        if (!sem_wait(&a->wake))
            create_what_is_wanted(a);
    }
    return NULL;
}

static bool start(void)
{
    sigset_t all, before;
    if (sem_init(&ahead.wake, 0, 0) || ebb_driver.cuCtxGetCurrent(&ahead.context))
        return false;
    ahead.slot_of = ebb_slot;
    ahead.device = ebb_chunk_device();
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    bool started = !pthread_create(&ahead.thread, NULL, run, &ahead);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (started)
        pthread_setname_np(ahead.thread, "ebb-chunks");
    else
        ebb_log(EBB_INFO, "no thread to create chunks ahead of need");
    return started;
}

void ebb_ahead_wake(void)
{
    if (!ahead.tried) {
        ahead.tried = true;
        ahead.running = start();
    }
    if (ahead.running)
        sem_post(&ahead.wake);
}

static void stop(struct helper *a)
{
    if (!a->running)
        return;
    a->running = false;
    atomic_store(&a->stop, true);
    sem_post(&a->wake);
    /* The driver may be going away under it: the process must end in any case. */
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += 1;
    pthread_timedjoin_np(a->thread, NULL, &until);
}

void ebb_ahead_stop(void)
{
    for (unsigned i = 0; i < EBB_SLOTS; i++)
        stop(&aheads[i]);
}
