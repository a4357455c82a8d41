/* plan_moves.c: see plan_moves.h. */
#include "cli/plan_moves.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "cli/cli.h"
#include "cli/command.h"
#include "cli/names.h"
#include "cli/report/report.h"

enum { FEW = 4 };

typedef struct move {
    uint32_t buffer;
    uint64_t bytes;
} move_t;

static int by_bytes(const void *a, const void *b)
{
    const move_t *x = a, *y = b;
    return x->bytes != y->bytes ? (x->bytes < y->bytes) - (x->bytes > y->bytes)
                                : (x->buffer > y->buffer) - (x->buffer < y->buffer);
}

static void print(const ebb_report_t *r, uint32_t buffer, bool why)
{
    const ebb_report_buffer_t *const b = &r->buffer[buffer];
    const ebb_report_gap_t *const gap = b->decisive == EBB_NONE ? NULL : &r->gap[b->decisive];
    const unsigned columns = ebb_cli_columns();
    char name[EBB_NAME_ROOM];
    const size_t room = columns > 50 ? columns - 48 : 2;
    ebb_cli_name(b->maker == EBB_NONE ? "before the step" : r->in.trace->operation[b->maker].name, name,
                 room < sizeof name ? room : sizeof name);
    printf("%10" PRIu32 " %9.1f  %-9s %9.3f %9.3f  %s\n", buffer,
           ebb_cli_mib(r->in.trace->buffer[buffer].bytes), ebb_class_word[b->fate], gap ? gap->ns * 1e-6 : 0,
           gap ? gap->cost_ns * 1e-6 : 0, name);
    if (why && b->why)
        printf("%22s%s\n", "", b->why);
}

bool ebb_show_moves(const ebb_trace_t *t, const ebb_plan_t *p, const ebb_hardware_t *hardware, bool all)
{
    const ebb_report_input_t input = {.trace = t, .plan = p, .hardware = *hardware, .title = ""};
    ebb_report_t *r = ebb_report_make(&input);
    move_t *move = calloc((size_t)t->buffer_count + 1, sizeof *move);
    uint32_t count = 0;
    for (uint32_t i = 0; r && move && i < t->buffer_count; i++)
        if (r->buffer[i].fate == EBB_CLASS_OFFLOADED || r->buffer[i].fate == EBB_CLASS_CLEAN ||
            r->buffer[i].fate == EBB_CLASS_DROPPED)
            move[count++] = (move_t){i, t->buffer[i].bytes};
    const bool good = r && move;
    if (good && count) {
        qsort(move, count, sizeof *move, by_bytes);
        printf("%10s %9s  %-9s %9s %9s  made by\n", "buffer", "MiB", "fate", "idle ms", "costs ms");
        for (uint32_t i = 0; i < count && (all || i < FEW); i++)
            print(r, move[i].buffer, all);
        if (!all && count > FEW)
            printf("%10s and %" PRIu32 " more: -v lists them, and why\n", "", count - FEW);
    }
    free(move);
    ebb_report_delete(r);
    return good;
}
