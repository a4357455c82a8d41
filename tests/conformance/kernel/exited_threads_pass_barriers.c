/* behaviour: a barrier waits for the threads of the block that have not exited (compute capability 7.0 and later).
 * rules: none
 * source: CUDA C++ Programming Guide, Compute Capability 7.x, Independent Thread Scheduling
 */
#include "conformance.h"

CONFORMANCE
{
    int got[128], stay = 77;
    CUdeviceptr out = device_alloc(sizeof got);
    OK(cuMemsetD8(out, 0, sizeof got));
    OK(cuLaunchKernel(kernel("some_leave"), 1, 1, 1, 128, 1, 1, 0, NULL, (void *[]){&out, &stay}, NULL));
    OK(cuMemcpyDtoH(got, out, sizeof got));
    for (int i = 0; i < 128; i++)
        CHECK(got[i] == (i < stay ? stay : 0));
    OK(cuMemFree(out));
}
