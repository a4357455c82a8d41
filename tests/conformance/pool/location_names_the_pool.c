/* behaviour: a device's pool is also found by its location, as current and as default.
 * rules: none
 * source: CUDA driver API, cuMemGetDefaultMemPool, cuMemGetMemPool, cuMemSetMemPool (13.0)
 */
#include "conformance.h"

CONFORMANCE
{
    if (!device_attribute(CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED))
        SKIP("no memory pools");
    CUmemLocation here;
    memset(&here, 0, sizeof here);
    here.type = CU_MEM_LOCATION_TYPE_DEVICE;
    here.id = device;
    CUmemoryPool by_device, by_location;
    OK(cuDeviceGetDefaultMemPool(&by_device, device));
    OK(cuMemGetDefaultMemPool(&by_location, &here, CU_MEM_ALLOCATION_TYPE_PINNED));
    CHECK(by_device == by_location);
    OK(cuMemGetMemPool(&by_location, &here, CU_MEM_ALLOCATION_TYPE_PINNED));
    CHECK(by_device == by_location);
    OK(cuMemSetMemPool(&here, CU_MEM_ALLOCATION_TYPE_PINNED, by_device));
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemGetMemPool(&by_location, &here, CU_MEM_ALLOCATION_TYPE_INVALID));
}
