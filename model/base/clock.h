/* clock.h: time that goes on evenly. */
#ifndef EBB_MODEL_CLOCK_H
#define EBB_MODEL_CLOCK_H

/* Monotonic time in seconds. */
double clock_seconds(void);

#endif
