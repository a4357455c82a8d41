/* behaviour: what is wrong with a product is told by the status: no handle, sizes and leading dimensions, types.
 * rules: none
 * source: cuBLAS documentation, cublas<t>gemm and cublasGemmEx
 * uses: cublas
 */
#include "blas.h"

CONFORMANCE
{
    const float one = 1;
    float *d = to_device((float[64]){0}, 64 * sizeof(float));
    const cublasOperation_t n = CUBLAS_OP_N;
    cublasHandle_t handle = new_handle(NULL);
    BLAS_EXPECT(CUBLAS_STATUS_NOT_INITIALIZED,
                cublasSgemm(NULL, n, n, 4, 4, 4, &one, d, 4, d, 4, &one, d, 4));
    BLAS_EXPECT(CUBLAS_STATUS_INVALID_VALUE,
                cublasSgemm(handle, n, n, -1, 4, 4, &one, d, 4, d, 4, &one, d, 4));
    BLAS_EXPECT(CUBLAS_STATUS_INVALID_VALUE,
                cublasSgemm(handle, n, n, 4, 4, 4, &one, d, 3, d, 4, &one, d, 4));
    BLAS_EXPECT(CUBLAS_STATUS_INVALID_VALUE,
                cublasSgemm(handle, n, n, 4, 4, 4, &one, d, 4, d, 4, &one, d, 3));
    BLAS_EXPECT(CUBLAS_STATUS_INVALID_VALUE,
                cublasSgemm(handle, (cublasOperation_t)9, n, 4, 4, 4, &one, d, 4, d, 4, &one, d, 4));
    BLAS_EXPECT(CUBLAS_STATUS_INVALID_VALUE,
                cublasSgemm(handle, n, n, 4, 4, 4, NULL, d, 4, d, 4, &one, d, 4));
    BLAS_EXPECT(CUBLAS_STATUS_NOT_SUPPORTED,
                cublasGemmEx(handle, n, n, 4, 4, 4, &one, d, CUDA_R_32F, 4, d, CUDA_R_32F, 4, &one, d,
                             CUDA_R_16F, 4, CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT));
    BLAS(cublasSgemm(handle, n, n, 0, 4, 4, &one, d, 4, d, 4, &one, d, 4)); /* nothing to do */
    BLAS(cublasDestroy(handle));
}
