/* behaviour: a reservation in which something is mapped is not freed.
 * rules: release-order
 * source: CUDA driver API, cuMemAddressFree: INVALID_VALUE; seen by allocators that free in the wrong order
 */
#include "vmm.h"

CONFORMANCE
{
    size_t g = granularity();
    CUmemGenericAllocationHandle h = create(g);
    CUdeviceptr p = map_new(g, h);
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemAddressFree(p, g));
    fill(NULL, p, 3, 1);
    CHECK(read_int(p) == 3);
    OK(cuMemUnmap(p, g));
    EXPECT(CUDA_SUCCESS, cuMemAddressFree(p, g));
    OK(cuMemRelease(h));
}
