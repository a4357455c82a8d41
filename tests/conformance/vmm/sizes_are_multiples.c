/* behaviour: cuMemCreate wants a multiple of the granularity, and no flags.
 * rules: none
 * source: CUDA driver API, cuMemCreate
 */
#include "vmm.h"

CONFORMANCE
{
    size_t g = granularity();
    CUmemAllocationProp props = device_memory();
    CUmemGenericAllocationHandle h;
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemCreate(&h, g + 1, &props, 0));
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemCreate(&h, 0, &props, 0));
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemCreate(&h, g, &props, 1));
    props.location.id = 1000;
    EXPECT(CUDA_ERROR_INVALID_DEVICE, cuMemCreate(&h, g, &props, 0));
    props = device_memory();
    props.type = CU_MEM_ALLOCATION_TYPE_INVALID;
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemCreate(&h, g, &props, 0));
}
