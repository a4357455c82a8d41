/* behaviour: cuMemMap takes a handle at offset 0; an offset or a size beyond the handle is NOT_SUPPORTED, flags are
 * INVALID_VALUE.
 * rules: whole-handle
 * source: CUDA driver API, cuMemMap; H200, driver 580.159.04
 */
#include "vmm.h"

CONFORMANCE
{
    size_t g = granularity();
    CUmemGenericAllocationHandle h = create(2 * g);
    CUdeviceptr p = reserve(4 * g);
    EXPECT(CUDA_ERROR_NOT_SUPPORTED, cuMemMap(p, g, g, h, 0));
    EXPECT(CUDA_ERROR_NOT_SUPPORTED, cuMemMap(p, 4 * g, 0, h, 0));
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemMap(p, 2 * g, 0, h, 1));
    EXPECT(CUDA_SUCCESS, cuMemMap(p, 2 * g, 0, h, 0));
}
