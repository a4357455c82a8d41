/* behaviour: an event may be destroyed while its record and waits for it are pending; they are not affected.
 * rules: none
 * source: CUDA driver API, cuEventDestroy
 */
#include "conformance.h"

CONFORMANCE
{
    CUstream a = new_stream(CU_STREAM_NON_BLOCKING), b = new_stream(CU_STREAM_NON_BLOCKING);
    CUevent event = new_event(0);
    CUdeviceptr p = device_alloc(sizeof(int));
    hold_t h = hold(a);
    fill(a, p, 1, 1);
    OK(cuEventRecord(event, a));
    OK(cuStreamWaitEvent(b, event, 0));
    add(b, p, 1, 1);
    OK(cuEventDestroy(event));
    EXPECT(CUDA_ERROR_NOT_READY, cuStreamQuery(b));
    let_go(h);
    OK(cuStreamSynchronize(b));
    CHECK(read_int(p) == 2);
}
