/* behaviour: memory freed in stream order and given out again on another stream is not written by the new owner before the old
 * one is done with it.
 * rules: none
 * source: CUDA driver API, Stream Ordered Memory Allocator
 */
#include "conformance.h"

CONFORMANCE
{
    if (!device_attribute(CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED))
        SKIP("no memory pools");
    enum { N = 1 << 18, ROUNDS = 24 };
    CUstream s[2] = {new_stream(CU_STREAM_NON_BLOCKING), new_stream(CU_STREAM_NON_BLOCKING)};
    CUdeviceptr kept = device_alloc(ROUNDS * sizeof(int));
    for (int i = 0; i < ROUNDS; i++) {
        CUdeviceptr p;
        CUstream on = s[i % 2];
        OK(cuMemAllocAsync(&p, N * sizeof(int), on));
        fill(on, p, i, N);
        OK(cuMemcpyDtoDAsync(kept + (CUdeviceptr)i * sizeof(int), p + (N - 1) * sizeof(int), sizeof(int),
                             on));
        OK(cuMemFreeAsync(p, on));
    }
    OK(cuCtxSynchronize());
    for (int i = 0; i < ROUNDS; i++)
        CHECK(read_int(kept + (CUdeviceptr)i * sizeof(int)) == i);
}
