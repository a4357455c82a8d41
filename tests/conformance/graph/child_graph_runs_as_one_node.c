/* behaviour: A child graph node runs a copy of the graph that was given; what depends on it waits for all of it. A graph is
 * not launched in a capturing stream.
 * rules: capture
 * source: CUDA driver API, cuGraphAddChildGraphNode, cuGraphChildGraphNodeGetGraph; H200, driver 580.159.04
 */
#include "graph/graphs.h"

CONFORMANCE
{
    CUdeviceptr p = device_alloc(N * sizeof(int)), q = device_alloc(N * sizeof(int));
    CUgraph child = new_graph(), g = new_graph(), inner = NULL;
    kernel_node(child, NULL, 0, "add", p, 1, N);
    kernel_node(child, NULL, 0, "add", q, 1, N);

    CUgraphNode both[2] = {kernel_node(g, NULL, 0, "fill", p, 10, N),
                           kernel_node(g, NULL, 0, "fill", q, 20, N)};
    CUgraphNode node, copy;
    OK(cuGraphAddChildGraphNode(&node, g, both, 2, child));
    CUDA_MEMCPY3D c = copy_of(p, q, N / 2 * sizeof(int));
    OK(cuGraphAddMemcpyNode(&copy, g, &node, 1, &c, context));
    OK(cuGraphDestroy(child)); /* the node has its own */
    OK(cuGraphChildGraphNodeGetGraph(node, &inner));
    CHECK(inner != child && count_nodes(inner) == 2);
    CUgraphExec e = instantiate(g);
    run(e, NULL);
    CHECK(read_int(p) == 21 && read_int(p + (N - 1) * sizeof(int)) == 11 && all_equal(q, 21, N));

    CUstream s = capturing(CU_STREAM_CAPTURE_MODE_GLOBAL);
    EXPECT(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, cuGraphLaunch(e, s));
    expect_invalidated(s);
    CHECK(all_equal(q, 21, N));
}
