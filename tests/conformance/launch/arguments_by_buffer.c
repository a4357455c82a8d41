/* behaviour: arguments may come as one buffer with the offsets that the kernel's parameters have; both forms at once are
 * INVALID_VALUE, a buffer that is longer than its parameters LAUNCH_OUT_OF_RESOURCES.
 * rules: none
 * source: CUDA driver API, cuLaunchKernel and cuFuncGetParamInfo; H200, driver 580.159.04
 */
#include "conformance.h"

CONFORMANCE
{
    CUdeviceptr p = device_alloc(4096);
    CUfunction f = kernel("fill");
    char buffer[64];
    size_t offset[3], size[3], bytes = 0;
    int value = 12, n = 8;
    const void *from[] = {&p, &value, &n};
    for (size_t i = 0; i < 3; i++) {
        OK(cuFuncGetParamInfo(f, i, &offset[i], &size[i]));
        memcpy(buffer + offset[i], from[i], size[i]);
        bytes = offset[i] + size[i];
    }
    CHECK(size[0] == 8 && size[1] == 4 && size[2] == 4);
    size_t beyond;
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuFuncGetParamInfo(f, 3, &beyond, NULL));
    void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, buffer, CU_LAUNCH_PARAM_BUFFER_SIZE, &bytes,
                     CU_LAUNCH_PARAM_END};
    OK(cuLaunchKernel(f, 1, 1, 1, 32, 1, 1, 0, NULL, NULL, extra));
    OK(cuCtxSynchronize());
    CHECK(read_int(p + 28) == 12);
    size_t longer = bytes + 8;
    extra[3] = &longer;
    EXPECT(CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES, cuLaunchKernel(f, 1, 1, 1, 32, 1, 1, 0, NULL, NULL, extra));
    extra[3] = &bytes;
    void *params[] = {&p, &value, &n};
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuLaunchKernel(f, 1, 1, 1, 32, 1, 1, 0, NULL, params, extra));
}
