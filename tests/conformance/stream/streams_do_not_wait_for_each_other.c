/* behaviour: a non-blocking stream goes on while another one, and the legacy default stream, are kept busy.
 * rules: none
 * source: CUDA driver API, Stream synchronization behavior
 */
#include "conformance.h"

CONFORMANCE
{
    CUstream held = new_stream(CU_STREAM_NON_BLOCKING), other = new_stream(CU_STREAM_NON_BLOCKING);
    CUdeviceptr p = device_alloc(sizeof(int));
    int *seen;
    OK(cuMemAllocHost((void **)&seen, sizeof *seen));
    *seen = 0;

    hold_t h = hold(held);
    fill(other, p, 5, 1);
    OK(cuMemcpyDtoHAsync(seen, p, sizeof *seen, other));
    OK(cuStreamSynchronize(other));
    CHECK(*seen == 5);
    EXPECT(CUDA_ERROR_NOT_READY, cuStreamQuery(held));
    let_go(h);
    OK(cuStreamSynchronize(held));

    h = hold(NULL);
    fill(other, p, 6, 1);
    OK(cuMemcpyDtoHAsync(seen, p, sizeof *seen, other));
    OK(cuStreamSynchronize(other));
    CHECK(*seen == 6);
    EXPECT(CUDA_ERROR_NOT_READY, cuStreamQuery(NULL));
    let_go(h);
    OK(cuCtxSynchronize());
}
