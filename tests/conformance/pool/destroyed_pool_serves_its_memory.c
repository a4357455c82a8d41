/* behaviour: destroying a pool leaves what was allocated from it, which is freed as usual; the device goes back to its
 * default pool, which is never destroyed.
 * rules: handle
 * source: CUDA driver API, cuMemPoolDestroy
 */
#include "conformance.h"

CONFORMANCE
{
    if (!device_attribute(CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED))
        SKIP("no memory pools");
    const CUmemPoolProps props = pool_props();
    CUmemoryPool pool, now, usual;
    OK(cuDeviceGetDefaultMemPool(&usual, device));
    OK(cuMemPoolCreate(&pool, &props));
    OK(cuDeviceSetMemPool(device, pool));
    OK(cuDeviceGetMemPool(&now, device));
    CHECK(now == pool);
    CUstream s = new_stream(0);
    CUdeviceptr p;
    OK(cuMemAllocAsync(&p, 1 << 20, s)); /* from the device's current pool */
    CUmemoryPool of;
    OK(cuPointerGetAttribute(&of, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, p));
    CHECK(of == pool);
    OK(cuMemPoolDestroy(pool));
    OK(cuDeviceGetMemPool(&now, device));
    CHECK(now == usual);
    fill(s, p, 6, 64);
    OK(cuStreamSynchronize(s));
    CHECK(read_int(p) == 6);
    OK(cuMemFreeAsync(p, s));
    OK(cuStreamSynchronize(s));
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemPoolDestroy(usual));
}
