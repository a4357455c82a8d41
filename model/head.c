/* head.c: from the last norm to logits and losses, and back. */
#include "check.h"
#include "linear.h"
#include "pass.h"
#include "ranges.h"

static linear_t head_shape(const pass_t *pass, int rows)
{
    return (linear_t){rows, pass->C, pass->shape->vocab};
}

tensor_t head_row_losses(const pass_t *pass, const norm_t *last, const outer_t *w, const int *targets,
                         float scale, tensor_t *losses)
{
    gpu_t *gpu = pass->gpu;
    int N = pass->N, V = pass->shape->vocab;
    bool in_place = pass->dtype == DTYPE_FP32;
    tensor_t logits = pass_statistics(pass, V); /* [N,V] */
    linear_forward_fp32(gpu, pass->dtype, head_shape(pass, N), logits.data, last->out.data, w->head);
    *losses = pass_statistics(pass, 1); /* [N] */
    tensor_t dlogits = pass->keep && !in_place ? pass_tensor(pass, V) : (tensor_t){0};
    CUDA(cross_entropy(pass->dtype, pass->keep && in_place ? logits.data : dlogits.data, losses->data,
                       logits.data, targets, N, V, scale, gpu->stream));
    if (pass->keep && in_place)
        dlogits = tensor_take(&logits);
    tensor_free(gpu, &logits);
    return dlogits;
}

tensor_t head_loss(const pass_t *pass, const norm_t *last, const outer_t *w, const int *targets, float *loss,
                   float scale)
{
    tensor_t losses;
    tensor_t dlogits = head_row_losses(pass, last, w, targets, scale, &losses); /* [N,V] */
    CUDA(sum(loss, losses.data, (size_t)pass->N, scale, pass->accumulate, pass->gpu->stream));
    tensor_free(pass->gpu, &losses);
    return dlogits;
}

tensor_t head_next(const pass_t *pass, const norm_t *last, const outer_t *w)
{
    size_t row = (size_t)(pass->N - 1) * (size_t)pass->C * dtype_bytes(pass->dtype);
    tensor_t logits = tensor_new(pass->gpu, DTYPE_FP32, (size_t)pass->shape->vocab); /* [V] */
    linear_forward_fp32(pass->gpu, pass->dtype, head_shape(pass, 1), logits.data,
                        (const char *)last->out.data + row, w->head);
    return logits;
}

tensor_t head_backward(const pass_t *pass, norm_t *last, tensor_t *dlogits, const outer_t *w,
                       const outer_t *dw)
{
    range_begin("head");
    gpu_t *gpu = pass->gpu;
    linear_t head = head_shape(pass, pass->N);
    linear_backward_weight(gpu, pass->dtype, head, dw->head, NULL, dlogits->data, last->out.data,
                           pass->accumulate);
    tensor_free(gpu, &last->out);
    tensor_t dout = pass_tensor(pass, pass->C); /* [N,C] */
    linear_backward_input(gpu, pass->dtype, head, dout.data, dlogits->data, w->head);
    tensor_free(gpu, dlogits);
    tensor_t dx = {0};
    norm_backward(pass, last, &dx, &dout, w->norm_w, dw->norm_w, dw->norm_b);
    range_end();
    return dx;
}
