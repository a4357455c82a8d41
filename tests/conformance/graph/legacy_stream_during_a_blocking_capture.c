/* behaviour: While a blocking stream captures, the legacy stream cannot be used: IMPLICIT, and the capture is invalid. Only
 * asking whether it captures, which is IMPLICIT too, leaves the capture valid. A non-blocking stream's capture does not
 * concern the legacy stream.
 * rules: capture
 * source: CUDA driver API, cuStreamIsCapturing; CUDA Programming Guide, Stream Capture
 */
#include "graph/graphs.h"

CONFORMANCE
{
    CUdeviceptr p = device_alloc(N * sizeof(int));
    int value = 6, n = N;
    CUstream s = new_stream(CU_STREAM_DEFAULT);
    CUstreamCaptureStatus status;
    OK(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    fill(s, p, 5, N);
    EXPECT(CUDA_ERROR_STREAM_CAPTURE_IMPLICIT, cuStreamIsCapturing(CU_STREAM_LEGACY, &status));
    CHECK(status_of(s) == CU_STREAM_CAPTURE_STATUS_ACTIVE);
    EXPECT(CUDA_ERROR_STREAM_CAPTURE_IMPLICIT, LAUNCH(CU_STREAM_LEGACY, "fill", 4, &p, &value, &n));
    expect_invalidated(s);

    OK(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_RELAXED));
    EXPECT(CUDA_ERROR_STREAM_CAPTURE_IMPLICIT, cuMemcpyDtoH(&value, p, sizeof value));
    expect_invalidated(s);

    CUstream free_stream = capturing(CU_STREAM_CAPTURE_MODE_RELAXED);
    value = 6;
    EXPECT(CUDA_SUCCESS, cuStreamIsCapturing(CU_STREAM_LEGACY, &status));
    CHECK(status == CU_STREAM_CAPTURE_STATUS_NONE);
    EXPECT(CUDA_SUCCESS, LAUNCH(CU_STREAM_LEGACY, "fill", 4, &p, &value, &n));
    OK(cuGraphDestroy(end_capture(free_stream)));
    CHECK(all_equal(p, 6, N));
}
