/* heap.c: the caching allocator: buffers, and where their memory comes from.
 *
 * A large buffer owns a range (spare.c), small ones share slabs (small.c). With mappings, fragmentation is never a
 * reason for a large request to fail.
 */
#include "alloc/device.h"

#include <stdlib.h>
#include <string.h>

#include "alloc/base/driver.h"
#include "alloc/internal.h"

/* Large enough to be taken for a probe: so many chunks, and one in so many of the budget's. */
enum { PROBE_CHUNKS = 8, PROBE_SHARE = 16 };

void ebb_heap_make_room_by(ebb_t *ebb, bool (*evict)(ebb_device_t *dev, size_t chunks))
{
    ebb->make_room = evict;
}

bool ebb_heap_reclaim(ebb_device_t *dev, size_t chunks, bool wait)
{
    ebb_marks_ask_again(dev->ebb);
    ebb_small_reclaim(dev, wait);
    ebb_spare_reclaim(dev, ebb_chunks_excess(dev) ? SIZE_MAX : chunks,
                      wait); /* ghosts keep chunks from being released */
    return ebb_chunks_available(dev) >= chunks;
}

bool ebb_heap_lend(ebb_device_t *dev, size_t chunks)
{
    if (!ebb_heap_make_room(dev, chunks))
        return false;
    if (ebb_chunks_lend(dev, chunks))
        return true;
    ebb_spare_drop_ghosts(dev, true); /* they keep chunks from being released */
    return ebb_chunks_lend(dev, chunks);
}

bool ebb_heap_make_room(ebb_device_t *dev, size_t chunks)
{
    if (chunks > ebb_chunks_limit(dev))
        return false; /* nothing leaves the device for what would not fit anyway */
    /* From cheap to dear: spares that are done, what may leave the device, spares that must be waited for. */
    return ebb_chunks_available(dev) >= chunks || ebb_heap_reclaim(dev, chunks, false) ||
           (dev->ebb->make_room && dev->ebb->make_room(dev, chunks - ebb_chunks_available(dev))) ||
           ebb_heap_reclaim(dev, chunks, true);
}

bool ebb_heap_measure(ebb_device_t *dev)
{
    ebb_chunks_measure(dev);
    return ebb_chunks_excess(dev) == 0;
}

void ebb_heap_shrink(ebb_device_t *dev)
{
    ebb_heap_reclaim(dev, SIZE_MAX, false);
    ebb_chunks_release(dev);
    size_t excess = ebb_chunks_excess(dev);
    if (excess && dev->ebb->make_room)
        dev->ebb->make_room(dev, excess);
    ebb_chunks_release(dev);
}

void ebb_heap_measure_soon(ebb_device_t *dev)
{
    dev->heap.measure = true;
}

bool ebb_heap_measure_if_due(ebb_device_t *dev)
{
    if (!dev->heap.measure || ebb_captures_under_way(dev->ebb))
        return true;
    dev->heap.measure = false;
    return ebb_heap_measure(dev);
}

/* ---- the list of them, and their use ---- */

static inline void unlink_buffer(ebb_heap_t *h, ebb_buffer_t *b)
{
    *(b->newer ? &b->newer->older : &h->newest) = b->older;
    *(b->older ? &b->older->newer : &h->oldest) = b->newer;
}

static inline void link_newest(ebb_heap_t *h, ebb_buffer_t *b)
{
    b->older = h->newest;
    b->newer = NULL;
    *(h->newest ? &h->newest->newer : &h->oldest) = b;
    h->newest = b;
}

ebb_status_t ebb_buffer_join(ebb_stream_t *stream, const ebb_buffer_t *b)
{
    ebb_device_t *dev = b->range->device;
    if (b->use_count > EBB_USE_MARKS)
        return ebb_streams_join(dev, stream, b->peer_used);
    for (unsigned i = 0; i < b->use_count; i++)
        EBB_TRY(ebb_mark_join(stream, b->use[i]));
    return 0;
}

ebb_status_t ebb_buffer_wait(const ebb_buffer_t *b)
{
    ebb_device_t *dev = b->range->device;
    if (b->use_count > EBB_USE_MARKS)
        return ebb_streams_wait(dev, b->peer_used);
    for (unsigned i = 0; i < b->use_count && i < EBB_USE_MARKS; i++)
        EBB_TRY(ebb_mark_wait(b->use[i]));
    return 0;
}

ebb_buffer_t *ebb_buffer_oldest(ebb_device_t *dev)
{
    return dev->heap.oldest;
}

void ebb_buffer_touch(ebb_buffer_t *b, ebb_mark_t mark)
{
    unsigned i = 0;
    while (i < b->use_count && i < EBB_USE_MARKS && b->use[i].stream != mark.stream)
        i++;
    if (i < EBB_USE_MARKS)
        b->use[i] = mark;
    if (i == b->use_count && i <= EBB_USE_MARKS)
        b->use_count++;
}

void ebb_operation_touch(ebb_device_t *dev, ebb_operation_t *op, ebb_mark_t mark)
{
    const uint64_t now = ++dev->heap.operations;
    uint64_t idle = 0;
    for (uint32_t i = 0; i < op->access_count; i++) {
        ebb_buffer_t *b = op->access[i].buffer;
        if (b->use_count == 1 && b->use[0].stream == mark.stream) /* mostly */
            b->use[0] = mark;
        else
            ebb_buffer_touch(b, mark);
        if (now > b->used_at + idle && ebb_buffer_is_large(b))
            idle = now - b->used_at;
        b->used_at = now;
    }
    op->idle = idle;
}

void ebb_buffers_touch(ebb_device_t *dev, ebb_mark_t mark)
{
    for (ebb_buffer_t *b = dev->heap.oldest; b; b = b->newer)
        ebb_buffer_touch(b, mark);
}

/* ---- buffers ---- */

/* Never nothing, which a device that is full hardly ever says of itself, and with which some programs go on to compute: one chunk, for
 * which something would leave. */
size_t ebb_heap_told_free(ebb_device_t *dev)
{
    const size_t limit = ebb_chunks_limit(dev);
    return (limit > dev->heap.taken ? limit - dev->heap.taken : 1) * EBB_CHUNK_BYTES;
}

/* What all buffers have, wherever their memory came from. */
static void begin_life(ebb_buffer_t *b, const ebb_request_t *q)
{
    // NOLINTNEXTLINE(clang-analyzer-core.NullDereference): without a buffer ebb_fail() has said so, never by 0
    ebb_device_t *dev = b->range->device;
    ebb_heap_t *h = &dev->heap;
    b->bytes = q->bytes;
    b->generation = ++dev->ebb->generations;
    b->stream_ordered = q->stream != NULL;
    b->pool = q->pool;
    b->use_count = 0;
    b->held = b->pinned = b->kept = 0;
    b->peer_used = b->is_table = false;
    b->number = 0;
    b->used_at = h->operations + 1;
    if (q->stream) /* a range reused at once is in use on this stream until here */
        ebb_buffer_touch(b, ebb_mark_here(q->stream));
    h->live_bytes += b->bytes;
    h->taken += ebb_buffer_is_large(b) ? b->range->chunk_count : ebb_slab_born((const ebb_block_t *)b);
    if (h->live_bytes > h->live_peak_bytes)
        h->live_peak_bytes = h->live_bytes;
}

static void end_life(const ebb_buffer_t *b)
{
    ebb_device_t *dev = b->range->device;
    dev->heap.live_bytes -= b->bytes;
    dev->heap.taken -= ebb_buffer_is_large(b) ? b->range->chunk_count : ebb_slab_died((const ebb_block_t *)b);
}

static ebb_buffer_t *own(ebb_range_t *range)
{
    ebb_device_t *dev = range->device;
    ebb_buffer_t *b = dev->heap.unused ? dev->heap.unused : malloc(sizeof *b);
    if (!b)
        return NULL;
    if (dev->heap.unused)
        dev->heap.unused = b->older;
    memset(b, 0, sizeof *b);
    b->range = range;
    b->address = range->base;
    range->buffer = b;
    link_newest(&dev->heap, b);
    return b;
}

static void disown(ebb_buffer_t *b)
{
    ebb_device_t *dev = b->range->device;
    b->range->buffer = NULL;
    unlink_buffer(&dev->heap, b);
    b->older = dev->heap.unused;
    dev->heap.unused = b;
}

/* ---- memory that comes with the next call ----
 *
 * Programs allocate all that is free and give it back at once, to learn how much that is: PyTorch's cudaMallocAsync backend does, halving
 * what is refused (cacheInfo in c10/cuda/CUDAMallocAsyncAllocator.cpp). So what is large gets its chunks when the program's next call
 * begins that ebb sees, unless that asks, or frees this buffer (hook/enter.c). There is one such buffer at most.
 *
 * Its stream, of cuMemAlloc every stream, may have those chunks without waiting. Events are recorded and waited for without ebb, so that a wait which is issued with
 * the memory would come too late for other streams, which the program has ordered behind the allocation. And before anything else is freed
 * it has its chunks: what is freed on its stream then may be in use by work behind which the stream was put since.
 *
 * No call of the program can touch it before. What could is a kernel that runs already, and finds the address in mapped host memory. */

/* Of a number near the largest so many that they are not to be had either. */
static size_t chunks_of(size_t bytes)
{
    const size_t whole = bytes / EBB_CHUNK_BYTES, most = SIZE_MAX / EBB_CHUNK_BYTES;
    return whole < most ? whole + (bytes % EBB_CHUNK_BYTES != 0) : most;
}

static bool driver_has(size_t chunks)
{
    size_t free_bytes, total;
    return !chunks ||
           (!ebb_driver.cuMemGetInfo_v2(&free_bytes, &total) && free_bytes / EBB_CHUNK_BYTES >= chunks);
}

/* Without waiting, and without anything leaving the device. */
static bool can_be_had(ebb_device_t *dev, size_t chunks, const ebb_stream_t *stream)
{
    const size_t creatable = ebb_chunks_limit(dev) - ebb_chunks_created(dev);
    size_t there = ebb_spare_at_once(dev, stream);
    if (chunks > there + creatable) {
        ebb_small_reclaim(dev, false); /* slabs that hold nothing */
        there = ebb_spare_at_once(dev, stream);
    }
    return chunks <= there || (chunks <= there + creatable && driver_has(chunks - there));
}

bool ebb_heap_may_wait(ebb_device_t *dev, const ebb_request_t *q)
{
    const size_t limit = ebb_chunks_limit(dev), chunks = chunks_of(q->bytes);
    if (!q->later || ebb_chunks_excess(dev))
        return false;
    /* A plan owns more than lives, and is left for what is touched. */
    if (q->planned && chunks > ebb_chunks_unowned(dev))
        return chunks * EBB_CHUNK_BYTES <= ebb_heap_told_free(dev);
    return chunks >= PROBE_CHUNKS && chunks >= limit / PROBE_SHARE && can_be_had(dev, chunks, q->stream);
}

static ebb_status_t alloc_unbacked(ebb_device_t *dev, size_t chunks, ebb_buffer_t **out)
{
    ebb_range_t *r = ebb_range_new(dev, chunks);
    if (r && (*out = own(r))) {
        dev->heap.unbacked = *out;
        dev->ebb->unbacked_count++;
        return 0;
    }
    if (r)
        ebb_range_delete(r);
    return ebb_fail(CUDA_ERROR_OUT_OF_MEMORY, "an address range", chunks * EBB_CHUNK_BYTES);
}

static void forget_unbacked(ebb_device_t *dev)
{
    dev->heap.unbacked = NULL;
    dev->ebb->unbacked_count--;
}

/* Memory that cannot be had any more, or only when a plan is left, comes with the next operation that touches the buffer: it waits for
 * what has used the chunks. */
static void back(ebb_device_t *dev, void (*unbacked)(ebb_buffer_t *buffer))
{
    ebb_buffer_t *b = dev->heap.unbacked;
    forget_unbacked(dev);
    if (!ebb_range_map_at_once(b->range, b->use_count == 1 ? b->use[0].stream : NULL))
        unbacked(b);
}

void ebb_heap_back(ebb_t *ebb, CUdeviceptr but, void (*unbacked)(ebb_buffer_t *buffer))
{
    ebb_visit_t visit;
    for (unsigned i = 0; i < ebb->device_count && ebb->unbacked_count; i++) {
        ebb_device_t *dev = &ebb->device[i];
        if (dev->heap.unbacked && dev->heap.unbacked->address != but && !ebb_lock_is_kept(dev) &&
            !ebb_device_visit(dev, &visit)) {
            back(dev, unbacked);
            ebb_device_return(visit);
        }
    }
}

static ebb_status_t alloc_large(ebb_device_t *dev, const ebb_request_t *q, ebb_buffer_t **out)
{
    ebb_range_t *r;
    const size_t chunks = chunks_of(q->bytes);
    if (!ebb_spare_take_whole(dev, chunks, q->stream, &r)) {
        if (ebb_heap_may_wait(dev, q))
            return alloc_unbacked(dev, chunks, out);
        EBB_TRY(ebb_spare_take(dev, chunks, q->stream, &r));
    }
    if ((*out = own(r)))
        return 0;
    ebb_spare_give(r, q->stream ? ebb_mark_here(q->stream) : (ebb_mark_t){0});
    return ebb_fail(CUDA_ERROR_OUT_OF_MEMORY, "calloc", sizeof **out);
}

ebb_status_t ebb_heap_alloc(ebb_device_t *dev, const ebb_request_t *q, ebb_buffer_t **out)
{
    if (!q->bytes)
        return ebb_fail(CUDA_ERROR_INVALID_VALUE, "an allocation", 0);
    ebb_marks_ask_again(dev->ebb);
    EBB_TRY(q->bytes <= EBB_SMALL_BYTES ? ebb_small_alloc(dev, q, out) : alloc_large(dev, q, out));
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
    end_life(b);
    if (ebb_buffer_is_large(b))
        disown(b);
    else
        ebb_small_displace(b);
}

void ebb_heap_free(ebb_buffer_t *b, ebb_mark_t at)
{
    ebb_device_t *dev = b->range->device;
    end_life(b);
    if (!ebb_buffer_is_large(b)) {
        ebb_small_free(b, at);
        return;
    }
    ebb_range_t *r = b->range;
    if (dev->heap.unbacked == b)
        forget_unbacked(dev);
    disown(b);
    if (r->mapped)
        ebb_spare_give(r, at);
    else
        ebb_range_delete(r);
}

ebb_buffer_t *ebb_buffer_at(ebb_t *ebb, CUdeviceptr address)
{
    if (!ebb_arena_contains(ebb, address))
        return NULL;
    const ebb_range_t *r = ebb_arena_range(ebb, address);
    ebb_buffer_t *b = r && r->slab ? ebb_small_at(r->slab, address) : NULL;
    if (b)
        return b;
    /* One past the end of what is before it? The slot behind a range belongs to no other. */
    if (!r && address > ebb->arena.base)
        r = ebb_arena_range(ebb, address - 1);
    if (!r || !r->slab)
        return r ? r->buffer : NULL;
    return address > r->base ? ebb_small_at(r->slab, address - 1) : NULL;
}

ebb_buffer_t *ebb_heap_find(ebb_t *ebb, CUdeviceptr address)
{
    ebb_buffer_t *b = ebb_buffer_at(ebb, address);
    return b && b->address == address ? b : NULL;
}

size_t ebb_live_bytes(ebb_device_t *dev)
{
    return dev->heap.live_bytes;
}

ebb_usage_t ebb_usage(ebb_device_t *dev)
{
    ebb_usage_t u = ebb_chunks_usage(dev);
    u.foreign_bytes = ebb_foreign_counted(dev);
    u.live_bytes = dev->heap.live_bytes;
    u.live_peak_bytes = dev->heap.live_peak_bytes;
    return u;
}

void ebb_heap_abandon(ebb_device_t *dev, bool (*freeing)(ebb_buffer_t *buffer, ebb_stream_t *stream))
{
    for (ebb_buffer_t *b = dev->heap.oldest, *before = NULL; b && b != before;
         before = b, b = dev->heap.oldest)
        if (!freeing(b, NULL))
            ebb_heap_free(b, (ebb_mark_t){0});
    ebb_heap_reclaim(dev, SIZE_MAX, true);
    for (size_t i = 0; i < dev->ebb->arena.slots; i++) {
        ebb_range_t *r = dev->ebb->arena.range[i];
        if (r && r->device == dev && r->slab)
            ebb_slab_strip(r->slab, 0, r->slab->units);
        else if (r && r->device == dev && r->buffer && r->mapped)
            ebb_range_unmap(r);
    }
    ebb_chunks_release(dev);
    ebb_pools_emptied(dev);
    dev->heap.live_bytes = dev->heap.taken = 0;
}

void ebb_heap_check(ebb_device_t *dev)
{
    size_t mapped = 0, ghosts = ebb_spare_ghosts(dev);
    for (const ebb_buffer_t *b = dev->heap.oldest; b; b = b->newer) {
        EBB_ASSERT(b->range->buffer == b && b->address == b->range->base);
        EBB_ASSERT(b->bytes > EBB_SMALL_BYTES && b->bytes <= b->range->chunk_count * EBB_CHUNK_BYTES);
        EBB_ASSERT(b->newer ? b->newer->older == b && b->newer->generation > b->generation
                            : dev->heap.newest == b);
    }
    for (size_t i = 0; i < dev->ebb->arena.slots; i++) {
        const ebb_range_t *r = dev->ebb->arena.range[i];
        if (!r || r->device != dev)
            continue;
        EBB_ASSERT(!(r->buffer && r->slab));
        size_t chunk = i - (r->base - dev->ebb->arena.base) / EBB_CHUNK_BYTES;
        mapped += r->mapped && r->chunk[chunk]; /* not while a plan's ranges share chunks */
    }
    EBB_ASSERT(mapped * EBB_CHUNK_BYTES == ebb_chunks_usage(dev).mapped_bytes + ghosts * EBB_CHUNK_BYTES);
    ebb_spare_check(dev);
    ebb_small_check(dev);
}
