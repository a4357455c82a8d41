/* behaviour: work behind cuStreamWaitEvent sees what was done before the event was recorded on another stream.
 * rules: none
 * source: CUDA driver API, cuStreamWaitEvent
 */
#include "conformance.h"

CONFORMANCE
{
    CUstream a = new_stream(CU_STREAM_NON_BLOCKING), b = new_stream(CU_STREAM_NON_BLOCKING);
    CUevent done = new_event(CU_EVENT_DISABLE_TIMING);
    enum { N = 1 << 16 };
    CUdeviceptr p = device_alloc(N * sizeof(int)), q = device_alloc(N * sizeof(int));
    for (int i = 1; i <= 20; i++) {
        fill(a, p, i, N);
        OK(cuEventRecord(done, a));
        OK(cuStreamWaitEvent(b, done, 0));
        OK(cuMemcpyDtoDAsync(q, p, N * sizeof(int), b));
        OK(cuEventRecord(done, b));
        OK(cuStreamWaitEvent(a, done, 0)); /* the next round overwrites p */
    }
    OK(cuStreamSynchronize(b));
    CHECK(read_int(q) == 20);
    CHECK(read_int(q + (N - 1) * sizeof(int)) == 20);
}
