/* behaviour: a buffer of arguments may end anywhere: what the kernel finds behind its end is anything.
 * rules: none
 * source: NVIDIA/nccl, src/enqueue.cc: ncclLaunchKernel passes kernelArgsSize bytes of an argument of 4096; H200, driver 580.159.04
 */
#include "conformance.h"

CONFORMANCE
{
    enum { N = 12 };
    CUdeviceptr p = device_alloc(4096);
    CUfunction f = kernel("take");
    char buffer[4096];
    size_t offset[3], size[3];
    const int n = N;
    for (size_t i = 0; i < 3; i++)
        OK(cuFuncGetParamInfo(f, i, &offset[i], &size[i]));
    CHECK(size[2] == 4000);
    memcpy(buffer + offset[0], &p, sizeof p);
    memcpy(buffer + offset[1], &n, sizeof n);
    for (int i = 0; i < N; i++)
        memcpy(buffer + offset[2] + (size_t)i * sizeof i, &i, sizeof i);
    size_t bytes = (offset[2] + N * sizeof(int) + 15) / 16 * 16;
    void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, buffer, CU_LAUNCH_PARAM_BUFFER_SIZE, &bytes,
                     CU_LAUNCH_PARAM_END};
    OK(cuMemsetD32(p, 77, 1024));
    OK(cuLaunchKernel(f, 1, 1, 1, 32, 1, 1, 0, NULL, NULL, extra));
    OK(cuCtxSynchronize());
    for (int i = 0; i < N; i++)
        CHECK(read_int(p + (CUdeviceptr)i * sizeof i) == i);
    CHECK(read_int(p + N * sizeof(int)) == 77);

    /* Without all of the last one, without half of the second, without both: 32 threads write 32 ints at most. */
    f = kernel("fill");
    for (size_t left = 12; left >= 8; left -= 2) {
        bytes = left;
        OK(cuLaunchKernel(f, 1, 1, 1, 32, 1, 1, 0, NULL, NULL, extra));
        OK(cuCtxSynchronize());
    }
    CHECK(read_int(p + 32 * sizeof(int)) == 77);
}
