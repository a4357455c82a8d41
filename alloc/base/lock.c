#include "alloc/base/thread.h"

#include <time.h>

#include "alloc/base/status.h"

/* A bit per rank that this thread holds. The library is loaded at start, so its storage may be static. */
static _Thread_local unsigned held __attribute__((tls_model("initial-exec")));

void ebb_mutex_lock(ebb_mutex_t *m)
{
    EBB_DCHECK(!(held >> m->rank)); /* this one, or one that comes after it, is held */
    pthread_mutex_lock(&m->mutex);
    held |= 1u << m->rank;
}

bool ebb_mutex_lock_within(ebb_mutex_t *m, unsigned seconds)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += seconds;
    if (held >> m->rank || pthread_mutex_timedlock(&m->mutex, &until))
        return false;
    held |= 1u << m->rank;
    return true;
}

void ebb_mutex_unlock(ebb_mutex_t *m)
{
    EBB_DCHECK(held >> m->rank & 1);
    held &= ~(1u << m->rank);
    pthread_mutex_unlock(&m->mutex);
}

bool ebb_mutex_is_held(const ebb_mutex_t *m)
{
    return held >> m->rank & 1;
}
