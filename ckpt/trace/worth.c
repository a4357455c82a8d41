#include "ckpt/trace/trace.h"

#include <stdlib.h>
#include <string.h>

#include "alloc/base/table.h"

/* A gap is real if this many operations lie in it, and at least this share of the step's time (or, without
 * times, of its operations). */
enum { LEAST_OPERATIONS = 2, LEAST_PER_MILLE = 1, DEEPEST = 1024 };

/* And a content lies idle for so many times what it takes to make it again: else what that frees, for how long, is hardly
 * worth its time. The last layers' are kept; where memory is so short that even they must go, that is better than nothing. */
enum { LEAST_TIMES = 4 };

typedef struct work {
    const ebb_trace_t *t;
    ebb_uses_t uses;
    bool *writes;    /* [accesses], as uses.operation: whether the operation writes that buffer */
    uint32_t *seen;  /* [operations] the last content for which it was visited */
    uint32_t *made;  /* operations of the content under way */
    uint32_t *asked; /* [buffers] the last content for which it would be held, */
    uint32_t *hold;  /* and those of the content under way */
    uint32_t made_count, hold_count, turn;
} work_t;

/* ---- the uses of each buffer ---- */

static bool note_writes(work_t *w)
{
    const ebb_trace_t *t = w->t;
    uint32_t *next = malloc(((size_t)t->buffer_count + 1) * sizeof *next);
    if (!next)
        return false;
    memcpy(next, w->uses.first, t->buffer_count * sizeof *next);
    for (uint32_t i = 0; i < t->operation_count; i++) {
        const ebb_trace_operation_t *o = &t->operation[i];
        for (uint32_t k = o->first_access; k < o->first_access + o->access_count; k++) {
            uint32_t *at = &next[t->access[k].buffer];
            *at += w->uses.operation[*at] < i;
            w->writes[*at] |= t->access[k].mode != EBB_READS;
        }
    }
    free(next);
    return true;
}

/* Of the operations from `from` on, to before `to`. Without times, as if all took as long. */
static uint64_t time_of(const work_t *w, uint32_t from, uint32_t to)
{
    const uint64_t *begin = w->uses.begin_ns;
    return begin[w->t->operation_count] ? begin[to] - begin[from] : to - from;
}

static bool is_real_gap(const work_t *w, uint32_t from, uint32_t to)
{
    return to - from > LEAST_OPERATIONS &&
           time_of(w, from + 1, to) * 1000 >= time_of(w, 0, w->t->operation_count) * LEAST_PER_MILLE;
}

/* ---- what a content takes ---- */

static bool is_there_at(const work_t *w, uint32_t buffer, uint32_t read_by, uint32_t at)
{
    const ebb_trace_buffer_t *b = &w->t->buffer[buffer];
    if (b->dies != EBB_NONE && b->dies <= at)
        return false;
    for (uint32_t k = w->uses.first[buffer]; k < w->uses.first[buffer + 1]; k++)
        if (w->writes[k] && w->uses.operation[k] >= read_by && w->uses.operation[k] < at)
            return false;
    return true;
}

/* Or this is not known yet. */
static bool may_be_repeated(const ebb_trace_operation_t *o)
{
    return o->proofs || o->verdict == EBB_UNTRIED;
}

/* The content that `buffer` has behind operation `upto`, in place of making it. False: it is overwritten before it is freed. */
static bool hold(work_t *w, uint32_t buffer, uint32_t upto, uint32_t at)
{
    const ebb_trace_buffer_t *b = &w->t->buffer[buffer];
    if (b->dies == EBB_NONE || b->dies > at)
        return false;
    for (uint32_t k = w->uses.first[buffer]; k < w->uses.first[buffer + 1]; k++)
        if (w->writes[k] && w->uses.operation[k] > upto)
            return false;
    if (w->asked[buffer] != w->turn)
        w->hold[w->hold_count++] = buffer;
    w->asked[buffer] = w->turn;
    return true;
}

/* Adds the operations that make the content that `buffer` has behind operation `upto`. False: it cannot be had. */
static bool make(work_t *w, uint32_t buffer, uint32_t upto, uint32_t at, unsigned depth)
{
    const ebb_trace_t *t = w->t;
    if (t->buffer[buffer].born == EBB_NONE || depth > DEEPEST)
        return false;
    const ebb_uses_t *u = &w->uses;
    for (uint32_t k = u->first[buffer]; k < u->first[buffer + 1] && u->operation[k] <= upto; k++) {
        const uint32_t maker = u->operation[k];
        const ebb_trace_operation_t *o = &t->operation[maker];
        if (!w->writes[k] || w->seen[maker] == w->turn)
            continue;
        if (!may_be_repeated(o))
            return hold(w, buffer, upto, at);
        w->seen[maker] = w->turn;
        w->made[w->made_count++] = maker;
        for (uint32_t a = o->first_access; a < o->first_access + o->access_count; a++) {
            uint32_t other = t->access[a].buffer;
            bool first = t->buffer[other].born != EBB_NONE && u->operation[u->first[other]] == maker;
            if (other == buffer || first || t->access[a].mode == EBB_REPLACES ||
                is_there_at(w, other, maker, at))
                continue;
            if (!maker || !make(w, other, maker - 1, at, depth + 1))
                return false;
        }
    }
    return true;
}

/* False: that takes too long for the time in which it lies idle. */
static bool judge(work_t *w, ebb_saved_t *s, uint64_t least_bytes, ebb_worth_t *out)
{
    const uint64_t gap = time_of(w, s->from + 1, s->to), bytes = w->t->buffer[s->buffer].bytes;
    uint64_t ns = 0;
    w->turn++;
    w->made_count = w->hold_count = 0;
    s->possible = make(w, s->buffer, s->from, s->to, 0) && w->made_count;
    s->proven = s->possible;
    for (uint32_t i = 0; s->possible && i < w->made_count; i++)
        ns += time_of(w, w->made[i], w->made[i] + 1);
    const bool real = LEAST_TIMES * ns <= gap;
    const ebb_need_t need = real ? EBB_WANTED : EBB_WANTED_LAST;
    for (uint32_t i = 0; s->possible && i < w->made_count; i++) {
        const uint32_t made = w->made[i];
        s->proven &= w->t->operation[made].proofs > 0;
        if (bytes >= least_bytes && need > out->need[made])
            out->need[made] = need;
    }
    for (uint32_t i = 0; real && s->proven && bytes >= least_bytes && i < w->hold_count; i++) {
        uint32_t *held = &out->held[w->hold[i]];
        *held = *held == EBB_NONE || *held <= s->to ? s->to + 1 : *held;
    }
    return real;
}

static bool find(work_t *w, uint64_t least_bytes, ebb_worth_t *out)
{
    uint32_t room = 0;
    for (uint32_t b = 0; b < w->t->buffer_count; b++) {
        bool written = false;
        for (uint32_t k = w->uses.first[b]; k + 1 < w->uses.first[b + 1] && w->t->buffer[b].born != EBB_NONE;
             k++) {
            const uint32_t *use = &w->uses.operation[k];
            written |= w->writes[k];
            if (!written || !is_real_gap(w, use[0], use[1]))
                continue;
            ebb_saved_t *s =
                ebb_array_append((void **)&out->saved, &out->saved_count, &room, sizeof *out->saved);
            if (!s)
                return false;
            *s = (ebb_saved_t){.buffer = b, .from = use[0], .to = use[1]};
            if (!judge(w, s, least_bytes, out))
                out->saved_count--;
        }
    }
    return true;
}

bool ebb_worth_find(const ebb_trace_t *t, uint64_t least_bytes, ebb_worth_t *out)
{
    size_t n = (size_t)t->operation_count + 1, buffers = (size_t)t->buffer_count + 1;
    work_t w = {.t = t,
                .writes = calloc((size_t)t->access_count + 1, sizeof *w.writes),
                .seen = calloc(n, sizeof *w.seen),
                .made = calloc(n, sizeof *w.made),
                .asked = calloc(buffers, sizeof *w.asked),
                .hold = calloc(buffers, sizeof *w.hold)};
    *out = (ebb_worth_t){.need = calloc(n, sizeof *out->need), .held = malloc(buffers * sizeof *out->held)};
    if (out->held)
        memset(out->held, 0xff, buffers * sizeof *out->held);
    const bool good = ebb_uses_make(&w.uses, t) && w.writes && w.seen && w.made && w.asked && w.hold &&
                      out->need && out->held && note_writes(&w) && find(&w, least_bytes, out);
    ebb_uses_free(&w.uses);
    free(w.writes);
    free(w.seen);
    free(w.made);
    free(w.asked);
    free(w.hold);
    if (!good)
        ebb_worth_free(out);
    return good;
}

void ebb_worth_free(ebb_worth_t *worth)
{
    free(worth->saved);
    free(worth->need);
    free(worth->held);
    *worth = (ebb_worth_t){0};
}
