/* behaviour: cuStreamDestroy returns while work is under way, and the work still gets done.
 * rules: none
 * source: CUDA driver API, cuStreamDestroy
 */
#include "conformance.h"

CONFORMANCE
{
    CUstream s = new_stream(CU_STREAM_NON_BLOCKING);
    CUdeviceptr p = device_alloc(sizeof(int));
    OK(cuMemsetD32(p, 0, 1));
    OK(cuCtxSynchronize());
    hold_t h = hold(s);
    fill(s, p, 3, 1);
    OK(cuStreamDestroy(s));
    let_go(h);
    OK(cuCtxSynchronize());
    CHECK(read_int(p) == 3);
}
