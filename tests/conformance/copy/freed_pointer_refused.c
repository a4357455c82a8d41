/* behaviour: a copy from or to freed device memory is INVALID_VALUE, and nothing is copied.
 * rules: accessible
 * source: CUDA driver API, cuMemcpyDtoH, cuMemcpyHtoD
 */
#include "conformance.h"

CONFORMANCE
{
    CUdeviceptr p = device_alloc(32 << 20);
    int value = 1;
    OK(cuMemFree(p));
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemcpyDtoH(&value, p, 4));
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemcpyHtoD(p, &value, 4));
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemsetD32(p, 0, 1));
    CHECK(value == 1);
    EXPECT(CUDA_SUCCESS, cuCtxSynchronize());
}
