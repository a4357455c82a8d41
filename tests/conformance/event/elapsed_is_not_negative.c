/* behaviour: between two records of one stream no negative time elapses, nor between a record and one that had to wait for
 * it on another stream.
 * rules: none
 * source: CUDA driver API, cuEventElapsedTime
 */
#include "conformance.h"

CONFORMANCE
{
    CUstream a = new_stream(CU_STREAM_NON_BLOCKING), b = new_stream(CU_STREAM_NON_BLOCKING);
    CUevent e[3] = {new_event(0), new_event(0), new_event(0)};
    CUdeviceptr p = device_alloc(1 << 20);
    float ms[3] = {-1, -1, -1};
    OK(cuEventRecord(e[0], a));
    fill(a, p, 1, 1 << 18);
    OK(cuEventRecord(e[1], a));
    OK(cuStreamWaitEvent(b, e[1], 0));
    fill(b, p, 2, 1 << 18);
    OK(cuEventRecord(e[2], b));
    OK(cuCtxSynchronize());
    OK(cuEventElapsedTime(&ms[0], e[0], e[1]));
    OK(cuEventElapsedTime(&ms[1], e[1], e[2]));
    OK(cuEventElapsedTime(&ms[2], e[0], e[0]));
    CHECK(ms[0] >= 0);
    CHECK(ms[1] >= 0);
    CHECK(ms[2] == 0);
}
