/* heap.c: cuMemAlloc and stream-ordered allocation.
 *
 * Memory above 1 MiB gets a segment of its own, in whole chunks; smaller blocks are cut out of shared
 * segments of one chunk, best bin first, and merged again when freed. A pool keeps free segments mapped, so
 * that a training loop, whose sizes repeat, never maps anything: cuMemPoolTrimTo, the release threshold (at
 * synchronisation, as the driver has it) and running out of memory give them back. cuMemAlloc's own heap
 * gives large segments back at once.
 *
 * In checked mode every block of a shared segment ends with a gap that is not the program's, so that a kernel that runs over an end
 * does not come out in the next buffer. (Behind a segment of its own there is a gap anyway: window.c.)
 *
 * A block freed on stream s at number n may be used again on s at once, elsewhere when s has reached n.
 */
#include "softgpu/driver/module/module.h"
#include "softgpu/driver/rules.h"
#include "softgpu/driver/simt/shadow.h"
#include "softgpu/driver/stream/streams.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { BINS = 40, SLAB_SLOTS = SG_CHUNK_BYTES / SG_HEAP_ALIGN, CHECKED_GAP_BYTES = 4096 };

typedef struct block block_t;
typedef struct segment segment_t;

struct block {
    CUdeviceptr address;
    size_t bytes, requested;
    segment_t *segment;
    CUcontext ctx; /* who was current at cuMemAlloc; NULL: a pool's */
    uint64_t id;
    bool sync_memops;
    bool free;
    sg_stream_t *freed_on; /* NULL: settled, anybody may have it. Holds a reference */
    uint64_t freed_at;
    block_t *bin_next, *bin_prev;
};

struct segment {
    sg_range_t *range;
    sg_handle_t *handle;
    sg_pool_t *pool;
    bool shared;
    size_t live;
    segment_t *next, *prev;
    block_t *slot[]; /* [SLAB_SLOTS] of a shared segment: the block that begins there; else [1] */
};

static struct {
    block_t *bin[BINS];
    segment_t *segments;
} heap; /* bins hold the free blocks of all pools */

/* ---- bins: free blocks by the power of two of their size ---- */

static unsigned bin_of(size_t bytes)
{
    return 63u - (unsigned)__builtin_clzll(bytes / SG_HEAP_ALIGN);
}

static void bin_insert(block_t *b)
{
    block_t **head = &heap.bin[bin_of(b->bytes)];
    b->free = true;
    b->bin_prev = NULL;
    b->bin_next = *head;
    if (*head)
        (*head)->bin_prev = b;
    *head = b;
}

static void bin_remove(block_t *b)
{
    if (b->bin_prev)
        b->bin_prev->bin_next = b->bin_next;
    else
        heap.bin[bin_of(b->bytes)] = b->bin_next;
    if (b->bin_next)
        b->bin_next->bin_prev = b->bin_prev;
    b->free = false;
}

/* ---- segments ---- */

static size_t slot_of(const segment_t *g, CUdeviceptr address)
{
    return g->shared ? (address - g->range->base) / SG_HEAP_ALIGN : 0;
}

static block_t *block_new(segment_t *g, CUdeviceptr address, size_t bytes)
{
    block_t *b = calloc(1, sizeof *b);
    if (!b)
        return NULL;
    b->segment = g;
    b->address = address;
    b->bytes = bytes;
    g->slot[slot_of(g, address)] = b;
    return b;
}

static void block_delete(block_t *b)
{
    b->segment->slot[slot_of(b->segment, b->address)] = NULL;
    if (b->freed_on)
        sg_stream_unref_locked(b->freed_on);
    free(b);
}

static void segment_unmap(segment_t *g)
{
    sg_phys_unmap(g->range->base, g->range->bytes);
    sg_phys_unref_locked(g->handle);
    sg_window_free_locked(g->range);
    free(g);
}

/* Memory for a segment: the device's, or the next part of a pool's own file. */
static sg_handle_t *segment_memory(sg_pool_t *pool, size_t bytes)
{
    if (pool->max_bytes && pool->reserved + bytes > pool->max_bytes)
        return NULL;
    if (pool->fd < 0)
        return sg_phys_create_locked(pool->managed ? SG_HOST : pool->device, bytes);
    sg_handle_t *h = sg_phys_create_in_locked(
        pool->device, bytes, (sg_phys_file_t){.fd = pool->fd, .offset = pool->fd_next, .charged = true});
    if (h)
        pool->fd_next += bytes;
    return h;
}

/* A mapped segment with one free block. Takes the handle over, also on failure; NULL stands for failure before. */
static segment_t *segment_new(sg_pool_t *pool, sg_handle_t *memory, bool shared)
{
    size_t bytes = memory ? memory->bytes : 0;
    segment_t *g = memory ? calloc(1, sizeof *g + (shared ? SLAB_SLOTS : 1) * sizeof(block_t *)) : NULL;
    if (!g) {
        if (memory)
            sg_phys_unref_locked(memory);
        return NULL;
    }
    g->pool = pool;
    g->shared = shared;
    g->handle = memory;
    g->range = sg_window_reserve_locked(bytes, 0, 0, SG_RANGE_SEGMENT);
    if (!g->range) {
        sg_phys_unref_locked(g->handle);
        free(g);
        return NULL;
    }
    g->range->segment = g;
    block_t *b = NULL;
    if (sg_phys_map(g->range->base, g->handle) ||
        sg_phys_protect_locked(g->range->base, bytes, &pool->access) ||
        !(b = block_new(g, g->range->base, bytes))) {
        segment_unmap(g);
        return NULL;
    }
    bin_insert(b);
    g->next = heap.segments;
    if (g->next)
        g->next->prev = g;
    heap.segments = g;
    pool->reserved += bytes;
    if (pool->reserved > pool->reserved_high)
        pool->reserved_high = pool->reserved;
    return g;
}

/* All of the segment must be one free, settled block. */
static void segment_release(segment_t *g)
{
    block_t *b = g->slot[0];
    bin_remove(b);
    block_delete(b);
    if (g->prev)
        g->prev->next = g->next;
    else
        heap.segments = g->next;
    if (g->next)
        g->next->prev = g->prev;
    g->pool->reserved -= g->range->bytes;
    segment_unmap(g);
}

/* ---- blocks ---- */

static bool settle(block_t *b)
{
    if (b->freed_on && sg_scheduler->past_locked(b->freed_on, b->freed_at)) {
        sg_stream_unref_locked(b->freed_on);
        b->freed_on = NULL;
    }
    return !b->freed_on;
}

static block_t *neighbour_after(const block_t *b)
{
    const segment_t *g = b->segment;
    CUdeviceptr end = b->address + b->bytes;
    return end < g->range->base + g->range->bytes ? g->slot[slot_of(g, end)] : NULL;
}

static block_t *neighbour_before(const block_t *b)
{
    const segment_t *g = b->segment;
    for (size_t i = slot_of(g, b->address); i-- > 0;)
        if (g->slot[i])
            return g->slot[i];
    return NULL;
}

/* Two free blocks become one if one condition for reuse covers both. */
static bool may_merge(block_t *a, block_t *b)
{
    return a && b && a->free && b->free && ((settle(a) & settle(b)) || a->freed_on == b->freed_on);
}

static block_t *merge(block_t *a, block_t *b)
{
    bin_remove(a);
    bin_remove(b);
    if (b->freed_on && b->freed_at > a->freed_at)
        a->freed_at = b->freed_at;
    a->bytes += b->bytes;
    block_delete(b);
    bin_insert(a);
    return a;
}

static block_t *merge_around(block_t *b)
{
    if (!b->segment->shared)
        return b;
    block_t *other = neighbour_after(b);
    if (may_merge(b, other))
        b = merge(b, other);
    other = neighbour_before(b);
    return may_merge(other, b) ? merge(other, b) : b;
}

/* A free block of the pool that a request on `stream` may have at once. Large blocks fit exactly or not at
 * all: their segments are not cut. */
static block_t *find_block(const sg_pool_t *pool, size_t bytes, const sg_stream_t *stream)
{
    bool shared = bytes < SG_CHUNK_BYTES;
    unsigned last = shared ? bin_of(SG_CHUNK_BYTES) : bin_of(bytes);
    for (unsigned bin = bin_of(bytes); bin <= last; bin++)
        for (block_t *b = heap.bin[bin]; b; b = b->bin_next) {
            bool fits = shared ? b->bytes >= bytes : b->bytes == bytes;
            if (b->segment->pool == pool && b->segment->shared == shared && fits &&
                (settle(b) || b->freed_on == stream))
                return b;
        }
    return NULL;
}

static void cut(block_t *b, size_t bytes)
{
    block_t *rest = b->bytes > bytes ? block_new(b->segment, b->address + bytes, b->bytes - bytes) : NULL;
    if (!rest)
        return;
    b->bytes = bytes;
    rest->freed_on = b->freed_on;
    rest->freed_at = b->freed_at;
    if (rest->freed_on)
        rest->freed_on->refs++;
    bin_insert(rest);
}

static bool releasable(segment_t *g)
{
    return !g->live && g->slot[0]->bytes == g->range->bytes && settle(g->slot[0]);
}

/* Gives back free segments until the pool (NULL: each pool of each device) holds no more than `keep`. */
void sg_heap_trim_locked(sg_pool_t *pool, uint64_t keep)
{
    for (segment_t *g = heap.segments, *next; g; g = next) {
        next = g->next;
        if (pool && g->pool != pool)
            continue;
        if (g->pool->reserved > keep && !g->live) {
            /* Pieces freed on different streams are merged only now. */
            for (size_t i = 0; g->shared && i < SLAB_SLOTS; i++)
                if (g->slot[i])
                    merge_around(g->slot[i]);
            if (releasable(g))
                segment_release(g);
        }
    }
}

static block_t *obtain_locked(sg_pool_t *pool, size_t bytes, sg_stream_t *stream)
{
    block_t *b = find_block(pool, bytes, stream);
    if (b)
        return b;
    bool shared = bytes < SG_CHUNK_BYTES;
    sg_handle_t *memory = segment_memory(pool, shared ? SG_CHUNK_BYTES : bytes);
    return segment_new(pool, memory, shared) ? find_block(pool, bytes, stream) : NULL;
}

/* A free block becomes an allocation of this many bytes. */
static void take_locked(block_t *b, size_t bytes)
{
    sg_pool_t *pool = b->segment->pool;
    bin_remove(b);
    if (b->freed_on)
        sg_stream_unref_locked(b->freed_on);
    b->freed_on = NULL;
    b->requested = bytes;
    b->ctx = pool->hidden ? sg_current_context() : NULL;
    b->id = sg_next_allocation_id();
    b->sync_memops = false;
    b->segment->live++;
    pool->used += b->bytes;
    if (pool->used > pool->used_high)
        pool->used_high = pool->used;
}

/* For checked mode: what the host or another process may write counts as written. */
static void note_live(const block_t *b)
{
    const sg_pool_t *pool = b->segment->pool;
    if (pool->managed || pool->imported || pool->fd >= 0 || pool->device == SG_HOST)
        sg_live_add_valid(b->address, b->requested);
    else
        sg_live_add(b->address, b->requested);
}

CUresult sg_heap_alloc(sg_pool_t *pool, size_t bytes, sg_stream_t *stream, CUdeviceptr *out)
{
    if (!bytes)
        return CUDA_ERROR_INVALID_VALUE;
    if (bytes > (size_t)1 << 46)
        return CUDA_ERROR_OUT_OF_MEMORY;
    if (bytes > sg.config.memory_bytes && !pool->managed && pool->device != SG_HOST)
        return CUDA_ERROR_OUT_OF_MEMORY;
    const size_t gap = sg_mode_is(SOFTGPU_CHECKED) ? CHECKED_GAP_BYTES : 0;
    const size_t rounded = bytes > SG_CHUNK_BYTES / 2 ? SG_ROUND_UP(bytes, SG_CHUNK_BYTES)
                                                      : SG_ROUND_UP(bytes, SG_HEAP_ALIGN) + gap;

    sg_lock();
    block_t *b = obtain_locked(pool, rounded, stream);
    if (!b) {
        /* Frees that have not happened yet, then what any pool holds in reserve. */
        sg_unlock();
        SG_TRY(sg_wait_context(NULL));
        sg_lock();
        b = find_block(pool, rounded, stream);
        if (!b) {
            sg_heap_trim_locked(NULL, 0);
            b = obtain_locked(pool, rounded, stream);
        }
    }
    if (!b) {
        sg_unlock();
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    if (b->segment->shared)
        bin_remove(b), cut(b, rounded), bin_insert(b);
    take_locked(b, bytes);
    *out = b->address;
    note_live(b);
    if (stream)
        sg_order_allocated_locked(b->address, bytes, stream);
    sg_unlock();
    return CUDA_SUCCESS;
}

CUresult sg_heap_import_locked(sg_pool_t *pool, sg_handle_t *memory, uint64_t offset, size_t bytes,
                               CUdeviceptr *out)
{
    segment_t *g = segment_new(pool, memory, false);
    if (!g)
        return CUDA_ERROR_OUT_OF_MEMORY;
    block_t *b = g->slot[0];
    take_locked(b, bytes);
    b->address += offset;
    note_live(b);
    *out = b->address;
    return CUDA_SUCCESS;
}

CUresult sg_heap_protect_locked(const sg_pool_t *pool)
{
    for (const segment_t *g = heap.segments; g; g = g->next)
        if (g->pool == pool)
            SG_TRY(sg_phys_protect_locked(g->range->base, g->range->bytes, &pool->access));
    return CUDA_SUCCESS;
}

static block_t *find_live_locked(CUdeviceptr address)
{
    sg_range_t *r = sg_window_find_locked(address);
    if (!r || r->kind != SG_RANGE_SEGMENT)
        return NULL;
    segment_t *g = r->segment;
    block_t *b = g->slot[slot_of(g, address)];
    return b && !b->free && b->address == address ? b : NULL;
}

static CUcontext context_of(const block_t *b)
{
    unsigned device = b->segment->pool->device;
    return b->ctx ? b->ctx : &sg.primary[device == SG_HOST ? 0 : device];
}

static void free_locked(block_t *b, sg_stream_t *stream)
{
    segment_t *g = b->segment;
    bool poison = sg.config.poison && !g->pool->imported;
    sg_stream_t *on = stream ? stream : poison ? context_of(b)->legacy : NULL;
    if (poison) {
        sg_op_t *op = sg_poison_op(b->address, b->bytes, 0xfe);
        if (op)
            sg_submit_locked(on, op);
    }
    if (on && !sg_scheduler->past_locked(on, on->submitted)) {
        b->freed_on = on;
        b->freed_at = on->submitted;
        on->refs++;
    }
    sg_live_remove(b->address, b->bytes);
    g->live--;
    g->pool->used -= b->bytes;
    bin_insert(b);
    merge_around(b);
    if ((g->pool->hidden || g->pool->imported || g->pool->dead) && releasable(g))
        segment_release(g);
}

void sg_heap_release_import_locked(CUdeviceptr address)
{
    block_t *b = find_live_locked(address);
    if (b)
        free_locked(b, NULL);
}

/* What the program may free: not what cuIpcOpenMemHandle opened. */
static block_t *find_freeable_locked(CUdeviceptr address)
{
    block_t *b = find_live_locked(address);
    return b && b->segment->pool->hidden && b->segment->pool->imported ? NULL : b;
}

CUresult sg_heap_free(CUdeviceptr address, sg_stream_t *stream)
{
    sg_lock();
    block_t *b = find_freeable_locked(address);
    CUcontext ctx = b ? b->ctx : NULL; /* of pool memory: all contexts */
    bool of_graph = !b && sg_block_is_live_locked(address);
    sg_unlock();
    if (of_graph)
        return sg_block_free(address);
    if (!b)
        return sg_broken(SG_RULE_FREED, CUDA_ERROR_INVALID_VALUE,
                         "0x%llx is not the base of a live allocation", address);
    if (!stream)
        SG_TRY(sg_wait_context(ctx));
    sg_lock();
    b = find_freeable_locked(address); /* another thread may have been faster */
    if (b)
        free_locked(b, stream);
    sg_unlock();
    return b ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

bool sg_heap_block_locked(void *segment, CUdeviceptr address, sg_extent_t *out)
{
    segment_t *g = segment;
    size_t i = slot_of(g, address);
    while (i && !g->slot[i])
        i--;
    const block_t *b = g->slot[i];
    if (!b || b->free || address - b->address >= b->requested)
        return false;
    *out = (sg_extent_t){.base = b->address,
                         .bytes = b->requested,
                         .id = b->id,
                         .handle = g->handle,
                         .range = g->range,
                         .access = g->pool->access,
                         .device = g->pool->device,
                         .ctx = b->ctx,
                         .pool = g->pool,
                         .managed_by_heap = true};
    return true;
}

bool *sg_heap_sync_memops_locked(CUdeviceptr address)
{
    const sg_range_t *r = sg_window_find_locked(address);
    sg_extent_t extent;
    if (!r || r->kind != SG_RANGE_SEGMENT || !sg_heap_block_locked(r->segment, address, &extent))
        return NULL;
    block_t *b = find_live_locked(extent.base);
    return b ? &b->sync_memops : NULL;
}

void sg_heap_drop_locked(CUcontext ctx, bool pools)
{
    for (segment_t *g = heap.segments, *next; g; g = next) {
        next = g->next; /* freeing the last block of a segment may release it */
        if (g->pool->device != ctx->device || !(g->pool->hidden || pools))
            continue;
        for (size_t i = 0; i < (g->shared ? SLAB_SLOTS : 1); i++) {
            block_t *b = g->slot[i];
            if (!b || b->free || (b->ctx && b->ctx != ctx))
                continue;
            bool last = g->live == 1;
            free_locked(b, NULL);
            if (last)
                break;
        }
    }
    sg_heap_trim_locked(NULL, 0);
}

/* ---- the API of allocation ---- */

SG_EXPORT CUresult cuMemAlloc_v2(CUdeviceptr *out, size_t bytes)
{
    SG_TRY(sg_enter_unsafe());
    sg_pool_t *heap_of_device = &sg_sync_heap[sg_current_context()->device];
    return out ? sg_heap_alloc(heap_of_device, bytes, NULL, out) : CUDA_ERROR_INVALID_VALUE;
}

SG_EXPORT CUresult cuMemFree_v2(CUdeviceptr address)
{
    SG_TRY(sg_enter_unsafe());
    return address ? sg_heap_free(address, NULL) : CUDA_SUCCESS;
}

static CUresult alloc_async(CUdeviceptr *out, size_t bytes, CUmemoryPool pool, CUstream handle)
{
    SG_TRY(sg_enter_context());
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    sg_lock();
    sg_stream_t *stream = sg_stream_resolve_locked(handle);
    sg_pool_t *p = stream ? sg_pool_resolve_locked(pool, stream->ctx->device) : NULL;
    CUresult result;
    if (p && !bytes) { /* nothing (H200, driver 580.159.04) */
        sg_unlock();
        *out = 0;
        return CUDA_SUCCESS;
    }
    if (p && sg_capture_alloc_locked(stream, p->device, bytes, out, &result)) {
        sg_unlock();
        return result;
    }
    if (stream)
        stream->refs++;
    sg_unlock();
    if (!stream)
        return CUDA_ERROR_INVALID_HANDLE;
    if (p && p->imported)
        p = NULL; /* nothing is allocated from another process's pool */
    result = p ? sg_heap_alloc(p, bytes, stream, out) : CUDA_ERROR_INVALID_VALUE;
    sg_lock();
    sg_stream_unref_locked(stream);
    sg_unlock();
    return result;
}

ASYNC_CALL(cuMemAllocAsync, (CUdeviceptr * out, size_t bytes, CUstream stream),
           alloc_async(out, bytes, NULL, stream))
ASYNC_CALL(cuMemAllocFromPoolAsync, (CUdeviceptr * out, size_t bytes, CUmemoryPool pool, CUstream stream),
           pool ? alloc_async(out, bytes, pool, stream) : CUDA_ERROR_INVALID_VALUE)

static CUresult free_async(CUdeviceptr address, CUstream handle)
{
    SG_TRY(sg_enter_context());
    sg_lock();
    sg_stream_t *stream = sg_stream_resolve_locked(handle);
    CUresult result = CUDA_ERROR_INVALID_HANDLE;
    if (stream && !sg_capture_free_locked(stream, address, &result)) {
        block_t *b = find_freeable_locked(address);
        if (b) {
            sg_submit_legacy_barrier_locked(stream); /* first: what it orders is no race */
            sg_order_freed_locked(b->address, b->requested, stream);
            free_locked(b, stream);
        }
        result = b ? CUDA_SUCCESS : sg_block_free_locked(address, stream);
    }
    sg_unlock();
    if (result == CUDA_ERROR_INVALID_VALUE)
        sg_broken(SG_RULE_FREED, result, "0x%llx is not the base of a live allocation", address);
    return result;
}

ASYNC_CALL(cuMemFreeAsync, (CUdeviceptr address, CUstream stream), free_async(address, stream))

SG_EXPORT CUresult cuMemGetInfo_v2(size_t *free_bytes, size_t *total_bytes)
{
    SG_TRY(sg_enter_context());
    sg_lock();
    size_t used = sg_phys_used_locked(sg_current_context()->device);
    sg_unlock();
    if (free_bytes)
        *free_bytes = sg.config.memory_bytes - used;
    if (total_bytes)
        *total_bytes = sg.config.memory_bytes;
    return CUDA_SUCCESS;
}
