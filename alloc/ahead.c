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
#include "log.h"

static struct {
    bool tried, running;
    pthread_t thread;
    sem_t wake;
    atomic_bool stop;
} ahead;

static void create_what_is_wanted(void)
{
    ebb_lock();
    while (!atomic_load(&ahead.stop) && ebb_chunks_begin_ahead()) {
        ebb_unlock();
        CUmemGenericAllocationHandle handle;
        bool created = ebb_chunk_handle(&handle) == 0;
        ebb_lock();
        if (!ebb_chunks_end_ahead(created ? &handle : NULL))
            break;
    }
    ebb_unlock();
}

static void *run(void *ignored)
{
    while (!atomic_load(&ahead.stop)) {
        if (!sem_wait(&ahead.wake))
            create_what_is_wanted();
    }
    return ignored;
}

static bool start(void)
{
    sigset_t all, before;
    if (sem_init(&ahead.wake, 0, 0))
        return false;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    bool started = !pthread_create(&ahead.thread, NULL, run, NULL);
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

void ebb_ahead_stop(void)
{
    if (!ahead.running)
        return;
    ahead.running = false;
    atomic_store(&ahead.stop, true);
    sem_post(&ahead.wake);
    /* The driver may be going away under it: the process must end in any case. */
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += 1;
    pthread_timedjoin_np(ahead.thread, NULL, &until);
}
