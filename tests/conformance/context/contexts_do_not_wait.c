/* behaviour: the legacy default streams of two contexts do not wait for one another, and synchronising one context does
 * not wait for the other.
 * rules: none
 * source: CUDA driver API, cuCtxSynchronize
 */
#include "conformance.h"

CONFORMANCE
{
    CUcontext other;
    OK(cuCtxCreate(&other, NULL, 0, device));
    CUdeviceptr p = device_alloc(4096);
    OK(cuCtxPopCurrent(NULL));
    hold_t h = hold(NULL); /* the primary context's default stream */
    OK(cuCtxPushCurrent(other));
    OK(cuMemsetD32Async(p, 9, 16, NULL));
    OK(cuCtxSynchronize());
    CHECK(read_int(p) == 9);
    OK(cuCtxPopCurrent(NULL));
    EXPECT(CUDA_ERROR_NOT_READY, cuStreamQuery(NULL));
    let_go(h);
    OK(cuCtxSynchronize());
    OK(cuCtxDestroy(other));
}
