/* lock.h: ebb_lock() (ebb_alloc.h), and what its holder has changed of its own thread until ebb_unlock: the current context, the capture
 * mode. */
#ifndef EBB_ALLOC_LOCK_H
#define EBB_ALLOC_LOCK_H

#include "alloc/ebb_alloc.h"

/* By this thread. Any thread. */
bool ebb_lock_is_held(void);

/* False: another thread holds it. */
bool ebb_try_lock(void);
/* ebb_lock() where the process ends, in any case: other threads may be in calls for ever. False: it is not to be had. */
bool ebb_lock_at_exit(void);

/* ---- with it held ---- */

/* Another device is meant, and its context current, until ebb_unlock. False: it has none any more. */
bool ebb_lock_go_to(ebb_device_t *dev);
/* The context of the device that it began at has been pushed: not current any more from ebb_unlock on. */
void ebb_lock_pushed(void);

/* Calls `issue(context)` as the program would: in the context and the capture mode that it has. `dev` is where it goes on after that. */
CUresult ebb_lock_step_out(ebb_device_t *dev, CUresult (*issue)(const void *context), const void *context);

#endif
