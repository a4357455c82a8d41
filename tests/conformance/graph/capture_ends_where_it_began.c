/* behaviour: A capture ends in the stream in which it began: in one that joined, UNMATCHED, and it is invalid; a stream that
 * does not capture says ILLEGAL_STATE, and one that captures cannot begin again.
 * rules: capture
 * source: CUDA driver API, cuStreamEndCapture, CUDA_ERROR_STREAM_CAPTURE_UNMATCHED; the codes: seen by CuPy's tests of graphs
 */
#include "graph/graphs.h"

CONFORMANCE
{
    CUstream other = new_stream(CU_STREAM_NON_BLOCKING);
    CUevent event = new_event(CU_EVENT_DISABLE_TIMING);
    CUgraph g;
    EXPECT(CUDA_ERROR_ILLEGAL_STATE, cuStreamEndCapture(other, &g));
    CUstream s = capturing(CU_STREAM_CAPTURE_MODE_GLOBAL);
    EXPECT(CUDA_ERROR_ILLEGAL_STATE, cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_GLOBAL));
    CHECK(status_of(s) == CU_STREAM_CAPTURE_STATUS_ACTIVE);
    OK(cuEventRecord(event, s));
    OK(cuStreamWaitEvent(other, event, 0));
    EXPECT(CUDA_ERROR_STREAM_CAPTURE_UNMATCHED, cuStreamEndCapture(other, &g));
    expect_invalidated(s);
    OK(cuStreamSynchronize(other));
}
