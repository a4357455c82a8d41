/* behaviour: A capture can put its nodes into a graph that exists, behind given nodes of it; the end gives back that graph. It
 * may be instantiated meanwhile.
 * rules: none
 * source: CUDA driver API, cuStreamBeginCaptureToGraph; H200, driver 580.159.04
 */
#include "graph/graphs.h"

CONFORMANCE
{
    CUdeviceptr p = device_alloc(N * sizeof(int));
    CUgraph g = new_graph();
    CUgraphNode first = kernel_node(g, NULL, 0, "fill", p, 3, N);
    CUstream s = new_stream(CU_STREAM_NON_BLOCKING);
    OK(cuStreamBeginCaptureToGraph(s, g, &first, NULL, 1, CU_STREAM_CAPTURE_MODE_GLOBAL));
    add(s, p, 4, N);
    CHECK(end_capture(s) == g);
    CHECK(count_nodes(g) == 2 && count_edges(g) == 1);
    run(instantiate(g), s);
    CHECK(all_equal(p, 7, N));

    CUgraphExec e = NULL;
    OK(cuStreamBeginCaptureToGraph(s, g, NULL, NULL, 0, CU_STREAM_CAPTURE_MODE_RELAXED));
    EXPECT(CUDA_SUCCESS, cuGraphInstantiate(&e, g, 0));
    CHECK(end_capture(s) == g);
}
