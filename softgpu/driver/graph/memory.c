/* memory.c: memory of allocation nodes.
 *
 * A node's address is reserved when the node is made and stays the same for as long as anybody may use it.
 * Physical memory comes when a launch needs it, and stays with the block until cuDeviceGraphMemTrim, or until
 * another graph needs it and the block is not in use. As a graph's launch is put into streams, its allocation nodes
 * make their blocks live, and free nodes end that, like cuMemAllocAsync and cuMemFreeAsync do.
 *
 * Each block has whole chunks to itself.
 */
#include "softgpu/driver/graph/graph.h"
#include "softgpu/driver/rules.h"

#include <stdlib.h>
#include <string.h>

struct sg_block {
    uint32_t refs; /* one per node, in images too, and one while live */
    CUDA_MEM_ALLOC_NODE_PARAMS params;
    CUmemAccessDesc *access; /* owned */
    sg_range_t *range;
    sg_handle_t *handle; /* NULL: no physical memory */
    uint64_t owner;      /* id of the graph that allocates it */
    uint64_t freed_in;   /* id of the graph with its free node */
    unsigned device;
    sg_access_t rights;
    uint64_t id; /* among all allocations */
    bool live;
    sg_stream_t
        *used_on; /* a reference: where it was freed, or where it was last launched; NULL: not in use */
    uint64_t used_until;
    sg_block_t *next, *prev;
};

static sg_block_t *blocks;

/* Physical memory of blocks that are gone. */
static struct {
    sg_handle_t **handle;
    size_t count, capacity;
} cache;

static struct {
    uint64_t used, used_high, reserved, reserved_high;
} counters[SG_MAX_DEVICES];

/* ---- physical memory ---- */

static void release_handle_locked(sg_handle_t *h)
{
    counters[h->device].reserved -= h->bytes;
    sg_phys_unref_locked(h);
}

/* Takes the memory away from a block that nobody uses. */
static sg_handle_t *unback_locked(sg_block_t *b)
{
    sg_handle_t *h = b->handle;
    sg_phys_unmap(b->range->base, b->range->bytes);
    counters[h->device].used -= h->bytes;
    b->handle = NULL;
    return h;
}

static bool idle_locked(sg_block_t *b)
{
    if (b->used_on && sg_scheduler->past_locked(b->used_on, b->used_until)) {
        sg_stream_unref_locked(b->used_on);
        b->used_on = NULL;
    }
    return !b->live && !b->used_on;
}

static sg_handle_t *from_cache_locked(unsigned device, size_t bytes)
{
    for (size_t i = 0; i < cache.count; i++)
        if (cache.handle[i]->device == device && cache.handle[i]->bytes == bytes) {
            sg_handle_t *h = cache.handle[i];
            cache.handle[i] = cache.handle[--cache.count];
            return h;
        }
    return NULL;
}

static void empty_cache_locked(unsigned device)
{
    size_t kept = 0;
    for (size_t i = 0; i < cache.count; i++)
        if (cache.handle[i]->device == device)
            release_handle_locked(cache.handle[i]);
        else
            cache.handle[kept++] = cache.handle[i];
    cache.count = kept;
}

static void to_cache_locked(sg_handle_t *h)
{
    if (cache.count == cache.capacity) {
        size_t capacity = cache.capacity ? 2 * cache.capacity : 16;
        sg_handle_t **grown = realloc(cache.handle, capacity * sizeof *grown);
        if (!grown) {
            release_handle_locked(h);
            return;
        }
        cache.handle = grown;
        cache.capacity = capacity;
    }
    cache.handle[cache.count++] = h;
}

static bool planned(const sg_block_t *b, const sg_exec_t *e);

/* Memory of idle blocks that the launch does not need. */
static void reclaim_locked(unsigned device, const sg_exec_t *e)
{
    empty_cache_locked(device);
    for (sg_block_t *b = blocks; b; b = b->next)
        if (b->handle && b->device == device && idle_locked(b) && !(e && planned(b, e)))
            release_handle_locked(unback_locked(b));
}

static sg_handle_t *obtain_locked(unsigned device, size_t bytes, const sg_exec_t *e)
{
    sg_handle_t *h = from_cache_locked(device, bytes);
    if (h)
        return h;
    h = sg_phys_create_locked(device, bytes);
    if (!h) {
        reclaim_locked(device, e);
        h = sg_phys_create_locked(device, bytes);
    }
    if (!h)
        return NULL;
    counters[device].reserved += bytes;
    if (counters[device].reserved > counters[device].reserved_high)
        counters[device].reserved_high = counters[device].reserved;
    return h;
}

static CUresult back_locked(sg_block_t *b, const sg_exec_t *e)
{
    if (b->handle)
        return CUDA_SUCCESS;
    sg_handle_t *h = obtain_locked(b->device, b->range->bytes, e);
    if (!h)
        return CUDA_ERROR_OUT_OF_MEMORY;
    CUresult result = sg_phys_map(b->range->base, h);
    if (!result && (result = sg_phys_protect_locked(b->range->base, b->range->bytes, &b->rights)))
        sg_phys_unmap(b->range->base, b->range->bytes);
    if (result) {
        to_cache_locked(h);
        return result;
    }
    b->handle = h;
    counters[b->device].used += h->bytes;
    if (counters[b->device].used > counters[b->device].used_high)
        counters[b->device].used_high = counters[b->device].used;
    return CUDA_SUCCESS;
}

/* ---- blocks ---- */

static bool is_device(const CUmemLocation *l)
{
    return l->type == CU_MEM_LOCATION_TYPE_DEVICE && l->id >= 0 && (unsigned)l->id < sg.config.devices;
}

static CUresult check_params(const CUDA_MEM_ALLOC_NODE_PARAMS *p)
{
    const CUmemPoolProps *props = &p->poolProps;
    if (!p->bytesize || props->allocType != CU_MEM_ALLOCATION_TYPE_PINNED ||
        props->handleTypes != CU_MEM_HANDLE_TYPE_NONE || (p->accessDescCount && !p->accessDescs))
        return CUDA_ERROR_INVALID_VALUE;
    if (!is_device(&props->location))
        return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < p->accessDescCount; i++)
        if (!is_device(&p->accessDescs[i].location))
            return CUDA_ERROR_INVALID_VALUE;
    return p->bytesize > sg.config.memory_bytes ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
}

/* Its own device may do everything, others what the descriptions say. */
static void set_rights(sg_block_t *b)
{
    b->device = (unsigned)b->params.poolProps.location.id;
    b->rights.readers = b->rights.writers = (uint8_t)(1u << b->device);
    for (size_t i = 0; i < b->params.accessDescCount; i++) {
        uint8_t bit = (uint8_t)(1u << b->access[i].location.id);
        if (b->access[i].flags != CU_MEM_ACCESS_FLAGS_PROT_NONE)
            b->rights.readers |= bit;
        if (b->access[i].flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE)
            b->rights.writers |= bit;
    }
}

static bool copy_access(sg_block_t *b, const CUDA_MEM_ALLOC_NODE_PARAMS *p)
{
    b->params = *p;
    if (p->accessDescCount && !(b->access = calloc(p->accessDescCount, sizeof *b->access)))
        return false;
    if (p->accessDescCount)
        memcpy(b->access, p->accessDescs, p->accessDescCount * sizeof *b->access);
    b->params.accessDescs = b->access;
    return true;
}

static void free_block(sg_block_t *b)
{
    free(b->access);
    free(b);
}

/* Blocks that were still in use when their last owner went. */
static void reap_locked(void)
{
    for (sg_block_t *b = blocks, *next; b; b = next) {
        next = b->next;
        if (b->refs || !idle_locked(b))
            continue;
        if (b->handle)
            to_cache_locked(unback_locked(b));
        sg_window_free_locked(b->range);
        *(b->prev ? &b->prev->next : &blocks) = b->next;
        if (b->next)
            b->next->prev = b->prev;
        free_block(b);
    }
}

CUresult sg_block_new_locked(const CUDA_MEM_ALLOC_NODE_PARAMS *params, sg_graph_t *graph, sg_block_t **out)
{
    SG_TRY(check_params(params));
    reap_locked();
    sg_block_t *b = calloc(1, sizeof *b);
    if (!b || !copy_access(b, params)) {
        free(b);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    b->range = sg_window_reserve_locked(SG_ROUND_UP(params->bytesize, SG_CHUNK_BYTES), 0, 0, SG_RANGE_GRAPH);
    if (!b->range) {
        free_block(b);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    b->range->segment = b;
    b->id = sg_next_allocation_id();
    set_rights(b);
    b->params.dptr = b->range->base;
    b->refs = 1;
    b->owner = graph->object.id;
    b->next = blocks;
    if (blocks)
        blocks->prev = b;
    blocks = b;
    *out = b;
    return CUDA_SUCCESS;
}

sg_block_t *sg_block_find_locked(CUdeviceptr address)
{
    sg_range_t *r = sg_window_find_locked(address);
    sg_block_t *b = r && r->kind == SG_RANGE_GRAPH && r->base == address ? r->segment : NULL;
    return b && b->refs ? b : NULL; /* else it only waits for work to end */
}

bool sg_block_extent_locked(void *block, CUdeviceptr address, sg_extent_t *out)
{
    const sg_block_t *b = block;
    if (!b->refs || address - b->range->base >= b->params.bytesize)
        return false;
    *out = (sg_extent_t){.base = b->range->base,
                         .bytes = b->params.bytesize,
                         .id = b->id,
                         .handle = b->handle,
                         .range = b->range,
                         .access = b->rights,
                         .device = b->device,
                         .managed_by_heap = true};
    return true;
}

void sg_block_ref(sg_block_t *b)
{
    b->refs++;
}

void sg_block_unref_locked(sg_block_t *b)
{
    if (!--b->refs)
        reap_locked();
}

CUdeviceptr sg_block_address(const sg_block_t *b)
{
    return b->range->base;
}

const CUDA_MEM_ALLOC_NODE_PARAMS *sg_block_params(const sg_block_t *b)
{
    return &b->params;
}

/* Once in the graph that allocates, or in others; never in both. */
CUresult sg_block_plan_free_locked(sg_block_t *b, sg_graph_t *graph)
{
    bool again = b->freed_in && (b->freed_in == b->owner || graph->object.id == b->owner);
    for (const sg_node_t *n = graph->first; n && !again; n = n->next)
        again = n->action.type == CU_GRAPH_NODE_TYPE_MEM_FREE && n->action.block == b;
    if (again)
        return sg_broken(SG_RULE_GRAPH_MEMORY, CUDA_ERROR_INVALID_VALUE, "0x%llx has its free node already",
                         b->range->base);
    b->freed_in = graph->object.id;
    return CUDA_SUCCESS;
}

/* ---- in stream order ---- */

static void use_until_locked(sg_block_t *b, sg_stream_t *stream)
{
    stream->refs++;
    if (b->used_on)
        sg_stream_unref_locked(b->used_on);
    b->used_on = stream;
    b->used_until = stream->submitted;
}

static void poison_locked(const sg_block_t *b, sg_stream_t *stream, unsigned char pattern)
{
    sg_op_t *op = sg.config.poison ? sg_poison_op(b->range->base, b->range->bytes, pattern) : NULL;
    if (op)
        sg_submit_locked(stream, op);
}

static void begin_life_locked(sg_block_t *b, sg_stream_t *stream)
{
    poison_locked(b, stream, 0xfd);
    b->live = true;
    b->refs++;
    use_until_locked(b, stream);
}

static void end_life_locked(sg_block_t *b, sg_stream_t *stream)
{
    poison_locked(b, stream, 0xfe);
    b->live = false;
    use_until_locked(b, stream);
    sg_block_unref_locked(b);
}

CUresult sg_block_free_locked(CUdeviceptr address, sg_stream_t *stream)
{
    sg_block_t *b = sg_block_find_locked(address);
    if (!b || !b->live || b->freed_in == b->owner)
        return CUDA_ERROR_INVALID_VALUE;
    end_life_locked(b, stream);
    return CUDA_SUCCESS;
}

bool sg_block_is_live_locked(CUdeviceptr address)
{
    const sg_block_t *b = sg_block_find_locked(address);
    return b && b->live;
}

CUresult sg_block_free(CUdeviceptr address)
{
    SG_TRY(sg_wait_context(NULL));
    sg_lock();
    CUresult result = sg_block_free_locked(address, sg_current_context()->legacy);
    sg_unlock();
    return result;
}

static bool planned(const sg_block_t *b, const sg_exec_t *e)
{
    for (size_t i = 0; i < e->item_count; i++) {
        const sg_action_t *a = &e->items[i].node->action;
        if (a->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC && a->block == b)
            return true;
    }
    return false;
}

/* `behind` [item_count]: scratch. Dependencies lie before what depends on them. */
static bool stands_behind(const sg_exec_t *e, size_t item, const sg_block_t *b, bool *behind)
{
    memset(behind, 0, e->item_count * sizeof *behind);
    behind[item] = true;
    for (size_t i = item + 1; i-- > 0;) {
        const sg_item_t *it = &e->items[i];
        if (behind[i] && it->node->action.type == CU_GRAPH_NODE_TYPE_MEM_ALLOC && it->node->action.block == b)
            return true;
        for (uint32_t d = 0; behind[i] && d < it->dep_count; d++)
            behind[e->deps[it->first_dep + d]] = true;
    }
    return false;
}

CUresult sg_memory_check_locked(const sg_exec_t *e, const sg_node_t **bad)
{
    bool *behind = e->image->has_memory ? malloc(e->item_count * sizeof *behind) : NULL;
    CUresult result = e->image->has_memory && !behind ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
    for (size_t i = 0; behind && i < e->item_count && !result; i++) {
        const sg_action_t *a = &e->items[i].node->action;
        if (a->type != CU_GRAPH_NODE_TYPE_MEM_FREE || !planned(a->block, e) ||
            !sg_rule_on(SG_RULE_GRAPH_FREE))
            continue;
        if (stands_behind(e, i, a->block, behind))
            continue;
        *bad = e->items[i].node;
        result = sg_broken(SG_RULE_GRAPH_FREE, CUDA_ERROR_INVALID_VALUE,
                           "the node that frees 0x%llx does not depend on the one that allocates it",
                           a->block->range->base);
    }
    free(behind);
    return result;
}

/* Follows the items in order, without changing anything: whether every allocation finds its block free, and every free
 * node a live one. */
static bool lives_fit_locked(const sg_exec_t *e)
{
    bool fits = true;
    for (size_t i = 0; i < e->item_count && fits; i++) {
        const sg_action_t *a = &e->items[i].node->action;
        if (a->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC)
            fits = !a->block->live || e->flags & CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH;
        else if (a->type == CU_GRAPH_NODE_TYPE_MEM_FREE)
            fits = a->block->live || planned(a->block, e);
    }
    return fits;
}

CUresult sg_memory_prepare_locked(sg_exec_t *e, sg_stream_t *stream)
{
    if (!e->image->has_memory)
        return CUDA_SUCCESS;
    reap_locked();
    if (!lives_fit_locked(e))
        return sg_broken(SG_RULE_GRAPH_MEMORY, CUDA_ERROR_INVALID_VALUE,
                         "a graph allocates what is not freed since, or frees what is not allocated");
    for (size_t i = 0; i < e->item_count; i++) {
        const sg_action_t *a = &e->items[i].node->action;
        if (a->type != CU_GRAPH_NODE_TYPE_MEM_ALLOC)
            continue;
        if (a->block->live && stream)
            end_life_locked(a->block, stream);
        SG_TRY(back_locked(a->block, e));
    }
    return CUDA_SUCCESS;
}

void sg_memory_run_locked(const sg_action_t *a, sg_stream_t *stream)
{
    if (a->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC)
        begin_life_locked(a->block, stream);
    else if (a->type == CU_GRAPH_NODE_TYPE_MEM_FREE)
        end_life_locked(a->block, stream);
}

/* ---- the API of the memory as a whole ---- */

static CUresult check_device(CUdevice device)
{
    SG_TRY(sg_graph_enter());
    return sg_device_check(device);
}

SG_EXPORT CUresult cuDeviceGraphMemTrim(CUdevice device)
{
    SG_TRY(check_device(device));
    sg_lock();
    reap_locked();
    reclaim_locked((unsigned)device, NULL);
    sg_unlock();
    return CUDA_SUCCESS;
}

static const uint64_t *counter_of(CUdevice device, CUgraphMem_attribute attribute)
{
    switch (attribute) {
    case CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT:
        return &counters[device].used;
    case CU_GRAPH_MEM_ATTR_USED_MEM_HIGH:
        return &counters[device].used_high;
    case CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT:
        return &counters[device].reserved;
    case CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH:
        return &counters[device].reserved_high;
    default:
        return NULL;
    }
}

SG_EXPORT CUresult cuDeviceGetGraphMemAttribute(CUdevice device, CUgraphMem_attribute attribute, void *value)
{
    SG_TRY(check_device(device));
    const uint64_t *counter = counter_of(device, attribute);
    if (!counter || !value)
        return CUDA_ERROR_INVALID_VALUE;
    sg_lock();
    reap_locked();
    *(cuuint64_t *)value = *counter;
    sg_unlock();
    return CUDA_SUCCESS;
}

/* A high-water mark can only be reset, to what is current. */
SG_EXPORT CUresult cuDeviceSetGraphMemAttribute(CUdevice device, CUgraphMem_attribute attribute, void *value)
{
    SG_TRY(check_device(device));
    bool used = attribute == CU_GRAPH_MEM_ATTR_USED_MEM_HIGH;
    if (!value || *(const cuuint64_t *)value || (!used && attribute != CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH))
        return CUDA_ERROR_INVALID_VALUE;
    sg_lock();
    reap_locked();
    if (used)
        counters[device].used_high = counters[device].used;
    else
        counters[device].reserved_high = counters[device].reserved;
    sg_unlock();
    return CUDA_SUCCESS;
}
