/* behaviour: cuMemMap maps only where nothing is mapped; a second map over it, whole or in part, is INVALID_VALUE and
 * leaves the first.
 * rules: double-map
 * source: CUDA driver API, cuMemMap
 */
#include "vmm.h"

CONFORMANCE
{
    size_t g = granularity();
    CUmemGenericAllocationHandle one = create(g), two = create(2 * g);
    CUdeviceptr p = reserve(4 * g);
    OK(cuMemMap(p + g, g, 0, one, 0));
    OK(set_access(p + g, g, CU_MEM_ACCESS_FLAGS_PROT_READWRITE));
    fill(NULL, p + g, 11, 4);
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemMap(p + g, g, 0, one, 0));
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemMap(p, 2 * g, 0, two, 0));
    EXPECT(CUDA_SUCCESS, cuMemMap(p + 2 * g, 2 * g, 0, two, 0));
    CHECK(read_int(p + g) == 11);
}
