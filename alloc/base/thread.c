#include "alloc/base/thread.h"

#include <signal.h>
#include <time.h>
#include <unistd.h>

#include "alloc/base/status.h"

_Thread_local ebb_this_thread_t ebb_this_thread;

/* ---- locks with ranks ---- */

bool ebb_mutex_lock_within(ebb_mutex_t *m, unsigned seconds)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += seconds;
    if (ebb_this_thread.ranks >> m->rank || pthread_mutex_timedlock(&m->mutex, &until))
        return false;
    ebb_this_thread.ranks |= 1u << m->rank;
    return true;
}

/* ---- threads of ebb's own ---- */

bool ebb_thread_is_own(void)
{
    return ebb_this_thread.own;
}

/* Some thread may capture in the mode that forbids others what ebb does. */
void ebb_thread_lend(bool lent)
{
    ebb_this_thread_t *t = &ebb_this_thread;
    if (lent)
        t->other_mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    t->own = true;
    ebb_driver.cuThreadExchangeStreamCaptureMode(&t->other_mode);
    t->own = lent;
}

static void *run(void *thread)
{
    ebb_thread_t *t = thread;
    ebb_thread_lend(true);
    while (!ebb_thread_ends(t))
        if (!sem_wait(&t->wake))
            t->work(t->argument);
    return NULL;
}

static bool start(ebb_thread_t *t)
{
    sigset_t all, before;
    if (sem_init(&t->wake, 0, 0))
        return false;
    t->process = getpid();
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    const bool started = !pthread_create(&t->thread, NULL, run, t);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (started)
        pthread_setname_np(t->thread, t->name);
    else
        ebb_log(EBB_INFO, "the thread %s, which works beside the program, cannot be had", t->name);
    return started;
}

void ebb_thread_wake(ebb_thread_t *t)
{
    if (!t->tried) {
        t->tried = true;
        t->running = start(t);
    }
    if (t->running)
        sem_post(&t->wake);
}

bool ebb_thread_ends(const ebb_thread_t *t)
{
    return atomic_load(&t->stop);
}

void ebb_thread_stop(ebb_thread_t *t)
{
    struct timespec until;
    if (!t->running || ebb_thread_ends(t) || t->process != getpid())
        return;
    atomic_store(&t->stop, true);
    sem_post(&t->wake);
    /* The driver may be going away under it: the process must end in any case. */
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += 1;
    pthread_timedjoin_np(t->thread, NULL, &until);
}
