/* share.c: calls by which something else gets at ebb's memory: other devices, other processes, network
 * cards, textures. What they reach stays where it is. */
#include <stdatomic.h>
#include <stdlib.h>

#include "alloc/base/status.h"
#include "alloc/device.h"
#include "alloc/ebb_alloc.h"
#include "ckpt/run/run.h"
#include "hook/internal.h"

/* Pins what lies at an address, if it is ebb's. */
static ebb_status_t pin_at(CUdeviceptr address)
{
    const ebb_device_t *dev = ebb_arena_contains(&ebb_global, address) ? ebb_enter_at(address) : NULL;
    if (!dev)
        return 0;
    ebb_buffer_t *b = ebb_buffer_at(dev->ebb, address);
    ebb_status_t status = b ? ebb_table_pin(b) : 0;
    ebb_unlock();
    return status;
}

/* `call` after what lies at the address was pinned. */
#define PINNED(address, call) (pin_at(address) ? CUDA_ERROR_OUT_OF_MEMORY : (call))

/* ---- other devices ---- */

/* What another device does is not all seen. */
static ebb_status_t grant(ebb_device_t *dev, CUdevice device)
{
    ebb_keep_device(dev, "another device may access it");
    return ebb_access_grant(dev, device);
}

/* The current context is given access to `peer`'s memory. */
static CUresult enable_peer(CUcontext peer, unsigned flags)
{
    CUdevice device;
    CUresult result = EBB_PASS(cuCtxEnablePeerAccess, (peer, flags));
    ebb_device_t *dev = result || ebb_driver.cuCtxGetDevice(&device) ? NULL : ebb_enter_context(peer);
    if (!dev)
        return result;
    if (device != dev->device)
        result = (CUresult)grant(dev, device);
    ebb_unlock();
    if (result && ebb_driver.cuCtxDisablePeerAccess)
        ebb_driver.cuCtxDisablePeerAccess(peer);
    return result;
}

static CUresult set_pool_access(CUmemoryPool pool, const CUmemAccessDesc *desc, size_t count)
{
    CUresult result = EBB_PASS(cuMemPoolSetAccess, (pool, desc, count));
    ebb_device_t *dev = result ? NULL : ebb_enter_any();
    if (!dev)
        return result;
    ebb_device_t *of = ebb_pool_device(dev, pool);
    bool served = of && !ebb_pool_is_native(dev, pool) && ebb_lock_go_to(of);
    for (size_t i = 0; i < count && !result && served; i++)
        if (desc[i].location.type == CU_MEM_LOCATION_TYPE_DEVICE && desc[i].flags &&
            desc[i].location.id != of->device)
            result = (CUresult)grant(of, desc[i].location.id);
    ebb_unlock();
    return result;
}

/* The driver would tell of ebb's mappings, which come and go. */
static CUresult get_access(unsigned long long *flags, const CUmemLocation *location, CUdeviceptr address)
{
    ebb_device_t *dev =
        flags && location && ebb_arena_contains(&ebb_global, address) ? ebb_enter_at(address) : NULL;
    if (!dev)
        return EBB_PASS(cuMemGetAccess, (flags, location, address));
    size_t count;
    const CUmemAccessDesc *desc = ebb_access_descs(dev, &count);
    *flags = CU_MEM_ACCESS_FLAGS_PROT_NONE;
    for (size_t i = 0; i < count; i++)
        if (location->type == CU_MEM_LOCATION_TYPE_DEVICE && location->id == desc[i].location.id)
            *flags = desc[i].flags;
    bool live = ebb_buffer_at(dev->ebb, address) != NULL;
    ebb_unlock();
    return live ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

PLAIN_CALL(cuCtxEnablePeerAccess, (CUcontext peer, unsigned flags), enable_peer(peer, flags))
PLAIN_CALL(cuMemPoolSetAccess, (CUmemoryPool pool, const CUmemAccessDesc *desc, size_t count),
           set_pool_access(pool, desc, count))
PLAIN_CALL(cuMemGetAccess, (unsigned long long *flags, const CUmemLocation *location, CUdeviceptr address),
           get_access(flags, location, address))
PLAIN_CALL(cuMulticastBindAddr,
           (CUmemGenericAllocationHandle multicast, size_t offset, CUdeviceptr address, size_t bytes,
            unsigned long long flags),
           PINNED(address, EBB_PASS(cuMulticastBindAddr, (multicast, offset, address, bytes, flags))))

/* ---- other processes ---- */

static CUresult get_ipc_handle(CUipcMemHandle *out, CUdeviceptr address)
{
    if (!ebb_arena_contains(&ebb_global, address))
        return EBB_PASS(cuIpcGetMemHandle, (out, address));
    if (!atomic_exchange(&ebb_global.hook->ipc_refused, true))
        ebb_log(EBB_WARN,
                "cuIpcGetMemHandle: ebb's memory has no IPC handles; with EBB_IPC=1 what cuMemAlloc "
                "gives is the driver's, and has");
    return CUDA_ERROR_INVALID_VALUE;
}

static CUresult note_import(CUresult result, const CUdeviceptr *address)
{
    CUdeviceptr base;
    size_t bytes = 1;
    ebb_device_t *dev = result || !address ? NULL : ebb_enter_work();
    if (!dev)
        return result;
    if (ebb_driver.cuMemGetAddressRange_v2(&base, &bytes, *address))
        base = *address;
    ebb_foreign_add(dev, &(ebb_foreign_t){base, bytes, EBB_FOREIGN_IMPORT, NULL, 0});
    ebb_unlock();
    return result;
}

static CUresult close_import(CUdeviceptr address)
{
    const ebb_device_t *dev = ebb_enter_any();
    if (dev) {
        ebb_foreign_remove(dev->ebb, address);
        ebb_unlock();
    }
    return EBB_PASS(cuIpcCloseMemHandle, (address));
}

PLAIN_CALL(cuIpcGetMemHandle, (CUipcMemHandle * out, CUdeviceptr address), get_ipc_handle(out, address))
PLAIN_CALL(cuIpcOpenMemHandle, (CUdeviceptr * out, CUipcMemHandle handle, unsigned flags),
           note_import(EBB_PASS(cuIpcOpenMemHandle, (out, handle, flags)), out))
PLAIN_CALL(cuIpcOpenMemHandle_v2, (CUdeviceptr * out, CUipcMemHandle handle, unsigned flags),
           note_import(EBB_PASS(cuIpcOpenMemHandle_v2, (out, handle, flags)), out))
PLAIN_CALL(cuIpcCloseMemHandle, (CUdeviceptr address), close_import(address))
/* Only what comes from a pool that can be exported can be: that is the driver's. */
PLAIN_CALL(cuMemPoolExportPointer, (CUmemPoolPtrExportData * out, CUdeviceptr address),
           ebb_arena_contains(&ebb_global, address) ? CUDA_ERROR_INVALID_VALUE
                                                    : EBB_PASS(cuMemPoolExportPointer, (out, address)))
PLAIN_CALL(cuMemPoolImportPointer, (CUdeviceptr * out, CUmemoryPool pool, CUmemPoolPtrExportData *data),
           note_import(EBB_PASS(cuMemPoolImportPointer, (out, pool, data)), out))

/* ---- network cards and the like ---- */

/* All that lies in the range. */
static CUresult get_range_handle(void *out, CUdeviceptr address, size_t bytes, CUmemRangeHandleType type,
                                 unsigned long long flags)
{
    ebb_device_t *dev = ebb_arena_contains(&ebb_global, address) ? ebb_enter_at(address) : NULL;
    if (dev) {
        ebb_buffer_t *b = ebb_buffer_at(dev->ebb, address);
        ebb_status_t status = b ? ebb_table_pin(b) : 0;
        if (b && address - b->address + bytes > b->range->chunk_count * EBB_CHUNK_BYTES)
            ebb_keep_device(dev, "more than a buffer of it is shown to another device");
        ebb_unlock();
        if (status)
            return CUDA_ERROR_OUT_OF_MEMORY;
    }
    return EBB_PASS(cuMemGetHandleForAddressRange, (out, address, bytes, type, flags));
}

bool ebb_sync_memops(const ebb_t *ebb)
{
    return ebb->hook && atomic_load_explicit(&ebb->hook->sync_memops, memory_order_relaxed);
}

/* The driver is not asked where the memory is ebb's (it would refuse: its own mappings have no such
 * attribute): all synchronous operations wait from then on. */
static CUresult set_pointer_attribute(const void *value, CUpointer_attribute attribute, CUdeviceptr address)
{
    if (attribute != CU_POINTER_ATTRIBUTE_SYNC_MEMOPS || !value || !ebb_arena_contains(&ebb_global, address))
        return EBB_PASS(cuPointerSetAttribute, (value, attribute, address));
    if (!*(const unsigned *)value)
        return CUDA_SUCCESS;
    if (pin_at(address))
        return CUDA_ERROR_OUT_OF_MEMORY;
    atomic_store(&ebb_global.hook->sync_memops, true);
    return ebb_captures_under_way(&ebb_global) ? CUDA_SUCCESS : ebb_waited(EBB_PASS(cuCtxSynchronize, ()));
}

PLAIN_CALL(cuMemGetHandleForAddressRange,
           (void *out, CUdeviceptr address, size_t bytes, CUmemRangeHandleType type,
            unsigned long long flags),
           get_range_handle(out, address, bytes, type, flags))
PLAIN_CALL(cuPointerSetAttribute, (const void *value, CUpointer_attribute attribute, CUdeviceptr address),
           set_pointer_attribute(value, attribute, address))

/* ---- textures: kernels get an object, not an address ---- */

typedef struct ebb_texture {
    CUtexObject object;
    ebb_pinned_ref_t buffer;
    struct ebb_texture *next;
} texture_t;

static CUdeviceptr texture_address(const CUDA_RESOURCE_DESC *d)
{
    if (d && d->resType == CU_RESOURCE_TYPE_LINEAR)
        return d->res.linear.devPtr;
    if (d && d->resType == CU_RESOURCE_TYPE_PITCH2D)
        return d->res.pitch2D.devPtr;
    return 0;
}

static CUresult create_texture(CUtexObject *out, const CUDA_RESOURCE_DESC *resource,
                               const CUDA_TEXTURE_DESC *texture, const CUDA_RESOURCE_VIEW_DESC *view)
{
    CUdeviceptr address = texture_address(resource);
    if (pin_at(address))
        return CUDA_ERROR_OUT_OF_MEMORY;
    CUresult result = EBB_PASS(cuTexObjectCreate, (out, resource, texture, view));
    const ebb_device_t *dev = ebb_arena_contains(&ebb_global, address) ? ebb_enter_at(address) : NULL;
    if (!dev)
        return result;
    ebb_buffer_t *b = ebb_buffer_at(dev->ebb, address);
    texture_t *t = b && !result ? malloc(sizeof *t) : NULL; /* without it, it stays pinned */
    if (t) {
        *t = (texture_t){*out, ebb_pinned_ref(b), dev->ebb->hook->textures};
        dev->ebb->hook->textures = t;
    } else if (b && result) {
        ebb_buffer_release(b);
    }
    ebb_unlock();
    return result;
}

static CUresult destroy_texture(CUtexObject object)
{
    CUresult result = EBB_PASS(cuTexObjectDestroy, (object));
    const ebb_device_t *dev = result ? NULL : ebb_enter_any();
    if (!dev)
        return result;
    for (texture_t **link = &dev->ebb->hook->textures; *link; link = &(*link)->next)
        if ((*link)->object == object) {
            texture_t *t = *link;
            *link = t->next;
            ebb_pinned_release(dev->ebb, t->buffer);
            free(t);
            break;
        }
    ebb_unlock();
    return result;
}

PLAIN_CALL(cuTexObjectCreate,
           (CUtexObject * out, const CUDA_RESOURCE_DESC *resource, const CUDA_TEXTURE_DESC *texture,
            const CUDA_RESOURCE_VIEW_DESC *view),
           create_texture(out, resource, texture, view))
PLAIN_CALL(cuTexObjectDestroy, (CUtexObject object), destroy_texture(object))
/* Texture references are bound for good, so their memory is pinned for good. */
PLAIN_CALL(cuTexRefSetAddress_v2, (size_t * offset, CUtexref texture, CUdeviceptr address, size_t bytes),
           PINNED(address, EBB_PASS(cuTexRefSetAddress_v2, (offset, texture, address, bytes))))
PLAIN_CALL(cuTexRefSetAddress2D_v2,
           (CUtexref texture, const CUDA_ARRAY_DESCRIPTOR *d, CUdeviceptr address, size_t pitch),
           PINNED(address, EBB_PASS(cuTexRefSetAddress2D_v2, (texture, d, address, pitch))))
PLAIN_CALL(cuTexRefSetAddress2D_v3,
           (CUtexref texture, const CUDA_ARRAY_DESCRIPTOR *d, CUdeviceptr address, size_t pitch),
           PINNED(address, EBB_PASS(cuTexRefSetAddress2D_v3, (texture, d, address, pitch))))
