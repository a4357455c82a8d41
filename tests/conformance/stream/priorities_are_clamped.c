/* behaviour: a priority beyond the range of the context becomes the nearest within it.
 * rules: none
 * source: CUDA driver API, cuStreamCreateWithPriority
 */
#include "conformance.h"

CONFORMANCE
{
    int least, greatest, got;
    OK(cuCtxGetStreamPriorityRange(&least, &greatest));
    CHECK(greatest <= least);
    CUstream s;
    OK(cuStreamCreateWithPriority(&s, CU_STREAM_NON_BLOCKING, greatest - 10));
    OK(cuStreamGetPriority(s, &got));
    CHECK(got == greatest);
    OK(cuStreamCreateWithPriority(&s, CU_STREAM_NON_BLOCKING, least + 10));
    OK(cuStreamGetPriority(s, &got));
    CHECK(got == least);
    unsigned flags;
    OK(cuStreamGetFlags(s, &flags));
    CHECK(flags == CU_STREAM_NON_BLOCKING);
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuStreamCreate(&s, 0x100));
}
