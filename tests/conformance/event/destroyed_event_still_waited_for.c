/* behaviour: destroying an event does not undo waits for it.
 * rules: none
 * source: CUDA driver API, cuEventDestroy
 */
#include "conformance.h"

CONFORMANCE
{
    CUstream a = new_stream(CU_STREAM_NON_BLOCKING), b = new_stream(CU_STREAM_NON_BLOCKING);
    CUevent e = new_event(CU_EVENT_DISABLE_TIMING);
    CUdeviceptr p = device_alloc(64);
    OK(cuMemsetD32(p, 0, 1));
    OK(cuCtxSynchronize());
    hold_t h = hold(a);
    add(a, p, 2, 1);
    OK(cuEventRecord(e, a));
    OK(cuStreamWaitEvent(b, e, 0));
    OK(cuEventDestroy(e));
    add(b, p, 1, 1);
    EXPECT(CUDA_ERROR_NOT_READY, cuStreamQuery(b));
    let_go(h);
    OK(cuStreamSynchronize(b));
    CHECK(read_int(p) == 3);
}
