/* head.c: from the last norm to logits and losses, and back.
 *
 * Logits and their gradients are the largest tensors of a model with many classes, and live only in between: so they are
 * made for some rows at a time, and what is made of them, the losses and the gradients of the head and of its input, at once.
 */
#include "model/base/check.h"
#include "model/base/ranges.h"
#include "model/layers/linear.h"
#include "model/layers/pass.h"

static linear_t head_shape(const pass_t *pass, int rows)
{
    return (linear_t){rows, pass->C, pass->shape->vocab};
}

/* Rows whose logits are at hand at once: as many as make LOGITS of them, or twice as many logits as a tensor of the residual
 * stream has elements if that is more (each chunk adds to all of the head's gradient, which is worth the traffic only for
 * many rows). Chunks are about equally large. */
enum { LOGITS = 1 << 25, CHUNK_ROWS = 128 /* a chunk has a multiple of these */ };

static int chunk_rows(const pass_t *pass)
{
    int64_t N = pass->N, V = pass->shape->vocab, logits = 2 * N * pass->C;
    int64_t most = (logits > LOGITS ? logits : LOGITS) / V / CHUNK_ROWS * CHUNK_ROWS;
    if (most >= N)
        return pass->N;
    most = most > CHUNK_ROWS ? most : CHUNK_ROWS;
    int64_t chunks = (N + most - 1) / most;
    int64_t rows = ((N + chunks - 1) / chunks + CHUNK_ROWS - 1) / CHUNK_ROWS * CHUNK_ROWS;
    return (int)(rows < N ? rows : N);
}

/* Row `row` of a tensor of rows of `columns` elements. */
static void *row_of(const tensor_t *tensor, int row, int columns)
{
    return (char *)tensor->data + (size_t)row * (size_t)columns * dtype_bytes(tensor->dtype);
}

/* What a chunk is made of, and made in. */
typedef struct chunk {
    int first, rows;
    void *logits;  /* fp32 [rows,V] */
    void *dlogits; /* [rows,V]: in fp32 the logits; NULL: no gradients */
} chunk_t;

static void chunk_backward(const pass_t *pass, const norm_t *last, head_t head, chunk_t chunk,
                           const tensor_t *dout)
{
    linear_t shape = head_shape(pass, chunk.rows);
    linear_backward_weight(pass->gpu, pass->dtype, shape, head.dw->head, NULL, chunk.dlogits,
                           row_of(&last->out, chunk.first, pass->C), pass->accumulate || chunk.first > 0);
    linear_backward_input(pass->gpu, pass->dtype, shape, row_of(dout, chunk.first, pass->C), chunk.dlogits,
                          head.w->head);
}

tensor_t head_row_losses(const pass_t *pass, norm_t *last, head_t head, tensor_t *losses)
{
    gpu_t *gpu = pass->gpu;
    int rows = chunk_rows(pass), V = pass->shape->vocab;
    size_t room = (size_t)rows * (size_t)V;
    tensor_t dout = pass->keep ? pass_tensor(pass, pass->C) : (tensor_t){0}; /* [N,C] */
    *losses = pass_statistics(pass, 1);                                      /* [N] */
    tensor_t logits = tensor_new_of(gpu, MEMORY_LOGITS, DTYPE_FP32, room);   /* [rows,V] */
    tensor_t dlogits = pass->keep && pass->dtype != DTYPE_FP32
                           ? tensor_new_of(gpu, MEMORY_LOGITS, pass->dtype, room)
                           : (tensor_t){0};
    chunk_t chunk = {.logits = logits.data,
                     .dlogits = pass->keep && dlogits.data == NULL ? logits.data : dlogits.data};
    for (chunk.first = 0; chunk.first < pass->N; chunk.first += rows) {
        chunk.rows = pass->N - chunk.first < rows ? pass->N - chunk.first : rows;
        linear_forward_fp32(gpu, pass->dtype, head_shape(pass, chunk.rows), chunk.logits,
                            row_of(&last->out, chunk.first, pass->C), head.w->head);
        CUDA(cross_entropy(pass->dtype, chunk.dlogits, (float *)losses->data + chunk.first, chunk.logits,
                           head.targets + chunk.first, chunk.rows, V, head.scale, gpu->stream));
        if (pass->keep)
            chunk_backward(pass, last, head, chunk, &dout);
    }
    tensor_free(gpu, &dlogits);
    tensor_free(gpu, &logits);
    tensor_free(gpu, &last->out);
    return dout;
}

tensor_t head_loss(const pass_t *pass, norm_t *last, head_t head, float *loss)
{
    tensor_t losses;
    tensor_t dout = head_row_losses(pass, last, head, &losses); /* [N,C] */
    CUDA(sum(loss, losses.data, (size_t)pass->N, head.scale, pass->accumulate, pass->gpu->stream));
    tensor_free(pass->gpu, &losses);
    return dout;
}

tensor_t head_next(const pass_t *pass, const norm_t *last, const outer_t *w)
{
    size_t row = (size_t)(pass->N - 1) * (size_t)pass->C * dtype_bytes(pass->dtype);
    tensor_t logits =
        tensor_new_of(pass->gpu, MEMORY_LOGITS, DTYPE_FP32, (size_t)pass->shape->vocab); /* [V] */
    linear_forward_fp32(pass->gpu, pass->dtype, head_shape(pass, 1), logits.data,
                        (const char *)last->out.data + row, w->head);
    return logits;
}

tensor_t head_backward(const pass_t *pass, norm_t *last, tensor_t *dout, const outer_t *w, const outer_t *dw,
                       float *dbefore)
{
    range_begin("head");
    tensor_t dx = {0};
    norm_backward(pass, last, &dx, dout, w->norm_w, dw->norm_w, dw->norm_b, dbefore);
    range_end();
    return dx;
}
