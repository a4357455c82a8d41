/* behaviour: a launch gets 48 KiB of shared memory without being asked; more dynamic shared memory is INVALID_VALUE until the
 * function's attribute allows it, which it does up to the device's opt-in limit.
 * rules: none
 * source: CUDA driver API, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
 */
#include "conformance.h"

CONFORMANCE
{
    const int plain = device_attribute(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK),
              most = device_attribute(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN);
    CUfunction f = kernel("dynamic_sum");
    int limit, fixed;
    CUdeviceptr out = device_alloc(8);
    OK(cuFuncGetAttribute(&limit, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, f));
    CHECK(limit == plain);
    for (int bytes = 1024; bytes <= most; bytes += most - 1024) {
        int n = bytes / 4;
        void *args[] = {&out, &n};
        if (bytes > plain) {
            EXPECT(CUDA_ERROR_INVALID_VALUE,
                   cuLaunchKernel(f, 2, 1, 1, 64, 1, 1, (unsigned)bytes, NULL, args, NULL));
            OK(cuFuncSetAttribute(f, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, bytes));
        }
        OK(cuLaunchKernel(f, 2, 1, 1, 64, 1, 1, (unsigned)bytes, NULL, args, NULL));
        const int sum = (int)((int64_t)n * (n - 1) / 2); /* n * n may be beyond an int */
        CHECK(read_int(out) == sum);
        CHECK(read_int(out + 4) == sum);
    }
    EXPECT(CUDA_ERROR_INVALID_VALUE,
           cuFuncSetAttribute(f, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, most + 1));
    OK(cuFuncGetAttribute(&fixed, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, kernel("static_shared")));
    CHECK(fixed == 1200);
    OK(cuMemFree(out));
}
