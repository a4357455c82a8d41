/* step_hypothesis.c: how far what the program does fits a step of a certain variant that began at a certain place. */
#include "ckpt/run/tracker/internal.h"

enum { STRANGE_PART = 20 /* one in so many operations of a variant may have another geometry */ };

static void add_hypothesis(follow_t *f, const hypothesis_t *h)
{
    unsigned slot = f->hypotheses;
    if (slot == HYPOTHESES) {
        slot = 0;
        for (unsigned i = 1; i < HYPOTHESES; i++)
            if (f->hypothesis[i].track.matched < f->hypothesis[slot].track.matched)
                slot = i;
    } else {
        f->hypotheses++;
    }
    f->hypothesis[slot] = *h;
}

void hypotheses_begin(follow_t *f, size_t boundary)
{
    f->boundary = boundary;
    f->hypotheses = 0;
    f->lost = false;
    for (int i = 0; i < (int)EBB_STEP_VARIANTS; i++)
        if (variant_at(f, i)->info.serial)
            add_hypothesis(f, &(hypothesis_t){.variant = i, .start = boundary});
    f->predicted = variants_next(&f->variants);
}

bool hypothesis_is_plausible(const hypothesis_t *h)
{
    return STRANGE_PART * h->strange <= h->track.matched + STRANGE_PART;
}

static void compare_geometry(hypothesis_t *h, const variant_t *k, const past_t *p, size_t position,
                             unsigned matched)
{
    for (unsigned i = 0; i < matched; i++)
        h->strange += k->signature[h->track.next - 1 - i].fine != at(p, position - i)->fine;
}

static void note_gap(hypothesis_t *h, size_t from, size_t count)
{
    if (count && h->gaps < GAPS) {
        h->gap[h->gaps].from = (uint32_t)from;
        h->gap[h->gaps++].count = (uint32_t)count;
    }
}

/* What is open is the beginning of another step, and all but the last few of this one have been there. */
static bool ends_short(follow_t *f, hypothesis_t *h, const past_t *p, size_t position, size_t length)
{
    const size_t left = length - h->track.next;
    if (h->track.open < TRIPLE || h->track.open > TRIPLE + TAIL || left > TAIL || 4 * left > length)
        return false;
    for (int i = 0; i < (int)EBB_STEP_VARIANTS; i++) {
        const variant_t *k = variant_at(f, i);
        if (!k->info.serial || k->signature[TRIPLE - 1].triple != at(p, position)->triple)
            continue;
        note_gap(h, h->track.next, left);
        h->track.extras += h->track.open - TRIPLE;
        h->track.missing += (uint32_t)left;
        h->track.next = length;
        h->track.open = 0;
        h->ended = position + 1 - TRIPLE;
        return true;
    }
    return false;
}

bool hypothesis_advance(follow_t *f, hypothesis_t *h, const past_t *p, size_t position)
{
    variant_t *k = variant_at(f, h->variant);
    const view_t v = view_of_variant(k);
    const bool at_its_beginning = !h->track.matched && h->start == f->boundary;
    resumed_t r = {1, 0, 0};
    const moved_t moved = track_take(&h->track, &v, p, position, &r);
    if (moved == FITS || moved == RESUMED)
        compare_geometry(h, k, p, position, r.matched_now);
    if (moved == RESUMED) {
        note_gap(h, h->track.next - r.matched_now - r.missing_now, r.missing_now);
        if (at_its_beginning && r.extras_now)
            h->leading = r.extras_now;
    }
    if (h->track.next == v.end && !h->track.open)
        h->ended = position + 1;
    else if (moved == DOUBT && ends_short(f, h, p, position, v.end))
        return true;
    const unsigned slack = h->start == f->boundary ? 4 * SHORTEST : SHORTEST;
    return moved != OFF && 8 * (h->track.extras + h->track.missing) <= h->track.matched + slack;
}

/* A hypothesis of this variant has begun a moment ago, and all fits. */
static bool is_beginning(const follow_t *f, int variant, size_t position)
{
    for (unsigned i = 0; i < f->hypotheses; i++) {
        const hypothesis_t *h = &f->hypothesis[i];
        if (h->variant == variant && !h->track.open && position < h->start + TRIPLE + BEGINNINGS)
            return true;
    }
    return false;
}

void hypotheses_begin_in_between(follow_t *f, const past_t *p, size_t position)
{
    const uint64_t triple = at(p, position)->triple;
    for (int i = 0; i < (int)EBB_STEP_VARIANTS; i++) {
        const variant_t *k = variant_at(f, i);
        size_t q = TRIPLE - 1;
        while (q < TRIPLE - 1 + BEGINNINGS && q < k->info.operations &&
               (k->signature[q].triple != triple || !(k->telling >> q & 1)))
            q++;
        if (q == TRIPLE - 1 + BEGINNINGS || q >= k->info.operations || position < f->boundary + q ||
            position - q < oldest(p) || is_beginning(f, i, position))
            continue;
        hypothesis_t h = {.variant = i, .start = position - q, .track = {.next = q + 1, .matched = TRIPLE}};
        compare_geometry(&h, k, p, position, TRIPLE);
        add_hypothesis(f, &h);
    }
}

void hypothesis_drop(follow_t *f, unsigned index)
{
    f->hypothesis[index] = f->hypothesis[--f->hypotheses];
}
