/* behaviour: synchronising the legacy default stream waits for all blocking streams, the thread's own default stream among them,
 * and not for non-blocking ones; a query of it tells the same.
 * rules: none
 * source: CUDA driver API, Stream synchronization behavior
 */
#include "conformance.h"

CONFORMANCE
{
    CUdeviceptr p = device_alloc(1 << 20);
    CUstream blocking = new_stream(CU_STREAM_DEFAULT), free_stream = new_stream(CU_STREAM_NON_BLOCKING);
    hold_t h = hold(free_stream);
    EXPECT(CUDA_SUCCESS, cuStreamQuery(CU_STREAM_LEGACY));
    fill(blocking, p, 1, 1 << 18);
    fill(CU_STREAM_PER_THREAD, p, 2, 1);
    OK(cuStreamSynchronize(CU_STREAM_LEGACY));
    EXPECT(CUDA_SUCCESS, cuStreamQuery(blocking));
    EXPECT(CUDA_SUCCESS, cuStreamQuery(CU_STREAM_PER_THREAD));
    EXPECT(CUDA_ERROR_NOT_READY, cuStreamQuery(free_stream));
    let_go(h);
    OK(cuStreamSynchronize(free_stream));

    h = hold(blocking);
    EXPECT(CUDA_ERROR_NOT_READY, cuStreamQuery(CU_STREAM_LEGACY));
    let_go(h);
    OK(cuStreamSynchronize(CU_STREAM_LEGACY));
    EXPECT(CUDA_SUCCESS, cuStreamQuery(blocking));
}
