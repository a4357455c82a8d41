/* behaviour: cuEventElapsedTime says NOT_READY while one of the two records has not happened, and what was held back counts.
 * rules: none
 * source: CUDA driver API, cuEventElapsedTime
 */
#include "conformance.h"

CONFORMANCE
{
    CUstream held = new_stream(CU_STREAM_NON_BLOCKING), other = new_stream(CU_STREAM_NON_BLOCKING);
    CUevent before = new_event(0), behind = new_event(0), meanwhile = new_event(0);
    float ms = -1;
    OK(cuEventRecord(before, held));
    hold_t h = hold(held);
    OK(cuEventRecord(behind, held));
    EXPECT(CUDA_ERROR_NOT_READY, cuEventElapsedTime(&ms, before, behind));
    EXPECT(CUDA_ERROR_NOT_READY, cuEventElapsedTime(&ms, behind, before));
    OK(cuEventRecord(meanwhile, other));
    OK(cuEventSynchronize(meanwhile));
    let_go(h);
    OK(cuEventSynchronize(behind));
    OK(cuEventElapsedTime(&ms, before, behind));
    CHECK(ms >= 0);
    OK(cuEventElapsedTime(&ms, meanwhile, behind)); /* it was let go after that */
    CHECK(ms >= 0);
}
