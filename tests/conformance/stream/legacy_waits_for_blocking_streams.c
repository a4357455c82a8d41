/* behaviour: work in the legacy default stream waits for what blocking streams hold, and they for it; non-blocking streams
 * neither.
 * rules: none
 * source: CUDA driver API, Stream synchronization behavior
 */
#include "conformance.h"

CONFORMANCE
{
    CUstream blocking = new_stream(CU_STREAM_DEFAULT), apart = new_stream(CU_STREAM_NON_BLOCKING);
    CUdeviceptr p = device_alloc(4096);
    OK(cuMemsetD32(p, 0, 16));
    OK(cuCtxSynchronize());
    hold_t h = hold(blocking);
    fill(apart, p + 4, 1, 1);
    OK(cuStreamSynchronize(apart));
    fill(NULL, p, 1, 1); /* behind the blocking stream */
    EXPECT(CUDA_ERROR_NOT_READY, cuStreamQuery(NULL));
    let_go(h);
    OK(cuStreamSynchronize(NULL));
    CHECK(read_int(p) == 1 && read_int(p + 4) == 1);

    h = hold(NULL);
    fill(blocking, p, 2, 1);
    fill(apart, p + 4, 2, 1);
    OK(cuStreamSynchronize(apart));
    EXPECT(CUDA_ERROR_NOT_READY, cuStreamQuery(blocking));
    let_go(h);
    OK(cuCtxSynchronize());
    CHECK(read_int(p) == 2);
}
