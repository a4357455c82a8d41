#include "ckpt/plan/completions.h"

#include <stdlib.h>

uint32_t *ebb_plan_completions(const ebb_plan_t *p, const ebb_trace_t *t)
{
    uint32_t *out = malloc(((size_t)p->action_count + 1) * sizeof *out);
    uint32_t *open = malloc(((size_t)p->place_count + 1) * sizeof *open); /* discards */
    for (uint32_t i = 0; open && i < p->place_count; i++)
        open[i] = EBB_TRACE_NEVER;
    for (uint32_t i = 0; out && open && i < p->action_count; i++) {
        const ebb_action_t *a = &p->action[i];
        out[i] = EBB_TRACE_NEVER;
        if (a->place != EBB_TRACE_NEVER)
            open[a->place] = a->kind == EBB_DISCARD ? i : EBB_TRACE_NEVER;
        if (a->kind != EBB_REPLAY)
            continue;
        const ebb_trace_operation_t *o = &t->operation[a->operation];
        for (uint32_t k = o->first_access; k < o->first_access + o->access_count; k++) {
            const uint32_t b = t->access[k].buffer;
            if (t->access[k].mode != EBB_READS && open[b] != EBB_TRACE_NEVER && ebb_plan_place(p, a, b) == b)
                out[open[b]] = i;
        }
    }
    if (!open) {
        free(out);
        out = NULL;
    }
    free(open);
    return out;
}
