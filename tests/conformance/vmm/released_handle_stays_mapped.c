/* behaviour: a released handle's memory lives as long as it is mapped; the handle itself is gone.
 * rules: handle
 * source: CUDA driver API, cuMemRelease
 */
#include "vmm.h"

CONFORMANCE
{
    size_t g = granularity();
    CUmemGenericAllocationHandle h = create(g), again = 0;
    CUdeviceptr p = map_new(g, h);
    fill(NULL, p, 9, 4);
    OK(cuMemRelease(h));
    CHECK(read_int(p) == 9);
    EXPECT(CUDA_SUCCESS, cuMemRetainAllocationHandle(&again, (void *)(uintptr_t)(p + 64)));
    OK(cuMemUnmap(p, g));
    CUdeviceptr q = reserve(g);
    EXPECT(CUDA_SUCCESS, cuMemMap(q, g, 0, again, 0));
    OK(set_access(q, g, CU_MEM_ACCESS_FLAGS_PROT_READWRITE));
    CHECK(read_int(q) == 9);
    OK(cuMemUnmap(q, g));
    OK(cuMemRelease(again));
}
