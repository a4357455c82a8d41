#include "model/data/batch.h"

#include <stdlib.h>
#include <string.h>

#include "model/base/check.h"
#include "model/data/token_index.h"
#include "model/kernels/launches.h"

/* A slot holds, each part on a multiple of 16 bytes: tokens[N], targets[N], class[K], first[K+1], order[N],
 * counter (uint64); K = min(N, V). The device's copy looks the same. */
typedef struct layout {
    size_t targets, token, first, order, counter, total; /* in ints */
} layout_t;

static size_t padded(size_t ints)
{
    return (ints + 3) / 4 * 4;
}

static layout_t layout_of(int N, int V)
{
    size_t rows = padded((size_t)N), classes = (size_t)(N < V ? N : V);
    layout_t at = {.targets = rows, .token = 2 * rows};
    at.first = at.token + padded(classes);
    at.order = at.first + padded(classes + 1);
    at.counter = at.order + rows;
    at.total = at.counter + 4;
    return at;
}

void batch_ring_open(batch_ring_t *ring, gpu_t *gpu, int max_rows, int V, int slots)
{
    *ring = (batch_ring_t){.gpu = gpu, .V = V, .max_rows = max_rows, .slots = slots};
    void *pinned = NULL;
    CUDA(cudaMallocHost(&pinned, layout_of(max_rows, V).total * (size_t)slots * sizeof(int)));
    ring->pinned = pinned;
    ring->workspace = malloc((size_t)V * sizeof(int));
    if (ring->workspace == NULL)
        fatal("no memory for a table of %d classes", V);
}

void batch_ring_close(batch_ring_t *ring)
{
    CUDA(cudaFreeHost(ring->pinned));
    free(ring->workspace);
    *ring = (batch_ring_t){0};
}

batch_t batch_reserve(gpu_t *gpu, int V, int B, int T)
{
    layout_t at = layout_of(B * T, V);
    batch_t batch = {
        .B = B, .T = T, .memory = tensor_new_of(gpu, MEMORY_OTHER, DTYPE_FP32, at.total) /* as many bytes */};
    int *device = batch.memory.data;
    batch.tokens = device;
    batch.targets = device + at.targets;
    batch.index = (token_index_t){device + at.token, device + at.first, device + at.order, 0};
    batch.counter = (const uint64_t *)(const void *)(device + at.counter);
    return batch;
}

void batch_refill(batch_ring_t *ring, batch_t *batch, const int *inputs, const int *targets, uint64_t counter)
{
    int N = batch->B * batch->T;
    layout_t at = layout_of(N, ring->V);
    int *host = ring->pinned + (size_t)ring->next * layout_of(ring->max_rows, ring->V).total;
    ring->next = (ring->next + 1) % ring->slots;
    memcpy(host, inputs, (size_t)N * sizeof *host);
    memcpy(host + at.targets, targets, (size_t)N * sizeof *host);
    token_index_host_t index = {host + at.token, host + at.first, host + at.order};
    int classes = token_index_build(index, host, N, ring->V, ring->workspace);

    memcpy(host + at.counter, &counter, sizeof counter);
    CUDA(cudaMemcpyAsync(batch->memory.data, host, at.total * sizeof(int), cudaMemcpyHostToDevice,
                         ring->gpu->stream));
    launched();
    batch->index.count = classes;
}

batch_t batch_upload(batch_ring_t *ring, const int *inputs, const int *targets, int B, int T)
{
    batch_t batch = batch_reserve(ring->gpu, ring->V, B, T);
    batch_refill(ring, &batch, inputs, targets, 0);
    return batch;
}

void batch_free(batch_ring_t *ring, batch_t *batch)
{
    tensor_free(ring->gpu, &batch->memory);
    *batch = (batch_t){0};
}
