/* step_stretch.c: what stands between known steps: when it recurs it is a variant of its own, or a part of a longer step. */
#include <stdlib.h>

#include "ckpt/run/tracker/internal.h"

enum { ACCIDENT = 3 /* operations between known steps, at most */, OFTEN = 8 /* or fewer steps between */ };

static bool is_like(const pending_t *s, const past_t *p, size_t from, size_t to)
{
    track_t t = {.next = 0};
    const view_t v = {s->signature, SIZE_MAX, s->operations};
    resumed_t r;
    for (size_t i = from; i < to; i++)
        if (track_take(&t, &v, p, i, &r) == OFF)
            return false;
    const size_t errors = t.extras + t.missing + t.open + (s->operations - t.next);
    return 10 * errors <= s->operations + 10;
}

static void keep_pending(follow_t *f, const past_t *p, size_t from, size_t to)
{
    pending_t *s = &f->pending[f->pendings++ % PENDING];
    free(s->signature);
    *s = (pending_t){
        .signature = malloc((to - from) * sizeof *s->signature), .operations = to - from, .count = 1};
    if (!s->signature) {
        s->operations = 0;
        return;
    }
    for (size_t i = from; i < to; i++) {
        s->signature[i - from] = *at(p, i);
        if (i - from < 2)
            s->signature[i - from].triple = 0;
    }
}

/* Seen so often so far, this time included. */
static pending_t *recurrence(follow_t *f, const past_t *p, size_t from, size_t to)
{
    for (unsigned i = 0; i < PENDING; i++) {
        pending_t *s = &f->pending[i];
        if (s->signature && is_like(s, p, from, to)) {
            s->count++;
            return s;
        }
    }
    keep_pending(f, p, from, to);
    return NULL;
}

static bool is_familiar(const past_t *p, size_t from, size_t to, const variant_t *k)
{
    size_t known = 0;
    for (size_t i = from; i < to; i++)
        known += variant_has(k, at(p, i)->coarse);
    return 2 * known >= to - from;
}

/* It gives back what the variant holds across its steps, and takes as much again: an optimizer's step and the first of the next micro-batches,
 * where gradients live between the two. The variant is a part of a step. */
static bool gives_back(const past_t *p, size_t from, size_t to, const variant_t *k)
{
    const uint64_t before = at(p, from)->live, behind = at(p, to)->live,
                   least = before < behind ? before : behind;
    return 64 * (least - past_extent(p, from, to + 1).fewest) > k->amplitude;
}

/* It touches what has lain idle for longer than a step of the variant: moments, and not only what the variant's steps touch. */
static bool reaches_far(const past_t *p, size_t from, size_t to, const variant_t *k)
{
    const size_t step = k->info.operations + k->info.operations / 8,
                 begun = from > oldest(p) + step ? from - step : oldest(p);
    while (from < to && at(p, from)->touched >= at(p, begun)->number)
        from++;
    return from < to;
}

void stretch_note(follow_t *f, const past_t *p, size_t from, size_t to, int keep)
{
    const int main = variants_family(&f->variants, 0, -1).main;
    if (main < 0 || from < oldest(p) || to <= from)
        return;
    const variant_t *k = variant_at(f, main);
    const extent_t e = past_extent(p, from, to);
    const bool small = to - from < k->info.operations || 2 * (e.most - e.fewest) < k->amplitude,
               unknown = small && !is_familiar(p, from, to, k),
               often = !f->last_unknown || from - f->last_unknown <= OFTEN * k->info.operations,
               part = gives_back(p, from, to, k) || (unknown && (often || reaches_far(p, from, to, k)));
    if (unknown || part)
        f->stretch[f->stretches++ % STRETCHES] = (stretch_t){from, to - from, part};
    if (unknown)
        f->last_unknown = to;
    else if (!part && to - from >= SHORTEST)
        f->last_apart = to;
    if (part && f->search_until < p->count + p->room / 2)
        f->search_until = p->count + p->room / 2;
    if (to - from < SHORTEST)
        return;
    pending_t *s = recurrence(f, p, from, to);
    if (!s || (part && s->count < RECURRENCES))
        return;
    const int made = variants_add(&f->variants, p, from, to, keep);
    if (made < 0)
        return;
    free(s->signature);
    *s = (pending_t){.signature = NULL};
    variant_t *new = variant_at(f, made);
    new->from_stretch = true;
    new->info.count = RECURRENCES / 2;
    variants_note_order(&f->variants, made);
}

static bool is_logged(const follow_t *f, size_t start, size_t operations)
{
    const size_t first = f->stretches > STRETCHES ? f->stretches - STRETCHES : 0;
    for (size_t i = first; i < f->stretches; i++) {
        const stretch_t *s = &f->stretch[i % STRETCHES];
        const size_t more =
            s->operations > operations ? s->operations - operations : operations - s->operations;
        if (more <= 1 + operations / 16 && s->start <= start + REACH && start <= s->start + REACH)
            return true;
    }
    return false;
}

/* About the same operations stood at `start`, whether or not anything was known then. */
static bool has_happened(const past_t *p, const stretch_t *s, size_t start)
{
    for (size_t from = start > REACH ? start - REACH : 0; from <= start + REACH; from++) {
        size_t same = 0;
        for (size_t i = 0; from >= oldest(p) && i < s->operations; i++)
            same += at(p, from + i)->coarse == at(p, s->start + i)->coarse;
        if (4 * same > 3 * s->operations)
            return true;
    }
    return false;
}

static bool stood_before(const follow_t *f, const past_t *p, const stretch_t *s, size_t period,
                         unsigned times)
{
    for (unsigned n = 1; n <= times; n++)
        if (s->start < n * period ||
            (!is_logged(f, s->start - n * period, s->operations) &&
             (s->operations <= ACCIDENT || !has_happened(p, s, s->start - n * period))))
            return false;
    return true;
}

/* Every short stretch of the last period stood in the period before as well, and there is one; and not one behind
 * every step, which would be no more than a signature with something left out. Where periods are not quite the same, a few
 * operations may stand somewhere by accident: they explain nothing, unless they were in two periods before. */
static bool explains_stretches(const follow_t *f, const past_t *p, size_t from, size_t to, bool exact)
{
    const size_t period = to - from, first = f->stretches > STRETCHES ? f->stretches - STRETCHES : 0;
    const size_t signature = f->variants.variant[variants_family(&f->variants, 0, -1).main].info.operations;
    size_t explained = 0;
    for (size_t i = first; i < f->stretches; i++) {
        const stretch_t *s = &f->stretch[i % STRETCHES];
        const bool accident = !exact && s->operations <= ACCIDENT;
        if (s->start < from || !s->part)
            continue;
        if (stood_before(f, p, s, period, accident ? 2 : 1))
            explained++;
        else if (!accident)
            return false;
    }
    return explained && period >= 2 * explained * signature - signature / 8;
}

/* What was lost in it needs far more memory than any known variant: those are loops inside of a step. */
static bool dwarfs_variants(const follow_t *f, const past_t *p, size_t from, size_t to)
{
    const extent_t e = past_extent(p, from, to);
    return f->lost_at >= from && e.most - e.fewest > 2 * variants_family(&f->variants, 0, -1).amplitude;
}

bool follow_wants(const follow_t *f, const past_t *p, size_t from, size_t to, bool exact)
{
    const int main = variants_family(&f->variants, 0, -1).main;
    if (main < 0 || f->given_up)
        return true;
    if (to - from <= f->variants.variant[main].info.operations)
        return false;
    return dwarfs_variants(f, p, from, to) ||
           (f->last_apart <= from && explains_stretches(f, p, from, to, exact));
}
