/* step_follow.c: following the known variants of step, and what stands between them.
 *
 * At a boundary there is a hypothesis for every variant: that a step of it begins. When none is left, the program does
 * something else: from then on hypotheses begin wherever the beginning of a signature appears, also in hindsight, until
 * one comes to its end. What lay before that is a stretch.
 */
#include <stdlib.h>
#include <string.h>

#include "ckpt/run/tracker/internal.h"

enum {
    ALWAYS = 3,       /* times in a row */
    PATIENCE = 8,     /* longest signatures without a known step until it is given up */
    MOST_PARTS = 64,  /* a step that was found may be one of so many micro-batches */
    ELSEWHERE = 8,    /* operations on what persists, not where it was */
    STRANGE_PART = 20 /* one in so many operations of a variant may have another geometry */
};

void follow_close(follow_t *f)
{
    variants_free(&f->variants);
    for (unsigned i = 0; i < PENDING; i++)
        free(f->pending[i].signature);
}

/* ---- hypotheses: how far what the program does fits a step of a certain variant that began at a certain place ---- */

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

/* A step begins at the boundary, of any variant. */
static void hypotheses_begin(follow_t *f, size_t boundary)
{
    f->boundary = boundary;
    f->hypotheses = 0;
    f->lost = f->any_ended = false;
    for (int i = 0; i < (int)EBB_STEP_VARIANTS; i++)
        if (variant_at(f, i)->info.serial)
            add_hypothesis(f, &(hypothesis_t){.variant = i, .start = boundary});
    f->predicted = variants_next(&f->variants);
}

/* Not too much of it has another geometry. */
static bool hypothesis_is_plausible(const hypothesis_t *h)
{
    return STRANGE_PART * h->strange <= h->track.matched + STRANGE_PART;
}

static void compare_geometry(hypothesis_t *h, const variant_t *k, const past_t *p, size_t position,
                             unsigned matched)
{
    for (unsigned i = 0; i < matched && !k->info.any_size; i++)
        h->strange += k->signature[h->track.next - 1 - i].fine != at(p, position - i)->fine;
}

/* What persists is where it was: a step may be that of two models in turns, whose halves are the same operations on other weights. What the step
 * itself, or the one before, has allocated may be anywhere. */
static void compare_places(hypothesis_t *h, const variant_t *k, const past_t *p, size_t position,
                           unsigned matched)
{
    const entry_t *first = k->signature, *begun = at(p, h->start);
    const uint64_t born = first[k->info.operations - 1].allocations - first->allocations;
    for (unsigned i = 0; i < matched && h->start >= oldest(p); i++) {
        const entry_t *then = &k->signature[h->track.next - 1 - i], *now = at(p, position - i);
        if (!then->place || !now->place || then->born + born > first->allocations ||
            now->born + born > begun->allocations)
            continue;
        if (then->place == now->place)
            h->back++;
        else
            h->elsewhere++;
    }
}

/* Most of what persists would be elsewhere, and not for a while, as where a layer is taken for the next. */
static bool is_out_of_place(const hypothesis_t *h, const variant_t *k)
{
    return h->elsewhere >= ELSEWHERE && h->elsewhere > 2 * h->back &&
           2 * h->track.matched >= k->info.operations;
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

/* Takes the operation at `position`. False: it does not fit any more. */
static bool hypothesis_advance(follow_t *f, hypothesis_t *h, const past_t *p, size_t position)
{
    variant_t *k = variant_at(f, h->variant);
    const view_t v = view_of_variant(k);
    const bool at_its_beginning = !h->track.matched && h->start == f->boundary;
    resumed_t r = {1, 0, 0};
    const moved_t moved = track_take(&h->track, &v, p, position, &r);
    if (moved == FITS || moved == RESUMED) {
        compare_geometry(h, k, p, position, r.matched_now);
        compare_places(h, k, p, position, r.matched_now);
    }
    if (is_out_of_place(h, k))
        return false;
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

/* Where the triple at `position` stands at the beginning of a signature, one may have begun. */
static void hypotheses_begin_in_between(follow_t *f, const past_t *p, size_t position)
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
        compare_places(&h, k, p, position, TRIPLE);
        add_hypothesis(f, &h);
    }
}

static void hypothesis_drop(follow_t *f, unsigned index)
{
    f->hypothesis[index] = f->hypothesis[--f->hypotheses];
}

/* ---- the end of a step ---- */

static uint64_t fewest_in(const past_t *p, const hypothesis_t *h)
{
    return past_extent(p, h->start < oldest(p) ? oldest(p) : h->start, h->ended).fewest;
}

/* It gave back what it had allocated: a layer of a forward pass is no step, though another pass consisted of such. */
static bool is_balanced(follow_t *f, const past_t *p, const hypothesis_t *h)
{
    const variant_t *k = variant_at(f, h->variant);
    const uint64_t fewest = fewest_in(p, h);
    return k->info.any_size || fewest <= k->fewest || 8 * (fewest - k->fewest) <= k->amplitude;
}

/* The variant of a step that has the coarse signature of this hypothesis; a new one if no geometry fits, and there are few. */
static int settle_kind(follow_t *f, const past_t *p, const hypothesis_t *h)
{
    if (hypothesis_is_plausible(h) || h->start < oldest(p))
        return h->variant;
    const uint64_t number = variant_at(f, h->variant)->info.family;
    const family_t family = variants_family(&f->variants, number, h->variant);
    if (family.count >= EBB_STEP_SIZES && !family.has_usual)
        return variants_unite(&f->variants, number);
    if (family.count >= EBB_STEP_SIZES)
        variants_forget(&f->variants, family.least);
    const int made = variants_add(&f->variants, p, h->start, h->ended, h->variant);
    if (made < 0)
        return h->variant;
    variant_at(f, made)->info.family = number;
    return made;
}

static void note_gaps(variant_t *k, const hypothesis_t *h)
{
    for (unsigned i = 0; i < h->gaps; i++)
        for (uint32_t n = 0; n < h->gap[i].count; n++)
            if (k->signature[h->gap[i].from + n].missed < UINT8_MAX)
                k->signature[h->gap[i].from + n].missed++;
}

static void finish(follow_t *f, const past_t *p, const hypothesis_t *h)
{
    variant_at(f, h->variant)->fewest = fewest_in(p, h);
    stretch_note(f, p, f->boundary, h->start + h->leading, h->variant);
    const int number = settle_kind(f, p, h);
    variant_t *k = variant_at(f, number);
    k->info.count++;
    if (number == h->variant) {
        k->info.extras += h->track.extras;
        k->info.missing += h->track.missing;
        note_gaps(k, h);
        variants_adapt(k, p, h->start, h->ended, &h->track);
        k->led = h->leading ? k->led + 1 : 0;
        if (k->led == ALWAYS) {
            variants_renew(k, p, h->start, h->ended);
            f->stretches = 0;
        }
    }
    if (f->predicted >= 0 && f->predicted != number && variant_at(f, f->predicted)->info.serial && !f->lost)
        variant_at(f, f->predicted)->info.interruptions++;
    if (k->from_stretch)
        f->last_apart = h->ended;
    variants_note_order(&f->variants, number);
    f->ended = number;
    f->given_up = false;
    hypotheses_begin(f, h->ended);
}

/* The hypothesis that has come to its end, after operation `since` or later; NULL: none has. */
static const hypothesis_t *first_ended(const follow_t *f, size_t since)
{
    const hypothesis_t *best = NULL;
    for (unsigned i = 0; i < f->hypotheses; i++) {
        const hypothesis_t *h = &f->hypothesis[i];
        if (h->ended > since &&
            (!best || h->start < best->start ||
             (h->start == best->start &&
              (h->strange < best->strange || (h->strange == best->strange && h->variant == f->predicted)))))
            best = h;
    }
    return best;
}

/* The same, if that is certain enough now; NULL: none, or one that may still go on. */
static const hypothesis_t *ended(follow_t *f, size_t position)
{
    const hypothesis_t *best = first_ended(f, 0);
    /* The one that is expected is waited for no longer, unless it is the beginning of another one: a forward pass. */
    const bool expected = best && best->variant == f->predicted && hypothesis_is_plausible(best);
    for (unsigned i = 0; best && i < f->hypotheses; i++) {
        const hypothesis_t *h = &f->hypothesis[i];
        if (expected && (h->track.open || !hypothesis_is_plausible(h)))
            continue;
        if (!h->ended && h->start == best->start && h->track.open < TRIPLE &&
            position <= best->ended + REACH &&
            h->track.extras + h->track.missing <= best->track.extras + best->track.missing + TRIPLE)
            return NULL;
    }
    return best;
}

/* Those that ended long ago while another one went on were the beginnings of that one. */
static void drop_outlived(follow_t *f, size_t position)
{
    for (unsigned i = 0; i < f->hypotheses;)
        if (f->hypothesis[i].ended && position >= f->hypothesis[i].ended + REACH)
            hypothesis_drop(f, i);
        else
            i++;
}

/* Takes one operation, and again what lies behind the end of a step that is recognised late. */
static ebb_step_event_t take(follow_t *f, const past_t *p, size_t position)
{
    ebb_step_event_t event = EBB_STEP_NONE;
    f->any_ended = false;
    for (unsigned i = 0; i < f->hypotheses;)
        if (f->hypothesis[i].ended || hypothesis_advance(f, &f->hypothesis[i], p, position))
            f->any_ended |= f->hypothesis[i++].ended != 0;
        else
            hypothesis_drop(f, i);
    if (f->lost)
        hypotheses_begin_in_between(f, p, position);
    const hypothesis_t *h = f->any_ended ? ended(f, position) : NULL;
    if (h) {
        const hypothesis_t done = *h;
        if (is_balanced(f, p, &done)) {
            finish(f, p, &done);
            for (size_t i = done.ended; i <= position; i++)
                take(f, p, i);
            return EBB_STEP_BOUNDARY;
        }
        variant_at(f, done.variant)->fewest = fewest_in(p, &done);
        hypothesis_drop(f, (unsigned)(h - f->hypothesis));
    }
    if (f->any_ended)
        drop_outlived(f, position);
    if (f->hypotheses || f->lost)
        return event;
    f->lost = true;
    f->lost_at = position;
    if (f->predicted >= 0)
        variant_at(f, f->predicted)->info.interruptions++;
    event = EBB_STEP_LOST;
    size_t from = f->boundary + 1 > oldest(p) ? f->boundary + 1 : oldest(p);
    for (size_t i = from; i <= position; i++)
        if (take(f, p, i) == EBB_STEP_BOUNDARY)
            event = EBB_STEP_BOUNDARY;
    return event;
}

/* At its next operation a step of this variant has more than half of all that it allocates. */
static bool holds_much(const variant_t *k, size_t next)
{
    return next < k->info.operations && k->signature[next].live > k->signature[0].live &&
           2 * (k->signature[next].live - k->signature[0].live) > k->amplitude;
}

__attribute__((noinline)) bool follow_settle(follow_t *f, const past_t *p, uint64_t live)
{
    const hypothesis_t *h = first_ended(f, p->count - 1);
    if (!h || h->start < oldest(p))
        return false;
    const uint64_t before = at(p, h->start)->live, most = past_extent(p, h->start, h->ended).most,
                   change = live > before ? live - before : before - live;
    if (most <= before || 64 * change > most - before)
        return false;
    for (unsigned i = 0; i < f->hypotheses; i++) {
        const hypothesis_t *other = &f->hypothesis[i];
        if (!other->ended && !holds_much(variant_at(f, other->variant), other->track.next))
            return false;
    }
    const hypothesis_t done = *h;
    if (!is_balanced(f, p, &done))
        return false;
    finish(f, p, &done);
    f->late = 0;
    return true;
}

ebb_step_event_t follow_take(follow_t *f, const past_t *p)
{
    if (!f->variants.count)
        return EBB_STEP_NONE;
    const size_t newest = p->count - 1;
    const ebb_step_event_t event = take(f, p, newest);
    if (event == EBB_STEP_BOUNDARY)
        f->late = p->count - f->boundary;
    if (event || f->given_up || !f->lost ||
        p->count - f->boundary <= PATIENCE * variants_family(&f->variants, 0, -1).longest)
        return event;
    f->given_up = true;
    return EBB_STEP_GIVEN_UP;
}

/* ---- a new variant ---- */

/* Where [from, to), repeated, begins best: where the program says so, else with the fewest bytes alive; of such points behind a stretch that is
 * part of it now, else at one that the program has a name for, else where data comes from the host, else here (`from`), else the last one. */
static size_t best_boundary(const follow_t *f, const past_t *p, size_t from, size_t to)
{
    const bool marked = past_is_marked(p, from, to);
    const size_t oldest_stretch = f->stretches > STRETCHES ? f->stretches - STRETCHES : 0;
    size_t best = from, after = 0;
    unsigned best_rank = 0;
    while (marked && !at(p, best)->mark)
        best++;
    for (size_t i = f->stretches; i-- > oldest_stretch && !after;) {
        const stretch_t *s = &f->stretch[i % STRETCHES];
        after = s->part ? s->start + s->operations : 0;
    }
    for (size_t i = from; i < to; i++) {
        const entry_t *e = at(p, i), *b = at(p, best);
        if (marked && !e->mark)
            continue;
        const bool input = e->input && i > oldest(p) && !at(p, i - 1)->input;
        const unsigned rank = i == after ? 4 : e->turn ? 3 : input ? 2 : i == from ? 1 : 0;
        if (e->live < b->live || (e->live == b->live && rank >= best_rank)) {
            best = i;
            best_rank = rank;
        }
    }
    return best;
}

bool follow_adopt(follow_t *f, const past_t *p, size_t period)
{
    const size_t from = p->count - period, start = best_boundary(f, p, from, p->count);
    /* What has been seen since that point is the beginning of a step, and the signature is the step before. */
    const size_t behind = start == from ? 0 : p->count - start, to = p->count - behind;
    const int made = variants_add(&f->variants, p, to - period, to, -1);
    if (made < 0)
        return false;
    variant_t *k = variant_at(f, made);
    const size_t before = to - period;
    variants_keep_common(k, p, before > period ? before - period : 0, before + TAIL);
    variants_forget_contained(&f->variants, made);
    f->stretches = f->last_unknown = 0;
    f->search_until = p->count + MOST_PARTS * period;
    f->given_up = false;
    f->ended = made;
    f->late = 0;
    k->info.count = 1;
    variants_note_order(&f->variants, made);
    hypotheses_begin(f, to);
    f->predicted = made;
    for (size_t i = to; i < p->count; i++)
        take(f, p, i);
    return true;
}

/* ---- what is known ---- */

bool follow_is_searching(const follow_t *f, const past_t *p)
{
    return f->given_up || !f->variants.count || p->count < f->search_until ||
           (f->lost && p->count - f->boundary > variants_family(&f->variants, 0, -1).longest);
}

const hypothesis_t *follow_likeliest(const follow_t *f)
{
    const hypothesis_t *best = NULL;
    for (unsigned i = 0; i < f->hypotheses && !f->lost; i++) {
        const hypothesis_t *h = &f->hypothesis[i];
        if (h->ended)
            continue;
        if (h->variant == f->predicted && hypothesis_is_plausible(h))
            return h;
        if (!best || (hypothesis_is_plausible(h) && !hypothesis_is_plausible(best)) ||
            (hypothesis_is_plausible(h) == hypothesis_is_plausible(best) &&
             h->track.matched > best->track.matched))
            best = h;
    }
    return best;
}

bool follow_check(const follow_t *f)
{
    for (unsigned i = 0; i < f->hypotheses; i++) {
        const hypothesis_t *h = &f->hypothesis[i];
        const variant_t *k = &f->variants.variant[h->variant];
        if (!k->info.serial || h->track.next > k->info.operations || h->start < f->boundary ||
            (h->ended && !f->any_ended))
            return false;
    }
    return f->ended < 0 || f->ended < (int)EBB_STEP_VARIANTS;
}
