/* mlp.c: the second sublayer of a block: y[N,C] = down(act(up(in))). GPT-2: act is GELU, after a bias. Llama: `up`
 * makes two halves, gate and up, and act is silu(gate) * up. */
#include "model/base/check.h"
#include "model/layers/linear.h"
#include "model/layers/pass.h"

static bool is_gated(const pass_t *pass)
{
    return pass->shape->family == FAMILY_LLAMA;
}

/* GELU is part of the products beside it (linear.h), unless adapters add to them; then `up` is kept with its bias. */
static bool is_fused(const pass_t *pass)
{
    return pass->dtype == DTYPE_BF16 && !is_gated(pass) && !lora_adapts(pass, MATRIX_UP) &&
           !lora_adapts(pass, MATRIX_DOWN);
}

/* Channels that `up` makes. */
static int up_channels(const pass_t *pass)
{
    return is_gated(pass) ? 2 * pass->F : pass->F;
}

/* kept->up and kept->act from in[N,C]. */
static void act_forward(const pass_t *pass, mlp_kept_t *kept, const tensor_t *in, const block_t *w)
{
    gpu_t *gpu = pass->gpu;
    int N = pass->N, F = pass->F, U = up_channels(pass);
    linear_t up = {N, pass->C, U};

    kept->up = pass_tensor(pass, U); /* [N,U] */
    if (is_fused(pass)) {
        kept->act = pass_tensor(pass, F); /* [N,F] */
        linear_gelu_forward(gpu, up, kept->act.data, kept->up.data, in->data, w->up_w, w->up_b);
        return;
    }
    linear_forward(gpu, pass->dtype, up, kept->up.data, in->data, w->up_w, NULL);
    lora_forward(pass, MATRIX_UP, w, in, &kept->up, &kept->up_u);
    kept->act = pass_tensor(pass, F); /* [N,F] */
    if (is_gated(pass))
        CUDA(swiglu_forward(pass->dtype, kept->act.data, kept->up.data, N, F, gpu->stream));
    else
        CUDA(bias_gelu_forward(pass->dtype, kept->act.data, kept->up.data, w->up_b, N, F, gpu->stream));
}

/* kept->act again, from kept->up. In BF16 from its rounded sums: bits may differ from those that went down. */
static void act_again(const pass_t *pass, mlp_kept_t *kept, const block_t *w)
{
    int N = pass->N, F = pass->F;
    kept->act = pass_tensor(pass, F); /* [N,F] */
    if (is_gated(pass))
        CUDA(swiglu_forward(pass->dtype, kept->act.data, kept->up.data, N, F, pass->gpu->stream));
    else
        CUDA(bias_gelu_forward(pass->dtype, kept->act.data, kept->up.data, is_fused(pass) ? NULL : w->up_b, N,
                               F, pass->gpu->stream));
}

tensor_t mlp_sublayer_forward(const pass_t *pass, mlp_kept_t *kept, const tensor_t *in, const block_t *w)
{
    gpu_t *gpu = pass->gpu;
    act_forward(pass, kept, in, w);
    if (!pass->keep)
        tensor_free(gpu, &kept->up);

    tensor_t y = pass_tensor(pass, pass->C); /* [N,C] */
    linear_forward(gpu, pass->dtype, (linear_t){pass->N, pass->F, pass->C}, y.data, kept->act.data, w->down_w,
                   NULL);
    lora_forward(pass, MATRIX_DOWN, w, &kept->act, &y, &kept->down_u);
    if (!pass_keeps_all(pass))
        tensor_free(gpu, &kept->act);
    return y;
}

/* The gradient of up [N,U] from dy[N,C] and du of the adapters of down, and up_b's if it is not made with up_w's. Frees kept->up
 * and du. */
static tensor_t act_backward(const pass_t *pass, mlp_kept_t *kept, const tensor_t *dy, const block_t *w,
                             const block_t *dw, tensor_t *du)
{
    gpu_t *gpu = pass->gpu;
    int N = pass->N, F = pass->F;
    linear_t down = {N, F, pass->C};
    tensor_t dact = pass_tensor(pass, F); /* [N,F] */
    if (is_fused(pass)) {
        linear_gelu_backward_input(gpu, down, dact.data, dy->data, w->down_w, kept->up.data);
        tensor_free(gpu, &kept->up);
        return dact;
    }
    linear_backward_input(gpu, pass->dtype, down, dact.data, dy->data, w->down_w);
    lora_backward_input(pass, MATRIX_DOWN, w, du, &dact);
    if (is_gated(pass)) { /* in the place of what was kept */
        CUDA(swiglu_backward(pass->dtype, kept->up.data, dact.data, kept->up.data, N, F, gpu->stream));
        tensor_free(gpu, &dact);
        return tensor_take(&kept->up);
    }
    tensor_t scratch = pass_scratch(pass, dw->up_b != NULL ? column_sum_scratch(N, F) : 0);
    CUDA(bias_gelu_backward(pass->dtype, dact.data, dw->up_b, dact.data, kept->up.data, w->up_b, N, F,
                            pass->accumulate, scratch.data, gpu->stream));
    tensor_free(gpu, &scratch);
    tensor_free(gpu, &kept->up);
    return dact;
}

tensor_t mlp_sublayer_backward(const pass_t *pass, mlp_kept_t *kept, tensor_t *in, const tensor_t *dy,
                               const block_t *w, const block_t *dw)
{
    gpu_t *gpu = pass->gpu;
    int N = pass->N, C = pass->C, F = pass->F;
    linear_t up = {N, C, up_channels(pass)}, down = {N, F, C};

    if (pass->lean)
        act_again(pass, kept, w);
    linear_backward_weight(gpu, pass->dtype, down, dw->down_w, NULL, dy->data, kept->act.data,
                           pass->accumulate);
    tensor_t du = lora_backward_weight(pass, MATRIX_DOWN, w, dw, &kept->act, dy, &kept->down_u);
    tensor_free(gpu, &kept->act);
    tensor_t dup = act_backward(pass, kept, dy, w, dw, &du); /* [N,U] */

    linear_backward_weight(gpu, pass->dtype, up, dw->up_w, is_fused(pass) ? dw->up_b : NULL, dup.data,
                           in->data, pass->accumulate);
    du = lora_backward_weight(pass, MATRIX_UP, w, dw, in, &dup, &kept->up_u);
    tensor_free(gpu, in);
    tensor_t din = pass_tensor(pass, C); /* [N,C] */
    linear_backward_input(gpu, pass->dtype, up, din.data, dup.data, w->up_w);
    lora_backward_input(pass, MATRIX_UP, w, &du, &din);
    tensor_free(gpu, &dup);
    return din;
}
