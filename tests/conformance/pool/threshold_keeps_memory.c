/* behaviour: a pool gives memory above its release threshold back when the host synchronises, and keeps what is below.
 * rules: none
 * source: CUDA driver API, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD
 */
#include "conformance.h"

static cuuint64_t attribute(CUmemoryPool pool, CUmemPool_attribute which)
{
    cuuint64_t value = 0;
    OK(cuMemPoolGetAttribute(pool, which, &value));
    return value;
}

CONFORMANCE
{
    if (!device_attribute(CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED))
        SKIP("no memory pools");
    const CUmemPoolProps props = pool_props();
    CUmemoryPool pool;
    OK(cuMemPoolCreate(&pool, &props));
    CUstream s = new_stream(0);
    CUdeviceptr p;
    cuuint64_t all = ~(cuuint64_t)0;
    OK(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &all));
    OK(cuMemAllocFromPoolAsync(&p, 32 << 20, pool, s));
    CHECK(attribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT) >= 32 << 20);
    OK(cuMemFreeAsync(p, s));
    OK(cuStreamSynchronize(s));
    CHECK(attribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT) == 0);
    CHECK(attribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT) >= 32 << 20);
    CHECK(attribute(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH) >= 32 << 20);
    OK(cuMemPoolTrimTo(pool, 0));
    CHECK(attribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT) == 0);
    cuuint64_t none = 0, wrong = 5;
    OK(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH, &none));
    CHECK(attribute(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH) == 0);
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH, &wrong));
    OK(cuMemPoolDestroy(pool));
}
