/* sgemm.c: cublasSgemm and cublasSgemmStridedBatched, with 32- and 64-bit sizes. */
#include "context.h"
#include "sgemm.h"

#include <limits.h>
#include <stdlib.h>

/* A call as the program makes it, whatever its sizes' type. */
typedef struct sgemm_call {
    cublasOperation_t transpose_a, transpose_b;
    const float *alpha, *a, *b, *beta;
    float *c;
    sgemm_shape_t shape;
    int64_t batch;
} sgemm_call_t;

static int is_operation(cublasOperation_t op)
{
    return op == CUBLAS_OP_N || op == CUBLAS_OP_T || op == CUBLAS_OP_C;
}

static int64_t at_least_1(int64_t n)
{
    return n > 1 ? n : 1;
}

static cublasStatus_t check(const sgemm_call_t *call)
{
    const sgemm_shape_t *s = &call->shape;
    if (!is_operation(call->transpose_a) || !is_operation(call->transpose_b))
        return CUBLAS_STATUS_INVALID_VALUE;
    if (s->m < 0 || s->n < 0 || s->k < 0 || call->batch < 0)
        return CUBLAS_STATUS_INVALID_VALUE;
    if (s->lda < at_least_1(call->transpose_a == CUBLAS_OP_N ? s->m : s->k) ||
        s->ldb < at_least_1(call->transpose_b == CUBLAS_OP_N ? s->k : s->n) || s->ldc < at_least_1(s->m))
        return CUBLAS_STATUS_INVALID_VALUE;
    if (!call->alpha || !call->beta)
        return CUBLAS_STATUS_INVALID_VALUE;
    if (s->m == 0 || s->n == 0 || call->batch == 0)
        return CUBLAS_STATUS_SUCCESS;
    if (!call->c || (s->k > 0 && (!call->a || !call->b)))
        return CUBLAS_STATUS_INVALID_VALUE;
    /* A tile is one call with 32-bit sizes. */
    if (s->k > INT_MAX || s->lda > INT_MAX || s->ldb > INT_MAX || s->ldc > INT_MAX)
        return CUBLAS_STATUS_NOT_SUPPORTED;
    return CUBLAS_STATUS_SUCCESS;
}

/* The largest grid that the hardware takes has 65535 blocks in y and z. */
static int fits_grid(const uint64_t grid[3])
{
    return grid[0] <= INT_MAX && grid[1] <= 65535 && grid[2] <= 65535;
}

static cublasStatus_t launch(cublasHandle_t handle, sgemm_call_t *call)
{
    sgemm_shape_t *s = &call->shape;
    s->transpose_a = call->transpose_a != CUBLAS_OP_N;
    s->transpose_b = call->transpose_b != CUBLAS_OP_N;
    sgemm_choose_tile(s, call->batch);
    const uint64_t blocks[3] = {(uint64_t)((s->m + s->tile_m - 1) / s->tile_m),
                                (uint64_t)((s->n + s->tile_n - 1) / s->tile_n), (uint64_t)call->batch};
    if (!fits_grid(blocks))
        return CUBLAS_STATUS_NOT_SUPPORTED;
    const uint32_t grid[3] = {(uint32_t)blocks[0], (uint32_t)blocks[1], (uint32_t)blocks[2]};

    float alpha, beta;
    void *arguments[] = {&call->a, &call->b, &call->c, &call->alpha, &call->beta, s};
    if (handle->pointer_mode == CUBLAS_POINTER_MODE_DEVICE)
        return blas_launch(handle, BLAS_SGEMM_DEVICE_SCALARS, grid, arguments);
    alpha = *call->alpha;
    beta = *call->beta;
    if (beta == 1 && (alpha == 0 || s->k == 0))
        return CUBLAS_STATUS_SUCCESS;
    arguments[3] = &alpha;
    arguments[4] = &beta;
    return blas_launch(handle, BLAS_SGEMM, grid, arguments);
}

static cublasStatus_t sgemm(cublasHandle_t handle, sgemm_call_t call)
{
    if (!blas_is_handle(handle))
        return CUBLAS_STATUS_NOT_INITIALIZED;
    cublasStatus_t status = check(&call);
    if (status != CUBLAS_STATUS_SUCCESS || call.shape.m == 0 || call.shape.n == 0 || call.batch == 0)
        return status;
    return launch(handle, &call);
}

/* Defines cublasSgemm and its strided-batched form for one type of sizes. */
#define DEFINE_SGEMM(plain, batched, size)                                                                   \
    cublasStatus_t plain(cublasHandle_t handle, cublasOperation_t transa, cublasOperation_t transb, size m,  \
                         size n, size k, const float *alpha, const float *A, size lda, const float *B,       \
                         size ldb, const float *beta, float *C, size ldc)                                    \
    {                                                                                                        \
        return sgemm(handle, (sgemm_call_t){                                                                 \
                                 .transpose_a = transa,                                                      \
                                 .transpose_b = transb,                                                      \
                                 .alpha = alpha,                                                             \
                                 .a = A,                                                                     \
                                 .b = B,                                                                     \
                                 .beta = beta,                                                               \
                                 .c = C,                                                                     \
                                 .shape = {.m = m, .n = n, .k = k, .lda = lda, .ldb = ldb, .ldc = ldc},      \
                                 .batch = 1,                                                                 \
                             });                                                                             \
    }                                                                                                        \
    cublasStatus_t batched(cublasHandle_t handle, cublasOperation_t transa, cublasOperation_t transb,        \
                           size m, size n, size k, const float *alpha, const float *A, size lda,             \
                           long long int stride_a, const float *B, size ldb, long long int stride_b,         \
                           const float *beta, float *C, size ldc, long long int stride_c, size count)        \
    {                                                                                                        \
        return sgemm(handle, (sgemm_call_t){                                                                 \
                                 .transpose_a = transa,                                                      \
                                 .transpose_b = transb,                                                      \
                                 .alpha = alpha,                                                             \
                                 .a = A,                                                                     \
                                 .b = B,                                                                     \
                                 .beta = beta,                                                               \
                                 .c = C,                                                                     \
                                 .shape = {.m = m,                                                           \
                                           .n = n,                                                           \
                                           .k = k,                                                           \
                                           .lda = lda,                                                       \
                                           .ldb = ldb,                                                       \
                                           .ldc = ldc,                                                       \
                                           .stride_a = stride_a,                                             \
                                           .stride_b = stride_b,                                             \
                                           .stride_c = stride_c},                                            \
                                 .batch = count,                                                             \
                             });                                                                             \
    }

DEFINE_SGEMM(cublasSgemm_v2, cublasSgemmStridedBatched, int)
DEFINE_SGEMM(cublasSgemm_v2_64, cublasSgemmStridedBatched_64, int64_t)
