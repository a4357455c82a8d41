/* lock.h: locks with ranks. A thread that holds a lock may only take one of a higher rank; debug builds check
 * it (EBB_DCHECK), so that an order that could deadlock is seen the first time it occurs, not the first time it
 * does deadlock.
 */
#ifndef EBB_LOCK_H
#define EBB_LOCK_H

#include <pthread.h>
#include <stdbool.h>

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

void ebb_mutex_lock(ebb_mutex_t *mutex);
/* False: it could not be had in that time, or this thread may not wait for it. */
bool ebb_mutex_lock_within(ebb_mutex_t *mutex, unsigned seconds);
void ebb_mutex_unlock(ebb_mutex_t *mutex);
/* By this thread: one of the rank. */
bool ebb_mutex_is_held(const ebb_mutex_t *mutex);

#endif
