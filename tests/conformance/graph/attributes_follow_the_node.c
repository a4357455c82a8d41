/* behaviour: the node of a captured launch has its stream's priority, and keeps it with new parameters; a node that is no kernel has
 * no such attributes.
 * rules: none
 * source: CUDA driver API, cuGraphKernelNodeGetAttribute, cuGraphKernelNodeSetParams, cuGraphInstantiate
 */
#include "graph/graphs.h"

static int priority_of(CUgraphNode node)
{
    CUkernelNodeAttrValue value;
    OK(cuGraphKernelNodeGetAttribute(node, CU_LAUNCH_ATTRIBUTE_PRIORITY, &value));
    return value.priority;
}

CONFORMANCE
{
    int least, greatest;
    CUdeviceptr p = device_alloc(N * sizeof(int));
    OK(cuCtxGetStreamPriorityRange(&least, &greatest));
    CUstream s;
    OK(cuStreamCreateWithPriority(&s, CU_STREAM_NON_BLOCKING, greatest));
    OK(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_GLOBAL));
    fill(s, p, 1, N);
    CUgraph g = end_capture(s);
    CUgraphNode node = only_node(g, CU_GRAPH_NODE_TYPE_KERNEL), empty;
    CHECK(priority_of(node) == greatest);

    CUDA_KERNEL_NODE_PARAMS k;
    int value = 3, n = N;
    OK(cuGraphKernelNodeGetParams(node, &k));
    k.kernelParams = (void *[]){&p, &value, &n};
    OK(cuGraphKernelNodeSetParams(node, &k));
    CHECK(priority_of(node) == greatest);
    run(instantiate(g), NULL);
    CHECK(all_equal(p, 3, N));

    CUkernelNodeAttrValue none;
    OK(cuGraphAddEmptyNode(&empty, g, &node, 1));
    CHECK(cuGraphKernelNodeGetAttribute(empty, CU_LAUNCH_ATTRIBUTE_PRIORITY, &none) != CUDA_SUCCESS);
}
