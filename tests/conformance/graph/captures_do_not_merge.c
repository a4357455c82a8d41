/* behaviour: A capturing stream cannot wait for an event of another capture: MERGE, and both are invalid.
 * rules: capture
 * source: CUDA driver API, CUDA_ERROR_STREAM_CAPTURE_MERGE; CUDA Programming Guide, Stream Capture
 */
#include "graph/graphs.h"

CONFORMANCE
{
    CUevent event = new_event(CU_EVENT_DISABLE_TIMING);
    CUstream a = capturing(CU_STREAM_CAPTURE_MODE_GLOBAL), b = capturing(CU_STREAM_CAPTURE_MODE_GLOBAL);
    cuuint64_t id_a = 0, id_b = 0;
    CUstreamCaptureStatus status;
    OK(cuStreamGetCaptureInfo(a, &status, &id_a, NULL, NULL, NULL, NULL));
    OK(cuStreamGetCaptureInfo(b, &status, &id_b, NULL, NULL, NULL, NULL));
    CHECK(id_a != id_b);
    OK(cuEventRecord(event, a));
    EXPECT(CUDA_ERROR_STREAM_CAPTURE_MERGE, cuStreamWaitEvent(b, event, 0));
    CUgraph g;
    EXPECT(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, cuStreamEndCapture(b, &g));
    EXPECT(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, cuStreamEndCapture(a, &g));
    OK(cuStreamSynchronize(a));
    OK(cuStreamSynchronize(b));
}
