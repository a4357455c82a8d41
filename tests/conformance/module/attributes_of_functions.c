/* behaviour: a function tells its limits; the dynamic shared memory that it may use is raised up to the device's opt-in limit
 * and no further.
 * rules: none
 * source: CUDA driver API, cuFuncGetAttribute and cuFuncSetAttribute
 */
#include "conformance.h"

CONFORMANCE
{
    CUfunction f = kernel("fill");
    int value = 0, limit = device_attribute(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN);
    OK(cuFuncGetAttribute(&value, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, f));
    CHECK(value > 0 && value <= 1024);
    OK(cuFuncGetAttribute(&value, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, f));
    CHECK(value == 0);
    OK(cuFuncSetAttribute(f, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, limit));
    OK(cuFuncGetAttribute(&value, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, f));
    CHECK(value == limit);
    EXPECT(CUDA_ERROR_INVALID_VALUE,
           cuFuncSetAttribute(f, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, limit + 1));
    int blocks = 0;
    OK(cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, f, 128, 0));
    CHECK(blocks > 0);
    size_t bytes = 0;
    OK(cuOccupancyAvailableDynamicSMemPerBlock(&bytes, f, 1, 128));
    CHECK(bytes > 0 && bytes <= (size_t)limit);
}
