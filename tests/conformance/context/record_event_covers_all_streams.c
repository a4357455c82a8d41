/* behaviour: cuCtxRecordEvent captures the work of all streams of the context; after cuCtxWaitEvent all its streams, later
 * ones too, wait.
 * rules: none
 * source: CUDA driver API, cuCtxRecordEvent and cuCtxWaitEvent
 */
#include "conformance.h"

CONFORMANCE
{
    CUstream a = new_stream(CU_STREAM_NON_BLOCKING), b = new_stream(CU_STREAM_NON_BLOCKING);
    CUevent event = new_event(CU_EVENT_DISABLE_TIMING), gate = new_event(CU_EVENT_DISABLE_TIMING);
    CUdeviceptr p = device_alloc(4096);
    OK(cuMemsetD32(p, 0, 16));
    OK(cuCtxSynchronize());
    hold_t h = hold(a);
    CUresult recorded = cuCtxRecordEvent(context, event);
    if (recorded == CUDA_ERROR_NOT_SUPPORTED)
        SKIP("cuCtxRecordEvent is not supported");
    OK(recorded);
    fill(b, p, 1, 1); /* after the record: not covered */
    EXPECT(CUDA_ERROR_NOT_READY, cuEventQuery(event));
    OK(cuStreamSynchronize(b));
    EXPECT(CUDA_ERROR_NOT_READY, cuEventQuery(event));
    OK(cuEventRecord(gate, a));
    OK(cuCtxWaitEvent(context, gate));
    CUstream late = new_stream(CU_STREAM_NON_BLOCKING);
    fill(b, p, 2, 1);
    fill(late, p + 4, 3, 1);
    EXPECT(CUDA_ERROR_NOT_READY, cuStreamQuery(b));
    EXPECT(CUDA_ERROR_NOT_READY, cuStreamQuery(late));
    let_go(h);
    OK(cuCtxSynchronize());
    EXPECT(CUDA_SUCCESS, cuEventQuery(event));
    CHECK(read_int(p) == 2 && read_int(p + 4) == 3);
}
