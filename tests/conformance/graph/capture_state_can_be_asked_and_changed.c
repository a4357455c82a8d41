/* behaviour: A capturing stream tells its graph and the nodes that its next node will depend on; nodes may be added to the
 * graph by hand and become such dependencies.
 * rules: none
 * source: CUDA driver API, cuStreamGetCaptureInfo, cuStreamUpdateCaptureDependencies
 */
#include "graph/graphs.h"

CONFORMANCE
{
    CUdeviceptr p = device_alloc(N * sizeof(int)), q = device_alloc(N * sizeof(int));
    CUstream idle = new_stream(CU_STREAM_NON_BLOCKING);
    CUstreamCaptureStatus status;
    cuuint64_t id = 0;
    CUgraph g = NULL, ended;
    const CUgraphNode *deps = NULL;
    size_t count = 9;
    EXPECT(CUDA_ERROR_ILLEGAL_STATE, cuStreamUpdateCaptureDependencies(idle, NULL, NULL, 0, 0));
    OK(cuStreamGetCaptureInfo(idle, &status, NULL, NULL, NULL, NULL, NULL));
    CHECK(status == CU_STREAM_CAPTURE_STATUS_NONE);

    CUstream s = capturing(CU_STREAM_CAPTURE_MODE_GLOBAL);
    OK(cuStreamGetCaptureInfo(s, &status, &id, &g, &deps, NULL, &count));
    CHECK(status == CU_STREAM_CAPTURE_STATUS_ACTIVE && id && g && count == 0);
    fill(s, p, 1, N);
    OK(cuStreamGetCaptureInfo(s, &status, NULL, NULL, &deps, NULL, &count));
    CHECK(count == 1 && type_of(deps[0]) == CU_GRAPH_NODE_TYPE_KERNEL);

    CUgraphNode by_hand = kernel_node(g, NULL, 0, "fill", q, 2, N);
    OK(cuStreamUpdateCaptureDependencies(s, &by_hand, NULL, 1, CU_STREAM_ADD_CAPTURE_DEPENDENCIES));
    OK(cuStreamGetCaptureInfo(s, &status, NULL, NULL, &deps, NULL, &count));
    CHECK(count == 2 && deps[1] == by_hand);
    OK(cuMemcpyDtoDAsync(p, q, N / 2 * sizeof(int), s));
    ended = end_capture(s);
    CHECK(ended == g && count_nodes(g) == 3 && count_edges(g) == 2);
    run(instantiate(g), s);
    CHECK(read_int(p) == 2 && read_int(p + (N - 1) * sizeof(int)) == 1);

    /* What is taken off the set need not be joined. */
    OK(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_GLOBAL));
    fill(s, p, 1, N);
    OK(cuStreamUpdateCaptureDependencies(s, NULL, NULL, 0, CU_STREAM_SET_CAPTURE_DEPENDENCIES));
    fill(s, q, 1, N);
    g = end_capture(s);
    CHECK(count_nodes(g) == 2 && count_edges(g) == 0);
}
