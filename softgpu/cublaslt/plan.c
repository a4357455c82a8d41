/* plan.c: what an operation and four layouts ask for, as a product that the kernels compute.
 *
 * The kernels are column-major. A row-major matrix is the transpose of a column-major one with the same leading
 * dimension: for A and B that turns their transposition round, for D (C must be like it) it makes of
 * D = op(A) op(B) the product D^T = op(B)^T op(A)^T, rows and columns changing places throughout.
 */
#include "softgpu/blas/element.h"
#include "softgpu/cublaslt/lt.h"

#include <limits.h>

#define SAME(ours, theirs) _Static_assert((int)ours == (int)theirs, #ours)
SAME(GEMM_BIAS, CUBLASLT_EPILOGUE_BIAS);
SAME(GEMM_RELU, CUBLASLT_EPILOGUE_RELU);
SAME(GEMM_GELU, CUBLASLT_EPILOGUE_GELU);
SAME((GEMM_RELU | GEMM_AUX | GEMM_BIAS), CUBLASLT_EPILOGUE_RELU_AUX_BIAS);
SAME((GEMM_GELU | GEMM_AUX | GEMM_BIAS), CUBLASLT_EPILOGUE_GELU_AUX_BIAS);
SAME((GEMM_DRELU | GEMM_AUX | GEMM_BGRAD), CUBLASLT_EPILOGUE_DRELU_BGRAD);
SAME((GEMM_DGELU | GEMM_AUX | GEMM_BGRAD), CUBLASLT_EPILOGUE_DGELU_BGRAD);
SAME(GEMM_BGRADA, CUBLASLT_EPILOGUE_BGRADA);
SAME(GEMM_BGRADB, CUBLASLT_EPILOGUE_BGRADB);

#define TRY(call)                                                                                            \
    do {                                                                                                     \
        cublasStatus_t try_ = (call);                                                                        \
        if (try_ != CUBLAS_STATUS_SUCCESS)                                                                   \
            return try_;                                                                                     \
    } while (0)

static int is_row_major(const lt_layout_t *l)
{
    return l->order == CUBLASLT_ORDER_ROW;
}

static cublasStatus_t check_layout(const lt_layout_t *l)
{
    const uint64_t line = is_row_major(l) ? l->columns : l->rows;
    if (l->order < CUBLASLT_ORDER_COL || l->order > CUBLASLT_ORDER_COL32_2R_4R4 || l->batch_count < 1 ||
        l->batch_mode > CUBLASLT_BATCH_MODE_POINTER_ARRAY)
        return CUBLAS_STATUS_INVALID_VALUE;
    if (l->order > CUBLASLT_ORDER_ROW || l->plane_offset || l->rows > INT_MAX || l->columns > INT_MAX)
        return CUBLAS_STATUS_NOT_SUPPORTED;
    return l->ld < 1 || (uint64_t)l->ld < line ? CUBLAS_STATUS_INVALID_VALUE : CUBLAS_STATUS_SUCCESS;
}

static cublasStatus_t check_operation(const lt_operation_t *o)
{
    if (o->transa < CUBLAS_OP_N || o->transa > CUBLAS_OP_CONJG || o->transb < CUBLAS_OP_N ||
        o->transb > CUBLAS_OP_CONJG || o->pointer_mode < CUBLASLT_POINTER_MODE_HOST ||
        o->pointer_mode > CUBLASLT_POINTER_MODE_ALPHA_DEVICE_VECTOR_BETA_HOST)
        return CUBLAS_STATUS_INVALID_VALUE;
    for (int i = 0; i < 6; i++)
        if (o->scale[i]) /* of 8-bit types, which are not here */
            return CUBLAS_STATUS_INVALID_VALUE;
    if (o->amax_d || o->amax_aux)
        return CUBLAS_STATUS_INVALID_VALUE;
    if (o->transa == CUBLAS_OP_CONJG || o->transb == CUBLAS_OP_CONJG || o->transc != CUBLAS_OP_N ||
        o->fill_mode != CUBLAS_FILL_MODE_FULL || o->pointer_mode > CUBLASLT_POINTER_MODE_DEVICE)
        return CUBLAS_STATUS_NOT_SUPPORTED;
    return CUBLAS_STATUS_SUCCESS;
}

static cublasStatus_t check_types(const lt_operation_t *o, const lt_layouts_t *l, gemm_call_t *call)
{
    const cudaDataType a = (cudaDataType)l->a->type, b = (cudaDataType)l->b->type,
                       d = (cudaDataType)l->d->type;
    if (o->scale_type != CUDA_R_32F || l->c->type != l->d->type || !element_is_small_float((int32_t)d) ||
        !gemm_types_supported((cublasComputeType_t)o->compute_type, a, b, d, &call->arithmetic))
        return CUBLAS_STATUS_NOT_SUPPORTED;
    return CUBLAS_STATUS_SUCCESS;
}

/* Sizes, in the program's own terms; the product's are turned round later if need be. */
static cublasStatus_t check_sizes(const lt_operation_t *o, const lt_layouts_t *l, gemm_call_t *call)
{
    const lt_layout_t *all[] = {l->a, l->b, l->c, l->d};
    const int ta = o->transa != CUBLAS_OP_N, tb = o->transb != CUBLAS_OP_N;
    for (int i = 0; i < 4; i++) {
        TRY(check_layout(all[i]));
        if (all[i]->batch_count != l->d->batch_count || all[i]->batch_mode != l->d->batch_mode)
            return CUBLAS_STATUS_INVALID_VALUE;
    }
    const uint64_t m = ta ? l->a->columns : l->a->rows, k = ta ? l->a->rows : l->a->columns,
                   n = tb ? l->b->rows : l->b->columns, other_k = tb ? l->b->columns : l->b->rows;
    if (k != other_k || l->d->rows != m || l->d->columns != n || l->c->rows != m || l->c->columns != n)
        return CUBLAS_STATUS_INVALID_VALUE;
    if (l->c->order != l->d->order)
        return CUBLAS_STATUS_NOT_SUPPORTED;
    call->m = (int64_t)m;
    call->n = (int64_t)n;
    call->k = (int64_t)k;
    call->batch = l->d->batch_count;
    call->tables = l->d->batch_mode == CUBLASLT_BATCH_MODE_POINTER_ARRAY;
    return CUBLAS_STATUS_SUCCESS;
}

static int is_epilogue(uint32_t epilogue)
{
    static const uint32_t all[] = {
        CUBLASLT_EPILOGUE_DEFAULT,  CUBLASLT_EPILOGUE_RELU,        CUBLASLT_EPILOGUE_RELU_AUX,
        CUBLASLT_EPILOGUE_BIAS,     CUBLASLT_EPILOGUE_RELU_BIAS,   CUBLASLT_EPILOGUE_RELU_AUX_BIAS,
        CUBLASLT_EPILOGUE_DRELU,    CUBLASLT_EPILOGUE_DRELU_BGRAD, CUBLASLT_EPILOGUE_GELU,
        CUBLASLT_EPILOGUE_GELU_AUX, CUBLASLT_EPILOGUE_GELU_BIAS,   CUBLASLT_EPILOGUE_GELU_AUX_BIAS,
        CUBLASLT_EPILOGUE_DGELU,    CUBLASLT_EPILOGUE_DGELU_BGRAD, CUBLASLT_EPILOGUE_BGRADA,
        CUBLASLT_EPILOGUE_BGRADB};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        if (all[i] == epilogue)
            return 1;
    return 0;
}

/* The auxiliary matrix's columns are D's, as they lie in memory. */
static cublasStatus_t check_aux(const lt_operation_t *o, const gemm_call_t *call)
{
    const int unit = o->epilogue & (GEMM_RELU | GEMM_DRELU) ? 128 : 8;
    if (!(o->epilogue & GEMM_AUX))
        return CUBLAS_STATUS_SUCCESS;
    if (o->aux_ld < call->m || o->aux_ld % unit || o->aux_stride % unit)
        return CUBLAS_STATUS_INVALID_VALUE;
    return CUBLAS_STATUS_SUCCESS;
}

static cublasStatus_t plan_epilogue(const lt_operation_t *o, const lt_layouts_t *l, gemm_call_t *call)
{
    const int rows_first = is_row_major(l->d), type = (int)l->d->type;
    if (!is_epilogue(o->epilogue))
        return CUBLAS_STATUS_INVALID_VALUE;
    if ((o->bias_type != -1 && o->bias_type != type) ||
        (o->epilogue & (GEMM_GELU | GEMM_DGELU) && o->aux_type != -1 && o->aux_type != type))
        return CUBLAS_STATUS_NOT_SUPPORTED;
    TRY(check_aux(o, call));
    call->epilogue = o->epilogue == CUBLASLT_EPILOGUE_DEFAULT ? 0 : o->epilogue;
    call->bias = o->bias;
    call->bias_stride = o->bias_stride;
    call->aux = o->aux;
    call->aux_ld = o->aux_ld;
    call->aux_stride = o->aux_stride;
    if (!rows_first)
        return CUBLAS_STATUS_SUCCESS;
    call->bias_by_column = 1;
    if (call->epilogue == GEMM_BGRADA || call->epilogue == GEMM_BGRADB)
        call->epilogue = call->epilogue == GEMM_BGRADA ? GEMM_BGRADB : GEMM_BGRADA;
    return call->epilogue & GEMM_BGRAD ? CUBLAS_STATUS_NOT_SUPPORTED : CUBLAS_STATUS_SUCCESS;
}

static gemm_matrix_t matrix_of(const lt_layout_t *l, const void *data)
{
    return (gemm_matrix_t){data, l->ld, l->stride, (cudaDataType)l->type};
}

void lt_set_operands(const lt_layouts_t *l, const void *a, const void *b, const void *c, void *d,
                     gemm_call_t *call)
{
    const int swap = is_row_major(l->d);
    call->a = swap ? matrix_of(l->b, b) : matrix_of(l->a, a);
    call->b = swap ? matrix_of(l->a, a) : matrix_of(l->b, b);
    call->c = matrix_of(l->c, c);
    call->d = matrix_of(l->d, d);
}

cublasStatus_t lt_plan(const lt_operation_t *o, const lt_layouts_t *l, gemm_call_t *call)
{
    *call = (gemm_call_t){0};
    if (!o || !l->a || !l->b || !l->c || !l->d)
        return CUBLAS_STATUS_INVALID_VALUE;
    TRY(check_operation(o));
    TRY(check_sizes(o, l, call));
    TRY(check_types(o, l, call));
    const int ta = (o->transa != CUBLAS_OP_N) != is_row_major(l->a),
              tb = (o->transb != CUBLAS_OP_N) != is_row_major(l->b);
    call->transpose_a = ta;
    call->transpose_b = tb;
    if (is_row_major(l->d)) {
        const int64_t m = call->m;
        call->m = call->n;
        call->n = m;
        call->transpose_a = !tb;
        call->transpose_b = !ta;
    }
    TRY(plan_epilogue(o, l, call));
    lt_set_operands(l, NULL, NULL, NULL, NULL, call);
    return CUBLAS_STATUS_SUCCESS;
}
