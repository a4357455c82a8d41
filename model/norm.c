/* norm.c: the chain of norms along the residual stream (pass.h). */
#include "check.h"
#include "pass.h"

static float *norm_mean(const norm_t *norm)
{
    return norm->stats.data;
}

static float *norm_rstd(const pass_t *pass, const norm_t *norm)
{
    return (float *)norm->stats.data + ((size_t)pass->N + 3) / 4 * 4;
}

static void norm_allocate(const pass_t *pass, norm_t *norm)
{
    norm->out = pass_tensor(pass, pass->C); /* [N,C] */
    norm->stats = tensor_new(pass->gpu, DTYPE_FP32, ((size_t)pass->N + 3) / 4 * 4 + (size_t)pass->N);
}

void norm_forward(const pass_t *pass, norm_t *norm, const void *weight, const void *bias)
{
    norm_allocate(pass, norm);
    CUDA(layernorm_forward(norm->out.data, norm_mean(norm), norm_rstd(pass, norm), norm->x.data, weight, bias,
                           pass->N, pass->C, pass->gpu->stream));
}

void join_forward(const pass_t *pass, norm_t *from, norm_t *to, tensor_t *y, join_t join)
{
    to->x = tensor_take(y);
    norm_allocate(pass, to);
    CUDA(residual_layernorm_forward(to->x.data, to->out.data, norm_mean(to), norm_rstd(pass, to),
                                    from->x.data, to->x.data, join.bias, join.weight, join.norm_b, pass->N,
                                    pass->C, join.drop, pass->gpu->stream));
    if (!pass->keep) {
        tensor_free(pass->gpu, &from->x);
        tensor_free(pass->gpu, &from->stats);
    }
}

tensor_t join_backward(const pass_t *pass, float *dbias, const tensor_t *dx, dropout_t drop)
{
    gpu_t *gpu = pass->gpu;
    tensor_t dy = {0};
    tensor_t scratch = pass_scratch(pass, column_sum_scratch(pass->N, pass->C));
    if (drop.rate > 0) {
        dy = pass_tensor(pass, pass->C); /* [N,C] */
        CUDA(residual_backward(dy.data, dbias, dx->data, pass->N, pass->C, drop, pass->accumulate,
                               scratch.data, gpu->stream));
    } else {
        CUDA(column_sum(dbias, dx->data, pass->N, pass->C, pass->accumulate, scratch.data, gpu->stream));
    }
    tensor_free(gpu, &scratch);
    return dy;
}

void norm_backward(const pass_t *pass, norm_t *norm, tensor_t *dx, tensor_t *dout, const void *weight,
                   float *dweight, float *dbias)
{
    const void *past = dx->data;
    if (past == NULL)
        *dx = pass_tensor(pass, pass->C); /* [N,C] */
    tensor_t scratch = pass_scratch(pass, layernorm_backward_scratch(pass->N, pass->C));
    CUDA(layernorm_backward(dx->data, dweight, dbias, past, dout->data, norm->x.data, norm_mean(norm),
                            norm_rstd(pass, norm), weight, pass->N, pass->C, pass->accumulate, scratch.data,
                            pass->gpu->stream));
    tensor_free(pass->gpu, &scratch);
    tensor_free(pass->gpu, dout);
    tensor_free(pass->gpu, &norm->x);
    tensor_free(pass->gpu, &norm->stats);
}

void norm_free(const pass_t *pass, norm_t *norm)
{
    tensor_free(pass->gpu, &norm->x);
    tensor_free(pass->gpu, &norm->out);
    tensor_free(pass->gpu, &norm->stats);
}
