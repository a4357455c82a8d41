/* small.c: buffers up to EBB_SMALL_BYTES, cut from slabs in units of EBB_ALIGN_BYTES. A slab is one chunk, or
 * what a plan has left (ebb_slab_close).
 *
 * A freed block first waits in a list of its exact size: the next request of that size takes it in constant
 * time. What waits is merged back into its slab (a bitmap of free units) only when a size is asked for that
 * no list and no slab has. Slabs are never evicted; one that is empty gives its chunk back.
 */
#include <stdlib.h>
#include <string.h>

#include "arena.h"
#include "heap.h"

enum { CHUNK_UNITS = EBB_CHUNK_BYTES / EBB_ALIGN_BYTES, LARGEST = EBB_SMALL_BYTES / EBB_ALIGN_BYTES };

typedef struct block {
    ebb_buffer_t buffer; /* first: a small buffer is its block */
    uint32_t first, units;
    bool live;
    ebb_mark_t freed;
    struct block *next; /* in its waiting list */
} block_t;

struct ebb_slab {
    ebb_range_t *range;
    struct ebb_slab *next;
    uint32_t units, free_units;
    uint64_t *taken;  /* a bit for each unit */
    block_t *owner[]; /* [units] of each unit that is taken */
};

static ebb_slab_t *slabs;
static block_t *waiting[LARGEST + 1]; /* by units */

/* ---- units of a slab ---- */

static bool is_taken(const ebb_slab_t *s, size_t unit)
{
    return s->taken[unit / 64] >> (unit % 64) & 1;
}

static void mark_units(ebb_slab_t *s, block_t *b, bool taken)
{
    for (size_t u = b->first; u < (size_t)b->first + b->units; u++) {
        s->taken[u / 64] ^= (uint64_t)1 << (u % 64);
        s->owner[u] = taken ? b : NULL;
    }
    s->free_units = taken ? s->free_units - b->units : s->free_units + b->units;
}

/* First fit. s->units if there is no such run. */
static size_t find_run(const ebb_slab_t *s, size_t units)
{
    if (s->free_units < units)
        return s->units;
    size_t run = 0;
    for (size_t u = 0; u < s->units; u++) {
        if (!(u % 64) && s->taken[u / 64] == UINT64_MAX) {
            run = 0;
            u += 63;
            continue;
        }
        run = is_taken(s, u) ? 0 : run + 1;
        if (run == units)
            return u + 1 - units;
    }
    return s->units;
}

static ebb_slab_t *slab_of(const block_t *b)
{
    return b->buffer.range->slab;
}

static void set_place(block_t *b, const ebb_slab_t *s, size_t first, size_t units)
{
    b->first = (uint32_t)first;
    b->units = (uint32_t)units;
    b->buffer.range = s->range;
    b->buffer.address = s->range->base + first * EBB_ALIGN_BYTES;
}

static block_t *cut(size_t units)
{
    for (ebb_slab_t *s = slabs; s; s = s->next) {
        size_t first = find_run(s, units);
        if (first == s->units)
            continue;
        block_t *b = calloc(1, sizeof *b);
        if (!b)
            return NULL;
        set_place(b, s, first, units);
        mark_units(s, b, true);
        return b;
    }
    return NULL;
}

static ebb_slab_t *new_slab(ebb_range_t *range)
{
    size_t units = range->chunk_count * (size_t)CHUNK_UNITS;
    ebb_slab_t *s = calloc(1, sizeof *s + units * sizeof s->owner[0] + units / 8);
    if (!s)
        return NULL;
    s->taken = (uint64_t *)&s->owner[units];
    s->range = range;
    s->units = s->free_units = (uint32_t)units;
    range->slab = s;
    return s;
}

static void link_slab(ebb_slab_t *s)
{
    s->next = slabs;
    slabs = s;
}

static ebb_status_t add_slab(void)
{
    ebb_range_t *range;
    /* Other streams may get blocks of it next, so a range that is still in use somewhere will not do. */
    EBB_TRY(ebb_heap_range(1, NULL, &range));
    ebb_slab_t *s = new_slab(range);
    if (s) {
        link_slab(s);
        return 0;
    }
    if (!ebb_range_unmap(range))
        ebb_range_delete(range);
    return ebb_fail(CUDA_ERROR_OUT_OF_MEMORY, "calloc", sizeof *s);
}

/* ---- slabs of a plan: the places are given, only the table of owners is kept ---- */

ebb_slab_t *ebb_slab_open(ebb_range_t *range)
{
    return new_slab(range);
}

ebb_buffer_t *ebb_small_place(ebb_slab_t *s, size_t offset_bytes, size_t bytes)
{
    size_t units = (bytes + EBB_ALIGN_BYTES - 1) / EBB_ALIGN_BYTES, first = offset_bytes / EBB_ALIGN_BYTES;
    block_t *b = first + units <= s->units ? calloc(1, sizeof *b) : NULL;
    if (!b)
        return NULL;
    set_place(b, s, first, units);
    b->live = true;
    for (size_t u = first; u < first + units; u++) {
        EBB_DCHECK(!s->owner[u]);
        s->owner[u] = b;
    }
    return &b->buffer;
}

void ebb_small_displace(ebb_buffer_t *buffer)
{
    block_t *b = (block_t *)buffer;
    ebb_slab_t *s = slab_of(b);
    for (size_t u = b->first; u < (size_t)b->first + b->units; u++)
        s->owner[u] = NULL;
    free(b);
}

void ebb_slab_close(ebb_slab_t *s)
{
    for (size_t u = 0; u < s->units; u++)
        if (s->owner[u]) {
            s->taken[u / 64] |= (uint64_t)1 << (u % 64);
            s->free_units--;
        }
    link_slab(s);
}

/* ---- waiting blocks ---- */

static block_t *take_waiting(size_t units, const ebb_stream_t *stream)
{
    for (block_t **link = &waiting[units]; *link; link = &(*link)->next) {
        block_t *b = *link;
        if ((stream && b->freed.stream == stream) || ebb_mark_reached(b->freed)) {
            *link = b->next;
            return b;
        }
    }
    return NULL;
}

static bool merge_waiting(bool wait)
{
    bool merged = false;
    for (size_t units = 1; units <= LARGEST; units++)
        for (block_t **link = &waiting[units]; *link;) {
            block_t *b = *link;
            if (wait ? ebb_mark_wait(b->freed) != 0 : !ebb_mark_reached(b->freed)) {
                link = &b->next;
                continue;
            }
            *link = b->next;
            mark_units(slab_of(b), b, false);
            free(b);
            merged = true;
        }
    return merged;
}

void ebb_small_reclaim(bool wait)
{
    merge_waiting(wait);
    for (ebb_slab_t **link = &slabs; *link;) {
        ebb_slab_t *s = *link;
        if (s->free_units < s->units || ebb_range_unmap(s->range)) {
            link = &s->next;
            continue;
        }
        *link = s->next;
        s->range->slab = NULL;
        ebb_range_delete(s->range);
        free(s);
    }
}

/* ---- what heap.c calls ---- */

ebb_status_t ebb_small_alloc(const ebb_request_t *q, ebb_buffer_t **out)
{
    size_t units = (q->bytes + EBB_ALIGN_BYTES - 1) / EBB_ALIGN_BYTES;
    block_t *b = take_waiting(units, q->stream);
    if (!b)
        b = cut(units);
    if (!b && merge_waiting(false))
        b = cut(units);
    if (!b) {
        EBB_TRY(add_slab());
        b = cut(units);
    }
    if (!b)
        return ebb_fail(CUDA_ERROR_OUT_OF_MEMORY, "calloc", sizeof *b);
    b->live = true;
    b->next = NULL;
    *out = &b->buffer;
    return 0;
}

void ebb_small_free(ebb_buffer_t *buffer, ebb_mark_t at)
{
    block_t *b = (block_t *)buffer;
    b->live = false;
    b->freed = at;
    b->buffer.listener_state = NULL;
    b->next = waiting[b->units];
    waiting[b->units] = b;
}

ebb_buffer_t *ebb_small_at(const ebb_slab_t *s, CUdeviceptr address)
{
    block_t *b = s->owner[(address - s->range->base) / EBB_ALIGN_BYTES];
    /* The rest of the last unit belongs to nobody. */
    return b && b->live && address - b->buffer.address < b->buffer.bytes ? &b->buffer : NULL;
}

void ebb_small_check(void)
{
    for (const ebb_slab_t *s = slabs; s; s = s->next) {
        size_t free_units = 0;
        EBB_ASSERT(s->range->slab == s && s->range->mapped);
        for (size_t u = 0; u < s->units; u++) {
            const block_t *b = s->owner[u];
            EBB_ASSERT(is_taken(s, u) == (b != NULL));
            EBB_ASSERT(!b || (u >= b->first && u < (size_t)b->first + b->units && slab_of(b) == s));
            free_units += !b;
        }
        EBB_ASSERT(free_units == s->free_units);
    }
}
