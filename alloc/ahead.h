/* ahead.h: chunks created ahead of need by a thread of ebb's own. For this folder. */
#ifndef EBB_AHEAD_H
#define EBB_AHEAD_H

/* Lets the thread create what the pool wants (ebb_chunks_wanted); starts it at the first call. Lock held. */
void ebb_ahead_wake(void);
/* Ends the thread, for the end of the process. Lock not held. */
void ebb_ahead_stop(void);

#endif
