/* behaviour: A clone keeps the parameters and the shape that the original had; its nodes are its own.
 * rules: none
 * source: CUDA driver API, cuGraphClone
 */
#include "graph/graphs.h"

CONFORMANCE
{
    CUdeviceptr p = device_alloc(N * sizeof(int));
    CUgraph g = new_graph(), clone;
    CUgraphNode a = kernel_node(g, NULL, 0, "fill", p, 1, N), b = kernel_node(g, &a, 1, "add", p, 2, N);
    OK(cuGraphClone(&clone, g));

    CUDA_KERNEL_NODE_PARAMS k;
    int value = 100, n = N;
    OK(cuGraphKernelNodeGetParams(b, &k));
    k.kernelParams = (void *[]){&p, &value, &n};
    OK(cuGraphKernelNodeSetParams(b, &k));
    OK(cuGraphDestroyNode(a));
    CHECK(count_nodes(g) == 1 && count_nodes(clone) == 2 && count_edges(clone) == 1);
    OK(cuGraphDestroy(g));
    run(instantiate(clone), NULL);
    CHECK(all_equal(p, 3, N));
    CUgraphNode first = NULL;
    size_t one = 1;
    OK(cuGraphGetRootNodes(clone, &first, &one));
    OK(cuGraphDestroyNode(first));
    CHECK(count_nodes(clone) == 1);
}
