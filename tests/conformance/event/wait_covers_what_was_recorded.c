/* behaviour: a wait covers what the event had captured when the wait was called; recording again later changes nothing.
 * rules: none
 * source: CUDA driver API, cuEventRecord and cuStreamWaitEvent
 */
#include "conformance.h"

CONFORMANCE
{
    CUstream a = new_stream(CU_STREAM_NON_BLOCKING), b = new_stream(CU_STREAM_NON_BLOCKING);
    CUevent e = new_event(CU_EVENT_DISABLE_TIMING);
    CUdeviceptr p = device_alloc(64);
    OK(cuEventRecord(e, a)); /* nothing to wait for */
    OK(cuStreamWaitEvent(b, e, 0));
    hold_t h = hold(a);
    OK(cuEventRecord(e, a)); /* now there is */
    fill(b, p, 5, 1);
    OK(cuStreamSynchronize(b));
    CHECK(read_int(p) == 5);
    OK(cuStreamWaitEvent(b, e, 0));
    fill(b, p, 6, 1);
    EXPECT(CUDA_ERROR_NOT_READY, cuStreamQuery(b));
    let_go(h);
    OK(cuStreamSynchronize(b));
    CHECK(read_int(p) == 6);
}
