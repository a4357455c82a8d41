/* mlp.c: the second sublayer of a block: y[N,C] = down(act(up(in))). GPT-2: act is GELU, after a bias. Llama: `up`
 * makes two halves, gate and up, and act is silu(gate) * up. */
#include "check.h"
#include "linear.h"
#include "pass.h"

static bool is_gated(const pass_t *pass)
{
    return pass->shape->family == FAMILY_LLAMA;
}

/* Channels that `up` makes. */
static int up_channels(const pass_t *pass)
{
    return is_gated(pass) ? 2 * pass->F : pass->F;
}

tensor_t mlp_sublayer_forward(const pass_t *pass, mlp_kept_t *kept, const tensor_t *in, const block_t *w)
{
    gpu_t *gpu = pass->gpu;
    int N = pass->N, C = pass->C, F = pass->F, U = up_channels(pass);

    kept->up = pass_tensor(pass, U); /* [N,U] */
    linear_forward(gpu, (linear_t){N, C, U}, kept->up.data, in->data, w->up_w);
    kept->act = pass_tensor(pass, F); /* [N,F] */
    if (is_gated(pass))
        CUDA(swiglu_forward(pass->dtype, kept->act.data, kept->up.data, N, F, gpu->stream));
    else
        CUDA(bias_gelu_forward(pass->dtype, kept->act.data, kept->up.data, w->up_b, N, F, gpu->stream));
    if (!pass->keep)
        tensor_free(gpu, &kept->up);

    tensor_t y = pass_tensor(pass, C); /* [N,C] */
    linear_forward(gpu, (linear_t){N, F, C}, y.data, kept->act.data, w->down_w);
    if (!pass->keep)
        tensor_free(gpu, &kept->act);
    return y;
}

/* dact[N,F], the gradient of act, becomes that of up [N,U]. Frees what was kept of it. */
static tensor_t act_backward(const pass_t *pass, mlp_kept_t *kept, tensor_t *dact, const block_t *w,
                             const block_t *dw)
{
    gpu_t *gpu = pass->gpu;
    int N = pass->N, F = pass->F;
    if (is_gated(pass)) { /* in the place of what was kept */
        CUDA(swiglu_backward(pass->dtype, kept->up.data, dact->data, kept->up.data, N, F, gpu->stream));
        tensor_free(gpu, dact);
        return tensor_take(&kept->up);
    }
    tensor_t scratch = pass_scratch(pass, column_sum_scratch(N, F));
    CUDA(bias_gelu_backward(pass->dtype, dact->data, dw->up_b, dact->data, kept->up.data, w->up_b, N, F,
                            pass->accumulate, scratch.data, gpu->stream));
    tensor_free(gpu, &scratch);
    tensor_free(gpu, &kept->up);
    return tensor_take(dact);
}

tensor_t mlp_sublayer_backward(const pass_t *pass, mlp_kept_t *kept, tensor_t *in, const tensor_t *dy,
                               const block_t *w, const block_t *dw)
{
    gpu_t *gpu = pass->gpu;
    int N = pass->N, C = pass->C, F = pass->F;
    linear_t up = {N, C, up_channels(pass)}, down = {N, F, C};

    linear_backward_weight(gpu, down, dw->down_w, dy->data, kept->act.data, pass->accumulate);
    tensor_free(gpu, &kept->act);
    tensor_t dact = pass_tensor(pass, F); /* [N,F] */
    linear_backward_input(gpu, down, dact.data, dy->data, w->down_w);
    tensor_t dup = act_backward(pass, kept, &dact, w, dw); /* [N,U] */

    linear_backward_weight(gpu, up, dw->up_w, dup.data, in->data, pass->accumulate);
    tensor_free(gpu, in);
    tensor_t din = pass_tensor(pass, C); /* [N,C] */
    linear_backward_input(gpu, up, din.data, dup.data, w->up_w);
    tensor_free(gpu, &dup);
    return din;
}
