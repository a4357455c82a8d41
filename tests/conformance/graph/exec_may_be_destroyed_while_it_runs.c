/* behaviour: An executable graph that is destroyed while it runs finishes; so does one whose graph is destroyed.
 * rules: none
 * source: CUDA driver API, cuGraphExecDestroy
 */
#include "graph/graphs.h"

CONFORMANCE
{
    CUdeviceptr p = device_alloc(N * sizeof(int)), q = device_alloc(N * sizeof(int));
    CUstream s = new_stream(CU_STREAM_NON_BLOCKING);
    CUgraph g = new_graph();
    CUgraphNode a = kernel_node(g, NULL, 0, "fill", p, 8, N);
    kernel_node(g, NULL, 0, "fill", q, 9, N);
    kernel_node(g, &a, 1, "add", p, 1, N);
    CUgraphExec e = instantiate(g);
    hold_t h = hold(s);
    OK(cuGraphLaunch(e, s));
    OK(cuGraphExecDestroy(e));
    OK(cuGraphDestroy(g));
    let_go(h);
    OK(cuStreamSynchronize(s));
    CHECK(all_equal(p, 9, N) && all_equal(q, 9, N));
}
