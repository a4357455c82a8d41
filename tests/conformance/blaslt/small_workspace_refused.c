/* behaviour: an algorithm that is given less workspace than it needs is refused with INVALID_VALUE.
 * rules: none
 * source: cublasLt.h, cublasLtMatmul
 * uses: cublasLt
 */
#include "blaslt.h"

CONFORMANCE
{
    enum { M = 64, N = 64, K = 8192, MOST = 16 };
    const float one = 1, zero = 0;
    void *da = (void *)(uintptr_t)device_alloc(M * K * 2), *db = (void *)(uintptr_t)device_alloc(K * N * 2),
         *dd = (void *)(uintptr_t)device_alloc(M * N * 4),
         *workspace = (void *)(uintptr_t)device_alloc(32 << 20);
    operation_t o = new_operation(M, N, K, CUDA_R_16BF, CUDA_R_32F);
    cublasLtMatmulHeuristicResult_t results[MOST];
    const int count = propose(&o, 32 << 20, MOST, results);
    for (int i = 0; i < count; i++)
        if (results[i].state == CUBLAS_STATUS_SUCCESS && results[i].workspaceSize > 256) {
            BLAS_EXPECT(CUBLAS_STATUS_INVALID_VALUE,
                        cublasLtMatmul(o.handle, o.desc, &one, da, o.a, db, o.b, &zero, dd, o.c, dd, o.c,
                                       &results[i].algo, workspace, results[i].workspaceSize - 256, NULL));
            return;
        }
    SKIP("no algorithm here wants a workspace");
}
