#include "chunk.h"

#include <stdlib.h>

#include "driver.h"

static struct {
    int device;
    size_t limit;         /* chunks that may exist */
    size_t ceded;         /* chunks' worth of the budget that others have */
    size_t created, peak; /* that do, and did */
    size_t spare_count;
    ebb_chunk_t *spare; /* [limit], a stack */
    size_t budget_bytes, overhead_bytes;
} pool;

void ebb_chunks_init(CUdevice device, size_t budget_bytes, size_t others_bytes)
{
    pool.device = device;
    pool.budget_bytes = budget_bytes > others_bytes ? budget_bytes - others_bytes : 0;
    pool.overhead_bytes = others_bytes;
    pool.limit = pool.budget_bytes / EBB_CHUNK_BYTES;
    pool.spare = calloc(pool.limit ? pool.limit : 1, sizeof *pool.spare);
    if (!pool.spare)
        pool.limit = 0;
}

int ebb_chunk_device(void)
{
    return pool.device;
}

size_t ebb_chunks_available(void)
{
    return pool.spare_count + (pool.limit - pool.created);
}

size_t ebb_chunks_limit(void)
{
    return pool.limit;
}

static ebb_status_t create(ebb_chunk_t *out)
{
    const CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                      .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = pool.device}};
    EBB_DRIVER(cuMemCreate, EBB_CHUNK_BYTES, (out, EBB_CHUNK_BYTES, &prop, 0));
    if (++pool.created > pool.peak)
        pool.peak = pool.created;
    return 0;
}

ebb_status_t ebb_chunks_take(size_t count, ebb_chunk_t *out)
{
    if (count > ebb_chunks_available())
        return ebb_fail(CUDA_ERROR_OUT_OF_MEMORY, "taking chunks", count * EBB_CHUNK_BYTES);
    for (size_t i = 0; i < count; i++) {
        ebb_status_t status = 0;
        if (pool.spare_count)
            out[i] = pool.spare[--pool.spare_count];
        else
            status = create(&out[i]);
        if (status) { /* the driver has less than the budget says */
            ebb_chunks_give(i, out);
            return status;
        }
    }
    return 0;
}

void ebb_chunks_give(size_t count, const ebb_chunk_t *chunks)
{
    for (size_t i = 0; i < count; i++)
        pool.spare[pool.spare_count++] = chunks[i];
}

void ebb_chunks_release(void)
{
    while (pool.spare_count && !ebb_driver.cuMemRelease(pool.spare[pool.spare_count - 1])) {
        pool.spare_count--;
        pool.created--;
    }
}

bool ebb_chunks_cede(size_t count)
{
    if (count > ebb_chunks_available())
        return false;
    while (pool.created > pool.limit - count) {
        if (ebb_driver.cuMemRelease(pool.spare[pool.spare_count - 1]))
            return false;
        pool.spare_count--;
        pool.created--;
    }
    pool.limit -= count;
    pool.ceded += count;
    return true;
}

void ebb_chunks_regain(size_t count)
{
    pool.limit += count;
    pool.ceded -= count;
}

ebb_usage_t ebb_chunks_usage(void)
{
    size_t ceded_bytes = pool.ceded * EBB_CHUNK_BYTES;
    return (ebb_usage_t){.budget_bytes = pool.budget_bytes - ceded_bytes,
                         .overhead_bytes = pool.overhead_bytes + ceded_bytes,
                         .created_bytes = pool.created * EBB_CHUNK_BYTES,
                         .peak_bytes = pool.peak * EBB_CHUNK_BYTES,
                         .mapped_bytes = (pool.created - pool.spare_count) * EBB_CHUNK_BYTES};
}
