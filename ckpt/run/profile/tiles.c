#include "ckpt/run/profile/profile.h"

#include <stdlib.h>
#include <string.h>

#include "alloc/base/driver.h"
#include "alloc/base/status.h"
#include "alloc/device.h"
#include "ckpt/run/state.h"

enum { THREADS = 256 };

struct ebb_tiles {
    ebb_buffer_t *device; /* hashes, founds, results */
    size_t hashes, founds, results;
    uint64_t *host; /* pinned: founds, results */
    CUdeviceptr low, high;
};

static size_t host_bytes(const ebb_tiles_t *t)
{
    return (EBB_TILE_FOUND * t->founds * sizeof(uint64_t) + t->results + 15) & ~(size_t)7;
}

/* Where the program's buffers are. */
static void find_range(ebb_device_t *dev, ebb_tiles_t *t)
{
    t->low = UINT64_MAX;
    for (const ebb_buffer_t *b = ebb_buffer_oldest(dev); b; b = b->newer) {
        t->low = b->address < t->low ? b->address : t->low;
        t->high = b->address + b->bytes > t->high ? b->address + b->bytes : t->high;
    }
}

ebb_tiles_t *ebb_tiles_new(ebb_device_t *dev, size_t hashes, size_t results, size_t founds)
{
    ebb_tiles_t *t = calloc(1, sizeof *t);
    if (!t)
        return NULL;
    t->hashes = hashes;
    t->results = results;
    t->founds = founds;
    size_t bytes = hashes * sizeof(uint64_t) + host_bytes(t);
    t->host = ebb_own_kernel(dev, EBB_TILES_HASH) ? ebb_scratch_pinned_alloc(dev, host_bytes(t)) : NULL;
    t->device = t->host ? ebb_scratch_alloc(dev, bytes, NULL) : NULL;
    if (t->device) {
        find_range(dev, t);
        return t;
    }
    ebb_log(EBB_WARN, "there is no memory to learn with: %zu KiB on the device", bytes >> 10);
    ebb_tiles_delete(dev, t);
    return NULL;
}

void ebb_tiles_delete(ebb_device_t *dev, ebb_tiles_t *t)
{
    if (!t)
        return;
    ebb_scratch_free(t->device, NULL);
    ebb_scratch_pinned_free(dev, t->host, host_bytes(t));
    free(t);
}

static CUdeviceptr founds_at(const ebb_tiles_t *t)
{
    return t->device->address + t->hashes * sizeof(uint64_t);
}

static CUdeviceptr results_at(const ebb_tiles_t *t)
{
    return founds_at(t) + EBB_TILE_FOUND * t->founds * sizeof(uint64_t);
}

/* ---- jobs ---- */

void ebb_tiles_begin(ebb_tile_list_t *l, ebb_tiles_t *tiles, ebb_stream_t *stream, ebb_own_kernel_t kind)
{
    l->tiles = tiles;
    l->stream = stream;
    l->kind = kind;
    l->status = 0;
    l->jobs.count = l->jobs.tiles = 0;
}

static ebb_status_t issue(ebb_device_t *dev, ebb_tile_list_t *l)
{
    void *params[] = {&l->jobs};
    /* A scan of the launch's arguments finds no pointers of earlier jobs. */
    memset(&l->jobs.job[l->jobs.count], 0, (EBB_TILE_JOBS - l->jobs.count) * sizeof l->jobs.job[0]);
    l->jobs.low = l->tiles->low >> 16;
    l->jobs.high = (l->tiles->high >> 16) + 1;
    EBB_DRIVER(cuLaunchKernel, 0,
               (ebb_own_kernel(dev, l->kind), l->jobs.tiles, 1, 1, THREADS, 1, 1, 0,
                ebb_stream_handle(l->stream), params, NULL));
    ebb_mark_issue(l->stream);
    return 0;
}

ebb_status_t ebb_tiles_end(ebb_device_t *dev, ebb_tile_list_t *l)
{
    if (l->jobs.count && !l->status)
        l->status = issue(dev, l);
    l->jobs.count = l->jobs.tiles = 0;
    return l->status;
}

static void add(ebb_device_t *dev, ebb_tile_list_t *l, const ebb_tile_job_t *job)
{
    if (!job->tiles)
        return;
    if (l->jobs.count == EBB_TILE_JOBS)
        ebb_tiles_end(dev, l);
    l->jobs.job[l->jobs.count++] = *job;
    l->jobs.tiles += job->tiles;
}

void ebb_tiles_hash(ebb_device_t *dev, ebb_tile_list_t *l, CUdeviceptr at, size_t bytes, uint32_t hash,
                    uint32_t result, uint32_t found)
{
    const ebb_tiles_t *t = l->tiles;
    add(dev, l,
        &(ebb_tile_job_t){
            .a = at,
            .b = found == EBB_NONE ? 0 : founds_at(t) + EBB_TILE_FOUND * (size_t)found * sizeof(uint64_t),
            .bytes = bytes,
            .table = t->device->address + hash * sizeof(uint64_t),
            .result = result == EBB_NONE ? 0 : results_at(t) + result,
            .tiles = ebb_tile_count(bytes)});
}

void ebb_tiles_move(ebb_device_t *dev, ebb_tile_list_t *l, CUdeviceptr to, CUdeviceptr from, size_t bytes,
                    uint32_t result)
{
    add(dev, l,
        &(ebb_tile_job_t){.a = to,
                          .b = from,
                          .bytes = bytes,
                          .result = result == EBB_NONE ? 0 : results_at(l->tiles) + result,
                          .tiles = ebb_tile_count(bytes)});
}

void ebb_tiles_compare(ebb_device_t *dev, ebb_tile_list_t *l, CUdeviceptr a, CUdeviceptr b, CUdeviceptr other,
                       size_t bytes, uint32_t result)
{
    add(dev, l,
        &(ebb_tile_job_t){.a = a,
                          .b = b,
                          .bytes = bytes,
                          .table = other,
                          .result = results_at(l->tiles) + result,
                          .tiles = ebb_tile_count(bytes)});
}

/* ---- results ---- */

ebb_status_t ebb_tiles_read(ebb_tiles_t *t, ebb_stream_t *stream)
{
    EBB_TRY(ebb_wait_for_device(ebb_stream_device(stream)->ebb));
    EBB_DRIVER(cuMemcpyDtoHAsync_v2, host_bytes(t),
               (t->host, founds_at(t), host_bytes(t) - 8, ebb_stream_handle(stream)));
    const CUresult result = ebb_await_stream(ebb_stream_handle(stream));
    return result ? ebb_fail(result, "cuStreamSynchronize", 0) : 0;
}

bool ebb_tiles_result(const ebb_tiles_t *t, uint32_t result)
{
    return ((const unsigned char *)(t->host + EBB_TILE_FOUND * t->founds))[result];
}

const uint64_t *ebb_tiles_found(const ebb_tiles_t *t, uint32_t found)
{
    return t->host + EBB_TILE_FOUND * (size_t)found;
}
