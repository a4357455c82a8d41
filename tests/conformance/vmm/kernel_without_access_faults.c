/* behaviour: a kernel that writes to mapped memory to which no access was given fails its context.
 * rules: accessible
 * source: CUDA driver API, cuMemMap: the mapping is not accessible before cuMemSetAccess
 */
#include "vmm.h"

CONFORMANCE
{
    size_t g = granularity();
    CUmemGenericAllocationHandle h = create(g);
    CUdeviceptr p = reserve(g);
    OK(cuMemMap(p, g, 0, h, 0));
    fill(NULL, p, 1, 1);
    EXPECT(CUDA_ERROR_ILLEGAL_ADDRESS, cuCtxSynchronize());
}
