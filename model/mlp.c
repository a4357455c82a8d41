/* mlp.c: the second sublayer of a block: y[N,C] = down(gelu(up(in) + bias)). */
#include "check.h"
#include "linear.h"
#include "pass.h"

tensor_t mlp_sublayer_forward(const pass_t *pass, mlp_kept_t *kept, const tensor_t *in, const block_t *w)
{
    gpu_t *gpu = pass->gpu;
    int N = pass->N, C = pass->C;

    kept->up = pass_tensor(pass, 4 * C); /* [N,4C] */
    linear_forward(gpu, (linear_t){N, C, 4 * C}, kept->up.data, in->data, w->up_w);
    kept->gelu = pass_tensor(pass, 4 * C); /* [N,4C] */
    CUDA(bias_gelu_forward(kept->gelu.data, kept->up.data, w->up_b, N, 4 * C, gpu->stream));
    if (!pass->keep)
        tensor_free(gpu, &kept->up);

    tensor_t y = pass_tensor(pass, C); /* [N,C] */
    linear_forward(gpu, (linear_t){N, 4 * C, C}, y.data, kept->gelu.data, w->down_w);
    if (!pass->keep)
        tensor_free(gpu, &kept->gelu);
    return y;
}

tensor_t mlp_sublayer_backward(const pass_t *pass, mlp_kept_t *kept, tensor_t *in, const tensor_t *dy,
                               const block_t *w, const block_t *dw)
{
    gpu_t *gpu = pass->gpu;
    int N = pass->N, C = pass->C;
    linear_t up = {N, C, 4 * C}, down = {N, 4 * C, C};

    linear_backward_weight(gpu, down, dw->down_w, dy->data, kept->gelu.data, pass->accumulate);
    tensor_free(gpu, &kept->gelu);
    tensor_t dup = pass_tensor(pass, 4 * C); /* [N,4C] gradient of gelu, then of up */
    linear_backward_input(gpu, down, dup.data, dy->data, w->down_w);

    tensor_t scratch = pass_scratch(pass, column_sum_scratch(N, 4 * C));
    CUDA(bias_gelu_backward(dup.data, dw->up_b, dup.data, kept->up.data, w->up_b, N, 4 * C, pass->accumulate,
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
