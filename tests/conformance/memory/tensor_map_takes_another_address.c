/* behaviour: cuTensorMapReplaceAddress makes of a tensor map the one that was encoded for the other address, byte for byte, and back; an
 * address that is not aligned is refused. The first word is the address, the others do not depend on it.
 * rules: none
 * source: CUDA driver API, cuTensorMapEncodeTiled and cuTensorMapReplaceAddress; the words: H200, driver 580.159.04
 */
#include "conformance.h"

static CUresult encode(CUtensorMap *map, CUdeviceptr at)
{
    const cuuint64_t size[] = {64, 32}, stride[] = {64 * sizeof(float)};
    const cuuint32_t box[] = {64, 8}, step[] = {1, 1};
    return cuTensorMapEncodeTiled(map, CU_TENSOR_MAP_DATA_TYPE_FLOAT32, 2, (void *)(uintptr_t)at, size,
                                  stride, box, step, CU_TENSOR_MAP_INTERLEAVE_NONE,
                                  CU_TENSOR_MAP_SWIZZLE_NONE, CU_TENSOR_MAP_L2_PROMOTION_NONE,
                                  CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
}

CONFORMANCE
{
    const CUdeviceptr p = device_alloc(1 << 20), q = device_alloc(1 << 20);
    CUtensorMap of_p, of_q, map;
    if (device_attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR) < 9 && encode(&map, p))
        SKIP("no tensor maps before 9.0");
    OK(encode(&of_p, p));
    OK(encode(&of_q, q + 4096));
    CHECK(of_p.opaque[0] == p && of_q.opaque[0] == q + 4096);
    CHECK(!memcmp(&of_p.opaque[1], &of_q.opaque[1], sizeof map - sizeof map.opaque[0]));
    map = of_p;
    OK(cuTensorMapReplaceAddress(&map, (void *)(uintptr_t)(q + 4096)));
    CHECK(!memcmp(&map, &of_q, sizeof map));
    OK(cuTensorMapReplaceAddress(&map, (void *)(uintptr_t)p));
    CHECK(!memcmp(&map, &of_p, sizeof map));
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuTensorMapReplaceAddress(&map, (void *)(uintptr_t)(p + 4)));
    OK(cuMemFree(p));
    OK(cuMemFree(q));
}
