/* attention.c: the first sublayer of a block: y[N,C] = heads of causal self-attention of qkv(in), projected. In Llama
 * queries and keys are turned by their positions first.
 *
 * flash and tensor keep qkv, the output and one number per row and head, and differ in the kernels that they run; naive
 * keeps q, k, v and the probabilities, B*H*T*T of them (twice with dropout), and leaves the products to cuBLAS. All drop
 * the same probabilities.
 * --save lean keeps the output and the numbers of flash and tensor only, and makes the rest again, the same bits.
 */
#include <math.h>

#include "model/base/check.h"
#include "model/layers/linear.h"
#include "model/layers/pass.h"

/* Why the tensor cores cannot be used; NULL: they can. */
static const char *no_tensor_cores(gpu_t *gpu, const options_t *options)
{
    int D = options->width / options->heads;
    if ((dtype_t)options->dtype != DTYPE_BF16)
        return "it takes --dtype bf16";
    if (D != 64 && D != 128)
        return "it takes heads (--width over --heads) of 64 or 128 channels";
    if (rehearsing)
        return NULL;
    int usable = 0;
    tensor_t answer = tensor_new_of(gpu, MEMORY_OTHER, DTYPE_FP32, 1);
    CUDA(matrix_instructions_usable(answer.data, gpu->stream));
    CUDA(cudaMemcpyAsync(&usable, answer.data, sizeof usable, cudaMemcpyDeviceToHost, gpu->stream));
    CUDA(cudaStreamSynchronize(gpu->stream));
    tensor_free(gpu, &answer);
    return usable ? NULL
                  : "this device has no matrix instructions that whole warps run (compute capability 8.0)";
}

attention_kind_t attention_choose(gpu_t *gpu, const options_t *options)
{
    attention_kind_t kind = (attention_kind_t)options->attention;
    if (kind == ATTENTION_AUTO && rehearsing)
        return ATTENTION_FLASH; /* there is no device to ask */
    if (kind != ATTENTION_AUTO && kind != ATTENTION_TENSOR)
        return kind;
    const char *why = no_tensor_cores(gpu, options);
    if (why != NULL && kind == ATTENTION_TENSOR)
        usage_error("--attention tensor: %s; --attention auto takes it where it can be had", why);
    return why == NULL ? ATTENTION_TENSOR : ATTENTION_FLASH;
}

static attention_shape_t shape_of(const pass_t *pass)
{
    return (attention_shape_t){pass->B, pass->T, pass->H, pass->KV, pass->D};
}

static int qkv_channels(const pass_t *pass)
{
    return (pass->H + 2 * pass->KV) * pass->D;
}

static tensor_t new_scores(const pass_t *pass, dtype_t dtype)
{
    return tensor_new(pass->gpu, dtype, (size_t)pass->N * (size_t)pass->H * (size_t)pass->T); /* [B,H,T,T] */
}

/* For all heads of all sequences: [T,D] and [T,T] matrices. */
static batched_t scores_from_heads(const pass_t *pass) /* [T,T] = [T,D] [T,D]^T */
{
    return (batched_t){pass->B * pass->H, pass->T, pass->T, pass->D, 0, 1, .scale = 1};
}

static batched_t heads_from_scores(const pass_t *pass, int transpose) /* [T,D] = op([T,T]) [T,D] */
{
    return (batched_t){pass->B * pass->H, pass->T, pass->D, pass->T, transpose, 0, .scale = 1};
}

static void tiled_forward(const pass_t *pass, attention_kept_t *kept, dropout_t drop)
{
    gpu_t *gpu = pass->gpu;
    kept->out = pass_tensor(pass, pass->C);     /* [B,T,H,D] */
    kept->lse = pass_statistics(pass, pass->H); /* [B,H,T] */
    if (pass->attention == ATTENTION_TENSOR)
        CUDA(attention_tensor_forward(kept->out.data, kept->lse.data, kept->qkv.data, shape_of(pass), drop,
                                      gpu->stream));
    else
        CUDA(attention_forward(pass->dtype, kept->out.data, kept->lse.data, kept->qkv.data, shape_of(pass),
                               drop, gpu->stream));
    if (!pass_keeps_all(pass))
        tensor_free(gpu, &kept->qkv);
    if (!pass->keep)
        tensor_free(gpu, &kept->lse);
}

/* Returns dqkv[B,T,H+2KV,D]. */
static tensor_t tiled_backward(const pass_t *pass, attention_kept_t *kept, tensor_t *dout, dropout_t drop)
{
    gpu_t *gpu = pass->gpu;
    tensor_t dqkv = pass_tensor(pass, qkv_channels(pass));
    bool tensor = pass->attention == ATTENTION_TENSOR;
    tensor_t scratch = pass_scratch(pass, tensor ? attention_tensor_backward_scratch(shape_of(pass))
                                                 : attention_backward_scratch(pass->dtype, shape_of(pass)));
    if (tensor)
        CUDA(attention_tensor_backward(dqkv.data, dout->data, kept->out.data, kept->lse.data, kept->qkv.data,
                                       shape_of(pass), drop, scratch.data, gpu->stream));
    else
        CUDA(attention_backward(pass->dtype, dqkv.data, dout->data, kept->out.data, kept->lse.data,
                                kept->qkv.data, shape_of(pass), drop, scratch.data, gpu->stream));
    tensor_free(gpu, &scratch);
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

/* q, k, v, and the probabilities, before and after dropout, from kept->qkv, which is freed. */
static void naive_probabilities(const pass_t *pass, attention_kept_t *kept, dropout_t drop)
{
    gpu_t *gpu = pass->gpu;
    dtype_t dtype = pass->dtype;

    kept->q = pass_tensor(pass, pass->C); /* [B,H,T,D], k and v too */
    kept->k = pass_tensor(pass, pass->C);
    kept->v = pass_tensor(pass, pass->C);
    CUDA(attention_split(dtype, kept->q.data, kept->k.data, kept->v.data, kept->qkv.data, shape_of(pass),
                         gpu->stream));
    tensor_free(gpu, &kept->qkv);

    tensor_t scores = new_scores(pass, DTYPE_FP32);
    batched_matmul(gpu, dtype, DTYPE_FP32, scores_from_heads(pass), scores.data, kept->q.data, kept->k.data);
    kept->probs =
        dtype == DTYPE_FP32 ? tensor_take(&scores) : new_scores(pass, dtype); /* in fp32 in their place */
    if (drop.rate > 0)
        kept->dropped = new_scores(pass, dtype);
    CUDA(causal_softmax_forward(dtype, kept->probs.data, kept->dropped.data,
                                scores.data != NULL ? scores.data : kept->probs.data, score_scale(pass),
                                pass->B, pass->H, pass->T, drop, gpu->stream));
    tensor_free(gpu, &scores);
}

static void naive_forward(const pass_t *pass, attention_kept_t *kept, dropout_t drop)
{
    gpu_t *gpu = pass->gpu;
    dtype_t dtype = pass->dtype;

    naive_probabilities(pass, kept, drop);
    tensor_t y = pass_tensor(pass, pass->C); /* [B,H,T,D] */
    const void *used = drop.rate > 0 ? kept->dropped.data : kept->probs.data;
    batched_matmul(gpu, dtype, dtype, heads_from_scores(pass, 0), y.data, used, kept->v.data);
    kept->out = pass_tensor(pass, pass->C); /* [B,T,H,D] */
    CUDA(attention_heads(dtype, kept->out.data, y.data, shape_of(pass), gpu->stream));
    tensor_free(gpu, &y);
    if (!pass_keeps_all(pass)) {
        tensor_free(gpu, &kept->q);
        tensor_free(gpu, &kept->k);
        tensor_free(gpu, &kept->v);
        tensor_free(gpu, &kept->probs);
        tensor_free(gpu, &kept->dropped);
    }
}

/* dv[B,H,T,D] and the fp32 gradient of the (dropped) probabilities [B,H,T,T] from dout[B,T,H,D]; frees out and v. */
static void naive_backward_scores(const pass_t *pass, attention_kept_t *kept, tensor_t *dout, tensor_t *dv,
                                  tensor_t *ddropped)
{
    gpu_t *gpu = pass->gpu;
    dtype_t dtype = pass->dtype;
    int drops = kept->dropped.data != NULL;

    tensor_free(gpu, &kept->out);
    tensor_t dy = pass_tensor(pass, pass->C); /* [B,H,T,D] */
    CUDA(attention_unheads(pass->dtype, dy.data, dout->data, shape_of(pass), gpu->stream));
    tensor_free(gpu, dout);

    *dv = pass_tensor(pass, pass->C);
    batched_matmul(gpu, dtype, dtype, heads_from_scores(pass, 1), dv->data,
                   drops ? kept->dropped.data : kept->probs.data, dy.data);
    tensor_free(gpu, &kept->dropped);
    *ddropped = new_scores(pass, DTYPE_FP32);
    batched_matmul(gpu, dtype, DTYPE_FP32, scores_from_heads(pass), ddropped->data, dy.data, kept->v.data);
    tensor_free(gpu, &dy);
    tensor_free(gpu, &kept->v);
}

/* Returns dqkv[B,T,H+2KV,D]. */
static tensor_t naive_backward(const pass_t *pass, attention_kept_t *kept, tensor_t *dout, dropout_t drop)
{
    gpu_t *gpu = pass->gpu;
    dtype_t dtype = pass->dtype;

    if (pass->lean)
        naive_probabilities(pass, kept, drop);
    tensor_t dv, ddropped;
    naive_backward_scores(pass, kept, dout, &dv, &ddropped);
    tensor_t dscores =
        dtype == DTYPE_FP32 ? (tensor_t){0} : new_scores(pass, dtype); /* in fp32 in its place */
    CUDA(causal_softmax_backward(dtype, dscores.data != NULL ? dscores.data : ddropped.data, ddropped.data,
                                 kept->probs.data, score_scale(pass), pass->B, pass->H, pass->T, drop,
                                 gpu->stream));
    if (dscores.data == NULL)
        dscores = tensor_take(&ddropped);
    tensor_free(gpu, &ddropped);
    tensor_free(gpu, &kept->probs);

    tensor_t dq = pass_tensor(pass, pass->C), dk = pass_tensor(pass, pass->C); /* [B,H,T,D] */
    batched_matmul(gpu, dtype, dtype, heads_from_scores(pass, 0), dq.data, dscores.data, kept->k.data);
    batched_matmul(gpu, dtype, dtype, heads_from_scores(pass, 1), dk.data, dscores.data, kept->q.data);
    tensor_free(gpu, &dscores);
    tensor_free(gpu, &kept->q);
    tensor_free(gpu, &kept->k);

    tensor_t dqkv = pass_tensor(pass, qkv_channels(pass));
    CUDA(attention_merge(dtype, dqkv.data, dq.data, dk.data, dv.data, shape_of(pass), gpu->stream));
    tensor_free(gpu, &dq);
    tensor_free(gpu, &dk);
    tensor_free(gpu, &dv);
    return dqkv;
}

/* Queries, keys and values [B,T,H+2KV,D] of in[N,C], turned if positions are rotary; *u: lora_forward's. */
static tensor_t make_qkv(const pass_t *pass, const tensor_t *in, const block_t *w, tensor_t *u)
{
    int Q = qkv_channels(pass);
    tensor_t qkv = pass_tensor(pass, Q);
    linear_forward(pass->gpu, pass->dtype, (linear_t){pass->N, pass->C, Q}, qkv.data, in->data, w->qkv_w,
                   w->qkv_b);
    lora_forward(pass, MATRIX_QKV, w, in, &qkv, u);
    if (pass->rope != NULL)
        CUDA(rope_forward(pass->dtype, qkv.data, pass->rope + (size_t)pass_position(pass) * (size_t)pass->D,
                          shape_of(pass), pass->gpu->stream));
    return qkv;
}

tensor_t attention_sublayer_forward(const pass_t *pass, int layer, attention_kept_t *kept, const tensor_t *in,
                                    const block_t *w)
{
    gpu_t *gpu = pass->gpu;
    int N = pass->N, C = pass->C;
    dropout_t drop = pass_dropout(pass, layer, SITE_ATTENTION);

    kept->qkv = make_qkv(pass, in, w, &kept->qkv_u);
    if (pass->cache != NULL)
        cache_put(pass, layer, &kept->qkv);
    if (pass_position(pass) > 0)
        kept->out = cache_attention(pass, layer, &kept->qkv);
    else if (pass->attention == ATTENTION_NAIVE)
        naive_forward(pass, kept, drop);
    else
        tiled_forward(pass, kept, drop);

    tensor_t y = pass_tensor(pass, C); /* [N,C] */
    linear_forward(gpu, pass->dtype, (linear_t){N, C, C}, y.data, kept->out.data, w->proj_w, NULL);
    lora_forward(pass, MATRIX_PROJ, w, &kept->out, &y, &kept->proj_u);
    if (!pass->keep)
        tensor_free(gpu, &kept->out);
    return y;
}

tensor_t attention_sublayer_backward(const pass_t *pass, int layer, attention_kept_t *kept, tensor_t *in,
                                     const tensor_t *dy, const block_t *w, const block_t *dw)
{
    gpu_t *gpu = pass->gpu;
    int N = pass->N, C = pass->C, Q = qkv_channels(pass);
    linear_t qkv = {N, C, Q}, projection = {N, C, C};
    dropout_t drop = pass_dropout(pass, layer, SITE_ATTENTION);

    linear_backward_weight(gpu, pass->dtype, projection, dw->proj_w, NULL, dy->data, kept->out.data,
                           pass->accumulate);
    tensor_t du = lora_backward_weight(pass, MATRIX_PROJ, w, dw, &kept->out, dy, &kept->proj_u);
    tensor_t dout = pass_tensor(pass, C); /* [B,T,H,D] */
    linear_backward_input(gpu, pass->dtype, projection, dout.data, dy->data, w->proj_w);
    lora_backward_input(pass, MATRIX_PROJ, w, &du, &dout);
    if (pass->lean)
        kept->qkv = make_qkv(pass, in, w, &kept->qkv_u);
    tensor_t dqkv = pass->attention == ATTENTION_NAIVE ? naive_backward(pass, kept, &dout, drop)
                                                       : tiled_backward(pass, kept, &dout, drop);
    if (pass->rope != NULL)
        CUDA(rope_backward(pass->dtype, dqkv.data, pass->rope, shape_of(pass), gpu->stream));

    linear_backward_weight(gpu, pass->dtype, qkv, dw->qkv_w, dw->qkv_b, dqkv.data, in->data,
                           pass->accumulate);
    du = lora_backward_weight(pass, MATRIX_QKV, w, dw, in, &dqkv, &kept->qkv_u);
    tensor_free(gpu, in);
    tensor_t din = pass_tensor(pass, C); /* [N,C] */
    linear_backward_input(gpu, pass->dtype, qkv, din.data, dqkv.data, w->qkv_w);
    lora_backward_input(pass, MATRIX_QKV, w, &du, &din);
    tensor_free(gpu, &dqkv);
    return din;
}
