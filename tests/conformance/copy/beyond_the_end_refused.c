/* behaviour: a copy that runs over the end of its allocation is INVALID_VALUE.
 * rules: accessible
 * source: CUDA driver API, cuMemcpy
 */
#include "conformance.h"

CONFORMANCE
{
    size_t bytes = 8 << 20;
    CUdeviceptr p = device_alloc(bytes);
    char *host = malloc(bytes + 4096);
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemcpyHtoD(p, host, bytes + 4096));
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemcpyDtoH(host, p + bytes - 4, 4100));
    EXPECT(CUDA_SUCCESS, cuMemcpyHtoD(p + bytes - 4, host, 4));
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemcpyHtoD(0, host, 4));
    free(host);
}
