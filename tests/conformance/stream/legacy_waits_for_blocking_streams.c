/* behaviour: work in the legacy default stream begins after what blocking streams were given before it, and blocking streams
 * go on after it.
 * rules: none
 * source: CUDA driver API, Stream synchronization behavior, Legacy default stream
 */
#include "conformance.h"

CONFORMANCE
{
    CUstream first = new_stream(CU_STREAM_DEFAULT), second = new_stream(CU_STREAM_DEFAULT);
    CUdeviceptr p = device_alloc(sizeof(int));
    OK(cuMemsetD32(p, 0, 1));
    OK(cuCtxSynchronize());

    hold_t h = hold(first);
    fill(first, p, 1, 1);
    add(NULL, p, 10, 1);    /* behind `first` */
    add(second, p, 100, 1); /* behind the legacy stream, though `second` was idle */
    EXPECT(CUDA_ERROR_NOT_READY, cuStreamQuery(second));
    EXPECT(CUDA_ERROR_NOT_READY, cuStreamQuery(NULL));
    let_go(h);
    OK(cuStreamSynchronize(second));
    OK(cuCtxSynchronize());
    CHECK(read_int(p) == 111);
}
