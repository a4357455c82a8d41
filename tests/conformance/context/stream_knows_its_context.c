/* behaviour: a stream belongs to the context in which it was made, whatever is current; the default streams are the
 * current context's.
 * rules: none
 * source: CUDA driver API, cuStreamGetCtx
 */
#include "conformance.h"

CONFORMANCE
{
    CUstream here = new_stream(0);
    CUcontext other, of;
    OK(cuCtxCreate(&other, NULL, 0, device));
    CUstream there = new_stream(0);
    OK(cuStreamGetCtx(here, &of));
    CHECK(of == context);
    OK(cuStreamGetCtx(there, &of));
    CHECK(of == other);
    OK(cuStreamGetCtx(NULL, &of));
    CHECK(of == other);
    OK(cuStreamGetCtx(CU_STREAM_PER_THREAD, &of));
    CHECK(of == other);
    OK(cuCtxPopCurrent(NULL));
    OK(cuStreamGetCtx(CU_STREAM_LEGACY, &of));
    CHECK(of == context);
    unsigned long long a, b;
    OK(cuCtxGetId(context, &a));
    OK(cuCtxGetId(other, &b));
    CHECK(a != b);
    OK(cuCtxDestroy(other));
}
