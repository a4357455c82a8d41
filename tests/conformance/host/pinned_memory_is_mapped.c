/* behaviour: pinned memory is reached by kernels through its device address, which is its own where addresses are unified.
 * rules: none
 * source: CUDA driver API, cuMemHostAlloc and cuMemHostGetDevicePointer
 */
#include "conformance.h"

CONFORMANCE
{
    int *host;
    CUdeviceptr seen;
    OK(cuMemHostAlloc((void **)&host, 8192, CU_MEMHOSTALLOC_DEVICEMAP | CU_MEMHOSTALLOC_PORTABLE));
    host[5] = 1;
    OK(cuMemHostGetDevicePointer(&seen, host, 0));
    add(NULL, seen, 4, 1024);
    OK(cuCtxSynchronize());
    CHECK(host[5] == 5);
    unsigned flags = 0, type = 0;
    OK(cuMemHostGetFlags(&flags, host));
    CHECK(flags & CU_MEMHOSTALLOC_DEVICEMAP && flags & CU_MEMHOSTALLOC_PORTABLE);
    OK(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, seen));
    CHECK(type == CU_MEMORYTYPE_HOST);
    OK(cuMemFreeHost(host));
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemHostAlloc((void **)&host, 8192, 0x80));
}
