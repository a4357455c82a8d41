/* thread.h: threads of ebb's own, which do ahead of need what takes long. For every room.
 *
 * Such a thread takes no signals, works when it is woken, and ends with the process; in the child of a fork it does not exist and is not
 * missed (hook/enter.c: asleep). What comes back out of the driver on it (a profiler's call, say) is none of the program's and goes straight
 * through, as on a thread that holds ebb_lock(): whoever holds that may be waiting for this thread.
 */
#ifndef EBB_THREAD_H
#define EBB_THREAD_H

#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/types.h>

typedef struct ebb_thread {
    const char *name; /* at most 15 characters */
    void (*work)(void *argument);
    void *argument;
    /* thread.c's; zero at first */
    bool tried, running;
    pid_t process;
    pthread_t thread;
    sem_t wake;
    atomic_bool stop;
} ebb_thread_t;

/* `work` is called once more; the first time, the thread is started. If it cannot be, nothing happens. ebb_lock() held. */
void ebb_thread_wake(ebb_thread_t *thread);
/* For `work`: it shall return soon. */
bool ebb_thread_ends(const ebb_thread_t *thread);
/* Ends it, for the end of the process. ebb_lock() not held. */
void ebb_thread_stop(ebb_thread_t *thread);

/* The program's thread does something of ebb's without the lock, as one of these would, or does so no more. */
void ebb_thread_lend(bool lent);
/* Whether the caller is one, or lent. */
bool ebb_thread_is_own(void);

#endif
