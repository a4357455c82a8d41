/* behaviour: Memory that a graph allocates and does not free belongs to the program after the launch, which frees it before the
 * next launch (INVALID_VALUE otherwise), unless the graph frees it then by itself (AUTO_FREE_ON_LAUNCH).
 * rules: graph-memory
 * source: CUDA driver API, cuGraphAddMemAllocNode, cuGraphLaunch
 */
#include "graph/graphs.h"

static CUdeviceptr t;

static CUgraph allocating(int value)
{
    CUgraph g = new_graph();
    CUgraphNode node;
    CUDA_MEM_ALLOC_NODE_PARAMS m = {
        .poolProps = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                      .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device}},
        .bytesize = N * sizeof(int)};
    OK(cuGraphAddMemAllocNode(&node, g, NULL, 0, &m));
    t = m.dptr;
    kernel_node(g, &node, 1, "fill", t, value, N);
    return g;
}

CONFORMANCE
{
    if (!device_attribute(CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED))
        SKIP("no memory pools");
    CUstream s = new_stream(CU_STREAM_NON_BLOCKING);
    CUgraphExec e = instantiate(allocating(17)), other;
    run(e, s);
    CHECK(all_equal(t, 17, N));
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuGraphLaunch(e, s));
    OK(cuMemFreeAsync(t, s));
    EXPECT(CUDA_SUCCESS, cuGraphLaunch(e, s));
    OK(cuStreamSynchronize(s));
    EXPECT(CUDA_SUCCESS, cuMemFree(t));

    CUgraph freeing = new_graph();
    CUgraphNode node;
    OK(cuGraphAddMemFreeNode(&node, freeing, NULL, 0, t));
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuGraphAddMemFreeNode(&node, freeing, NULL, 0, t));
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuGraphAddMemFreeNode(&node, freeing, NULL, 0, device_alloc(512)));
    CUgraphExec f = instantiate(freeing);
    for (int i = 0; i < 2; i++) {
        OK(cuGraphLaunch(e, s));
        OK(cuGraphLaunch(f, s));
    }
    OK(cuStreamSynchronize(s));

    OK(cuGraphInstantiate(&other, allocating(18), CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH));
    for (int i = 0; i < 3; i++)
        run(other, s);
    CHECK(all_equal(t, 18, N));
    cuuint64_t flags = 0;
    OK(cuGraphExecGetFlags(other, &flags));
    CHECK(flags == CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH);
}
