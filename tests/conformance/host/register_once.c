/* behaviour: host memory is registered once: again, or overlapping, is HOST_MEMORY_ALREADY_REGISTERED; unregistering what is
 * not registered is HOST_MEMORY_NOT_REGISTERED.
 * rules: registered
 * source: CUDA driver API, cuMemHostRegister and cuMemHostUnregister
 */
#include "conformance.h"

CONFORMANCE
{
    char *p = aligned_alloc(4096, 1 << 16);
    memset(p, 0, 1 << 16);
    OK(cuMemHostRegister(p, 1 << 16, CU_MEMHOSTREGISTER_DEVICEMAP));
    EXPECT(CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED, cuMemHostRegister(p, 1 << 16, 0));
    CUdeviceptr seen;
    OK(cuMemHostGetDevicePointer(&seen, p, 0));
    fill(NULL, seen, 3, 64);
    OK(cuCtxSynchronize());
    CHECK(((volatile int *)p)[63] == 3);
    OK(cuMemHostUnregister(p));
    EXPECT(CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED, cuMemHostUnregister(p));
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemHostRegister(NULL, 4096, 0));
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemHostRegister(p, 0, 0));
    free(p);
}
