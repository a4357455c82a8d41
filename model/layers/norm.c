/* norm.c: the chain of norms along the residual stream (pass.h): LayerNorm for GPT-2, RMSNorm for Llama. */
#include "model/base/check.h"
#include "model/layers/pass.h"

static bool is_rms(const pass_t *pass)
{
    return pass->shape->family == FAMILY_LLAMA;
}

static float *norm_rstd(const norm_t *norm)
{
    return norm->stats.data;
}

/* NULL if the norm has none. */
static float *norm_mean(const pass_t *pass, const norm_t *norm)
{
    return is_rms(pass) ? NULL : (float *)norm->stats.data + ((size_t)pass->N + 3) / 4 * 4;
}

static void norm_allocate(const pass_t *pass, norm_t *norm)
{
    size_t rows = ((size_t)pass->N + 3) / 4 * 4;
    norm->out = pass_tensor(pass, pass->C); /* [N,C] */
    norm->stats = tensor_new(pass->gpu, DTYPE_FP32, is_rms(pass) ? rows : 2 * rows);
}

static float norm_eps(const pass_t *pass)
{
    return (float)pass->shape->norm_eps;
}

static void normalise(const pass_t *pass, norm_t *norm, const void *weight, const void *bias)
{
    cudaStream_t stream = pass->gpu->stream;
    if (is_rms(pass))
        CUDA(rmsnorm_forward(pass->dtype, norm->out.data, norm_rstd(norm), norm->x.data, weight,
                             norm_eps(pass), pass->N, pass->C, stream));
    else
        CUDA(layernorm_forward(pass->dtype, norm->out.data, norm_mean(pass, norm), norm_rstd(norm),
                               norm->x.data, weight, bias, norm_eps(pass), pass->N, pass->C, stream));
}

void norm_forward(const pass_t *pass, norm_t *norm, const void *weight, const void *bias)
{
    norm_allocate(pass, norm);
    normalise(pass, norm, weight, bias);
}

void norm_again(const pass_t *pass, norm_t *norm, const void *weight, const void *bias)
{
    norm->out = pass_tensor(pass, pass->C); /* [N,C] */
    normalise(pass, norm, weight, bias);    /* the statistics, too: as they were */
}

void join_forward(const pass_t *pass, norm_t *from, norm_t *to, tensor_t *y, join_t join)
{
    cudaStream_t stream = pass->gpu->stream;
    to->x = tensor_take(y);
    norm_allocate(pass, to);
    if (is_rms(pass))
        CUDA(residual_rmsnorm_forward(pass->dtype, to->x.data, to->out.data, norm_rstd(to), from->x.data,
                                      to->x.data, join.weight, norm_eps(pass), pass->N, pass->C, join.drop,
                                      stream));
    else
        CUDA(residual_layernorm_forward(pass->dtype, to->x.data, to->out.data, norm_mean(pass, to),
                                        norm_rstd(to), from->x.data, to->x.data, join.bias, join.weight,
                                        join.norm_b, norm_eps(pass), pass->N, pass->C, join.drop, stream));
    if (!pass->keep) {
        tensor_free(pass->gpu, &from->x);
        tensor_free(pass->gpu, &from->stats);
    }
}

tensor_t join_backward(const pass_t *pass, float *dbias, const tensor_t *dx, dropout_t drop)
{
    gpu_t *gpu = pass->gpu;
    if (drop.rate == 0)
        return (tensor_t){0};
    tensor_t scratch = pass_scratch(pass, dbias != NULL ? column_sum_scratch(pass->N, pass->C) : 0);
    tensor_t dy = pass_tensor(pass, pass->C); /* [N,C] */
    CUDA(residual_backward(pass->dtype, dy.data, dbias, dx->data, pass->N, pass->C, drop, pass->accumulate,
                           scratch.data, gpu->stream));
    tensor_free(gpu, &scratch);
    return dy;
}

void norm_backward(const pass_t *pass, norm_t *norm, tensor_t *dx, tensor_t *dout, const void *weight,
                   float *dweight, float *dbias, float *dbefore)
{
    gpu_t *gpu = pass->gpu;
    int N = pass->N, C = pass->C;
    const void *past = dx->data;
    if (past == NULL)
        *dx = pass_tensor(pass, C); /* [N,C] */
    tensor_t scratch = pass_scratch(pass, dweight == NULL ? 0
                                          : is_rms(pass)  ? rmsnorm_backward_scratch(N, C)
                                                          : layernorm_backward_scratch(N, C));
    if (is_rms(pass))
        CUDA(rmsnorm_backward(pass->dtype, dx->data, dweight, past, dout->data, norm->x.data, norm_rstd(norm),
                              weight, N, C, pass->accumulate, scratch.data, gpu->stream));
    else
        CUDA(layernorm_backward(pass->dtype, dx->data, dweight, dbias, pass->dropout > 0 ? NULL : dbefore,
                                past, dout->data, norm->x.data, norm_mean(pass, norm), norm_rstd(norm),
                                weight, N, C, pass->accumulate, scratch.data, gpu->stream));
    tensor_free(gpu, &scratch);
    tensor_free(gpu, dout);
    tensor_free(gpu, &norm->x);
    tensor_free(gpu, &norm->stats);
}

void norm_free(const pass_t *pass, norm_t *norm)
{
    tensor_free(pass->gpu, &norm->x);
    tensor_free(pass->gpu, &norm->out);
    tensor_free(pass->gpu, &norm->stats);
}
