/* step_follow.c: following the known kinds of step, and what stands between them.
 *
 * At a boundary there is a hypothesis for every kind: that a step of it begins. When none is left, the program does
 * something else: from then on hypotheses begin wherever the beginning of a word appears, also in hindsight, until
 * one comes to its end. What lay before that is a stretch.
 */
#include <stdlib.h>
#include <string.h>

#include "step_kinds.h"

enum {
    HYPOTHESES = 16,
    GAPS = 16,
    TAIL = 4, /* operations at the end of a step may be missing, and the next one begins */
    PENDING = 4,
    ALWAYS = 3, /* times in a row */
    STRETCHES = 64,
    PATIENCE = 8,     /* longest words without a known step until it is given up */
    MOST_PARTS = 64,  /* a step that was found may be one of so many micro-batches */
    RECURRENCES = 4,  /* until a short stretch is a kind, and no longer a part of a longer step */
    STRANGE_PART = 20 /* one in so many operations of a kind may have another geometry */
};

typedef struct hypothesis {
    int kind;
    size_t start; /* of the step */
    size_t ended; /* one past its last operation; 0: not yet */
    track_t track;
    uint32_t strange; /* operations with another geometry */
    unsigned leading; /* extra operations at its beginning */
    struct {
        uint32_t from, count; /* operations of the word that were left out */
    } gap[GAPS];
    unsigned gaps;
} hypothesis_t;

/* A stretch seen before. */
typedef struct pending {
    entry_t *word; /* owned */
    size_t operations;
    unsigned count;
} pending_t;

/* A short stretch that has nothing in common with the steps around it: part of a longer step, perhaps. */
typedef struct stretch {
    size_t start, operations;
} stretch_t;

struct follow {
    kinds_t kinds;
    hypothesis_t hypothesis[HYPOTHESES];
    unsigned hypotheses;
    pending_t pending[PENDING];
    unsigned pendings; /* so far */
    stretch_t stretch[STRETCHES];
    size_t stretches;    /* so far */
    size_t boundary;     /* where what is under way began */
    size_t last_apart;   /* end of the last step or stretch that no longer step may contain */
    size_t search_until; /* an operation */
    size_t lost_at;      /* the last time */
    int predicted;       /* at the boundary */
    bool lost, given_up;
    int ended;
    size_t late;
};

follow_t *follow_new(uint64_t *serials)
{
    follow_t *f = calloc(1, sizeof *f);
    if (!f)
        return NULL;
    f->kinds.serials = serials;
    f->kinds.last = f->ended = f->predicted = -1;
    return f;
}

void follow_delete(follow_t *f)
{
    if (!f)
        return;
    kinds_free(&f->kinds);
    for (unsigned i = 0; i < PENDING; i++)
        free(f->pending[i].word);
    free(f);
}

static kind_t *kind_at(follow_t *f, int number)
{
    return &f->kinds.kind[number];
}

/* ---- hypotheses ---- */

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

static void begin_at(follow_t *f, size_t boundary)
{
    f->boundary = boundary;
    f->hypotheses = 0;
    f->lost = false;
    for (int i = 0; i < (int)EBB_STEP_KINDS; i++)
        if (kind_at(f, i)->info.serial)
            add_hypothesis(f, &(hypothesis_t){.kind = i, .start = boundary});
    f->predicted = kinds_next(&f->kinds);
}

static bool is_plausible(const hypothesis_t *h)
{
    return STRANGE_PART * h->strange <= h->track.matched + STRANGE_PART;
}

static void compare_geometry(hypothesis_t *h, const kind_t *k, const past_t *p, size_t position,
                             unsigned matched)
{
    for (unsigned i = 0; i < matched; i++)
        h->strange += k->word[h->track.next - 1 - i].fine != at(p, position - i)->fine;
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
    for (int i = 0; i < (int)EBB_STEP_KINDS; i++) {
        const kind_t *k = kind_at(f, i);
        if (!k->info.serial || k->word[TRIPLE - 1].triple != at(p, position)->triple)
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

/* False: it does not fit any more. */
static bool advance(follow_t *f, hypothesis_t *h, const past_t *p, size_t position)
{
    kind_t *k = kind_at(f, h->kind);
    const view_t v = view_of_kind(k);
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

/* A hypothesis of this kind has begun a moment ago, and all fits. */
static bool is_beginning(const follow_t *f, int kind, size_t position)
{
    for (unsigned i = 0; i < f->hypotheses; i++) {
        const hypothesis_t *h = &f->hypothesis[i];
        if (h->kind == kind && !h->track.open && position < h->start + TRIPLE + BEGINNINGS)
            return true;
    }
    return false;
}

/* Where the triple at `position` stands at the beginning of a word, a step may have begun. */
static void begin_in_between(follow_t *f, const past_t *p, size_t position)
{
    const uint64_t triple = at(p, position)->triple;
    for (int i = 0; i < (int)EBB_STEP_KINDS; i++) {
        const kind_t *k = kind_at(f, i);
        size_t q = TRIPLE - 1;
        while (q < TRIPLE - 1 + BEGINNINGS && q < k->info.operations &&
               (k->word[q].triple != triple || !(k->telling >> q & 1)))
            q++;
        if (q == TRIPLE - 1 + BEGINNINGS || q >= k->info.operations || position < f->boundary + q ||
            position - q < oldest(p) || is_beginning(f, i, position))
            continue;
        hypothesis_t h = {.kind = i, .start = position - q, .track = {.next = q + 1, .matched = TRIPLE}};
        compare_geometry(&h, k, p, position, TRIPLE);
        add_hypothesis(f, &h);
    }
}

/* ---- stretches ---- */

static bool is_like(const pending_t *s, const past_t *p, size_t from, size_t to)
{
    track_t t = {.next = 0};
    const view_t v = {s->word, SIZE_MAX, s->operations};
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
    free(s->word);
    *s = (pending_t){.word = malloc((to - from) * sizeof *s->word), .operations = to - from, .count = 1};
    if (!s->word) {
        s->operations = 0;
        return;
    }
    for (size_t i = from; i < to; i++) {
        s->word[i - from] = *at(p, i);
        if (i - from < 2)
            s->word[i - from].triple = 0;
    }
}

/* Seen so often so far, this time included. */
static pending_t *recurrence(follow_t *f, const past_t *p, size_t from, size_t to)
{
    for (unsigned i = 0; i < PENDING; i++) {
        pending_t *s = &f->pending[i];
        if (s->word && is_like(s, p, from, to)) {
            s->count++;
            return s;
        }
    }
    keep_pending(f, p, from, to);
    return NULL;
}

static bool is_familiar(const past_t *p, size_t from, size_t to, const kind_t *k)
{
    size_t known = 0;
    for (size_t i = from; i < to; i++)
        known += kind_has(k, at(p, i)->coarse);
    return 2 * known >= to - from;
}

/* What stood before a step of the kind `keep`. */
static void note_stretch(follow_t *f, const past_t *p, size_t from, size_t to, int keep)
{
    const int main = kinds_main(&f->kinds);
    if (main < 0 || from < oldest(p) || to <= from)
        return;
    const kind_t *k = kind_at(f, main);
    const extent_t e = past_extent(p, from, to);
    const bool small = to - from < k->info.operations || 2 * (e.most - e.fewest) < k->amplitude,
               part = small && !is_familiar(p, from, to, k);
    if (part) {
        f->stretch[f->stretches++ % STRETCHES] = (stretch_t){from, to - from};
        if (f->search_until < p->count + p->room / 2)
            f->search_until = p->count + p->room / 2;
    } else if (to - from >= SHORTEST) {
        f->last_apart = to;
    }
    if (to - from < SHORTEST)
        return;
    pending_t *s = recurrence(f, p, from, to);
    if (!s || (part && s->count < RECURRENCES))
        return;
    const int made = kinds_add(&f->kinds, p, from, to, keep);
    if (made < 0)
        return;
    free(s->word);
    *s = (pending_t){.word = NULL};
    kind_t *new = kind_at(f, made);
    new->from_stretch = true;
    new->info.count = RECURRENCES / 2;
    kinds_note_order(&f->kinds, made);
}

static bool is_logged(const follow_t *f, size_t start, size_t operations)
{
    const size_t first = f->stretches > STRETCHES ? f->stretches - STRETCHES : 0;
    for (size_t i = first; i < f->stretches; i++) {
        const stretch_t *s = &f->stretch[i % STRETCHES];
        if (s->operations == operations && s->start <= start + REACH && start <= s->start + REACH)
            return true;
    }
    return false;
}

/* Every short stretch of the last period stood in so many periods before as well, and there is one; and not one behind
 * every step, which would be no more than a word with something left out. */
static bool explains_stretches(const follow_t *f, size_t from, size_t to, unsigned times)
{
    const size_t period = to - from, first = f->stretches > STRETCHES ? f->stretches - STRETCHES : 0;
    const size_t word = f->kinds.kind[kinds_main(&f->kinds)].info.operations;
    size_t explained = 0;
    for (size_t i = first; i < f->stretches; i++) {
        const stretch_t *s = &f->stretch[i % STRETCHES];
        if (s->start < from)
            continue;
        for (unsigned n = 1; n <= times; n++)
            if (s->start < n * period || !is_logged(f, s->start - n * period, s->operations))
                return false;
        explained++;
    }
    return explained && period >= 2 * explained * word - word / 8;
}

/* What was lost in it needs far more memory than any known kind: those are loops inside of a step. */
static bool dwarfs_kinds(const follow_t *f, const past_t *p, size_t from, size_t to)
{
    uint64_t amplitude = 0;
    for (unsigned i = 0; i < EBB_STEP_KINDS; i++)
        if (f->kinds.kind[i].info.serial && f->kinds.kind[i].amplitude > amplitude)
            amplitude = f->kinds.kind[i].amplitude;
    const extent_t e = past_extent(p, from, to);
    return f->lost_at >= from && e.most - e.fewest > 2 * amplitude;
}

bool follow_wants(const follow_t *f, const past_t *p, size_t from, size_t to, bool exact)
{
    const int main = kinds_main(&f->kinds);
    if (main < 0 || f->given_up)
        return true;
    if (to - from <= f->kinds.kind[main].info.operations)
        return false;
    return dwarfs_kinds(f, p, from, to) ||
           (f->last_apart <= from && explains_stretches(f, from, to, exact ? 1 : 2));
}

/* ---- the end of a step ---- */

/* It gave back what it had allocated: a layer of a forward pass is no step, though another pass consisted of such. */
static bool is_balanced(follow_t *f, const past_t *p, const hypothesis_t *h)
{
    kind_t *k = kind_at(f, h->kind);
    const uint64_t fewest = past_extent(p, h->start < oldest(p) ? oldest(p) : h->start, h->ended).fewest;
    const bool grew = fewest > k->fewest && 8 * (fewest - k->fewest) > k->amplitude;
    k->fewest = fewest;
    return !grew;
}

/* The kind of a step that has the coarse word of this hypothesis; a new one if no geometry fits. */
static int settle_kind(follow_t *f, const past_t *p, const hypothesis_t *h)
{
    if (is_plausible(h) || h->start < oldest(p))
        return h->kind;
    const int made = kinds_add(&f->kinds, p, h->start, h->ended, h->kind);
    return made < 0 ? h->kind : made;
}

static void note_gaps(kind_t *k, const hypothesis_t *h)
{
    for (unsigned i = 0; i < h->gaps; i++)
        for (uint32_t n = 0; n < h->gap[i].count; n++)
            if (k->word[h->gap[i].from + n].missed < UINT8_MAX)
                k->word[h->gap[i].from + n].missed++;
}

static void finish(follow_t *f, const past_t *p, const hypothesis_t *h)
{
    note_stretch(f, p, f->boundary, h->start + h->leading, h->kind);
    const int number = settle_kind(f, p, h);
    kind_t *k = kind_at(f, number);
    k->info.count++;
    if (number == h->kind) {
        k->info.extras += h->track.extras;
        k->info.missing += h->track.missing;
        note_gaps(k, h);
        kinds_adapt(k, p, h->start, h->ended, &h->track);
        k->led = h->leading ? k->led + 1 : 0;
        if (k->led == ALWAYS) {
            kinds_renew(k, p, h->start, h->ended);
            f->stretches = 0;
        }
    }
    if (f->predicted >= 0 && f->predicted != number && kind_at(f, f->predicted)->info.serial && !f->lost)
        kind_at(f, f->predicted)->info.interruptions++;
    if (k->from_stretch)
        f->last_apart = h->ended;
    kinds_note_order(&f->kinds, number);
    f->ended = number;
    f->given_up = false;
    begin_at(f, h->ended);
}

/* The one that has come to its end, if that is to be believed now; NULL: none, or one that may still go on. */
static const hypothesis_t *ended(follow_t *f, size_t position)
{
    const hypothesis_t *best = NULL;
    for (unsigned i = 0; i < f->hypotheses; i++) {
        const hypothesis_t *h = &f->hypothesis[i];
        if (h->ended &&
            (!best || h->start < best->start ||
             (h->start == best->start &&
              (h->strange < best->strange || (h->strange == best->strange && h->kind == f->predicted)))))
            best = h;
    }
    /* The one that is expected is waited for no longer, unless it is the beginning of another one: a forward pass. */
    const bool expected = best && best->kind == f->predicted && is_plausible(best);
    for (unsigned i = 0; best && i < f->hypotheses; i++) {
        const hypothesis_t *h = &f->hypothesis[i];
        if (expected && (h->track.open || !is_plausible(h)))
            continue;
        if (!h->ended && h->start == best->start && h->track.open < TRIPLE &&
            position <= best->ended + REACH &&
            h->track.extras + h->track.missing <= best->track.extras + best->track.missing + TRIPLE)
            return NULL;
    }
    return best;
}

static void drop_hypothesis(follow_t *f, unsigned i)
{
    f->hypothesis[i] = f->hypothesis[--f->hypotheses];
}

/* Those that ended long ago while another one went on were the beginnings of that one. */
static void drop_outlived(follow_t *f, size_t position)
{
    for (unsigned i = 0; i < f->hypotheses;)
        if (f->hypothesis[i].ended && position >= f->hypothesis[i].ended + REACH)
            drop_hypothesis(f, i);
        else
            i++;
}

/* Takes one operation, and again what lies behind the end of a step that is recognised late. */
static ebb_step_event_t take(follow_t *f, const past_t *p, size_t position)
{
    ebb_step_event_t event = EBB_STEP_NONE;
    for (unsigned i = 0; i < f->hypotheses;)
        if (f->hypothesis[i].ended || advance(f, &f->hypothesis[i], p, position))
            i++;
        else
            drop_hypothesis(f, i);
    if (f->lost)
        begin_in_between(f, p, position);
    const hypothesis_t *h = ended(f, position);
    if (h) {
        const hypothesis_t done = *h;
        if (is_balanced(f, p, &done)) {
            finish(f, p, &done);
            for (size_t i = done.ended; i <= position; i++)
                take(f, p, i);
            return EBB_STEP_BOUNDARY;
        }
        drop_hypothesis(f, (unsigned)(h - f->hypothesis));
    }
    drop_outlived(f, position);
    if (f->hypotheses || f->lost)
        return event;
    f->lost = true;
    f->lost_at = position;
    if (f->predicted >= 0)
        kind_at(f, f->predicted)->info.interruptions++;
    event = EBB_STEP_LOST;
    size_t from = f->boundary + 1 > oldest(p) ? f->boundary + 1 : oldest(p);
    for (size_t i = from; i <= position; i++)
        if (take(f, p, i) == EBB_STEP_BOUNDARY)
            event = EBB_STEP_BOUNDARY;
    return event;
}

static size_t longest_word(const follow_t *f)
{
    size_t longest = 0;
    for (unsigned i = 0; i < EBB_STEP_KINDS; i++)
        if (f->kinds.kind[i].info.operations > longest)
            longest = f->kinds.kind[i].info.operations;
    return longest;
}

ebb_step_event_t follow_take(follow_t *f, const past_t *p)
{
    if (!kinds_any(&f->kinds))
        return EBB_STEP_NONE;
    const size_t newest = p->count - 1;
    const ebb_step_event_t event = take(f, p, newest);
    if (event == EBB_STEP_BOUNDARY)
        f->late = p->count - f->boundary;
    if (event || f->given_up || !f->lost || p->count - f->boundary <= PATIENCE * longest_word(f))
        return event;
    f->given_up = true;
    return EBB_STEP_GIVEN_UP;
}

/* ---- a new kind ---- */

/* Where [from, to), repeated, begins best: with the fewest bytes alive; of such points at one that the program has a
 * name for, else behind a stretch that is part of it now, else here (`from`), else the last one. */
static size_t best_boundary(const follow_t *f, const past_t *p, size_t from, size_t to)
{
    size_t best = from, after = 0;
    unsigned best_rank = 0;
    if (f->stretches) {
        const stretch_t *last = &f->stretch[(f->stretches - 1) % STRETCHES];
        after = last->start + last->operations;
    }
    for (size_t i = from; i < to; i++) {
        const entry_t *e = at(p, i), *b = at(p, best);
        const unsigned rank = e->turn ? 3 : i == after ? 2 : i == from ? 1 : 0;
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
    /* What has been seen since that point is the beginning of a step, and the word is the step before. */
    const size_t behind = start == from ? 0 : p->count - start, to = p->count - behind;
    const int made = kinds_add(&f->kinds, p, to - period, to, -1);
    if (made < 0)
        return false;
    kind_t *k = kind_at(f, made);
    const size_t before = to - period;
    kinds_keep_common(k, p, before > period + TAIL ? before - period - TAIL : 0, before + TAIL);
    kinds_forget_contained(&f->kinds, made);
    f->stretches = 0;
    f->search_until = p->count + MOST_PARTS * period;
    f->given_up = false;
    f->ended = made;
    f->late = 0;
    k->info.count = 1;
    kinds_note_order(&f->kinds, made);
    begin_at(f, to);
    f->predicted = made;
    for (size_t i = to; i < p->count; i++)
        take(f, p, i);
    return true;
}

/* ---- what is known ---- */

bool follow_is_searching(const follow_t *f, const past_t *p)
{
    return f->given_up || !kinds_any(&f->kinds) || p->count < f->search_until ||
           (f->lost && p->count - f->boundary > longest_word(f));
}

bool follow_knows(const follow_t *f)
{
    return kinds_any(&f->kinds);
}

bool follow_has_given_up(const follow_t *f)
{
    return f->given_up;
}

int follow_ended(const follow_t *f)
{
    return f->ended;
}

size_t follow_late(const follow_t *f)
{
    return f->late;
}

/* That of the kind under way as far as can be told. */
static const hypothesis_t *likeliest(const follow_t *f)
{
    const hypothesis_t *best = NULL;
    for (unsigned i = 0; i < f->hypotheses && !f->lost; i++) {
        const hypothesis_t *h = &f->hypothesis[i];
        if (h->ended)
            continue;
        if (h->kind == f->predicted && is_plausible(h))
            return h;
        if (!best || (is_plausible(h) && !is_plausible(best)) ||
            (is_plausible(h) == is_plausible(best) && h->track.matched > best->track.matched))
            best = h;
    }
    return best;
}

int follow_expected(const follow_t *f)
{
    const hypothesis_t *h = likeliest(f);
    return h ? h->kind : -1;
}

uint32_t follow_possible(const follow_t *f)
{
    uint32_t possible = 0;
    for (unsigned i = 0; i < f->hypotheses && !f->lost; i++)
        if (is_plausible(&f->hypothesis[i]) && !f->hypothesis[i].ended)
            possible |= 1u << f->hypothesis[i].kind;
    return possible;
}

size_t follow_position(const follow_t *f)
{
    const hypothesis_t *h = likeliest(f);
    return h ? h->track.next : 0;
}

ebb_step_kind_t follow_kind(const follow_t *f, unsigned kind)
{
    return f->kinds.kind[kind].info;
}

bool follow_check(const follow_t *f)
{
    for (unsigned i = 0; i < f->hypotheses; i++) {
        const hypothesis_t *h = &f->hypothesis[i];
        const kind_t *k = &f->kinds.kind[h->kind];
        if (!k->info.serial || h->track.next > k->info.operations || h->start < f->boundary)
            return false;
    }
    return f->ended < 0 || f->ended < (int)EBB_STEP_KINDS;
}
