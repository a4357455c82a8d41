/* thread.h: threads and locks, and what is known of each thread. */
#ifndef EBB_THREAD_H
#define EBB_THREAD_H

#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/types.h>

#include "alloc/base/driver.h"
#include "alloc/base/status.h"

/* ---- what is known of a thread ---- */

/* The program's call passes nothing of ebb's, so what lasts longer than a call, or is below the lock, is kept by the thread itself. */
typedef struct ebb_this_thread {
    unsigned ranks; /* a bit per rank of the locks that it holds */
    bool own;       /* ebb_thread_is_own */
    int device; /* 1 + the driver's number of the device that its call is about, for the log; 0: of none, or there is one only (lock.c) */
    CUstreamCaptureMode other_mode; /* than the present one, while it is lent */
    /* status.c: what failed last, and as a text */
    struct {
        ebb_status_t code; /* 0: nothing */
        const char *operation;
        size_t bytes;
        char text[160];
    } failure;
    pid_t id;          /* 0: not asked yet (ckpt/run/profile/record.c) */
    CUcontext context; /* current, as last heard (hook/enter.c) */
    struct ebb_operands
        *operands; /* what NCCL's call under way names (hook/nccl.c), owned; NULL until the first */
    struct ebb_nvtx_ranges *named; /* open ones (ckpt/run/profile/nvtx.c), owned; NULL until the first */
} ebb_this_thread_t;

/* The library is loaded at start, so its storage may be static. */
extern _Thread_local ebb_this_thread_t ebb_this_thread __attribute__((tls_model("initial-exec")));

/* ---- locks with ranks ---- */

/* Locks with ranks. A thread that holds a lock may only take one of a higher rank; debug builds check
 * it (EBB_DCHECK), so that an order that could deadlock is seen the first time it occurs, not the first time it
 * does deadlock. */

/* From outer to inner. */
typedef enum ebb_rank {
    EBB_RANK_STATE = 1, /* ebb_lock(): everything that says nothing else */
    EBB_RANK_POOL,      /* of whatever works beside the program's threads, under ebb_lock() or alone */
    EBB_RANK_LEAF,      /* nothing is locked, and no driver is called, while one of these is held */
} ebb_rank_t;

typedef struct ebb_mutex {
    pthread_mutex_t mutex;
    ebb_rank_t rank;
} ebb_mutex_t;

#define EBB_MUTEX(rank)                                                                                      \
    {                                                                                                        \
        PTHREAD_MUTEX_INITIALIZER, rank                                                                      \
    }

static inline void ebb_mutex_lock(ebb_mutex_t *m)
{
    EBB_DCHECK(!(ebb_this_thread.ranks >> m->rank)); /* this one, or one that comes after it, is held */
    pthread_mutex_lock(&m->mutex);
    ebb_this_thread.ranks |= 1u << m->rank;
}
static inline void ebb_mutex_unlock(ebb_mutex_t *m)
{
    EBB_DCHECK(ebb_this_thread.ranks >> m->rank & 1);
    ebb_this_thread.ranks &= ~(1u << m->rank);
    pthread_mutex_unlock(&m->mutex);
}
/* False: it could not be had in that time, or this thread may not wait for it. */
bool ebb_mutex_lock_within(ebb_mutex_t *mutex, unsigned seconds);
/* By this thread: one of the rank. */
static inline bool ebb_mutex_is_held(const ebb_mutex_t *m)
{
    return ebb_this_thread.ranks >> m->rank & 1;
}

/* ---- threads of ebb's own ---- */

/* Threads of ebb's own, which do ahead of need, or beside the program, what takes long.
 *
 * Such a thread takes no signals, works when it is woken, and ends with the process; in the child of a fork it does not exist and is not
 * missed (EBB_ASLEEP). What comes back out of the driver on it (a profiler's call, say) is none of the program's and goes straight
 * through, as on a thread that holds ebb_lock(): the lock's holder may be waiting for this thread. */

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
