/* hostmem.c: pinned host memory. Here "pinned" is a promise without substance: the workers reach all host
 * memory anyway. What matters is which memory counts as pinned, because copies behave differently (copy.c).
 */
#include "softgpu/driver/copy/copy.h"
#include "softgpu/driver/rules.h"
#include "softgpu/driver/stream/streams.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

static struct {
    sg_host_range_t *range; /* sorted by base; guarded by sg.lock */
    size_t count, capacity;
    size_t bytes;                  /* of all of them */
    size_t pinned[SG_MAX_DEVICES]; /* by contexts of each device */
    uint32_t charged
        [SG_MAX_DEVICES]; /* chunks of the device that count as used for it (SOFTGPU_LIMITS=charge:SIZE) */
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

sg_host_range_t *sg_host_find_locked(const void *p)
{
    size_t i = host_above(p);
    if (!i)
        return NULL;
    sg_host_range_t *r = &host.range[i - 1];
    return (size_t)((const char *)p - r->base) < r->bytes ? r : NULL;
}

bool sg_host_is_pinned_locked(const void *p, size_t bytes)
{
    const sg_host_range_t *r = sg_host_find_locked(p);
    return r && bytes <= r->bytes - (size_t)((const char *)p - r->base);
}

sg_place_t sg_host_place_locked(const void *p, size_t bytes)
{
    const size_t i = host_above(p);
    const sg_host_range_t *r = sg_host_find_locked(p);
    if (r ? !sg_host_is_pinned_locked(p, bytes)
          : i < host.count && host.range[i].base < (const char *)p + bytes)
        return SG_PLACE_BAD;
    return r ? SG_PLACE_PINNED : SG_PLACE_PAGEABLE;
}

/* By how much the device's share of what is pinned grows or shrinks. */
static CUresult charge_locked(unsigned device, size_t more, size_t less)
{
    const size_t pinned = host.pinned[device] + more - less;
    const uint32_t chunks =
        (uint32_t)((double)pinned / (1 << 30) * (double)sg.limits.charge / SG_CHUNK_BYTES);
    if (!sg_phys_charge_locked(device, (int64_t)chunks - host.charged[device]))
        return CUDA_ERROR_OUT_OF_MEMORY;
    host.pinned[device] = pinned;
    host.charged[device] = chunks;
    host.bytes += more - less;
    return CUDA_SUCCESS;
}

static CUresult host_insert(sg_host_range_t range)
{
    size_t i = host_above(range.base);
    if ((i && host.range[i - 1].base + host.range[i - 1].bytes > range.base) ||
        (i < host.count && range.base + range.bytes > host.range[i].base))
        return CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
    if (host.count == host.capacity) {
        size_t capacity = host.capacity ? 2 * host.capacity : 64;
        sg_host_range_t *grown = realloc(host.range, capacity * sizeof *grown);
        if (!grown)
            return CUDA_ERROR_OUT_OF_MEMORY;
        host.range = grown;
        host.capacity = capacity;
    }
    if (range.bytes > sg.limits.pinned || host.bytes > sg.limits.pinned - range.bytes)
        return CUDA_ERROR_OUT_OF_MEMORY;
    SG_TRY(charge_locked(range.ctx->device, range.bytes, 0));
    memmove(host.range + i + 1, host.range + i, (host.count - i) * sizeof *host.range);
    host.range[i] = range;
    host.count++;
    return CUDA_SUCCESS;
}

static void host_remove(sg_host_range_t *r)
{
    size_t i = (size_t)(r - host.range);
    charge_locked(r->ctx->device, 0, r->bytes);
    memmove(r, r + 1, (host.count - i - 1) * sizeof *r);
    host.count--;
}

SG_EXPORT CUresult cuMemHostAlloc(void **out, size_t bytes, unsigned flags)
{
    SG_TRY(sg_enter_unsafe());
    unsigned known = CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP | CU_MEMHOSTALLOC_WRITECOMBINED;
    if (!out || !bytes || flags & ~known)
        return CUDA_ERROR_INVALID_VALUE;
    if (bytes > sg.limits.one_host_allocation)
        return CUDA_ERROR_OUT_OF_MEMORY;
    bytes = SG_ROUND_UP(bytes, (size_t)4096);
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED)
        return CUDA_ERROR_OUT_OF_MEMORY;
    sg_host_range_t range = {.base = p,
                             .bytes = bytes,
                             .flags = flags,
                             .ctx = sg_current_context(),
                             .id = sg_next_allocation_id()};
    sg_lock();
    CUresult result = host_insert(range);
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
    SG_TRY(sg_wait_context(NULL));
    sg_lock();
    sg_host_range_t *r = sg_host_find_locked(p);
    bool ours = r && r->base == p && !r->registered;
    size_t bytes = ours ? r->bytes : 0;
    if (ours)
        host_remove(r);
    sg_unlock();
    if (!ours)
        return sg_broken(SG_RULE_FREED, CUDA_ERROR_INVALID_VALUE, "%p is not what cuMemHostAlloc gave out",
                         p);
    munmap(p, bytes);
    return CUDA_SUCCESS;
}

void sg_host_drop_locked(CUcontext ctx)
{
    for (size_t i = host.count; i-- > 0;) {
        sg_host_range_t r = host.range[i];
        if (r.ctx != ctx)
            continue;
        host_remove(&host.range[i]);
        if (!r.registered)
            munmap(r.base, r.bytes);
    }
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
    if (bytes > sg.limits.one_registration)
        return sg.limits.one_registration ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_ERROR_NOT_SUPPORTED;
    sg_host_range_t range = {.base = p,
                             .bytes = bytes,
                             .flags = flags,
                             .registered = true,
                             .ctx = sg_current_context(),
                             .id = sg_next_allocation_id()};
    sg_lock();
    CUresult result = host_insert(range);
    sg_unlock();
    if (result == CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED)
        sg_broken(SG_RULE_REGISTERED, result, "%zu bytes at %p are pinned already, or in part", bytes, p);
    return result;
}

SG_EXPORT CUresult cuMemHostUnregister(void *p)
{
    SG_TRY(sg_enter_unsafe());
    SG_TRY(sg_wait_all());
    sg_lock();
    sg_host_range_t *r = sg_host_find_locked(p);
    bool ours = r && r->base == p && r->registered;
    if (ours)
        host_remove(r);
    sg_unlock();
    if (!ours)
        return sg_broken(SG_RULE_REGISTERED, CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED,
                         "%p is not the base of registered memory", p);
    return CUDA_SUCCESS;
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
    const sg_host_range_t *r = sg_host_find_locked(p);
    if (r && flags)
        *flags = r->flags | (r->registered ? 0 : CU_MEMHOSTALLOC_DEVICEMAP);
    sg_unlock();
    return r && flags ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
