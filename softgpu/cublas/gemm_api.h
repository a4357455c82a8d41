/* gemm_api.h: a product as a program asks cuBLAS for it, whatever function it calls and its sizes' type. */
#ifndef SOFTGPU_CUBLAS_GEMM_API_H
#define SOFTGPU_CUBLAS_GEMM_API_H

#include "softgpu/blas/gemm.h"

typedef struct blas_product {
    cublasOperation_t transa, transb;
    int64_t m, n, k, lda, ldb, ldc;
    int64_t stride_a, stride_b, stride_c, batch;
    const void *alpha, *beta, *a, *b;
    const void *c;
    cudaDataType type_a, type_b, type_c;
    cublasComputeType_t compute;
    int tables;
} blas_product_t;

/* The compute type that the handle's math mode stands for. */
#define BLAS_COMPUTE_BY_MODE ((cublasComputeType_t)0)

/* From the parameters of a cuBLAS function, which all have these names. */
#define BLAS_PRODUCT(count, atype, btype, ctype, how)                                                        \
    {                                                                                                        \
        .transa = transa, .transb = transb, .m = m, .n = n, .k = k, .lda = lda, .ldb = ldb, .ldc = ldc,      \
        .batch = (count), .alpha = alpha, .beta = beta, .a = A, .b = B, .c = C, .type_a = (atype),           \
        .type_b = (btype), .type_c = (ctype), .compute = (how)                                               \
    }
#define BLAS_STRIDES(p)                                                                                      \
    do {                                                                                                     \
        (p).stride_a = strideA;                                                                              \
        (p).stride_b = strideB;                                                                              \
        (p).stride_c = strideC;                                                                              \
    } while (0)

/* Checks everything and launches. */
cublasStatus_t blas_multiply(cublasHandle_t handle, const blas_product_t *p);

#endif
