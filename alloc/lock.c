#include "lock.h"

#include "status.h"

#ifndef NDEBUG
/* A bit per rank that this thread holds. The library is loaded at start, so its storage may be static. */
static _Thread_local unsigned held __attribute__((tls_model("initial-exec")));
#endif

void ebb_mutex_lock(ebb_mutex_t *m)
{
#ifndef NDEBUG
    EBB_DCHECK(!(held >> m->rank)); /* this one, or one that comes after it, is held */
    held |= 1u << m->rank;
#endif
    pthread_mutex_lock(&m->mutex);
}

void ebb_mutex_unlock(ebb_mutex_t *m)
{
#ifndef NDEBUG
    EBB_DCHECK(held >> m->rank & 1);
    held &= ~(1u << m->rank);
#endif
    pthread_mutex_unlock(&m->mutex);
}
