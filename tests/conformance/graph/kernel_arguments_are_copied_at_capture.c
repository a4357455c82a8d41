/* behaviour: A captured launch keeps the values that its arguments had then; what the program does to them later is not seen.
 * A kernel node gives them out.
 * rules: none
 * source: CUDA driver API, cuGraphAddKernelNode, cuGraphKernelNodeGetParams
 */
#include "graph/graphs.h"

CONFORMANCE
{
    CUdeviceptr p = device_alloc(N * sizeof(int)), where = p;
    int value = 21, n = N;
    void *args[] = {&where, &value, &n};
    CUstream s = capturing(CU_STREAM_CAPTURE_MODE_GLOBAL);
    OK(cuLaunchKernel(kernel("fill"), 4, 1, 1, 128, 1, 1, 0, s, args, NULL));
    value = 99;
    where = 0;
    n = 0;
    args[0] = args[1] = args[2] = NULL;
    CUgraph g = end_capture(s);
    run(instantiate(g), s);
    CHECK(all_equal(p, 21, N));

    CUDA_KERNEL_NODE_PARAMS k;
    OK(cuGraphKernelNodeGetParams(only_node(g, CU_GRAPH_NODE_TYPE_KERNEL), &k));
    CHECK(k.func == kernel("fill") && k.gridDimX == 4 && k.gridDimY == 1 && k.blockDimX == 128);
    CHECK(k.kernelParams && !k.extra);
    if (k.kernelParams) {
        CHECK(*(CUdeviceptr *)k.kernelParams[0] == p);
        CHECK(*(int *)k.kernelParams[1] == 21);
        CHECK(*(int *)k.kernelParams[2] == N);
    }
}
