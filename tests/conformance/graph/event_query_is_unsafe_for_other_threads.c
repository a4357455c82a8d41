/* behaviour: While a global capture goes on, another thread may not ask about an event, even one that has nothing to do with
 * the capture, unless its own mode says otherwise.
 * rules: capture
 * source: CUDA driver API, cuThreadExchangeStreamCaptureMode; seen by PyTorch (pytorch/pytorch 104487, 148594)
 */
#include "graph/graphs.h"

static CUevent event;

static void ask(void *data)
{
    EXPECT(*(const CUresult *)data, cuEventQuery(event));
}

static void ask_thread_locally(void *data)
{
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
    OK(cuThreadExchangeStreamCaptureMode(&mode));
    ask(data);
}

CONFORMANCE
{
    CUstream outside = new_stream(CU_STREAM_NON_BLOCKING);
    event = new_event(CU_EVENT_DISABLE_TIMING);
    OK(cuEventRecord(event, outside));
    OK(cuStreamSynchronize(outside));
    CUresult expected = CUDA_SUCCESS;
    CUstream s = capturing(CU_STREAM_CAPTURE_MODE_GLOBAL);
    on_another_thread(ask_thread_locally, &expected);
    CHECK(status_of(s) == CU_STREAM_CAPTURE_STATUS_ACTIVE);
    expected = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    on_another_thread(ask, &expected);
    expect_invalidated(s);
}
