/* behaviour: cuEventSynchronize returns when the work before the record is done, whatever is behind it in the stream.
 * rules: none
 * source: CUDA driver API, cuEventSynchronize
 */
#include "conformance.h"

CONFORMANCE
{
    CUstream s = new_stream(CU_STREAM_NON_BLOCKING);
    CUevent event = new_event(CU_EVENT_DISABLE_TIMING);
    CUdeviceptr p = device_alloc(sizeof(int));
    fill(s, p, 2, 1);
    OK(cuEventRecord(event, s));
    hold_t h = hold(s);
    OK(cuEventSynchronize(event));
    EXPECT(CUDA_SUCCESS, cuEventQuery(event));
    EXPECT(CUDA_ERROR_NOT_READY, cuStreamQuery(s));
    let_go(h);
    OK(cuStreamSynchronize(s));
    CHECK(read_int(p) == 2);
}
