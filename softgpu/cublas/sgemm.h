/* sgemm.h: one matrix product, as it goes from the API (sgemm.c) to the kernel (sgemm_kernel.c).
 * Column-major, as BLAS. */
#ifndef SOFTGPU_CUBLAS_SGEMM_H
#define SOFTGPU_CUBLAS_SGEMM_H

#include <stdint.h>

/* C[m,n] = alpha * op(A)[m,k] * op(B)[k,n] + beta * C, for `batch` products whose operands lie stride_*
 * elements apart. */
typedef struct sgemm_shape {
    int64_t m, n, k;
    int64_t lda, ldb, ldc;
    int64_t stride_a, stride_b, stride_c;
    int64_t tile_m, tile_n; /* the part of C that a block computes */
    int64_t transpose_a, transpose_b;
} sgemm_shape_t;

/* The argument blocks of the two kernels: alpha and beta as values, or where to find them on the device. */
typedef struct sgemm_arguments {
    const float *a, *b;
    float *c;
    float alpha, beta;
    sgemm_shape_t shape;
} sgemm_arguments_t;

typedef struct sgemm_device_arguments {
    const float *a, *b;
    float *c;
    const float *alpha, *beta;
    sgemm_shape_t shape;
} sgemm_device_arguments_t;

/* Chooses shape->tile_m and tile_n from m, n, k and the number of products, and from nothing else: bits must
 * not depend on who computes a tile. */
void sgemm_choose_tile(sgemm_shape_t *shape, int64_t batch);

/* Called by a worker before it calls OpenBLAS (openblas.c). */
void blas_prepare_thread(void);

#endif
