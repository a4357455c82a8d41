/* behaviour: a product that is captured runs each time the graph is launched, on what its operands hold then, whatever is in its
 * workspace, and gives the bits of a direct call.
 * rules: none
 * source: cuBLAS documentation, CUDA Graphs Support; cublasLtMatmul
 * uses: cublasLt
 */
#include "blaslt.h"

CONFORMANCE
{
    enum { M = 96, N = 80, K = 4096, MOST = 8, ROOM = 32 << 20 };
    const float one = 1, zero = 0;
    float *a = integers(M * K, 1), *b = integers(K * N, 2), want[2][M * N], d[M * N];
    CUstream stream = new_stream(CU_STREAM_NON_BLOCKING);
    CUdeviceptr workspace = device_alloc(ROOM);
    void *da = to_device(a, M * K * sizeof *a), *db = to_device(b, K * N * sizeof *b),
         *dd = to_device(d, sizeof d);
    operation_t o = new_operation(M, N, K, CUDA_R_32F, CUDA_R_32F);
    cublasLtMatmulHeuristicResult_t results[MOST];
    const int count = propose(&o, ROOM, MOST, results);
#define MULTIPLY(i)                                                                                          \
    BLAS(cublasLtMatmul(o.handle, o.desc, &one, da, o.a, db, o.b, &zero, dd, o.c, dd, o.c, &results[i].algo, \
                        (void *)(uintptr_t)workspace, ROOM, stream))
    for (int i = 0; i < count; i++) {
        CUgraph graph;
        CUgraphExec exec;
        MULTIPLY(i); /* what is loaded at first use is loaded */
        OK(cuStreamSynchronize(stream));
        OK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
        MULTIPLY(i);
        OK(cuStreamEndCapture(stream, &graph));
        OK(cuGraphInstantiate(&exec, graph, 0));
        for (int round = 0; round < 4; round++) {
            const int scaled = round % 2;
            for (int l = 0; l < K * N; l++)
                b[l] = scaled ? (float)(l % 5) / 7 : (float)(l % 11) / 13; /* not exact: the order shows */
            OK(cuMemcpyHtoD((CUdeviceptr)(uintptr_t)db, b, K * N * sizeof *b));
            OK(cuMemsetD8Async(workspace, (unsigned char)(0x55 + round), ROOM, stream));
            if (round < 2)
                MULTIPLY(i);
            else
                OK(cuGraphLaunch(exec, stream));
            OK(cuStreamSynchronize(stream));
            to_host(round < 2 ? want[scaled] : d, dd, sizeof d);
            CHECK(round < 2 || !memcmp(want[scaled], d, sizeof d));
        }
        OK(cuGraphExecDestroy(exec));
        OK(cuGraphDestroy(graph));
    }
}
