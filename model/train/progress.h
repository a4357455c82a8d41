/* progress.h: a line for each step on stdout. On a terminal it is rewritten in place, and has as many of its fields as
 * the terminal has columns for. Elsewhere each step has a whole line, in the manner of llm.c's train_gpt2:
 *
 *   step   12/2300 | loss 4.712345 | norm 1.2345 | lr 5.22e-04 | 41.23 ms | 24836 tok/s | 36.3 MiB | 1m34s left
 *
 * with "| 25.0% MFU |" behind the time where the device's peak rate is known. */
#ifndef EBB_MODEL_PROGRESS_H
#define EBB_MODEL_PROGRESS_H

#include <stdbool.h>
#include <stddef.h>

typedef struct progress {
    int steps; /* in all */
    bool terminal;
    bool open;                /* the terminal's line is not finished */
    double shown_at;          /* seconds, of the last line on a terminal */
    double seconds_per_step;  /* smoothed */
    double most_tokens_per_s; /* that the device could compute; 0: not known */
} progress_t;

/* A step that is done: it took `seconds` for `tokens` tokens. */
typedef struct step_done {
    int step;
    double loss, norm, rate, seconds;
    size_t tokens, peak_bytes;
} step_done_t;

/* most_tokens_per_s: 0 shows no utilisation. */
void progress_begin(progress_t *progress, int steps, double most_tokens_per_s);
void progress_step(progress_t *progress, step_done_t done);
/* Seconds that the steps after this one will take. */
double progress_left(const progress_t *progress, int step);
/* The line's text: of a terminal of so many columns, with smoothed times; 0: the whole line, with this step's own. */
void progress_line(const progress_t *progress, step_done_t done, int columns, char *text, size_t size);

/* On a terminal, how far an evaluation is: "held-out loss: 12 of 20 batches". Gone when all are done. */
void progress_part(progress_t *progress, const char *what, size_t done, size_t all, const char *unit);

/* Leaves the line, so that other text can follow. */
void progress_end(progress_t *progress);

#endif
