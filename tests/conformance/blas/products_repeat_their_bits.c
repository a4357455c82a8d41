/* behaviour: the same product on the same device gives the same bits, call after call.
 * rules: none
 * source: cuBLAS documentation, Results Reproducibility
 * uses: cublas
 */
#include "blas.h"

CONFORMANCE
{
    enum { M = 150, N = 130, K = 700, ROUNDS = 10 };
    const float one = 1, zero = 0;
    float *a = integers(M * K, 1), *b = integers(K * N, 2), first[M * N], got[M * N], norm = 0, again = 0;
    for (int i = 0; i < M * K; i++)
        a[i] /= 7; /* not exact: the order of adding up shows */
    float *da = to_device(a, M * K * sizeof *a), *db = to_device(b, K * N * sizeof *b),
          *dc = to_device(got, sizeof got);
    cublasHandle_t handle = new_handle(NULL);
    for (int round = 0; round < ROUNDS; round++) {
        OK(cuMemsetD32((CUdeviceptr)(uintptr_t)dc, 0, M * N));
        BLAS(cublasSgemm(handle, CUBLAS_OP_N, CUBLAS_OP_N, M, N, K, &one, da, M, db, K, &zero, dc, M));
        BLAS(cublasSnrm2(handle, M * K, da, 1, round ? &again : &norm));
        to_host(round ? got : first, dc, sizeof got);
        CHECK(!round || (!memcmp(first, got, sizeof got) && norm == again));
    }
    BLAS(cublasDestroy(handle));
}
