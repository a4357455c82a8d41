/* behaviour: A stream that waits for an event of a capturing stream joins the capture; its work becomes part of the
 * graph, with the dependencies that the events give; it leaves with the capture's end.
 * rules: none
 * source: CUDA Programming Guide, Stream Capture, Cross-stream Dependencies and Events
 */
#include "graph/graphs.h"

CONFORMANCE
{
    CUdeviceptr p = device_alloc(N * sizeof(int)), q = device_alloc(N * sizeof(int));
    CUstream other = new_stream(CU_STREAM_NON_BLOCKING);
    CUevent fork = new_event(CU_EVENT_DISABLE_TIMING), join = new_event(CU_EVENT_DISABLE_TIMING);

    CUstream s = capturing(CU_STREAM_CAPTURE_MODE_GLOBAL);
    fill(s, p, 1, N);
    OK(cuEventRecord(fork, s));
    CHECK(status_of(other) == CU_STREAM_CAPTURE_STATUS_NONE);
    OK(cuStreamWaitEvent(other, fork, 0));
    CHECK(status_of(other) == CU_STREAM_CAPTURE_STATUS_ACTIVE);
    fill(other, q, 2, N);
    add(s, p, 1, N);
    OK(cuEventRecord(join, other));
    OK(cuStreamWaitEvent(s, join, 0));
    OK(cuMemcpyDtoDAsync(p, q, N / 2 * sizeof(int), s));
    CUgraph g = end_capture(s);
    CHECK(status_of(other) == CU_STREAM_CAPTURE_STATUS_NONE);

    CHECK(count_nodes(g) == 4 && count_edges(g) == 4);
    CUgraphNode last = only_node(g, CU_GRAPH_NODE_TYPE_MEMCPY), deps[4];
    size_t count = 4;
    OK(cuGraphNodeGetDependencies(last, deps, NULL, &count));
    CHECK(count == 2 && deps[2] == NULL);

    CUgraphExec e = instantiate(g);
    run(e, s);
    CHECK(all_equal(p, 2, N));
    CHECK(all_equal(q, 2, N));
    fill(other, q, 9, 8); /* an ordinary stream again */
    OK(cuStreamSynchronize(other));
    CHECK(read_int(q) == 9);
}
