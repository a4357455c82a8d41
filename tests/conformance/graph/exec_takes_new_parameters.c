/* behaviour: Parameters of an executable graph's nodes can be set; only later launches use them, and the graph itself keeps
 * the old ones.
 * rules: none
 * source: CUDA driver API, cuGraphExecKernelNodeSetParams, cuGraphExecMemsetNodeSetParams, cuGraphExecHostNodeSetParams
 */
#include "graph/graphs.h"

static void CUDA_CB count(void *data)
{
    ++*(int *)data;
}

CONFORMANCE
{
    int called = 0, called_later = 0, value = 30, n = N;
    CUdeviceptr p = device_alloc(N * sizeof(int)), q = device_alloc(N * sizeof(int));
    CUstream s = new_stream(CU_STREAM_NON_BLOCKING);
    CUgraph g = new_graph();
    CUgraphNode set, host;
    CUgraphNode k = kernel_node(g, NULL, 0, "fill", p, 3, N);
    CUDA_MEMSET_NODE_PARAMS m = {.dst = q, .value = 4, .elementSize = 4, .width = N, .height = 1};
    OK(cuGraphAddMemsetNode(&set, g, &k, 1, &m, context));
    OK(cuGraphAddHostNode(&host, g, &set, 1, &(CUDA_HOST_NODE_PARAMS){count, &called}));
    CUgraphExec e = instantiate(g);
    run(e, s);
    CHECK(all_equal(p, 3, N) && all_equal(q, 4, N) && called == 1);

    hold_t h = hold(s);
    OK(cuGraphLaunch(e, s)); /* still with the old ones */
    CUDA_KERNEL_NODE_PARAMS params;
    OK(cuGraphKernelNodeGetParams(k, &params));
    params.kernelParams = (void *[]){&q, &value, &n};
    OK(cuGraphExecKernelNodeSetParams(e, k, &params));
    m.dst = p;
    m.value = 40;
    OK(cuGraphExecMemsetNodeSetParams(e, set, &m, context));
    OK(cuGraphExecHostNodeSetParams(e, host, &(CUDA_HOST_NODE_PARAMS){count, &called_later}));
    let_go(h);
    OK(cuStreamSynchronize(s));
    CHECK(all_equal(p, 3, N) && all_equal(q, 4, N) && called == 2);

    run(e, s);
    CHECK(all_equal(q, 30, N) && all_equal(p, 40, N));
    CHECK(called == 2 && called_later == 1);
    CUDA_MEMSET_NODE_PARAMS old;
    OK(cuGraphMemsetNodeGetParams(set, &old));
    CHECK(old.dst == q && old.value == 4);
}
