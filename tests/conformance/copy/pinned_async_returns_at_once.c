/* behaviour: an asynchronous copy to pinned memory returns before the stream has come to it.
 * rules: none
 * source: CUDA driver API, API synchronization behavior, Memcpy
 */
#include "conformance.h"

CONFORMANCE
{
    CUstream s = new_stream(CU_STREAM_NON_BLOCKING);
    CUdeviceptr p = device_alloc(4096);
    int *pinned;
    OK(cuMemHostAlloc((void **)&pinned, 4096, 0));
    *pinned = 0;
    OK(cuMemsetD32(p, 8, 1));
    OK(cuCtxSynchronize());
    hold_t h = hold(s);
    OK(cuMemcpyDtoHAsync(pinned, p, 4, s));
    CHECK(*(volatile int *)pinned == 0);
    EXPECT(CUDA_ERROR_NOT_READY, cuStreamQuery(s));
    let_go(h);
    OK(cuStreamSynchronize(s));
    CHECK(*pinned == 8);
}
