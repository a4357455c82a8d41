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
static void issue_batch(const evaluator_t *evaluator, const held_out_t *held_out, held_out_batch_t which,
                        rows_t *rows, float *loss)
{
    fault_t fault;
    if (!held_out_read(held_out, which, rows->inputs, rows->targets, &fault))
        usage_error("%s", fault.text);
    batch_t batch = batch_upload(evaluator->ring, rows->inputs, rows->targets, which.B, which.T);
    transformer_loss(evaluator->model, &batch, loss);
    batch_free(evaluator->ring, &batch);
}

static void show_batches(const evaluator_t *evaluator, size_t done, size_t count)
{
    progress_part(evaluator->progress, "held-out loss", done, count, "batches");
}

evaluation_t evaluate(const evaluator_t *evaluator, const held_out_t *held_out, int B, int T, size_t most)
{
    range_begin("evaluation");
    gpu_t *gpu = evaluator->model->gpu;
    const world_t *world = &evaluator->ranks->world;
    const size_t ranks = (size_t)world->count;
    size_t count = (size_t)held_out_batches(held_out, B, T);
    if (most > 0 && most < count)
        count = most;
    rows_t rows = rows_new(B, T);
    float *host = calloc(count, SUM_STRIDE * sizeof *host);
    if (host == NULL)
        fatal("no host memory to evaluate %zu batches", count);

    evaluation_t result = {0};
    tensor_t sums = tensor_new(
        gpu, DTYPE_FP32, (count + 1) * SUM_STRIDE); /* the first of each is used, the last one by nobody */
    /* The others' batches: a sum with nothing is exact, so the loss has the same bits for any number of ranks. With --zero 3 all make as many
     * passes: some the last one's once more. */
    if (world->count > 1)
        CUDA(cudaMemsetAsync(sums.data, 0, sums.bytes, gpu->stream));
    show_batches(evaluator, 0, count);
    for (size_t i = 0; i < count; i++) {
        held_out_batch_t which = held_out_batch(held_out, i, B, T);
        result.tokens += (size_t)which.B * (size_t)which.T;
        if (i % ranks == (size_t)world->rank)
            issue_batch(evaluator, held_out, which, &rows, (float *)sums.data + i * SUM_STRIDE);
        else if (i + 1 == count && i % ranks < (size_t)world->rank && evaluator->model->parameters.zero == 3)
            issue_batch(evaluator, held_out, which, &rows, (float *)sums.data + count * SUM_STRIDE);
        if ((i + 1) % (size_t)evaluator->ring->slots == 0 && i + 1 < count) {
            CUDA(cudaStreamSynchronize(gpu->stream)); /* the ring's promise */
            show_batches(evaluator, i + 1, count);
        }
    }
    ranks_all_reduce(evaluator->ranks, sums.data, count * SUM_STRIDE);
    ranks_join(evaluator->ranks);
    CUDA(cudaMemcpyAsync(host, sums.data, count * SUM_STRIDE * sizeof *host, cudaMemcpyDeviceToHost,
                         gpu->stream));
    CUDA(cudaStreamSynchronize(gpu->stream));
    show_batches(evaluator, count, count);
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
    const evaluator_t *evaluator;
    const choices_score_t *score; /* so far */
    int count;                    /* questions in all */
} questioned_t;

static void show_questions(const questioned_t *q, int done)
{
    progress_part(q->evaluator->progress, "choices", (size_t)done, (size_t)q->count, "questions");
}

/* A choices_losses_fn. */
static void row_losses(void *context, const int *inputs, const int *targets, int B, int T, float *losses)
{
    questioned_t *q = context;
    batch_ring_t *ring = q->evaluator->ring;
    gpu_t *gpu = ring->gpu;
    show_questions(q, q->score->examples);
    batch_t batch = batch_upload(ring, inputs, targets, B, T);
    tensor_t rows = transformer_row_losses(q->evaluator->model, &batch); /* [B,T] */
    CUDA(cudaMemcpyAsync(losses, rows.data, (size_t)B * (size_t)T * sizeof *losses, cudaMemcpyDeviceToHost,
                         gpu->stream));
    CUDA(cudaStreamSynchronize(gpu->stream));
    tensor_free(gpu, &rows);
    batch_free(ring, &batch);
}

choices_score_t evaluate_choices(const evaluator_t *evaluator, const choices_t *choices, int B, int most)
{
    range_begin("evaluation");
    choices_score_t score;
    questioned_t questioned = {evaluator, &score, most > 0 && most < choices->count ? most : choices->count};
    choices_model_t answering = {row_losses, &questioned, B, evaluator->model->shape.context};
    fault_t fault;
    if (!choices_evaluate(choices, answering, most, &score, &fault))
        fatal("%s", fault.text);
    show_questions(&questioned, questioned.count);
    range_end();
    return score;
}
