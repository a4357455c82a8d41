/* managed_batch.c: prefetches and discards of several ranges of managed memory. Prefetches are checked and remembered
 * (managed.c). What is discarded may be anything until it is written again: with SOFTGPU_POISON=1 it is. */
#include "softgpu/driver/stream/streams.h"

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
