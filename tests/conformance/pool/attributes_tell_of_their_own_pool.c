/* behaviour: what a pool says it has in use is its own allocations alone, and a high mark is reset for that pool only.
 * rules: none
 * source: CUDA driver API, CUmemPool_attribute; cuMemAllocFromPoolAsync
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
    CUmemoryPool a, b;
    OK(cuMemPoolCreate(&a, &props));
    OK(cuMemPoolCreate(&b, &props));
    CUstream s = new_stream(0);
    CUdeviceptr apart = device_alloc(32 << 20), p, q;
    OK(cuMemAllocFromPoolAsync(&p, 16 << 20, a, s));
    OK(cuStreamSynchronize(s));
    CHECK(attribute(a, CU_MEMPOOL_ATTR_USED_MEM_CURRENT) == 16 << 20);
    CHECK(attribute(b, CU_MEMPOOL_ATTR_USED_MEM_CURRENT) == 0);
    CHECK(attribute(a, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT) >= 16 << 20);
    OK(cuMemAllocFromPoolAsync(&q, 8 << 20, b, s));
    OK(cuMemFreeAsync(p, s));
    OK(cuStreamSynchronize(s));
    CHECK(attribute(a, CU_MEMPOOL_ATTR_USED_MEM_CURRENT) == 0);
    CHECK(attribute(a, CU_MEMPOOL_ATTR_USED_MEM_HIGH) == 16 << 20);
    CHECK(attribute(b, CU_MEMPOOL_ATTR_USED_MEM_CURRENT) == 8 << 20);
    cuuint64_t zero = 0;
    OK(cuMemFreeAsync(q, s));
    OK(cuStreamSynchronize(s));
    OK(cuMemPoolSetAttribute(a, CU_MEMPOOL_ATTR_USED_MEM_HIGH, &zero));
    CHECK(attribute(a, CU_MEMPOOL_ATTR_USED_MEM_HIGH) == 0);
    CHECK(attribute(b, CU_MEMPOOL_ATTR_USED_MEM_HIGH) == 8 << 20);
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemAllocFromPoolAsync(&p, 4096, NULL, s));
    OK(cuMemFree(apart));
}
