#include "progress.h"

#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "check.h"

#define TERMINAL_SECONDS 0.1 /* between two lines */
#define PLAIN_SECONDS    5.0

double progress_clock(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

void progress_begin(progress_t *progress, int steps)
{
    *progress = (progress_t){.steps = steps, .terminal = isatty(STDERR_FILENO) == 1};
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

void progress_step(progress_t *progress, int step, double loss, double seconds, size_t tokens,
                   size_t peak_bytes)
{
    if (progress->seconds_per_step == 0)
        progress->seconds_per_step = seconds;
    progress->seconds_per_step += 0.1 * (seconds - progress->seconds_per_step);

    double now = progress_clock();
    bool due = now - progress->shown_at >= (progress->terminal ? TERMINAL_SECONDS : PLAIN_SECONDS);
    if (!due && step != progress->steps)
        return;
    progress->shown_at = now;
    char left[32];
    print_duration(left, sizeof left, progress->seconds_per_step * (progress->steps - step));
    fprintf(stderr, "%sstep %d/%d  loss %.4f  %.0f tokens/s  %.1f MiB device memory  %s left%s",
            progress->terminal ? "\r" : "", step, progress->steps, loss,
            (double)tokens / progress->seconds_per_step, (double)peak_bytes / 0x1p20, left,
            progress->terminal ? "\033[K" : "\n");
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
