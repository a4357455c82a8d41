/* behaviour: Parameters of an executable graph's nodes can be set; only later launches use them, and the graph itself keeps
 * the old ones.
 * rules: none
 * source: CUDA driver API, cuGraphExecKernelNodeSetParams, cuGraphExecMemsetNodeSetParams, cuGraphExecMemcpyNodeSetParams
 */
#include "graph/graphs.h"

CONFORMANCE
{
    int value = 30, n = N;
    CUdeviceptr p = device_alloc(N * sizeof(int)), q = device_alloc(N * sizeof(int)),
                r = device_alloc(N * sizeof(int));
    CUstream s = new_stream(CU_STREAM_NON_BLOCKING);
    CUgraph g = new_graph();
    CUgraphNode set, copy;
    CUgraphNode k = kernel_node(g, NULL, 0, "fill", p, 3, N);
    CUDA_MEMSET_NODE_PARAMS m = {.dst = q, .value = 4, .elementSize = 4, .width = N, .height = 1};
    OK(cuGraphAddMemsetNode(&set, g, &k, 1, &m, context));
    CUDA_MEMCPY3D c = copy_of(r, p, N * sizeof(int));
    OK(cuGraphAddMemcpyNode(&copy, g, &set, 1, &c, context));
    CUgraphExec e = instantiate(g);
    run(e, s);
    CHECK(all_equal(p, 3, N) && all_equal(q, 4, N) && all_equal(r, 3, N));

    hold_t h = hold(s);
    OK(cuGraphLaunch(e, s)); /* still with the old ones */
    CUDA_KERNEL_NODE_PARAMS params;
    OK(cuGraphKernelNodeGetParams(k, &params));
    params.kernelParams = (void *[]){&q, &value, &n};
    OK(cuGraphExecKernelNodeSetParams(e, k, &params));
    m.dst = p;
    m.value = 40;
    OK(cuGraphExecMemsetNodeSetParams(e, set, &m, context));
    c = copy_of(r, q, N / 2 * sizeof(int));
    OK(cuGraphExecMemcpyNodeSetParams(e, copy, &c, context));
    let_go(h);
    OK(cuStreamSynchronize(s));
    CHECK(all_equal(p, 3, N) && all_equal(q, 4, N) && all_equal(r, 3, N));

    run(e, s);
    CHECK(all_equal(q, 30, N) && all_equal(p, 40, N));
    CHECK(all_equal(r, 30, N / 2) && read_int(r + N / 2 * sizeof(int)) == 3);
    CUDA_MEMSET_NODE_PARAMS old;
    OK(cuGraphMemsetNodeGetParams(set, &old));
    CHECK(old.dst == q && old.value == 4);
}
