/* behaviour: an event that is recorded again stands for the new record only: it is done when that one is, whatever the old one
 * was.
 * rules: none
 * source: CUDA driver API, cuEventRecord
 */
#include "conformance.h"

CONFORMANCE
{
    CUstream busy = new_stream(CU_STREAM_NON_BLOCKING), idle = new_stream(CU_STREAM_NON_BLOCKING);
    CUevent event = new_event(CU_EVENT_DISABLE_TIMING);
    hold_t h = hold(busy);
    OK(cuEventRecord(event, idle));
    OK(cuEventSynchronize(event));
    OK(cuEventRecord(event, busy));
    EXPECT(CUDA_ERROR_NOT_READY, cuEventQuery(event));
    OK(cuEventRecord(event, idle));
    OK(cuEventSynchronize(event));
    EXPECT(CUDA_SUCCESS, cuEventQuery(event));
    EXPECT(CUDA_ERROR_NOT_READY, cuStreamQuery(busy));
    let_go(h);
    OK(cuStreamSynchronize(busy));
}
