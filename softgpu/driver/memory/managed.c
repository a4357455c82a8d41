/* managed.c: managed memory. It lies in host memory, which host code and every device's kernels reach at one address;
 * nothing migrates, so that advice and prefetches are checked and remembered, and that is all. Advice is kept for an
 * allocation as a whole.
 */
#include "softgpu/driver/stream/streams.h"

#include <stdlib.h>

typedef struct advice {
    CUdeviceptr base; /* the allocation's; its id tells it from a later one at the same address */
    uint64_t id;
    bool read_mostly;
    CUmemLocation preferred, prefetched;
    uint8_t accessed_by; /* devices, a bit each */
    bool accessed_by_host;
    struct advice *next;
} advice_t;

static advice_t *advices; /* guarded by sg.lock */

SG_EXPORT CUresult cuMemAllocManaged(CUdeviceptr *out, size_t bytes, unsigned flags)
{
    SG_TRY(sg_enter_unsafe());
    if (!out || (flags != CU_MEM_ATTACH_GLOBAL && flags != CU_MEM_ATTACH_HOST))
        return CUDA_ERROR_INVALID_VALUE;
    return sg_heap_alloc(&sg_managed_heap[sg_current_context()->device], bytes, NULL, out);
}

/* All of [p, p + bytes) must lie in one managed allocation. */
static CUresult find_locked(CUdeviceptr p, size_t bytes, sg_extent_t *extent)
{
    if (!bytes || !sg_extent_find_locked(p, extent) || !extent->pool || !extent->pool->managed)
        return CUDA_ERROR_INVALID_VALUE;
    return bytes > extent->bytes - (p - extent->base) ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

static advice_t *advice_of_locked(const sg_extent_t *extent)
{
    advice_t *a = advices;
    while (a && a->base != extent->base)
        a = a->next;
    if (!a) {
        a = calloc(1, sizeof *a);
        if (!a)
            return NULL;
        a->next = advices;
        advices = a;
    }
    if (a->id != extent->id) {
        advice_t *next = a->next;
        *a = (advice_t){.base = extent->base, .id = extent->id, .next = next};
        a->preferred.type = a->prefetched.type = CU_MEM_LOCATION_TYPE_INVALID;
        a->preferred.id = a->prefetched.id = CU_DEVICE_INVALID;
    }
    return a;
}

static bool is_host(const CUmemLocation *l)
{
    return l->type == CU_MEM_LOCATION_TYPE_HOST || l->type == CU_MEM_LOCATION_TYPE_HOST_NUMA ||
           l->type == CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT;
}

static CUresult check_location(const CUmemLocation *l)
{
    if (l->type == CU_MEM_LOCATION_TYPE_HOST_NUMA && l->id)
        return CUDA_ERROR_INVALID_VALUE; /* one node */
    if (is_host(l))
        return CUDA_SUCCESS;
    return l->type == CU_MEM_LOCATION_TYPE_DEVICE ? sg_device_check(l->id) : CUDA_ERROR_INVALID_VALUE;
}

static void follow(advice_t *a, CUmem_advise advice, CUmemLocation where)
{
    bool set = advice == CU_MEM_ADVISE_SET_ACCESSED_BY;
    switch (advice) {
    case CU_MEM_ADVISE_SET_READ_MOSTLY:
    case CU_MEM_ADVISE_UNSET_READ_MOSTLY:
        a->read_mostly = advice == CU_MEM_ADVISE_SET_READ_MOSTLY;
        break;
    case CU_MEM_ADVISE_SET_PREFERRED_LOCATION:
        a->preferred = where;
        break;
    case CU_MEM_ADVISE_UNSET_PREFERRED_LOCATION:
        a->preferred = (CUmemLocation){.type = CU_MEM_LOCATION_TYPE_INVALID, .id = CU_DEVICE_INVALID};
        break;
    default:
        if (is_host(&where))
            a->accessed_by_host = set;
        else if (set)
            a->accessed_by |= (uint8_t)(1u << where.id);
        else
            a->accessed_by &= (uint8_t) ~(1u << where.id);
    }
}

SG_EXPORT CUresult cuMemAdvise_v2(CUdeviceptr p, size_t bytes, CUmem_advise advice, CUmemLocation where)
{
    SG_TRY(sg_enter_context());
    if (advice < CU_MEM_ADVISE_SET_READ_MOSTLY || advice > CU_MEM_ADVISE_UNSET_ACCESSED_BY)
        return CUDA_ERROR_INVALID_VALUE;
    if (advice == CU_MEM_ADVISE_SET_PREFERRED_LOCATION || advice == CU_MEM_ADVISE_SET_ACCESSED_BY ||
        advice == CU_MEM_ADVISE_UNSET_ACCESSED_BY)
        SG_TRY(check_location(&where));
    sg_extent_t extent;
    sg_lock();
    CUresult result = find_locked(p, bytes, &extent);
    advice_t *a = result ? NULL : advice_of_locked(&extent);
    if (a)
        follow(a, advice, where);
    sg_unlock();
    return !result && !a ? CUDA_ERROR_OUT_OF_MEMORY : result;
}

/* The older form says where by a device's number, CU_DEVICE_CPU for the host. */
static CUmemLocation location_of(CUdevice device)
{
    CUmemLocation where = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device};
    if (device == CU_DEVICE_CPU)
        where = (CUmemLocation){.type = CU_MEM_LOCATION_TYPE_HOST};
    return where;
}

SG_EXPORT CUresult cuMemAdvise(CUdeviceptr p, size_t bytes, CUmem_advise advice, CUdevice device)
{
    return cuMemAdvise_v2(p, bytes, advice, location_of(device));
}

/* ---- prefetches ---- */

static CUresult prefetch(CUdeviceptr p, size_t bytes, CUmemLocation where, unsigned flags, CUstream stream)
{
    SG_TRY(sg_enter_context());
    SG_TRY(sg_capture_refuse(stream));
    if (flags)
        return CUDA_ERROR_INVALID_VALUE;
    SG_TRY(check_location(&where));
    sg_extent_t extent;
    sg_lock();
    CUresult result =
        sg_stream_resolve_locked(stream) ? find_locked(p, bytes, &extent) : CUDA_ERROR_INVALID_HANDLE;
    advice_t *a = result ? NULL : advice_of_locked(&extent);
    if (a)
        a->prefetched = where;
    sg_unlock();
    return !result && !a ? CUDA_ERROR_OUT_OF_MEMORY : result;
}

ASYNC_CALL(cuMemPrefetchAsync_v2,
           (CUdeviceptr p, size_t bytes, CUmemLocation where, unsigned flags, CUstream stream),
           prefetch(p, bytes, where, flags, stream))
ASYNC_CALL(cuMemPrefetchAsync, (CUdeviceptr p, size_t bytes, CUdevice device, CUstream stream),
           prefetch(p, bytes, location_of(device), 0, stream))

/* Attaching to a stream concerns devices that cannot share access with the host; here it is a hint. */
static CUresult attach(CUstream stream, CUdeviceptr p, size_t bytes, unsigned flags)
{
    SG_TRY(sg_enter_context());
    SG_TRY(sg_capture_refuse(stream));
    if (flags != CU_MEM_ATTACH_GLOBAL && flags != CU_MEM_ATTACH_HOST && flags != CU_MEM_ATTACH_SINGLE)
        return CUDA_ERROR_INVALID_VALUE;
    if (flags == CU_MEM_ATTACH_SINGLE && (!stream || stream == CU_STREAM_LEGACY))
        return CUDA_ERROR_INVALID_VALUE; /* one stream, and not the one that stands for all */
    sg_extent_t extent;
    sg_lock();
    CUresult result = sg_stream_resolve_locked(stream) ? find_locked(p, bytes ? bytes : 1, &extent)
                                                       : CUDA_ERROR_INVALID_HANDLE;
    bool whole = !result && extent.base == p && (!bytes || bytes == extent.bytes);
    sg_unlock();
    return !result && !whole ? CUDA_ERROR_INVALID_VALUE : result;
}

ASYNC_CALL(cuStreamAttachMemAsync, (CUstream stream, CUdeviceptr p, size_t bytes, unsigned flags),
           attach(stream, p, bytes, flags))

/* ---- questions ---- */

/* What the older attributes call a location. */
static int device_of(const CUmemLocation *l)
{
    return l->type == CU_MEM_LOCATION_TYPE_DEVICE ? l->id : is_host(l) ? CU_DEVICE_CPU : CU_DEVICE_INVALID;
}

static void list_accessors(const advice_t *a, int *out, size_t count)
{
    size_t n = 0;
    for (int d = 0; d < SG_MAX_DEVICES && n < count; d++)
        if (a->accessed_by >> d & 1)
            out[n++] = d;
    if (a->accessed_by_host && n < count)
        out[n++] = CU_DEVICE_CPU;
    while (n < count)
        out[n++] = CU_DEVICE_INVALID;
}

static CUresult answer(const advice_t *a, CUmem_range_attribute attribute, int *out, size_t bytes)
{
    bool list = attribute == CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY;
    if (list ? !bytes || bytes % 4 : bytes != 4)
        return CUDA_ERROR_INVALID_VALUE;
    switch (attribute) {
    case CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY:
        *out = a->read_mostly;
        break;
    case CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION:
        *out = device_of(&a->preferred);
        break;
    case CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION:
        *out = device_of(&a->prefetched);
        break;
    case CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY:
        list_accessors(a, out, bytes / 4);
        break;
    case CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_TYPE:
        *out = (int)a->preferred.type;
        break;
    case CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_ID:
        *out = a->preferred.id;
        break;
    case CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION_TYPE:
        *out = (int)a->prefetched.type;
        break;
    case CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION_ID:
        *out = a->prefetched.id;
        break;
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
    return CUDA_SUCCESS;
}

SG_EXPORT CUresult cuMemRangeGetAttributes(void **data, size_t *sizes, CUmem_range_attribute *attributes,
                                           size_t count, CUdeviceptr p, size_t bytes)
{
    SG_TRY(sg_enter_context());
    if (!data || !sizes || !attributes || !count)
        return CUDA_ERROR_INVALID_VALUE;
    sg_extent_t extent;
    sg_lock();
    CUresult result = find_locked(p, bytes, &extent);
    const advice_t *a = result ? NULL : advice_of_locked(&extent);
    if (!result && !a)
        result = CUDA_ERROR_OUT_OF_MEMORY;
    for (size_t i = 0; !result && i < count; i++)
        result = data[i] ? answer(a, attributes[i], data[i], sizes[i]) : CUDA_ERROR_INVALID_VALUE;
    sg_unlock();
    return result;
}

SG_EXPORT CUresult cuMemRangeGetAttribute(void *data, size_t size, CUmem_range_attribute attribute,
                                          CUdeviceptr p, size_t bytes)
{
    return cuMemRangeGetAttributes(&data, &size, &attribute, 1, p, bytes);
}

/* ---- several ranges: what is discarded may be anything until it is written again: with SOFTGPU_POISON=1 it is ---- */

typedef struct batch {
    const CUdeviceptr *p;
    const size_t *bytes;
    size_t count;
    const CUmemLocation *where; /* NULL: no prefetch */
    const size_t *first;        /* [locations] the first range to which each applies */
    size_t locations;
    bool discard;
} batch_t;

static bool locations_are_ordered(const batch_t *b)
{
    if (!b->where || !b->first || !b->locations || b->locations > b->count || b->first[0])
        return false;
    for (size_t i = 1; i < b->locations; i++)
        if (b->first[i] <= b->first[i - 1] || b->first[i] >= b->count)
            return false;
    return true;
}

static bool is_managed(CUdeviceptr p, size_t bytes)
{
    sg_extent_t e;
    sg_lock();
    bool managed =
        bytes && sg_extent_find_locked(p, &e) && e.pool && e.pool->managed && bytes <= e.bytes - (p - e.base);
    sg_unlock();
    return managed;
}

static CUresult run(const batch_t *b, unsigned long long flags, CUstream stream)
{
    SG_TRY(sg_enter_context());
    if (!stream || stream == CU_STREAM_LEGACY || flags || !b->p || !b->bytes || !b->count)
        return CUDA_ERROR_INVALID_VALUE;
    if (!b->discard || b->where)
        if (!locations_are_ordered(b))
            return CUDA_ERROR_INVALID_VALUE;
    SG_TRY(sg_capture_refuse(stream));
    for (size_t i = 0; i < b->count; i++)
        if (!is_managed(b->p[i], b->bytes[i]))
            return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0, at = 0; i < b->count; i++) {
        if (b->discard && sg.config.poison)
            SG_TRY(sg_submit(stream, sg_poison_op(b->p[i], b->bytes[i], 0xfe), false));
        if (!b->where)
            continue;
        at += at + 1 < b->locations && b->first[at + 1] == i;
        SG_TRY(cuMemPrefetchAsync_v2(b->p[i], b->bytes[i], b->where[at], 0, stream));
    }
    return CUDA_SUCCESS;
}

ASYNC_CALL(cuMemPrefetchBatchAsync,
           (CUdeviceptr * p, size_t *bytes, size_t count, CUmemLocation *where, size_t *first,
            size_t locations, unsigned long long flags, CUstream stream),
           run(&(batch_t){p, bytes, count, where, first, locations, false}, flags, stream))
ASYNC_CALL(cuMemDiscardBatchAsync,
           (CUdeviceptr * p, size_t *bytes, size_t count, unsigned long long flags, CUstream stream),
           run(&(batch_t){p, bytes, count, NULL, NULL, 0, true}, flags, stream))
ASYNC_CALL(cuMemDiscardAndPrefetchBatchAsync,
           (CUdeviceptr * p, size_t *bytes, size_t count, CUmemLocation *where, size_t *first,
            size_t locations, unsigned long long flags, CUstream stream),
           where ? run(&(batch_t){p, bytes, count, where, first, locations, true}, flags, stream)
                 : CUDA_ERROR_INVALID_VALUE)
