/* behaviour: with SYNC_MEMOPS set on an allocation, a synchronous copy within the device has ended when the call returns.
 * rules: none
 * source: CUDA driver API, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS
 */
#include "conformance.h"

CONFORMANCE
{
    CUdeviceptr p = device_alloc(64 << 20), q = device_alloc(64 << 20);
    unsigned on = 1, got = 0;
    OK(cuPointerSetAttribute(&on, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, p));
    OK(cuPointerGetAttribute(&got, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, p + 16));
    CHECK(got == 1);
    for (int i = 0; i < 5; i++) {
        OK(cuMemcpyDtoD(q, p, 64 << 20));
        EXPECT(CUDA_SUCCESS, cuStreamQuery(NULL));
    }
}
