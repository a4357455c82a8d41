/* step_search.c: looking for a period. Where an operation follows two others as it did when these were last seen, that
 * distance is put under trial: the past is compared with itself, extra and missing operations allowed.
 *
 * Weights are the logarithm of how long ago a pair of operations occurred last: about what it takes to describe it
 * (P. Elias, "Interval and recency rank source coding", IEEE Trans. Inf. Theory 33, 1987). A sequence that is mostly
 * one function agrees with itself at any distance, and its weights do not.
 */
#include <string.h>

#include "ckpt/run/tracker/internal.h"

enum {
    BLOCK = 3,         /* more operations than these at one place are no accident */
    ERRORS_PART = 12,  /* one in so many operations may not fit, */
    LEAST_WEIGHT = 80, /* bits, to tell a step from chance */
    WEIGHTS_PART = 2,  /* and one in so many bits */
    HEAVIEST = 8
};

static void forget_pairs(search_t *s)
{
    if (s->pairs.room)
        memset(s->pairs.at, 0, s->pairs.room * sizeof(pair_t));
    s->pairs.count = 0;
}

void search_reset(search_t *s)
{
    s->candidates = 0;
    forget_pairs(s);
}

/* ---- where pairs occurred ---- */

/* Of the pair that ends with the newest operation; 0: it is new. */
static size_t distance_of_last(search_t *s, const past_t *p)
{
    const size_t newest = p->count - 1;
    const uint64_t before = newest ? at(p, newest - 1)->coarse : 0;
    const uint64_t pair = (before * 0x9e3779b97f4a7c15u ^ before >> 32) + at(p, newest)->coarse;
    bool added;
    if (s->pairs.count >= p->room)
        forget_pairs(s);
    pair_t *last = ebb_table_add(&s->pairs, sizeof *last, pair | 1, &added);
    const size_t distance = last && !added ? newest - last->at : 0;
    if (last)
        last->at = newest;
    return distance;
}

static uint8_t weight_of(size_t distance)
{
    unsigned bits = 0;
    while (bits < HEAVIEST && distance >> (bits + 1))
        bits++;
    return (uint8_t)(distance ? bits : HEAVIEST);
}

/* ---- loops that ended ---- */

static void sample_of(const past_t *p, size_t from, size_t to, uint64_t *out)
{
    for (unsigned k = 0; k < SAMPLES; k++)
        out[k] = UINT64_MAX;
    for (size_t i = from; i < to; i++) {
        uint64_t t = at(p, i)->triple;
        for (unsigned k = 0; k < SAMPLES && t != out[k]; k++)
            if (t < out[k]) {
                const uint64_t larger = out[k];
                out[k] = t;
                t = larger;
            }
    }
}

static false_loop_t *find_loop(search_t *s, const uint64_t *sample, size_t period)
{
    for (unsigned i = 0; i < FALSE_LOOPS; i++) {
        const size_t other = s->loop[i].period, apart = other > period ? other - period : period - other;
        unsigned common = 0;
        if (8 * apart > period)
            continue;
        for (unsigned a = 0; a < SAMPLES; a++)
            for (unsigned b = 0; b < SAMPLES; b++)
                common += s->loop[i].sample[b] == sample[a];
        if (s->loop[i].run && common >= SAMPLES - 1)
            return &s->loop[i];
    }
    return NULL;
}

static size_t run_of(const candidate_t *c)
{
    return c->track.next - c->first;
}

static void note_false(search_t *s, const past_t *p, const candidate_t *c)
{
    const size_t end = p->count - c->track.open, period = end - c->track.next;
    uint64_t sample[SAMPLES];
    if (end < oldest(p) + period)
        return;
    sample_of(p, end - period, end, sample);
    false_loop_t *l = find_loop(s, sample, period);
    if (!l) {
        l = &s->loop[s->loops++ % FALSE_LOOPS];
        l->run = 0;
    }
    memcpy(l->sample, sample, sizeof sample);
    l->period = period;
    if (run_of(c) > l->run)
        l->run = run_of(c);
}

/* ---- candidates ---- */

static view_t view_of_past(const past_t *p)
{
    return (view_t){p->entry, p->room - 1, p->count - 1};
}

static void weigh(candidate_t *c, const past_t *p, const resumed_t *r)
{
    const size_t newest = p->count - 1, expected = c->track.next - r->matched_now - r->missing_now;
    for (unsigned i = 0; i < r->matched_now; i++)
        c->right += at(p, newest - i)->weight;
    for (unsigned i = 0; i < r->extras_now; i++)
        c->wrong += at(p, newest - r->matched_now - i)->weight;
    for (unsigned i = 0; i < r->missing_now; i++)
        c->wrong += at(p, expected + i)->weight;
}

static bool is_good(const candidate_t *c)
{
    const track_t *t = &c->track;
    return ERRORS_PART * (t->extras + t->missing) <= t->matched && WEIGHTS_PART * c->wrong <= c->right &&
           c->right >= LEAST_WEIGHT;
}

/* Some other candidate has the newest operation at this distance already. */
static bool is_under_trial(const search_t *s, const past_t *p, size_t distance, const candidate_t *except)
{
    for (size_t i = 0; i < s->candidates; i++) {
        const candidate_t *c = &s->candidate[i];
        if (c != except && !c->track.open && p->count - c->track.next == distance)
            return true;
    }
    return false;
}

/* Of the newest operation, which is the one at `before` again. Only what was allocated a period before that, or as the past begins, says something:
 * the rest is this period's own, and anywhere. */
static void compare_places(candidate_t *c, const past_t *p, size_t before)
{
    const size_t newest = p->count - 1, period = newest - before;
    const entry_t *now = at(p, newest), *then = at(p, before);
    const uint64_t allocations =
        at(p, before > oldest(p) + period ? before - period : oldest(p))->allocations;
    if (!now->place || !then->place || now->born > allocations || then->born > allocations)
        return;
    if (now->place == then->place)
        c->back++;
    else
        c->elsewhere++;
}

/* False: it is over. */
static bool advance(search_t *s, candidate_t *c, const past_t *p)
{
    const view_t v = view_of_past(p);
    resumed_t r;
    const moved_t moved = track_take(&c->track, &v, p, p->count - 1, &r);
    if (moved == FITS) {
        c->right += at(p, p->count - 1)->weight;
        compare_places(c, p, c->track.next - 1);
    }
    if (moved == RESUMED) {
        weigh(c, p, &r);
        if (is_under_trial(s, p, p->count - c->track.next, c))
            return false;
    }
    const bool block =
        moved == RESUMED && (r.extras_now > r.missing_now + BLOCK || r.missing_now > r.extras_now + BLOCK);
    const uint32_t errors = c->track.extras + c->track.missing;
    if (moved != OFF && !block && 8 * errors <= c->track.matched + 64 && c->track.next > oldest(p) + REACH)
        return true;
    if (c->complete)
        note_false(s, p, c);
    return false;
}

/* What it allocates it gives back: the fewest bytes of both periods are about the same. */
static bool is_balanced(const extent_t *a, const extent_t *b)
{
    const uint64_t change = a->fewest > b->fewest ? a->fewest - b->fewest : b->fewest - a->fewest;
    return 64 * change <= b->most - b->fewest;
}

static bool could_be_a_step(search_t *s, const past_t *p, candidate_t *c, size_t period)
{
    uint64_t sample[SAMPLES];
    if (period < SHORTEST || p->count < oldest(p) + 2 * period || !is_good(c))
        return false;
    const extent_t before = past_extent(p, p->count - 2 * period, p->count - period),
                   now = past_extent(p, p->count - period, p->count);
    if (!is_balanced(&before, &now) || c->elsewhere > c->back)
        return false;
    c->complete = true;
    sample_of(p, p->count - period, p->count, sample);
    const false_loop_t *l = find_loop(s, sample, period);
    return !l || 4 * run_of(c) > 5 * l->run;
}

/* The period if this candidate is one now. */
static size_t examine(search_t *s, const past_t *p, candidate_t *c, const follow_t *follow, bool marked)
{
    if (c->track.open || c->track.next < c->whole || p->count < c->try_at)
        return 0;
    const size_t period = p->count - c->track.next;
    c->try_at = p->count + period / 8 + 1;
    return could_be_a_step(s, p, c, period) && (!marked || past_is_marked(p, p->count - period, p->count)) &&
                   follow_wants(follow, p, p->count - period, p->count, !(c->track.extras + c->track.missing))
               ? period
               : 0;
}

/* The last three operations stood at this distance before. */
static void add_candidate(search_t *s, const past_t *p, size_t distance)
{
    size_t second = p->count - TRIPLE, weakest = 0;
    for (size_t i = 0; i < distance && second > distance + oldest(p) &&
                       at(p, second - 1)->coarse == at(p, second - 1 - distance)->coarse;
         i++)
        second--;
    for (size_t i = 1; i < s->candidates; i++)
        if (s->candidate[i].track.matched < s->candidate[weakest].track.matched)
            weakest = i;
    const size_t slot = s->candidates < CANDIDATES ? s->candidates++ : weakest;
    candidate_t *c = &s->candidate[slot];
    *c = (candidate_t){.track = {.next = p->count - distance, .matched = (uint32_t)(p->count - second)},
                       .first = second - distance,
                       .whole = second};
    for (size_t i = second; i < p->count; i++)
        c->right += at(p, i)->weight;
}

size_t search_take(search_t *s, past_t *p, const follow_t *follow, bool marked)
{
    size_t best = 0;
    const size_t distance = distance_of_last(s, p);
    entry_t *newest = at(p, p->count - 1);
    newest->weight = weight_of(distance);
    for (size_t i = 0; i < s->candidates;) {
        candidate_t *c = &s->candidate[i];
        if (!advance(s, c, p)) {
            *c = s->candidate[--s->candidates];
            continue;
        }
        const size_t period = examine(s, p, c, follow, marked);
        if (period && (!best || period < best))
            best = period;
        i++;
    }
    if (distance && distance <= p->room / 2 && p->count > distance + TRIPLE &&
        at(p, p->count - 1 - distance)->triple == newest->triple && !is_under_trial(s, p, distance, NULL))
        add_candidate(s, p, distance);
    return best;
}
