/* behaviour: memory is mapped only in reserved addresses, and a reservation is freed only as it was made.
 * rules: reservation
 * source: CUDA driver API, cuMemMap and cuMemAddressFree
 */
#include "vmm.h"

CONFORMANCE
{
    size_t g = granularity();
    CUmemGenericAllocationHandle h = create(g);
    CUdeviceptr p = reserve(2 * g), other = device_alloc(2 * g);
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemAddressFree(p, g));
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemAddressFree(p + g, g));
    EXPECT(CUDA_SUCCESS, cuMemAddressFree(p, 2 * g));
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemAddressFree(p, 2 * g));
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemMap(p, g, 0, h, 0));
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemMap(other, g, 0, h, 0)); /* cuMemAlloc's */
}
