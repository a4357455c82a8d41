/* pool.c: memory pools as objects: default ones, created ones, their attributes and who may touch their memory. What
 * they hold is the heap's (heap.c); how they travel to other processes: share.c.
 */
#include "softgpu/driver/rules.h"
#include "softgpu/driver/sg.h"

#include <stdlib.h>
#include <unistd.h>

sg_pool_t sg_sync_heap[SG_MAX_DEVICES];
sg_pool_t sg_managed_heap[SG_MAX_DEVICES];
sg_pool_t sg_default_pool[SG_MAX_DEVICES + 1];

static sg_pool_t *pools;                            /* created ones first; guarded by sg.lock */
static sg_pool_t *current_pool[SG_MAX_DEVICES + 1]; /* guarded by sg.lock */

/* A pool of a device's memory, or of the host's (SG_HOST), with default attributes. */
static sg_pool_t pool_on(unsigned device)
{
    sg_pool_t p = {.device = device, .fd = -1, .reuse_flags = {1, 1, 1}};
    p.location.type = device == SG_HOST ? CU_MEM_LOCATION_TYPE_HOST : CU_MEM_LOCATION_TYPE_DEVICE;
    p.location.id = device == SG_HOST ? 0 : (int)device;
    p.access.host = device == SG_HOST;
    if (device != SG_HOST)
        p.access.readers = p.access.writers = (uint8_t)(1u << device);
    return p;
}

static void init_default(unsigned device)
{
    sg_default_pool[device] = pool_on(device);
    sg_default_pool[device].is_default = true;
    sg_default_pool[device].next = pools;
    pools = current_pool[device] = &sg_default_pool[device];
}

void sg_pools_init(void)
{
    for (unsigned i = 0; i < sg.config.devices; i++) {
        sg_sync_heap[i] = pool_on(i);
        sg_sync_heap[i].hidden = true;
        sg_sync_heap[i].access.peers_decide = true;
        sg_managed_heap[i] = pool_on(i);
        sg_managed_heap[i].hidden = sg_managed_heap[i].managed = true;
        sg_managed_heap[i].access = (sg_access_t){.readers = 0xff, .writers = 0xff, .host = true};
        init_default(i);
    }
    init_default(SG_HOST);
}

static void reap_dead(void)
{
    for (sg_pool_t **link = &pools, *p; (p = *link);) {
        if (!p->dead || p->reserved) {
            link = &p->next;
            continue;
        }
        *link = p->next;
        if (p->fd >= 0)
            close(p->fd);
        free(p);
    }
}

void sg_pools_trim_to_threshold(void)
{
    sg_lock();
    for (sg_pool_t *p = pools; p; p = p->next)
        if (p->reserved > p->release_threshold)
            sg_heap_trim_locked(p, p->release_threshold);
    reap_dead();
    for (unsigned i = 0; i < sg.config.devices; i++) {
        /* Freed in stream order, or behind a poisoning. */
        if (sg_sync_heap[i].reserved > sg_sync_heap[i].used)
            sg_heap_trim_locked(&sg_sync_heap[i], 0);
        if (sg_managed_heap[i].reserved > sg_managed_heap[i].used)
            sg_heap_trim_locked(&sg_managed_heap[i], 0);
    }
    sg_unlock();
}

sg_pool_t *sg_pool_resolve_locked(CUmemoryPool handle, unsigned device)
{
    if (!handle)
        return current_pool[device];
    for (sg_pool_t *p = pools; p; p = p->next)
        if ((sg_pool_t *)handle == p)
            return p->dead ? NULL : p;
    return NULL;
}

/* The pool behind a handle that must be one. */
static sg_pool_t *resolve_locked(CUmemoryPool handle)
{
    sg_pool_t *p = handle ? sg_pool_resolve_locked(handle, 0) : NULL;
    if (!p)
        sg_broken(SG_RULE_HANDLE, CUDA_ERROR_INVALID_VALUE, "%p is not a pool", (void *)handle);
    return p;
}

/* ---- the pools of a location ---- */

/* The device that a location means, SG_HOST for the host. Pools of managed memory are not provided. */
static CUresult location_of(const CUmemLocation *location, CUmemAllocationType type, unsigned *device)
{
    if (!location)
        return CUDA_ERROR_INVALID_VALUE;
    if (type == CU_MEM_ALLOCATION_TYPE_MANAGED)
        return CUDA_ERROR_NOT_SUPPORTED;
    if (type != CU_MEM_ALLOCATION_TYPE_PINNED)
        return CUDA_ERROR_INVALID_VALUE;
    switch (location->type) {
    case CU_MEM_LOCATION_TYPE_DEVICE:
        SG_TRY(sg_device_check(location->id));
        *device = (unsigned)location->id;
        return CUDA_SUCCESS;
    case CU_MEM_LOCATION_TYPE_HOST_NUMA:
        if (location->id)
            return CUDA_ERROR_INVALID_VALUE;
        *device = SG_HOST;
        return CUDA_SUCCESS;
    case CU_MEM_LOCATION_TYPE_HOST:
        *device = SG_HOST;
        return CUDA_SUCCESS;
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
}

SG_EXPORT CUresult cuMemGetDefaultMemPool(CUmemoryPool *pool, CUmemLocation *location,
                                          CUmemAllocationType type)
{
    unsigned device;
    SG_TRY(sg_enter());
    SG_TRY(location_of(location, type, &device));
    if (!pool)
        return CUDA_ERROR_INVALID_VALUE;
    *pool = (CUmemoryPool)&sg_default_pool[device];
    return CUDA_SUCCESS;
}

SG_EXPORT CUresult cuMemGetMemPool(CUmemoryPool *pool, CUmemLocation *location, CUmemAllocationType type)
{
    unsigned device;
    SG_TRY(sg_enter());
    SG_TRY(location_of(location, type, &device));
    if (!pool)
        return CUDA_ERROR_INVALID_VALUE;
    sg_lock();
    *pool = (CUmemoryPool)current_pool[device];
    sg_unlock();
    return CUDA_SUCCESS;
}

SG_EXPORT CUresult cuMemSetMemPool(CUmemLocation *location, CUmemAllocationType type, CUmemoryPool pool)
{
    unsigned device;
    SG_TRY(sg_enter());
    SG_TRY(location_of(location, type, &device));
    sg_lock();
    sg_pool_t *p = resolve_locked(pool);
    bool fits = p && p->device == device && !p->imported;
    if (fits)
        current_pool[device] = p;
    sg_unlock();
    return fits ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

static CUmemLocation on_device(CUdevice device)
{
    return (CUmemLocation){.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device};
}

SG_EXPORT CUresult cuDeviceGetDefaultMemPool(CUmemoryPool *pool, CUdevice device)
{
    CUmemLocation there = on_device(device);
    return cuMemGetDefaultMemPool(pool, &there, CU_MEM_ALLOCATION_TYPE_PINNED);
}

SG_EXPORT CUresult cuDeviceGetMemPool(CUmemoryPool *pool, CUdevice device)
{
    CUmemLocation there = on_device(device);
    return cuMemGetMemPool(pool, &there, CU_MEM_ALLOCATION_TYPE_PINNED);
}

SG_EXPORT CUresult cuDeviceSetMemPool(CUdevice device, CUmemoryPool pool)
{
    CUmemLocation there = on_device(device);
    return cuMemSetMemPool(&there, CU_MEM_ALLOCATION_TYPE_PINNED, pool);
}

/* ---- created pools ---- */

sg_pool_t *sg_pool_new(unsigned device, unsigned handle_types)
{
    sg_pool_t *p = malloc(sizeof *p);
    if (!p)
        return NULL;
    *p = pool_on(device);
    p->handle_types = handle_types;
    return p;
}

void sg_pool_publish(sg_pool_t *p)
{
    sg_lock();
    p->next = pools;
    pools = p;
    sg_unlock();
}

SG_EXPORT CUresult cuMemPoolCreate(CUmemoryPool *pool, const CUmemPoolProps *props)
{
    unsigned device;
    SG_TRY(sg_enter_unsafe());
    if (!pool || !props)
        return CUDA_ERROR_INVALID_VALUE;
    SG_TRY(location_of(&props->location, props->allocType, &device));
    unsigned types = (unsigned)props->handleTypes;
    if (types && props->location.type == CU_MEM_LOCATION_TYPE_HOST)
        return CUDA_ERROR_INVALID_VALUE;
    if (types & ~(unsigned)CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
        return CUDA_ERROR_NOT_SUPPORTED;
    sg_pool_t *p = sg_pool_new(device, types);
    if (!p)
        return CUDA_ERROR_OUT_OF_MEMORY;
    p->location = props->location;
    p->max_bytes = SG_ROUND_UP(props->maxSize, SG_CHUNK_BYTES);
    /* Addresses in the file are not used twice, so it is sparse and large. */
    if (types && (p->fd = sg_phys_file(device, (size_t)1 << 42)) < 0) {
        free(p);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    sg_pool_publish(p);
    *pool = (CUmemoryPool)p;
    return CUDA_SUCCESS;
}

/* What is allocated from it stays; the pool goes when that is freed. */
SG_EXPORT CUresult cuMemPoolDestroy(CUmemoryPool pool)
{
    SG_TRY(sg_enter_unsafe());
    sg_lock();
    sg_pool_t *p = resolve_locked(pool);
    bool created = p && !p->is_default;
    if (created) {
        sg_heap_trim_locked(p, 0);
        p->dead = true;
        p->release_threshold = 0;
        if (current_pool[p->device] == p)
            current_pool[p->device] = &sg_default_pool[p->device];
        reap_dead();
    }
    sg_unlock();
    return created ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
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

/* ---- who may touch it ---- */

static CUresult add_access(sg_access_t *a, const sg_pool_t *p, const CUmemAccessDesc *d)
{
    bool none = d->flags == CU_MEM_ACCESS_FLAGS_PROT_NONE;
    if (!none && d->flags != CU_MEM_ACCESS_FLAGS_PROT_READWRITE)
        return CUDA_ERROR_INVALID_VALUE; /* pools know no memory for reading only */
    if (d->location.type != CU_MEM_LOCATION_TYPE_DEVICE) {
        bool host = d->location.type == CU_MEM_LOCATION_TYPE_HOST ||
                    d->location.type == CU_MEM_LOCATION_TYPE_HOST_NUMA;
        return host && p->device == SG_HOST && !none ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    }
    SG_TRY(sg_device_check(d->location.id));
    if (none && (unsigned)d->location.id == p->device)
        return CUDA_ERROR_INVALID_DEVICE; /* its own device always may */
    uint8_t bit = (uint8_t)(1u << d->location.id);
    a->readers = none ? a->readers & (uint8_t)~bit : a->readers | bit;
    a->writers = a->readers;
    return CUDA_SUCCESS;
}

SG_EXPORT CUresult cuMemPoolSetAccess(CUmemoryPool pool, const CUmemAccessDesc *map, size_t count)
{
    SG_TRY(sg_enter_context());
    if (count && !map)
        return CUDA_ERROR_INVALID_VALUE;
    sg_lock();
    sg_pool_t *p = resolve_locked(pool);
    CUresult result = p ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    sg_access_t access = p ? p->access : (sg_access_t){0};
    for (size_t i = 0; !result && i < count; i++)
        result = add_access(&access, p, &map[i]);
    if (!result) {
        p->access = access;
        result = sg_heap_protect_locked(p);
    }
    sg_unlock();
    return result;
}

SG_EXPORT CUresult cuMemPoolGetAccess(CUmemAccess_flags *flags, CUmemoryPool pool, CUmemLocation *location)
{
    unsigned device;
    SG_TRY(sg_enter_context());
    SG_TRY(location_of(location, CU_MEM_ALLOCATION_TYPE_PINNED, &device));
    if (!flags)
        return CUDA_ERROR_INVALID_VALUE;
    sg_lock();
    const sg_pool_t *p = resolve_locked(pool);
    if (p && device == SG_HOST)
        *flags = p->access.host ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE : CU_MEM_ACCESS_FLAGS_PROT_NONE;
    else if (p)
        *flags = sg_access_flags(&p->access, device);
    sg_unlock();
    return p ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* ---- attributes ---- */

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
