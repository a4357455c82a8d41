/* step_kinds.c: see internal.h. */
#include "ckpt/run/tracker/internal.h"

#include <stdlib.h>
#include <string.h>

enum { PROBES = 64, PROBATION = 4, SETTLED = 3 };

void kinds_forget(kinds_t *k, int number)
{
    kind_t *gone = &k->kind[number];
    free(gone->word);
    free(gone->sorted);
    memset(gone, 0, sizeof *gone);
    for (unsigned i = 0; i < EBB_STEP_KINDS; i++) {
        kind_t *other = &k->kind[i];
        for (unsigned r = 0; r < RUNS; r++)
            if (other->follower[r] == number + 1)
                other->follower[r] = 0;
        if (other->usual == number + 1)
            other->usual = 0;
    }
    if (k->last == number)
        k->last = -1;
}

void kinds_free(kinds_t *k)
{
    for (int i = 0; i < (int)EBB_STEP_KINDS; i++)
        kinds_forget(k, i);
}

bool kinds_any(const kinds_t *k)
{
    for (unsigned i = 0; i < EBB_STEP_KINDS; i++)
        if (k->kind[i].info.serial)
            return true;
    return false;
}

int kinds_main(const kinds_t *k)
{
    int main = -1;
    for (int i = 0; i < (int)EBB_STEP_KINDS; i++)
        if (k->kind[i].info.serial && (main < 0 || k->kind[i].info.count > k->kind[main].info.count))
            main = i;
    return main;
}

/* ---- words ---- */

static int compare(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

bool kind_has(const kind_t *kind, uint64_t coarse)
{
    return bsearch(&coarse, kind->sorted, kind->info.operations, sizeof coarse, compare) != NULL;
}

static unsigned telling_triples(const kind_t *kind)
{
    unsigned telling = 1u << (TRIPLE - 1); /* the first one always */
    for (size_t q = TRIPLE; q < TRIPLE - 1 + BEGINNINGS && q < kind->info.operations; q++) {
        size_t count = 0;
        for (size_t i = TRIPLE - 1; i < kind->info.operations; i++)
            count += kind->word[i].triple == kind->word[q].triple;
        telling |= (unsigned)(count == 1) << q;
    }
    return telling;
}

/* Of a word as it stands: triples, sorted signatures, memory. */
static void index_word(kind_t *kind)
{
    const size_t n = kind->info.operations;
    uint64_t fewest = UINT64_MAX, most = 0;
    for (size_t i = 0; i < n; i++) {
        entry_t *e = &kind->word[i];
        e->triple = i < 2 ? 0 : triple_of(e[-2].coarse, e[-1].coarse, e->coarse);
        e->missed = 0;
        kind->sorted[i] = e->coarse;
        fewest = e->live < fewest ? e->live : fewest;
        most = e->live > most ? e->live : most;
    }
    qsort(kind->sorted, n, sizeof *kind->sorted, compare);
    kind->amplitude = most - fewest;
    kind->telling = telling_triples(kind);
    kind->fewest = fewest;
    kind->completed = kind->alike = 0;
}

/* False: no memory, and nothing has changed. */
static bool set_word(kind_t *kind, const past_t *p, size_t from, size_t to)
{
    const size_t n = to - from;
    entry_t *word = malloc(n * sizeof *word);
    uint64_t *sorted = malloc(n * sizeof *sorted);
    if (!word || !sorted) {
        free(word);
        free(sorted);
        return false;
    }
    for (size_t i = 0; i < n; i++)
        word[i] = *at(p, from + i);
    free(kind->word);
    free(kind->sorted);
    kind->word = word;
    kind->sorted = sorted;
    kind->info.operations = n;
    index_word(kind);
    return true;
}

int kinds_add(kinds_t *k, const past_t *p, size_t from, size_t to, int keep)
{
    int slot = -1;
    for (int i = (int)EBB_STEP_KINDS - 1; i >= 0; i--) {
        const ebb_step_kind_t *has = &k->kind[i].info;
        if (i != keep && (slot < 0 || !has->serial ||
                          (k->kind[slot].info.serial && has->count < k->kind[slot].info.count)))
            slot = i;
    }
    kind_t made = {.info = {.serial = *k->serials + 1, .family = *k->serials + 1}};
    if (!set_word(&made, p, from, to))
        return -1;
    kinds_forget(k, slot);
    k->kind[slot] = made;
    ++*k->serials;
    return slot;
}

static bool contains(const uint64_t *triples, size_t count, const kind_t *kind)
{
    const size_t n = kind->info.operations, step = n / PROBES + 1;
    size_t probes = 0, hits = 0;
    for (size_t i = 2; i < n; i += step, probes++)
        hits += bsearch(&kind->word[i].triple, triples, count, sizeof *triples, compare) != NULL;
    return 5 * hits >= 4 * probes;
}

void kinds_forget_contained(kinds_t *k, int number)
{
    const kind_t *whole = &k->kind[number];
    const size_t n = whole->info.operations;
    uint64_t *triples = malloc(n * sizeof *triples);
    if (!triples)
        return;
    for (size_t i = 0; i < n; i++)
        triples[i] = whole->word[i].triple;
    qsort(triples, n, sizeof *triples, compare);
    for (int i = 0; i < (int)EBB_STEP_KINDS; i++)
        if (i != number && k->kind[i].info.serial && contains(triples, n, &k->kind[i]))
            kinds_forget(k, i);
    free(triples);
}

/* What was left out in most steps was one of the first step's extra operations. */
static void drop_missed(kind_t *kind)
{
    size_t n = 0;
    for (size_t i = 0; i < kind->info.operations; i++)
        if (kind->word[i].missed < PROBATION - 1)
            kind->word[n++] = kind->word[i];
    if (n == kind->info.operations || n < SHORTEST)
        return;
    kind->info.operations = n;
    index_word(kind);
}

static void mark_missed(kind_t *kind, size_t from, size_t count)
{
    for (size_t i = from; i < from + count; i++)
        kind->word[i].missed = PROBATION;
}

void kinds_keep_common(kind_t *kind, const past_t *p, size_t from, size_t to)
{
    const view_t v = view_of_kind(kind);
    track_t t = {.next = 0};
    resumed_t r;
    moved_t moved = FITS;
    for (size_t i = from > oldest(p) ? from : oldest(p); i < to && t.next < v.end && moved != OFF; i++) {
        moved = track_take(&t, &v, p, i, &r);
        if (moved == RESUMED)
            mark_missed(kind, t.next - r.matched_now - r.missing_now, r.missing_now);
    }
    const size_t left = v.end - t.next;
    mark_missed(kind, t.next, left);
    if (moved != OFF && 24 * (t.missing + left) <= v.end + 48)
        drop_missed(kind);
    for (size_t i = 0; i < kind->info.operations; i++)
        kind->word[i].missed = 0;
}

void kinds_renew(kind_t *kind, const past_t *p, size_t from, size_t to)
{
    const size_t length = to - from;
    kind->led = 0;
    if (from >= oldest(p) + length && length >= SHORTEST && set_word(kind, p, from, to))
        kinds_keep_common(kind, p, from - length, from);
}

static uint64_t sum_of(const past_t *p, size_t from, size_t to)
{
    uint64_t sum = to - from;
    for (size_t i = from; i < to; i++)
        sum += at(p, i)->triple;
    return sum;
}

void kinds_adapt(kind_t *kind, const past_t *p, size_t from, size_t to, const track_t *t)
{
    const bool deviates = t->extras + t->missing && from >= oldest(p);
    const uint64_t deviation = deviates ? sum_of(p, from, to) : 0;
    kind->alike = !deviates ? 0 : deviation == kind->deviation ? kind->alike + 1 : 1;
    kind->deviation = deviation;
    if (kind->alike >= SETTLED && to - from >= SHORTEST)
        set_word(kind, p, from, to);
    else if (++kind->completed == PROBATION)
        drop_missed(kind);
}

/* ---- order ---- */

static unsigned capped(unsigned run)
{
    return run < RUNS ? run : RUNS - 1;
}

void kinds_note_order(kinds_t *k, int number)
{
    if (k->last >= 0) {
        kind_t *before = &k->kind[k->last];
        before->follower[capped(k->run)] = (uint8_t)(number + 1);
        before->usual = (uint8_t)(number + 1);
    }
    k->run = k->last == number ? k->run + 1 : 1;
    k->last = number;
}

int kinds_next(const kinds_t *k)
{
    if (k->last < 0)
        return kinds_main(k);
    const kind_t *last = &k->kind[k->last];
    const uint8_t next = last->follower[capped(k->run)];
    return next ? next - 1 : last->usual ? last->usual - 1 : k->last;
}
