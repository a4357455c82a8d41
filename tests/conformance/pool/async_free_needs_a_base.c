/* behaviour: cuMemFreeAsync takes the base of a live allocation; anything else is INVALID_VALUE. An allocation of
 * no bytes is none, and no error.
 * rules: freed
 * source: CUDA driver API, cuMemFreeAsync; H200, driver 580.159.04
 */
#include "conformance.h"

CONFORMANCE
{
    if (!device_attribute(CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED))
        SKIP("no memory pools");
    CUstream s = new_stream(0);
    CUdeviceptr p;
    OK(cuMemAllocAsync(&p, 1 << 20, s));
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemFreeAsync(p + 512, s));
    OK(cuMemFreeAsync(p, s));
    OK(cuStreamSynchronize(s));
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemFreeAsync(p, s));
    EXPECT(CUDA_SUCCESS, cuMemAllocAsync(&p, 0, s));
}
