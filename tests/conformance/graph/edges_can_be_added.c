/* behaviour: Edges are added between nodes of one graph; an edge that is there cannot be added, and a node's dependencies have no
 * duplicates.
 * rules: none
 * source: CUDA driver API, cuGraphAddDependencies
 */
#include "graph/graphs.h"

CONFORMANCE
{
    CUdeviceptr p = device_alloc(N * sizeof(int));
    CUgraph g = new_graph(), other = new_graph();
    CUgraphNode last = kernel_node(g, NULL, 0, "add", p, 2, N),
                first = kernel_node(g, NULL, 0, "fill", p, 5, N);
    CUgraphNode stranger, twice[2] = {first, first}, node = NULL;
    OK(cuGraphAddEmptyNode(&stranger, other, NULL, 0));
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuGraphAddEmptyNode(&node, g, twice, 2));
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuGraphAddEmptyNode(&node, g, &stranger, 1));
    EXPECT(CUDA_SUCCESS, cuGraphAddDependencies(g, &first, &last, NULL, 1));
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuGraphAddDependencies(g, &first, &last, NULL, 1));
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuGraphAddDependencies(g, &stranger, &last, NULL, 1));
    EXPECT(CUDA_SUCCESS, cuGraphAddDependencies(g, NULL, NULL, NULL, 0));
    CHECK(count_edges(g) == 1);
    run(instantiate(g), NULL); /* `last` was created first, and runs last */
    CHECK(all_equal(p, 7, N));
}
