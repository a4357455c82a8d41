/* trace_tables.c: see trace_tables.h. */
#include "cli/trace_tables.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ckpt/trace/trace.h"
#include "cli/cli.h"
#include "cli/names.h"

static double ms(uint64_t ns)
{
    return (double)ns * 1e-6;
}

/* ---- sums ---- */

typedef struct sum {
    const char *name;
    uint32_t launches, proven;
    uint64_t ns, bytes; /* bytes: of buffers born under that name */
} sum_t;

static int by_time(const void *a, const void *b)
{
    const sum_t *x = a, *y = b;
    return x->ns < y->ns ? 1 : x->ns > y->ns ? -1 : strcmp(x->name, y->name);
}

static sum_t *find_sum(sum_t *list, size_t *count, const char *name)
{
    for (size_t i = 0; i < *count; i++)
        if (!strcmp(list[i].name, name))
            return &list[i];
    list[*count] = (sum_t){.name = name};
    return &list[(*count)++];
}

typedef const char *name_of_t(const ebb_trace_t *t, const ebb_trace_operation_t *o);

static const char *kernel_of(const ebb_trace_t *t, const ebb_trace_operation_t *o)
{
    (void)t;
    return o->name;
}

/* By that name, the longest first; the caller's, to be freed. NULL: no memory. */
static sum_t *sum_by(const ebb_trace_t *t, name_of_t *name_of, size_t *count)
{
    sum_t *list = calloc((size_t)t->operation_count + 1, sizeof *list);
    sum_t **of = calloc((size_t)t->operation_count + 1, sizeof(sum_t *));
    *count = 0;
    for (uint32_t i = 0; list && of && i < t->operation_count; i++) {
        const ebb_trace_operation_t *o = &t->operation[i];
        sum_t *s = of[i] = find_sum(list, count, name_of(t, o));
        s->launches++;
        s->proven += o->proofs > 0;
        s->ns += o->duration_ns;
    }
    for (uint32_t b = 0; list && of && b < t->buffer_count; b++)
        if (t->buffer[b].born != EBB_NONE && t->buffer[b].born < t->operation_count)
            of[t->buffer[b].born]->bytes += t->buffer[b].bytes;
    if (list && of)
        qsort(list, *count, sizeof *list, by_time);
    free(of);
    return of ? list : (free(list), NULL);
}

bool ebb_show_kernels(const ebb_trace_t *t, uint32_t rows, size_t room)
{
    size_t count;
    char name[EBB_NAME_ROOM];
    sum_t *list = sum_by(t, kernel_of, &count);
    if (!list)
        return false;
    puts("\nlaunches  proven        ms  kernel");
    for (size_t i = 0; i < count && i < rows; i++)
        printf("%8" PRIu32 " %7" PRIu32 " %9.3f  %s\n", list[i].launches, list[i].proven, ms(list[i].ns),
               ebb_cli_name(list[i].name, name, room));
    if (count > rows)
        printf("%8s %zu kernels in all\n", "", count);
    free(list);
    return true;
}

bool ebb_show_names(const ebb_trace_t *t)
{
    enum { ROWS = 40 };
    size_t count;
    sum_t *list = sum_by(t, ebb_trace_nvtx, &count);
    if (!list)
        return false;
    if (count > 1)
        puts("\nby NVTX name\nlaunches  proven        ms  allocated MiB  name");
    for (size_t i = 0; count > 1 && i < count && i < ROWS; i++)
        printf("%8" PRIu32 " %7" PRIu32 " %9.3f %14.2f  %s\n", list[i].launches, list[i].proven,
               ms(list[i].ns), ebb_cli_mib(list[i].bytes), *list[i].name ? list[i].name : "(none)");
    free(list);
    return true;
}

void ebb_show_verdicts(const ebb_trace_t *t)
{
    sum_t sum[EBB_VERDICTS] = {0};
    for (uint32_t i = 0; i < t->operation_count; i++) {
        sum_t *s = &sum[t->operation[i].verdict];
        s->launches++;
        s->ns += t->operation[i].duration_ns;
    }
    printf("\nmay it be replayed?\noperations        ms  verdict\n");
    for (int v = 0; v < EBB_VERDICTS; v++)
        if (sum[v].launches)
            printf("%10" PRIu32 " %9.3f  %s\n", sum[v].launches, ms(sum[v].ns), ebb_verdict_word[v]);
}

bool ebb_show_saved(const ebb_trace_t *t)
{
    uint64_t all = 0, possible = 0, proven = 0;
    ebb_worth_t worth;
    if (!ebb_worth_find(t, 0, &worth))
        return false;
    for (uint32_t i = 0; i < worth.saved_count; i++) {
        const ebb_saved_t *s = &worth.saved[i];
        uint64_t bytes = t->buffer[s->buffer].bytes;
        all += bytes;
        possible += s->possible ? bytes : 0;
        proven += s->proven ? bytes : 0;
    }
    printf("\nsaved for later: %.2f MiB in %" PRIu32 " contents\n", ebb_cli_mib(all), worth.saved_count);
    printf("can be recomputed: %.2f MiB, of which %.2f MiB are proven (%.1f%%)\n", ebb_cli_mib(possible),
           ebb_cli_mib(proven), possible ? 100.0 * (double)proven / (double)possible : 0.0);
    ebb_worth_free(&worth);
    return true;
}

/* ---- what writes ---- */

/* An argument word of a kernel. */
typedef struct word {
    const char *kernel;
    uint32_t param_offset;
    uint32_t launches, writes, replaces;
} word_t;

static int by_place(const void *a, const void *b)
{
    const word_t *x = a, *y = b;
    int order = strcmp(x->kernel, y->kernel);
    return order ? order : x->param_offset < y->param_offset ? -1 : x->param_offset > y->param_offset;
}

bool ebb_show_writers(const ebb_trace_t *t, size_t room)
{
    word_t *list = calloc((size_t)t->access_count + 1, sizeof *list);
    size_t count = 0, kept = 0;
    char name[EBB_NAME_ROOM];
    if (!list)
        return false;
    for (uint32_t i = 0; i < t->operation_count; i++) {
        const ebb_trace_operation_t *o = &t->operation[i];
        for (uint32_t k = o->first_access; k < o->first_access + o->access_count; k++)
            if (o->kind == EBB_TRACE_KERNEL)
                list[count++] = (word_t){o->name, t->access[k].param_offset, 1,
                                         t->access[k].mode != EBB_READS, t->access[k].mode == EBB_REPLACES};
    }
    qsort(list, count, sizeof *list, by_place);
    for (size_t i = 0; i < count; i++) {
        word_t *last = kept ? &list[kept - 1] : NULL;
        if (!last || by_place(last, &list[i])) {
            list[kept++] = list[i];
            continue;
        }
        last->launches++;
        last->writes += list[i].writes;
        last->replaces += list[i].replaces;
    }
    printf("\nwhat writes\nargument at  launches  may write  replaces  kernel\n");
    for (size_t i = 0; i < kept; i++)
        if (list[i].writes)
            printf("%11" PRIu32 " %9" PRIu32 " %10" PRIu32 " %9" PRIu32 "  %s\n", list[i].param_offset,
                   list[i].launches, list[i].writes, list[i].replaces,
                   ebb_cli_name(list[i].kernel, name, room));
    free(list);
    return true;
}

/* ---- everything, a line each ---- */

static void show_accesses(const ebb_trace_t *t, const ebb_trace_operation_t *o)
{
    static const char letter[] = "?rwu";
    for (uint32_t k = o->first_access; k < o->first_access + o->access_count; k++) {
        const ebb_trace_access_t *a = &t->access[k];
        printf(" %c%" PRIu32, letter[a->mode], a->buffer);
        if (a->offset_bytes)
            printf("+%" PRIu64, a->offset_bytes);
        if (a->tile_count)
            printf("[%" PRIu32 "..%" PRIu32 ")", a->first_tile, a->first_tile + a->tile_count);
    }
}

void ebb_show_launches(const ebb_trace_t *t)
{
    puts("\noperations: r reads, w replaces, u updates a buffer, [tiles in which writes were seen)\n"
         "      op stream thread    at ms     ms  verdict       name: buffers");
    for (uint32_t i = 0; i < t->operation_count; i++) {
        const ebb_trace_operation_t *o = &t->operation[i];
        char name[EBB_NAME_ROOM];
        printf("%8" PRIu32 " %6" PRIu32 " %6" PRIu32 " %8.3f %6.3f  %-12s  %s:", i, o->stream, o->thread,
               ms(o->at_ns), ms(o->duration_ns), ebb_verdict_word[o->verdict],
               ebb_cli_name(o->name, name, 64));
        show_accesses(t, o);
        if (o->nvtx)
            printf("  (%s)", ebb_trace_nvtx(t, o));
        putchar('\n');
    }
}

static void show_point(uint32_t operation)
{
    if (operation == EBB_NONE)
        printf(" %8s", "-");
    else
        printf(" %8" PRIu32, operation);
}

void ebb_show_buffers(const ebb_trace_t *t)
{
    uint32_t *uses = calloc(2 * (size_t)t->buffer_count + 1, sizeof *uses);
    printf("\n  buffer       MiB     born     dies     next  accesses  writes\n");
    for (uint32_t k = 0; uses && k < t->access_count; k++) {
        uses[2 * t->access[k].buffer]++;
        uses[2 * t->access[k].buffer + 1] += t->access[k].mode != EBB_READS;
    }
    for (uint32_t b = 0; b < t->buffer_count; b++) {
        printf("%8" PRIu32 " %9.3f", b, ebb_cli_mib(t->buffer[b].bytes));
        show_point(t->buffer[b].born);
        show_point(t->buffer[b].dies);
        show_point(t->buffer[b].next);
        printf(" %9" PRIu32 " %7" PRIu32 "%s\n", uses ? uses[2 * b] : 0, uses ? uses[2 * b + 1] : 0,
               t->buffer[b].pinned ? "  pinned"
               : t->buffer[b].kept ? "  kept"
                                   : "");
    }
    free(uses);
}

void ebb_show_syncs(const ebb_trace_t *t)
{
    printf("\nbetween operations\n  before stream thread  what         id\n");
    for (uint32_t i = 0; i < t->sync_count; i++) {
        const ebb_trace_sync_t *m = &t->sync[i];
        printf("%8" PRIu32 " %6" PRIu32 " %6" PRIu32 "  %-11s", m->before, m->stream, m->thread,
               ebb_sync_word[m->what]);
        if (m->what <= EBB_SYNC_SYNC_EVENT && m->id != EBB_NONE)
            printf(" %4" PRIu32, m->id);
        putchar('\n');
    }
}
