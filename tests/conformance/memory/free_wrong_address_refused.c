/* behaviour: cuMemFree takes the base of a live allocation only; an inner address, a host address or one that is freed
 * already is INVALID_VALUE, and harms nothing.
 * rules: freed
 * source: CUDA driver API, cuMemFree
 */
#include "conformance.h"

CONFORMANCE
{
    static int host[64];
    CUdeviceptr p = device_alloc(1 << 20), other = device_alloc(1 << 20);
    fill(NULL, p, 7, 64);
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemFree(p + 256));
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemFree((CUdeviceptr)(uintptr_t)host));
    CHECK(read_int(p + 252) == 7);
    EXPECT(CUDA_SUCCESS, cuMemFree(p));
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemFree(p));
    EXPECT(CUDA_SUCCESS, cuMemFree(0));
    EXPECT(CUDA_SUCCESS, cuMemFree(other));
}
