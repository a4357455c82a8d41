/* behaviour: cuMemSetAccess wants a range that is mapped throughout; with a hole in it, INVALID_VALUE, or access up to the hole alone
 * (H200, driver 580.159.04). Where nothing is mapped: INVALID_VALUE.
 * rules: mapped-throughout
 * source: CUDA driver API, cuMemSetAccess
 */
#include "vmm.h"

CONFORMANCE
{
    size_t g = granularity();
    CUmemGenericAllocationHandle a = create(g), b = create(g);
    CUdeviceptr p = reserve(3 * g);
    OK(cuMemMap(p, g, 0, a, 0));
    OK(cuMemMap(p + 2 * g, g, 0, b, 0));
    CUresult with_hole = set_access(p, 3 * g, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
    CHECK(with_hole == CUDA_ERROR_INVALID_VALUE || with_hole == CUDA_SUCCESS);
    if (with_hole == CUDA_SUCCESS) {
        OK(cuMemsetD32(p, 1, 1));
        CHECK(read_int(p) == 1);
    }
    EXPECT(CUDA_ERROR_INVALID_VALUE, set_access(p + g, g, CU_MEM_ACCESS_FLAGS_PROT_READWRITE));
    EXPECT(CUDA_SUCCESS, set_access(p, g, CU_MEM_ACCESS_FLAGS_PROT_READWRITE));
    EXPECT(CUDA_SUCCESS, set_access(p + 2 * g, g, CU_MEM_ACCESS_FLAGS_PROT_READWRITE));
}
