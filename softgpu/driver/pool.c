/* pool.c: memory pools as objects: the default one, created ones, their attributes. What they hold is the
 * heap's (heap.c).
 */
#include "sg.h"

#include <stdlib.h>

sg_pool_t sg_sync_heap;
sg_pool_t sg_default_pool = {.is_default = true, .reuse_flags = {1, 1, 1}};

static sg_pool_t *pools = &sg_default_pool; /* created ones first; guarded by sg.lock */

void sg_pools_trim_to_threshold(void)
{
    sg_lock();
    for (sg_pool_t *p = pools; p; p = p->next)
        if (p->reserved > p->release_threshold)
            sg_heap_trim_locked(p, p->release_threshold);
    if (sg_sync_heap.reserved > sg_sync_heap.used) /* freed in stream order, or behind a poisoning */
        sg_heap_trim_locked(&sg_sync_heap, 0);
    sg_unlock();
}

static sg_pool_t *current_pool = &sg_default_pool; /* the device's; guarded by sg.lock */

sg_pool_t *sg_pool_resolve_locked(CUmemoryPool handle)
{
    if (!handle)
        return current_pool;
    for (sg_pool_t *p = pools; p; p = p->next)
        if ((sg_pool_t *)handle == p)
            return p;
    return NULL;
}

/* The pool behind a handle that must be one. */
static sg_pool_t *resolve_locked(CUmemoryPool handle)
{
    return handle ? sg_pool_resolve_locked(handle) : NULL;
}

SG_EXPORT CUresult cuDeviceGetDefaultMemPool(CUmemoryPool *pool, CUdevice device)
{
    SG_TRY(sg_enter());
    if (!pool || device)
        return pool ? CUDA_ERROR_INVALID_DEVICE : CUDA_ERROR_INVALID_VALUE;
    *pool = (CUmemoryPool)&sg_default_pool;
    return CUDA_SUCCESS;
}

SG_EXPORT CUresult cuDeviceGetMemPool(CUmemoryPool *pool, CUdevice device)
{
    SG_TRY(sg_enter());
    if (!pool || device)
        return pool ? CUDA_ERROR_INVALID_DEVICE : CUDA_ERROR_INVALID_VALUE;
    sg_lock();
    *pool = (CUmemoryPool)current_pool;
    sg_unlock();
    return CUDA_SUCCESS;
}

SG_EXPORT CUresult cuDeviceSetMemPool(CUdevice device, CUmemoryPool pool)
{
    SG_TRY(sg_enter());
    if (device)
        return CUDA_ERROR_INVALID_DEVICE;
    sg_lock();
    sg_pool_t *p = resolve_locked(pool);
    if (p)
        current_pool = p;
    sg_unlock();
    return p ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

SG_EXPORT CUresult cuMemPoolCreate(CUmemoryPool *pool, const CUmemPoolProps *props)
{
    SG_TRY(sg_enter_unsafe());
    if (!pool || !props || props->allocType != CU_MEM_ALLOCATION_TYPE_PINNED ||
        props->location.type != CU_MEM_LOCATION_TYPE_DEVICE || props->location.id)
        return CUDA_ERROR_INVALID_VALUE;
    sg_pool_t *p = calloc(1, sizeof *p);
    if (!p)
        return CUDA_ERROR_OUT_OF_MEMORY;
    p->reuse_flags[0] = p->reuse_flags[1] = p->reuse_flags[2] = 1;
    sg_lock();
    p->next = pools;
    pools = p;
    sg_unlock();
    *pool = (CUmemoryPool)p;
    return CUDA_SUCCESS;
}

/* What is still allocated from it moves to the default pool, which outlives it. */
SG_EXPORT CUresult cuMemPoolDestroy(CUmemoryPool pool)
{
    SG_TRY(sg_enter_unsafe());
    sg_lock();
    sg_pool_t *p = resolve_locked(pool);
    if (!p || p->is_default) {
        sg_unlock();
        return CUDA_ERROR_INVALID_VALUE;
    }
    sg_heap_trim_locked(p, 0);
    sg_heap_adopt_locked(p, &sg_default_pool);
    sg_pool_t **link = &pools;
    while (*link != p)
        link = &(*link)->next;
    *link = p->next;
    if (current_pool == p)
        current_pool = &sg_default_pool;
    sg_unlock();
    free(p);
    return CUDA_SUCCESS;
}

SG_EXPORT CUresult cuMemPoolTrimTo(CUmemoryPool pool, size_t keep)
{
    SG_TRY(sg_enter_unsafe());
    sg_lock();
    sg_pool_t *p = resolve_locked(pool);
    if (p)
        sg_heap_trim_locked(p, keep);
    sg_unlock();
    return p ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* A value of a pool: an int for the reuse rules, 64 bits for the others. */
static CUresult pool_attribute(sg_pool_t *p, CUmemPool_attribute attribute, void *value, bool set)
{
    uint64_t *counter = NULL;
    switch (attribute) {
    case CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES:
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC:
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES: {
        int *flag = &p->reuse_flags[attribute - CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES];
        *(set ? flag : (int *)value) = *(set ? (int *)value : flag);
        return CUDA_SUCCESS;
    }
    case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD:
        *(set ? &p->release_threshold : (uint64_t *)value) =
            *(set ? (uint64_t *)value : &p->release_threshold);
        return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
        counter = &p->reserved_high;
        break;
    case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
        counter = &p->used_high;
        break;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT:
    case CU_MEMPOOL_ATTR_USED_MEM_CURRENT:
        if (set)
            return CUDA_ERROR_INVALID_VALUE;
        *(uint64_t *)value = attribute == CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT ? p->reserved : p->used;
        return CUDA_SUCCESS;
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
    if (!set) {
        *(uint64_t *)value = *counter;
        return CUDA_SUCCESS;
    }
    /* A high-water mark can only be reset, to what is current. */
    if (*(uint64_t *)value)
        return CUDA_ERROR_INVALID_VALUE;
    *counter = counter == &p->reserved_high ? p->reserved : p->used;
    return CUDA_SUCCESS;
}

static CUresult pool_attribute_call(CUmemoryPool pool, CUmemPool_attribute attribute, void *value, bool set)
{
    SG_TRY(sg_enter_unsafe());
    if (!value)
        return CUDA_ERROR_INVALID_VALUE;
    sg_lock();
    sg_pool_t *p = resolve_locked(pool);
    CUresult result = p ? pool_attribute(p, attribute, value, set) : CUDA_ERROR_INVALID_VALUE;
    sg_unlock();
    return result;
}

SG_EXPORT CUresult cuMemPoolSetAttribute(CUmemoryPool pool, CUmemPool_attribute attribute, void *value)
{
    return pool_attribute_call(pool, attribute, value, true);
}

SG_EXPORT CUresult cuMemPoolGetAttribute(CUmemoryPool pool, CUmemPool_attribute attribute, void *value)
{
    return pool_attribute_call(pool, attribute, value, false);
}
