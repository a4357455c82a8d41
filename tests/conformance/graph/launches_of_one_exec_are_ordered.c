/* behaviour: A launch of an executable graph waits for what its stream holds and for earlier launches of the same one, in
 * whatever stream these were.
 * rules: none
 * source: CUDA driver API, cuGraphLaunch
 */
#include "graph/graphs.h"

CONFORMANCE
{
    CUdeviceptr p = device_alloc(N * sizeof(int));
    fill(NULL, p, 0, N);
    OK(cuCtxSynchronize());
    CUstream a = new_stream(CU_STREAM_NON_BLOCKING), b = new_stream(CU_STREAM_NON_BLOCKING);
    CUgraph g = new_graph();
    kernel_node(g, NULL, 0, "add", p, 1, N);
    CUgraphExec e = instantiate(g);
    hold_t h = hold(a);
    OK(cuGraphLaunch(e, a));
    OK(cuGraphLaunch(e, b)); /* b is idle, but the launch in a is not over */
    fill(b, p, 50, N);
    CHECK(read_int(p) == 0);
    EXPECT(CUDA_ERROR_NOT_READY, cuStreamQuery(b));
    let_go(h);
    OK(cuStreamSynchronize(b));
    CHECK(all_equal(p, 50, N));
    OK(cuStreamSynchronize(a));
    CHECK(all_equal(p, 50, N));
    OK(cuGraphLaunch(e, b));
    OK(cuStreamSynchronize(b));
    CHECK(all_equal(p, 51, N));
}
