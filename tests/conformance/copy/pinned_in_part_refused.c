/* behaviour: a copy whose host memory is pinned in part only is refused with INVALID_VALUE.
 * rules: accessible
 * source: CUDA driver API, cuMemcpyHtoDAsync: "Memory regions spanning over allocations that are both registered and not registered
 * with CUDA are not supported and will return CUDA_ERROR_INVALID_VALUE."
 */
#include "conformance.h"

CONFORMANCE
{
    enum { BYTES = 1 << 16 };
    CUdeviceptr d;
    char *p = aligned_alloc(4096, 2 * BYTES);
    memset(p, 0, 2 * BYTES);
    OK(cuMemAlloc(&d, 2 * BYTES));
    OK(cuMemHostRegister(p, BYTES, 0));
    OK(cuMemcpyHtoDAsync(d, p, BYTES, NULL));
    OK(cuMemcpyHtoDAsync(d, p + BYTES, BYTES, NULL));
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemcpyHtoDAsync(d, p, 2 * BYTES, NULL));
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemcpyDtoHAsync(p, d, 2 * BYTES, NULL));
    OK(cuCtxSynchronize());
    OK(cuMemHostUnregister(p));
    OK(cuMemcpyHtoD(d, p, 2 * BYTES));
    free(p);
}
