/* behaviour: advice and prefetches are remembered and can be asked for; memory that is not managed takes none.
 * rules: none
 * source: CUDA driver API, cuMemAdvise, cuMemPrefetchAsync, cuMemRangeGetAttribute
 */
#include "conformance.h"

CONFORMANCE
{
    if (!device_attribute(CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS))
        SKIP("no concurrent access to managed memory");
    CUdeviceptr p, plain = device_alloc(1 << 21);
    size_t bytes = 4 << 20;
    OK(cuMemAllocManaged(&p, bytes, CU_MEM_ATTACH_GLOBAL));
    CUmemLocation here;
    memset(&here, 0, sizeof here);
    here.type = CU_MEM_LOCATION_TYPE_DEVICE;
    here.id = device;
    int value = -7;
    OK(cuMemRangeGetAttribute(&value, 4, CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION, p, bytes));
    CHECK(value == CU_DEVICE_INVALID);
    OK(cuMemAdvise(p, bytes, CU_MEM_ADVISE_SET_READ_MOSTLY, here));
    OK(cuMemAdvise(p, bytes, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, here));
    OK(cuMemPrefetchAsync(p, bytes, here, 0, NULL));
    OK(cuCtxSynchronize());
    OK(cuMemRangeGetAttribute(&value, 4, CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY, p, bytes));
    CHECK(value == 1);
    OK(cuMemRangeGetAttribute(&value, 4, CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION, p, bytes));
    CHECK(value == device);
    OK(cuMemRangeGetAttribute(&value, 4, CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION, p, bytes));
    CHECK(value == device);
    OK(cuMemAdvise(p, bytes, CU_MEM_ADVISE_UNSET_READ_MOSTLY, here));
    OK(cuMemRangeGetAttribute(&value, 4, CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY, p, bytes));
    CHECK(value == 0);
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemAdvise(plain, 4096, CU_MEM_ADVISE_SET_READ_MOSTLY, here));
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemPrefetchAsync(plain, 4096, here, 0, NULL));
}
