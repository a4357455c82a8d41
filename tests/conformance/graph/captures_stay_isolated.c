/* behaviour: A capturing stream cannot wait for an event that was recorded outside of the capture: ISOLATION, and the
 * capture is invalid.
 * rules: capture
 * source: CUDA driver API, CUDA_ERROR_STREAM_CAPTURE_ISOLATION
 */
#include "graph/graphs.h"

CONFORMANCE
{
    CUstream outside = new_stream(CU_STREAM_NON_BLOCKING);
    CUevent event = new_event(CU_EVENT_DISABLE_TIMING);
    OK(cuEventRecord(event, outside));
    OK(cuStreamSynchronize(outside));
    CUstream s = capturing(CU_STREAM_CAPTURE_MODE_GLOBAL);
    EXPECT(CUDA_ERROR_STREAM_CAPTURE_ISOLATION, cuStreamWaitEvent(s, event, 0));
    expect_invalidated(s);
}
