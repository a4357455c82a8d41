/* behaviour: an address within an allocation tells what it is, where, and from where to where the allocation goes.
 * rules: none
 * source: CUDA driver API, cuPointerGetAttribute, cuMemGetAddressRange
 */
#include "conformance.h"

CONFORMANCE
{
    CUdeviceptr p = device_alloc(1 << 20), base = 0, q = p + 1000, found = 0;
    size_t bytes = 0;
    OK(cuMemGetAddressRange(&base, &bytes, q));
    CHECK(base == p && bytes == 1 << 20);
    CUcontext of = NULL;
    unsigned type = 0, managed = 9, mapped = 0;
    int ordinal = -1;
    OK(cuPointerGetAttribute(&of, CU_POINTER_ATTRIBUTE_CONTEXT, q));
    CHECK(of == context);
    OK(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, q));
    CHECK(type == CU_MEMORYTYPE_DEVICE);
    OK(cuPointerGetAttribute(&found, CU_POINTER_ATTRIBUTE_DEVICE_POINTER, q));
    CHECK(found == q);
    OK(cuPointerGetAttribute(&managed, CU_POINTER_ATTRIBUTE_IS_MANAGED, q));
    CHECK(managed == 0);
    OK(cuPointerGetAttribute(&mapped, CU_POINTER_ATTRIBUTE_MAPPED, q));
    CHECK(mapped == 1);
    OK(cuPointerGetAttribute(&ordinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, q));
    CHECK(ordinal == device);
    OK(cuPointerGetAttribute(&base, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, q));
    OK(cuPointerGetAttribute(&bytes, CU_POINTER_ATTRIBUTE_RANGE_SIZE, q));
    CHECK(base == p && bytes == 1 << 20);
    void *host;
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuPointerGetAttribute(&host, CU_POINTER_ATTRIBUTE_HOST_POINTER, q));
}
