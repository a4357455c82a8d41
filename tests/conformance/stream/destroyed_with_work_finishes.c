/* behaviour: a stream may be destroyed while it holds work, which is done all the same; its handle is gone at once.
 * rules: handle
 * source: CUDA driver API, cuStreamDestroy
 */
#include "conformance.h"

CONFORMANCE
{
    CUstream s = new_stream(CU_STREAM_NON_BLOCKING);
    CUdeviceptr p = device_alloc(4096);
    OK(cuMemsetD32(p, 0, 16));
    OK(cuCtxSynchronize());
    hold_t h = hold(s);
    fill(s, p, 3, 16);
    OK(cuStreamDestroy(s));
    let_go(h);
    OK(cuCtxSynchronize());
    CHECK(read_int(p + 60) == 3);
}
