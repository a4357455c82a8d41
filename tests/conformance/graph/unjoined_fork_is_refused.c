/* behaviour: A capture cannot end while work of a stream that joined it is not waited for: UNJOINED, no graph, and all
 * streams leave the capture.
 * rules: capture
 * source: CUDA Programming Guide, Stream Capture, Cross-stream Dependencies and Events
 */
#include "graph/graphs.h"

CONFORMANCE
{
    CUdeviceptr p = device_alloc(N * sizeof(int));
    fill(NULL, p, 3, N);
    OK(cuCtxSynchronize());
    CUstream other = new_stream(CU_STREAM_NON_BLOCKING);
    CUevent fork = new_event(CU_EVENT_DISABLE_TIMING), join = new_event(CU_EVENT_DISABLE_TIMING);
    CUstream s = capturing(CU_STREAM_CAPTURE_MODE_GLOBAL);
    OK(cuEventRecord(fork, s));
    OK(cuStreamWaitEvent(other, fork, 0));
    add(other, p, 1, N);
    OK(cuEventRecord(join, other));
    OK(cuStreamWaitEvent(s, join, 0));
    add(other, p, 1, N); /* behind the join */
    CUgraph g = (CUgraph)1;
    EXPECT(CUDA_ERROR_STREAM_CAPTURE_UNJOINED, cuStreamEndCapture(s, &g));
    CHECK(!g);
    CHECK(status_of(s) == CU_STREAM_CAPTURE_STATUS_NONE);
    CHECK(status_of(other) == CU_STREAM_CAPTURE_STATUS_NONE);
    OK(cuStreamSynchronize(s));
    OK(cuStreamSynchronize(other));
    CHECK(all_equal(p, 3, N));
}
