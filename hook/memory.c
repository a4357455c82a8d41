/* memory.c: allocation and freeing; pools, which to ebb are names that the program gives to one and
 * the same memory, but for those that it has to leave to the driver. */
#include <stdlib.h>

#include "alloc/base/options.h"
#include "alloc/base/status.h"
#include "alloc/device.h"
#include "alloc/ebb_alloc.h"
#include "ckpt/run/run.h"
#include "hook/internal.h"
#include "offload/ebb_offload.h"

/* ---- allocation ---- */

/* Lock held on entry, not on return. */
static CUresult serve(ebb_device_t *dev, CUdeviceptr *out, ebb_request_t *request, bool stream_ordered)
{
    ebb_buffer_t *b = ebb_run_serve(dev, request);
    request->planned = ebb_run_drives(dev); /* still, although it has not served this */
    ebb_status_t status = ebb_pinned_is_wanted() ? CUDA_ERROR_OUT_OF_MEMORY : 0;
    ebb_pinned_defer(true);
    if (!b && !status)
        status = ebb_heap_alloc(dev, request, &b);
    ebb_pinned_defer(false);
    if (!status) {
        *out = b->address;
        b->stream_ordered = stream_ordered;
        if (stream_ordered)
            ebb_pool_took(dev, b->pool, b->bytes);
        ebb_run_allocated(b, request->stream);
    } else if (status == CUDA_ERROR_OUT_OF_MEMORY && !ebb_pinned_is_wanted()) {
        ebb_run_out_of_memory(dev, request);
    }
    ebb_unlock();
    return (CUresult)status;
}

static CUresult pass_alloc_async(CUdeviceptr *out, size_t bytes, CUmemoryPool pool, CUstream stream)
{
    return pool ? EBB_PASS(cuMemAllocFromPoolAsync, (out, bytes, pool, stream))
                : EBB_PASS(cuMemAllocAsync, (out, bytes, stream));
}

/* By the driver, counted on the device. Lock held on entry, not on return; the driver is called without it, in the
 * program's context. */
static CUresult alloc_from_driver(ebb_device_t *dev, CUdeviceptr *out, size_t bytes, CUmemoryPool pool,
                                  const CUstream *stream)
{
    bool counted = ebb_foreign_count(dev, bytes);
    ebb_unlock();
    CUcontext context = NULL;
    if (!counted || ebb_driver.cuCtxGetCurrent(&context))
        return CUDA_ERROR_OUT_OF_MEMORY;
    const void *owner = stream ? (const void *)pool : (const void *)context; /* what it ends with */
    CUresult result =
        stream ? pass_alloc_async(out, bytes, pool, *stream) : EBB_PASS(cuMemAlloc_v2, (out, bytes));
    if (!ebb_enter_any())
        return result;
    if (result || !ebb_foreign_add(dev, &(ebb_foreign_t){*out, bytes, EBB_FOREIGN_POOL, owner, bytes}))
        ebb_foreign_uncount(dev, bytes);
    ebb_unlock();
    return result;
}

static CUresult alloc(CUdeviceptr *out, size_t bytes)
{
    if (!out || !bytes)
        return EBB_PASS(cuMemAlloc_v2, (out, bytes));
    ebb_device_t *dev = ebb_enter();
    if (dev && !ebb_options.ipc)
        return serve(dev, out, &(ebb_request_t){.bytes = bytes, .later = true}, false);
    if (!dev)
        dev = ebb_enter_beside();
    return dev ? alloc_from_driver(dev, out, bytes, NULL, NULL) : EBB_PASS(cuMemAlloc_v2, (out, bytes));
}

/* Rows of the device's texture alignment, as the driver makes them. */
static CUresult alloc_pitch(CUdeviceptr *out, size_t *pitch, size_t width, size_t height, unsigned element)
{
    int align = 0;
    bool valid = out && pitch && width && height && (element == 4 || element == 8 || element == 16);
    ebb_device_t *dev = valid ? ebb_enter() : NULL;
    if (!dev)
        return EBB_PASS(cuMemAllocPitch_v2, (out, pitch, width, height, element));
    if (ebb_driver.cuDeviceGetAttribute(&align, CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT, dev->device) ||
        align < (int)EBB_ALIGN_BYTES)
        align = (int)EBB_ALIGN_BYTES;
    size_t row = (width + (size_t)align - 1) / (size_t)align * (size_t)align;
    if (row < width || row > SIZE_MAX / height) {
        ebb_unlock();
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    CUresult result = serve(dev, out, &(ebb_request_t){.bytes = row * height, .later = true}, false);
    if (!result)
        *pitch = row;
    return result;
}

/* ---- pools ---- */

/* Under capture an allocation becomes a node of the graph, whose memory is the driver's. */
static bool is_captured(CUstream stream)
{
    return ebb_captures_under_way(&ebb_global) && ebb_is_capturing(stream);
}

static CUresult alloc_async(CUdeviceptr *out, size_t bytes, CUmemoryPool pool, CUstream stream)
{
    if (!out || !bytes)
        return pass_alloc_async(out, bytes, pool, stream);
    ebb_stream_t *s = ebb_enter_stream(stream);
    if (!s) { /* a further context's stream, or none of a device that ebb serves */
        ebb_device_t *beside = is_captured(stream) ? NULL : ebb_enter_beside();
        return beside ? alloc_from_driver(beside, out, bytes, pool, &stream)
                      : pass_alloc_async(out, bytes, pool, stream);
    }
    ebb_device_t *dev = ebb_stream_device(s);
    if (is_captured(stream)) {
        ebb_capture_note_alloc(dev->ebb, stream, bytes);
        ebb_unlock();
        return pass_alloc_async(out, bytes, pool, stream);
    }
    ebb_request_t request = {
        .bytes = bytes, .stream = s, .pool = pool ? pool : ebb_pool_current(dev), .later = true};
    if (request.pool)
        dev = ebb_pool_device(dev, request.pool);
    if (!dev || !ebb_lock_go_to(dev)) {
        ebb_unlock();
        return pass_alloc_async(out, bytes, pool, stream);
    }
    if (ebb_pool_is_native(dev, request.pool))
        return alloc_from_driver(dev, out, bytes, pool, &stream);
    if (!ebb_pool_has_room(dev->ebb, request.pool, bytes)) {
        ebb_unlock();
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    if (ebb_stream_device(s) != dev)
        request.stream = NULL; /* of another device: memory that no stream still uses */
    return serve(dev, out, &request, true);
}

static void note_pool(ebb_t *ebb, CUmemoryPool pool, CUdevice device, bool native, size_t max_bytes)
{
    if (!ebb_pool_note(ebb, pool, device, native, max_bytes))
        ebb_keep_everything(ebb, "no host memory for the list of pools");
}

static CUresult create_pool(CUmemoryPool *out, const CUmemPoolProps *props)
{
    CUresult result = EBB_PASS(cuMemPoolCreate, (out, props));
    const ebb_device_t *dev = result ? NULL : ebb_enter_any();
    if (!dev)
        return result;
    bool device = props->location.type == CU_MEM_LOCATION_TYPE_DEVICE;
    note_pool(dev->ebb, *out, device ? props->location.id : -1,
              !device || props->handleTypes || props->allocType != CU_MEM_ALLOCATION_TYPE_PINNED,
              props->maxSize);
    ebb_unlock();
    return result;
}

static CUresult import_pool(CUmemoryPool *out, void *handle, CUmemAllocationHandleType type,
                            unsigned long long flags)
{
    CUresult result = EBB_PASS(cuMemPoolImportFromShareableHandle, (out, handle, type, flags));
    const ebb_device_t *dev = result ? NULL : ebb_enter_any();
    if (dev) {
        note_pool(dev->ebb, *out, -1, true, 0);
        ebb_unlock();
    }
    return result;
}

static CUresult destroy_pool(CUmemoryPool pool)
{
    CUresult result = EBB_PASS(cuMemPoolDestroy, (pool));
    const ebb_device_t *dev = result ? NULL : ebb_enter_any();
    if (dev) {
        ebb_pool_forget(dev->ebb, pool);
        ebb_unlock();
    }
    return result;
}

static CUresult set_current_pool(CUresult result, CUdevice device, CUmemoryPool pool)
{
    const ebb_device_t *dev = result ? NULL : ebb_enter_any();
    if (dev) {
        ebb_pool_set_current(dev->ebb, device, pool);
        ebb_unlock();
    }
    return result;
}

/* -1: none that ebb serves. */
static CUdevice device_of(const CUmemLocation *location, CUmemAllocationType type)
{
    return location && location->type == CU_MEM_LOCATION_TYPE_DEVICE && type == CU_MEM_ALLOCATION_TYPE_PINNED
               ? location->id
               : -1;
}

PLAIN_CALL(cuMemPoolCreate, (CUmemoryPool * out, const CUmemPoolProps *props), create_pool(out, props))
PLAIN_CALL(cuMemPoolImportFromShareableHandle,
           (CUmemoryPool * out, void *handle, CUmemAllocationHandleType type, unsigned long long flags),
           import_pool(out, handle, type, flags))
PLAIN_CALL(cuMemPoolDestroy, (CUmemoryPool pool), destroy_pool(pool))
PLAIN_CALL(cuDeviceSetMemPool, (CUdevice device, CUmemoryPool pool),
           set_current_pool(EBB_PASS(cuDeviceSetMemPool, (device, pool)), device, pool))
PLAIN_CALL(cuMemSetMemPool, (CUmemLocation * location, CUmemAllocationType type, CUmemoryPool pool),
           set_current_pool(EBB_PASS(cuMemSetMemPool, (location, type, pool)), device_of(location, type),
                            pool))

/* ---- freeing ---- */

static void release(ebb_buffer_t *b, ebb_stream_t *stream)
{
    ebb_device_t *dev = b->range->device;
    ebb_table_gone(dev->ebb, b->address, b->bytes);
    if (b->stream_ordered)
        ebb_pool_gave(dev, b->pool, b->bytes);
    if (ebb_run_freeing(b, stream))
        return;
    ebb_heap_free(b, stream ? ebb_mark_here(stream) : (ebb_mark_t){0});
}

/* Memory of the driver's goes: before it may give the address to another. */
static void uncount(CUdeviceptr address)
{
    const ebb_device_t *dev = address ? ebb_enter_any() : NULL;
    if (dev) {
        const ebb_foreign_t *f = ebb_foreign_at(dev->ebb, address);
        if (f && f->base == address)
            ebb_table_gone(dev->ebb, f->base, f->bytes);
        ebb_foreign_remove(dev->ebb, address);
        ebb_unlock();
    }
}

/* What cuMemAllocAsync gave is freed by cuMemFree without waiting (its documentation says so): the program has waited
 * for its own work. What ebb knows to be under way on the memory nevertheless is put before the free on one of
 * its streams. False: that cannot be done. */
static bool free_without_waiting(ebb_buffer_t *b)
{
    ebb_stream_t *s = NULL;
    if (b->peer_used || b->use_count > EBB_USE_MARKS)
        return false;
    for (unsigned i = 0; i < b->use_count; i++) {
        if (ebb_mark_reached(b->use[i]))
            continue;
        s = b->use[i].stream;
        if (ebb_stream_is_gone(s)) /* destroyed, its work under way still */
            return false;
    }
    if (!b->stream_ordered || (!s && b->residence) || (s && is_captured(ebb_stream_handle(s))) ||
        (s && ebb_buffer_join(s, b)))
        return false;
    release(b, s);
    return true;
}

/* The device whose memory it is, whatever is current. */
static CUresult synchronize(CUcontext context)
{
    CUcontext current = NULL, none;
    if (ebb_driver.cuCtxGetCurrent(&current) || current == context)
        return ebb_driver.cuCtxSynchronize();
    CUresult result = EBB_PASS(cuCtxPushCurrent_v2, (context));
    if (!result) {
        result = ebb_driver.cuCtxSynchronize();
        ebb_driver.cuCtxPopCurrent_v2(&none);
    }
    return result;
}

/* As the driver's, cuMemFree of what cuMemAlloc gave returns when the device is done with everything: programs
 * rely on it. */
static CUresult free_now(CUdeviceptr address)
{
    if (!ebb_arena_contains(&ebb_global, address)) {
        uncount(address);
        return EBB_PASS(cuMemFree_v2, (address));
    }
    const ebb_device_t *dev = ebb_enter_to_free(address);
    if (!dev)
        return EBB_PASS(cuMemFree_v2, (address));
    ebb_buffer_t *known = ebb_heap_find(dev->ebb, address);
    bool everywhere = known && known->peer_used, done = known && free_without_waiting(known);
    bool captures = ebb_captures_under_way(&ebb_global);
    CUcontext context = known ? dev->context : NULL;
    CUresult result = CUDA_SUCCESS;
    if (known && !done && captures) /* the whole device may not be waited for */
        result = (CUresult)ebb_buffer_wait(known);
    ebb_unlock();
    if (done || !known)
        return done ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    if (!captures)
        result = everywhere ? ebb_synchronize_all() : synchronize(context);
    if (result)
        return result;
    if (!(dev = ebb_enter_to_free(address)))
        return CUDA_ERROR_INVALID_CONTEXT;
    known = ebb_heap_find(dev->ebb, address); /* another thread may have been quicker */
    if (known)
        release(known, NULL);
    ebb_unlock();
    return known ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* By the host, as the legacy stream takes no events while another captures; not for the free's own stream. */
static ebb_status_t wait_for_others(const ebb_stream_t *stream, const ebb_buffer_t *b)
{
    if (b->use_count > EBB_USE_MARKS || stream == &ebb_global.shared_stream)
        return ebb_buffer_wait(b);
    for (unsigned i = 0; i < b->use_count; i++)
        if (b->use[i].stream != stream)
            EBB_TRY(ebb_mark_wait(b->use[i]));
    return 0;
}

/* A free is ordered on its stream, which the program has put behind every use: by events, or by what CUDA says of the legacy default stream.
 * Work in that waits for all blocking streams, and what these are given next waits for it (CUDA driver API, "Stream synchronization
 * behavior"). As ebb gives the driver nothing to do for a free, these rules would order nothing, and a stream without work would count as
 * done with it once the program has asked for that stream: between the legacy stream and others the free's stream is made to wait here. */
static ebb_status_t order_free(ebb_stream_t *stream, const ebb_buffer_t *b)
{
    bool by_rule = ebb_is_legacy_stream(ebb_stream_handle(stream)) || b->use_count > EBB_USE_MARKS;
    for (unsigned i = 0; i < b->use_count && i < EBB_USE_MARKS; i++)
        by_rule |= ebb_is_legacy_stream(ebb_stream_handle(b->use[i].stream));
    return !by_rule                              ? 0
           : ebb_captures_under_way(&ebb_global) ? wait_for_others(stream, b)
                                                 : ebb_buffer_join(stream, b);
}

/* Of memory that is ebb's: also from a stream of another context, where it waits as cuMemFree does. */
static CUresult free_async(CUdeviceptr address, CUstream stream)
{
    if (!ebb_arena_contains(&ebb_global, address)) {
        if (!ebb_captures_under_way(&ebb_global) || !ebb_is_capturing(stream))
            uncount(address);
        return EBB_PASS(cuMemFreeAsync, (address, stream));
    }
    ebb_stream_t *s = ebb_enter_stream_to_free(stream, address);
    if (!s)
        return free_now(address);
    if (is_captured(stream)) { /* only what a graph has allocated may be freed there: the driver says so */
        ebb_unlock();
        return EBB_PASS(cuMemFreeAsync, (address, stream));
    }
    ebb_buffer_t *b = ebb_heap_find(ebb_stream_device(s)->ebb, address);
    const ebb_status_t status = b ? order_free(s, b) : CUDA_ERROR_INVALID_VALUE;
    if (!status && ebb_lock_go_to(b->range->device)) {
        ebb_mark_issue(s);
        release(b, s);
    }
    ebb_unlock();
    return (CUresult)status;
}

PLAIN_CALL(cuMemAlloc_v2, (CUdeviceptr * out, size_t bytes), alloc(out, bytes))
PLAIN_CALL(cuMemAllocPitch_v2,
           (CUdeviceptr * out, size_t *pitch, size_t width, size_t height, unsigned element),
           alloc_pitch(out, pitch, width, height, element))
PLAIN_CALL(cuMemFree_v2, (CUdeviceptr address), free_now(address))
ASYNC_CALL(cuMemAllocAsync, (CUdeviceptr * out, size_t bytes, CUstream stream),
           alloc_async(out, bytes, NULL, stream))
ASYNC_CALL(cuMemAllocFromPoolAsync, (CUdeviceptr * out, size_t bytes, CUmemoryPool pool, CUstream stream),
           pool ? alloc_async(out, bytes, pool, stream)
                : EBB_PASS(cuMemAllocFromPoolAsync, (out, bytes, pool, stream))) /* which refuses it */
ASYNC_CALL(cuMemFreeAsync, (CUdeviceptr address, CUstream stream), free_async(address, stream))
