/* behaviour: a cuBLAS handle may be used as a cuBLASLt handle.
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
    operation_t o = new_operation(M, N, K, CUDA_R_32F, CUDA_R_32F);
    cublasHandle_t handle = new_handle(NULL);
    BLAS(cublasLtDestroy(o.handle));
    o.handle = (cublasLtHandle_t)(void *)handle;
    multiply(&o, da, db, dd);
    to_host(got, dd, sizeof got);
    CHECK(same(got, product_of(a, b, M, N, K), M * N));
    BLAS(cublasDestroy(handle));
}
