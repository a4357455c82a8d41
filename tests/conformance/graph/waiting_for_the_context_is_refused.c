/* behaviour: cuCtxSynchronize while a stream of the context captures is UNSUPPORTED and invalidates the capture, in every
 * mode.
 * rules: capture
 * source: CUDA Programming Guide, Stream Capture, Prohibited and Unhandled Operations
 */
#include "graph/graphs.h"

CONFORMANCE
{
    static const CUstreamCaptureMode modes[] = {
        CU_STREAM_CAPTURE_MODE_GLOBAL, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL, CU_STREAM_CAPTURE_MODE_RELAXED};
    for (int i = 0; i < 3; i++) {
        CUstream s = capturing(modes[i]);
        EXPECT(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, cuCtxSynchronize());
        expect_invalidated(s);
        EXPECT(CUDA_SUCCESS, cuCtxSynchronize());
    }
}
