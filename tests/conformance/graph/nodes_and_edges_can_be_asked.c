/* behaviour: A graph tells its nodes, its roots and its edges, and a node its type, its dependencies and what depends on it;
 * arrays that are longer than needed are filled up with NULL.
 * rules: none
 * source: CUDA driver API, cuGraphGetNodes, cuGraphGetEdges, cuGraphNodeGetDependencies
 */
#include "graph/graphs.h"

CONFORMANCE
{
    CUdeviceptr p = device_alloc(N * sizeof(int));
    CUgraph g = new_graph();
    CUgraphNode a = kernel_node(g, NULL, 0, "fill", p, 1, N), b, c, both[2];
    OK(cuGraphAddEmptyNode(&b, g, &a, 1));
    OK(cuGraphAddEmptyNode(&c, g, &a, 1));
    both[0] = b, both[1] = c;
    CUgraphNode d = kernel_node(g, both, 2, "add", p, 1, N);
    CHECK(count_nodes(g) == 4 && count_edges(g) == 4);
    CHECK(type_of(a) == CU_GRAPH_NODE_TYPE_KERNEL && type_of(b) == CU_GRAPH_NODE_TYPE_EMPTY);

    CUgraphNode nodes[6], from[6], to[6];
    size_t n = 6;
    OK(cuGraphGetRootNodes(g, nodes, &n));
    CHECK(n == 1 && nodes[0] == a && !nodes[1] && !nodes[5]);
    n = 6;
    OK(cuGraphGetEdges(g, from, to, NULL, &n));
    CHECK(n == 4 && !from[4] && !to[5]);
    int into_d = 0;
    for (size_t i = 0; i < n; i++)
        into_d += to[i] == d && (from[i] == b || from[i] == c);
    CHECK(into_d == 2);
    n = 6;
    OK(cuGraphNodeGetDependencies(d, nodes, NULL, &n));
    CHECK(n == 2 && nodes[0] == b && nodes[1] == c && !nodes[2]);
    n = 6;
    OK(cuGraphNodeGetDependentNodes(a, nodes, NULL, &n));
    CHECK(n == 2 && nodes[0] == b && nodes[1] == c && !nodes[2]);
    OK(cuGraphNodeGetDependentNodes(d, NULL, NULL, &n));
    CHECK(n == 0);

    OK(cuGraphDestroyNode(c));
    CHECK(count_nodes(g) == 3 && count_edges(g) == 2);
    run(instantiate(g), NULL);
    CHECK(all_equal(p, 2, N));
}
