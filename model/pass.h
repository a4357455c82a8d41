/* pass.h: one forward pass over a batch, and the backward pass that may follow: its sizes, its dropout
 * counters, and what it keeps. Internal to the model (gpt2.c, attention.c, mlp.c).
 *
 * Shapes in the comments: B sequences of T tokens, N = B*T rows, C channels, H heads of D = C/H channels, V
 * classes.
 *
 * The residual stream. A block is two sublayers, attention and MLP; with L blocks, sublayer k = 0 .. 2L-1
 * computes x[k+1] = x[k] + dropout(sublayer(norm(x[k])) + bias) so the model is a chain of 2L+1 norms (the
 * last one feeds the head), and norm k keeps x[k] and what it made of it.
 *
 * Ownership. Sublayers return new tensors, which the caller owns. A backward function frees what its forward
 * kept.
 */
#ifndef EBB_MODEL_PASS_H
#define EBB_MODEL_PASS_H

#include <stdint.h>

#include "gpu.h"
#include "kernels.h"
#include "options.h"

typedef struct pass {
    gpu_t *gpu; /* borrowed */
    int B, T, N, C, H;
    attention_kind_t attention;
    int keep;       /* a backward pass follows: keep what it needs */
    int accumulate; /* gradients are added to what is there */
    float dropout;  /* rate; 0 in evaluation */
    uint64_t seed;  /* of dropout */
    uint64_t first; /* this pass's first Philox counter */
} pass_t;

/* Places where dropout acts, in the order of a block. */
typedef enum site { SITE_ATTENTION, SITE_PROJECTION, SITE_MLP } site_t;

/* Philox counters: a pass uses pass_counters() of them from pass.first: the embedding's, then each block's
 * sites in order. A site of n elements uses n/4, rounded up. Passes that follow one another must be that far
 * apart. */
uint64_t pass_counters(int B, int T, shape_t shape);
dropout_t pass_dropout_embedding(const pass_t *pass);
dropout_t pass_dropout(const pass_t *pass, int layer, site_t site);

/* A tensor of pass->N rows. */
tensor_t pass_tensor(const pass_t *pass, int channels);
/* Room for a kernel's scratch; empty if it needs none. */
tensor_t pass_scratch(const pass_t *pass, size_t bytes);

/* One block's parameters, or their gradients: pointers into one group (parameters.h). Matrices first, then
 * vectors. */
typedef struct block {
    float *qkv_w;   /* [3C,C] */
    float *proj_w;  /* [C,C] */
    float *up_w;    /* [4C,C] */
    float *down_w;  /* [C,4C] */
    float *norm1_w; /* [C] */
    float *norm1_b; /* [C] */
    float *qkv_b;   /* [3C] */
    float *proj_b;  /* [C] */
    float *norm2_w; /* [C] */
    float *norm2_b; /* [C] */
    float *up_b;    /* [4C] */
    float *down_b;  /* [C] */
} block_t;

/* What a norm keeps: its input on the residual stream, its output, and per row mean and 1/deviation. */
typedef struct norm {
    tensor_t x;     /* [N,C] */
    tensor_t out;   /* [N,C] */
    tensor_t stats; /* mean[N], then rstd[N] at the next multiple of 4 */
} norm_t;

/* attention.c. Forward: y[N,C] = attention(in[N,C]) without the projection's bias. Backward: din[N,C] from
 * dy[N,C]; frees what was kept and *in. dy is borrowed; the gradients of qkv_w, qkv_b and proj_w are written.
 */
typedef struct attention_kept {
    tensor_t out;     /* [B,T,H,D] */
    tensor_t qkv;     /* [B,T,3,H,D]  flash */
    tensor_t lse;     /* [B,H,T]      flash */
    tensor_t q, k, v; /* [B,H,T,D]    naive */
    tensor_t probs;   /* [B,H,T,T]    naive */
    tensor_t dropped; /* [B,H,T,T]    naive, with dropout */
} attention_kept_t;

tensor_t attention_sublayer_forward(const pass_t *pass, int layer, attention_kept_t *kept, const tensor_t *in,
                                    const block_t *w);
tensor_t attention_sublayer_backward(const pass_t *pass, int layer, attention_kept_t *kept, tensor_t *in,
                                     const tensor_t *dy, const block_t *w, const block_t *dw);

/* mlp.c. The same for y = down(gelu(up(in) + bias)), without the last bias. */
typedef struct mlp_kept {
    tensor_t up;   /* [N,4C] before bias and GELU */
    tensor_t gelu; /* [N,4C] */
} mlp_kept_t;

tensor_t mlp_sublayer_forward(const pass_t *pass, mlp_kept_t *kept, const tensor_t *in, const block_t *w);
tensor_t mlp_sublayer_backward(const pass_t *pass, mlp_kept_t *kept, tensor_t *in, const tensor_t *dy,
                               const block_t *w, const block_t *dw);

#endif
