#include "linear.h"

#include "check.h"

static const float one = 1.0f, zero = 0.0f;

void linear_forward(gpu_t *gpu, linear_t s, float *y, const float *x, const float *w)
{
    BLAS(cublasSgemm(gpu->blas, CUBLAS_OP_T, CUBLAS_OP_N, s.out, s.rows, s.in, &one, w, s.in, x, s.in, &zero,
                     y, s.out));
}

void linear_backward_input(gpu_t *gpu, linear_t s, float *dx, const float *dy, const float *w)
{
    BLAS(cublasSgemm(gpu->blas, CUBLAS_OP_N, CUBLAS_OP_N, s.in, s.rows, s.out, &one, w, s.in, dy, s.out,
                     &zero, dx, s.in));
}

void linear_backward_weight(gpu_t *gpu, linear_t s, float *dw, const float *dy, const float *x,
                            int accumulate)
{
    BLAS(cublasSgemm(gpu->blas, CUBLAS_OP_N, CUBLAS_OP_T, s.in, s.out, s.rows, &one, x, s.in, dy, s.out,
                     accumulate ? &one : &zero, dw, s.in));
}

void batched_matmul(gpu_t *gpu, batched_t s, float *c, const float *a, const float *b)
{
    int leading_a = s.transpose_a ? s.M : s.K;
    int leading_b = s.transpose_b ? s.K : s.N;
    long long stride_a = (long long)s.M * s.K, stride_b = (long long)s.K * s.N,
              stride_c = (long long)s.M * s.N;
    BLAS(cublasSgemmStridedBatched(
        gpu->blas, s.transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N, s.transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N, s.N,
        s.M, s.K, &one, b, leading_b, stride_b, a, leading_a, stride_a, &zero, c, s.N, stride_c, s.batch));
}
