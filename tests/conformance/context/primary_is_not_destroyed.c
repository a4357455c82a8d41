/* behaviour: the primary context is retained and released, not created: every retain gives the same one, releasing more
 * often than retaining is INVALID_CONTEXT.
 * rules: none
 * source: CUDA driver API, Primary Context Management
 */
#include "conformance.h"

CONFORMANCE
{
    CUcontext again;
    unsigned flags;
    int active = 0;
    OK(cuDevicePrimaryCtxRetain(&again, device));
    CHECK(again == context);
    OK(cuDevicePrimaryCtxGetState(device, &flags, &active));
    CHECK(active == 1);
    OK(cuDevicePrimaryCtxRelease(device));
    OK(cuDevicePrimaryCtxGetState(device, &flags, &active));
    CHECK(active == 1);
    OK(cuDevicePrimaryCtxRelease(device));
    OK(cuDevicePrimaryCtxGetState(device, &flags, &active));
    CHECK(active == 0);
    EXPECT(CUDA_ERROR_INVALID_CONTEXT, cuDevicePrimaryCtxRelease(device));
    EXPECT(CUDA_ERROR_CONTEXT_IS_DESTROYED, cuCtxSynchronize());
}
