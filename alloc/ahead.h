/* ahead.h: chunks created ahead of need by a thread of ebb's own, one for each device. For this folder. */
#ifndef EBB_AHEAD_H
#define EBB_AHEAD_H

#include "alloc/ebb_alloc.h"

/* Lets the thread create what the pool wants (ebb_chunks_wanted); starts it at the first call. Lock held. */
void ebb_ahead_wake(ebb_device_t *dev);
/* If a chunk is being created, waits until it is in the pool. True if so. Lock held. */
bool ebb_ahead_collect(ebb_device_t *dev);
/* Ends the threads, for the end of the process. Lock not held. */
void ebb_ahead_stop(ebb_t *ebb);

#endif
