/* behaviour: of memory that was freed nothing is known: one question is INVALID_VALUE, a list of them says
 * that it has no type, and leaves the range as it was.
 * rules: none
 * source: CUDA driver API, cuPointerGetAttributes; H200, driver 580.159.04
 */
#include "conformance.h"

static void ask(CUdeviceptr p)
{
    unsigned type = 7;
    CUdeviceptr base = 7;
    size_t bytes = 7;
    CUpointer_attribute which[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR,
                                   CU_POINTER_ATTRIBUTE_RANGE_SIZE};
    void *out[] = {&type, &base, &bytes};
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, p));
    OK(cuPointerGetAttributes(3, which, out, p));
    printf("type %u, base %llx, %zu bytes\n", type, base, bytes);
    CHECK(type == 0);
    CHECK(base == 7 && bytes == 7);
}

CONFORMANCE
{
    CUdeviceptr small = device_alloc(4096), beside = device_alloc(4096), large = device_alloc(8 << 20);
    OK(cuMemFree(small));
    OK(cuMemFree(large));
    ask(small);
    ask(large);
    OK(cuMemFree(beside));
}
