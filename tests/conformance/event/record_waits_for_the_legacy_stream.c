/* behaviour: an event that is recorded on a blocking stream comes after what the legacy default stream was given before, also where the
 * blocking stream has had nothing to do since.
 * rules: none
 * source: CUDA driver API, Stream synchronization behavior, Legacy default stream
 */
#include "conformance.h"

CONFORMANCE
{
    CUstream blocking = new_stream(CU_STREAM_DEFAULT), other = new_stream(CU_STREAM_NON_BLOCKING);
    CUdeviceptr p = device_alloc(sizeof(int));
    CUevent event = new_event(CU_EVENT_DISABLE_TIMING);
    OK(cuMemsetD32(p, 0, 1));
    OK(cuCtxSynchronize());

    hold_t h = hold(NULL);
    fill(NULL, p, 1, 1);
    OK(cuEventRecord(event, blocking));
    EXPECT(CUDA_ERROR_NOT_READY, cuEventQuery(event));
    OK(cuStreamWaitEvent(other, event, 0));
    add(other, p, 10, 1);
    let_go(h);
    OK(cuStreamSynchronize(other));
    OK(cuEventQuery(event));
    CHECK(read_int(p) == 11);
}
