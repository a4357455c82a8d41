/* behaviour: a kernel node's attributes are set, asked and copied to another node; new parameters leave them, and a captured
 * launch has its stream's priority.
 * rules: none
 * source: CUDA driver API, cuGraphKernelNodeSetAttribute, cuGraphKernelNodeCopyAttributes, cuGraphInstantiate
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
    CUgraph g = new_graph();
    CUgraphNode a = kernel_node(g, NULL, 0, "fill", p, 1, N), b = kernel_node(g, &a, 1, "add", p, 2, N),
                empty;
    OK(cuGraphAddEmptyNode(&empty, g, &b, 1));
    CUkernelNodeAttrValue value = {.priority = greatest};
    OK(cuGraphKernelNodeSetAttribute(a, CU_LAUNCH_ATTRIBUTE_PRIORITY, &value));
    CHECK(priority_of(a) == greatest);
    OK(cuGraphKernelNodeCopyAttributes(b, a));
    CHECK(priority_of(b) == greatest);
    CUDA_KERNEL_NODE_PARAMS k;
    OK(cuGraphKernelNodeGetParams(a, &k));
    OK(cuGraphKernelNodeSetParams(a, &k));
    CHECK(priority_of(a) == greatest);
    CHECK(cuGraphKernelNodeGetAttribute(empty, CU_LAUNCH_ATTRIBUTE_PRIORITY, &value) != CUDA_SUCCESS);
    run(instantiate(g), NULL);
    CHECK(all_equal(p, 3, N));

    CUstream s;
    OK(cuStreamCreateWithPriority(&s, CU_STREAM_NON_BLOCKING, greatest));
    OK(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_GLOBAL));
    fill(s, p, 1, N);
    CHECK(priority_of(only_node(end_capture(s), CU_GRAPH_NODE_TYPE_KERNEL)) == greatest);
}
