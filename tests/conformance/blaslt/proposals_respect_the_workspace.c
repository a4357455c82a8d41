/* behaviour: the heuristic proposes no algorithm that needs more workspace than it was allowed, and one that is proposed runs with
 * what it asks for.
 * rules: none
 * source: cuBLASLt documentation, cublasLtMatmulAlgoGetHeuristic, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES
 * uses: cublasLt
 */
#include "blaslt.h"

CONFORMANCE
{
    enum { M = 64, N = 64, K = 4096, MOST = 16 };
    const float one = 1, zero = 0;
    const size_t allowed[] = {0, 4096, 1 << 20, 32 << 20};
    float *a = integers(M * K, 1), *b = integers(K * N, 2), *want = product_of(a, b, M, N, K), d[M * N];
    uint16_t *sa = bf16s(a, M * K), *sb = bf16s(b, K * N);
    void *da = to_device(sa, M * K * 2), *db = to_device(sb, K * N * 2), *dd = to_device(d, sizeof d),
         *workspace = (void *)(uintptr_t)device_alloc(32 << 20);
    operation_t o = new_operation(M, N, K, CUDA_R_16BF, CUDA_R_32F);
    cublasLtMatmulHeuristicResult_t results[MOST];
    for (int w = 0; w < 4; w++) {
        const int count = propose(&o, allowed[w], MOST, results);
        CHECK(count > 0);
        for (int i = 0; i < count; i++) {
            if (results[i].state != CUBLAS_STATUS_SUCCESS)
                continue;
            CHECK(results[i].workspaceSize <= allowed[w]);
            OK(cuMemsetD32((CUdeviceptr)(uintptr_t)dd, 0x7fc00000, M * N));
            BLAS(cublasLtMatmul(o.handle, o.desc, &one, da, o.a, db, o.b, &zero, dd, o.c, dd, o.c,
                                &results[i].algo, workspace, results[i].workspaceSize, NULL));
            to_host(d, dd, sizeof d);
            CHECK(same(d, want, M * N));
        }
    }
}
