/* behaviour: a kernel that touches what is not mapped fails its context for good (ILLEGAL_ADDRESS on every call).
 * rules: accessible
 * source: CUDA driver API, CUDA_ERROR_ILLEGAL_ADDRESS
 */
#include "conformance.h"

CONFORMANCE
{
    CUdeviceptr p = 0;
    int value = 1, n = 1;
    OK(cuMemAddressReserve(&p, 2 << 20, 0, 0, 0));
    OK(LAUNCH(NULL, "fill", 1, &p, &value, &n));
    EXPECT(CUDA_ERROR_ILLEGAL_ADDRESS, cuCtxSynchronize());
    EXPECT(CUDA_ERROR_ILLEGAL_ADDRESS, cuCtxSynchronize());
    CUdeviceptr q;
    EXPECT(CUDA_ERROR_ILLEGAL_ADDRESS, cuMemAlloc(&q, 16));
    EXPECT(CUDA_ERROR_ILLEGAL_ADDRESS, cuStreamQuery(NULL));
}
