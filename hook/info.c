/* info.c: what the program is told about memory, one story: total is the budget, but never less than
 * what is live; free is what ebb could still hand out; free and used together are at most total. */
#include <limits.h>

#include "alloc/device.h"
#include "alloc/ebb_alloc.h"
#include "hook/internal.h"

static size_t total_now(ebb_device_t *dev)
{
    const size_t sum = ebb_live_bytes(dev) + ebb_heap_told_free(dev);
    return dev->budget_bytes > sum ? dev->budget_bytes : sum;
}

static CUresult get_info(size_t *free_bytes, size_t *total)
{
    ebb_device_t *dev = ebb_enter_to_ask();
    if (dev && !ebb_is_device(dev)) {
        ebb_unlock();
        dev = NULL;
    }
    if (!dev)
        return EBB_PASS(cuMemGetInfo_v2, (free_bytes, total));
    if (total)
        *total = total_now(dev);
    if (free_bytes)
        *free_bytes = ebb_heap_told_free(dev);
    ebb_unlock();
    return CUDA_SUCCESS;
}

PLAIN_CALL(cuMemGetInfo_v2, (size_t * free_bytes, size_t *total), get_info(free_bytes, total))

static CUresult total_memory(size_t *bytes, CUdevice device)
{
    CUresult result = EBB_PASS(cuDeviceTotalMem_v2, (bytes, device));
    if (result)
        return result;
    const ebb_device_t *dev = ebb_enter_to_ask();
    if (!dev)
        return CUDA_SUCCESS;
    ebb_device_t *of = ebb_device_of(dev->ebb, device);
    *bytes = of ? total_now(of) : ebb_budget_of(*bytes); /* the question is asked before there is a context */
    ebb_unlock();
    return CUDA_SUCCESS;
}

PLAIN_CALL(cuDeviceTotalMem_v2, (size_t * bytes, CUdevice device), total_memory(bytes, device))

/* The device whose memory it gives. NULL: the driver's answer is the whole one, no lock held. */
static ebb_device_t *enter_pool(CUmemoryPool pool)
{
    ebb_device_t *dev = ebb_enter_work();
    if (!dev)
        return NULL;
    ebb_device_t *of = ebb_pool_device(dev, pool);
    if (of && !ebb_pool_is_native(dev, pool) && ebb_lock_go_to(of))
        return of;
    ebb_unlock();
    return NULL;
}

/* The driver's pools are empty under ebb. What is mapped and not live serves whichever pool asks next: each of them
 * has it. */
static size_t reserved_in(ebb_device_t *dev, size_t used)
{
    ebb_usage_t u = ebb_usage(dev);
    return used + (u.mapped_bytes > u.live_bytes ? u.mapped_bytes - u.live_bytes : 0);
}

static CUresult pool_attribute(CUmemoryPool pool, CUmemPool_attribute attribute, void *value)
{
    CUresult result = EBB_PASS(cuMemPoolGetAttribute, (pool, attribute, value));
    ebb_device_t *dev = result ? NULL : enter_pool(pool);
    if (!dev)
        return result;
    const ebb_pool_usage_t u = *ebb_pool_usage(dev, pool);
    const size_t reserved = reserved_in(dev, u.used_bytes);
    ebb_unlock();
    switch (attribute) {
    case CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT:
        *(cuuint64_t *)value += reserved;
        break;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH: /* at least */
        *(cuuint64_t *)value += u.high_bytes > reserved ? u.high_bytes : reserved;
        break;
    case CU_MEMPOOL_ATTR_USED_MEM_CURRENT:
        *(cuuint64_t *)value += u.used_bytes;
        break;
    case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
        *(cuuint64_t *)value += u.high_bytes;
        break;
    default:
        break;
    }
    return CUDA_SUCCESS;
}

PLAIN_CALL(cuMemPoolGetAttribute, (CUmemoryPool pool, CUmemPool_attribute attribute, void *value),
           pool_attribute(pool, attribute, value))

/* The high marks are set to 0, to begin anew. */
static CUresult set_pool_attribute(CUmemoryPool pool, CUmemPool_attribute attribute, void *value)
{
    CUresult result = EBB_PASS(cuMemPoolSetAttribute, (pool, attribute, value));
    bool high = attribute == CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH || attribute == CU_MEMPOOL_ATTR_USED_MEM_HIGH;
    ebb_device_t *dev = !result && high ? enter_pool(pool) : NULL;
    if (dev) {
        ebb_pool_usage_t *u = ebb_pool_usage(dev, pool);
        u->high_bytes = u->used_bytes;
        ebb_unlock();
    }
    return result;
}

PLAIN_CALL(cuMemPoolSetAttribute, (CUmemoryPool pool, CUmemPool_attribute attribute, void *value),
           set_pool_attribute(pool, attribute, value))

static CUresult trim(CUmemoryPool pool, size_t keep)
{
    CUresult result = EBB_PASS(cuMemPoolTrimTo, (pool, keep));
    ebb_device_t *dev = result ? NULL : enter_pool(pool);
    if (!dev)
        return result;
    if (ebb_usage(dev).mapped_bytes > keep)
        ebb_heap_reclaim(dev, SIZE_MAX, false);
    ebb_unlock();
    return CUDA_SUCCESS;
}

PLAIN_CALL(cuMemPoolTrimTo, (CUmemoryPool pool, size_t keep), trim(pool, keep))

/* ---- which buffer an address is in ---- */

/* False: not ours, no lock held. True: `b` is its buffer (or NULL), lock held. */
static bool ask(CUdeviceptr address, ebb_buffer_t **b)
{
    *b = NULL;
    const ebb_device_t *dev = ebb_arena_contains(&ebb_global, address) ? ebb_enter_any() : NULL;
    if (!dev)
        return false;
    *b = ebb_buffer_at(dev->ebb, address);
    if (*b && address - (*b)->address >= (*b)->bytes)
        *b = NULL; /* to these calls one past the end is in no buffer */
    return true;
}

static CUresult address_range(CUdeviceptr *base, size_t *bytes, CUdeviceptr address)
{
    ebb_buffer_t *b;
    if (!ask(address, &b))
        return EBB_PASS(cuMemGetAddressRange_v2, (base, bytes, address));
    if (b && base)
        *base = b->address;
    if (b && bytes)
        *bytes = b->bytes;
    ebb_unlock();
    return b ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}

PLAIN_CALL(cuMemGetAddressRange_v2, (CUdeviceptr * base, size_t *bytes, CUdeviceptr address),
           address_range(base, bytes, address))

/* The driver knows our memory as VMM mappings; these are the questions whose answers would show it. True:
 * answered. */
static bool answer_pointer(const ebb_buffer_t *b, CUpointer_attribute attribute, void *out)
{
    const ebb_device_t *dev = b->range->device;
    switch (attribute) {
    case CU_POINTER_ATTRIBUTE_CONTEXT: /* what is allocated on a stream belongs to none */
        *(CUcontext *)out = b->stream_ordered ? NULL : dev->context;
        return true;
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
        *(CUdeviceptr *)out = b->address;
        return true;
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
        *(size_t *)out = b->bytes;
        return true;
    case CU_POINTER_ATTRIBUTE_BUFFER_ID:
        *(unsigned long long *)out = b->generation;
        return true;
    case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
        *(CUmemoryPool *)out = b->pool;
        if (b->stream_ordered && !b->pool)
            ebb_driver.cuDeviceGetDefaultMemPool(out, dev->device);
        return true;
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE: /* also while it is evicted */
        *(unsigned *)out = CU_MEMORYTYPE_DEVICE;
        return true;
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
        *(int *)out = dev->device;
        return true;
    case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
        *(unsigned long long *)out = CU_MEM_HANDLE_TYPE_NONE;
        return true;
    case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
        *(unsigned *)out = CU_POINTER_ATTRIBUTE_ACCESS_FLAG_READWRITE;
        return true;
    case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
        *(unsigned *)out = 0;
        return true;
    case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
        *(unsigned *)out = b->pinned && ebb_sync_memops(dev->ebb);
        return true;
    case CU_POINTER_ATTRIBUTE_MAPPED:
        *(unsigned *)out = 1;
        return true;
    default:
        return false;
    }
}

static CUresult pointer_attribute(void *out, CUpointer_attribute attribute, CUdeviceptr address)
{
    ebb_buffer_t *b;
    if (!out || !ask(address, &b))
        return EBB_PASS(cuPointerGetAttribute, (out, attribute, address));
    bool answered =
        b && (answer_pointer(b, attribute, out) ||
              (attribute == CU_POINTER_ATTRIBUTE_DEVICE_POINTER && (*(CUdeviceptr *)out = address)));
    ebb_unlock();
    if (!b)
        return CUDA_ERROR_INVALID_VALUE;
    return answered ? CUDA_SUCCESS : EBB_PASS(cuPointerGetAttribute, (out, attribute, address));
}

PLAIN_CALL(cuPointerGetAttribute, (void *out, CUpointer_attribute attribute, CUdeviceptr address),
           pointer_attribute(out, attribute, address))

static CUresult pointer_attributes(unsigned count, CUpointer_attribute *attributes, void **out,
                                   CUdeviceptr address)
{
    ebb_buffer_t *b;
    const bool ours = ask(address, &b);
    if (ours)
        ebb_unlock();
    /* Of what was freed the driver may still know a mapping: it is asked about what it knows nothing of. */
    const CUdeviceptr asked = ours && !b ? 0 : address;
    CUresult result = EBB_PASS(cuPointerGetAttributes, (count, attributes, out, asked));
    if (result || !b || !ask(address, &b))
        return result;
    for (unsigned i = 0; b && i < count; i++) {
        if (attributes[i] == CU_POINTER_ATTRIBUTE_DEVICE_POINTER)
            *(CUdeviceptr *)out[i] = address;
        else
            answer_pointer(b, attributes[i], out[i]);
    }
    ebb_unlock();
    return CUDA_SUCCESS;
}

PLAIN_CALL(cuPointerGetAttributes,
           (unsigned count, CUpointer_attribute *attributes, void **out, CUdeviceptr address),
           pointer_attributes(count, attributes, out, address))
