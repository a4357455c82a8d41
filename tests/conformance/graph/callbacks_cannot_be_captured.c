/* behaviour: cuStreamAddCallback fails on a capturing stream, and the capture is invalid.
 * rules: capture
 * source: CUDA driver API, cuStreamAddCallback
 */
#include "graph/graphs.h"

static void CUDA_CB nothing(CUstream stream, CUresult status, void *data)
{
    (void)stream, (void)status, (void)data;
}

CONFORMANCE
{
    CUstream s = capturing(CU_STREAM_CAPTURE_MODE_RELAXED);
    CHECK(cuStreamAddCallback(s, nothing, NULL, 0) != CUDA_SUCCESS);
    expect_invalidated(s);
}
