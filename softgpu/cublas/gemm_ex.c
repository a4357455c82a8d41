/* gemm_ex.c: cublasGemmEx and its batched forms, and cublasSgemmEx, with 32- and 64-bit sizes. */
#include "softgpu/cublas/internal.h"

static int is_algorithm(cublasGemmAlgo_t algo)
{
    return (algo >= CUBLAS_GEMM_DEFAULT && algo <= CUBLAS_GEMM_ALGO23) ||
           (algo >= CUBLAS_GEMM_DEFAULT_TENSOR_OP && algo <= CUBLAS_GEMM_ALGO15_TENSOR_OP) ||
           algo == CUBLAS_GEMM_AUTOTUNE;
}

/* All algorithms are the same here, as they may be on a GPU where tensor cores choose for themselves. */
static cublasStatus_t multiply(cublasHandle_t handle, const blas_product_t *p, cublasGemmAlgo_t algo)
{
    if (blas_is_handle(handle) && !is_algorithm(algo))
        return CUBLAS_STATUS_INVALID_VALUE;
    return blas_multiply(handle, p);
}

#define DEFINE_EX(plain, strided, batched, single, size)                                                     \
    cublasStatus_t plain(cublasHandle_t handle, cublasOperation_t transa, cublasOperation_t transb, size m,  \
                         size n, size k, const void *alpha, const void *A, cudaDataType Atype, size lda,     \
                         const void *B, cudaDataType Btype, size ldb, const void *beta, void *C,             \
                         cudaDataType Ctype, size ldc, cublasComputeType_t compute, cublasGemmAlgo_t algo)   \
    {                                                                                                        \
        const blas_product_t p = BLAS_PRODUCT(1, Atype, Btype, Ctype, compute);                              \
        return multiply(handle, &p, algo);                                                                   \
    }                                                                                                        \
    cublasStatus_t strided(cublasHandle_t handle, cublasOperation_t transa, cublasOperation_t transb,        \
                           size m, size n, size k, const void *alpha, const void *A, cudaDataType Atype,     \
                           size lda, long long int strideA, const void *B, cudaDataType Btype, size ldb,     \
                           long long int strideB, const void *beta, void *C, cudaDataType Ctype, size ldc,   \
                           long long int strideC, size batch, cublasComputeType_t compute,                   \
                           cublasGemmAlgo_t algo)                                                            \
    {                                                                                                        \
        blas_product_t p = BLAS_PRODUCT(batch, Atype, Btype, Ctype, compute);                                \
        BLAS_STRIDES(p);                                                                                     \
        return multiply(handle, &p, algo);                                                                   \
    }                                                                                                        \
    cublasStatus_t batched(cublasHandle_t handle, cublasOperation_t transa, cublasOperation_t transb,        \
                           size m, size n, size k, const void *alpha, const void *const A[],                 \
                           cudaDataType Atype, size lda, const void *const B[], cudaDataType Btype,          \
                           size ldb, const void *beta, void *const C[], cudaDataType Ctype, size ldc,        \
                           size batch, cublasComputeType_t compute, cublasGemmAlgo_t algo)                   \
    {                                                                                                        \
        blas_product_t p = BLAS_PRODUCT(batch, Atype, Btype, Ctype, compute);                                \
        p.tables = 1;                                                                                        \
        return multiply(handle, &p, algo);                                                                   \
    }                                                                                                        \
    cublasStatus_t single(cublasHandle_t handle, cublasOperation_t transa, cublasOperation_t transb, size m, \
                          size n, size k, const float *alpha, const void *A, cudaDataType Atype, size lda,   \
                          const void *B, cudaDataType Btype, size ldb, const float *beta, void *C,           \
                          cudaDataType Ctype, size ldc)                                                      \
    {                                                                                                        \
        const blas_product_t p = BLAS_PRODUCT(1, Atype, Btype, Ctype, CUBLAS_COMPUTE_32F);                   \
        return blas_multiply(handle, &p);                                                                    \
    }

/* clang-format off */
DEFINE_EX(cublasGemmEx, cublasGemmStridedBatchedEx, cublasGemmBatchedEx, cublasSgemmEx, int)
DEFINE_EX(cublasGemmEx_64, cublasGemmStridedBatchedEx_64, cublasGemmBatchedEx_64, cublasSgemmEx_64, int64_t)
/* clang-format on */
