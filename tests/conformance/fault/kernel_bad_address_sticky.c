/* behaviour: a kernel that writes where no memory is ends with ILLEGAL_ADDRESS at the next wait, and every call on the context
 * returns that error from then on.
 * rules: accessible
 * source: CUDA driver API, CUDA_ERROR_ILLEGAL_ADDRESS
 */
#include "conformance.h"

CONFORMANCE
{
    CUdeviceptr reserved = 0, p;
    int value = 1, n = 16;
    OK(cuMemAddressReserve(&reserved, (size_t)64 << 20, 0, 0, 0)); /* addresses without memory */
    OK(LAUNCH(NULL, "fill", 1, &reserved, &value, &n));
    EXPECT(CUDA_ERROR_ILLEGAL_ADDRESS, cuCtxSynchronize());
    EXPECT(CUDA_ERROR_ILLEGAL_ADDRESS, cuCtxSynchronize());
    EXPECT(CUDA_ERROR_ILLEGAL_ADDRESS, cuMemAlloc(&p, 4096));
}
