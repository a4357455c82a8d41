/* internal.h: what a cublasHandle_t points to, and a product as a program asks for it.
 *
 * Threads: a handle belongs to one thread at a time, as in cuBLAS.
 */
#ifndef SOFTGPU_CUBLAS_INTERNAL_H
#define SOFTGPU_CUBLAS_INTERNAL_H

#include "softgpu/blas/device.h"
#include "softgpu/blas/gemm.h"

struct cublasContext {
    blas_context_t base; /* first: see there */
    CUstream stream;
    cublasPointerMode_t pointer_mode;
    cublasAtomicsMode_t atomics_mode;
    cublasMath_t math_mode;
    int sm_count_target;
    CUdeviceptr result; /* owned: 16 bytes for a result that goes to the host; 0 until first needed */
};

static inline int blas_is_handle(cublasHandle_t handle)
{
    return handle && handle->base.magic == BLAS_MAGIC;
}

/* ---- gemm.c ---- */

/* Whatever function is called, and its sizes' type. */
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
