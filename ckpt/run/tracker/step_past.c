/* step_past.c: the past of a stream, and its comparison with what it should be. */
#include <stdlib.h>

#include "ckpt/run/tracker/internal.h"

uint64_t triple_of(uint64_t a, uint64_t b, uint64_t c)
{
    uint64_t h = (a * 0x9e3779b97f4a7c15u ^ b) * 0xd1342543de82ef95u;
    h = (h ^ h >> 29 ^ c) * 0xff51afd7ed558ccdu;
    return h ^ h >> 32;
}

void past_push(past_t *p, const ebb_step_operation_t *op, uint64_t number, uint64_t live, bool mark)
{
    const size_t i = p->count++;
    entry_t *e = at(p, i);
    *e = (entry_t){.coarse = op->coarse,
                   .fine = op->fine,
                   .live = live,
                   .place = op->place,
                   .born = op->born,
                   .allocations = op->allocations,
                   .number = number,
                   .touched = op->idle ? number - op->idle : UINT64_MAX,
                   .input = op->input,
                   .turn = op->turn,
                   .mark = mark};
    e->triple = i < 2 ? op->coarse : triple_of(at(p, i - 2)->coarse, at(p, i - 1)->coarse, op->coarse);
}

bool past_grow(past_t *p)
{
    past_t grown = {
        .entry = malloc(2 * p->room * sizeof *grown.entry), .room = 2 * p->room, .count = p->count};
    if (!grown.entry)
        return false;
    for (size_t i = oldest(p); i < p->count; i++)
        *at(&grown, i) = *at(p, i);
    free(p->entry);
    *p = grown;
    return true;
}

extent_t past_extent(const past_t *p, size_t from, size_t to)
{
    extent_t e = {UINT64_MAX, 0};
    for (size_t i = from; i < to; i++) {
        const uint64_t live = at(p, i)->live;
        e.fewest = live < e.fewest ? live : e.fewest;
        e.most = live > e.most ? live : e.most;
    }
    return e;
}

bool past_is_marked(const past_t *p, size_t from, size_t to)
{
    while (from < to && !at(p, from)->mark)
        from++;
    return from < to;
}

/* At the end of a signature fewer than a triple must do. */
static bool fits_the_end(const track_t *t, const view_t *v, const past_t *p, size_t position)
{
    const size_t left = v->end - t->next;
    if (!left || left >= TRIPLE || t->open < left)
        return false;
    for (size_t i = 0; i < left; i++)
        if (v->entry[(t->next + i) & v->mask].coarse != at(p, position + 1 - left + i)->coarse)
            return false;
    return true;
}

static moved_t resume(track_t *t, unsigned missing, unsigned matched, resumed_t *out)
{
    *out = (resumed_t){matched, t->open - matched, missing};
    t->extras += out->extras_now;
    t->missing += missing;
    t->matched += matched;
    t->next += missing + matched;
    t->open = 0;
    return RESUMED;
}

/* Whether the last three operations stand in the view so that comparison can go on behind them, and how many of those
 * before them as well; 0: they do not. They may stand in several places, where layers are alike: what is out of step by
 * little is taken at once, what is out of step by more only when nothing better has come up since. */
static unsigned find_way(const track_t *t, const view_t *v, const past_t *p, size_t position,
                         unsigned *missing)
{
    const uint64_t triple = at(p, position)->triple;
    const unsigned extras = t->open - TRIPLE;
    unsigned best = REACH + 1, shift = 0;
    for (unsigned k = 0; k <= REACH && t->next + k + TRIPLE <= v->end; k++) {
        const unsigned out_of_step = k > extras ? k - extras : extras - k;
        if (out_of_step <= extras + 1 && (best > REACH || out_of_step < shift) &&
            v->entry[(t->next + k + TRIPLE - 1) & v->mask].triple == triple) {
            best = k;
            shift = out_of_step;
        }
    }
    if (best > REACH)
        return 0;
    unsigned matched = TRIPLE;
    while (best && matched < t->open &&
           v->entry[(t->next + best - 1) & v->mask].coarse == at(p, position - matched)->coarse) {
        best--;
        matched++;
    }
    *missing = best;
    return matched;
}

moved_t track_take(track_t *t, const view_t *v, const past_t *p, size_t position, resumed_t *out)
{
    if (!t->open && t->next < v->end && v->entry[t->next & v->mask].coarse == at(p, position)->coarse) {
        t->next++;
        t->matched++;
        return FITS;
    }
    t->open++;
    unsigned missing = 0;
    const unsigned matched = t->open >= TRIPLE ? find_way(t, v, p, position, &missing) : 0;
    if (matched)
        return resume(t, missing, matched, out);
    if (fits_the_end(t, v, p, position))
        return resume(t, 0, (unsigned)(v->end - t->next), out);
    return t->open > REACH ? OFF : DOUBT;
}
