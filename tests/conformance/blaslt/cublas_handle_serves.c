/* behaviour: a cuBLAS handle may be used as a cuBLASLt handle, also where there was never one of cuBLASLt's own.
 * rules: none
 * source: cuBLASLt documentation, cublasLtHandle_t
 * uses: cublas cublasLt
 */
#include "blaslt.h"

CONFORMANCE
{
    enum { M = 48, N = 40, K = 32 };
    float *a = integers(M * K, 1), *b = integers(K * N, 2), got[M * N];
    void *da = to_device(a, M * K * sizeof *a), *db = to_device(b, K * N * sizeof *b),
         *dd = to_device(got, sizeof got);
    cublasHandle_t handle = new_handle(NULL);
    operation_t o = operation_with((cublasLtHandle_t)(void *)handle, M, N, K, CUDA_R_32F, CUDA_R_32F);
    multiply(&o, da, db, dd);
    to_host(got, dd, sizeof got);
    CHECK(same(got, product_of(a, b, M, N, K), M * N));
    BLAS(cublasDestroy(handle));
}
