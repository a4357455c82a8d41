/* behaviour: managed memory has one address for kernels and host code; each sees what the other wrote, after
 * synchronisation.
 * rules: none
 * source: CUDA programming guide, Unified Memory
 */
#include "conformance.h"

CONFORMANCE
{
    if (!device_attribute(CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY))
        SKIP("no managed memory");
    CUdeviceptr p;
    OK(cuMemAllocManaged(&p, 1 << 20, CU_MEM_ATTACH_GLOBAL));
    volatile int *host = (volatile int *)(uintptr_t)p;
    host[10] = 5;
    add(NULL, p, 3, 1024);
    OK(cuCtxSynchronize());
    CHECK(host[10] == 8);
    unsigned is_managed = 0, type = 0;
    OK(cuPointerGetAttribute(&is_managed, CU_POINTER_ATTRIBUTE_IS_MANAGED, p));
    OK(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, p));
    CHECK(is_managed == 1 && type == CU_MEMORYTYPE_DEVICE);
    void *same = NULL;
    OK(cuPointerGetAttribute(&same, CU_POINTER_ATTRIBUTE_HOST_POINTER, p));
    CHECK(same == (void *)(uintptr_t)p);
    int copy = 0;
    OK(cuMemcpyDtoH(&copy, p + 40, 4));
    CHECK(copy == 8);
    OK(cuMemcpyHtoD(p, (const void *)(uintptr_t)(p + 40), 4)); /* either end may be managed */
    OK(cuCtxSynchronize());
    CHECK(host[0] == 8);
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemAllocManaged(&p, 16, CU_MEM_ATTACH_SINGLE));
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemAllocManaged(&p, 0, CU_MEM_ATTACH_GLOBAL));
    OK(cuMemFree((CUdeviceptr)(uintptr_t)host));
}
