/* behaviour: cuStreamWaitEvent waits for the record that the event held when it was called; recording again later does
 * not move it, and an event that was never recorded is not waited for.
 * rules: none
 * source: CUDA driver API, cuStreamWaitEvent and cuEventRecord
 */
#include "conformance.h"

CONFORMANCE
{
    CUstream a = new_stream(CU_STREAM_NON_BLOCKING), b = new_stream(CU_STREAM_NON_BLOCKING);
    CUstream held = new_stream(CU_STREAM_NON_BLOCKING);
    CUevent event = new_event(CU_EVENT_DISABLE_TIMING);

    OK(cuStreamWaitEvent(b, event, 0));
    OK(cuStreamSynchronize(b));

    OK(cuEventRecord(event, a));
    OK(cuStreamWaitEvent(b, event, 0));
    hold_t h = hold(held);
    OK(cuEventRecord(event, held));
    OK(cuStreamSynchronize(b)); /* returns: it waits for the record in a */
    EXPECT(CUDA_ERROR_NOT_READY, cuEventQuery(event));
    let_go(h);
    OK(cuEventSynchronize(event));
}
