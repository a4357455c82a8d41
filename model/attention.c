/* attention.c: the first sublayer of a block: y[N,C] = heads of causal self-attention of qkv(in), projected.
 *
 * flash keeps qkv, the output and one number per row and head; naive keeps q, k, v and the probabilities,
 * B*H*T*T of them (twice with dropout), and leaves the products to cuBLAS. Both drop the same probabilities.
 */
#include <math.h>

#include "check.h"
#include "linear.h"
#include "pass.h"

static tensor_t new_scores(const pass_t *pass)
{
    return tensor_new(pass->gpu, pass->dtype,
                      (size_t)pass->N * (size_t)pass->H * (size_t)pass->T); /* [B,H,T,T] */
}

/* For all heads of all sequences: [T,D] and [T,T] matrices. */
static batched_t scores_from_heads(const pass_t *pass) /* [T,T] = [T,D] [T,D]^T */
{
    return (batched_t){pass->B * pass->H, pass->T, pass->T, pass->D, 0, 1};
}

static batched_t heads_from_scores(const pass_t *pass, int transpose) /* [T,D] = op([T,T]) [T,D] */
{
    return (batched_t){pass->B * pass->H, pass->T, pass->D, pass->T, transpose, 0};
}

static void flash_forward(const pass_t *pass, attention_kept_t *kept, dropout_t drop)
{
    gpu_t *gpu = pass->gpu;
    kept->out = pass_tensor(pass, pass->C);     /* [B,T,H,D] */
    kept->lse = pass_statistics(pass, pass->H); /* [B,H,T] */
    CUDA(attention_forward(kept->out.data, kept->lse.data, kept->qkv.data, pass->B, pass->T, pass->H, pass->D,
                           drop, gpu->stream));
    if (!pass->keep) {
        tensor_free(gpu, &kept->qkv);
        tensor_free(gpu, &kept->lse);
    }
}

/* Returns dqkv[B,T,3,H,D]. */
static tensor_t flash_backward(const pass_t *pass, attention_kept_t *kept, tensor_t *dout, dropout_t drop)
{
    gpu_t *gpu = pass->gpu;
    tensor_t dqkv = pass_tensor(pass, 3 * pass->C);
    tensor_t delta = pass_statistics(pass, pass->H); /* [B,H,T] */
    CUDA(attention_backward(dqkv.data, delta.data, dout->data, kept->out.data, kept->lse.data, kept->qkv.data,
                            pass->B, pass->T, pass->H, pass->D, drop, gpu->stream));
    tensor_free(gpu, &delta);
    tensor_free(gpu, dout);
    tensor_free(gpu, &kept->out);
    tensor_free(gpu, &kept->lse);
    tensor_free(gpu, &kept->qkv);
    return dqkv;
}

static float score_scale(const pass_t *pass)
{
    return 1.0f / sqrtf((float)pass->D);
}

static void naive_forward(const pass_t *pass, attention_kept_t *kept, dropout_t drop)
{
    gpu_t *gpu = pass->gpu;
    int B = pass->B, T = pass->T, H = pass->H, D = pass->D;

    kept->q = pass_tensor(pass, pass->C); /* [B,H,T,D], k and v too */
    kept->k = pass_tensor(pass, pass->C);
    kept->v = pass_tensor(pass, pass->C);
    CUDA(attention_split(kept->q.data, kept->k.data, kept->v.data, kept->qkv.data, B, T, H, D, gpu->stream));
    tensor_free(gpu, &kept->qkv);

    kept->probs = new_scores(pass); /* scores, then probabilities in their place */
    batched_matmul(gpu, scores_from_heads(pass), kept->probs.data, kept->q.data, kept->k.data);
    if (drop.rate > 0)
        kept->dropped = new_scores(pass);
    CUDA(causal_softmax_forward(kept->probs.data, kept->dropped.data, kept->probs.data, score_scale(pass), B,
                                H, T, drop, gpu->stream));

    tensor_t y = pass_tensor(pass, pass->C); /* [B,H,T,D] */
    const float *used = drop.rate > 0 ? kept->dropped.data : kept->probs.data;
    batched_matmul(gpu, heads_from_scores(pass, 0), y.data, used, kept->v.data);
    kept->out = pass_tensor(pass, pass->C); /* [B,T,H,D] */
    CUDA(attention_heads(kept->out.data, y.data, B, T, H, D, gpu->stream));
    tensor_free(gpu, &y);
    if (!pass->keep) {
        tensor_free(gpu, &kept->q);
        tensor_free(gpu, &kept->k);
        tensor_free(gpu, &kept->v);
        tensor_free(gpu, &kept->probs);
        tensor_free(gpu, &kept->dropped);
    }
}

/* dv[B,H,T,D] and dscores[B,H,T,T] from dout[B,T,H,D]; frees out, v and the probabilities. */
static void naive_backward_scores(const pass_t *pass, attention_kept_t *kept, tensor_t *dout, tensor_t *dv,
                                  tensor_t *dscores)
{
    gpu_t *gpu = pass->gpu;
    int B = pass->B, T = pass->T, H = pass->H;
    int drops = kept->dropped.data != NULL;

    tensor_free(gpu, &kept->out);
    tensor_t dy = pass_tensor(pass, pass->C); /* [B,H,T,D] */
    CUDA(attention_unheads(dy.data, dout->data, B, T, H, pass->D, gpu->stream));
    tensor_free(gpu, dout);

    *dv = pass_tensor(pass, pass->C);
    batched_matmul(gpu, heads_from_scores(pass, 1), dv->data, drops ? kept->dropped.data : kept->probs.data,
                   dy.data);
    tensor_free(gpu, &kept->dropped);
    *dscores = new_scores(pass); /* gradient of the probabilities first */
    batched_matmul(gpu, scores_from_heads(pass), dscores->data, dy.data, kept->v.data);
    tensor_free(gpu, &dy);
    tensor_free(gpu, &kept->v);
}

/* Returns dqkv[B,T,3,H,D]. */
static tensor_t naive_backward(const pass_t *pass, attention_kept_t *kept, tensor_t *dout, dropout_t drop)
{
    gpu_t *gpu = pass->gpu;
    int B = pass->B, T = pass->T, H = pass->H, D = pass->D;

    tensor_t dv, dscores;
    naive_backward_scores(pass, kept, dout, &dv, &dscores);
    CUDA(causal_softmax_backward(dscores.data, dscores.data, kept->probs.data, score_scale(pass), B, H, T,
                                 drop, gpu->stream));
    tensor_free(gpu, &kept->probs);

    tensor_t dq = pass_tensor(pass, pass->C), dk = pass_tensor(pass, pass->C); /* [B,H,T,D] */
    batched_matmul(gpu, heads_from_scores(pass, 0), dq.data, dscores.data, kept->k.data);
    batched_matmul(gpu, heads_from_scores(pass, 1), dk.data, dscores.data, kept->q.data);
    tensor_free(gpu, &dscores);
    tensor_free(gpu, &kept->q);
    tensor_free(gpu, &kept->k);

    tensor_t dqkv = pass_tensor(pass, 3 * pass->C);
    CUDA(attention_merge(dqkv.data, dq.data, dk.data, dv.data, B, T, H, D, gpu->stream));
    tensor_free(gpu, &dq);
    tensor_free(gpu, &dk);
    tensor_free(gpu, &dv);
    return dqkv;
}

tensor_t attention_sublayer_forward(const pass_t *pass, int layer, attention_kept_t *kept, const tensor_t *in,
                                    const block_t *w)
{
    gpu_t *gpu = pass->gpu;
    int N = pass->N, C = pass->C;
    dropout_t drop = pass_dropout(pass, layer, SITE_ATTENTION);

    kept->qkv = pass_tensor(pass, 3 * C); /* [N,3C] = [B,T,3,H,D] */
    linear_forward(gpu, (linear_t){N, C, 3 * C}, kept->qkv.data, in->data, w->qkv_w);
    CUDA(bias_forward(kept->qkv.data, w->qkv_b, N, 3 * C, gpu->stream));
    if (pass->attention == ATTENTION_NAIVE)
        naive_forward(pass, kept, drop);
    else
        flash_forward(pass, kept, drop);

    tensor_t y = pass_tensor(pass, C); /* [N,C] */
    linear_forward(gpu, (linear_t){N, C, C}, y.data, kept->out.data, w->proj_w);
    if (!pass->keep)
        tensor_free(gpu, &kept->out);
    return y;
}

tensor_t attention_sublayer_backward(const pass_t *pass, int layer, attention_kept_t *kept, tensor_t *in,
                                     const tensor_t *dy, const block_t *w, const block_t *dw)
{
    gpu_t *gpu = pass->gpu;
    int N = pass->N, C = pass->C;
    linear_t qkv = {N, C, 3 * C}, projection = {N, C, C};
    dropout_t drop = pass_dropout(pass, layer, SITE_ATTENTION);

    linear_backward_weight(gpu, projection, dw->proj_w, dy->data, kept->out.data, pass->accumulate);
    tensor_t dout = pass_tensor(pass, C); /* [B,T,H,D] */
    linear_backward_input(gpu, projection, dout.data, dy->data, w->proj_w);
    tensor_t dqkv = pass->attention == ATTENTION_NAIVE ? naive_backward(pass, kept, &dout, drop)
                                                       : flash_backward(pass, kept, &dout, drop);

    tensor_t scratch = pass_scratch(pass, column_sum_scratch(N, 3 * C));
    CUDA(column_sum(dw->qkv_b, dqkv.data, N, 3 * C, pass->accumulate, scratch.data, gpu->stream));
    tensor_free(gpu, &scratch);
    linear_backward_weight(gpu, qkv, dw->qkv_w, dqkv.data, in->data, pass->accumulate);
    tensor_free(gpu, in);
    tensor_t din = pass_tensor(pass, C); /* [N,C] */
    linear_backward_input(gpu, qkv, din.data, dqkv.data, w->qkv_w);
    tensor_free(gpu, &dqkv);
    return din;
}
