/* behaviour: A graph with a cycle is refused, at the latest when it is instantiated, where the result says that the structure
 * is invalid and names a node of it.
 * rules: none
 * source: CUDA driver API, cuGraphInstantiateWithParams, CUDA_GRAPH_INSTANTIATE_INVALID_STRUCTURE
 */
#include "graph/graphs.h"

CONFORMANCE
{
    CUgraph g = new_graph();
    CUgraphNode a, b;
    OK(cuGraphAddEmptyNode(&a, g, NULL, 0));
    OK(cuGraphAddEmptyNode(&b, g, &a, 1));
    if (cuGraphAddDependencies(g, &b, &a, NULL, 1) != CUDA_SUCCESS)
        return; /* at once */
    CUDA_GRAPH_INSTANTIATE_PARAMS params = {0};
    CUgraphExec e = NULL;
    CHECK(cuGraphInstantiateWithParams(&e, g, &params) != CUDA_SUCCESS);
    CHECK(params.result_out == CUDA_GRAPH_INSTANTIATE_INVALID_STRUCTURE);
    CHECK(params.hErrNode_out == a || params.hErrNode_out == b);
}
