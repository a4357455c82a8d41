/* behaviour: an asynchronous copy from pageable memory has read its source when it returns.
 * rules: none
 * source: CUDA driver API, API synchronization behavior, Memcpy
 */
#include "conformance.h"

CONFORMANCE
{
    CUstream s = new_stream(CU_STREAM_NON_BLOCKING);
    CUdeviceptr p = device_alloc(64);
    int value = 12;
    hold_t h = hold(s);
    OK(cuMemcpyHtoDAsync(p, &value, sizeof value, s));
    value = 13;
    let_go(h);
    OK(cuStreamSynchronize(s));
    CHECK(read_int(p) == 12);
}
