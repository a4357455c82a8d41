/* behaviour: a call without handle is NOT_INITIALIZED, one whose layouts do not fit together INVALID_VALUE.
 * rules: none
 * source: cublasLt.h, cublasLtMatmul
 * uses: cublasLt
 */
#include "blaslt.h"

CONFORMANCE
{
    const float one = 1, zero = 0;
    void *d = (void *)(uintptr_t)device_alloc(4096);
    const uint64_t other = 9;
    operation_t o = new_operation(8, 8, 8, CUDA_R_32F, CUDA_R_32F);
    BLAS_EXPECT(CUBLAS_STATUS_NOT_INITIALIZED, cublasLtMatmul(NULL, o.desc, &one, d, o.a, d, o.b, &zero, d,
                                                              o.c, d, o.c, NULL, NULL, 0, NULL));
    BLAS(cublasLtMatmul(o.handle, o.desc, &one, d, o.a, d, o.b, &zero, d, o.c, d, o.c, NULL, NULL, 0, NULL));
    BLAS(cublasLtMatrixLayoutSetAttribute(o.a, CUBLASLT_MATRIX_LAYOUT_COLS, &other, sizeof other));
    BLAS_EXPECT(CUBLAS_STATUS_INVALID_VALUE, cublasLtMatmul(o.handle, o.desc, &one, d, o.a, d, o.b, &zero, d,
                                                            o.c, d, o.c, NULL, NULL, 0, NULL));
    OK(cuCtxSynchronize());
}
