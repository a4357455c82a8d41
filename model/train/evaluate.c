#include "model/train/evaluate.h"

#include <stdlib.h>

#include "model/base/check.h"
#include "model/base/ranges.h"

#define SUM_STRIDE 4 /* floats between two sums: kernels want 16 bytes */

/* One batch's place on the host. */
typedef struct rows {
    int *inputs, *targets; /* own [B,T] */
} rows_t;

static rows_t rows_new(int B, int T)
{
    size_t count = (size_t)B * (size_t)T;
    rows_t rows = {calloc(count, sizeof *rows.inputs), calloc(count, sizeof *rows.targets)};
    if (rows.inputs == NULL || rows.targets == NULL)
        fatal("no host memory for a batch of %d x %d tokens", B, T);
    return rows;
}

static void rows_free(rows_t *rows)
{
    free(rows->inputs);
    free(rows->targets);
}

/* Issues one batch; its loss sum goes to *sum (device). */
static size_t issue_batch(transformer_t *model, batch_ring_t *ring, const held_out_t *held_out,
                          held_out_batch_t which, rows_t *rows, float *loss)
{
    fault_t fault;
    if (!held_out_read(held_out, which, rows->inputs, rows->targets, &fault))
        usage_error("%s", fault.text);
    batch_t batch = batch_upload(ring, rows->inputs, rows->targets, which.B, which.T);
    transformer_loss(model, &batch, loss);
    batch_free(ring, &batch);
    return (size_t)which.B * (size_t)which.T;
}

evaluation_t evaluate(transformer_t *model, batch_ring_t *ring, const held_out_t *held_out, int B, int T,
                      size_t most)
{
    range_begin("evaluation");
    gpu_t *gpu = model->gpu;
    size_t count = (size_t)held_out_batches(held_out, B, T);
    if (most > 0 && most < count)
        count = most;
    rows_t rows = rows_new(B, T);
    float *host = calloc(count, SUM_STRIDE * sizeof *host);
    if (host == NULL)
        fatal("no host memory to evaluate %zu batches", count);

    evaluation_t result = {0};
    tensor_t sums =
        tensor_new(gpu, DTYPE_FP32, count * SUM_STRIDE); /* [count, SUM_STRIDE], the first of each is used */
    for (size_t i = 0; i < count; i++) {
        held_out_batch_t which = held_out_batch(held_out, i, B, T);
        result.tokens +=
            issue_batch(model, ring, held_out, which, &rows, (float *)sums.data + i * SUM_STRIDE);
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
    rows_free(&rows);
    range_end();
    return result;
}

typedef struct questioned {
    transformer_t *model;
    batch_ring_t *ring;
} questioned_t;

/* A choices_losses_fn. */
static void row_losses(void *context, const int *inputs, const int *targets, int B, int T, float *losses)
{
    questioned_t *q = context;
    gpu_t *gpu = q->model->gpu;
    batch_t batch = batch_upload(q->ring, inputs, targets, B, T);
    tensor_t rows = transformer_row_losses(q->model, &batch); /* [B,T] */
    CUDA(cudaMemcpyAsync(losses, rows.data, (size_t)B * (size_t)T * sizeof *losses, cudaMemcpyDeviceToHost,
                         gpu->stream));
    CUDA(cudaStreamSynchronize(gpu->stream));
    tensor_free(gpu, &rows);
    batch_free(q->ring, &batch);
}

choices_score_t evaluate_choices(transformer_t *model, batch_ring_t *ring, const choices_t *choices, int B,
                                 int most)
{
    range_begin("evaluation");
    questioned_t questioned = {model, ring};
    choices_model_t answering = {row_losses, &questioned, B, model->shape.context};
    choices_score_t score;
    fault_t fault;
    if (!choices_evaluate(choices, answering, most, &score, &fault))
        fatal("%s", fault.text);
    range_end();
    return score;
}
