/* behaviour: asked for one attribute, an address that the driver does not know is INVALID_VALUE; asked for several, its type
 * is 0, and the beginning of its range stays as it was.
 * rules: none
 * source: CUDA driver API, cuPointerGetAttributes; H200, driver 580.159.04
 */
#include "conformance.h"

CONFORMANCE
{
    static int mine;
    CUdeviceptr p = (CUdeviceptr)(uintptr_t)&mine;
    unsigned type = 7;
    if (device_attribute(CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS))
        SKIP("the device reaches all host memory");
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, p));
    CUdeviceptr base = 1;
    CUpointer_attribute which[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR};
    void *out[] = {&type, &base};
    OK(cuPointerGetAttributes(2, which, out, p));
    printf("type %u, base %llx\n", type, base);
    CHECK(type == 0);
    CHECK(base == 1);
}
