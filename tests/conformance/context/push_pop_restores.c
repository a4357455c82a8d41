/* behaviour: a created context is current to the thread that made it; pushing and popping restore what was below.
 * rules: none
 * source: CUDA driver API, Context Management
 */
#include "conformance.h"

CONFORMANCE
{
    CUcontext first, current, popped;
    CUdevice on = -1;
    OK(cuCtxCreate(&first, NULL, 0, device));
    OK(cuCtxGetCurrent(&current));
    CHECK(current == first && first != context);
    OK(cuCtxGetDevice(&on));
    CHECK(on == device);
    OK(cuCtxPushCurrent(context));
    OK(cuCtxGetCurrent(&current));
    CHECK(current == context);
    OK(cuCtxPopCurrent(&popped));
    CHECK(popped == context);
    OK(cuCtxGetCurrent(&current));
    CHECK(current == first);
    OK(cuCtxSetCurrent(context)); /* replaces the top */
    OK(cuCtxPopCurrent(&popped));
    CHECK(popped == context);
    OK(cuCtxGetCurrent(&current));
    CHECK(current == context); /* what was current before the case began */
    OK(cuCtxDestroy(first));
    OK(cuCtxPopCurrent(NULL));
    OK(cuCtxGetCurrent(&current));
    CHECK(current == NULL);
    CUdeviceptr p;
    EXPECT(CUDA_ERROR_INVALID_CONTEXT, cuMemAlloc(&p, 4));
    EXPECT(CUDA_ERROR_INVALID_CONTEXT, cuCtxPopCurrent(NULL));
}
