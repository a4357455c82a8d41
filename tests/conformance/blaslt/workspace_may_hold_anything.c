/* behaviour: what is in the workspace before a call does not matter, and it may be overwritten between calls: whatever an
 * algorithm keeps for its next use (counters) is not kept where the program can spoil it, or is prepared by each call.
 * rules: none
 * source: cuBLASLt documentation, cublasLtMatmul (the workspace is scratch memory)
 * uses: cublasLt
 */
#include "blaslt.h"

CONFORMANCE
{
    enum { M = 96, N = 80, K = 8192, MOST = 8, ROOM = 32 << 20 };
    const float one = 1, zero = 0;
    float *a = integers(M * K, 1), *b = integers(K * N, 2), first[M * N], d[M * N];
    for (int i = 0; i < M * K; i++)
        a[i] /= 7; /* not exact: the bits tell whether the order was the same */
    CUstream stream = new_stream(CU_STREAM_NON_BLOCKING);
    CUdeviceptr workspace = device_alloc(ROOM);
    void *da = to_device(a, M * K * sizeof *a), *db = to_device(b, K * N * sizeof *b),
         *dd = to_device(d, sizeof d);
    operation_t o = new_operation(M, N, K, CUDA_R_32F, CUDA_R_32F);
    cublasLtMatmulHeuristicResult_t results[MOST];
    const int count = propose(&o, ROOM, MOST, results);
    for (int i = 0; i < count; i++)
        for (int round = 0; round < 6; round++) {
            OK(cuMemsetD8Async(workspace, (unsigned char)(0x55 + 77 * round), ROOM, stream));
            BLAS(cublasLtMatmul(o.handle, o.desc, &one, da, o.a, db, o.b, &zero, dd, o.c, dd, o.c,
                                &results[i].algo, (void *)(uintptr_t)workspace, ROOM, stream));
            OK(cuStreamSynchronize(stream));
            to_host(round ? d : first, dd, sizeof d);
            CHECK(!round || !memcmp(first, d, sizeof d));
        }
}
