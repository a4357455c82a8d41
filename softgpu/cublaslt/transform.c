/* transform.c: cublasLtMatrixTransform, C = alpha op(A) + beta op(B) between types and orders. */
#include "softgpu/blas/element.h"
#include "softgpu/blas/vector.h"
#include "softgpu/cublaslt/lt.h"

#include <limits.h>

static int is_usable(const lt_layout_t *l)
{
    return l->order >= CUBLASLT_ORDER_COL && l->order <= CUBLASLT_ORDER_ROW && !l->plane_offset &&
           l->batch_mode == CUBLASLT_BATCH_MODE_STRIDED && element_is_small_float((int32_t)l->type) &&
           l->rows <= INT_MAX && l->columns <= INT_MAX;
}

static int is_valid(const lt_layout_t *l)
{
    const uint64_t line = l->order == CUBLASLT_ORDER_ROW ? l->columns : l->rows;
    return l->batch_count >= 1 && l->ld >= 1 && (uint64_t)l->ld >= line;
}

/* An operand against C: op(operand) has C's size, and as many products. */
static cublasStatus_t check_operand(const lt_layout_t *l, int op, const lt_layout_t *c)
{
    if (op < CUBLAS_OP_N || op > CUBLAS_OP_C || !is_valid(l))
        return CUBLAS_STATUS_INVALID_VALUE;
    if (!is_usable(l))
        return CUBLAS_STATUS_NOT_SUPPORTED;
    const uint64_t rows = op == CUBLAS_OP_N ? l->rows : l->columns,
                   columns = op == CUBLAS_OP_N ? l->columns : l->rows;
    return rows == c->rows && columns == c->columns && l->batch_count == c->batch_count
               ? CUBLAS_STATUS_SUCCESS
               : CUBLAS_STATUS_INVALID_VALUE;
}

/* In column-major terms an operand is transposed if exactly one, or all three, of these hold. */
static int is_transposed(int op, const lt_layout_t *l, const lt_layout_t *c)
{
    return (op != CUBLAS_OP_N) ^ (l->order == CUBLASLT_ORDER_ROW) ^ (c->order == CUBLASLT_ORDER_ROW);
}

static cublasStatus_t set_scalar(const lt_transform_t *t, const void *scalar, float *value,
                                 const float **device)
{
    if (!scalar)
        return CUBLAS_STATUS_INVALID_VALUE;
    if (t->pointer_mode == CUBLASLT_POINTER_MODE_DEVICE)
        *device = scalar;
    else
        *value = *(const float *)scalar;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatrixTransform(cublasLtHandle_t handle, cublasLtMatrixTransformDesc_t transform,
                                       const void *alpha, const void *A, cublasLtMatrixLayout_t a_layout,
                                       const void *beta, const void *B, cublasLtMatrixLayout_t b_layout,
                                       void *C, cublasLtMatrixLayout_t c_layout, cudaStream_t stream)
{
    const lt_transform_t *t = (void *)transform;
    const lt_layout_t *a = (void *)a_layout, *b = (void *)b_layout, *c = (void *)c_layout;
    cublasStatus_t status = CUBLAS_STATUS_SUCCESS;
    if (!lt_context(handle))
        return CUBLAS_STATUS_NOT_INITIALIZED;
    if (!t || !c || !C || (A && !a) || (B && !b) || !is_valid(c))
        return CUBLAS_STATUS_INVALID_VALUE;
    if (t->scale_type != CUDA_R_32F || t->pointer_mode > CUBLASLT_POINTER_MODE_DEVICE || !is_usable(c))
        return CUBLAS_STATUS_NOT_SUPPORTED;
    const int rows_first = c->order == CUBLASLT_ORDER_ROW;
    geam_arguments_t p = {.a = A,
                          .b = B,
                          .c = C,
                          .shape = {.m = (int64_t)(rows_first ? c->columns : c->rows),
                                    .n = (int64_t)(rows_first ? c->rows : c->columns),
                                    .batch = c->batch_count,
                                    .ldc = c->ld,
                                    .stride_c = c->stride,
                                    .type_c = (int32_t)c->type}};
    if (A && (status = check_operand(a, t->transa, c)) == CUBLAS_STATUS_SUCCESS) {
        p.shape.lda = a->ld;
        p.shape.stride_a = a->stride;
        p.shape.type_a = (int32_t)a->type;
        p.shape.transpose_a = is_transposed(t->transa, a, c);
        status = set_scalar(t, alpha, &p.shape.alpha, &p.device_alpha);
    }
    if (B && status == CUBLAS_STATUS_SUCCESS &&
        (status = check_operand(b, t->transb, c)) == CUBLAS_STATUS_SUCCESS) {
        p.shape.ldb = b->ld;
        p.shape.stride_b = b->stride;
        p.shape.type_b = (int32_t)b->type;
        p.shape.transpose_b = is_transposed(t->transb, b, c);
        status = set_scalar(t, beta, &p.shape.beta, &p.device_beta);
    }
    if (status != CUBLAS_STATUS_SUCCESS || p.shape.m == 0 || p.shape.n == 0)
        return status;
    void *arguments[] = {&p.a, &p.b, &p.c, &p.device_alpha, &p.device_beta, &p.shape};
    return blas_launch(lt_context(handle), stream, BLAS_GEAM, geam_block_count(&p.shape), arguments);
}
