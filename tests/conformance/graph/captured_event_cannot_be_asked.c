/* behaviour: An event that was last recorded in a capturing stream can neither be queried nor waited for by the host:
 * CAPTURED_EVENT, and the capture is invalid. Recorded again outside it is an ordinary event.
 * rules: capture
 * source: CUDA driver API, CUDA_ERROR_CAPTURED_EVENT; CUDA Programming Guide, Stream Capture
 */
#include "graph/graphs.h"

CONFORMANCE
{
    CUevent event = new_event(CU_EVENT_DISABLE_TIMING);
    CUstream s = capturing(CU_STREAM_CAPTURE_MODE_RELAXED);
    OK(cuEventRecord(event, s));
    EXPECT(CUDA_ERROR_CAPTURED_EVENT, cuEventQuery(event));
    expect_invalidated(s);

    OK(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_RELAXED));
    OK(cuEventRecord(event, s));
    EXPECT(CUDA_ERROR_CAPTURED_EVENT, cuEventSynchronize(event));
    expect_invalidated(s);

    OK(cuEventRecord(event, s));
    EXPECT(CUDA_SUCCESS, cuEventSynchronize(event));
    EXPECT(CUDA_SUCCESS, cuEventQuery(event));
}
