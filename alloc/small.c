/* small.c: buffers up to EBB_SMALL_BYTES, cut from slabs (device.h).
 *
 * A freed block first waits in a queue of its size and stream: the next such request takes it in constant time. When
 * a size is asked for that no queue has, all that wait are merged with their neighbours and become free blocks,
 * kept by size with a bit for each size class (as in Masmano's TLSF); the smallest that fits is cut. Only
 * when there is none on memory that is there, a chunk is put under the slab. A free block remembers until when it
 * may be in use; a request for the same stream need not wait for that.
 */
#include <stdlib.h>
#include <string.h>

#include "alloc/device.h"
#include "alloc/internal.h"

enum {
    SLAB_CHUNKS = 32, /* of addresses */
    EXACT = EBB_EXACT_UNITS,
    TRIES = 64, /* blocks of one bin that are looked at */
};

/* ---- free blocks ---- */

static unsigned bin_of(uint32_t units)
{
    if (units < EXACT)
        return units;
    unsigned power = 31 - (unsigned)__builtin_clz(units);
    return EXACT + (power - 6) * 8 + (units >> (power - 3) & 7);
}

static void put_free(ebb_block_t *b)
{
    ebb_device_t *dev = b->buffer.range->device;
    unsigned i = bin_of(b->units);
    b->state = EBB_FREE;
    b->prev = NULL;
    b->next = dev->small.bin[i];
    if (b->next)
        b->next->prev = b;
    dev->small.bin[i] = b;
    dev->small.filled[i / 64] |= (uint64_t)1 << i % 64;
}

static void take_free(ebb_block_t *b)
{
    ebb_device_t *dev = b->buffer.range->device;
    unsigned i = bin_of(b->units);
    *(b->prev ? &b->prev->next : &dev->small.bin[i]) = b->next;
    if (b->next)
        b->next->prev = b->prev;
    if (!dev->small.bin[i])
        dev->small.filled[i / 64] &= ~((uint64_t)1 << i % 64);
    b->next = b->prev = NULL;
}

/* The first bin from `i` on that is not empty; EBB_BINS: none. */
static unsigned filled_from(ebb_device_t *dev, unsigned i)
{
    if (i >= EBB_BINS)
        return EBB_BINS;
    unsigned word = i / 64;
    uint64_t bits = dev->small.filled[word] & UINT64_MAX << i % 64;
    while (!bits && ++word < sizeof dev->small.filled / sizeof *dev->small.filled)
        bits = dev->small.filled[word];
    return bits ? word * 64 + (unsigned)__builtin_ctzll(bits) : EBB_BINS;
}

/* Where `units` fit into a free block: as low as can be; where there are chunks, if it must be `backed`. */
static bool fits(const ebb_block_t *b, uint32_t units, bool backed, uint32_t *first)
{
    const ebb_slab_t *s = ebb_slab_of(b);
    uint32_t at = b->first, end = b->first + b->units;
    while (at + units <= end) {
        if (!backed || !ebb_slab_missing(s, at, units)) {
            *first = at;
            return true;
        }
        at = (at / EBB_CHUNK_UNITS + 1) * EBB_CHUNK_UNITS;
    }
    return false;
}

/* The smallest free block, among those looked at, that takes `units` of `stream`. */
static ebb_block_t *find(ebb_device_t *dev, uint32_t units, const ebb_stream_t *stream, bool backed,
                         uint32_t *first)
{
    ebb_block_t *best = NULL;
    for (unsigned i = filled_from(dev, bin_of(units)); i < EBB_BINS && !best; i = filled_from(dev, i + 1)) {
        unsigned tries = 0;
        for (ebb_block_t *b = dev->small.bin[i]; b && tries < TRIES; b = b->next, tries++) {
            uint32_t at;
            if (b->units >= units && (!best || b->units < best->units) && ebb_mark_suits(b->freed, stream) &&
                fits(b, units, backed, &at)) {
                best = b;
                *first = at;
            }
        }
    }
    return best;
}

/* Cuts a live block out of a free one; what is left of it on either side stays free. */
static ebb_block_t *cut(ebb_block_t *b, uint32_t first, uint32_t units)
{
    ebb_slab_t *s = ebb_slab_of(b);
    uint32_t before = first - b->first, behind = b->units - units - before;
    ebb_block_t *rest = behind ? ebb_block_new(s, first + units, behind) : NULL;
    ebb_block_t *middle = before ? ebb_block_new(s, first, units) : b;
    if ((behind && !rest) || !middle) {
        if (rest)
            ebb_block_delete(rest);
        return NULL;
    }
    take_free(b);
    if (before) {
        b->units = before;
        put_free(b);
    }
    if (rest) {
        rest->freed = b->freed;
        put_free(rest);
    }
    middle->units = units;
    middle->state = EBB_LIVE;
    return middle;
}

/* ---- waiting blocks ---- */

static ebb_queue_t *queue_of(ebb_device_t *dev, uint32_t units, const ebb_stream_t *stream)
{
    ebb_small_t *here = &dev->small;
    for (ebb_queue_t **link = &here->waiting[units]; *link; link = &(*link)->next) {
        ebb_queue_t *q = *link;
        if (q->stream != stream)
            continue;
        *link = q->next; /* to the front */
        q->next = here->waiting[units];
        return here->waiting[units] = q;
    }
    ebb_queue_t *q = calloc(1, sizeof *q);
    if (q) {
        q->stream = stream;
        q->next = here->waiting[units];
        here->waiting[units] = q;
    }
    return q;
}

static ebb_block_t *take_waiting(ebb_device_t *dev, uint32_t units, const ebb_stream_t *stream)
{
    ebb_small_t *here = &dev->small;
    for (ebb_queue_t *q = here->waiting[units]; q; q = q->next) {
        ebb_block_t *b = q->head;
        if (!b || !ebb_mark_suits(b->freed, stream))
            continue;
        q->head = b->next;
        b->next = NULL;
        b->state = EBB_LIVE;
        here->waiting_count--;
        return b;
    }
    return NULL;
}

/* Merges a free block, in no bin, with those behind it that are free as well. */
static void merge_behind(ebb_block_t *b)
{
    ebb_device_t *dev = b->buffer.range->device;
    for (ebb_block_t *n = ebb_block_behind(b); n && n->state == EBB_FREE; n = ebb_block_behind(b)) {
        if (!ebb_mark_later(&b->freed, n->freed)) {
            dev->small.seams = true;
            return;
        }
        take_free(n);
        b->units += n->units;
        ebb_block_delete(n);
    }
}

static void set_free(ebb_block_t *b)
{
    ebb_block_t *before = ebb_block_before(b);
    merge_behind(b);
    if (before && before->state == EBB_FREE) {
        take_free(before);
        put_free(b);
        merge_behind(before);
        put_free(before);
    } else {
        put_free(b);
    }
}

/* Neighbours that could not be merged before; if need be, waits until they can. */
static void close_seams(ebb_device_t *dev, bool wait)
{
    dev->small.seams = false;
    for (unsigned i = 0; wait && i < EBB_BINS; i++)
        for (const ebb_block_t *b = dev->small.bin[i]; b; b = b->next)
            if (ebb_mark_wait(b->freed))
                dev->small.seams = true;
    for (const ebb_slab_t *s = dev->slabs; s; s = s->next)
        for (ebb_block_t *b = s->at[0]; b; b = ebb_block_behind(b)) {
            if (b->state != EBB_FREE)
                continue;
            take_free(b);
            merge_behind(b);
            put_free(b);
        }
}

static void merge_waiting(ebb_device_t *dev, bool wait)
{
    for (uint32_t units = 1; dev->small.waiting_count && units <= EBB_LARGEST_UNITS; units++)
        for (ebb_queue_t *q = dev->small.waiting[units]; q; q = q->next)
            while (q->head) {
                ebb_block_t *b = q->head;
                q->head = b->next;
                b->next = b->prev = NULL;
                set_free(b);
            }
    dev->small.waiting_count = 0;
    if (dev->small.seams)
        close_seams(dev, wait);
}

/* ---- memory for them ---- */

static ebb_status_t add_slab(ebb_device_t *dev)
{
    ebb_range_t *range = ebb_range_new(dev, SLAB_CHUNKS);
    ebb_slab_t *s = range ? ebb_slab_new(range) : NULL;
    ebb_block_t *b = s ? ebb_block_new(s, 0, s->units) : NULL;
    if (b) {
        range->mapped = true;
        s->next = dev->slabs;
        dev->slabs = s;
        put_free(b);
        return 0;
    }
    free(s);
    if (range) {
        range->slab = NULL;
        ebb_range_delete(range);
    }
    return ebb_fail(CUDA_ERROR_OUT_OF_MEMORY, "a slab", sizeof *s);
}

/* A block on memory that is not all there yet. Getting chunks may change every list, so it begins anew until there
 * are enough of them. */
static ebb_status_t cut_new(ebb_device_t *dev, uint32_t units, const ebb_stream_t *stream, ebb_block_t **out)
{
    ebb_chunk_t chunk[2]; /* a small buffer touches no more */
    unsigned got = 0, missing = 0;
    ebb_status_t status = 0;
    *out = NULL;
    while (!status && !*out) {
        uint32_t first;
        ebb_block_t *b = find(dev, units, stream, false, &first);
        if (!b) {
            status = add_slab(dev);
            continue;
        }
        missing = ebb_slab_missing(ebb_slab_of(b), first, units);
        if (missing > got) {
            /* Other streams may get blocks of it next, so a chunk that is still in use somewhere will not do. */
            status = ebb_spare_chunks(dev, missing - got, NULL, chunk + got);
            got = status ? got : missing;
            continue;
        }
        status = missing ? ebb_slab_back(ebb_slab_of(b), first, units, chunk) : 0;
        if (status)
            break;
        memmove(chunk, chunk + missing, (got - missing) * sizeof *chunk);
        got -= missing;
        *out = cut(b, first, units);
        if (!*out)
            status = ebb_fail(CUDA_ERROR_OUT_OF_MEMORY, "calloc", sizeof **out);
    }
    ebb_chunks_give_back(dev, got, chunk);
    return status;
}

/* ---- what heap.c calls ---- */

ebb_status_t ebb_small_alloc(ebb_device_t *dev, const ebb_request_t *q, ebb_buffer_t **out)
{
    uint32_t units = (uint32_t)((q->bytes + EBB_ALIGN_BYTES - 1) / EBB_ALIGN_BYTES), first;
    ebb_block_t *b = take_waiting(dev, units, q->stream);
    if (!b) {
        ebb_block_t *from = find(dev, units, q->stream, true, &first);
        if (!from && (dev->small.waiting_count || dev->small.seams)) {
            merge_waiting(dev, false);
            from = find(dev, units, q->stream, true, &first);
        }
        b = from ? cut(from, first, units) : NULL;
    }
    if (!b)
        EBB_TRY(cut_new(dev, units, q->stream, &b));
    *out = &b->buffer;
    return 0;
}

void ebb_small_free(ebb_buffer_t *buffer, ebb_mark_t at)
{
    ebb_device_t *dev = buffer->range->device;
    ebb_block_t *b = (ebb_block_t *)buffer;
    ebb_queue_t *q = queue_of(dev, b->units, at.stream);
    b->freed = at;
    b->buffer.residence = NULL;
    if (!q) { /* no host memory */
        set_free(b);
        return;
    }
    b->state = EBB_WAITING;
    b->next = q->head;
    q->head = b;
    dev->small.waiting_count++;
}

void ebb_small_reclaim(ebb_device_t *dev, bool wait)
{
    merge_waiting(dev, wait);
    for (ebb_slab_t **link = &dev->slabs; *link;) {
        ebb_slab_t *s = *link;
        for (ebb_block_t *b = s->at[0]; b && s->chunks; b = ebb_block_behind(b))
            if (b->state == EBB_FREE && b->units >= EBB_CHUNK_UNITS &&
                (wait ? !ebb_mark_wait(b->freed) : ebb_mark_reached_lately(b->freed)))
                ebb_slab_strip(s, b->first, b->units);
        ebb_block_t *whole = s->at[0];
        // NOLINTNEXTLINE(clang-analyzer-core.NullDereference): a block always begins at unit 0
        if (s->chunks || whole->units < s->units || whole->state != EBB_FREE) {
            link = &s->next;
            continue;
        }
        *link = s->next;
        take_free(whole);
        ebb_slab_delete(s);
    }
}

ebb_buffer_t *ebb_small_at(const ebb_slab_t *s, CUdeviceptr address)
{
    const uint32_t unit = (uint32_t)((address - s->range->base) / EBB_ALIGN_BYTES);
    ebb_block_t *b = s->at[unit] ? s->at[unit] : ebb_block_of(s, unit);
    /* The rest of the last unit belongs to no buffer. */
    return b && b->state == EBB_LIVE && address - b->buffer.address < b->buffer.bytes ? &b->buffer : NULL;
}

/* ---- slabs of a plan: the places are given, and until it is closed there are no blocks but live ones ---- */

ebb_slab_t *ebb_slab_open(ebb_range_t *range)
{
    return ebb_slab_new(range);
}

static bool is_occupied(const ebb_slab_t *s, size_t first, size_t units)
{
    const ebb_block_t *b = ebb_block_of(s, (uint32_t)first),
                      *last = ebb_block_of(s, (uint32_t)(first + units - 1));
    return (b && b->first + b->units > first) || (last && last->first >= first);
}

ebb_buffer_t *ebb_small_place(ebb_slab_t *s, size_t offset_bytes, size_t bytes)
{
    const size_t units = (bytes + EBB_ALIGN_BYTES - 1) / EBB_ALIGN_BYTES,
                 first = offset_bytes / EBB_ALIGN_BYTES;
    if (first + units > s->units || is_occupied(s, first, units))
        return NULL;
    ebb_block_t *b = ebb_block_new(s, (uint32_t)first, (uint32_t)units);
    if (b)
        b->state = EBB_LIVE;
    return b ? &b->buffer : NULL;
}

void ebb_small_displace(ebb_buffer_t *buffer)
{
    ebb_block_delete((ebb_block_t *)buffer);
}

void ebb_slab_close(ebb_slab_t *s)
{
    ebb_device_t *dev = s->range->device;
    uint32_t end = 0; /* of the blocks so far */
    for (uint32_t u = 0; u <= s->units; u++) {
        if (u < s->units && !s->at[u])
            continue;
        ebb_block_t *b = u < s->units ? s->at[u] : NULL;
        /* Without host memory for its block a gap would be lost; the slab is then left as it is. */
        ebb_block_t *gap = u > end ? ebb_block_new(s, end, u - end) : NULL;
        if (u > end && !gap)
            return;
        if (gap)
            put_free(gap);
        end = b ? u + b->units : u;
        u = b ? end - 1 : u;
    }
    s->next = dev->slabs;
    dev->slabs = s;
}

/* ---- check ---- */

/* Returns how many free blocks it has. */
static size_t check_slab(const ebb_slab_t *s)
{
    size_t free_blocks = 0;
    uint32_t at = 0, chunks = 0;
    EBB_ASSERT(s->range->slab == s && s->range->mapped);
    for (uint32_t c = 0; c < s->range->chunk_count; c++)
        chunks += s->range->chunk[c] != NULL;
    EBB_ASSERT(chunks == s->chunks);
    for (const ebb_block_t *b = s->at[0]; b; b = ebb_block_behind(b)) {
        EBB_ASSERT(b->first == at && ebb_slab_of(b) == s);
        EBB_ASSERT(b->state == EBB_FREE || !ebb_slab_missing(s, b->first, b->units));
        EBB_ASSERT(b->state != EBB_LIVE || b->buffer.bytes);
        free_blocks += b->state == EBB_FREE;
        EBB_ASSERT(ebb_block_of(s, at) == b);
        const ebb_block_t *before = ebb_block_before(b);
        EBB_ASSERT(at ? before && before->first + before->units == at : !before);
        at += b->units;
    }
    EBB_ASSERT(at == s->units);
    return free_blocks;
}

void ebb_small_check(ebb_device_t *dev)
{
    size_t waiting = 0, in_slabs = 0, in_bins = 0;
    for (const ebb_slab_t *s = dev->slabs; s; s = s->next)
        in_slabs += check_slab(s);
    for (uint32_t units = 1; units <= EBB_LARGEST_UNITS; units++)
        for (const ebb_queue_t *q = dev->small.waiting[units]; q; q = q->next)
            for (const ebb_block_t *b = q->head; b; b = b->next, waiting++)
                EBB_ASSERT(b->state == EBB_WAITING && b->units == units && b->freed.stream == q->stream);
    EBB_ASSERT(waiting == dev->small.waiting_count);
    for (unsigned i = 0; i < EBB_BINS; i++) {
        EBB_ASSERT((dev->small.bin[i] != NULL) == (dev->small.filled[i / 64] >> i % 64 & 1));
        for (const ebb_block_t *b = dev->small.bin[i]; b; b = b->next, in_bins++)
            EBB_ASSERT(b->state == EBB_FREE && bin_of(b->units) == i && (!b->next || b->next->prev == b));
    }
    EBB_ASSERT(in_slabs == in_bins);
}
