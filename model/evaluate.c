#include "evaluate.h"

#include <stdlib.h>

#include "check.h"
#include "ranges.h"

#define SUM_STRIDE 4 /* floats between two sums: kernels want 16 bytes */

/* Issues one batch; its loss sum goes to *sum (device). */
static size_t issue_batch(transformer_t *model, batch_ring_t *ring, const corpus_t *corpus,
                          held_out_batch_t which, size_t *starts, float *loss)
{
    for (int b = 0; b < which.B; b++)
        starts[b] = which.start + (size_t)b * (size_t)which.T;
    batch_t batch = batch_upload(ring, corpus, starts, which.B, which.T);
    transformer_loss(model, &batch, loss);
    batch_free(ring, &batch);
    return (size_t)which.B * (size_t)which.T;
}

evaluation_t evaluate(transformer_t *model, batch_ring_t *ring, const corpus_t *corpus, int B, int T,
                      size_t most)
{
    range_begin("evaluation");
    gpu_t *gpu = model->gpu;
    size_t count = corpus_held_out_batches(corpus, B, T);
    if (most > 0 && most < count)
        count = most;
    size_t *starts = calloc((size_t)B, sizeof *starts);
    float *host = calloc(count, SUM_STRIDE * sizeof *host);
    if (starts == NULL || host == NULL)
        fatal("no host memory to evaluate %zu batches", count);

    evaluation_t result = {0};
    tensor_t sums =
        tensor_new(gpu, DTYPE_FP32, count * SUM_STRIDE); /* [count, SUM_STRIDE], the first of each is used */
    for (size_t i = 0; i < count; i++) {
        held_out_batch_t which = corpus_held_out_batch(corpus, i, B, T);
        result.tokens += issue_batch(model, ring, corpus, which, starts, (float *)sums.data + i * SUM_STRIDE);
        if ((i + 1) % (size_t)ring->slots == 0)
            CUDA(cudaStreamSynchronize(gpu->stream)); /* the ring's promise */
    }
    CUDA(cudaMemcpyAsync(host, sums.data, sums.bytes, cudaMemcpyDeviceToHost, gpu->stream));
    CUDA(cudaStreamSynchronize(gpu->stream));
    tensor_free(gpu, &sums);

    for (size_t i = 0; i < count; i++)
        result.loss += host[i * SUM_STRIDE];
    result.loss /= (double)result.tokens;
    free(host);
    free(starts);
    range_end();
    return result;
}
