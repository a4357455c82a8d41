/* behaviour: cuMemMap takes a handle at offset 0; an offset or a size beyond the handle is INVALID_VALUE.
 * rules: whole-handle
 * source: CUDA driver API, cuMemMap
 */
#include "vmm.h"

CONFORMANCE
{
    size_t g = granularity();
    CUmemGenericAllocationHandle h = create(2 * g);
    CUdeviceptr p = reserve(4 * g);
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemMap(p, g, g, h, 0));
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemMap(p, 4 * g, 0, h, 0));
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemMap(p, 2 * g, 0, h, 1));
    EXPECT(CUDA_SUCCESS, cuMemMap(p, 2 * g, 0, h, 0));
}
