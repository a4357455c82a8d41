#include "ckpt/run/own.h"
#include "alloc/device.h"

#include "offload/pinned.h"

static struct {
    size_t device, pinned;
} counts[EBB_STATES];
#define counted (counts[ebb_here->number])

ebb_buffer_t *ebb_own_alloc(size_t bytes, ebb_stream_t *stream)
{
    ebb_buffer_t *b;
    if (ebb_heap_alloc(ebb_here, &(ebb_request_t){.bytes = bytes, .stream = stream}, &b))
        return NULL;
    b->held++;
    counted.device += bytes;
    return b;
}

void ebb_own_free(ebb_buffer_t *b, ebb_stream_t *stream)
{
    if (!b)
        return;
    counted.device -= b->bytes;
    ebb_heap_free(b, stream ? ebb_mark_here(stream) : (ebb_mark_t){0});
}

void *ebb_own_pinned_alloc(size_t bytes)
{
    void *p = ebb_pinned_alloc(bytes);
    counted.pinned += p ? bytes : 0;
    if (!p)
        ebb_fail(CUDA_ERROR_OUT_OF_MEMORY, "pinned host memory", bytes);
    return p;
}

void ebb_own_pinned_free(void *p, size_t bytes)
{
    counted.pinned -= p ? bytes : 0;
    ebb_pinned_free(p, bytes);
}

size_t ebb_own_bytes(void)
{
    return counted.device;
}

size_t ebb_own_pinned_bytes(void)
{
    return counted.pinned;
}

size_t ebb_program_bytes(void)
{
    const size_t live = ebb_live_bytes(ebb_here);
    return live > counted.device ? live - counted.device : 0;
}
