/* behaviour: VMM memory may lie in host memory: kernels and host code reach it at one address, each after being given
 * access.
 * rules: none
 * source: CUDA driver API, cuMemCreate with CU_MEM_LOCATION_TYPE_HOST_NUMA
 */
#include "vmm.h"

CONFORMANCE
{
    granularity();
    CUmemAllocationProp props = device_memory();
    props.location.type = CU_MEM_LOCATION_TYPE_HOST_NUMA;
    props.location.id = 0;
    size_t g = 0;
    CUmemGenericAllocationHandle h;
    if (cuMemGetAllocationGranularity(&g, &props, CU_MEM_ALLOC_GRANULARITY_MINIMUM) != CUDA_SUCCESS ||
        cuMemCreate(&h, g, &props, 0) != CUDA_SUCCESS)
        SKIP("no host memory by this way");
    CUdeviceptr p = reserve(g);
    OK(cuMemMap(p, g, 0, h, 0));
    CUmemAccessDesc access[2];
    memset(access, 0, sizeof access);
    access[0].location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    access[0].location.id = device;
    access[1].location.type = CU_MEM_LOCATION_TYPE_HOST_NUMA;
    access[0].flags = access[1].flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    OK(cuMemSetAccess(p, g, access, 2));
    fill(NULL, p, 13, 4);
    OK(cuCtxSynchronize());
    volatile int *host = (volatile int *)(uintptr_t)p;
    CHECK(host[3] == 13);
    host[0] = 14;
    CHECK(read_int(p) == 14);
}
