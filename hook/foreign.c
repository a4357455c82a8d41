/* foreign.c: memory that the driver serves: seen, counted against the budget where it is the device's,
 * and left alone. */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "alloc/base/status.h"
#include "alloc/device.h"
#include "alloc/kernel/code.h"
#include "alloc/kernel/kernel.h"
#include "ckpt/run/run.h"
#include "hook/internal.h"

/* A call that takes device memory: what does not fit beside what must stay is refused. Lock held on entry, not on return. */
static bool take_on(ebb_device_t *dev, size_t bytes)
{
    bool taken = ebb_foreign_count(dev, bytes);
    if (!taken)
        ebb_log(EBB_WARN, "out of memory: %zu MiB that the driver is to serve do not fit into the budget",
                bytes >> 20);
    ebb_unlock();
    return taken;
}

static bool take(size_t bytes)
{
    ebb_device_t *dev = ebb_enter();
    return !dev || take_on(dev, bytes);
}

static void untake(size_t bytes)
{
    ebb_device_t *dev = ebb_enter();
    if (!dev)
        return;
    const size_t counted = ebb_foreign_counted(dev);
    ebb_foreign_uncount(dev, bytes < counted ? bytes : counted);
    ebb_unlock();
}

static void note(ebb_foreign_kind_t kind, CUdeviceptr base, size_t bytes, const void *owner, size_t counted)
{
    ebb_device_t *dev = base && bytes ? ebb_enter_work() : NULL;
    if (!dev)
        return;
    if (!ebb_foreign_add(dev, &(ebb_foreign_t){base, bytes, kind, owner, counted}))
        ebb_foreign_uncount(dev, counted);
    ebb_unlock();
}

/* Before the driver may give the address to another. */
static void unnote(CUdeviceptr base)
{
    const ebb_device_t *dev = base ? ebb_enter_any() : NULL;
    if (dev) {
        ebb_foreign_remove(dev->ebb, base);
        ebb_foreign_forget(dev->ebb, (const void *)(uintptr_t)base); /* its other address */
        ebb_unlock();
    }
}

/* ---- the program's own mappings ----
 *
 * Libraries make them on threads of their own, on which others may wait (NCCL): none of these calls waits for ebb_lock(). What they have
 * done is noted, and taken in at once if the lock is free, else by the next call that has it. Whether there is room for memory that is to
 * be created is asked before if the lock is free; else it counts when it is there. */

/* Physical memory that the program has created. It is given back when all its handles are released and all
 * mappings of it are gone. */
typedef struct ebb_physical {
    CUmemGenericAllocationHandle handle;
    size_t bytes;         /* that count */
    ebb_device_t *device; /* on whose budget */
    unsigned handles, mappings;
    struct ebb_physical *next;
} physical_t;

/* Something that has been done. */
typedef struct ebb_change {
    enum { CREATED, NOT_CREATED, RETAINED, RELEASED, MAPPED, UNMAPPED } what;
    CUmemGenericAllocationHandle handle;
    CUdeviceptr base;
    size_t bytes;
    CUdevice device; /* on which it is created */
    bool counted;    /* before */
    struct ebb_change *next;
} change_t;

static physical_t **find_physical(struct ebb_hook *hook, CUmemGenericAllocationHandle handle)
{
    physical_t **link = &hook->physicals;
    while (*link && (*link)->handle != handle)
        link = &(*link)->next;
    return link;
}

static void drop_if_unused(physical_t **link)
{
    physical_t *p = *link;
    if (p->handles || p->mappings)
        return;
    *link = p->next;
    ebb_foreign_uncount(p->device, p->bytes);
    free(p);
}

static void take_in_created(ebb_t *ebb, const change_t *c)
{
    ebb_device_t *dev = ebb_device_of(ebb, c->device);
    ebb_visit_t visit;
    if (!dev || ebb_device_visit(dev, &visit))
        return;
    const bool counted = c->counted || ebb_foreign_count(dev, c->bytes);
    physical_t *p = c->what == CREATED ? calloc(1, sizeof *p) : NULL;
    if (p) {
        *p = (physical_t){c->handle, counted ? c->bytes : 0, dev, .handles = 1, .next = ebb->hook->physicals};
        ebb->hook->physicals = p;
    } else if (counted) {
        ebb_foreign_uncount(dev, c->bytes);
    }
    if (!counted)
        ebb_heap_measure_soon(dev); /* it is there nevertheless */
    ebb_device_return(visit);
}

static void take_in_mapped(ebb_t *ebb, const change_t *c)
{
    physical_t **link = find_physical(ebb->hook, c->handle);
    if (*link)
        (*link)->mappings++;
    /* The count is the handle's, so none here. */
    ebb_foreign_add(ebb_no_device(ebb), &(ebb_foreign_t){c->base, c->bytes, EBB_FOREIGN_MAPPING,
                                                         (const void *)(uintptr_t)c->handle, 0});
}

static void take_in_unmapped(ebb_t *ebb, const change_t *c)
{
    for (CUdeviceptr at = c->base; at - c->base < c->bytes;) {
        const ebb_foreign_t *f = ebb_foreign_at(ebb, at);
        if (!f || f->kind != EBB_FOREIGN_MAPPING)
            break;
        physical_t **link = find_physical(ebb->hook, (CUmemGenericAllocationHandle)(uintptr_t)f->owner);
        at = f->base + f->bytes;
        ebb_foreign_remove(ebb, f->base);
        if (*link) {
            (*link)->mappings--;
            drop_if_unused(link);
        }
    }
}

static void take_in_handle(ebb_t *ebb, const change_t *c)
{
    physical_t **link = find_physical(ebb->hook, c->handle);
    if (!*link)
        return;
    (*link)->handles += c->what == RETAINED ? 1u : -1u;
    drop_if_unused(link);
}

static void take_in(ebb_t *ebb, const change_t *c)
{
    if (c->what == CREATED || c->what == NOT_CREATED)
        take_in_created(ebb, c);
    else if (c->what == MAPPED)
        take_in_mapped(ebb, c);
    else if (c->what == UNMAPPED)
        take_in_unmapped(ebb, c);
    else
        take_in_handle(ebb, c);
}

void ebb_mappings_take_in(ebb_t *ebb)
{
    struct ebb_hook *hook = ebb->hook;
    /* All of them in their order, without waiting for a thread that is away. */
    if (!atomic_load_explicit(&hook->changes, memory_order_relaxed) || ebb_lock_is_kept_by_any())
        return;
    change_t *first = NULL, *next;
    for (change_t *c = atomic_exchange(&hook->changes, NULL); c; c = next) {
        next = c->next;
        c->next = first;
        first = c;
    }
    for (change_t *c = first; c; c = next) {
        next = c->next;
        take_in(ebb, c);
        free(c);
    }
}

static void note_change(change_t what)
{
    struct ebb_hook *hook = ebb_is_awake() ? ebb_global.hook : NULL;
    change_t *c = hook ? malloc(sizeof *c) : NULL;
    if (c) {
        *c = what;
        c->next = atomic_load(&hook->changes);
        while (!atomic_compare_exchange_weak(&hook->changes, &c->next, c))
            ;
    }
    const ebb_device_t *dev = c ? ebb_enter_any_now() : ebb_enter_any();
    if (dev) {
        ebb_mappings_take_in(dev->ebb);
        if (!c)
            take_in(dev->ebb, &what);
        ebb_unlock();
    }
}

static CUresult did(CUresult result, change_t what)
{
    if (!result)
        note_change(what);
    return result;
}

/* A PyTorch that maps device memory itself does so by its script's settings, whatever `ebb run` has put into the
 * environment: its tensors are then parts of large mappings that ebb cannot see into. Said once. Others map as well: NCCL its buffers
 * (NCCL_CUMEM_ENABLE). PyTorch's own calls come from where its allocator is (c10/cuda/CUDACachingAllocator.cpp). */
static void notice_segments(const void *caller)
{
    struct ebb_hook *hook = ebb_global.hook;
    if (!hook || !ebb_is_code_of(caller, "libc10_cuda.so") || atomic_exchange(&hook->segments_noticed, true))
        return;
    ebb_log(EBB_WARN,
            "PyTorch maps its segments itself (expandable_segments): its tensors are hidden from ebb, and "
            "stay on the device; let the script not set its allocator, so that backend:cudaMallocAsync "
            "holds");
}

/* False: what must stay leaves no room for it. */
static bool fits(CUdevice device, size_t bytes, bool *counted)
{
    ebb_device_t *dev = ebb_enter_device_now(device);
    if (!dev)
        return true;
    return *counted = take_on(dev, bytes);
}

static CUresult create(CUmemGenericAllocationHandle *out, size_t bytes, const CUmemAllocationProp *prop,
                       unsigned long long flags, const void *caller)
{
    if (!prop || prop->location.type != CU_MEM_LOCATION_TYPE_DEVICE)
        return EBB_PASS(cuMemCreate, (out, bytes, prop, flags));
    change_t change = {.what = CREATED, .bytes = bytes, .device = prop->location.id};
    if (!fits(change.device, bytes, &change.counted))
        return CUDA_ERROR_OUT_OF_MEMORY;
    const CUresult result = EBB_PASS(cuMemCreate, (out, bytes, prop, flags));
    if (result && !change.counted)
        return result;
    if (result)
        change.what = NOT_CREATED;
    else
        change.handle = *out;
    note_change(change);
    notice_segments(caller);
    return result;
}

static CUresult release_handle(CUmemGenericAllocationHandle handle)
{
    return did(EBB_PASS(cuMemRelease, (handle)), (change_t){.what = RELEASED, .handle = handle});
}

/* Ebb's own mappings are not the program's to know: to it this is memory of cuMemAlloc's. */
static CUresult retain_handle(CUmemGenericAllocationHandle *out, void *address)
{
    if (ebb_arena_contains(&ebb_global, ebb_address_of(address)))
        return CUDA_ERROR_INVALID_VALUE;
    const CUresult result = EBB_PASS(cuMemRetainAllocationHandle, (out, address));
    return result ? result : did(result, (change_t){.what = RETAINED, .handle = *out});
}

static CUresult map(CUdeviceptr base, size_t bytes, size_t offset, CUmemGenericAllocationHandle handle,
                    unsigned long long flags)
{
    if (ebb_arena_contains(&ebb_global, base))
        return CUDA_ERROR_INVALID_VALUE;
    return did(EBB_PASS(cuMemMap, (base, bytes, offset, handle, flags)),
               (change_t){.what = MAPPED, .handle = handle, .base = base, .bytes = bytes});
}

static CUresult unmap(CUdeviceptr base, size_t bytes)
{
    if (ebb_arena_contains(&ebb_global, base))
        return CUDA_ERROR_INVALID_VALUE;
    return did(EBB_PASS(cuMemUnmap, (base, bytes)),
               (change_t){.what = UNMAPPED, .base = base, .bytes = bytes});
}

PLAIN_CALL(cuMemCreate,
           (CUmemGenericAllocationHandle * out, size_t bytes, const CUmemAllocationProp *prop,
            unsigned long long flags),
           create(out, bytes, prop, flags, __builtin_return_address(0)))
PLAIN_CALL(cuMemRelease, (CUmemGenericAllocationHandle handle), release_handle(handle))
PLAIN_CALL(cuMemRetainAllocationHandle, (CUmemGenericAllocationHandle * out, void *address),
           retain_handle(out, address))
PLAIN_CALL(cuMemMap,
           (CUdeviceptr base, size_t bytes, size_t offset, CUmemGenericAllocationHandle handle,
            unsigned long long flags),
           map(base, bytes, offset, handle, flags))
PLAIN_CALL(cuMemUnmap, (CUdeviceptr base, size_t bytes), unmap(base, bytes))
PLAIN_CALL(cuMemSetAccess, (CUdeviceptr base, size_t bytes, const CUmemAccessDesc *desc, size_t count),
           ebb_arena_contains(&ebb_global, base) ? CUDA_ERROR_INVALID_VALUE
                                                 : EBB_PASS(cuMemSetAccess, (base, bytes, desc, count)))
PLAIN_CALL(cuMemAddressFree, (CUdeviceptr base, size_t bytes),
           ebb_arena_contains(&ebb_global, base) ? CUDA_ERROR_INVALID_VALUE
                                                 : EBB_PASS(cuMemAddressFree, (base, bytes)))

/* ---- managed memory: the driver itself moves it out when memory is short, so that it is never refused ---- */

static CUresult alloc_managed(CUdeviceptr *out, size_t bytes, unsigned flags)
{
    CUresult result = EBB_PASS(cuMemAllocManaged, (out, bytes, flags));
    ebb_device_t *dev = result ? NULL : ebb_enter();
    if (!dev)
        return result;
    size_t counted = ebb_foreign_count(dev, bytes) ? bytes : 0;
    if (!ebb_foreign_add(dev, &(ebb_foreign_t){*out, bytes, EBB_FOREIGN_MANAGED, NULL, counted}))
        ebb_foreign_uncount(dev, counted);
    ebb_unlock();
    return result;
}

PLAIN_CALL(cuMemAllocManaged, (CUdeviceptr * out, size_t bytes, unsigned flags),
           alloc_managed(out, bytes, flags))

/* ---- arrays: device memory without an address ---- */

typedef struct ebb_array {
    const void *handle;
    size_t bytes;
    ebb_device_t *device; /* whose budget it counts on */
    struct ebb_array *next;
} array_t;

static size_t format_bytes(CUarray_format format)
{
    switch (format) {
    case CU_AD_FORMAT_UNSIGNED_INT8:
    case CU_AD_FORMAT_SIGNED_INT8:
        return 1;
    case CU_AD_FORMAT_UNSIGNED_INT16:
    case CU_AD_FORMAT_SIGNED_INT16:
    case CU_AD_FORMAT_HALF:
        return 2;
    default:
        return 4; /* of block-compressed ones this is more than there is */
    }
}

static size_t array_bytes(const CUDA_ARRAY3D_DESCRIPTOR *d, unsigned levels)
{
    if (!d || d->Flags & CUDA_ARRAY3D_SPARSE) /* holds nothing until it is mapped */
        return 0;
    size_t texels = d->Width * (d->Height ? d->Height : 1) * (d->Depth ? d->Depth : 1);
    size_t bytes = texels * d->NumChannels * format_bytes(d->Format);
    return levels > 1 ? bytes + bytes / 3 : bytes;
}

static CUresult keep_array(CUresult result, const void *handle, size_t bytes)
{
    array_t *a = result ? NULL : malloc(sizeof *a);
    ebb_device_t *dev = a ? ebb_enter() : NULL;
    if (dev) {
        *a = (array_t){handle, bytes, dev, dev->ebb->hook->arrays};
        dev->ebb->hook->arrays = a;
        ebb_unlock();
        return result;
    }
    free(a);
    untake(bytes);
    return result;
}

static void drop_array(const void *handle)
{
    const ebb_device_t *dev = ebb_enter_any();
    if (!dev)
        return;
    for (array_t **link = &dev->ebb->hook->arrays; *link; link = &(*link)->next)
        if ((*link)->handle == handle) {
            array_t *a = *link;
            *link = a->next;
            ebb_foreign_uncount(a->device, a->bytes);
            free(a);
            break;
        }
    ebb_unlock();
}

static CUresult create_array(CUarray *out, const CUDA_ARRAY_DESCRIPTOR *d)
{
    CUDA_ARRAY3D_DESCRIPTOR wide = {0};
    if (d)
        wide = (CUDA_ARRAY3D_DESCRIPTOR){
            .Width = d->Width, .Height = d->Height, .Format = d->Format, .NumChannels = d->NumChannels};
    size_t bytes = d ? array_bytes(&wide, 1) : 0;
    if (!take(bytes))
        return CUDA_ERROR_OUT_OF_MEMORY;
    CUresult result = EBB_PASS(cuArrayCreate_v2, (out, d));
    return keep_array(result, result ? NULL : *out, bytes);
}

static CUresult create_array_3d(CUarray *out, const CUDA_ARRAY3D_DESCRIPTOR *d)
{
    size_t bytes = array_bytes(d, 1);
    if (!take(bytes))
        return CUDA_ERROR_OUT_OF_MEMORY;
    CUresult result = EBB_PASS(cuArray3DCreate_v2, (out, d));
    return keep_array(result, result ? NULL : *out, bytes);
}

static CUresult create_mipmapped(CUmipmappedArray *out, const CUDA_ARRAY3D_DESCRIPTOR *d, unsigned levels)
{
    size_t bytes = array_bytes(d, levels);
    if (!take(bytes))
        return CUDA_ERROR_OUT_OF_MEMORY;
    CUresult result = EBB_PASS(cuMipmappedArrayCreate, (out, d, levels));
    return keep_array(result, result ? NULL : *out, bytes);
}

static CUresult destroyed(CUresult result, const void *handle)
{
    if (!result)
        drop_array(handle);
    return result;
}

PLAIN_CALL(cuArrayCreate_v2, (CUarray * out, const CUDA_ARRAY_DESCRIPTOR *d), create_array(out, d))
PLAIN_CALL(cuArray3DCreate_v2, (CUarray * out, const CUDA_ARRAY3D_DESCRIPTOR *d), create_array_3d(out, d))
PLAIN_CALL(cuMipmappedArrayCreate,
           (CUmipmappedArray * out, const CUDA_ARRAY3D_DESCRIPTOR *d, unsigned levels),
           create_mipmapped(out, d, levels))
PLAIN_CALL(cuArrayDestroy, (CUarray array), destroyed(EBB_PASS(cuArrayDestroy, (array)), array))
PLAIN_CALL(cuMipmappedArrayDestroy, (CUmipmappedArray array),
           destroyed(EBB_PASS(cuMipmappedArrayDestroy, (array)), array))

/* ---- host memory: under unified addressing the device reaches it at the same address ---- */

static CUresult note_host(CUresult result, void *const *p, size_t bytes)
{
    if (!result)
        note(EBB_FOREIGN_HOST, ebb_address_of(*p), bytes, NULL, 0);
    return result;
}

PLAIN_CALL(cuMemAllocHost_v2, (void **out, size_t bytes),
           note_host(EBB_PASS(cuMemAllocHost_v2, (out, bytes)), out, bytes))
PLAIN_CALL(cuMemHostAlloc, (void **out, size_t bytes, unsigned flags),
           note_host(EBB_PASS(cuMemHostAlloc, (out, bytes, flags)), out, bytes))
PLAIN_CALL(cuMemFreeHost, (void *p), (unnote(ebb_address_of(p)), EBB_PASS(cuMemFreeHost, (p))))
PLAIN_CALL(cuMemHostRegister, (void *p, size_t bytes, unsigned flags),
           note_host(EBB_PASS(cuMemHostRegister, (p, bytes, flags)), &p, bytes))
PLAIN_CALL(cuMemHostRegister_v2, (void *p, size_t bytes, unsigned flags),
           note_host(EBB_PASS(cuMemHostRegister_v2, (p, bytes, flags)), &p, bytes))
PLAIN_CALL(cuMemHostUnregister, (void *p), (unnote(ebb_address_of(p)), EBB_PASS(cuMemHostUnregister, (p))))

/* Registered memory may have another address on the device. */
static CUresult get_device_pointer(CUdeviceptr *out, void *p, unsigned flags)
{
    CUresult result = EBB_PASS(cuMemHostGetDevicePointer_v2, (out, p, flags));
    ebb_device_t *dev = result || *out == ebb_address_of(p) ? NULL : ebb_enter_any();
    if (!dev)
        return result;
    const ebb_foreign_t *f = ebb_foreign_at(dev->ebb, ebb_address_of(p));
    if (f)
        ebb_foreign_add(dev, &(ebb_foreign_t){*out - (ebb_address_of(p) - f->base), f->bytes,
                                              EBB_FOREIGN_HOST, (const void *)(uintptr_t)f->base, 0});
    ebb_unlock();
    return result;
}

PLAIN_CALL(cuMemHostGetDevicePointer_v2, (CUdeviceptr * out, void *p, unsigned flags),
           get_device_pointer(out, p, flags))

/* ---- what modules hold, and what others have allocated ---- */

/* The size is no secret, but it may not have been asked for. */
static size_t size_asked(const size_t *bytes)
{
    return bytes && *bytes ? *bytes : 1;
}

static CUresult note_range(CUresult result, ebb_foreign_kind_t kind, const CUdeviceptr *base,
                           const size_t *bytes, const void *owner)
{
    if (!result && base)
        note(kind, *base, size_asked(bytes), owner, 0);
    return result;
}

typedef struct look_up {
    ebb_foreign_kind_t kind;
    const CUdeviceptr *base;
    const size_t *bytes;
    const void *owner;
    const char *name;
} look_up_t;

/* A variable that the program looks up it may write, or read what kernels write there: launches of that module are
 * not to be repeated any more. (A runtime may look up all variables of what it loads, constants included.) */
static CUresult looked_up(CUresult result, look_up_t l)
{
    ebb_device_t *dev = result ? NULL : ebb_enter_work();
    if (!dev)
        return result;
    if (l.base && *l.base)
        ebb_foreign_add(dev, &(ebb_foreign_t){*l.base, size_asked(l.bytes), l.kind, l.owner, 0});
    if (!ebb_image_is_constant(l.name, size_asked(l.bytes)) && ebb_module_looked_up(dev->ebb, l.owner))
        ebb_interrupt_all(dev->ebb, "a variable of a module is looked up");
    ebb_unlock();
    return result;
}

PLAIN_CALL(cuModuleGetGlobal_v2, (CUdeviceptr * base, size_t *bytes, CUmodule module, const char *name),
           looked_up(EBB_PASS(cuModuleGetGlobal_v2, (base, bytes, module, name)),
                     (look_up_t){EBB_FOREIGN_VARIABLE, base, bytes, module, name}))
PLAIN_CALL(cuLibraryGetGlobal, (CUdeviceptr * base, size_t *bytes, CUlibrary library, const char *name),
           looked_up(EBB_PASS(cuLibraryGetGlobal, (base, bytes, library, name)),
                     (look_up_t){EBB_FOREIGN_VARIABLE, base, bytes, library, name}))
PLAIN_CALL(cuLibraryGetManaged, (CUdeviceptr * base, size_t *bytes, CUlibrary library, const char *name),
           looked_up(EBB_PASS(cuLibraryGetManaged, (base, bytes, library, name)),
                     (look_up_t){EBB_FOREIGN_MANAGED, base, bytes, library, name}))
PLAIN_CALL(cuExternalMemoryGetMappedBuffer,
           (CUdeviceptr * base, CUexternalMemory memory, const CUDA_EXTERNAL_MEMORY_BUFFER_DESC *d),
           note_range(EBB_PASS(cuExternalMemoryGetMappedBuffer, (base, memory, d)), EBB_FOREIGN_IMPORT, base,
                      d ? (const size_t *)&d->size : NULL, NULL))
PLAIN_CALL(cuGraphicsResourceGetMappedPointer_v2,
           (CUdeviceptr * base, size_t *bytes, CUgraphicsResource resource),
           note_range(EBB_PASS(cuGraphicsResourceGetMappedPointer_v2, (base, bytes, resource)),
                      EBB_FOREIGN_IMPORT, base, bytes, resource))
