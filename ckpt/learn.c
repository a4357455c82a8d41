#include "learn.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LEAST_PROOFS = 3 };

/* ---- do they agree? ---- */

static const char *differ(const char *what, uint32_t operation, const char *name)
{
    static char text[256];
    snprintf(text, sizeof text, "%s, at operation %u (%.120s)", what, operation, name);
    return text;
}

static bool same_shape(const ebb_trace_operation_t *a, const ebb_trace_operation_t *b)
{
    return a->kind == b->kind && a->stream == b->stream && !memcmp(a->grid, b->grid, sizeof a->grid) &&
           !memcmp(a->block, b->block, sizeof a->block) && a->shared_bytes == b->shared_bytes &&
           a->param_bytes == b->param_bytes && a->access_count == b->access_count;
}

static const char *compare(const ebb_recording_t *a, const ebb_recording_t *b)
{
    const ebb_trace_t *t = a->trace, *u = b->trace;
    if (t->operation_count != u->operation_count)
        return differ("the number of operations", u->operation_count, "the end");
    if (a->stream != b->stream)
        return differ("the stream", 0, t->operation_count ? t->operation[0].name : "none");
    for (uint32_t i = 0; i < t->operation_count; i++) {
        const ebb_trace_operation_t *o = &t->operation[i], *p = &u->operation[i];
        if (a->function[i] != b->function[i] || !same_shape(o, p))
            return differ("an operation", i, p->name);
        for (uint32_t k = 0; k < o->access_count; k++) {
            const ebb_trace_access_t *x = &t->access[o->first_access + k],
                                     *y = &u->access[p->first_access + k];
            if (x->buffer != y->buffer || x->offset_bytes != y->offset_bytes ||
                x->param_offset != y->param_offset)
                return differ("the buffers that an operation touches", i, p->name);
        }
    }
    if (t->buffer_count != u->buffer_count)
        return differ("the number of buffers", t->operation_count, "the end");
    for (uint32_t i = 0; i < t->buffer_count; i++) {
        const ebb_trace_buffer_t *x = &t->buffer[i], *y = &u->buffer[i];
        if (x->bytes != y->bytes || x->born != y->born || x->dies != y->dies)
            return differ("a buffer's size or lifetime", y->born == EBB_TRACE_NEVER ? 0 : y->born,
                          "allocations");
        if (x->born == EBB_TRACE_NEVER && a->generation[i] != b->generation[i])
            return differ("a buffer that outlives the step", 0, "allocations");
    }
    return NULL;
}

/* ---- who writes? ---- */

/* Arguments that were seen to write: (function, offset of the word). Open addressing. */
typedef struct writer {
    CUfunction function; /* NULL: free */
    uint32_t param_offset;
} writer_t;

typedef struct writers {
    writer_t *slot;
    size_t room; /* a power of two, more than there are accesses */
} writers_t;

static writer_t *find_writer(const writers_t *w, CUfunction function, uint32_t offset)
{
    size_t i = (size_t)(((uintptr_t)function + offset) * 0x9e3779b97f4a7c15u >> 20) & (w->room - 1);
    while (w->slot[i].function && (w->slot[i].function != function || w->slot[i].param_offset != offset))
        i = (i + 1) & (w->room - 1);
    return &w->slot[i];
}

static void note_writers(writers_t *w, const ebb_recording_t *r)
{
    for (uint32_t i = 0; i < r->trace->operation_count; i++) {
        const ebb_trace_operation_t *o = &r->trace->operation[i];
        for (uint32_t k = o->first_access; r->function[i] && k < o->first_access + o->access_count; k++) {
            const ebb_trace_access_t *a = &r->trace->access[k];
            if (a->mode != EBB_READS)
                *find_writer(w, r->function[i], a->param_offset) =
                    (writer_t){r->function[i], a->param_offset};
        }
    }
}

/* ---- the worse of both ---- */

static void set_mode(ebb_trace_t *t, const ebb_trace_operation_t *o, uint32_t buffer, ebb_mode_t mode)
{
    for (uint32_t k = o->first_access; k < o->first_access + o->access_count; k++)
        if (t->access[k].buffer == buffer)
            t->access[k].mode = mode;
}

static void merge_operation(ebb_trace_t *t, const ebb_trace_t *u, uint32_t index, const writers_t *w,
                            CUfunction function)
{
    ebb_trace_operation_t *o = &t->operation[index];
    const ebb_trace_operation_t *p = &u->operation[index];
    if (p->duration_ns < o->duration_ns)
        o->duration_ns = p->duration_ns;
    o->proofs = o->proofs && p->proofs && o->proofs + p->proofs >= LEAST_PROOFS ? o->proofs + p->proofs : 0;
    if (o->verdict != EBB_PROVEN || p->verdict != EBB_PROVEN)
        o->verdict = o->verdict == EBB_DIFFERS || p->verdict == EBB_PROVEN ? o->verdict : p->verdict;
    else if (!o->proofs)
        o->verdict = EBB_UNTRIED;
    for (uint32_t k = o->first_access, l = p->first_access; k < o->first_access + o->access_count; k++, l++) {
        ebb_trace_access_t *a = &t->access[k];
        if (a->mode != u->access[l].mode)
            set_mode(t, o, a->buffer, EBB_UPDATES);
        else if (a->mode == EBB_READS && function && find_writer(w, function, a->param_offset)->function)
            set_mode(t, o, a->buffer, EBB_UPDATES);
    }
}

const char *ebb_learn_merge(ebb_recording_t *first, const ebb_recording_t *second)
{
    const char *difference = compare(first, second);
    if (difference)
        return difference;
    writers_t w = {.room = 64};
    while (w.room < 4 * (size_t)first->trace->access_count)
        w.room *= 2;
    w.slot = calloc(w.room, sizeof *w.slot);
    if (!w.slot)
        return "there is no memory to compare them";
    note_writers(&w, first);
    note_writers(&w, second);
    for (uint32_t i = 0; i < first->trace->operation_count; i++)
        merge_operation(first->trace, second->trace, i, &w, first->function[i]);
    free(w.slot);
    return NULL;
}
