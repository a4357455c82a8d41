/* behaviour: Calls on a graph or a node that does not exist are INVALID_VALUE.
 * rules: handle
 * source: CUDA driver API, Graph Management
 */
#include "graph/graphs.h"

CONFORMANCE
{
    CUgraphNode node = NULL, nodes[2];
    CUgraphNodeType type;
    CUgraphExec e = NULL;
    CUgraph clone;
    size_t n = 2;
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuGraphAddEmptyNode(&node, NULL, NULL, 0));
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuGraphGetNodes(NULL, nodes, &n));
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuGraphNodeGetType(NULL, &type));
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuGraphInstantiate(&e, NULL, 0));
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuGraphClone(&clone, NULL));
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuGraphDestroy(NULL));
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuGraphDestroyNode(NULL));
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuGraphExecDestroy(NULL));
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuGraphLaunch(NULL, NULL));
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuGraphCreate(NULL, 0));
}
