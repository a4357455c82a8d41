/* lock.h: ebb_lock() (ebb_alloc.h), for those who take it at the program's calls. */
#ifndef EBB_ALLOC_LOCK_H
#define EBB_ALLOC_LOCK_H

#include "alloc/ebb_alloc.h"

/* By this thread. Any thread. */
bool ebb_lock_is_held(void);

/* False: another thread holds it. */
bool ebb_try_lock(void);
/* ebb_lock() where the process ends, in any case: other threads may be in calls for ever. False: it is not to be had. */
bool ebb_lock_at_exit(void);

/* With it held. Another slot's device is meant, and its context current, until ebb_unlock. False: it has none any more. */
bool ebb_lock_go_to(unsigned slot);
/* The present slot's context has been made current: not any more from ebb_unlock on. */
void ebb_lock_pushed(void);
/* Calls `issue(context)` as the program would: in the context and the capture mode that it has. */
CUresult ebb_lock_step_out(CUresult (*issue)(const void *context), const void *context);

#endif
