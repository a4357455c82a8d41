/* behaviour: a tensor map among a kernel's parameters arrives as it is; its offset is such that its address in the constant bank is
 * aligned, whose beginning depends on the architecture. A buffer of arguments has that offset.
 * rules: none
 * source: CUDA driver API, cuLaunchKernel; what nvcc 13.0 writes into .nv.info (EIATTR_PARAM_CBANK, EIATTR_KPARAM_INFO);
 * the buffer: H200, driver 580.159.04
 */
#include "conformance.h"

CONFORMANCE
{
    CUdeviceptr out = device_alloc(4096);
    CUfunction f = kernel("copy_map");
    CUtensorMap map;
    cuuint64_t words[16];
    const int major = device_attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
    for (unsigned i = 0; i < 16; i++)
        map.opaque[i] = 0x0102030405060708u * (i + 1);
    size_t offset, size;
    char buffer[512] = {0};
    OK(cuFuncGetParamInfo(f, 0, &offset, &size));
    memcpy(buffer + offset, &map, sizeof map);
    CHECK(size == sizeof map);
    CHECK(offset == (major < 9 ? 32 : major == 9 ? 112 : 0));
    OK(cuFuncGetParamInfo(f, 1, &offset, &size));
    CHECK(offset == (major < 9 ? 32 : major == 9 ? 112 : 0) + sizeof map);
    void *params[] = {&map, &out};
    OK(cuLaunchKernel(f, 1, 1, 1, 32, 1, 1, 0, NULL, params, NULL));
    OK(cuMemcpyDtoH(words, out, sizeof words));
    CHECK(!memcmp(words, map.opaque, sizeof words));

    size_t bytes = offset + sizeof out;
    memcpy(buffer + offset, &out, sizeof out);
    OK(cuMemsetD8(out, 0, sizeof words));
    void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, buffer, CU_LAUNCH_PARAM_BUFFER_SIZE, &bytes,
                     CU_LAUNCH_PARAM_END};
    OK(cuLaunchKernel(f, 1, 1, 1, 32, 1, 1, 0, NULL, NULL, extra));
    OK(cuMemcpyDtoH(words, out, sizeof words));
    CHECK(!memcmp(words, map.opaque, sizeof words));
    OK(cuMemFree(out));
}
