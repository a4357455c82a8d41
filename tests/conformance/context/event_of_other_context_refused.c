/* behaviour: an event is recorded only in a stream of its own context; a stream may wait for an event of any.
 * rules: context
 * source: CUDA driver API, cuEventRecord and cuStreamWaitEvent
 */
#include "conformance.h"

CONFORMANCE
{
    CUstream here = new_stream(0);
    CUevent event_here = new_event(CU_EVENT_DISABLE_TIMING);
    CUcontext other;
    OK(cuCtxCreate(&other, NULL, 0, device));
    CUstream there = new_stream(0);
    CUevent event_there = new_event(CU_EVENT_DISABLE_TIMING);

    EXPECT(CUDA_ERROR_INVALID_HANDLE, cuEventRecord(event_here, there));
    EXPECT(CUDA_ERROR_INVALID_HANDLE, cuEventRecord(event_there, here));
    EXPECT(CUDA_ERROR_INVALID_HANDLE, cuEventRecord(event_here, NULL)); /* the current context's stream */
    EXPECT(CUDA_SUCCESS, cuEventRecord(event_here, here));
    EXPECT(CUDA_SUCCESS, cuEventRecord(event_there, there));
    EXPECT(CUDA_SUCCESS, cuStreamWaitEvent(there, event_here, 0));
    EXPECT(CUDA_SUCCESS, cuStreamWaitEvent(here, event_there, 0));
    OK(cuEventSynchronize(event_here));
    OK(cuCtxDestroy(other));
    OK(cuStreamSynchronize(here));
}
