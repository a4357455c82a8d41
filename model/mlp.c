/* mlp.c: the second sublayer of a block: y[N,C] = down(gelu(up(in) + bias)). */
#include "check.h"
#include "linear.h"
#include "pass.h"

tensor_t mlp_sublayer_forward(const pass_t *pass, mlp_kept_t *kept, const tensor_t *in, const block_t *w)
{
    gpu_t *gpu = pass->gpu;
    int N = pass->N, C = pass->C, F = pass->F;

    kept->up = pass_tensor(pass, F); /* [N,F] */
    linear_forward(gpu, (linear_t){N, C, F}, kept->up.data, in->data, w->up_w);
    kept->act = pass_tensor(pass, F); /* [N,F] */
    CUDA(bias_gelu_forward(kept->act.data, kept->up.data, w->up_b, N, F, gpu->stream));
    if (!pass->keep)
        tensor_free(gpu, &kept->up);

    tensor_t y = pass_tensor(pass, C); /* [N,C] */
    linear_forward(gpu, (linear_t){N, F, C}, y.data, kept->act.data, w->down_w);
    if (!pass->keep)
        tensor_free(gpu, &kept->act);
    return y;
}

tensor_t mlp_sublayer_backward(const pass_t *pass, mlp_kept_t *kept, tensor_t *in, const tensor_t *dy,
                               const block_t *w, const block_t *dw)
{
    gpu_t *gpu = pass->gpu;
    int N = pass->N, C = pass->C, F = pass->F;
    linear_t up = {N, C, F}, down = {N, F, C};

    linear_backward_weight(gpu, down, dw->down_w, dy->data, kept->act.data, pass->accumulate);
    tensor_free(gpu, &kept->act);
    tensor_t dup = pass_tensor(pass, F); /* [N,F] gradient of gelu, then of up */
    linear_backward_input(gpu, down, dup.data, dy->data, w->down_w);

    tensor_t scratch = pass_scratch(pass, column_sum_scratch(N, F));
    CUDA(bias_gelu_backward(dup.data, dw->up_b, dup.data, kept->up.data, w->up_b, N, F, pass->accumulate,
                            scratch.data, gpu->stream));
    tensor_free(gpu, &scratch);
    tensor_free(gpu, &kept->up);

    linear_backward_weight(gpu, up, dw->up_w, dup.data, in->data, pass->accumulate);
    tensor_free(gpu, in);
    tensor_t din = pass_tensor(pass, C); /* [N,C] */
    linear_backward_input(gpu, up, din.data, dup.data, w->up_w);
    tensor_free(gpu, &dup);
    return din;
}
