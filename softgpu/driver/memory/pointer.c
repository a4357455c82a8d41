/* pointer.c: what a pointer is: the attributes of addresses. */
#include "softgpu/driver/sg.h"

#include <string.h>

uint64_t sg_next_allocation_id(void)
{
    static _Atomic uint64_t last;
    return atomic_fetch_add(&last, 1) + 1;
}

/* What is known of an address: device or managed memory, or pinned host memory. */
typedef struct known {
    sg_extent_t extent;
    const sg_host_range_t *pinned; /* NULL: `extent` holds it */
    bool managed;
} known_t;

static bool know_locked(CUdeviceptr p, known_t *out)
{
    *out = (known_t){0};
    if (sg_extent_find_locked(p, &out->extent))
        out->managed = out->extent.pool && out->extent.pool->managed;
    else
        out->pinned = sg_host_find_locked((void *)(uintptr_t)p);
    return out->extent.handle || out->pinned;
}

static CUdeviceptr host_base(const known_t *k)
{
    return (CUdeviceptr)(uintptr_t)k->pinned->base;
}

/* A range that is reserved and nothing mapped there has these attributes. */
static CUresult unmapped_attribute(CUpointer_attribute attribute, CUdeviceptr p, void *out)
{
    const sg_range_t *r = sg_window_find_locked(p);
    if (!r || r->kind != SG_RANGE_RESERVED)
        return CUDA_ERROR_INVALID_VALUE;
    switch (attribute) {
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
        *(CUdeviceptr *)out = r->base;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
        *(size_t *)out = r->bytes;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_MAPPED:
        *(unsigned *)out = 0;
        return CUDA_SUCCESS;
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
}

/* Of VMM memory the range is the reservation, of other memory the allocation. */
static void range_of(const known_t *k, CUdeviceptr *base, size_t *bytes)
{
    bool reserved = !k->pinned && k->extent.range->kind == SG_RANGE_RESERVED;
    *base = k->pinned ? host_base(k) : reserved ? k->extent.range->base : k->extent.base;
    *bytes = k->pinned ? k->pinned->bytes : reserved ? k->extent.range->bytes : k->extent.bytes;
}

static CUresult attribute_of(CUpointer_attribute attribute, CUdeviceptr p, void *out)
{
    known_t k;
    if (!know_locked(p, &k))
        return unmapped_attribute(attribute, p, out);
    const sg_extent_t *e = &k.extent;
    const sg_pool_t *pool = e->pool;
    CUdeviceptr base;
    size_t bytes;
    range_of(&k, &base, &bytes);
    bool host_side = k.pinned || e->access.host;
    switch (attribute) {
    case CU_POINTER_ATTRIBUTE_CONTEXT:
        *(CUcontext *)out = k.pinned ? k.pinned->ctx : e->ctx;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
        *(unsigned *)out =
            k.pinned || (e->device == SG_HOST && !k.managed) ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
        *(CUdeviceptr *)out = p;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
        if (host_side)
            *(void **)out = (void *)(uintptr_t)p;
        return host_side ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    case CU_POINTER_ATTRIBUTE_BUFFER_ID:
        *(unsigned long long *)out = k.pinned ? k.pinned->id : e->id;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
        *(unsigned *)out = k.managed;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
        *(unsigned *)out = pool && pool->hidden && !k.managed;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
    case CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE:
        *(unsigned *)out = 0;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_MAPPED:
        *(unsigned *)out = 1;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
        *(int *)out = k.pinned ? (int)k.pinned->ctx->device : e->device == SG_HOST ? 0 : (int)e->device;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
        *(CUdeviceptr *)out = base;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
        *(size_t *)out = bytes;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
        *(unsigned long long *)out = k.pinned ? 0 : pool ? pool->handle_types : e->handle->handle_types;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
        *(unsigned *)out = k.pinned ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE
                                    : sg_access_flags(&e->access, sg_current_context()->device);
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
        *(CUmemoryPool *)out = pool && !pool->hidden ? (CUmemoryPool)pool : NULL;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS: {
        const bool *flag = k.pinned ? &k.pinned->sync_memops : sg_heap_sync_memops_locked(p);
        *(unsigned *)out = flag && *flag;
        return CUDA_SUCCESS;
    }
    default:
        return (unsigned)attribute > CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE || !attribute
                   ? CUDA_ERROR_INVALID_VALUE
                   : CUDA_ERROR_NOT_SUPPORTED;
    }
}

SG_EXPORT CUresult cuPointerGetAttribute(void *out, CUpointer_attribute attribute, CUdeviceptr p)
{
    SG_TRY(sg_enter_context());
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    sg_lock();
    CUresult result = attribute_of(attribute, p, out);
    sg_unlock();
    return result;
}

static bool is_wide(CUpointer_attribute attribute)
{
    switch (attribute) {
    case CU_POINTER_ATTRIBUTE_CONTEXT:
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
    case CU_POINTER_ATTRIBUTE_BUFFER_ID:
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
    case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
    case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
        return true;
    default:
        return false;
    }
}

/* Of the range of an address that belongs to no memory a list of questions says nothing (H200, driver 580.159.04). */
static bool is_of_range(CUpointer_attribute attribute)
{
    return attribute == CU_POINTER_ATTRIBUTE_RANGE_START_ADDR || attribute == CU_POINTER_ATTRIBUTE_RANGE_SIZE;
}

/* Unlike the single form, an address that belongs to no memory is no error: values are 0, or stay as they were. */
SG_EXPORT CUresult cuPointerGetAttributes(unsigned count, CUpointer_attribute *attributes, void **out,
                                          CUdeviceptr p)
{
    SG_TRY(sg_enter_context());
    if (!attributes || !out || !count)
        return CUDA_ERROR_INVALID_VALUE;
    sg_lock();
    for (unsigned i = 0; i < count; i++)
        if (attribute_of(attributes[i], p, out[i]) && !is_of_range(attributes[i])) {
            memset(out[i], 0, is_wide(attributes[i]) ? 8 : 4);
            if (attributes[i] == CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL)
                *(int *)out[i] = CU_DEVICE_INVALID;
        }
    sg_unlock();
    return CUDA_SUCCESS;
}

SG_EXPORT CUresult cuPointerSetAttribute(const void *value, CUpointer_attribute attribute, CUdeviceptr p)
{
    SG_TRY(sg_enter_context());
    if (!value || attribute != CU_POINTER_ATTRIBUTE_SYNC_MEMOPS)
        return CUDA_ERROR_INVALID_VALUE;
    sg_lock();
    sg_host_range_t *pinned = sg_host_find_locked((void *)(uintptr_t)p);
    bool *flag = pinned ? &pinned->sync_memops : sg_heap_sync_memops_locked(p);
    if (flag)
        *flag = *(const unsigned *)value != 0;
    sg_unlock();
    return flag ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

SG_EXPORT CUresult cuMemGetAddressRange_v2(CUdeviceptr *base, size_t *size, CUdeviceptr address)
{
    SG_TRY(sg_enter_context());
    known_t k;
    sg_lock();
    bool found = know_locked(address, &k);
    if (found && base)
        *base = k.pinned ? host_base(&k) : k.extent.base;
    if (found && size)
        *size = k.pinned ? k.pinned->bytes : k.extent.bytes;
    sg_unlock();
    return found ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}
