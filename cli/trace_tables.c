/* trace_tables.c: see trace_tables.h. */
#include "cli/trace_tables.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "ckpt/run/profile/profile.h"

static double mib(uint64_t bytes)
{
    return (double)bytes / (1 << 20);
}

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

bool ebb_show_names(const ebb_trace_t *t, FILE *out)
{
    enum { ROWS = 40 };
    size_t count = 0;
    sum_t *list = calloc((size_t)t->operation_count + 1, sizeof *list);
    sum_t **of = calloc((size_t)t->operation_count + 1, sizeof(sum_t *));
    if (!list || !of) {
        free(list);
        free(of);
        return false;
    }
    for (uint32_t i = 0; i < t->operation_count; i++) {
        const ebb_trace_operation_t *o = &t->operation[i];
        sum_t *s = of[i] = find_sum(list, &count, ebb_trace_nvtx(t, o));
        s->launches++;
        s->proven += o->proofs > 0;
        s->ns += o->duration_ns;
    }
    for (uint32_t b = 0; b < t->buffer_count; b++)
        if (t->buffer[b].born != EBB_NONE && t->buffer[b].born < t->operation_count)
            of[t->buffer[b].born]->bytes += t->buffer[b].bytes;
    qsort(list, count, sizeof *list, by_time);
    if (count > 1)
        fputs("\nby NVTX name\nlaunches  proven        ms  allocated MiB  name\n", out);
    for (size_t i = 0; count > 1 && i < count && i < ROWS; i++)
        fprintf(out, "%8" PRIu32 " %7" PRIu32 " %9.3f %14.2f  %s\n", list[i].launches, list[i].proven,
                ms(list[i].ns), mib(list[i].bytes), *list[i].name ? list[i].name : "(none)");
    free(list);
    free(of);
    return true;
}

void ebb_show_verdicts(const ebb_trace_t *t, FILE *out)
{
    sum_t sum[EBB_VERDICTS] = {0};
    for (uint32_t i = 0; i < t->operation_count; i++) {
        sum_t *s = &sum[t->operation[i].verdict];
        s->launches++;
        s->ns += t->operation[i].duration_ns;
    }
    fputs("\nmay it be replayed?\noperations        ms  verdict\n", out);
    for (int v = 0; v < EBB_VERDICTS; v++)
        if (sum[v].launches)
            fprintf(out, "%10" PRIu32 " %9.3f  %s\n", sum[v].launches, ms(sum[v].ns), ebb_verdict_word[v]);
}

bool ebb_show_saved(const ebb_trace_t *t, FILE *out)
{
    uint64_t all = 0, possible = 0, proven = 0;
    ebb_worth_t worth;
    if (!ebb_worth_find(t, NULL, NULL, 0, &worth))
        return false;
    for (uint32_t i = 0; i < worth.saved_count; i++) {
        const ebb_saved_t *s = &worth.saved[i];
        uint64_t bytes = t->buffer[s->buffer].bytes;
        all += bytes;
        possible += s->possible ? bytes : 0;
        proven += s->proven ? bytes : 0;
    }
    fprintf(out,
            "\nsaved for later: %.2f MiB in %" PRIu32
            " contents; launches could make %.2f MiB of them again, "
            "proven are %.2f MiB (%.1f%%)\n",
            mib(all), worth.saved_count, mib(possible), mib(proven),
            possible ? 100.0 * (double)proven / (double)possible : 0.0);
    ebb_worth_free(&worth);
    return true;
}

/* ---- who writes ---- */

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

bool ebb_show_writers(const ebb_trace_t *t, FILE *out)
{
    word_t *list = calloc((size_t)t->access_count + 1, sizeof *list);
    size_t count = 0, kept = 0;
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
    fputs("\nwho writes\nargument at  launches  may write  replaces  kernel\n", out);
    for (size_t i = 0; i < kept; i++)
        if (list[i].writes)
            fprintf(out, "%11" PRIu32 " %9" PRIu32 " %10" PRIu32 " %9" PRIu32 "  %s\n", list[i].param_offset,
                    list[i].launches, list[i].writes, list[i].replaces, list[i].kernel);
    free(list);
    return true;
}

/* ---- everything, a line each ---- */

static void show_accesses(const ebb_trace_t *t, const ebb_trace_operation_t *o, FILE *out)
{
    static const char letter[] = "?rwu";
    for (uint32_t k = o->first_access; k < o->first_access + o->access_count; k++) {
        const ebb_trace_access_t *a = &t->access[k];
        fprintf(out, " %c%" PRIu32, letter[a->mode], a->buffer);
        if (a->offset_bytes)
            fprintf(out, "+%" PRIu64, a->offset_bytes);
        if (a->tile_count)
            fprintf(out, "[%" PRIu32 "..%" PRIu32 ")", a->first_tile, a->first_tile + a->tile_count);
    }
}

void ebb_show_launches(const ebb_trace_t *t, FILE *out)
{
    fputs("\noperations: r reads, w replaces, u updates a buffer, [tiles in which writes were seen)\n"
          "      op stream thread    at ms     ms  verdict       name: buffers\n",
          out);
    for (uint32_t i = 0; i < t->operation_count; i++) {
        const ebb_trace_operation_t *o = &t->operation[i];
        fprintf(out, "%8" PRIu32 " %6" PRIu32 " %6" PRIu32 " %8.3f %6.3f  %-12s  %.60s:", i, o->stream,
                o->thread, ms(o->at_ns), ms(o->duration_ns), ebb_verdict_word[o->verdict], o->name);
        show_accesses(t, o, out);
        if (o->nvtx)
            fprintf(out, "  (%s)", ebb_trace_nvtx(t, o));
        fputc('\n', out);
    }
}

static void show_point(uint32_t operation, FILE *out)
{
    if (operation == EBB_NONE)
        fprintf(out, " %8s", "-");
    else
        fprintf(out, " %8" PRIu32, operation);
}

void ebb_show_buffers(const ebb_trace_t *t, FILE *out)
{
    uint32_t *uses = calloc(2 * (size_t)t->buffer_count + 1, sizeof *uses);
    fputs("\n  buffer       MiB     born     dies     next  accesses  writes\n", out);
    for (uint32_t k = 0; uses && k < t->access_count; k++) {
        uses[2 * t->access[k].buffer]++;
        uses[2 * t->access[k].buffer + 1] += t->access[k].mode != EBB_READS;
    }
    for (uint32_t b = 0; b < t->buffer_count; b++) {
        fprintf(out, "%8" PRIu32 " %9.3f", b, mib(t->buffer[b].bytes));
        show_point(t->buffer[b].born, out);
        show_point(t->buffer[b].dies, out);
        show_point(t->buffer[b].next, out);
        fprintf(out, " %9" PRIu32 " %7" PRIu32 "%s\n", uses ? uses[2 * b] : 0, uses ? uses[2 * b + 1] : 0,
                t->buffer[b].pinned ? "  pinned" : "");
    }
    free(uses);
}

void ebb_show_moments(const ebb_trace_t *t, FILE *out)
{
    fputs("\nbetween operations\n  before stream thread  what         id\n", out);
    for (uint32_t i = 0; i < t->sync_count; i++) {
        const ebb_trace_sync_t *m = &t->sync[i];
        fprintf(out, "%8" PRIu32 " %6" PRIu32 " %6" PRIu32 "  %-11s", m->before, m->stream, m->thread,
                ebb_moment_word[m->what]);
        if (m->what <= EBB_SYNC_SYNC_EVENT && m->id != EBB_NONE)
            fprintf(out, " %4" PRIu32, m->id);
        fputc('\n', out);
    }
}
