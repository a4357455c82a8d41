/* plan_dtr.c: see plan_dtr.h. */
#include "plan_dtr.h"

#include <stdlib.h>
#include <string.h>

typedef struct content {
    uint32_t buffer, producer; /* operation; EBB_NONE: it is there when the step begins, or holds nothing */
    uint32_t chunks, locks;
    bool resident, stays;
    uint64_t used_ns;
    uint32_t first_reader, reader_count; /* in dtr->reader */
} content_t;

/* What an operation does to one buffer. */
typedef struct touch {
    uint32_t before, after; /* contents; equal: it reads */
    bool reads;
} touch_t;

typedef struct dtr {
    const ebb_trace_t *t;
    content_t *content;
    touch_t *touch;
    uint32_t *first_touch;  /* [operations + 1] */
    uint32_t *reader;       /* operations, by the content that they read */
    uint32_t *seen, *stack; /* [operations]; [contents] */
    uint32_t count, walk;
    uint64_t used, limit, now_ns;
} dtr_t;

static void *must(void *memory)
{
    if (!memory)
        abort();
    return memory;
}

static uint32_t new_content(dtr_t *d, uint32_t buffer, uint32_t producer)
{
    const ebb_trace_buffer_t *b = &d->t->buffer[buffer];
    const bool large = b->bytes > d->t->chunk_bytes / 2;
    content_t *c = &d->content[d->count];
    *c = (content_t){.buffer = buffer, .producer = producer};
    c->chunks = large ? (uint32_t)((b->bytes + d->t->chunk_bytes - 1) / d->t->chunk_bytes) : 0;
    c->stays = !large || b->born == EBB_NONE || b->dies == EBB_NONE || producer == EBB_NONE ||
               !d->t->operation[producer].proofs;
    return d->count++;
}

static void list_touches(dtr_t *d)
{
    const ebb_trace_t *t = d->t;
    uint32_t *current = must(malloc((t->buffer_count + 1) * sizeof *current)), count = 0;
    for (uint32_t b = 0; b < t->buffer_count; b++)
        current[b] = new_content(d, b, EBB_NONE);
    for (uint32_t i = 0; i < t->operation_count; i++) {
        const ebb_trace_operation_t *o = &t->operation[i];
        d->first_touch[i] = count;
        for (uint32_t k = o->first_access; k < o->first_access + o->access_count; k++) {
            const ebb_trace_access_t *a = &t->access[k];
            if (!ebb_trace_is_first(t, i, k))
                continue;
            touch_t *u = &d->touch[count++];
            u->before = u->after = current[a->buffer];
            u->reads = a->mode != EBB_REPLACES &&
                       (t->buffer[a->buffer].born == EBB_NONE || d->content[u->before].producer != EBB_NONE);
            if (a->mode != EBB_READS)
                u->after = current[a->buffer] = new_content(d, a->buffer, i);
        }
    }
    d->first_touch[t->operation_count] = count;
    free(current);
}

static void list_readers(dtr_t *d)
{
    const uint32_t touches = d->first_touch[d->t->operation_count];
    uint32_t at = 0;
    for (uint32_t k = 0; k < touches; k++)
        d->content[d->touch[k].before].reader_count += d->touch[k].reads;
    for (uint32_t c = 0; c < d->count; c++) {
        d->content[c].first_reader = at;
        at += d->content[c].reader_count;
        d->content[c].reader_count = 0;
    }
    for (uint32_t i = 0; i < d->t->operation_count; i++)
        for (uint32_t k = d->first_touch[i]; k < d->first_touch[i + 1]; k++)
            if (d->touch[k].reads) {
                content_t *c = &d->content[d->touch[k].before];
                d->reader[c->first_reader + c->reader_count++] = i;
            }
}

/* ---- what goes ---- */

/* It was there, and is not. */
static bool is_evicted(const dtr_t *d, uint32_t content, uint32_t issued)
{
    const content_t *c = &d->content[content];
    return !c->resident && !c->stays && c->producer < issued;
}

static void push(dtr_t *d, uint32_t *height, uint32_t operation, uint64_t *sum)
{
    if (d->seen[operation] == d->walk)
        return;
    d->seen[operation] = d->walk;
    *sum += d->t->operation[operation].duration_ns;
    d->stack[(*height)++] = operation;
}

/* The time of what would be made again with it: itself, evicted ones that it is made of, and so on; evicted ones that are made of it. */
static uint64_t cost_of(dtr_t *d, uint32_t content, uint32_t issued)
{
    uint64_t sum = 0;
    for (int back = 0; back < 2; back++) {
        uint32_t height = 0;
        d->walk++;
        push(d, &height, d->content[content].producer, &sum);
        while (height) {
            const uint32_t operation = d->stack[--height];
            for (uint32_t k = d->first_touch[operation]; k < d->first_touch[operation + 1]; k++) {
                const touch_t *u = &d->touch[k];
                if (back && u->reads && is_evicted(d, u->before, issued))
                    push(d, &height, d->content[u->before].producer, &sum);
                const content_t *c = &d->content[u->after];
                for (uint32_t r = 0; !back && u->after != u->before && r < c->reader_count; r++) {
                    const uint32_t reader = d->reader[c->first_reader + r];
                    for (uint32_t j = d->first_touch[reader];
                         reader < issued && j < d->first_touch[reader + 1]; j++)
                        if (d->touch[j].after != d->touch[j].before &&
                            is_evicted(d, d->touch[j].after, issued))
                            push(d, &height, reader, &sum);
                }
            }
        }
    }
    return sum - d->t->operation[d->content[content].producer].duration_ns;
}

static bool evict_one(dtr_t *d, uint32_t issued)
{
    uint32_t best = EBB_NONE;
    double least = 0;
    for (uint32_t i = 0; i < d->count; i++) {
        const content_t *c = &d->content[i];
        if (!c->resident || c->locks || c->stays)
            continue;
        const double h = (double)cost_of(d, i, issued) / (c->chunks * (double)(d->now_ns - c->used_ns + 1));
        if (best == EBB_NONE || h < least) {
            best = i;
            least = h;
        }
    }
    if (best == EBB_NONE)
        return false;
    d->content[best].resident = false;
    d->used -= d->content[best].chunks;
    return true;
}

static bool take(dtr_t *d, uint32_t chunks, uint32_t issued)
{
    while (d->used + chunks > d->limit)
        if (!evict_one(d, issued))
            return false;
    d->used += chunks;
    return true;
}

/* ---- launches ---- */

static void lock(dtr_t *d, uint32_t operation, uint32_t by)
{
    for (uint32_t k = d->first_touch[operation]; k < d->first_touch[operation + 1]; k++)
        if (d->touch[k].reads)
            d->content[d->touch[k].before].locks += by;
}

/* The first time, or again: then results that are there are made beside. */
static bool launch(dtr_t *d, uint32_t operation, uint32_t issued)
{
    const uint32_t first = d->first_touch[operation], end = d->first_touch[operation + 1];
    uint64_t beside = 0;
    bool good = true;
    lock(d, operation, 1);
    for (uint32_t k = first; good && k < end; k++) {
        const content_t *c = &d->content[d->touch[k].before];
        if (d->touch[k].reads && !c->resident)
            good =
                c->producer < issued && d->t->operation[c->producer].proofs && launch(d, c->producer, issued);
    }
    for (uint32_t k = first; good && k < end; k++) {
        const touch_t *u = &d->touch[k];
        content_t *before = &d->content[u->before], *after = &d->content[u->after];
        if (u->after == u->before)
            continue;
        if (after->resident) {
            good = take(d, after->chunks, issued);
            beside += good ? after->chunks : 0;
        } else if (u->reads) { /* in place */
            before->resident = false;
            after->resident = true;
        } else {
            /* What outlives the step has its memory always. */
            good = d->t->buffer[after->buffer].born == EBB_NONE || take(d, after->chunks, issued);
            before->resident = false;
            after->resident = good;
        }
        after->locks++;
    }
    d->used -= beside;
    d->now_ns += d->t->operation[operation].duration_ns;
    lock(d, operation, UINT32_MAX);
    for (uint32_t k = first; k < end; k++) {
        content_t *after = &d->content[d->touch[k].after];
        after->locks -= good && d->touch[k].after != d->touch[k].before;
        after->used_ns = d->content[d->touch[k].before].used_ns = d->now_ns;
    }
    return good;
}

/* What dies is given up at once. */
static void free_dead(dtr_t *d, uint32_t operation)
{
    for (uint32_t i = 0; i < d->count; i++)
        if (d->content[i].resident && d->t->buffer[d->content[i].buffer].dies == operation) {
            d->content[i].resident = false;
            d->used -= d->content[i].chunks;
        }
}

uint64_t plan_dtr_ns(const ebb_trace_t *t, uint32_t chunks)
{
    const size_t contents = (size_t)t->buffer_count + t->access_count + 1,
                 operations = (size_t)t->operation_count + 1;
    dtr_t d = {.t = t,
               .limit = chunks,
               .content = must(calloc(contents, sizeof *d.content)),
               .touch = must(calloc((size_t)t->access_count + 1, sizeof *d.touch)),
               .first_touch = must(calloc(operations, sizeof *d.first_touch)),
               .reader = must(calloc((size_t)t->access_count + 1, sizeof *d.reader)),
               .seen = must(calloc(operations, sizeof *d.seen)),
               .stack = must(calloc(operations, sizeof *d.stack))};
    list_touches(&d);
    list_readers(&d);
    for (uint32_t b = 0; b < t->buffer_count; b++)
        if (t->buffer[b].born == EBB_NONE) {
            d.content[b].resident = true;
            d.used += d.content[b].chunks;
        }
    bool good = d.used <= d.limit;
    for (uint32_t i = 0; good && i < t->operation_count; i++) {
        free_dead(&d, i);
        good = launch(&d, i, i);
    }
    free(d.content);
    free(d.touch);
    free(d.first_touch);
    free(d.reader);
    free(d.seen);
    free(d.stack);
    return good ? d.now_ns : UINT64_MAX;
}
