/* vmm.c: the virtual memory management calls, with the hardware's rules:
 * sizes and addresses in units of 2 MiB; a mapping takes a whole handle at offset 0; several mappings of one
 * handle are aliases of one another; a fresh mapping is inaccessible until cuMemSetAccess; unmapping takes
 * whole mappings, waits for nothing, and what still runs there faults; a released handle lives on while it is
 * mapped.
 */
#include "softgpu/driver/rules.h"
#include "softgpu/driver/simt/shadow.h"
#include "softgpu/driver/stream/streams.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- handles: slot and generation, so that a stale one is told from a new one in the same slot ---- */

static struct {
    sg_handle_t **slot;
    uint32_t *generation;
    size_t count, capacity;
} handles;

uint64_t sg_handle_publish_locked(sg_handle_t *h)
{
    size_t i = 0;
    while (i < handles.count && handles.slot[i])
        i++;
    if (i == handles.capacity) {
        size_t capacity = handles.capacity ? 2 * handles.capacity : 256;
        void *slot = realloc(handles.slot, capacity * sizeof *handles.slot);
        if (slot)
            handles.slot = slot;
        void *generation = realloc(handles.generation, capacity * sizeof *handles.generation);
        if (generation)
            handles.generation = generation;
        if (!slot || !generation)
            return 0;
        memset(handles.generation + handles.capacity, 0,
               (capacity - handles.capacity) * sizeof *handles.generation);
        handles.capacity = capacity;
    }
    if (i == handles.count)
        handles.count++;
    handles.slot[i] = h;
    h->id = (uint64_t)++handles.generation[i] << 32 | (i + 1);
    return h->id;
}

sg_handle_t *sg_handle_find_locked(CUmemGenericAllocationHandle id)
{
    size_t i = (size_t)(id & 0xffffffff) - 1;
    if (i >= handles.count || !handles.slot[i] || handles.slot[i]->id != id)
        return NULL;
    return handles.slot[i];
}

static CUresult check_supported(void)
{
    return sg.limits.vmm ? CUDA_SUCCESS : CUDA_ERROR_NOT_SUPPORTED;
}

/* Sets the device whose memory it is, SG_HOST for the host's. */
static CUresult check_props(const CUmemAllocationProp *props, unsigned *device)
{
    if (!props || props->type != CU_MEM_ALLOCATION_TYPE_PINNED)
        return CUDA_ERROR_INVALID_VALUE;
    unsigned types = (unsigned)props->requestedHandleTypes;
    bool numa = props->location.type == CU_MEM_LOCATION_TYPE_HOST_NUMA;
    if (props->location.type == CU_MEM_LOCATION_TYPE_DEVICE) {
        SG_TRY(sg_device_check(props->location.id));
        *device = (unsigned)props->location.id;
    } else if (props->location.type == CU_MEM_LOCATION_TYPE_HOST || (numa && !props->location.id)) {
        if (!numa && types)
            return CUDA_ERROR_INVALID_VALUE;
        *device = SG_HOST;
    } else {
        return CUDA_ERROR_INVALID_VALUE;
    }
    if (types & ~(unsigned)CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR || props->allocFlags.usage)
        return CUDA_ERROR_NOT_SUPPORTED; /* neither fabric nor tile pools */
    return CUDA_SUCCESS;
}

SG_EXPORT CUresult cuMemGetAllocationGranularity(size_t *granularity, const CUmemAllocationProp *props,
                                                 CUmemAllocationGranularity_flags option)
{
    SG_TRY(sg_enter());
    if (!granularity || option > CU_MEM_ALLOC_GRANULARITY_RECOMMENDED)
        return CUDA_ERROR_INVALID_VALUE;
    SG_TRY(check_supported());
    unsigned device;
    SG_TRY(check_props(props, &device));
    *granularity = SG_CHUNK_BYTES;
    return CUDA_SUCCESS;
}

/* Memory that may be exported has a file of its own. */
static sg_handle_t *create_locked(unsigned device, size_t bytes, unsigned handle_types)
{
    if (!handle_types)
        return sg_phys_create_locked(device, bytes);
    int fd = sg_phys_file(device, bytes);
    sg_phys_file_t file = {.fd = fd, .owns = true, .charged = true};
    sg_handle_t *h = fd < 0 ? NULL : sg_phys_create_in_locked(device, bytes, file);
    if (!h && fd >= 0)
        close(fd);
    return h;
}

SG_EXPORT CUresult cuMemCreate(CUmemGenericAllocationHandle *out, size_t bytes,
                               const CUmemAllocationProp *props, unsigned long long flags)
{
    unsigned device;
    SG_TRY(sg_enter_context());
    SG_TRY(check_supported());
    SG_TRY(check_props(props, &device));
    if (!out || !bytes || bytes % SG_CHUNK_BYTES || flags)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult result = CUDA_ERROR_OUT_OF_MEMORY;
    sg_lock();
    sg_handle_t *h = create_locked(device, bytes, (unsigned)props->requestedHandleTypes);
    if (h) {
        h->location = props->location;
        h->handle_types = (unsigned)props->requestedHandleTypes;
        *out = sg_handle_publish_locked(h);
        result = *out ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
        if (result)
            sg_phys_unref_locked(h);
    }
    sg_unlock();
    return result;
}

SG_EXPORT CUresult cuMemRelease(CUmemGenericAllocationHandle handle)
{
    SG_TRY(sg_enter_context());
    sg_lock();
    sg_handle_t *h = sg_handle_find_locked(handle);
    if (h) {
        if (!--h->owners) {
            handles.slot[(handle & 0xffffffff) - 1] = NULL;
            h->id = 0;
        }
        sg_phys_unref_locked(h);
    }
    sg_unlock();
    if (!h)
        return sg_broken(SG_RULE_HANDLE, CUDA_ERROR_INVALID_VALUE,
                         "cuMemRelease: 0x%llx is not a handle, or released already", handle);
    return CUDA_SUCCESS;
}

SG_EXPORT CUresult cuMemGetAllocationPropertiesFromHandle(CUmemAllocationProp *props,
                                                          CUmemGenericAllocationHandle handle)
{
    SG_TRY(sg_enter_context());
    sg_lock();
    const sg_handle_t *h = props ? sg_handle_find_locked(handle) : NULL;
    if (h)
        *props = (CUmemAllocationProp){.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                       .requestedHandleTypes = (CUmemAllocationHandleType)h->handle_types,
                                       .location = h->location};
    sg_unlock();
    return h ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* ---- reservations ---- */

SG_EXPORT CUresult cuMemAddressReserve(CUdeviceptr *out, size_t bytes, size_t alignment, CUdeviceptr wanted,
                                       unsigned long long flags)
{
    SG_TRY(sg_enter_context());
    if (!out || !bytes || bytes % SG_CHUNK_BYTES || flags || (alignment & (alignment - 1)))
        return CUDA_ERROR_INVALID_VALUE;
    SG_TRY(check_supported());
    if (bytes > sg.limits.reserve)
        return CUDA_ERROR_OUT_OF_MEMORY;
    sg_lock();
    sg_range_t *r = sg_window_reserve_locked(bytes, alignment, wanted, SG_RANGE_RESERVED);
    if (r)
        *out = r->base;
    sg_unlock();
    return r ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

SG_EXPORT CUresult cuMemAddressFree(CUdeviceptr address, size_t bytes)
{
    SG_TRY(sg_enter_context());
    sg_lock();
    sg_range_t *r = sg_window_find_locked(address);
    CUresult result = CUDA_ERROR_INVALID_VALUE;
    if (!r || r->kind != SG_RANGE_RESERVED || r->base != address || r->bytes != bytes)
        sg_broken(SG_RULE_RESERVATION, result, "cuMemAddressFree: %zu bytes at 0x%llx are not a reservation",
                  bytes, address);
    else if (r->mapping_count)
        sg_broken(SG_RULE_RELEASE_ORDER, result, "cuMemAddressFree: %zu mappings are left in the range",
                  r->mapping_count);
    else
        result = CUDA_SUCCESS, sg_window_free_locked(r);
    sg_unlock();
    return result;
}

/* ---- mappings ---- */

/* The reserved range that holds all of [address, address + bytes), or NULL. */
static sg_range_t *find_reserved(CUdeviceptr address, size_t bytes)
{
    sg_range_t *r = sg_window_find_locked(address);
    if (!r || r->kind != SG_RANGE_RESERVED || bytes > r->bytes - (address - r->base))
        return NULL;
    return r;
}

/* Index of the first mapping that ends above `address`. */
static size_t mapping_at(const sg_range_t *r, CUdeviceptr address)
{
    size_t low = 0, high = r->mapping_count;
    while (low < high) {
        size_t mid = (low + high) / 2;
        if (r->mappings[mid].address + r->mappings[mid].bytes <= address)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

static CUresult map_locked(sg_range_t *r, CUdeviceptr address, sg_handle_t *h)
{
    size_t i = mapping_at(r, address);
    if (i < r->mapping_count && r->mappings[i].address < address + h->bytes)
        return sg_broken(SG_RULE_DOUBLE_MAP, CUDA_ERROR_INVALID_VALUE,
                         "cuMemMap: something is mapped between 0x%llx and 0x%llx", address,
                         address + h->bytes);
    if (r->mapping_count == r->mapping_capacity) {
        size_t capacity = r->mapping_capacity ? 2 * r->mapping_capacity : 8;
        sg_mapping_t *grown = realloc(r->mappings, capacity * sizeof *grown);
        if (!grown)
            return CUDA_ERROR_OUT_OF_MEMORY;
        r->mappings = grown;
        r->mapping_capacity = capacity;
    }
    SG_TRY(sg_phys_map(address, h));
    memmove(r->mappings + i + 1, r->mappings + i, (r->mapping_count - i) * sizeof *r->mappings);
    r->mappings[i] =
        (sg_mapping_t){.address = address, .bytes = h->bytes, .handle = h, .id = sg_next_allocation_id()};
    r->mapping_count++;
    h->refs++;
    sg_live_add_mapping(address, h);
    sg_order_mapped_locked(h);
    return CUDA_SUCCESS;
}

SG_EXPORT CUresult cuMemMap(CUdeviceptr address, size_t bytes, size_t offset,
                            CUmemGenericAllocationHandle handle, unsigned long long flags)
{
    SG_TRY(sg_enter_context());
    if (address % SG_CHUNK_BYTES || !bytes || flags)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult result = CUDA_ERROR_INVALID_VALUE;
    sg_lock();
    sg_range_t *r = find_reserved(address, bytes);
    sg_handle_t *h = sg_handle_find_locked(handle);
    if (!h)
        sg_broken(SG_RULE_HANDLE, result, "cuMemMap: 0x%llx is not a handle", handle);
    else if (!r)
        sg_broken(SG_RULE_RESERVATION, result, "cuMemMap: %zu bytes at 0x%llx are not reserved", bytes,
                  address);
    else if (offset || bytes != h->bytes)
        result =
            sg_broken(SG_RULE_WHOLE_HANDLE, CUDA_ERROR_NOT_SUPPORTED,
                      "cuMemMap: only a whole handle at offset 0 can be mapped (%zu bytes at %zu of %zu)",
                      bytes, offset, h->bytes);
    else
        result = map_locked(r, address, h);
    sg_unlock();
    return result;
}

/* Whether [address, address + bytes) is whole mappings without gaps; sets first and count of them. */
static bool whole_mappings(const sg_range_t *r, CUdeviceptr address, size_t bytes, size_t *first,
                           size_t *count)
{
    CUdeviceptr at = address;
    *first = mapping_at(r, address);
    size_t i = *first;
    while (at < address + bytes && i < r->mapping_count && r->mappings[i].address == at)
        at += r->mappings[i++].bytes;
    *count = i - *first;
    return at == address + bytes;
}

static bool nothing_mapped(const sg_range_t *r, CUdeviceptr address, size_t bytes)
{
    const size_t i = mapping_at(r, address);
    return i == r->mapping_count || r->mappings[i].address >= address + bytes;
}

SG_EXPORT CUresult cuMemUnmap(CUdeviceptr address, size_t bytes)
{
    SG_TRY(sg_enter_context());
    size_t first, count;
    sg_lock();
    sg_range_t *r = bytes ? find_reserved(address, bytes) : NULL;
    const bool nothing = r && nothing_mapped(r, address, bytes); /* no error (H200, driver 580.159.04) */
    const bool whole = r && !nothing && whole_mappings(r, address, bytes, &first, &count);
    if (whole) {
        sg_order_unmapping_locked(address, bytes);
        sg_phys_unmap(address, bytes);
        sg_live_remove(address, bytes);
        for (size_t i = first; i < first + count; i++) {
            sg_order_unmapped_locked(r->mappings[i].handle);
            sg_phys_unref_locked(r->mappings[i].handle);
        }
        memmove(r->mappings + first, r->mappings + first + count,
                (r->mapping_count - first - count) * sizeof *r->mappings);
        r->mapping_count -= count;
    }
    sg_unlock();
    if (!whole && !nothing)
        return sg_broken(SG_RULE_PARTIAL_UNMAP, CUDA_ERROR_INVALID_VALUE,
                         "cuMemUnmap: %zu bytes at 0x%llx are not whole mappings", bytes, address);
    return CUDA_SUCCESS;
}

/* ---- access ---- */

static CUresult apply(sg_access_t *a, const CUmemAccessDesc *d, unsigned memory_of)
{
    bool writes = d->flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    bool reads = writes || d->flags == CU_MEM_ACCESS_FLAGS_PROT_READ;
    if (d->location.type != CU_MEM_LOCATION_TYPE_DEVICE) {
        if (memory_of != SG_HOST)
            return CUDA_ERROR_INVALID_VALUE; /* the host cannot be let into device memory */
        a->host = reads;
        return CUDA_SUCCESS;
    }
    uint8_t bit = (uint8_t)(1u << d->location.id);
    a->readers = reads ? a->readers | bit : a->readers & (uint8_t)~bit;
    a->writers = writes ? a->writers | bit : a->writers & (uint8_t)~bit;
    return CUDA_SUCCESS;
}

static CUresult set_access_locked(sg_range_t *r, size_t first, size_t n, const CUmemAccessDesc *descs,
                                  size_t count)
{
    for (size_t i = first; i < first + n; i++) {
        sg_mapping_t *m = &r->mappings[i];
        sg_access_t access = m->access;
        for (size_t d = 0; d < count; d++)
            SG_TRY(apply(&access, &descs[d], m->handle->device));
        m->access = access;
    }
    /* Neighbours with the same rights in one system call. */
    for (size_t i = first, end; i < first + n; i = end) {
        const sg_mapping_t *m = &r->mappings[i];
        size_t bytes = 0;
        for (end = i; end < first + n && !memcmp(&r->mappings[end].access, &m->access, sizeof m->access);
             end++)
            bytes += r->mappings[end].bytes;
        SG_TRY(sg_phys_protect_locked(m->address, bytes, &m->access));
    }
    for (size_t i = first; i < first + n; i++)
        sg_live_set_access(r->mappings[i].address, &r->mappings[i].access);
    return CUDA_SUCCESS;
}

static bool is_host(CUmemLocationType type)
{
    return type == CU_MEM_LOCATION_TYPE_HOST || type == CU_MEM_LOCATION_TYPE_HOST_NUMA;
}

static CUresult check_desc(const CUmemAccessDesc *d)
{
    if (d->flags != CU_MEM_ACCESS_FLAGS_PROT_NONE && d->flags != CU_MEM_ACCESS_FLAGS_PROT_READ &&
        d->flags != CU_MEM_ACCESS_FLAGS_PROT_READWRITE)
        return CUDA_ERROR_INVALID_VALUE;
    if (is_host(d->location.type))
        return CUDA_SUCCESS;
    return d->location.type == CU_MEM_LOCATION_TYPE_DEVICE ? sg_device_check(d->location.id)
                                                           : CUDA_ERROR_INVALID_DEVICE;
}

SG_EXPORT CUresult cuMemSetAccess(CUdeviceptr address, size_t bytes, const CUmemAccessDesc *desc,
                                  size_t count)
{
    SG_TRY(sg_enter_context());
    if (!desc || !count || !bytes)
        return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < count; i++)
        SG_TRY(check_desc(&desc[i]));
    size_t first, n;
    sg_lock();
    sg_range_t *r = find_reserved(address, bytes);
    CUresult result = CUDA_ERROR_INVALID_VALUE;
    if (r && whole_mappings(r, address, bytes, &first, &n))
        result = set_access_locked(r, first, n, desc, count);
    else
        sg_broken(SG_RULE_MAPPED_THROUGHOUT, result,
                  "cuMemSetAccess: %zu bytes at 0x%llx are not mapped throughout", bytes, address);
    sg_unlock();
    return result;
}

SG_EXPORT CUresult cuMemGetAccess(unsigned long long *flags, const CUmemLocation *location,
                                  CUdeviceptr address)
{
    SG_TRY(sg_enter_context());
    if (!flags || !location)
        return CUDA_ERROR_INVALID_VALUE;
    bool host = is_host(location->type);
    if (!host && location->type != CU_MEM_LOCATION_TYPE_DEVICE)
        return CUDA_ERROR_INVALID_VALUE;
    if (!host)
        SG_TRY(sg_device_check(location->id));
    sg_extent_t extent;
    sg_lock();
    bool found = sg_extent_find_locked(address, &extent);
    sg_unlock();
    if (!found)
        return CUDA_ERROR_INVALID_VALUE;
    *flags = !host                ? sg_access_flags(&extent.access, (unsigned)location->id)
             : extent.access.host ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE
                                  : CU_MEM_ACCESS_FLAGS_PROT_NONE;
    return CUDA_SUCCESS;
}

SG_EXPORT CUresult cuMemRetainAllocationHandle(CUmemGenericAllocationHandle *out, void *address)
{
    SG_TRY(sg_enter_context());
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    CUdeviceptr at = (CUdeviceptr)(uintptr_t)address;
    sg_handle_t *h = NULL;
    sg_lock();
    sg_range_t *r = find_reserved(at, 1);
    size_t i = r ? mapping_at(r, at) : 0;
    if (r && i < r->mapping_count && r->mappings[i].address <= at)
        h = r->mappings[i].handle;
    bool named = h && (h->id || sg_handle_publish_locked(h));
    if (named) {
        h->owners++;
        h->refs++;
        *out = h->id;
    }
    sg_unlock();
    return named ? CUDA_SUCCESS : h ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_ERROR_INVALID_VALUE;
}
