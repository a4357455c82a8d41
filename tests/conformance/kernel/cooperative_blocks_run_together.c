/* behaviour: the blocks of a cooperative launch are on the device at the same time, so that they may wait for each other; a grid
 * that does not fit is COOPERATIVE_LAUNCH_TOO_LARGE.
 * rules: none
 * source: CUDA driver API, cuLaunchCooperativeKernel
 */
#include "conformance.h"

CONFORMANCE
{
    if (!device_attribute(CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH))
        SKIP("no cooperative launches");
    CUfunction f = kernel("wait_for_all_blocks");
    int each;
    OK(cuOccupancyMaxActiveBlocksPerMultiprocessor(&each, f, 64, 0));
    const unsigned fit = (unsigned)(each * device_attribute(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT));
    const unsigned blocks = fit < 40 ? fit : 40;
    CUdeviceptr out = device_alloc(4 * blocks), arrived = device_alloc(4);
    void *args[] = {&out, &arrived};
    OK(cuMemsetD32(arrived, 0, 1));
    OK(cuLaunchCooperativeKernel(f, blocks, 1, 1, 64, 1, 1, 0, NULL, args));
    for (unsigned b = 0; b < blocks; b++)
        CHECK(read_int(out + 4 * b) == (int)blocks);
    EXPECT(CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE,
           cuLaunchCooperativeKernel(f, fit + 1, 1, 1, 64, 1, 1, 0, NULL, args));
    OK(cuCtxSynchronize());
    OK(cuMemFree(out));
    OK(cuMemFree(arrived));
}
