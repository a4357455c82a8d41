/* progress.h: the progress line on stderr: rewritten in place on a terminal, a plain line every few seconds
 * elsewhere. */
#ifndef EBB_MODEL_PROGRESS_H
#define EBB_MODEL_PROGRESS_H

#include <stdbool.h>
#include <stddef.h>

typedef struct progress {
    int steps; /* in all */
    bool terminal;
    bool open;                /* the terminal's line is not finished */
    double shown_at;          /* seconds, of the last line */
    double seconds_per_step;  /* smoothed */
    double most_tokens_per_s; /* that the device could compute; 0: not known */
} progress_t;

/* Monotonic time in seconds. */
double progress_clock(void);

/* A step that is done: it took `seconds` for `tokens` tokens. */
typedef struct step_done {
    int step;
    double loss, seconds;
    size_t tokens, peak_bytes;
} step_done_t;

/* most_tokens_per_s: 0 shows no utilisation. */
void progress_begin(progress_t *progress, int steps, double most_tokens_per_s);
void progress_step(progress_t *progress, step_done_t done);
/* Seconds that the steps after this one will take. */
double progress_left(const progress_t *progress, int step);
/* The line's text. */
void progress_line(const progress_t *progress, step_done_t done, char *text, size_t size);
/* Leaves the line, so that other text can follow. */
void progress_end(progress_t *progress);

#endif
