/* kernels.h: the trainer's CUDA kernels as C functions.
 *
 * Conventions. Tensors are dense, row-major; shapes are given outermost first. B sequences of T tokens make N = B*T
 * rows of C channels; H heads of D = C/H channels, KV of which have keys and values of their own; F channels inside
 * the MLP; V classes. Sizes are int, element counts size_t: a tensor may have more than 2^31 elements. All pointers
 * are device memory, aligned to 16 bytes at least.
 *
 * Types. `void *` is a tensor of elements of `type` (dtype.h): activations, their gradients, weights. Statistics,
 * losses, gradients of parameters, moments and masters are float. Arithmetic and sums are in fp32, and a result is
 * rounded once, to the nearest.
 *
 * Every function issues its kernels on `stream` and returns at once; the result is the launch's error. Work is ordered
 * by the stream alone. Functions hold no state and may be called from any thread.
 *
 * Bits. No floating-point atomics, and every sum has an order that depends on the shape only: the same inputs give the
 * same bits, wherever the tensors lie.
 *
 * "+=" in a description: the result is added to what is there if `accumulate` is set, and overwrites it otherwise.
 */
#ifndef EBB_MODEL_KERNELS_H
#define EBB_MODEL_KERNELS_H

#include <cuda_runtime_api.h>
#include <stddef.h>
#include <stdint.h>

#include "dtype.h"

#ifdef __cplusplus
extern "C" {
#endif

#define ATTENTION_HEAD_MAX 128 /* largest D of attention_forward/backward */

/* Inverted dropout by counter: element i of the tensor (its flat index) is kept, and scaled by 1/(1-rate), if the
 * (i%4)-th word of Philox4x32-10(counter = offset + i/4, key = seed), as a number in [0,1), is >= rate.
 * Nothing is stored for backward: it asks again. rate 0 switches it off (and costs nothing).
 * Philox: Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011. */
typedef struct dropout {
    float rate;
    uint64_t seed;
    uint64_t offset;
    const uint64_t *base; /* device memory: a number that is added to offset when the kernel runs; NULL: 0 */
} dropout_t;

/* ---- embedding ---- */

/* x[N,C] = dropout(wte[tokens[n], :] + wpe[n % T, :]). tokens[N], wte[V,C], wpe[T or more, C] or NULL. */
cudaError_t embedding_forward(dtype_t type, void *x, const int *tokens, const void *wte, const void *wpe,
                              int B, int T, int C, dropout_t drop, cudaStream_t stream);

/* The same tokens sorted by class, made on the host once per batch, so that each row of dwte is summed by one block, in
 * order: class `token[k]`, k < count, occurs at rows order[first[k]] ... order[first[k+1]-1], ascending. Device arrays. */
typedef struct token_index {
    const int *token; /* [count] */
    const int *first; /* [count + 1] */
    const int *order; /* [N] */
    int count;
} token_index_t;

/* dwte[V,C]: rows of the classes that occur are += the sum of their dx rows; other rows are left alone.
 * dwpe[positions,C] += sum over sequences, of which positions from T on have none; may be NULL. dx[N,C] is the gradient of x,
 * through the same dropout. dwte is always added to (a tied head has written it before); dwpe by `accumulate`. */
cudaError_t embedding_backward(dtype_t type, float *dwte, float *dwpe, const void *dx, token_index_t index,
                               int B, int T, int positions, int C, dropout_t drop, int accumulate,
                               cudaStream_t stream);

/* ---- norms ---- */

/* out[N,C] = (x - mean) * rstd * gamma + beta, rstd = 1/sqrt(variance + eps); mean[N], rstd[N] are kept for backward. */
cudaError_t layernorm_forward(dtype_t type, void *out, float *mean, float *rstd, const void *x,
                              const void *gamma, const void *beta, float eps, int N, int C,
                              cudaStream_t stream);

/* sum[N,C] = residual + dropout(y + bias); out, mean, rstd = layernorm(sum). bias[C]. sum may be y or residual. */
cudaError_t residual_layernorm_forward(dtype_t type, void *sum, void *out, float *mean, float *rstd,
                                       const void *residual, const void *y, const void *bias,
                                       const void *gamma, const void *beta, float eps, int N, int C,
                                       dropout_t drop, cudaStream_t stream);

/* dx[N,C] = gradient through the norm of dout[N,C], plus dresidual[N,C] where not NULL (dx may be dresidual: the
 * gradient that flows past the norm). dgamma[C], dbeta[C] +=, and
 * dsum[C] += the column sums of dx, unless it is NULL. scratch: layernorm_backward_scratch(N, C) bytes. All four may be NULL:
 * the norm is frozen. */
size_t layernorm_backward_scratch(int N, int C);
cudaError_t layernorm_backward(dtype_t type, void *dx, float *dgamma, float *dbeta, float *dsum,
                               const void *dresidual, const void *dout, const void *x, const float *mean,
                               const float *rstd, const void *gamma, int N, int C, int accumulate,
                               void *scratch, cudaStream_t stream);

/* The same three without mean, bias and beta: out = x * rstd * gamma, rstd = 1/sqrt(mean of x^2 + eps). */
cudaError_t rmsnorm_forward(dtype_t type, void *out, float *rstd, const void *x, const void *gamma, float eps,
                            int N, int C, cudaStream_t stream);
cudaError_t residual_rmsnorm_forward(dtype_t type, void *sum, void *out, float *rstd, const void *residual,
                                     const void *y, const void *gamma, float eps, int N, int C,
                                     dropout_t drop, cudaStream_t stream);
size_t rmsnorm_backward_scratch(int N, int C);
cudaError_t rmsnorm_backward(dtype_t type, void *dx, float *dgamma, const void *dresidual, const void *dout,
                             const void *x, const float *rstd, const void *gamma, int N, int C,
                             int accumulate, void *scratch, cudaStream_t stream);

/* dy[N,C] = gradient of y in residual + dropout(y + bias), that is dropout applied to dsum; dbias[C] += column sums
 * of dy, unless it is NULL. dy may be dsum. scratch as column_sum. */
cudaError_t residual_backward(dtype_t type, void *dy, float *dbias, const void *dsum, int N, int C,
                              dropout_t drop, int accumulate, void *scratch, cudaStream_t stream);

/* ---- biases, the MLP ---- */

/* x[N,C] += bias[C], in place. */
cudaError_t bias_forward(dtype_t type, void *x, const void *bias, int N, int C, cudaStream_t stream);

/* dbias[C] += column sums of dy[N,C]. scratch: column_sum_scratch(N, C) bytes. */
size_t column_sum_scratch(int N, int C);
cudaError_t column_sum(dtype_t type, float *dbias, const void *dy, int N, int C, int accumulate,
                       void *scratch, cudaStream_t stream);

/* out[N,C] = gelu(x + bias), x without the bias (kept for backward). GELU by tanh, as GPT-2:
 * 0.5 u (1 + tanh(sqrt(2/pi) (u + 0.044715 u^3))) (Hendrycks, Gimpel, arXiv:1606.08415). bias may be NULL: none. */
cudaError_t bias_gelu_forward(dtype_t type, void *out, const void *x, const void *bias, int N, int C,
                              cudaStream_t stream);

/* dx[N,C] = dout * gelu'(x + bias); dx may be dout. dbias[C] += column sums of dx. scratch as column_sum. */
cudaError_t bias_gelu_backward(dtype_t type, void *dx, float *dbias, const void *dout, const void *x,
                               const void *bias, int N, int C, int accumulate, void *scratch,
                               cudaStream_t stream);

/* out[N,F] = silu(gate) * up, silu(u) = u / (1 + exp(-u)); x[N,2,F]: a row's gate, then its up (Shazeer,
 * arXiv:2002.05202). */
cudaError_t swiglu_forward(dtype_t type, void *out, const void *x, int N, int F, cudaStream_t stream);

/* dx[N,2,F] from dout[N,F]; dx may be x. */
cudaError_t swiglu_backward(dtype_t type, void *dx, const void *dout, const void *x, int N, int F,
                            cudaStream_t stream);

/* ---- attention ----
 * Grouped queries: head h has the keys and values of key head h / (H/KV) (Ainslie et al., arXiv:2305.13245). A row of
 * qkv[B,T,H+2KV,D] has its queries, then keys, then values. */
typedef struct attention_shape {
    int B, T, H, KV, D; /* H a multiple of KV */
} attention_shape_t;

/* Rotary positions, in place: of each query and key of qkv the pairs (x[d], x[d + D/2]), d < D/2, are turned by the angle
 * whose cosine and sine are table[t][0][d] and table[t][1][d], t the row's place in its sequence (Su et al.,
 * arXiv:2104.09864; pairs as in Hugging Face's Llama). D even. backward turns the gradients back. */
cudaError_t rope_forward(dtype_t type, void *qkv, const float *table, attention_shape_t shape,
                         cudaStream_t stream);
cudaError_t rope_backward(dtype_t type, void *dqkv, const float *table, attention_shape_t shape,
                          cudaStream_t stream);

/* Causal self-attention of qkv into out[B,T,H,D], scores scaled by 1/sqrt(D), without ever storing T x T: tiles of keys
 * with a running maximum and sum (Milakov, Gimelshein, arXiv:1805.02867; Dao, arXiv:2307.08691).
 * lse[B,H,T] = log sum exp of each row of scores, for backward. Dropout acts on the probabilities, whose flat index is
 * that of [B,H,T,T]. D <= ATTENTION_HEAD_MAX. */
cudaError_t attention_forward(dtype_t type, void *out, float *lse, const void *qkv, attention_shape_t shape,
                              dropout_t drop, cudaStream_t stream);

/* dqkv[B,T,H+2KV,D] from dout[B,T,H,D], recomputing the probabilities from qkv and lse. Deterministic: each tile of dq,
 * of dk and of dv has one writer. scratch: attention_backward_scratch() bytes. */
size_t attention_backward_scratch(dtype_t type, attention_shape_t shape);
cudaError_t attention_backward(dtype_t type, void *dqkv, const void *dout, const void *out, const float *lse,
                               const void *qkv, attention_shape_t shape, dropout_t drop, void *scratch,
                               cudaStream_t stream);

/* The same two on matrix instructions, for tensors in BF16 and D 64 or 128; others: cudaErrorInvalidValue. Probabilities and
 * the gradients of scores are rounded to bf16 for the products that follow. They drop the same probabilities. For devices
 * of which matrix_instructions_usable() says so. scratch: attention_tensor_backward_scratch() bytes. */
cudaError_t attention_tensor_forward(void *out, float *lse, const void *qkv, attention_shape_t shape, dropout_t drop,
                                     cudaStream_t stream);
size_t attention_tensor_backward_scratch(attention_shape_t shape);
cudaError_t attention_tensor_backward(void *dqkv, const void *dout, const void *out, const float *lse, const void *qkv,
                                      attention_shape_t shape, dropout_t drop, void *scratch, cudaStream_t stream);

/* *usable (device) = 1 where the kernels have matrix instructions, 0 where not: they were compiled for a compute capability
 * below 8.0, or a block runs as one thread, which is no place for instructions of a whole warp (block.cuh). */
cudaError_t matrix_instructions_usable(int *usable, cudaStream_t stream);

/* Attention of a text's newest token: out[H,D] from its queries q[H,D] and the keys and values of all `count` tokens, its
 * own the last ones, cache[count,2KV,D]. shape's B and T are 1. The memory that it takes does not depend on count. */
cudaError_t attention_next(dtype_t type, void *out, const void *q, const void *cache, int count,
                           attention_shape_t shape, cudaStream_t stream);

/* The pieces of `--attention naive`, which stores scores and leaves the products to cuBLAS.
 * split: q, k, v[B,H,T,D] from qkv[B,T,H+2KV,D], shared keys and values copied to each of their heads. merge: the
 * reverse, for gradients, which are added up over the heads that share. heads: out[B,T,H,D] from y[B,H,T,D]; unheads:
 * the reverse. */
cudaError_t attention_split(dtype_t type, void *q, void *k, void *v, const void *qkv, attention_shape_t shape,
                            cudaStream_t stream);
cudaError_t attention_merge(dtype_t type, void *dqkv, const void *dq, const void *dk, const void *dv,
                            attention_shape_t shape, cudaStream_t stream);
cudaError_t attention_heads(dtype_t type, void *out, const void *y, attention_shape_t shape,
                            cudaStream_t stream);
cudaError_t attention_unheads(dtype_t type, void *y, const void *out, attention_shape_t shape,
                              cudaStream_t stream);

/* probs[B,H,T,T] = softmax of scale * scores, rows causal (zeros right of the diagonal); dropped[B,H,T,T] =
 * dropout(probs), written only if drop.rate > 0 (may be NULL otherwise). scores is fp32 and overwritten; in fp32, probs
 * may be scores. */
cudaError_t causal_softmax_forward(dtype_t type, void *probs, void *dropped, float *scores, float scale,
                                   int B, int H, int T, dropout_t drop, cudaStream_t stream);
/* dscores[B,H,T,T] (gradient before the scale) from ddropped, which is fp32 and overwritten, and probs; in fp32, dscores
 * may be ddropped. Zeros right of the diagonal. */
cudaError_t causal_softmax_backward(dtype_t type, void *dscores, float *ddropped, const void *probs,
                                    float scale, int B, int H, int T, dropout_t drop, cudaStream_t stream);

/* ---- loss ---- */

/* Softmax and cross-entropy in one pass: losses[N] = -log softmax(logits)[target]. Unless dlogits is NULL, dlogits[N,V]
 * = the gradient times `scale` (1/N for the mean), and the logits are overwritten; in fp32, dlogits may be the logits.
 * A row whose target is -1 is padding: its loss is 0, and so is its gradient. */
cudaError_t cross_entropy(dtype_t type, void *dlogits, float *losses, float *logits, const int *targets,
                          int N, int V, float scale, cudaStream_t stream);

/* result[0] += scale * sum of x[n] (`accumulate` as ever), one block, fixed order. */
cudaError_t sum(float *result, const float *x, size_t n, float scale, int accumulate, cudaStream_t stream);

/* ---- gradients in fewer bytes (layers/compression.h) ---- */

/* sum[n] += factor * x[n]. */
cudaError_t add_scaled(float *sum, const float *x, float factor, size_t n, cudaStream_t stream);

/* The columns of p[rows,columns] become orthonormal, one after the other (Gram-Schmidt, in double); one that is a sum of those before
 * it, or nothing, is replaced by another. One block. columns <= rows. */
cudaError_t orthonormalize(float *p, int rows, int columns, cudaStream_t stream);

/* Of x[n], n below 2^32, the k numbers of largest magnitude, and of equal ones the first: their places, which rise, and values. They become
 * 0 in x. scratch: device memory, top_scratch(n) bytes. */
size_t top_scratch(size_t n);
cudaError_t take_top(uint32_t *place, float *value, float *x, size_t n, size_t k, void *scratch,
                     cudaStream_t stream);

/* sum[place[k]] += value[k]. No place twice. */
cudaError_t add_at(float *sum, const uint32_t *place, const float *value, size_t k, cudaStream_t stream);

/* ---- the optimizer ---- */

/* partials[sum_squares_partials(n)] = partial sums of squares of x[n], to be added up by gradient_scale. */
size_t sum_squares_partials(size_t n);
cudaError_t sum_squares(float *partials, const float *x, size_t n, cudaStream_t stream);

/* result[0] = gradient norm sqrt(sum of partials[n]); result[1] = min(1, clip/norm), or 1 if clip is 0. Stays on the
 * device: adamw reads result[1] there, so that clipping costs no synchronisation. */
cudaError_t gradient_scale(float *result, const float *partials, size_t n, float clip, cudaStream_t stream);

/* After gradient_scale: is this step's loss[0], or its gradient norm result[0], more than `threshold` standard deviations
 * (of n - 1) above the mean of the last OUTLIER_WINDOW steps', OUTLIER_LEAST of them at least? Or not a finite number?
 * Then result[1] = -1, which makes adamw leave everything as it is, and result[2] = 1; else result[2] = 0. The step's
 * numbers, if finite, are then past ones, too. past: zero before the first step. */
enum {
    OUTLIER_WINDOW = 128,
    OUTLIER_LEAST = 64,
    OUTLIER_COUNT = 0, /* steps seen; past 2^24, less whole windows */
    OUTLIER_LOSSES = 4,
    OUTLIER_NORMS = OUTLIER_LOSSES + OUTLIER_WINDOW,
    OUTLIER_FLOATS = OUTLIER_NORMS + OUTLIER_WINDOW
};
cudaError_t outlier_check(float *past, float *result, const float *loss, float threshold,
                          cudaStream_t stream);

/* One step of AdamW (Loshchilov, Hutter, arXiv:1711.05101) on parameter[n], moments m[n], v[n]; gradient[n] is multiplied by
 * scale[0] first (device memory, see gradient_scale); if scale[0] is negative, nothing changes. The first `decayed`
 * elements are decayed. step counts from 1 (bias correction).
 *
 * copy[n], unless NULL: the new parameters in bf16, rounded to the nearest, or stochastically: the two neighbours have
 * the probabilities that make the mean exact to 2^-16 of their distance. Element i takes 16 random bits: the lower
 * (i even) or upper half of word i / 2 % 4 of Philox4x32-10(counter = offset + i/8, key = seed). */
typedef struct adamw_scalars { /* what changes from step to step, as the kernel takes it */
    float rate;                /* learning rate / (1 - beta1^step) */
    float root;                /* 1 / sqrt(1 - beta2^step) */
    float decay;               /* learning rate * weight decay */
    float unused;
    uint64_t offset;
} adamw_scalars_t;
typedef struct adamw {
    float learning_rate, beta1, beta2, eps, weight_decay;
    int step;
    int stochastic;
    uint64_t seed, offset;
    const adamw_scalars_t
        *scalars; /* device memory: read when the kernel runs, instead of learning_rate, weight_decay and
                                       step; offset counts from scalars->offset then. NULL: there are none */
} adamw_t;
adamw_scalars_t adamw_scalars_of(adamw_t options);
cudaError_t adamw(float *parameter, float *m, float *v, void *copy, const float *gradient, size_t n,
                  size_t decayed, const float *scale, adamw_t options, cudaStream_t stream);

/* to[n] in bf16 = from[n], rounded to the nearest. */
cudaError_t round_bf16(void *to, const float *from, size_t n, cudaStream_t stream);

#ifdef __cplusplus
}
#endif
#endif
