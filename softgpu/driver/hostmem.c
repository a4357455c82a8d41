/* hostmem.c: pinned host memory. Here "pinned" is a promise without substance: the workers reach all host
 * memory anyway. What matters is which memory counts as pinned, because copies behave differently (copy.c).
 */
#include "streams.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

typedef struct host_range {
    char *base;
    size_t bytes;
    unsigned flags;
    bool registered; /* the program's own memory */
} host_range_t;

static struct {
    host_range_t *range; /* sorted by base; guarded by sg.lock */
    size_t count, capacity;
} host;

static size_t host_above(const char *p)
{
    size_t low = 0, high = host.count;
    while (low < high) {
        size_t mid = (low + high) / 2;
        if (host.range[mid].base <= p)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

static host_range_t *host_find(const void *p)
{
    size_t i = host_above(p);
    if (!i)
        return NULL;
    host_range_t *r = &host.range[i - 1];
    return (size_t)((const char *)p - r->base) < r->bytes ? r : NULL;
}

bool sg_host_is_pinned_locked(const void *p, size_t bytes)
{
    const host_range_t *r = host_find(p);
    return r && bytes <= r->bytes - (size_t)((const char *)p - r->base);
}

static CUresult host_insert(host_range_t range)
{
    size_t i = host_above(range.base);
    if ((i && host.range[i - 1].base + host.range[i - 1].bytes > range.base) ||
        (i < host.count && range.base + range.bytes > host.range[i].base))
        return CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
    if (host.count == host.capacity) {
        size_t capacity = host.capacity ? 2 * host.capacity : 64;
        host_range_t *grown = realloc(host.range, capacity * sizeof *grown);
        if (!grown)
            return CUDA_ERROR_OUT_OF_MEMORY;
        host.range = grown;
        host.capacity = capacity;
    }
    memmove(host.range + i + 1, host.range + i, (host.count - i) * sizeof *host.range);
    host.range[i] = range;
    host.count++;
    return CUDA_SUCCESS;
}

static void host_remove(host_range_t *r)
{
    size_t i = (size_t)(r - host.range);
    memmove(r, r + 1, (host.count - i - 1) * sizeof *r);
    host.count--;
}

SG_EXPORT CUresult cuMemHostAlloc(void **out, size_t bytes, unsigned flags)
{
    SG_TRY(sg_enter_unsafe());
    unsigned known = CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP | CU_MEMHOSTALLOC_WRITECOMBINED;
    if (!out || !bytes || flags & ~known)
        return CUDA_ERROR_INVALID_VALUE;
    bytes = SG_ROUND_UP(bytes, (size_t)4096);
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED)
        return CUDA_ERROR_OUT_OF_MEMORY;
    sg_lock();
    CUresult result = host_insert((host_range_t){.base = p, .bytes = bytes, .flags = flags});
    sg_unlock();
    if (result)
        munmap(p, bytes);
    else
        *out = p;
    return result;
}

SG_EXPORT CUresult cuMemAllocHost_v2(void **out, size_t bytes)
{
    return cuMemHostAlloc(out, bytes, 0);
}

/* Waits for the device, as the driver does: work in flight may still use the memory. */
SG_EXPORT CUresult cuMemFreeHost(void *p)
{
    SG_TRY(sg_enter_unsafe());
    SG_TRY(sg_wait_all());
    sg_lock();
    host_range_t *r = host_find(p);
    bool ours = r && r->base == p && !r->registered;
    size_t bytes = ours ? r->bytes : 0;
    if (ours)
        host_remove(r);
    sg_unlock();
    if (!ours)
        return CUDA_ERROR_INVALID_VALUE;
    munmap(p, bytes);
    return CUDA_SUCCESS;
}

SG_EXPORT CUresult cuMemHostRegister_v2(void *p, size_t bytes, unsigned flags)
{
    SG_TRY(sg_enter_unsafe());
    unsigned known =
        CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP | CU_MEMHOSTREGISTER_READ_ONLY;
    if (!p || !bytes)
        return CUDA_ERROR_INVALID_VALUE;
    if (flags & ~known)
        return flags & CU_MEMHOSTREGISTER_IOMEMORY ? CUDA_ERROR_NOT_SUPPORTED : CUDA_ERROR_INVALID_VALUE;
    if (sg_window_contains((CUdeviceptr)(uintptr_t)p))
        return CUDA_ERROR_INVALID_VALUE;
    sg_lock();
    CUresult result =
        host_insert((host_range_t){.base = p, .bytes = bytes, .flags = flags, .registered = true});
    sg_unlock();
    return result;
}

SG_EXPORT CUresult cuMemHostUnregister(void *p)
{
    SG_TRY(sg_enter_unsafe());
    SG_TRY(sg_wait_all());
    sg_lock();
    host_range_t *r = host_find(p);
    bool ours = r && r->base == p && r->registered;
    if (ours)
        host_remove(r);
    sg_unlock();
    return ours ? CUDA_SUCCESS : CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
}

/* Addresses are unified: the device reaches pinned memory where the host does. */
SG_EXPORT CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr *out, void *p, unsigned flags)
{
    SG_TRY(sg_enter_context());
    if (!out || flags)
        return CUDA_ERROR_INVALID_VALUE;
    sg_lock();
    bool pinned = sg_host_is_pinned_locked(p, 1);
    sg_unlock();
    if (!pinned)
        return CUDA_ERROR_INVALID_VALUE;
    *out = (CUdeviceptr)(uintptr_t)p;
    return CUDA_SUCCESS;
}

SG_EXPORT CUresult cuMemHostGetFlags(unsigned *flags, void *p)
{
    SG_TRY(sg_enter_context());
    sg_lock();
    const host_range_t *r = host_find(p);
    if (r && flags)
        *flags = r->flags | (r->registered ? 0 : CU_MEMHOSTALLOC_DEVICEMAP);
    sg_unlock();
    return r && flags ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* ---- what a pointer is ---- */

static CUresult attribute_of(CUpointer_attribute attribute, CUdeviceptr p, void *out)
{
    sg_extent_t extent;
    bool device = sg_extent_find_locked(p, &extent);
    const host_range_t *pinned = device ? NULL : host_find((void *)(uintptr_t)p);
    if (!device && !pinned)
        return CUDA_ERROR_INVALID_VALUE;
    switch (attribute) {
    case CU_POINTER_ATTRIBUTE_CONTEXT:
        *(CUcontext *)out = &sg.ctx;
        break;
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
        *(unsigned *)out = device ? CU_MEMORYTYPE_DEVICE : CU_MEMORYTYPE_HOST;
        break;
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
        *(CUdeviceptr *)out = p;
        break;
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
        if (device)
            return CUDA_ERROR_INVALID_VALUE;
        *(void **)out = (void *)(uintptr_t)p;
        break;
    case CU_POINTER_ATTRIBUTE_BUFFER_ID:
        *(unsigned long long *)out = device ? extent.base : (CUdeviceptr)(uintptr_t)pinned->base;
        break;
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
    case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
        *(unsigned *)out = 0;
        break;
    case CU_POINTER_ATTRIBUTE_MAPPED:
        *(unsigned *)out = 1;
        break;
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
        *(int *)out = 0;
        break;
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
        *(CUdeviceptr *)out = device ? extent.base : (CUdeviceptr)(uintptr_t)pinned->base;
        break;
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
        *(size_t *)out = device ? extent.bytes : pinned->bytes;
        break;
    case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
        *(unsigned long long *)out = 0;
        break;
    case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
        *(unsigned *)out = device ? extent.access : CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
        break;
    case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
        *(CUmemoryPool *)out = device && extent.pool != &sg_sync_heap ? (CUmemoryPool)extent.pool : NULL;
        break;
    case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
        *(unsigned *)out = 0;
        break;
    default:
        return CUDA_ERROR_NOT_SUPPORTED;
    }
    return CUDA_SUCCESS;
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

/* Unlike the single form, a pointer that is nobody's is no error: all values are 0. */
SG_EXPORT CUresult cuPointerGetAttributes(unsigned count, CUpointer_attribute *attributes, void **out,
                                          CUdeviceptr p)
{
    SG_TRY(sg_enter_context());
    if (!attributes || !out)
        return CUDA_ERROR_INVALID_VALUE;
    sg_lock();
    for (unsigned i = 0; i < count; i++) {
        bool wide = attributes[i] == CU_POINTER_ATTRIBUTE_CONTEXT ||
                    attributes[i] == CU_POINTER_ATTRIBUTE_DEVICE_POINTER ||
                    attributes[i] == CU_POINTER_ATTRIBUTE_HOST_POINTER ||
                    attributes[i] == CU_POINTER_ATTRIBUTE_BUFFER_ID ||
                    attributes[i] == CU_POINTER_ATTRIBUTE_RANGE_START_ADDR ||
                    attributes[i] == CU_POINTER_ATTRIBUTE_RANGE_SIZE ||
                    attributes[i] == CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES ||
                    attributes[i] == CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE;
        if (attribute_of(attributes[i], p, out[i]) == CUDA_SUCCESS)
            continue;
        memset(out[i], attributes[i] == CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL ? 0xff : 0, wide ? 8 : 4);
    }
    sg_unlock();
    return CUDA_SUCCESS;
}
