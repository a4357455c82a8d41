/* blaslt.h: what the cases of cuBLASLt share: an operation with its layouts. */
#ifndef CONFORMANCE_BLASLT_H
#define CONFORMANCE_BLASLT_H

#include "blas.h"

#include <cublasLt.h>

/* D[m,n] = A[m,k] B[k,n] in fp32 sums; A and B of type `in`, C and D of type `out`. */
typedef struct operation {
    cublasLtHandle_t handle;
    cublasLtMatmulDesc_t desc;
    cublasLtMatrixLayout_t a, b, c;
    int m, n, k;
} operation_t;

#define SET(o, what, value)                                                                                  \
    BLAS(cublasLtMatmulDescSetAttribute((o)->desc, CUBLASLT_MATMUL_DESC_##what, &(value), sizeof(value)))

static inline operation_t operation_with(cublasLtHandle_t handle, int m, int n, int k, cudaDataType in,
                                         cudaDataType out)
{
    operation_t o = {.handle = handle, .m = m, .n = n, .k = k};
    BLAS(cublasLtMatmulDescCreate(&o.desc, CUBLAS_COMPUTE_32F, CUDA_R_32F));
    BLAS(cublasLtMatrixLayoutCreate(&o.a, in, (uint64_t)m, (uint64_t)k, m));
    BLAS(cublasLtMatrixLayoutCreate(&o.b, in, (uint64_t)k, (uint64_t)n, k));
    BLAS(cublasLtMatrixLayoutCreate(&o.c, out, (uint64_t)m, (uint64_t)n, m));
    return o;
}

static inline operation_t new_operation(int m, int n, int k, cudaDataType in, cudaDataType out)
{
    cublasLtHandle_t handle;
    BLAS(cublasLtCreate(&handle));
    return operation_with(handle, m, n, k, in, out);
}

/* The algorithms that are proposed with so much workspace; 0: the device cannot do it. */
static inline int propose(const operation_t *o, size_t workspace_bytes, int most,
                          cublasLtMatmulHeuristicResult_t *results)
{
    cublasLtMatmulPreference_t preference;
    const uint64_t bytes = workspace_bytes;
    int count = 0;
    BLAS(cublasLtMatmulPreferenceCreate(&preference));
    BLAS(cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &bytes,
                                              sizeof bytes));
    const cublasStatus_t status = cublasLtMatmulAlgoGetHeuristic(o->handle, o->desc, o->a, o->b, o->c, o->c,
                                                                 preference, most, results, &count);
    CHECK(status == CUBLAS_STATUS_SUCCESS || status == CUBLAS_STATUS_NOT_SUPPORTED);
    BLAS(cublasLtMatmulPreferenceDestroy(preference));
    return status == CUBLAS_STATUS_SUCCESS ? count : 0;
}

/* D = A B with the first proposal, which needs no workspace. */
static inline void multiply(const operation_t *o, const void *a, const void *b, void *d)
{
    const float one = 1, zero = 0;
    cublasLtMatmulHeuristicResult_t result;
    if (!propose(o, 0, 1, &result))
        SKIP("the device has no algorithm for this epilogue and these types");
    BLAS(cublasLtMatmul(o->handle, o->desc, &one, a, o->a, b, o->b, &zero, d, o->c, d, o->c, &result.algo,
                        NULL, 0, NULL));
    OK(cuCtxSynchronize());
}

static inline float gelu_of(float x)
{
    return 0.5f * x * (1 + tanhf(0.7978846f * (x + 0.044715f * x * x * x)));
}

#endif
