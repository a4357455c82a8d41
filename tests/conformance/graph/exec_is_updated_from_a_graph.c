/* behaviour: cuGraphExecUpdate takes over the parameters of a graph of the same shape; another number of nodes, other edges
 * or another type of node are refused with the reason, and nothing changes.
 * rules: none
 * source: CUDA driver API, cuGraphExecUpdate
 */
#include "graph/graphs.h"

static CUdeviceptr p;

static CUgraph chain(int first, int second, int third)
{
    CUstream s = capturing(CU_STREAM_CAPTURE_MODE_GLOBAL);
    fill(s, p, first, N);
    add(s, p, second, N);
    if (third)
        add(s, p, third, N);
    CUgraph g = end_capture(s);
    OK(cuStreamDestroy(s));
    return g;
}

CONFORMANCE
{
    p = device_alloc(N * sizeof(int));
    CUgraphExecUpdateResultInfo info;
    CUgraphExec e = instantiate(chain(1, 2, 0));
    run(e, NULL);
    CHECK(all_equal(p, 3, N));
    EXPECT(CUDA_SUCCESS, cuGraphExecUpdate(e, chain(10, 20, 0), &info));
    CHECK(info.result == CU_GRAPH_EXEC_UPDATE_SUCCESS);
    run(e, NULL);
    CHECK(all_equal(p, 30, N));

    EXPECT(CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE, cuGraphExecUpdate(e, chain(1, 2, 3), &info));
    CHECK(info.result == CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED && !info.errorNode);

    CUgraph parallel = new_graph();
    kernel_node(parallel, NULL, 0, "fill", p, 1, N);
    kernel_node(parallel, NULL, 0, "add", p, 1, N);
    EXPECT(CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE, cuGraphExecUpdate(e, parallel, &info));
    CHECK(info.result == CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED && info.errorNode);

    CUgraph typed = new_graph();
    CUgraphNode k = kernel_node(typed, NULL, 0, "fill", p, 1, N), empty;
    OK(cuGraphAddEmptyNode(&empty, typed, &k, 1));
    EXPECT(CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE, cuGraphExecUpdate(e, typed, &info));
    CHECK(info.result == CU_GRAPH_EXEC_UPDATE_ERROR_NODE_TYPE_CHANGED && info.errorNode == empty);
    run(e, NULL);
    CHECK(all_equal(p, 30, N));
}
