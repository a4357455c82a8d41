/* kernels.h: the trainer's CUDA kernels as C functions.
 *
 * Conventions. Tensors are dense, row-major, fp32; shapes are given outermost first. B sequences of T tokens make N = B*T
 * rows of C channels; H heads of D = C/H channels; V classes. Sizes are int, element counts size_t: a
 * tensor may have more than 2^31 elements. All pointers are device memory, aligned to 16 bytes at least.
 *
 * Every function issues its kernels on `stream` and returns at once; the result is the launch's error. Work is ordered
 * by the stream alone. Functions hold no state and may be called from any thread.
 *
 * Bits. No floating-point atomics, and every sum has an order that depends on the shape only: the same inputs give the same
 * bits, wherever the tensors lie.
 *
 * "+=" in a description: the result is added to what is there if `accumulate` is set, and overwrites it otherwise.
 */
#ifndef EBB_MODEL_KERNELS_H
#define EBB_MODEL_KERNELS_H

#include <cuda_runtime_api.h>
#include <stddef.h>
#include <stdint.h>

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
} dropout_t;

/* x[N,C] = dropout(wte[tokens[n], :] + wpe[n % T, :]). tokens[N], wte[V,C], wpe[T or more, C]. */
cudaError_t embedding_forward(float *x, const int *tokens, const float *wte, const float *wpe, int B, int T, int C,
                              dropout_t drop, cudaStream_t stream);

/* The same tokens sorted by class, made on the host once per batch, so that each row of dwte is summed by one block, in order:
 * class `token[k]`, k < count, occurs at rows order[first[k]] ... order[first[k+1]-1], ascending. Device arrays. */
typedef struct token_index {
    const int *token; /* [count] */
    const int *first; /* [count + 1] */
    const int *order; /* [N] */
    int count;
} token_index_t;

/* dwte[V,C]: rows of the classes that occur are += the sum of their dx rows; other rows are left alone.
 * dwpe[T,C] += sum over sequences. dx[N,C] is the gradient of x, through the same dropout. dwte is always added to
 * (the tied head has written it before); dwpe by `accumulate`. */
cudaError_t embedding_backward(float *dwte, float *dwpe, const float *dx, token_index_t index, int B, int T, int C,
                               dropout_t drop, int accumulate, cudaStream_t stream);

/* out[N,C] = (x - mean) * rstd * gamma + beta; mean[N], rstd[N] (eps 1e-5) are kept for backward. */
cudaError_t layernorm_forward(float *out, float *mean, float *rstd, const float *x, const float *gamma, const float *beta,
                              int N, int C, cudaStream_t stream);

/* sum[N,C] = residual + dropout(y + bias); out, mean, rstd = layernorm(sum). bias[C]. sum may be y or residual. */
cudaError_t residual_layernorm_forward(float *sum, float *out, float *mean, float *rstd, const float *residual,
                                       const float *y, const float *bias, const float *gamma, const float *beta, int N,
                                       int C, dropout_t drop, cudaStream_t stream);

/* dx[N,C] = gradient through the norm of dout[N,C], plus dresidual[N,C] where not NULL (dx may be dresidual: the gradient
 * that flows past the norm). dgamma[C], dbeta[C] +=. scratch: layernorm_backward_scratch(N, C) bytes. */
size_t layernorm_backward_scratch(int N, int C);
cudaError_t layernorm_backward(float *dx, float *dgamma, float *dbeta, const float *dresidual, const float *dout,
                               const float *x, const float *mean, const float *rstd, const float *gamma, int N, int C,
                               int accumulate, void *scratch, cudaStream_t stream);

/* dy[N,C] = gradient of y in residual + dropout(y + bias), that is dropout applied to dsum; dbias[C] += column sums
 * of dy. dy may be dsum. scratch as column_sum. */
cudaError_t residual_backward(float *dy, float *dbias, const float *dsum, int N, int C, dropout_t drop, int accumulate,
                              void *scratch, cudaStream_t stream);

/* x[N,C] += bias[C], in place. */
cudaError_t bias_forward(float *x, const float *bias, int N, int C, cudaStream_t stream);

/* dbias[C] += column sums of dy[N,C]. scratch: column_sum_scratch(N, C) bytes. */
size_t column_sum_scratch(int N, int C);
cudaError_t column_sum(float *dbias, const float *dy, int N, int C, int accumulate, void *scratch, cudaStream_t stream);

/* out[N,C] = gelu(x + bias), x without the bias (kept for backward). GELU by tanh, as GPT-2:
 * 0.5 u (1 + tanh(sqrt(2/pi) (u + 0.044715 u^3))) (Hendrycks, Gimpel, arXiv:1606.08415). */
cudaError_t bias_gelu_forward(float *out, const float *x, const float *bias, int N, int C, cudaStream_t stream);

/* dx[N,C] = dout * gelu'(x + bias); dx may be dout. dbias[C] += column sums of dx. scratch as column_sum. */
cudaError_t bias_gelu_backward(float *dx, float *dbias, const float *dout, const float *x, const float *bias, int N, int C,
                               int accumulate, void *scratch, cudaStream_t stream);

/* Causal self-attention of qkv[B,T,3,H,D] into out[B,T,H,D], scores scaled by 1/sqrt(D), without ever storing T x T:
 * tiles of keys with a running maximum and sum (Milakov, Gimelshein, arXiv:1805.02867; Dao, arXiv:2307.08691).
 * lse[B,H,T] = log sum exp of each row of scores, for backward. Dropout acts on the probabilities, whose flat index is
 * that of [B,H,T,T]. D <= ATTENTION_HEAD_MAX. */
cudaError_t attention_forward(float *out, float *lse, const float *qkv, int B, int T, int H, int D, dropout_t drop,
                              cudaStream_t stream);

/* dqkv[B,T,3,H,D] from dout[B,T,H,D], recomputing the probabilities from qkv and lse.
 * delta[B,H,T] is scratch (row sums of dout * out). Deterministic: each tile of dq, of dk and of dv has one writer. */
cudaError_t attention_backward(float *dqkv, float *delta, const float *dout, const float *out, const float *lse,
                               const float *qkv, int B, int T, int H, int D, dropout_t drop, cudaStream_t stream);

/* The pieces of `--attention naive`, which stores scores and leaves the products to cuBLAS.
 * split: q, k, v[B,H,T,D] from qkv[B,T,3,H,D]. merge: the reverse, for gradients.
 * heads: out[B,T,H,D] from y[B,H,T,D]; unheads: the reverse. */
cudaError_t attention_split(float *q, float *k, float *v, const float *qkv, int B, int T, int H, int D, cudaStream_t stream);
cudaError_t attention_merge(float *dqkv, const float *dq, const float *dk, const float *dv, int B, int T, int H, int D,
                            cudaStream_t stream);
cudaError_t attention_heads(float *out, const float *y, int B, int T, int H, int D, cudaStream_t stream);
cudaError_t attention_unheads(float *y, const float *out, int B, int T, int H, int D, cudaStream_t stream);

/* probs[B,H,T,T] = softmax of scale * scores, rows causal (zeros right of the diagonal); dropped[B,H,T,T] = dropout(probs),
 * written only if drop.rate > 0 (may be NULL otherwise). probs may be scores. */
cudaError_t causal_softmax_forward(float *probs, float *dropped, const float *scores, float scale, int B, int H, int T,
                                   dropout_t drop, cudaStream_t stream);
/* dscores[B,H,T,T] (gradient before the scale) from ddropped and probs; dscores may be ddropped. Zeros right of the diagonal. */
cudaError_t causal_softmax_backward(float *dscores, const float *ddropped, const float *probs, float scale, int B, int H,
                                    int T, dropout_t drop, cudaStream_t stream);

/* Softmax and cross-entropy in one pass, in place: losses[N] = -log softmax(logits)[target]; if `gradient`, logits[N,V]
 * becomes its own gradient times `scale` (1/N for the mean), else it is left as it is. */
cudaError_t cross_entropy(float *logits, float *losses, const int *targets, int N, int V, float scale, int gradient,
                          cudaStream_t stream);

/* result[0] += scale * sum of x[n] (`accumulate` as ever), one block, fixed order. */
cudaError_t sum(float *result, const float *x, size_t n, float scale, int accumulate, cudaStream_t stream);

/* partials[sum_squares_partials(n)] = partial sums of squares of x[n], to be added up by gradient_scale. */
size_t sum_squares_partials(size_t n);
cudaError_t sum_squares(float *partials, const float *x, size_t n, cudaStream_t stream);

/* result[0] = gradient norm sqrt(sum of partials[n]); result[1] = min(1, clip/norm), or 1 if clip is 0. Stays on the
 * device: adamw reads result[1] there, so that clipping costs no synchronisation. */
cudaError_t gradient_scale(float *result, const float *partials, size_t n, float clip, cudaStream_t stream);

/* One step of AdamW (Loshchilov, Hutter, arXiv:1711.05101) on parameter[n], moments m[n], v[n]; gradient[n] is multiplied by
 * scale[0] first (device memory, see gradient_scale). The first `decayed` elements are decayed.
 * step counts from 1 (bias correction). */
typedef struct adamw {
    float learning_rate, beta1, beta2, eps, weight_decay;
    int step;
} adamw_t;
cudaError_t adamw(float *parameter, float *m, float *v, const float *gradient, size_t n, size_t decayed,
                  const float *scale, adamw_t options, cudaStream_t stream);

#ifdef __cplusplus
}
#endif
#endif
