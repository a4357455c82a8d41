/* geam.c: cublasSgeam. */
#include "softgpu/blas/vector.h"
#include "softgpu/cublas/internal.h"

typedef struct sum {
    cublasOperation_t transa, transb;
    const float *alpha, *beta, *a, *b;
    float *c;
    struct geam_shape shape;
} sum_t;

static int is_operation(cublasOperation_t op)
{
    return op == CUBLAS_OP_N || op == CUBLAS_OP_T || op == CUBLAS_OP_C;
}

/* In place, an operand must be C itself, and an element may only depend on itself. */
static int may_be_c(const void *operand, int64_t ld, cublasOperation_t op, const sum_t *s)
{
    return operand != s->c || (op == CUBLAS_OP_N && ld == s->shape.ldc);
}

static int is_valid(const sum_t *s)
{
    const struct geam_shape *g = &s->shape;
    if (!is_operation(s->transa) || !is_operation(s->transb) || g->m < 0 || g->n < 0 || !s->alpha || !s->beta)
        return 0;
    const int64_t rows_a = s->transa == CUBLAS_OP_N ? g->m : g->n,
                  rows_b = s->transb == CUBLAS_OP_N ? g->m : g->n;
    if (g->lda < 1 || g->lda < rows_a || g->ldb < 1 || g->ldb < rows_b || g->ldc < 1 || g->ldc < g->m)
        return 0;
    if (g->m == 0 || g->n == 0)
        return 1;
    return s->c && may_be_c(s->a, g->lda, s->transa, s) && may_be_c(s->b, g->ldb, s->transb, s);
}

static cublasStatus_t add(cublasHandle_t handle, sum_t *s)
{
    if (!blas_is_handle(handle))
        return CUBLAS_STATUS_NOT_INITIALIZED;
    if (!is_valid(s))
        return CUBLAS_STATUS_INVALID_VALUE;
    geam_arguments_t p = {.a = s->a, .b = s->b, .c = s->c, .shape = s->shape};
    if (handle->pointer_mode == CUBLAS_POINTER_MODE_DEVICE) {
        p.device_alpha = s->alpha;
        p.device_beta = s->beta;
    } else {
        p.shape.alpha = *s->alpha;
        p.shape.beta = *s->beta;
    }
    const int reads_a = p.device_alpha || p.shape.alpha != 0, reads_b = p.device_beta || p.shape.beta != 0;
    if (p.shape.m == 0 || p.shape.n == 0)
        return CUBLAS_STATUS_SUCCESS;
    if ((reads_a && !p.a) || (reads_b && !p.b))
        return CUBLAS_STATUS_INVALID_VALUE;
    p.shape.batch = 1;
    p.shape.transpose_a = s->transa != CUBLAS_OP_N;
    p.shape.transpose_b = s->transb != CUBLAS_OP_N;
    p.shape.type_a = p.shape.type_b = p.shape.type_c = CUDA_R_32F;
    void *arguments[] = {&p.a, &p.b, &p.c, &p.device_alpha, &p.device_beta, &p.shape};
    return blas_launch(&handle->base, handle->stream, BLAS_GEAM, geam_block_count(&p.shape), arguments);
}

#define DEFINE_GEAM(name, size)                                                                              \
    cublasStatus_t name(cublasHandle_t handle, cublasOperation_t transa, cublasOperation_t transb, size m,   \
                        size n, const float *alpha, const float *A, size lda, const float *beta,             \
                        const float *B, size ldb, float *C, size ldc)                                        \
    {                                                                                                        \
        sum_t s = {.transa = transa,                                                                         \
                   .transb = transb,                                                                         \
                   .alpha = alpha,                                                                           \
                   .beta = beta,                                                                             \
                   .a = A,                                                                                   \
                   .b = B,                                                                                   \
                   .c = C,                                                                                   \
                   .shape = {.m = m, .n = n, .lda = lda, .ldb = ldb, .ldc = ldc}};                           \
        return add(handle, &s);                                                                              \
    }

DEFINE_GEAM(cublasSgeam, int)
DEFINE_GEAM(cublasSgeam_64, int64_t)
