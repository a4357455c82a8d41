/* behaviour: elapsed time is between two recorded events with timing: never recorded or without timing is INVALID_HANDLE, not
 * reached yet is NOT_READY.
 * rules: handle
 * source: CUDA driver API, cuEventElapsedTime
 */
#include "conformance.h"

CONFORMANCE
{
    CUstream s = new_stream(CU_STREAM_NON_BLOCKING);
    CUevent a = new_event(0), b = new_event(0), untimed = new_event(CU_EVENT_DISABLE_TIMING);
    float ms = -1;
    EXPECT(CUDA_ERROR_INVALID_HANDLE, cuEventElapsedTime(&ms, a, b));
    OK(cuEventRecord(a, s));
    hold_t h = hold(s);
    OK(cuEventRecord(b, s));
    OK(cuEventRecord(untimed, s));
    EXPECT(CUDA_ERROR_NOT_READY, cuEventElapsedTime(&ms, a, b));
    let_go(h);
    OK(cuStreamSynchronize(s));
    OK(cuEventElapsedTime(&ms, a, b));
    CHECK(ms >= 0);
    EXPECT(CUDA_ERROR_INVALID_HANDLE, cuEventElapsedTime(&ms, a, untimed));
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuEventCreate(&a, 0x100));
}
