/* pass.h: one forward pass over a batch, and the backward pass that may follow: its sizes, its dropout
 * counters, and what it keeps. Internal to the model (transformer.c, norm.c, attention.c, mlp.c, head.c).
 *
 * Shapes in the comments: B sequences of T tokens, N = B*T rows, C channels, H heads of D = C/H channels, KV of them
 * with keys and values of their own, F channels inside the MLP, V classes. Q = (H+2KV)*D.
 *
 * The residual stream. A block is two sublayers, attention and MLP; with L blocks, sublayer k = 0 .. 2L-1
 * computes x[k+1] = x[k] + dropout(sublayer(norm(x[k])) + bias) so the model is a chain of 2L+1 norms (the
 * last one feeds the head), and norm k keeps x[k] and what it made of it.
 *
 * Types. Activations and their gradients have the run's type (pass.dtype); statistics, losses and the gradients of
 * parameters are fp32.
 *
 * Ownership. Sublayers return new tensors, which the caller owns. A backward function frees what its forward
 * kept.
 */
#ifndef EBB_MODEL_PASS_H
#define EBB_MODEL_PASS_H

#include <stdint.h>

#include "model/base/gpu.h"
#include "model/kernels/kernels.h"
#include "model/layers/parameters.h"
#include "model/options/options.h"

typedef struct pass {
    gpu_t *gpu;             /* borrowed */
    const layout_t *layout; /* borrowed */
    const shape_t *shape;   /* its */
    dtype_t dtype;
    int B, T, N, C, H, KV, D, F;
    const float *rope;          /* device, rope.h: [T or more,2,D/2]; NULL: positions are learned; borrowed */
    attention_kind_t attention; /* not AUTO */
    const struct kv_cache
        *cache;     /* decode.h: the pass's tokens follow those there; NULL: none is kept; borrowed */
    int keep;       /* a backward pass follows: keep what it needs */
    int lean;       /* and make again what is cheap to make: norms' outputs, qkv, what goes down in the MLP */
    int accumulate; /* gradients are added to what is there */
    float dropout;  /* rate; 0 in evaluation */
    uint64_t seed;  /* of dropout */
    uint64_t first; /* this pass's first Philox counter, */
    const uint64_t *base; /* from this one on, which lies on the device; NULL: from 0 on */
} pass_t;

/* Places where dropout acts, in the order of a block. */
typedef enum site { SITE_ATTENTION, SITE_PROJECTION, SITE_MLP } site_t;

/* Philox counters: a pass uses pass_counters() of them from pass.first: the embedding's, then each block's
 * sites in order. A site of n elements uses n/4, rounded up. Passes that follow one another must be that far
 * apart. */
uint64_t pass_counters(int B, int T, shape_t shape);
dropout_t pass_dropout_embedding(const pass_t *pass);
dropout_t pass_dropout(const pass_t *pass, int layer, site_t site);

/* A tensor of pass->N rows in the run's type; one number for each row and `columns`, in fp32. */
tensor_t pass_tensor(const pass_t *pass, int channels);
tensor_t pass_statistics(const pass_t *pass, int columns);
/* Room for a kernel's scratch; empty if it needs none. */
tensor_t pass_scratch(const pass_t *pass, size_t bytes);

/* Pointers into group 0 (layout.h: ARRAY_...), of values in the run's type or of fp32 gradients; NULL where the model
 * has no such array. */
typedef struct outer {
    void *wte, *wpe, *head /* wte if tied */, *norm_w, *norm_b;
} outer_t;

/* The same for one block, and its group of adapters. */
typedef struct block {
    void *qkv_w, *proj_w, *up_w, *down_w;
    void *norm1_w, *norm1_b, *qkv_b, *proj_b;
    void *norm2_w, *norm2_b, *up_b, *down_b;
    void *lora_a[MATRIX_COUNT], *lora_b[MATRIX_COUNT];
} block_t;

outer_t outer_at(const layout_t *layout, const tensor_t *group);
block_t block_at(const layout_t *layout, const tensor_t *group, const tensor_t *adapters);

/* Whether a forward pass keeps what --save lean makes again. */
static inline int pass_keeps_all(const pass_t *pass)
{
    return pass->keep && !pass->lean;
}

/* ---- norm.c ---- */

/* What a norm keeps: its input on the residual stream, its output, and per row 1/deviation and mean (RMSNorm has none). */
typedef struct norm {
    tensor_t x;     /* [N,C] */
    tensor_t out;   /* [N,C] */
    tensor_t stats; /* fp32: rstd[N], then mean[N] at the next multiple of 4 */
} norm_t;

/* What a sublayer adds to the stream, and the norm that follows it. */
typedef struct join {
    const void *bias;            /* [C] of the sublayer; NULL: none */
    const void *weight, *norm_b; /* [C] of the norm */
    dropout_t drop;
} join_t;

/* The first norm: norm->out from norm->x. */
void norm_forward(const pass_t *pass, norm_t *norm, const void *weight, const void *bias);

/* norm->out again, the same bits, from what the norm has kept of a lean pass. */
void norm_again(const pass_t *pass, norm_t *norm, const void *weight, const void *bias);

/* to->x = from->x + dropout(y + bias), in y's memory; then the norm of it. Frees what no backward pass will need. */
void join_forward(const pass_t *pass, norm_t *from, norm_t *to, tensor_t *y, join_t join);

/* Gradient of y in join_forward, and of its bias, from dx, the gradient of the stream after it. Without dropout it
 * is dx itself, and norm_backward has made that of the bias: returned empty, nothing done. dbias NULL: there is no bias. */
tensor_t join_backward(const pass_t *pass, float *dbias, const tensor_t *dx, dropout_t drop);

/* dx, the gradient of the stream past the norm (may be empty: none), becomes that of the stream before it.
 * dbefore: without dropout, the gradient of the bias of the sublayer before the norm; NULL: there is none. Frees dout and
 * what the norm kept. */
void norm_backward(const pass_t *pass, norm_t *norm, tensor_t *dx, tensor_t *dout, const void *weight,
                   float *dweight, float *dbias, float *dbefore);

void norm_free(const pass_t *pass, norm_t *norm);

/* ---- lora.c: nothing happens where an array has no adapters (lora_adapts) ---- */

bool lora_adapts(const pass_t *pass, matrix_t matrix);

/* y[N,out], the product of x[N,in] with the array, gets the adapters' part added. *u is kept for the backward pass, unless it is
 * to be made again. */
void lora_forward(const pass_t *pass, matrix_t matrix, const block_t *w, const tensor_t *x, const tensor_t *y,
                  tensor_t *u);

/* The adapters' gradients from dy[N,out]; frees u. What it returns gives lora_backward_input its part of dx[N,in], which is
 * added, and is freed there. */
tensor_t lora_backward_weight(const pass_t *pass, matrix_t matrix, const block_t *w, const block_t *dw,
                              const tensor_t *x, const tensor_t *dy, tensor_t *u);
void lora_backward_input(const pass_t *pass, matrix_t matrix, const block_t *w, tensor_t *du,
                         const tensor_t *dx);

/* ---- attention.c ----
 * Forward: y[N,C] = attention(in[N,C]) without the projection's bias. Backward: din[N,C] from dy[N,C]; frees what was
 * kept and *in. dy is borrowed; the gradients of qkv_w, qkv_b and proj_w are written. */
typedef struct attention_kept {
    tensor_t out;           /* [B,T,H,D] */
    tensor_t qkv;           /* [B,T,H+2KV,D]  flash, tensor */
    tensor_t lse;           /* [B,H,T] fp32   flash, tensor */
    tensor_t q, k, v;       /* [B,H,T,D]    naive */
    tensor_t probs;         /* [B,H,T,T]    naive */
    tensor_t dropped;       /* [B,H,T,T]    naive, with dropout */
    tensor_t qkv_u, proj_u; /* [N,targets,rank] of adapters */
} attention_kept_t;

/* The kind that --attention asks for, on this device; ends the program where it cannot be had. */
attention_kind_t attention_choose(gpu_t *gpu, const options_t *options);

tensor_t attention_sublayer_forward(const pass_t *pass, int layer, attention_kept_t *kept, const tensor_t *in,
                                    const block_t *w);
tensor_t attention_sublayer_backward(const pass_t *pass, int layer, attention_kept_t *kept, tensor_t *in,
                                     const tensor_t *dy, const block_t *w, const block_t *dw);

/* ---- decode.c ---- */

/* The keys and values of the pass's tokens go into its cache. */
void cache_put(const pass_t *pass, int layer, const tensor_t *qkv);

/* The attention [1,H,D] of a pass of one token, which has been put there, over all in the cache. Frees qkv. */
tensor_t cache_attention(const pass_t *pass, int layer, tensor_t *qkv);

/* Tokens before those of the pass. */
int pass_position(const pass_t *pass);

/* ---- mlp.c ----
 * The same for y = down(gelu(up(in) + bias)), without the last bias, or down(silu(gate(in)) * up(in)). */
typedef struct mlp_kept {
    tensor_t up;           /* [N,F] before bias (BF16: after it) and GELU; [N,2,F] gate and up */
    tensor_t act;          /* [N,F] what goes down */
    tensor_t up_u, down_u; /* [N,targets,rank] of adapters */
} mlp_kept_t;

tensor_t mlp_sublayer_forward(const pass_t *pass, mlp_kept_t *kept, const tensor_t *in, const block_t *w);
tensor_t mlp_sublayer_backward(const pass_t *pass, mlp_kept_t *kept, tensor_t *in, const tensor_t *dy,
                               const block_t *w, const block_t *dw);

/* ---- head.c ---- */

typedef struct head {
    const outer_t *w, *dw; /* dw: with pass->keep */
    const int *targets;    /* device [N] */
    float scale;           /* of each row's loss */
} head_t;

/* *loss += scale * the losses of all rows of the last norm, whose output is freed. With pass->keep the head's gradient +=,
 * and the result is the gradient of the last norm's output [N,C]; else it is empty. */
tensor_t head_loss(const pass_t *pass, norm_t *last, head_t head, float *loss);

/* The same, the rows' losses[N], without the scale, kept apart. */
tensor_t head_row_losses(const pass_t *pass, norm_t *last, head_t head, tensor_t *losses);

/* Logits[V] of the last row, fp32. */
tensor_t head_next(const pass_t *pass, const norm_t *last, const outer_t *w);

/* Frees dout, the gradient of the last norm's output, and what the norm kept. Returns the gradient of the stream before it
 * [N,C]. */
tensor_t head_backward(const pass_t *pass, norm_t *last, tensor_t *dout, const outer_t *w, const outer_t *dw,
                       float *dbefore);

#endif
