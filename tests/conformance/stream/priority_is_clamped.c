/* behaviour: a stream's priority outside of the range that the context names is moved to its nearer end.
 * rules: none
 * source: CUDA driver API, cuStreamCreateWithPriority
 */
#include "conformance.h"

CONFORMANCE
{
    int least, greatest, got;
    CUstream s;
    OK(cuCtxGetStreamPriorityRange(&least, &greatest));
    CHECK(greatest <= least);
    const int asked[] = {least, greatest, least + 100, greatest - 100};
    const int want[] = {least, greatest, least, greatest};
    for (int i = 0; i < 4; i++) {
        OK(cuStreamCreateWithPriority(&s, CU_STREAM_NON_BLOCKING, asked[i]));
        OK(cuStreamGetPriority(s, &got));
        CHECK(got == want[i]);
        OK(cuStreamDestroy(s));
    }
}
