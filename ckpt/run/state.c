
#include <stdlib.h>

#include "alloc/device.h"
#include "ckpt/run/run.h"
#include "ckpt/run/state.h"
#include "offload/ebb_offload.h"

#define EBB_RUN_PART(part) extern const size_t ebb_part_##part;
EBB_RUN_PARTS(EBB_RUN_PART)
EBB_RUN_SHARED_PARTS(EBB_RUN_PART)
#undef EBB_RUN_PART

/* Where `run` gets its parts. */
#define EBB_RUN_PART(part) good = good && (run->part = calloc(1, ebb_part_##part));

bool ebb_run_open_device(ebb_device_t *dev)
{
    struct ebb_run *run = calloc(1, sizeof *run);
    bool good = run != NULL;
    EBB_RUN_PARTS(EBB_RUN_PART)
    dev->run = good ? run : NULL;
    return good;
}

bool ebb_run_open(ebb_t *ebb)
{
    struct ebb_run_shared *run = calloc(1, sizeof *run);
    bool good = run != NULL;
    EBB_RUN_SHARED_PARTS(EBB_RUN_PART)
    ebb->run_shared = run;
    return good && ebb_run_open_device(ebb_no_device(ebb));
}
#undef EBB_RUN_PART

/* ---- memory of this folder's own ---- */

struct ebb_scratch {
    size_t device, pinned;
};
const size_t ebb_part_scratch = sizeof(struct ebb_scratch);

ebb_buffer_t *ebb_scratch_alloc(ebb_device_t *dev, size_t bytes, ebb_stream_t *stream)
{
    ebb_buffer_t *b;
    if (ebb_heap_alloc(dev, &(ebb_request_t){.bytes = bytes, .stream = stream}, &b))
        return NULL;
    b->held++;
    dev->run->scratch->device += bytes;
    return b;
}

void ebb_scratch_free(ebb_buffer_t *b, ebb_stream_t *stream)
{
    if (!b)
        return;
    b->range->device->run->scratch->device -= b->bytes;
    ebb_heap_free(b, stream ? ebb_mark_here(stream) : (ebb_mark_t){0});
}

void *ebb_scratch_pinned_alloc(ebb_device_t *dev, size_t bytes)
{
    void *p = ebb_pinned_alloc(dev, bytes);
    dev->run->scratch->pinned += p ? bytes : 0;
    if (!p)
        ebb_fail(CUDA_ERROR_OUT_OF_MEMORY, "pinned host memory", bytes);
    return p;
}

void ebb_scratch_pinned_free(ebb_device_t *dev, void *p, size_t bytes)
{
    dev->run->scratch->pinned -= p ? bytes : 0;
    ebb_pinned_free(dev, p, bytes);
}

size_t ebb_scratch_pinned_bytes(ebb_device_t *dev)
{
    return dev->run->scratch->pinned;
}

size_t ebb_program_bytes(ebb_device_t *dev)
{
    struct ebb_scratch *scratch = dev->run->scratch;
    const size_t live = ebb_live_bytes(dev);
    return live > scratch->device ? live - scratch->device : 0;
}
