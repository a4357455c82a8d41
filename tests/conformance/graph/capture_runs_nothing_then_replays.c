/* behaviour: Work in a capturing stream does not run; each launch of the graph runs it, in the order of capture.
 * rules: none
 * source: CUDA driver API, cuStreamBeginCapture
 */
#include "graph/graphs.h"

CONFORMANCE
{
    CUdeviceptr p = device_alloc(N * sizeof(int));
    fill(NULL, p, 1, N);
    OK(cuCtxSynchronize());

    CUstream s = capturing(CU_STREAM_CAPTURE_MODE_GLOBAL);
    CHECK(status_of(s) == CU_STREAM_CAPTURE_STATUS_ACTIVE);
    fill(s, p, 10, N);
    add(s, p, 5, N);
    add(s, p, 7, N);
    CUgraph g = end_capture(s);
    CHECK(status_of(s) == CU_STREAM_CAPTURE_STATUS_NONE);
    OK(cuStreamSynchronize(s));
    CHECK(all_equal(p, 1, N));
    CHECK(count_nodes(g) == 3 && count_edges(g) == 2);

    CUgraphExec e = instantiate(g);
    OK(cuGraphDestroy(g)); /* what was instantiated does not need it */
    for (int i = 0; i < 3; i++) {
        fill(s, p, -1, N);
        run(e, s);
        CHECK(all_equal(p, 22, N));
    }
    OK(cuGraphExecDestroy(e));
}
