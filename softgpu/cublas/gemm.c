/* gemm.c: cublas<t>gemm for float and double, plain, batched and strided-batched, with 32- and 64-bit sizes. */
#include "softgpu/cublas/internal.h"

#include <limits.h>

static int is_operation(cublasOperation_t op)
{
    return op == CUBLAS_OP_N || op == CUBLAS_OP_T || op == CUBLAS_OP_C;
}

static int64_t at_least_1(int64_t n)
{
    return n > 1 ? n : 1;
}

static cublasStatus_t check(const blas_product_t *p)
{
    if (!is_operation(p->transa) || !is_operation(p->transb) || p->m < 0 || p->n < 0 || p->k < 0 ||
        p->batch < 0)
        return CUBLAS_STATUS_INVALID_VALUE;
    if (p->lda < at_least_1(p->transa == CUBLAS_OP_N ? p->m : p->k) ||
        p->ldb < at_least_1(p->transb == CUBLAS_OP_N ? p->k : p->n) || p->ldc < at_least_1(p->m))
        return CUBLAS_STATUS_INVALID_VALUE;
    if (!p->alpha || !p->beta)
        return CUBLAS_STATUS_INVALID_VALUE;
    if (p->m == 0 || p->n == 0 || p->batch == 0)
        return CUBLAS_STATUS_SUCCESS;
    if (!p->c || (p->k > 0 && (!p->a || !p->b)))
        return CUBLAS_STATUS_INVALID_VALUE;
    return CUBLAS_STATUS_SUCCESS;
}

/* What a program asks of fp32 products by its mode of computing. */
static cublasComputeType_t fp32_compute(cublasHandle_t handle)
{
    switch (handle->math_mode & 15) {
    case CUBLAS_TENSOR_OP_MATH:
        return CUBLAS_COMPUTE_32F_FAST_16F;
    case CUBLAS_TF32_TENSOR_OP_MATH:
        return CUBLAS_COMPUTE_32F_FAST_TF32;
    default:
        return CUBLAS_COMPUTE_32F;
    }
}

cublasStatus_t blas_multiply(cublasHandle_t handle, const blas_product_t *p)
{
    gemm_call_t call = {.m = p->m,
                        .n = p->n,
                        .k = p->k,
                        .batch = p->batch,
                        .transpose_a = p->transa != CUBLAS_OP_N,
                        .transpose_b = p->transb != CUBLAS_OP_N,
                        .a = {p->a, p->lda, p->stride_a, p->type_a},
                        .b = {p->b, p->ldb, p->stride_b, p->type_b},
                        .c = {p->c, p->ldc, p->stride_c, p->type_c},
                        .d = {p->c, p->ldc, p->stride_c, p->type_c},
                        .tables = p->tables};
    if (!blas_is_handle(handle))
        return CUBLAS_STATUS_NOT_INITIALIZED;
    cublasStatus_t status = check(p);
    if (status != CUBLAS_STATUS_SUCCESS)
        return status;
    const cublasComputeType_t compute =
        p->compute == BLAS_COMPUTE_BY_MODE ? fp32_compute(handle) : p->compute;
    if (!gemm_types_supported(compute, p->type_a, p->type_b, p->type_c, &call.arithmetic))
        return CUBLAS_STATUS_NOT_SUPPORTED;
    const int is_double = p->type_c == CUDA_R_64F;
    if (handle->pointer_mode == CUBLAS_POINTER_MODE_DEVICE) {
        call.device_alpha = p->alpha;
        call.device_beta = p->beta;
    } else {
        call.alpha = is_double ? *(const double *)p->alpha : (double)*(const float *)p->alpha;
        call.beta = is_double ? *(const double *)p->beta : (double)*(const float *)p->beta;
    }
    return gemm_launch(&handle->base, handle->stream, &call);
}

/* Defines the three forms for one type of elements and one of sizes. */
#define DEFINE_GEMM(plain, strided, batched, number, cuda_type, how, size)                                   \
    cublasStatus_t plain(cublasHandle_t handle, cublasOperation_t transa, cublasOperation_t transb, size m,  \
                         size n, size k, const number *alpha, const number *A, size lda, const number *B,    \
                         size ldb, const number *beta, number *C, size ldc)                                  \
    {                                                                                                        \
        blas_product_t p = BLAS_PRODUCT(1, cuda_type, cuda_type, cuda_type, how);                            \
        return blas_multiply(handle, &p);                                                                    \
    }                                                                                                        \
    cublasStatus_t strided(cublasHandle_t handle, cublasOperation_t transa, cublasOperation_t transb,        \
                           size m, size n, size k, const number *alpha, const number *A, size lda,           \
                           long long int strideA, const number *B, size ldb, long long int strideB,          \
                           const number *beta, number *C, size ldc, long long int strideC, size batch)       \
    {                                                                                                        \
        blas_product_t p = BLAS_PRODUCT(batch, cuda_type, cuda_type, cuda_type, how);                        \
        BLAS_STRIDES(p);                                                                                     \
        return blas_multiply(handle, &p);                                                                    \
    }                                                                                                        \
    cublasStatus_t batched(cublasHandle_t handle, cublasOperation_t transa, cublasOperation_t transb,        \
                           size m, size n, size k, const number *alpha, const number *const A[], size lda,   \
                           const number *const B[], size ldb, const number *beta, number *const C[],         \
                           size ldc, size batch)                                                             \
    {                                                                                                        \
        blas_product_t p = BLAS_PRODUCT(batch, cuda_type, cuda_type, cuda_type, how);                        \
        p.tables = 1;                                                                                        \
        return blas_multiply(handle, &p);                                                                    \
    }

/* clang-format off */
DEFINE_GEMM(cublasSgemm_v2, cublasSgemmStridedBatched, cublasSgemmBatched, float, CUDA_R_32F,
            BLAS_COMPUTE_BY_MODE, int)
DEFINE_GEMM(cublasSgemm_v2_64, cublasSgemmStridedBatched_64, cublasSgemmBatched_64, float, CUDA_R_32F,
            BLAS_COMPUTE_BY_MODE, int64_t)
DEFINE_GEMM(cublasDgemm_v2, cublasDgemmStridedBatched, cublasDgemmBatched, double, CUDA_R_64F,
            CUBLAS_COMPUTE_64F, int)
DEFINE_GEMM(cublasDgemm_v2_64, cublasDgemmStridedBatched_64, cublasDgemmBatched_64, double, CUDA_R_64F,
            CUBLAS_COMPUTE_64F, int64_t)
/* clang-format on */
