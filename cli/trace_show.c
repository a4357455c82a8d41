/* trace_show.c: `ebb trace FILE`: what one step does with its memory, in words. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "cli/cli.h"
#include "cli/command.h"
#include "cli/names.h"
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

static void show_profile(const ebb_trace_t *t, const uint64_t *live, uint32_t rows)
{
    const unsigned columns = ebb_cli_columns();
    const uint64_t width = columns > 70 ? 50 : columns - 20;
    uint64_t peak = 1;
    for (uint32_t i = 0; i <= t->operation_count; i++)
        peak = live[i] > peak ? live[i] : peak;
    printf("\nbytes alive over the step (peak %.1f MiB)\n", ebb_cli_mib(peak));
    for (uint32_t row = 0; row < rows && t->operation_count; row++) {
        uint32_t from = (uint32_t)((uint64_t)row * t->operation_count / rows);
        uint32_t to = (uint32_t)((uint64_t)(row + 1) * t->operation_count / rows);
        uint64_t most = 0;
        for (uint32_t i = from; i < to; i++)
            most = live[i] > most ? live[i] : most;
        if (to > from)
            printf("%8" PRIu32 " %9.1f %.*s\n", from, ebb_cli_mib(most), (int)(most * width / peak),
                   "##################################################");
    }
}

/* As many columns of a kernel's name as `taken` others leave, halved if there are two in the line. */
static size_t room_for_name(unsigned taken, unsigned names)
{
    const unsigned columns = ebb_cli_columns();
    const size_t room = columns > taken + 12 * names ? (columns - taken) / names + 1 : 12;
    return room < EBB_NAME_ROOM ? room : EBB_NAME_ROOM;
}

static void show_gaps(const ebb_trace_t *t, const gap_t *gap, size_t count)
{
    enum { GAPS = 20 };
    const size_t room = room_for_name(50, 2);
    char from[EBB_NAME_ROOM], to[EBB_NAME_ROOM];
    printf("\nlongest idle times, by bytes x time\n  buffer       MiB        ms  from operation -> to "
           "operation\n");
    for (size_t i = 0; i < count && i < GAPS; i++)
        printf("%8" PRIu32 " %9.2f %9.3f  %" PRIu32 " %s -> %" PRIu32 " %s\n", gap[i].buffer,
               ebb_cli_mib(t->buffer[gap[i].buffer].bytes), (double)gap[i].ns * 1e-6, gap[i].from,
               ebb_cli_name(t->operation[gap[i].from].name, from, room), gap[i].to,
               ebb_cli_name(t->operation[gap[i].to].name, to, room));
}

typedef struct request {
    bool verbose, launches, buffers, syncs;
} request_t;

static void show_step(const ebb_trace_t *t, uint64_t ns)
{
    uint32_t inside = 0;
    for (uint32_t i = 0; i < t->buffer_count; i++)
        inside += t->buffer[i].born != EBB_NONE;
    printf("%" PRIu32 " operations in %.3f ms, recorded on %s\n%" PRIu32 " buffers, %" PRIu32
           " of them allocated in the step\n",
           t->operation_count, (double)ns * 1e-6, *t->device ? t->device : "an unknown device",
           t->buffer_count, inside);
}

/* The step in about fifteen lines, or all that there is. False: no memory. */
static bool show_trace(const ebb_trace_t *t, bool verbose)
{
    enum { ROWS = 6, MORE_ROWS = 24, KERNELS = 3 };
    size_t gap_count = 0;
    uint64_t *end = times(t), *live = live_bytes(t);
    gap_t *gap = end ? find_gaps(t, end, &gap_count) : NULL;
    bool good = end && live && gap;
    if (good) {
        show_step(t, t->operation_count ? end[t->operation_count - 1] : 0);
        show_profile(t, live, verbose ? MORE_ROWS : ROWS);
        good = ebb_show_kernels(t, verbose ? UINT32_MAX : KERNELS, room_for_name(30, 1)) && ebb_show_saved(t);
    }
    if (good && verbose) {
        show_gaps(t, gap, gap_count);
        ebb_show_verdicts(t);
        good = ebb_show_writers(t, room_for_name(43, 1)) && ebb_show_names(t);
    } else if (good) {
        puts("-v shows idle times, what may be replayed, what writes, and NVTX ranges");
    }
    free(end);
    free(live);
    free(gap);
    return good;
}

static void take(const ebb_command_t *c, int key, const char *value, void *request)
{
    request_t *r = request;
    (void)c, (void)value;
    r->verbose |= key == 'v';
    r->launches |= key == 'l';
    r->buffers |= key == 'b';
    r->syncs |= key == 'm';
}

static int run(int argc, char **argv)
{
    request_t r = {.verbose = false};
    char **word = ebb_command_parse(&ebb_trace_command, argc, argv, take, &r);
    ebb_trace_t *t = ebb_cli_read_trace(word[0]);
    if (!t)
        return 2;
    const bool good = show_trace(t, r.verbose);
    if (r.launches)
        ebb_show_launches(t);
    if (r.buffers)
        ebb_show_buffers(t);
    if (r.syncs)
        ebb_show_syncs(t);
    ebb_trace_delete(t);
    return good ? 0 : ebb_cli_fail("out of memory", NULL);
}

static const ebb_flag_t flags[] = {
    {NULL, "verbose", 'v', NULL, "idle times, what may be replayed, what writes, NVTX ranges"},
    {NULL, "launches", 'l', NULL, "list every operation: times, verdict, name, what it touches"},
    {NULL, "buffers", 'b', NULL, "list every buffer: size, lifetime, accesses"},
    {NULL, "moments", 'm', NULL, "list what lies between operations: allocations, frees, events, waits"},
    {0}};
const ebb_command_t ebb_trace_command = {
    .name = "trace",
    .summary = "show the step that EBB_TRACE=FILE has recorded",
    .usage = "FILE",
    .about = "Shows the memory that one step needs, the kernels that take the most time, "
             "and how much could be recomputed.",
    .example = {"step.trace", "-v step.trace", "--buffers step.trace"},
    .flags = flags,
    .words = EBB_TAKES_FILES,
    .least = 1,
    .most = 1,
    .run = run};
