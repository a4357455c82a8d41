/* slab.c: see device.h. The table of blocks is two: a bit where a block begins, and its address there; so cutting and
 * merging cost the same for a block of one unit and of thousands, and a pointer into the middle of a buffer is
 * looked up by walking back over at most 32 words of bits. */
#include "alloc/device.h"

#include <stdlib.h>

#include "alloc/base/status.h"

ebb_slab_t *ebb_slab_new(ebb_range_t *range)
{
    size_t units = range->chunk_count * (size_t)EBB_CHUNK_UNITS;
    ebb_slab_t *s =
        calloc(1, sizeof *s + units * sizeof s->at[0] + units / 8 + range->chunk_count * sizeof s->live[0]);
    if (!s)
        return NULL;
    s->begins = (uint64_t *)&s->at[units];
    s->live = (uint16_t *)&s->begins[units / 64];
    s->range = range;
    s->units = (uint32_t)units;
    for (uint32_t i = 0; i < range->chunk_count; i++)
        s->chunks += range->chunk[i] != NULL;
    range->slab = s;
    return s;
}

bool ebb_slab_delete(ebb_slab_t *s)
{
    ebb_slab_strip(s, 0, s->units);
    if (s->chunks)
        return false;
    for (uint32_t u = 0; u < s->units; u++)
        if (s->at[u])
            free(s->at[u]);
    s->range->slab = NULL;
    s->range->mapped = false;
    ebb_range_delete(s->range);
    free(s);
    return true;
}

/* ---- blocks ---- */

ebb_block_t *ebb_block_new(ebb_slab_t *s, uint32_t first, uint32_t units)
{
    ebb_block_t *b = malloc(sizeof *b);
    if (!b)
        return NULL;
    *b = (ebb_block_t){
        .buffer = {.range = s->range, .address = s->range->base + first * EBB_ALIGN_BYTES},
        .first = first,
        .units = units,
    };
    s->begins[first / 64] |= (uint64_t)1 << first % 64;
    s->at[first] = b;
    return b;
}

void ebb_block_delete(ebb_block_t *b)
{
    ebb_slab_t *s = ebb_slab_of(b);
    s->begins[b->first / 64] &= ~((uint64_t)1 << b->first % 64);
    s->at[b->first] = NULL;
    free(b);
}

ebb_block_t *ebb_block_behind(const ebb_block_t *b)
{
    const ebb_slab_t *s = ebb_slab_of(b);
    uint32_t end = b->first + b->units;
    return end < s->units ? s->at[end] : NULL;
}

/* The last beginning at or before a unit, of `most` words of bits; NULL: none. */
static ebb_block_t *last_beginning(const ebb_slab_t *s, uint32_t unit, uint32_t most)
{
    uint32_t word = unit / 64;
    uint64_t bits = s->begins[word] & (UINT64_MAX >> (63 - unit % 64));
    for (; !bits && word && most; most--)
        bits = s->begins[--word];
    return bits ? s->at[word * 64 + 63 - (uint32_t)__builtin_clzll(bits)] : NULL;
}

ebb_block_t *ebb_block_before(const ebb_block_t *b)
{
    return b->first ? last_beginning(ebb_slab_of(b), b->first - 1, UINT32_MAX) : NULL;
}

ebb_block_t *ebb_block_of(const ebb_slab_t *s, uint32_t unit)
{
    return last_beginning(s, unit, EBB_LARGEST_UNITS / 64);
}

/* ---- chunks ---- */

unsigned ebb_slab_born(const ebb_block_t *b)
{
    uint16_t *live = ebb_slab_of(b)->live;
    unsigned count = 0;
    for (uint32_t c = b->first / EBB_CHUNK_UNITS; c <= (b->first + b->units - 1) / EBB_CHUNK_UNITS; c++)
        count += !live[c]++;
    return count;
}

unsigned ebb_slab_died(const ebb_block_t *b)
{
    uint16_t *live = ebb_slab_of(b)->live;
    unsigned count = 0;
    for (uint32_t c = b->first / EBB_CHUNK_UNITS; c <= (b->first + b->units - 1) / EBB_CHUNK_UNITS; c++)
        count += !--live[c];
    return count;
}

unsigned ebb_slab_missing(const ebb_slab_t *s, uint32_t first, uint32_t units)
{
    unsigned missing = 0;
    for (uint32_t c = first / EBB_CHUNK_UNITS; c <= (first + units - 1) / EBB_CHUNK_UNITS; c++)
        missing += !s->range->chunk[c];
    return missing;
}

ebb_status_t ebb_slab_back(ebb_slab_t *s, uint32_t first, uint32_t units, const ebb_chunk_t *chunks)
{
    uint32_t c = first / EBB_CHUNK_UNITS, end = (first + units - 1) / EBB_CHUNK_UNITS + 1;
    for (; c < end; c++) {
        if (s->range->chunk[c])
            continue;
        uint32_t run = 1;
        while (c + run < end && !s->range->chunk[c + run])
            run++;
        ebb_status_t status = ebb_range_map_part(s->range, c, run, chunks);
        if (status)
            return status;
        s->chunks += run;
        chunks += run;
        c += run - 1;
    }
    return 0;
}

void ebb_slab_strip(ebb_slab_t *s, uint32_t first, uint32_t units)
{
    uint32_t c = (first + EBB_CHUNK_UNITS - 1) / EBB_CHUNK_UNITS, end = (first + units) / EBB_CHUNK_UNITS;
    while (c < end) {
        uint32_t run = 0;
        while (c + run < end && s->range->chunk[c + run])
            run++;
        if (run && !ebb_range_unmap_part(s->range, c, run))
            s->chunks -= run;
        c += run ? run : 1;
    }
}
