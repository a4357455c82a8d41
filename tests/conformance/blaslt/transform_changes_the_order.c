/* behaviour: cublasLtMatrixTransform copies a column-major matrix into a row-major one, scaled.
 * rules: none
 * source: cuBLASLt documentation, cublasLtMatrixTransform
 * uses: cublasLt
 */
#include "blaslt.h"

CONFORMANCE
{
    enum { M = 40, N = 24 };
    const float two = 2, zero = 0;
    const int32_t row = CUBLASLT_ORDER_ROW;
    float *a = integers(M * N, 1), got[M * N];
    void *da = to_device(a, sizeof got), *dc = to_device(a, sizeof got);
    cublasLtHandle_t handle;
    cublasLtMatrixTransformDesc_t transform;
    cublasLtMatrixLayout_t from, to;
    BLAS(cublasLtCreate(&handle));
    BLAS(cublasLtMatrixTransformDescCreate(&transform, CUDA_R_32F));
    BLAS(cublasLtMatrixLayoutCreate(&from, CUDA_R_32F, M, N, M));
    BLAS(cublasLtMatrixLayoutCreate(&to, CUDA_R_32F, M, N, N));
    BLAS(cublasLtMatrixLayoutSetAttribute(to, CUBLASLT_MATRIX_LAYOUT_ORDER, &row, sizeof row));
    BLAS(cublasLtMatrixTransform(handle, transform, &two, da, from, &zero, NULL, NULL, dc, to, NULL));
    OK(cuCtxSynchronize());
    to_host(got, dc, sizeof got);
    for (int i = 0; i < M; i++)
        for (int j = 0; j < N; j++)
            CHECK(got[j + i * N] == 2 * a[i + j * M]);
}
