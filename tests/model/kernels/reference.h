/* reference.h: what model/kernels/kernels.h promises, in double precision and plain loops, for tests.
 *
 * As there: B sequences of T tokens, N = B*T rows of C channels, H heads of D channels, V classes; row-major.
 * Gradients of parameters are added to what is there, gradients of activations overwrite it.
 */
#ifndef EBB_TESTS_REFERENCE_H
#define EBB_TESTS_REFERENCE_H

#include <stddef.h>
#include <stdint.h>

typedef struct reference_dropout {
    double rate;
    uint64_t seed, offset;
} reference_dropout_t;

/* Philox4x32-10 (Salmon et al., SC 2011). */
void reference_philox(uint32_t words[4], const uint32_t counter[4], const uint32_t key[2]);

/* The factor of element i: 0 or 1/(1 - rate). */
double reference_keep(reference_dropout_t drop, size_t i);

/* x[N,C] = dropout(wte[tokens[n], :] + wpe[n % T, :]) */
void reference_embedding_forward(double *x, const int *tokens, const double *wte, const double *wpe, int B,
                                 int T, int C, reference_dropout_t drop);
void reference_embedding_backward(double *dwte, double *dwpe, const double *dx, const int *tokens, int B,
                                  int T, int C, reference_dropout_t drop);

/* out[N,C], mean[N], rstd[N] */
void reference_layernorm_forward(double *out, double *mean, double *rstd, const double *x,
                                 const double *gamma, const double *beta, int N, int C);
void reference_layernorm_backward(double *dx, double *dgamma, double *dbeta, const double *dout,
                                  const double *x, const double *gamma, int N, int C);

/* out[N,C] = x * rstd * gamma, rstd[N] = 1/sqrt(mean of x^2 + eps) */
void reference_rmsnorm_forward(double *out, double *rstd, const double *x, const double *gamma, double eps,
                               int N, int C);
void reference_rmsnorm_backward(double *dx, double *dgamma, const double *dout, const double *x,
                                const double *gamma, double eps, int N, int C);

/* sum[N,C] = residual + dropout(y + bias) */
void reference_residual_forward(double *sum, const double *residual, const double *y, const double *bias,
                                int N, int C, reference_dropout_t drop);
void reference_residual_backward(double *dy, double *dbias, const double *dsum, int N, int C,
                                 reference_dropout_t drop);

/* out[N,C] = gelu(x + bias) */
void reference_bias_gelu_forward(double *out, const double *x, const double *bias, int N, int C);
void reference_bias_gelu_backward(double *dx, double *dbias, const double *dout, const double *x,
                                  const double *bias, int N, int C);

/* out[N,F] = silu(gate) * up, of x[N,2,F] */
void reference_swiglu_forward(double *out, const double *x, int N, int F);
void reference_swiglu_backward(double *dx, const double *dout, const double *x, int N, int F);

/* out = x[B,T,H+2KV,D] with queries and keys turned by the angles whose cosines and sines are table[T,2,D/2], or by
 * sign = -1 times them. */
void reference_rope(double *out, const double *x, const double *table, int B, int T, int H, int KV, int D,
                    int sign);

/* out[B,T,H,D], lse[B,H,T] of qkv[B,T,H+2KV,D] */
void reference_attention_forward(double *out, double *lse, const double *qkv, int B, int T, int H, int KV,
                                 int D, reference_dropout_t drop);
void reference_attention_backward(double *dqkv, const double *dout, const double *qkv, int B, int T, int H,
                                  int KV, int D, reference_dropout_t drop);

/* probs, dropped[heads,T,T] */
void reference_causal_softmax_forward(double *probs, double *dropped, const double *scores, double scale,
                                      int heads, int T, reference_dropout_t drop);
void reference_causal_softmax_backward(double *dscores, const double *ddropped, const double *scores,
                                       double scale, int heads, int T, reference_dropout_t drop);

/* losses[N], gradient[N,V] (of the sum of losses) */
void reference_cross_entropy(double *losses, double *gradient, const double *logits, const int *targets,
                             int N, int V);

typedef struct reference_adamw {
    double learning_rate, beta1, beta2, eps, weight_decay;
    int step;
} reference_adamw_t;
void reference_adamw(double *parameter, double *m, double *v, const double *gradient, size_t n,
                     size_t decayed, double scale, reference_adamw_t options);

#endif
