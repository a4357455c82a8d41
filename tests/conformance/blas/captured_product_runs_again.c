/* behaviour: a product that is captured runs each time the graph is launched, on what its operands hold then.
 * rules: none
 * source: cuBLAS documentation, CUDA Graphs Support
 * uses: cublas
 */
#include "blas.h"

CONFORMANCE
{
    enum { N = 64, CELLS = N * N };
    float alpha = 1, beta = 1, *a = integers(CELLS, 1), *b = integers(CELLS, 2), got[CELLS];
    float *da = to_device(a, sizeof got), *db = to_device(b, sizeof got), *dc = to_device(a, sizeof got);
    CUstream stream = new_stream(CU_STREAM_NON_BLOCKING);
    CUgraph graph;
    CUgraphExec exec;
    cublasHandle_t handle = new_handle(stream);
    BLAS(cublasSgemm(handle, CUBLAS_OP_N, CUBLAS_OP_N, N, N, N, &alpha, da, N, db, N, &beta, dc, N));
    OK(cuStreamSynchronize(stream)); /* what is loaded at first use is loaded */
    OK(cuMemsetD8Async((CUdeviceptr)(uintptr_t)dc, 0, sizeof got, stream));
    OK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    BLAS(cublasSgemm(handle, CUBLAS_OP_N, CUBLAS_OP_N, N, N, N, &alpha, da, N, db, N, &beta, dc, N));
    OK(cuStreamEndCapture(stream, &graph));
    alpha = beta = 99; /* they are in the graph */
    OK(cuGraphInstantiate(&exec, graph, 0));
    float *one = product_of(a, b, N, N, N), want[CELLS] = {0};
    for (int round = 1; round <= 3; round++) {
        OK(cuGraphLaunch(exec, stream));
        OK(cuStreamSynchronize(stream));
        to_host(got, dc, sizeof got);
        for (int i = 0; i < CELLS; i++)
            want[i] += one[i];
        CHECK(same(got, want, CELLS));
    }
    OK(cuGraphExecDestroy(exec));
    OK(cuGraphDestroy(graph));
    BLAS(cublasDestroy(handle));
}
