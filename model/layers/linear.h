/* linear.h: matrix products by cuBLAS and cuBLASLt, in row-major terms.
 *
 * cuBLAS is column-major: a row-major matrix [R,S] is the column-major matrix [S,R] with leading dimension S,
 * so each function asks for the transposed product. The work is ordered on gpu->stream.
 *
 * Types. Matrices have the run's type, gradients of weights and biases are fp32; sums are in fp32. fp32 goes through
 * cublasSgemm, without epilogues: they would save traffic that a GPU does not feel in fp32 arithmetic. BF16 goes through
 * cuBLASLt with what follows a product fused into it. Which algorithm computes a shape is asked once and kept, so that
 * all steps of a run use the same one.
 */
#ifndef EBB_MODEL_LINEAR_H
#define EBB_MODEL_LINEAR_H

#include "model/base/gpu.h"

/* A layer y[rows,out] = x[rows,in] w[out,in]^T. */
typedef struct linear {
    int rows, in, out;
} linear_t;

/* BF16's products may use so much scratch memory, allocated at once; 0: none. linear_close frees it and what was kept. */
void linear_open(gpu_t *gpu, size_t workspace_bytes);
void linear_close(gpu_t *gpu);

/* y = x w^T + bias, bias[out] or NULL. */
void linear_forward(gpu_t *gpu, dtype_t dtype, linear_t shape, void *y, const void *x, const void *w,
                    const void *bias);
/* y in fp32, whatever the type of x and w. */
void linear_forward_fp32(gpu_t *gpu, dtype_t dtype, linear_t shape, float *y, const void *x, const void *w);

/* dx[rows,in] = dy[rows,out] w[out,in] */
void linear_backward_input(gpu_t *gpu, dtype_t dtype, linear_t shape, void *dx, const void *dy,
                           const void *w);

/* dw[out,in] = dy[rows,out]^T x[rows,in], added to dw if `accumulate`; dbias[out], unless NULL: so the column sums of dy.
 * dw NULL: the weight is frozen, nothing is done. */
void linear_backward_weight(gpu_t *gpu, dtype_t dtype, linear_t shape, float *dw, float *dbias,
                            const void *dy, const void *x, int accumulate);

/* BF16 only, out (in) a multiple of 8: up = x w^T + bias, act = gelu(up) by tanh; and dup = (dy w) gelu'(up). */
void linear_gelu_forward(gpu_t *gpu, linear_t shape, void *act, void *up, const void *x, const void *w,
                         const void *bias);
void linear_gelu_backward_input(gpu_t *gpu, linear_t shape, void *dup, const void *dy, const void *w,
                                const void *up);

/* c[batch,M,N] = scale op(a) op(b) for each of `batch` matrices, op(a) [M,K], op(b) [K,N], added to c if `accumulate`; a matrix
 * that is transposed is stored as [K,M] or [N,K]. Rows are `leading` elements apart; 0: as many as a row has, and matrices
 * follow one another. a and b have `dtype`, c has `result`. */
typedef struct batched {
    int batch, M, N, K;
    int transpose_a, transpose_b;
    float scale;
    int accumulate;
    int leading_a, leading_b, leading_c; /* with batch 1 */
} batched_t;

void batched_matmul(gpu_t *gpu, dtype_t dtype, dtype_t result, batched_t shape, void *c, const void *a,
                    const void *b);

#endif
