/* step_variants.c: see internal.h. */
#include "ckpt/run/tracker/internal.h"

#include <stdlib.h>
#include <string.h>

enum { PROBES = 64, PROBATION = 4, SETTLED = 3, USUAL = 32 /* steps */ };

void variants_forget(variants_t *k, int number)
{
    variant_t *gone = &k->variant[number];
    k->count -= gone->info.serial != 0;
    free(gone->signature);
    free(gone->sorted);
    memset(gone, 0, sizeof *gone);
    for (unsigned i = 0; i < EBB_STEP_VARIANTS; i++) {
        variant_t *other = &k->variant[i];
        for (unsigned r = 0; r < RUNS; r++)
            if (other->follower[r] == number + 1)
                other->follower[r] = 0;
        if (other->usual == number + 1)
            other->usual = 0;
    }
    if (k->last == number)
        k->last = -1;
}

void variants_free(variants_t *k)
{
    for (int i = 0; i < (int)EBB_STEP_VARIANTS; i++)
        variants_forget(k, i);
}

family_t variants_family(const variants_t *k, uint64_t family, int keep)
{
    family_t f = {.main = -1, .least = -1};
    uint64_t most = 0;
    for (int i = 0; i < (int)EBB_STEP_VARIANTS; i++) {
        const ebb_step_variant_t *info = &k->variant[i].info;
        if (!info->serial || (family && info->family != family))
            continue;
        f.count++;
        f.steps += info->count;
        f.longest = info->operations > f.longest ? info->operations : f.longest;
        f.amplitude = k->variant[i].amplitude > f.amplitude ? k->variant[i].amplitude : f.amplitude;
        if (f.main < 0 || info->count > most) {
            f.main = i;
            most = info->count;
        }
        if (i != keep && (f.least < 0 || info->count < k->variant[f.least].info.count))
            f.least = i;
    }
    f.has_usual = most >= USUAL && 8 * most >= 7 * f.steps;
    return f;
}

int variants_unite(variants_t *k, uint64_t family)
{
    const family_t f = variants_family(k, family, -1);
    for (int i = 0; i < (int)EBB_STEP_VARIANTS; i++)
        if (i != f.main && k->variant[i].info.serial && k->variant[i].info.family == family)
            variants_forget(k, i);
    k->variant[f.main].info.any_size = true;
    k->variant[f.main].info.count = f.steps;
    return f.main;
}

/* ---- signatures ---- */

static int compare(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

bool variant_has(const variant_t *variant, uint64_t coarse)
{
    return bsearch(&coarse, variant->sorted, variant->info.operations, sizeof coarse, compare) != NULL;
}

static unsigned telling_triples(const variant_t *variant)
{
    unsigned telling = 1u << (TRIPLE - 1); /* the first one always */
    for (size_t q = TRIPLE; q < TRIPLE - 1 + BEGINNINGS && q < variant->info.operations; q++) {
        size_t count = 0;
        for (size_t i = TRIPLE - 1; i < variant->info.operations; i++)
            count += variant->signature[i].triple == variant->signature[q].triple;
        telling |= (unsigned)(count == 1) << q;
    }
    return telling;
}

/* Of a signature as it stands: triples, sorted hashes, memory. */
static void index_word(variant_t *variant)
{
    const size_t n = variant->info.operations;
    uint64_t fewest = UINT64_MAX, most = 0;
    for (size_t i = 0; i < n; i++) {
        entry_t *e = &variant->signature[i];
        e->triple = i < 2 ? 0 : triple_of(e[-2].coarse, e[-1].coarse, e->coarse);
        e->missed = 0;
        variant->sorted[i] = e->coarse;
        fewest = e->live < fewest ? e->live : fewest;
        most = e->live > most ? e->live : most;
    }
    qsort(variant->sorted, n, sizeof *variant->sorted, compare);
    variant->amplitude = most - fewest;
    variant->telling = telling_triples(variant);
    variant->fewest = fewest;
    variant->completed = variant->alike = 0;
}

/* False: no memory, and nothing has changed. */
static bool set_signature(variant_t *variant, const past_t *p, size_t from, size_t to)
{
    const size_t n = to - from;
    entry_t *signature = malloc(n * sizeof *signature);
    uint64_t *sorted = malloc(n * sizeof *sorted);
    if (!signature || !sorted) {
        free(signature);
        free(sorted);
        return false;
    }
    for (size_t i = 0; i < n; i++)
        signature[i] = *at(p, from + i);
    free(variant->signature);
    free(variant->sorted);
    variant->signature = signature;
    variant->sorted = sorted;
    variant->info.operations = n;
    index_word(variant);
    return true;
}

int variants_add(variants_t *k, const past_t *p, size_t from, size_t to, int keep)
{
    int slot = -1;
    for (int i = (int)EBB_STEP_VARIANTS - 1; i >= 0; i--) {
        const ebb_step_variant_t *has = &k->variant[i].info;
        if (i != keep && (slot < 0 || !has->serial ||
                          (k->variant[slot].info.serial && has->count < k->variant[slot].info.count)))
            slot = i;
    }
    variant_t made = {.info = {.serial = *k->serials + 1, .family = *k->serials + 1}};
    if (!set_signature(&made, p, from, to))
        return -1;
    variants_forget(k, slot);
    k->variant[slot] = made;
    k->count++;
    ++*k->serials;
    return slot;
}

static bool contains(const uint64_t *triples, size_t count, const variant_t *variant)
{
    const size_t n = variant->info.operations, step = n / PROBES + 1;
    size_t probes = 0, hits = 0;
    for (size_t i = 2; i < n; i += step, probes++)
        hits += bsearch(&variant->signature[i].triple, triples, count, sizeof *triples, compare) != NULL;
    return 5 * hits >= 4 * probes;
}

void variants_forget_contained(variants_t *k, int number)
{
    const variant_t *whole = &k->variant[number];
    const size_t n = whole->info.operations;
    uint64_t *triples = malloc(n * sizeof *triples);
    if (!triples)
        return;
    for (size_t i = 0; i < n; i++)
        triples[i] = whole->signature[i].triple;
    qsort(triples, n, sizeof *triples, compare);
    for (int i = 0; i < (int)EBB_STEP_VARIANTS; i++)
        if (i != number && k->variant[i].info.serial && contains(triples, n, &k->variant[i]))
            variants_forget(k, i);
    free(triples);
}

/* What was left out in most steps was one of the first step's extra operations. */
static void drop_missed(variant_t *variant)
{
    size_t n = 0;
    for (size_t i = 0; i < variant->info.operations; i++)
        if (variant->signature[i].missed < PROBATION - 1)
            variant->signature[n++] = variant->signature[i];
    if (n == variant->info.operations || n < SHORTEST)
        return;
    variant->info.operations = n;
    index_word(variant);
}

static void mark_missed(variant_t *variant, size_t from, size_t count)
{
    for (size_t i = from; i < from + count; i++)
        variant->signature[i].missed = PROBATION;
}

void variants_keep_common(variant_t *variant, const past_t *p, size_t from, size_t to)
{
    const view_t v = view_of_variant(variant);
    track_t t = {.next = 0};
    resumed_t r;
    moved_t moved = FITS;
    for (size_t i = from > oldest(p) ? from : oldest(p); i < to && t.next < v.end && moved != OFF; i++) {
        moved = track_take(&t, &v, p, i, &r);
        if (moved == RESUMED && t.matched > r.matched_now) /* before anything has fit, a gap says nothing */
            mark_missed(variant, t.next - r.matched_now - r.missing_now, r.missing_now);
    }
    const size_t left = v.end - t.next;
    mark_missed(variant, t.next, left);
    if (moved != OFF && 24 * (t.missing + left) <= v.end + 48)
        drop_missed(variant);
    for (size_t i = 0; i < variant->info.operations; i++)
        variant->signature[i].missed = 0;
}

void variants_renew(variant_t *variant, const past_t *p, size_t from, size_t to)
{
    const size_t length = to - from;
    variant->led = 0;
    if (from < oldest(p) + length || length < SHORTEST || !set_signature(variant, p, from, to))
        return;
    variants_keep_common(variant, p, from - length, from);
    variant->info.renewed++;
}

static uint64_t sum_of(const past_t *p, size_t from, size_t to)
{
    uint64_t sum = to - from;
    for (size_t i = from; i < to; i++)
        sum += at(p, i)->triple;
    return sum;
}

void variants_adapt(variant_t *variant, const past_t *p, size_t from, size_t to, const track_t *t)
{
    const bool deviates = t->extras + t->missing && from >= oldest(p);
    const uint64_t deviation = deviates ? sum_of(p, from, to) : 0;
    variant->alike = !deviates ? 0 : deviation == variant->deviation ? variant->alike + 1 : 1;
    variant->deviation = deviation;
    if (variant->alike >= SETTLED && to - from >= SHORTEST)
        set_signature(variant, p, from, to);
    else if (++variant->completed == PROBATION)
        drop_missed(variant);
}

/* ---- order ---- */

static unsigned capped(unsigned run)
{
    return run < RUNS ? run : RUNS - 1;
}

void variants_note_order(variants_t *k, int number)
{
    if (k->last >= 0) {
        variant_t *before = &k->variant[k->last];
        before->follower[capped(k->run)] = (uint8_t)(number + 1);
        before->usual = (uint8_t)(number + 1);
    }
    k->run = k->last == number ? k->run + 1 : 1;
    k->last = number;
}

int variants_next(const variants_t *k)
{
    if (k->last < 0)
        return variants_family(k, 0, -1).main;
    const variant_t *last = &k->variant[k->last];
    const uint8_t next = last->follower[capped(k->run)];
    return next ? next - 1 : last->usual ? last->usual - 1 : k->last;
}
