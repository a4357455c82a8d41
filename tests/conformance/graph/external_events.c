/* behaviour: With the EXTERNAL flag a record or a wait becomes a node: each launch records the event, or waits for what it
 * stands for then. Outside a capture the flag is invalid.
 * rules: none
 * source: CUDA driver API, cuEventRecordWithFlags, cuStreamWaitEvent, cuGraphAddEventRecordNode
 */
#include "graph/graphs.h"

CONFORMANCE
{
    CUdeviceptr p = device_alloc(N * sizeof(int)), q = device_alloc(N * sizeof(int));
    CUstream other = new_stream(CU_STREAM_NON_BLOCKING);
    CUevent done = new_event(CU_EVENT_DISABLE_TIMING), go = new_event(CU_EVENT_DISABLE_TIMING);
    CHECK(cuEventRecordWithFlags(done, other, CU_EVENT_RECORD_EXTERNAL) != CUDA_SUCCESS);
    CHECK(cuStreamWaitEvent(other, go, CU_EVENT_WAIT_EXTERNAL) != CUDA_SUCCESS);

    CUstream s = capturing(CU_STREAM_CAPTURE_MODE_RELAXED);
    OK(cuStreamWaitEvent(s, go, CU_EVENT_WAIT_EXTERNAL));
    OK(cuMemcpyDtoDAsync(q, p, N * sizeof(int), s));
    OK(cuEventRecordWithFlags(done, s, CU_EVENT_RECORD_EXTERNAL));
    EXPECT(CUDA_SUCCESS, cuEventQuery(done)); /* not captured: it is as before */
    CUgraph g = end_capture(s);
    CUevent event = NULL;
    OK(cuGraphEventWaitNodeGetEvent(only_node(g, CU_GRAPH_NODE_TYPE_WAIT_EVENT), &event));
    CHECK(event == go);
    OK(cuGraphEventRecordNodeGetEvent(only_node(g, CU_GRAPH_NODE_TYPE_EVENT_RECORD), &event));
    CHECK(event == done);

    CUgraphExec e = instantiate(g);
    for (int round = 1; round < 4; round++) {
        hold_t h = hold(other);
        fill(other, p, round, N);
        OK(cuEventRecord(go, other));
        OK(cuGraphLaunch(e, s));
        EXPECT(CUDA_ERROR_NOT_READY, cuEventQuery(done));
        let_go(h);
        OK(cuEventSynchronize(done));
        CHECK(all_equal(q, round, N));
    }
}
