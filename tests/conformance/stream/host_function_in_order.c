/* behaviour: a host function runs when the work before it is done, and before the work behind it; it may not call CUDA.
 * rules: none
 * source: CUDA driver API, cuLaunchHostFunc
 */
#include "conformance.h"

static volatile int *seen, at_call = -1;
static volatile CUresult inside = CUDA_SUCCESS;

static void callback(void *data)
{
    (void)data;
    at_call = *seen;
    inside = cuMemHostAlloc(&(void *){NULL}, 64, 0);
}

CONFORMANCE
{
    CUstream s = new_stream(CU_STREAM_NON_BLOCKING);
    OK(cuMemHostAlloc((void **)&seen, 4096, CU_MEMHOSTALLOC_DEVICEMAP));
    CUdeviceptr p;
    OK(cuMemHostGetDevicePointer(&p, (void *)seen, 0));
    *seen = 0;
    fill(s, p, 1, 1);
    OK(cuLaunchHostFunc(s, callback, NULL));
    fill(s, p, 2, 1);
    OK(cuStreamSynchronize(s));
    CHECK(at_call == 1 && *seen == 2);
    CHECK(inside == CUDA_ERROR_NOT_PERMITTED);
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuLaunchHostFunc(s, NULL, NULL));
}
