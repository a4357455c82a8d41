/* matmul.c: cublasLtMatmul. */
#include "softgpu/cublaslt/lt.h"

#include <string.h>

/* What a program hands over with the descriptors. */
typedef struct operands {
    const void *alpha, *beta, *a, *b, *c;
    void *d;
    void *workspace;
    size_t workspace_bytes;
} operands_t;

/* The algorithm that is used if the program names none. */
static cublasStatus_t choose(const lt_operation_t *operation, const lt_layouts_t *layouts,
                             size_t workspace_bytes, lt_algorithm_t *algorithm)
{
    cublasLtMatmulHeuristicResult_t result = {0};
    lt_preference_t preference;
    lt_preference_init(&preference);
    preference.workspace_bytes = workspace_bytes;
    if (!lt_choose(operation, layouts, &preference, -1, 1, &result))
        return CUBLAS_STATUS_NOT_SUPPORTED;
    memcpy(algorithm, &result.algo, sizeof *algorithm);
    return CUBLAS_STATUS_SUCCESS;
}

static cublasStatus_t set_scalars(const lt_operation_t *operation, const operands_t *o, gemm_call_t *call)
{
    if (!o->alpha || !o->beta)
        return CUBLAS_STATUS_INVALID_VALUE;
    if (operation->pointer_mode == CUBLASLT_POINTER_MODE_DEVICE) {
        call->device_alpha = o->alpha;
        call->device_beta = o->beta;
        return CUBLAS_STATUS_SUCCESS;
    }
    call->alpha = (double)*(const float *)o->alpha;
    call->beta = (double)*(const float *)o->beta;
    return CUBLAS_STATUS_SUCCESS;
}

static cublasStatus_t check_pointers(const operands_t *o, const gemm_call_t *call)
{
    const size_t needed = gemm_workspace_bytes(call);
    if (call->m == 0 || call->n == 0)
        return CUBLAS_STATUS_SUCCESS;
    if (!o->d || (call->k && (!o->a || !o->b)) || (!o->c && (call->device_beta || call->beta != 0)))
        return CUBLAS_STATUS_INVALID_VALUE;
    if ((call->epilogue & (GEMM_BIAS | GEMM_BGRAD | GEMM_BGRADA | GEMM_BGRADB) && !call->bias) ||
        (call->epilogue & GEMM_AUX && !call->aux))
        return CUBLAS_STATUS_INVALID_VALUE;
    if (needed && (!o->workspace || o->workspace_bytes < needed || (uintptr_t)o->workspace % 256))
        return CUBLAS_STATUS_INVALID_VALUE;
    return CUBLAS_STATUS_SUCCESS;
}

static cublasStatus_t prepare(const lt_operation_t *operation, const lt_layouts_t *layouts,
                              const operands_t *o, const lt_algorithm_t *algorithm, gemm_call_t *call)
{
    lt_algorithm_t chosen;
    cublasStatus_t status = lt_plan(operation, layouts, call);
    if (status == CUBLAS_STATUS_SUCCESS && !algorithm) {
        status = choose(operation, layouts, o->workspace ? o->workspace_bytes : 0, &chosen);
        algorithm = &chosen;
    }
    if (status == CUBLAS_STATUS_SUCCESS)
        status = lt_apply(algorithm, operation, layouts, call);
    if (status == CUBLAS_STATUS_SUCCESS)
        status = set_scalars(operation, o, call);
    return status == CUBLAS_STATUS_SUCCESS ? check_pointers(o, call) : status;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t operation, const void *alpha,
                              const void *a, cublasLtMatrixLayout_t a_layout, const void *b,
                              cublasLtMatrixLayout_t b_layout, const void *beta, const void *c,
                              cublasLtMatrixLayout_t c_layout, void *d, cublasLtMatrixLayout_t d_layout,
                              const cublasLtMatmulAlgo_t *algorithm, void *workspace, size_t workspace_bytes,
                              cudaStream_t stream)
{
    const lt_layouts_t layouts = {(void *)a_layout, (void *)b_layout, (void *)c_layout, (void *)d_layout};
    const operands_t operands = {alpha, beta, a, b, c, d, workspace, workspace_bytes};
    gemm_call_t call;
    if (!lt_context(handle))
        return CUBLAS_STATUS_NOT_INITIALIZED;
    cublasStatus_t status = prepare((void *)operation, &layouts, &operands, (const void *)algorithm, &call);
    if (status != CUBLAS_STATUS_SUCCESS)
        return status;
    lt_set_operands(&layouts, a, b, c, d, &call);
    call.workspace = workspace;
    return gemm_launch(lt_context(handle), stream, &call);
}
