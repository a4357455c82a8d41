/* heap.c: the caching allocator: buffers, and where their memory comes from.
 *
 * A large buffer owns a range (spare.c), small ones share slabs (small.c). With mappings, fragmentation is never a
 * reason for a large request to fail.
 */
#include "heap.h"

#include <stdlib.h>
#include <string.h>

#include "arena.h"
#include "chunk.h"
#include "driver.h"
#include "foreign.h"
#include "mark.h"
#include "pool.h"
#include "slab.h"
#include "spare.h"

typedef struct heap_state {
    ebb_buffer_t *newest, *oldest; /* large buffers by last use */
    size_t live_bytes, live_peak_bytes;
    ebb_buffer_t *unused; /* records to be used again, linked through `older` */
} heap_state_t;

static heap_state_t heaps[EBB_STATES];
#define heap (heaps[ebb_slot])

static uint64_t generations; /* of all devices: no two buffers of the process share one */

bool ebb_heap_reclaim(size_t chunks, bool wait)
{
    ebb_marks_ask_again();
    ebb_small_reclaim(wait);
    ebb_spare_reclaim(ebb_chunks_excess() ? SIZE_MAX : chunks,
                      wait); /* ghosts keep chunks from being released */
    return ebb_chunks_available() >= chunks;
}

bool ebb_heap_cede(size_t chunks)
{
    if (!ebb_heap_make_room(chunks))
        return false;
    if (ebb_chunks_cede(chunks))
        return true;
    ebb_spare_drop_ghosts(true); /* they keep chunks from being released */
    return ebb_chunks_cede(chunks);
}

bool ebb_heap_make_room(size_t chunks)
{
    if (chunks > ebb_chunks_limit())
        return false; /* nothing leaves the device for what would not fit anyway */
    /* From cheap to dear: spares that are done, the listener's means, spares that must be waited for. */
    return ebb_chunks_available() >= chunks || ebb_heap_reclaim(chunks, false) ||
           (ebb_listener && ebb_listener->make_room &&
            ebb_listener->make_room(chunks - ebb_chunks_available())) ||
           ebb_heap_reclaim(chunks, true);
}

void ebb_heap_measure(void)
{
    ebb_chunks_measure();
    if (!ebb_chunks_excess())
        return;
    ebb_interrupt("what is held beside ebb's memory has grown"); /* a plan has given its part of it away */
    ebb_heap_reclaim(SIZE_MAX, false);
    ebb_chunks_release();
    size_t excess = ebb_chunks_excess();
    if (excess && ebb_listener && ebb_listener->make_room)
        ebb_listener->make_room(excess);
    ebb_chunks_release();
}

/* ---- the order of last use ---- */

static inline void unlink_buffer(heap_state_t *h, ebb_buffer_t *b)
{
    *(b->newer ? &b->newer->older : &h->newest) = b->older;
    *(b->older ? &b->older->newer : &h->oldest) = b->newer;
}

static inline void link_newest(heap_state_t *h, ebb_buffer_t *b)
{
    b->older = h->newest;
    b->newer = NULL;
    *(h->newest ? &h->newest->newer : &h->oldest) = b;
    h->newest = b;
}

ebb_status_t ebb_buffer_join(CUstream stream, const ebb_buffer_t *b)
{
    if (b->use_count > EBB_USE_MARKS)
        return ebb_streams_join(stream, b->abroad);
    for (unsigned i = 0; i < b->use_count; i++)
        EBB_TRY(ebb_mark_join(stream, b->use[i]));
    return 0;
}

ebb_status_t ebb_buffer_wait(const ebb_buffer_t *b)
{
    if (b->use_count > EBB_USE_MARKS)
        return ebb_streams_wait(b->abroad);
    for (unsigned i = 0; i < b->use_count; i++)
        EBB_TRY(ebb_mark_wait(b->use[i]));
    return 0;
}

ebb_buffer_t *ebb_buffer_oldest(void)
{
    return heap.oldest;
}

static void add_mark(ebb_buffer_t *b, ebb_mark_t mark)
{
    unsigned i = 0;
    while (i < b->use_count && i < EBB_USE_MARKS && b->use[i].stream != mark.stream)
        i++;
    if (i < EBB_USE_MARKS)
        b->use[i] = mark;
    if (i == b->use_count && i <= EBB_USE_MARKS)
        b->use_count++;
}

/* Mostly it was used by the same stream alone. */
static inline void touch(heap_state_t *h, ebb_buffer_t *b, ebb_mark_t mark)
{
    if (b->use_count == 1 && b->use[0].stream == mark.stream)
        b->use[0] = mark;
    else
        add_mark(b, mark);
    if (ebb_buffer_is_large(b) && h->newest != b) {
        unlink_buffer(h, b);
        link_newest(h, b);
    }
}

void ebb_buffer_touch(ebb_buffer_t *b, ebb_mark_t mark)
{
    touch(&heap, b, mark);
}

void ebb_operation_touch(const ebb_operation_t *op, ebb_mark_t mark)
{
    heap_state_t *h = &heap;
    for (uint32_t i = 0; i < op->access_count; i++)
        touch(h, op->access[i].buffer, mark);
}

void ebb_buffers_touch(ebb_mark_t mark)
{
    const ebb_buffer_t *last = heap.newest;
    for (ebb_buffer_t *b = heap.oldest, *next; b; b = next) {
        next = b == last ? NULL : b->newer; /* what was touched stands behind the last one */
        ebb_buffer_touch(b, mark);
    }
}

/* ---- buffers ---- */

/* What all buffers have, whoever found the memory. */
static void begin_life(ebb_buffer_t *b, const ebb_request_t *q)
{
    heap_state_t *h = &heap;
    // NOLINTNEXTLINE(clang-analyzer-core.NullDereference): without a buffer ebb_fail() has said so, never by 0
    b->bytes = q->bytes;
    b->generation = ++generations;
    b->stream_ordered = q->stream != NULL;
    b->pool = q->pool;
    b->use_count = 0;
    b->held = b->pinned = 0;
    b->abroad = false;
    b->tag = b->number = 0;
    if (q->stream) /* a range reused at once is in use on this stream until here */
        ebb_buffer_touch(b, ebb_mark_here(q->stream));
    h->live_bytes += b->bytes;
    if (h->live_bytes > h->live_peak_bytes)
        h->live_peak_bytes = h->live_bytes;
}

static ebb_buffer_t *own(ebb_range_t *range)
{
    ebb_buffer_t *b = heap.unused ? heap.unused : malloc(sizeof *b);
    if (!b)
        return NULL;
    if (heap.unused)
        heap.unused = b->older;
    memset(b, 0, sizeof *b);
    b->range = range;
    b->address = range->base;
    range->buffer = b;
    link_newest(&heap, b);
    return b;
}

static void disown(ebb_buffer_t *b)
{
    b->range->buffer = NULL;
    unlink_buffer(&heap, b);
    b->older = heap.unused;
    heap.unused = b;
}

static ebb_status_t alloc_large(const ebb_request_t *q, ebb_buffer_t **out)
{
    ebb_range_t *r;
    size_t chunks = (q->bytes + EBB_CHUNK_BYTES - 1) / EBB_CHUNK_BYTES;
    EBB_TRY(ebb_spare_take(chunks, q->stream, &r));
    if ((*out = own(r)))
        return 0;
    ebb_spare_give(r, q->stream ? ebb_mark_here(q->stream) : (ebb_mark_t){0});
    return ebb_fail(CUDA_ERROR_OUT_OF_MEMORY, "calloc", sizeof **out);
}

ebb_status_t ebb_heap_alloc(const ebb_request_t *q, ebb_buffer_t **out)
{
    if (!q->bytes)
        return ebb_fail(CUDA_ERROR_INVALID_VALUE, "an allocation", 0);
    ebb_marks_ask_again();
    EBB_TRY(q->bytes <= EBB_SMALL_BYTES ? ebb_small_alloc(q, out) : alloc_large(q, out));
    begin_life(*out, q);
    return 0;
}

ebb_buffer_t *ebb_buffer_place(ebb_range_t *range, const ebb_request_t *q)
{
    EBB_DCHECK(!range->buffer && !range->slab && q->bytes <= range->chunk_count * EBB_CHUNK_BYTES);
    ebb_buffer_t *b = own(range);
    if (b)
        begin_life(b, q);
    return b;
}

ebb_buffer_t *ebb_buffer_place_small(ebb_slab_t *slab, size_t offset, const ebb_request_t *q)
{
    ebb_buffer_t *b = ebb_small_place(slab, offset, q->bytes);
    if (b)
        begin_life(b, q);
    return b;
}

void ebb_buffer_displace(ebb_buffer_t *b)
{
    heap.live_bytes -= b->bytes;
    if (ebb_buffer_is_large(b))
        disown(b);
    else
        ebb_small_displace(b);
}

void ebb_heap_free(ebb_buffer_t *b, ebb_mark_t at)
{
    heap.live_bytes -= b->bytes;
    if (!ebb_buffer_is_large(b)) {
        ebb_small_free(b, at);
        return;
    }
    ebb_range_t *r = b->range;
    disown(b);
    if (r->mapped)
        ebb_spare_give(r, at);
    else
        ebb_range_delete(r);
}

ebb_buffer_t *ebb_buffer_at(CUdeviceptr address)
{
    if (!ebb_arena_contains(address))
        return NULL;
    ebb_range_t *r = ebb_arena_range(address);
    if (r && r->slab) {
        ebb_buffer_t *b = ebb_small_at(r->slab, address);
        if (b)
            return b;
        /* One past the end of its neighbour? */
        return address > r->base ? ebb_small_at(r->slab, address - 1) : NULL;
    }
    if (!r && address > ebb_arena.base)
        r = ebb_arena_range(address - 1); /* the slot behind a range is never another's */
    return r ? r->buffer : NULL;
}

ebb_buffer_t *ebb_heap_find(CUdeviceptr address)
{
    ebb_buffer_t *b = ebb_buffer_at(address);
    return b && b->address == address ? b : NULL;
}

size_t ebb_live_bytes(void)
{
    return heap.live_bytes;
}

ebb_usage_t ebb_usage(void)
{
    ebb_usage_t u = ebb_chunks_usage();
    u.foreign_bytes = ebb_foreign_counted();
    u.live_bytes = heap.live_bytes;
    u.live_peak_bytes = heap.live_peak_bytes;
    return u;
}

void ebb_heap_abandon(void)
{
    for (ebb_buffer_t *b = heap.oldest, *before = NULL; b && b != before; before = b, b = heap.oldest)
        if (!ebb_listener || !ebb_listener->freeing || !ebb_listener->freeing(b, NULL))
            ebb_heap_free(b, (ebb_mark_t){0});
    ebb_heap_reclaim(SIZE_MAX, true);
    for (size_t i = 0; i < ebb_arena.slots; i++) {
        ebb_range_t *r = ebb_arena.range[i];
        if (r && r->slot == ebb_slot && r->slab)
            ebb_slab_strip(r->slab, 0, r->slab->units);
        else if (r && r->slot == ebb_slot && r->buffer && r->mapped)
            ebb_range_unmap(r);
    }
    ebb_chunks_release();
    ebb_pools_emptied();
    heap.live_bytes = 0;
    if (ebb_listener && ebb_listener->ended)
        ebb_listener->ended();
}

void ebb_heap_check(void)
{
    size_t mapped = 0, ghosts = ebb_spare_ghosts();
    for (const ebb_buffer_t *b = heap.oldest; b; b = b->newer) {
        EBB_ASSERT(b->range->buffer == b && b->address == b->range->base);
        EBB_ASSERT(b->bytes > EBB_SMALL_BYTES && b->bytes <= b->range->chunk_count * EBB_CHUNK_BYTES);
        EBB_ASSERT(b->newer ? b->newer->older == b : heap.newest == b);
    }
    for (size_t i = 0; i < ebb_arena.slots; i++) {
        const ebb_range_t *r = ebb_arena.range[i];
        if (!r || r->slot != ebb_slot)
            continue;
        EBB_ASSERT(!(r->buffer && r->slab));
        size_t chunk = i - (r->base - ebb_arena.base) / EBB_CHUNK_BYTES;
        mapped += r->mapped && r->chunk[chunk]; /* not while a plan's ranges share chunks */
    }
    EBB_ASSERT(mapped == ebb_chunks_created() - ebb_chunks_free() + ghosts);
    ebb_spare_check();
    ebb_small_check();
}
