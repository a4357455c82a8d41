/* trace_show.c: `ebb trace FILE`: what one step does with its memory, in words. */
#include <argp.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/trace_tables.h"

/* Consecutive accesses of a buffer with a time between them in which it lies idle. */
typedef struct gap {
    uint32_t buffer, from, to; /* operations */
    uint64_t ns, worth;        /* bytes x time */
} gap_t;

static uint64_t *times(const ebb_trace_t *t)
{
    uint64_t *end = calloc((size_t)t->operation_count + 1, sizeof *end), now = 0;
    for (uint32_t i = 0; end && i < t->operation_count; i++)
        end[i] = now += t->operation[i].duration_ns;
    return end;
}

/* Bytes alive before each operation; index operation_count: after the last. */
static uint64_t *live_bytes(const ebb_trace_t *t)
{
    uint64_t *live = calloc((size_t)t->operation_count + 2, sizeof *live);
    if (!live)
        return NULL;
    for (uint32_t i = 0; i < t->buffer_count; i++) {
        const ebb_trace_buffer_t *b = &t->buffer[i];
        uint32_t from = b->born == EBB_NONE ? 0 : b->born;
        uint32_t to = b->dies == EBB_NONE ? t->operation_count + 1 : b->dies;
        live[from] += b->bytes;
        live[to] -= b->bytes; /* modulo 2^64: the sums below come out right */
    }
    for (uint32_t i = 1; i <= t->operation_count; i++)
        live[i] += live[i - 1];
    return live;
}

static int by_worth(const void *a, const void *b)
{
    uint64_t x = ((const gap_t *)a)->worth, y = ((const gap_t *)b)->worth;
    return x < y ? 1 : x > y ? -1 : 0;
}

/* All gaps, largest bytes x time first. */
static gap_t *find_gaps(const ebb_trace_t *t, const uint64_t *end, size_t *count)
{
    gap_t *gap = calloc((size_t)t->access_count + 1, sizeof *gap);
    uint32_t *last = calloc((size_t)t->buffer_count + 1, sizeof *last); /* 1 + operation */
    *count = 0;
    for (uint32_t i = 0; gap && last && i < t->operation_count; i++)
        for (uint32_t k = 0; k < t->operation[i].access_count; k++) {
            uint32_t b = t->access[t->operation[i].first_access + k].buffer;
            if (last[b] && last[b] < i) {
                uint64_t ns = end[i - 1] - end[last[b] - 1];
                gap[(*count)++] = (gap_t){b, last[b] - 1, i, ns, (t->buffer[b].bytes >> 10) * (ns >> 10)};
            }
            last[b] = i + 1;
        }
    free(last);
    if (gap)
        qsort(gap, *count, sizeof *gap, by_worth);
    return gap;
}

static double mib(uint64_t bytes)
{
    return (double)bytes / (1 << 20);
}

static void show_profile(const ebb_trace_t *t, const uint64_t *live, FILE *out)
{
    enum { ROWS = 24, WIDTH = 50 };
    uint64_t peak = 1;
    for (uint32_t i = 0; i <= t->operation_count; i++)
        peak = live[i] > peak ? live[i] : peak;
    fprintf(out, "\nbytes alive over the step (peak %.1f MiB)\n", mib(peak));
    for (uint32_t row = 0; row < ROWS && t->operation_count; row++) {
        uint32_t from = (uint32_t)((uint64_t)row * t->operation_count / ROWS);
        uint32_t to = (uint32_t)((uint64_t)(row + 1) * t->operation_count / ROWS);
        uint64_t most = 0;
        for (uint32_t i = from; i < to; i++)
            most = live[i] > most ? live[i] : most;
        if (to > from)
            fprintf(out, "%8" PRIu32 " %9.1f %.*s\n", from, mib(most), (int)(most * WIDTH / peak),
                    "##################################################");
    }
}

/* Operations, bytes alive over the step, the longest idle times. False: no memory. */
static bool show_trace(const ebb_trace_t *t, FILE *out)
{
    enum { GAPS = 20 };
    size_t gap_count;
    uint64_t *end = times(t), *live = live_bytes(t);
    gap_t *gap = end ? find_gaps(t, end, &gap_count) : NULL;
    bool good = end && live && gap;
    if (good) {
        uint32_t inside = 0;
        for (uint32_t i = 0; i < t->buffer_count; i++)
            inside += t->buffer[i].born != EBB_NONE;
        fprintf(out,
                "%" PRIu32 " operations in %.3f ms; %" PRIu32 " buffers, %" PRIu32
                " of them allocated in the step\n",
                t->operation_count, t->operation_count ? (double)end[t->operation_count - 1] * 1e-6 : 0.0,
                t->buffer_count, inside);
        show_profile(t, live, out);
        fprintf(out, "\nlongest idle times, by bytes x time\n  buffer       MiB        ms  from operation -> "
                     "to operation\n");
        for (size_t i = 0; i < gap_count && i < GAPS; i++)
            fprintf(out, "%8" PRIu32 " %9.2f %9.3f  %" PRIu32 " %.40s -> %" PRIu32 " %.40s\n", gap[i].buffer,
                    mib(t->buffer[gap[i].buffer].bytes), (double)gap[i].ns * 1e-6, gap[i].from,
                    t->operation[gap[i].from].name, gap[i].to, t->operation[gap[i].to].name);
    }
    if (good) {
        ebb_show_verdicts(t, out);
        good = ebb_show_saved(t, out) && ebb_show_writers(t, out) && ebb_show_names(t, out);
    }
    free(end);
    free(live);
    free(gap);
    return good;
}

typedef struct request {
    const char *path;
    bool launches, buffers, moments;
} request_t;

static const struct argp_option options[] = {
    {"launches", 'l', NULL, 0, "list every operation: times, verdict, name, what it touches", 0},
    {"buffers", 'b', NULL, 0, "list every buffer: size, lifetime, accesses", 0},
    {"moments", 'm', NULL, 0, "list what lies between operations: allocations, frees, events, waits", 0},
    {0}};

static error_t parse(int key, char *word, struct argp_state *state)
{
    request_t *q = state->input;
    const char **path = &q->path;
    q->launches |= key == 'l';
    q->buffers |= key == 'b';
    q->moments |= key == 'm';
    if (key == 'l' || key == 'b' || key == 'm')
        return 0;
    if (key == ARGP_KEY_ARG && !*path)
        *path = word;
    else if (key == ARGP_KEY_ARG || key == ARGP_KEY_NO_ARGS)
        argp_error(state, "one file");
    else
        return ARGP_ERR_UNKNOWN;
    return 0;
}

int ebb_trace_command(int argc, char **argv)
{
    static const struct argp parser = {
        options, parse, "FILE", "Show the step that EBB_TRACE=FILE has recorded.", NULL, NULL, NULL};
    request_t q = {0};
    argp_parse(&parser, argc, argv, 0, NULL, &q);
    ebb_trace_t *t = ebb_cli_read_trace(q.path);
    if (!t)
        return 2;
    bool good = show_trace(t, stdout);
    if (q.launches)
        ebb_show_launches(t, stdout);
    if (q.buffers)
        ebb_show_buffers(t, stdout);
    if (q.moments)
        ebb_show_moments(t, stdout);
    ebb_trace_delete(t);
    return good ? 0 : ebb_cli_fail("out of memory", NULL);
}
