/* behaviour: cuMemAllocAsync and cuMemFreeAsync in a capture become nodes; the address stays the same for every launch, and
 * such a graph cannot be cloned, have nodes removed or be instantiated twice at a time.
 * rules: none
 * source: CUDA driver API, cuGraphAddMemAllocNode; cuMemAllocAsync
 */
#include "graph/graphs.h"

CONFORMANCE
{
    if (!device_attribute(CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED))
        SKIP("no memory pools");
    CUdeviceptr out = device_alloc(N * sizeof(int)), t = 0, outside = 0;
    CUstream s = new_stream(CU_STREAM_NON_BLOCKING);
    OK(cuMemAllocAsync(&outside, 1024, s));
    OK(cuStreamSynchronize(s));
    OK(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_GLOBAL));
    OK(cuMemAllocAsync(&t, N * sizeof(int), s));
    fill(s, t, 13, N);
    add(s, t, 1, N);
    OK(cuMemcpyDtoDAsync(out, t, N * sizeof(int), s));
    OK(cuMemFreeAsync(t, s));
    CUgraph g = end_capture(s), clone;
    CHECK(t && count_nodes(g) == 5);
    CUdeviceptr address = 0;
    CUgraphNode node = only_node(g, CU_GRAPH_NODE_TYPE_MEM_ALLOC);
    CUDA_MEM_ALLOC_NODE_PARAMS params;
    OK(cuGraphMemAllocNodeGetParams(node, &params));
    CHECK(params.dptr == t && params.bytesize == N * sizeof(int));
    OK(cuGraphMemFreeNodeGetParams(only_node(g, CU_GRAPH_NODE_TYPE_MEM_FREE), &address));
    CHECK(address == t);

    CUgraphExec e = instantiate(g), second = NULL;
    for (int i = 0; i < 3; i++) {
        fill(s, out, 0, N);
        run(e, s);
        CHECK(all_equal(out, 14, N));
    }
    CHECK(cuGraphClone(&clone, g) != CUDA_SUCCESS);
    CHECK(cuGraphDestroyNode(node) != CUDA_SUCCESS);
    CHECK(cuGraphInstantiate(&second, g, 0) != CUDA_SUCCESS);
    OK(cuGraphExecDestroy(e));
    EXPECT(CUDA_SUCCESS, cuGraphInstantiate(&second, g, 0));
    run(second, s);
    CHECK(all_equal(out, 14, N));

    OK(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_GLOBAL));
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemFreeAsync(outside, s)); /* not a graph's */
    cuStreamEndCapture(s, &g);
}
