/* behaviour: a cooperative launch is captured as one: its node says so, and the kernel runs when the graph is launched.
 * rules: none
 * source: CUDA driver API, cuLaunchCooperativeKernel, CU_LAUNCH_ATTRIBUTE_COOPERATIVE
 */
#include "graph/graphs.h"

CONFORMANCE
{
    if (!device_attribute(CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH))
        SKIP("no cooperative launches");
    CUdeviceptr p = device_alloc(N * sizeof(int));
    int value = 31, n = 1024;
    CUstream s = capturing(CU_STREAM_CAPTURE_MODE_GLOBAL);
    CUresult launched =
        cuLaunchCooperativeKernel(kernel("fill"), 1, 1, 1, 64, 1, 1, 0, s, (void *[]){&p, &value, &n});
    CUgraph g = NULL;
    if (launched == CUDA_ERROR_NOT_SUPPORTED) {
        cuStreamEndCapture(s, &g);
        SKIP("this kernel has no form for it");
    }
    EXPECT(CUDA_SUCCESS, launched);
    g = end_capture(s);
    CUkernelNodeAttrValue attribute;
    OK(cuGraphKernelNodeGetAttribute(only_node(g, CU_GRAPH_NODE_TYPE_KERNEL), CU_LAUNCH_ATTRIBUTE_COOPERATIVE,
                                     &attribute));
    CHECK(attribute.cooperative == 1);
    run(instantiate(g), s);
    CHECK(all_equal(p, 31, 1024));
}
