/* behaviour: a function of a module runs in streams of the module's context only.
 * rules: context
 * source: CUDA programming guide, Stream and Event Behavior
 */
#include "conformance.h"

CONFORMANCE
{
    CUstream here = new_stream(0);
    CUdeviceptr p = device_alloc(4096);
    int value = 3, n = 16;
    fill(here, p, 1, n);
    CUfunction mine = kernel("fill");
    CUcontext other;
    OK(cuCtxCreate(&other, NULL, 0, device));
    CUstream there = new_stream(0);
    void *arguments[] = {&p, &value, &n};
    EXPECT(CUDA_ERROR_INVALID_HANDLE, cuLaunchKernel(mine, 1, 1, 1, 32, 1, 1, 0, there, arguments, NULL));
    OK(cuCtxDestroy(other));
    OK(cuStreamSynchronize(here));
    CHECK(read_int(p) == 1);
}
