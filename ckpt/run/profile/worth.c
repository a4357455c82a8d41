#include "ckpt/run/profile/profile.h"

#include <stdlib.h>

#include "alloc/base/table.h"

/* A gap is real if this many operations lie in it, and at least this share of the step's time (or, without
 * times, of its operations). */
enum { LEAST_OPERATIONS = 2, LEAST_PER_MILLE = 1, DEEPEST = 1024 };

/* And a content lies idle for so many times what it takes to make it again: else what that frees, for how long, is hardly
 * worth its time. The last layers' are kept; where memory is so short that even they must go, that is better than nothing. */
enum { LEAST_TIMES = 4 };

/* An access, in the order of its buffer. */
typedef struct use {
    uint32_t operation;
    bool writes;
} use_t;

typedef struct work {
    const ebb_trace_t *t;
    uint32_t *first; /* [buffers + 1] into use */
    use_t *use;      /* by buffer, then by operation; one for each operation */
    uint64_t *end;   /* [operations] time */
    uint32_t *seen;  /* [operations] the last content for which it was visited */
    uint32_t *made;  /* operations of the content under way */
    uint32_t made_count, turn;
} work_t;

static bool is_write(const ebb_trace_t *t, ebb_may_write_fn may_write, void *context, uint32_t operation,
                     uint32_t access)
{
    return may_write ? may_write(context, operation, access) : t->access[access].mode != EBB_READS;
}

/* ---- the uses of each buffer ---- */

static bool list_uses(work_t *w, ebb_may_write_fn may_write, void *context)
{
    const ebb_trace_t *t = w->t;
    uint32_t *next = calloc((size_t)t->buffer_count + 1, sizeof *next);
    if (!next)
        return false;
    for (uint32_t i = 0; i < t->access_count; i++)
        w->first[t->access[i].buffer + 1]++;
    for (uint32_t b = 0; b < t->buffer_count; b++)
        w->first[b + 1] += w->first[b];
    for (uint32_t b = 0; b < t->buffer_count; b++)
        next[b] = w->first[b];
    for (uint32_t i = 0; i < t->operation_count; i++) {
        const ebb_trace_operation_t *o = &t->operation[i];
        for (uint32_t k = o->first_access; k < o->first_access + o->access_count; k++) {
            uint32_t b = t->access[k].buffer;
            use_t *last = next[b] > w->first[b] ? &w->use[next[b] - 1] : NULL;
            if (!last || last->operation != i)
                w->use[next[b]++] = (use_t){.operation = i};
            w->use[next[b] - 1].writes |= is_write(t, may_write, context, i, k);
        }
    }
    /* What several accesses of an operation have left over, at the end of each buffer's. */
    for (uint32_t b = 0; b < t->buffer_count; b++)
        for (uint32_t k = next[b]; k < w->first[b + 1]; k++)
            w->use[k] = (use_t){.operation = EBB_NONE};
    free(next);
    return true;
}

static uint32_t use_count(const work_t *w, uint32_t buffer)
{
    uint32_t n = w->first[buffer + 1] - w->first[buffer];
    while (n && w->use[w->first[buffer] + n - 1].operation == EBB_NONE)
        n--;
    return n;
}

/* Without times, as if all operations took as long. */
static uint64_t time_of(const work_t *w, uint32_t i)
{
    return w->end[w->t->operation_count - 1] ? w->end[i] - (i ? w->end[i - 1] : 0) : 1;
}

static uint64_t gap_between(const work_t *w, uint32_t from, uint32_t to)
{
    return w->end[w->t->operation_count - 1] ? w->end[to - 1] - w->end[from] : to - from - 1;
}

static bool is_real_gap(const work_t *w, uint32_t from, uint32_t to)
{
    const uint64_t step = w->end[w->t->operation_count - 1];
    return to - from > LEAST_OPERATIONS &&
           gap_between(w, from, to) * 1000 >= (step ? step : w->t->operation_count) * LEAST_PER_MILLE;
}

/* ---- what a content takes ---- */

static bool is_there_at(const work_t *w, uint32_t buffer, uint32_t read_by, uint32_t at)
{
    const ebb_trace_buffer_t *b = &w->t->buffer[buffer];
    if (b->dies != EBB_NONE && b->dies <= at)
        return false;
    for (uint32_t k = w->first[buffer]; k < w->first[buffer + 1]; k++) {
        const use_t *u = &w->use[k];
        if (u->operation != EBB_NONE && u->writes && u->operation >= read_by && u->operation < at)
            return false;
    }
    return true;
}

/* Adds the operations that make the content that `buffer` has behind operation `upto`. False: it cannot be made. */
static bool make(work_t *w, uint32_t buffer, uint32_t upto, uint32_t at, unsigned depth)
{
    const ebb_trace_t *t = w->t;
    if (t->buffer[buffer].born == EBB_NONE || depth > DEEPEST)
        return false;
    for (uint32_t k = w->first[buffer]; k < w->first[buffer + 1]; k++) {
        const use_t *u = &w->use[k];
        if (u->operation == EBB_NONE || u->operation > upto)
            break;
        if (!u->writes || w->seen[u->operation] == w->turn)
            continue;
        const ebb_trace_operation_t *o = &t->operation[u->operation];
        w->seen[u->operation] = w->turn;
        w->made[w->made_count++] = u->operation;
        for (uint32_t a = o->first_access; a < o->first_access + o->access_count; a++) {
            uint32_t other = t->access[a].buffer;
            bool first = t->buffer[other].born != EBB_NONE && w->first[other] < w->first[other + 1] &&
                         w->use[w->first[other]].operation == u->operation;
            if (other == buffer || first || t->access[a].mode == EBB_REPLACES ||
                is_there_at(w, other, u->operation, at))
                continue;
            if (!u->operation || !make(w, other, u->operation - 1, at, depth + 1))
                return false;
        }
    }
    return true;
}

/* False: that takes too long for the time in which it lies idle. */
static bool judge(work_t *w, ebb_saved_t *s, uint64_t least_bytes, ebb_worth_t *out)
{
    const uint64_t gap = gap_between(w, s->from, s->to), bytes = w->t->buffer[s->buffer].bytes;
    uint64_t ns = 0;
    w->turn++;
    w->made_count = 0;
    s->possible = make(w, s->buffer, s->from, s->to, 0) && w->made_count;
    s->proven = s->possible;
    for (uint32_t i = 0; s->possible && i < w->made_count; i++)
        ns += time_of(w, w->made[i]);
    const bool real = LEAST_TIMES * ns <= gap;
    const ebb_need_t need = real ? EBB_WANTED : EBB_WANTED_LAST;
    for (uint32_t i = 0; s->possible && i < w->made_count; i++) {
        const uint32_t made = w->made[i];
        s->proven &= w->t->operation[made].proofs > 0;
        if (bytes >= least_bytes && need > out->need[made])
            out->need[made] = need;
    }
    return real;
}

static bool find(work_t *w, uint64_t least_bytes, ebb_worth_t *out)
{
    uint32_t room = 0;
    for (uint32_t b = 0; b < w->t->buffer_count; b++) {
        uint32_t n = use_count(w, b);
        bool written = false;
        for (uint32_t k = 0; k + 1 < n && w->t->buffer[b].born != EBB_NONE; k++) {
            const use_t *u = &w->use[w->first[b] + k];
            written |= u->writes;
            if (!written || !is_real_gap(w, u->operation, u[1].operation))
                continue;
            ebb_saved_t *s =
                ebb_array_append((void **)&out->saved, &out->saved_count, &room, sizeof *out->saved);
            if (!s)
                return false;
            *s = (ebb_saved_t){.buffer = b, .from = u->operation, .to = u[1].operation};
            if (!judge(w, s, least_bytes, out))
                out->saved_count--;
        }
    }
    return true;
}

bool ebb_worth_find(const ebb_trace_t *t, ebb_may_write_fn may_write, void *context, uint64_t least_bytes,
                    ebb_worth_t *out)
{
    size_t n = (size_t)t->operation_count + 1;
    work_t w = {.t = t,
                .first = calloc((size_t)t->buffer_count + 2, sizeof *w.first),
                .use = calloc((size_t)t->access_count + 1, sizeof *w.use),
                .end = calloc(n, sizeof *w.end),
                .seen = calloc(n, sizeof *w.seen),
                .made = calloc(n, sizeof *w.made)};
    *out = (ebb_worth_t){.need = calloc(n, sizeof *out->need)};
    bool good = w.first && w.use && w.end && w.seen && w.made && out->need;
    for (uint32_t i = 0; good && i < t->operation_count; i++)
        w.end[i] = (i ? w.end[i - 1] : 0) + t->operation[i].duration_ns;
    good = good && list_uses(&w, may_write, context) && find(&w, least_bytes, out);
    free(w.first);
    free(w.use);
    free(w.end);
    free(w.seen);
    free(w.made);
    if (!good)
        ebb_worth_free(out);
    return good;
}

void ebb_worth_free(ebb_worth_t *worth)
{
    free(worth->saved);
    free(worth->need);
    *worth = (ebb_worth_t){0};
}
