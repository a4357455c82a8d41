/* behaviour: cuMemUnmap takes whole mappings; a part of one is INVALID_VALUE and stays mapped. Several neighbours go with
 * one call. Where nothing is mapped there is nothing to unmap, and no error.
 * rules: partial-unmap
 * source: CUDA driver API, cuMemUnmap; H200, driver 580.159.04
 */
#include "vmm.h"

CONFORMANCE
{
    size_t g = granularity();
    CUmemGenericAllocationHandle two = create(2 * g), one = create(g);
    CUdeviceptr p = reserve(4 * g);
    OK(cuMemMap(p, 2 * g, 0, two, 0));
    OK(cuMemMap(p + 2 * g, g, 0, one, 0));
    OK(set_access(p, 3 * g, CU_MEM_ACCESS_FLAGS_PROT_READWRITE));
    fill(NULL, p, 5, 4);
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemUnmap(p, g));
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemUnmap(p + g, g));
    CHECK(read_int(p) == 5);
    EXPECT(CUDA_SUCCESS, cuMemUnmap(p, 3 * g));
    EXPECT(CUDA_SUCCESS, cuMemUnmap(p, 2 * g)); /* nothing is there */
    OK(cuMemAddressFree(p, 4 * g));
}
