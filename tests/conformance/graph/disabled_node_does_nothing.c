/* behaviour: A kernel, copy or set node that is disabled in an executable graph is skipped by launches until it is enabled.
 * rules: none
 * source: CUDA driver API, cuGraphNodeSetEnabled
 */
#include "graph/graphs.h"

CONFORMANCE
{
    CUdeviceptr p = device_alloc(N * sizeof(int));
    CUgraph g = new_graph();
    CUgraphNode a = kernel_node(g, NULL, 0, "fill", p, 1, N), b = kernel_node(g, &a, 1, "add", p, 2, N);
    CUgraphNode c = kernel_node(g, &b, 1, "add", p, 4, N), empty;
    OK(cuGraphAddEmptyNode(&empty, g, &c, 1));
    CUgraphExec e = instantiate(g), other = instantiate(g);
    unsigned enabled = 2;
    OK(cuGraphNodeGetEnabled(e, b, &enabled));
    CHECK(enabled == 1);
    OK(cuGraphNodeSetEnabled(e, b, 0));
    OK(cuGraphNodeGetEnabled(e, b, &enabled));
    CHECK(enabled == 0);
    run(e, NULL);
    CHECK(all_equal(p, 5, N));
    run(other, NULL);
    CHECK(all_equal(p, 7, N));
    OK(cuGraphNodeSetEnabled(e, b, 1));
    run(e, NULL);
    CHECK(all_equal(p, 7, N));
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuGraphNodeSetEnabled(e, empty, 0));
}
