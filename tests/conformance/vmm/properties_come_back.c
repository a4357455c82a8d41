/* behaviour: a handle tells the properties with which it was created.
 * rules: none
 * source: CUDA driver API, cuMemGetAllocationPropertiesFromHandle
 */
#include "vmm.h"

CONFORMANCE
{
    size_t g = granularity();
    CUmemAllocationProp props = device_memory(), got;
    props.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    CUmemGenericAllocationHandle h;
    OK(cuMemCreate(&h, g, &props, 0));
    memset(&got, 0xff, sizeof got);
    OK(cuMemGetAllocationPropertiesFromHandle(&got, h));
    CHECK(got.type == CU_MEM_ALLOCATION_TYPE_PINNED);
    CHECK(got.location.type == CU_MEM_LOCATION_TYPE_DEVICE && got.location.id == device);
    CHECK(got.requestedHandleTypes == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
}
