/* behaviour: A capturing stream can neither be waited for nor asked whether it is idle: UNSUPPORTED, and the capture is
 * invalid from then on; what is launched in it and its end say INVALIDATED.
 * rules: capture
 * source: CUDA Programming Guide, Stream Capture, Prohibited and Unhandled Operations; Invalidation
 */
#include "graph/graphs.h"

CONFORMANCE
{
    CUdeviceptr p = device_alloc(N * sizeof(int));
    CUstream s = capturing(CU_STREAM_CAPTURE_MODE_RELAXED);
    fill(s, p, 1, N);
    EXPECT(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, cuStreamSynchronize(s));
    CHECK(status_of(s) == CU_STREAM_CAPTURE_STATUS_INVALIDATED);
    int value = 1, n = N;
    EXPECT(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, LAUNCH(s, "add", 4, &p, &value, &n));
    expect_invalidated(s);

    OK(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_RELAXED));
    EXPECT(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, cuStreamQuery(s));
    expect_invalidated(s);
    EXPECT(CUDA_SUCCESS, cuStreamQuery(s));
}
