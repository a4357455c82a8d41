/* behaviour: a stream that waits for an event does nothing until the work before the event is done.
 * rules: none
 * source: CUDA driver API, cuStreamWaitEvent
 */
#include "conformance.h"

CONFORMANCE
{
    CUstream a = new_stream(CU_STREAM_NON_BLOCKING), b = new_stream(CU_STREAM_NON_BLOCKING);
    CUevent done = new_event(CU_EVENT_DISABLE_TIMING);
    CUdeviceptr p = device_alloc(sizeof(int));
    OK(cuMemsetD32(p, 0, 1));
    OK(cuCtxSynchronize());

    hold_t h = hold(a);
    OK(cuEventRecord(done, a));
    OK(cuStreamWaitEvent(b, done, 0));
    fill(b, p, 1, 1);
    for (int i = 0; i < 100; i++)
        EXPECT(CUDA_ERROR_NOT_READY, cuStreamQuery(b));
    let_go(h);
    OK(cuStreamSynchronize(b));
    EXPECT(CUDA_SUCCESS, cuEventQuery(done));
    CHECK(read_int(p) == 1);
}
