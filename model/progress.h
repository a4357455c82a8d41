/* progress.h: the progress line on stderr: rewritten in place on a terminal, a plain line every few seconds
 * elsewhere. */
#ifndef EBB_MODEL_PROGRESS_H
#define EBB_MODEL_PROGRESS_H

#include <stdbool.h>
#include <stddef.h>

typedef struct progress {
    int steps; /* in all */
    bool terminal;
    bool open;               /* the terminal's line is not finished */
    double shown_at;         /* seconds, of the last line */
    double seconds_per_step; /* smoothed */
} progress_t;

/* Monotonic time in seconds. */
double progress_clock(void);

void progress_begin(progress_t *progress, int steps);
/* One step is done: it took `seconds` for `tokens` tokens. */
void progress_step(progress_t *progress, int step, double loss, double seconds, size_t tokens,
                   size_t peak_bytes);
/* Leaves the line, so that other text can follow. */
void progress_end(progress_t *progress);

#endif
