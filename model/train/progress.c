#include "model/train/progress.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "model/base/bytes.h"
#include "model/base/check.h"
#include "model/base/clock.h"

#define TERMINAL_SECONDS 0.1 /* between two lines on a terminal */
#define TERMINAL_COLUMNS 80  /* of one that does not say */

void progress_begin(progress_t *progress, int steps, double most_tokens_per_s)
{
    *progress = (progress_t){
        .steps = steps, .terminal = isatty(STDOUT_FILENO) == 1, .most_tokens_per_s = most_tokens_per_s};
    progress->shown_at = clock_seconds();
}

double progress_left(const progress_t *progress, int step)
{
    return progress->seconds_per_step * (progress->steps - step);
}

/* ---- fields ---- */

/* What a narrow terminal keeps longest comes first. */
typedef enum rank {
    RANK_STEP,
    RANK_LOSS,
    RANK_TIME,
    RANK_NORM,
    RANK_RATE,
    RANK_TOKENS,
    RANK_LEFT,
    RANK_MEMORY,
    RANK_USE,
    RANK_COUNT
} rank_t;

/* In the line's order. */
typedef struct fields {
    struct {
        rank_t rank;
        char text[48];
    } list[RANK_COUNT];
    int count;
} fields_t;

__attribute__((format(printf, 3, 4))) static void add(fields_t *fields, rank_t rank, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    fields->list[fields->count].rank = rank;
    vsnprintf(fields->list[fields->count].text, sizeof fields->list->text, format, arguments);
    fields->count++;
    va_end(arguments);
}

/* The fields up to a rank; their length, which may be more than fits into `text`. */
static size_t join(const fields_t *fields, rank_t last, const char *gap, char *text, size_t size)
{
    size_t length = 0;
    for (int i = 0; i < fields->count; i++)
        if (fields->list[i].rank <= last)
            length += (size_t)snprintf(text + (length < size ? length : size - 1),
                                       length < size ? size - length : 1, "%s%s", length > 0 ? gap : "",
                                       fields->list[i].text);
    return length;
}

static void add_duration(fields_t *fields, double seconds)
{
    int whole = (int)(seconds + 0.5);
    if (whole < 60)
        add(fields, RANK_LEFT, "%ds left", whole);
    else if (whole < 3600)
        add(fields, RANK_LEFT, "%dm%02ds left", whole / 60, whole % 60);
    else
        add(fields, RANK_LEFT, "%dh%02dm left", whole / 3600, whole / 60 % 60);
}

/* Decimals of a time on a terminal: three digits are enough. */
static int decimals(double ms)
{
    return ms < 10 ? 2 : ms < 100 ? 1 : 0;
}

void progress_line(const progress_t *progress, step_done_t done, int columns, char *text, size_t size)
{
    bool whole = columns == 0;
    fields_t fields = {.count = 0};
    bytes_text_t memory;
    double seconds = whole ? done.seconds : progress->seconds_per_step, ms = 1e3 * seconds;
    double tokens_per_s = (double)done.tokens / seconds;
    add(&fields, RANK_STEP, "step %*d/%d", snprintf(NULL, 0, "%d", progress->steps), done.step,
        progress->steps);
    add(&fields, RANK_LOSS, "loss %.*f", whole ? 6 : 4, done.loss);
    add(&fields, RANK_NORM, "norm %.*f", whole ? 4 : 2, done.norm);
    add(&fields, RANK_RATE, "lr %.*e", whole ? 2 : 1, done.rate);
    add(&fields, RANK_TIME, "%.*f ms", whole ? 2 : decimals(ms), ms);
    if (progress->most_tokens_per_s > 0)
        add(&fields, RANK_USE, "%.1f%% MFU", 100 * tokens_per_s / progress->most_tokens_per_s);
    add(&fields, RANK_TOKENS, "%.0f tok/s", tokens_per_s);
    add(&fields, RANK_MEMORY, "%s", bytes_text(memory, done.peak_bytes));
    add_duration(&fields, progress_left(progress, done.step));

    rank_t last = RANK_COUNT;
    const char *gap = whole ? " | " : "  ";
    if (!whole && (size_t)columns < size)
        size = (size_t)columns; /* the last column stays free: some terminals wrap behind it */
    while (join(&fields, last, gap, text, size) >= size && last > RANK_STEP)
        last--;
}

/* ---- the terminal ---- */

/* It may change at any time. */
static int terminal_columns(void)
{
    struct winsize window;
    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &window) == 0 && window.ws_col > 0)
        return window.ws_col;
    const char *said = getenv("COLUMNS");
    int columns = said != NULL ? atoi(said) : 0;
    return columns > 0 ? columns : TERMINAL_COLUMNS;
}

/* In the place of the terminal's line. */
static void rewrite(progress_t *progress, const char *text)
{
    printf("\r%s\033[K", text);
    fflush(stdout);
    progress->shown_at = clock_seconds();
    progress->open = text[0] != '\0';
    message_line_open(progress->open);
}

static bool is_due(const progress_t *progress)
{
    return clock_seconds() - progress->shown_at >= TERMINAL_SECONDS;
}

void progress_step(progress_t *progress, step_done_t done)
{
    if (progress->seconds_per_step == 0)
        progress->seconds_per_step = done.seconds;
    progress->seconds_per_step += 0.1 * (done.seconds - progress->seconds_per_step);

    char text[512];
    if (progress->terminal && !is_due(progress) && done.step != progress->steps)
        return;
    progress_line(progress, done, progress->terminal ? terminal_columns() : 0, text, sizeof text);
    if (progress->terminal) {
        rewrite(progress, text);
    } else {
        puts(text);
        fflush(stdout);
    }
}

void progress_part(progress_t *progress, const char *what, size_t done, size_t all, const char *unit)
{
    char text[512] = "";
    if (!progress->terminal || (done > 0 && done < all && !is_due(progress)))
        return;
    size_t columns = (size_t)terminal_columns();
    if (done < all)
        snprintf(text, columns < sizeof text ? columns : sizeof text, "%s: %zu of %zu %s", what, done, all,
                 unit);
    rewrite(progress, text);
}

void progress_end(progress_t *progress)
{
    if (progress->open)
        putchar('\n');
    fflush(stdout);
    progress->open = false;
    message_line_open(false);
}
