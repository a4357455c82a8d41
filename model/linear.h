/* linear.h: matrix products by cuBLAS, in row-major terms.
 *
 * cuBLAS is column-major: a row-major matrix [R,S] is the column-major matrix [S,R] with leading dimension S,
 * so each function asks for the transposed product. Nothing here allocates; the work is ordered on
 * gpu->stream.
 */
#ifndef EBB_MODEL_LINEAR_H
#define EBB_MODEL_LINEAR_H

#include "gpu.h"

/* A layer y[rows,out] = x[rows,in] w[out,in]^T. */
typedef struct linear {
    int rows, in, out;
} linear_t;

void linear_forward(gpu_t *gpu, linear_t shape, float *y, const float *x, const float *w);
/* dx[rows,in] = dy[rows,out] w[out,in] */
void linear_backward_input(gpu_t *gpu, linear_t shape, float *dx, const float *dy, const float *w);
/* dw[out,in] = dy[rows,out]^T x[rows,in], added to dw if `accumulate` */
void linear_backward_weight(gpu_t *gpu, linear_t shape, float *dw, const float *dy, const float *x,
                            int accumulate);

/* c[batch,M,N] = op(a) op(b) for each of `batch` dense matrices, op(a) [M,K], op(b) [K,N]; a matrix that is
 * transposed is stored as [K,M] or [N,K]. */
typedef struct batched {
    int batch, M, N, K;
    int transpose_a, transpose_b;
} batched_t;

void batched_matmul(gpu_t *gpu, batched_t shape, float *c, const float *a, const float *b);

#endif
