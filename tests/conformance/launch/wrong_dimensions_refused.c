/* behaviour: a launch with a dimension of 0, too large a block or grid, or no arguments is INVALID_VALUE, and the context is
 * unharmed.
 * rules: none
 * source: CUDA driver API, cuLaunchKernel; CUDA programming guide, Compute Capabilities
 */
#include "conformance.h"

CONFORMANCE
{
    CUdeviceptr p = device_alloc(4096);
    int value = 1, n = 16;
    void *a[] = {&p, &value, &n};
    CUfunction f = kernel("fill");
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuLaunchKernel(f, 0, 1, 1, 32, 1, 1, 0, NULL, a, NULL));
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuLaunchKernel(f, 1, 1, 1, 0, 1, 1, 0, NULL, a, NULL));
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuLaunchKernel(f, 1, 1, 1, 1025, 1, 1, 0, NULL, a, NULL));
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuLaunchKernel(f, 1, 1, 1, 1, 1, 65, 0, NULL, a, NULL));
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuLaunchKernel(f, 1, 65536, 1, 1, 1, 1, 0, NULL, a, NULL));
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuLaunchKernel(f, 1, 1, 1, 32, 1, 1, 1 << 24, NULL, a, NULL));
    EXPECT(CUDA_SUCCESS, cuLaunchKernel(f, 1, 1, 1, 32, 1, 1, 0, NULL, a, NULL));
    OK(cuCtxSynchronize());
    CHECK(read_int(p) == 1);
}
