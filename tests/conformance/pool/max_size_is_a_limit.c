/* behaviour: a pool with a maximum size gives out no more than that.
 * rules: none
 * source: CUDA driver API, CUmemPoolProps::maxSize
 */
#include "conformance.h"

CONFORMANCE
{
    if (!device_attribute(CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED))
        SKIP("no memory pools");
    CUmemPoolProps props = pool_props();
    props.maxSize = 64 << 20;
    CUmemoryPool pool;
    OK(cuMemPoolCreate(&pool, &props));
    CUstream s = new_stream(0);
    CUdeviceptr p, q;
    EXPECT(CUDA_ERROR_OUT_OF_MEMORY, cuMemAllocFromPoolAsync(&q, 128 << 20, pool, s));
    OK(cuMemAllocFromPoolAsync(&p, 32 << 20, pool, s));
    EXPECT(CUDA_ERROR_OUT_OF_MEMORY, cuMemAllocFromPoolAsync(&q, 64 << 20, pool, s));
    OK(cuMemFreeAsync(p, s));
    OK(cuStreamSynchronize(s));
}
