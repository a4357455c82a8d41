/* behaviour: cuEventElapsedTime refuses events without timing and events that were never recorded.
 * rules: none
 * source: CUDA driver API, cuEventElapsedTime
 */
#include "conformance.h"

CONFORMANCE
{
    CUevent timed = new_event(0), untimed = new_event(CU_EVENT_DISABLE_TIMING), never = new_event(0);
    float ms;
    OK(cuEventRecord(timed, NULL));
    OK(cuEventRecord(untimed, NULL));
    OK(cuCtxSynchronize());
    EXPECT(CUDA_ERROR_INVALID_HANDLE, cuEventElapsedTime(&ms, timed, untimed));
    EXPECT(CUDA_ERROR_INVALID_HANDLE, cuEventElapsedTime(&ms, untimed, timed));
    EXPECT(CUDA_ERROR_INVALID_HANDLE, cuEventElapsedTime(&ms, timed, never));
    OK(cuEventElapsedTime(&ms, timed, timed));
}
