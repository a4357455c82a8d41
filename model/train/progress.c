#include "model/train/progress.h"

#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "model/base/bytes.h"
#include "model/base/check.h"

#define TERMINAL_SECONDS 0.1 /* between two lines */
#define PLAIN_SECONDS    5.0

double progress_clock(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

void progress_begin(progress_t *progress, int steps, double most_tokens_per_s)
{
    *progress = (progress_t){
        .steps = steps, .terminal = isatty(STDERR_FILENO) == 1, .most_tokens_per_s = most_tokens_per_s};
    progress->shown_at = progress_clock();
}

static void print_duration(char *text, size_t size, double seconds)
{
    int whole = (int)(seconds + 0.5);
    if (whole < 60)
        snprintf(text, size, "%ds", whole);
    else if (whole < 3600)
        snprintf(text, size, "%dm%02ds", whole / 60, whole % 60);
    else
        snprintf(text, size, "%dh%02dm", whole / 3600, whole / 60 % 60);
}

double progress_left(const progress_t *progress, int step)
{
    return progress->seconds_per_step * (progress->steps - step);
}

void progress_line(const progress_t *progress, step_done_t done, char *text, size_t size)
{
    char left[32], share[32] = "";
    double tokens_per_s = (double)done.tokens / progress->seconds_per_step;
    print_duration(left, sizeof left, progress_left(progress, done.step));
    if (progress->most_tokens_per_s > 0)
        snprintf(share, sizeof share, "  %.1f%% MFU", 100 * tokens_per_s / progress->most_tokens_per_s);
    bytes_text_t memory;
    snprintf(text, size, "step %d/%d  loss %.4f  %.0f tokens/s%s  %s device memory  %s left", done.step,
             progress->steps, done.loss, tokens_per_s, share, bytes_text(memory, done.peak_bytes), left);
}

void progress_step(progress_t *progress, step_done_t done)
{
    if (progress->seconds_per_step == 0)
        progress->seconds_per_step = done.seconds;
    progress->seconds_per_step += 0.1 * (done.seconds - progress->seconds_per_step);

    double now = progress_clock();
    bool due = now - progress->shown_at >= (progress->terminal ? TERMINAL_SECONDS : PLAIN_SECONDS);
    if (!due && done.step != progress->steps)
        return;
    progress->shown_at = now;
    char text[256];
    progress_line(progress, done, text, sizeof text);
    fprintf(stderr, "%s%s%s", progress->terminal ? "\r" : "", text, progress->terminal ? "\033[K" : "\n");
    fflush(stderr);
    progress->open = progress->terminal;
    message_line_open(progress->open);
}

void progress_end(progress_t *progress)
{
    if (progress->open)
        fputc('\n', stderr);
    progress->open = false;
    message_line_open(false);
}
