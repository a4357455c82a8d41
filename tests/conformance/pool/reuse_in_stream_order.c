/* behaviour: a block that is freed on a stream may be used again on that stream at once; what a kernel before the free wrote
 * does not reach the new owner's data.
 * rules: none
 * source: CUDA programming guide, Stream Ordered Memory Allocator
 */
#include "conformance.h"

CONFORMANCE
{
    if (!device_attribute(CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED))
        SKIP("no memory pools");
    CUstream s = new_stream(CU_STREAM_NON_BLOCKING);
    CUdeviceptr out = device_alloc(64);
    for (int i = 0; i < 50; i++) {
        CUdeviceptr p;
        OK(cuMemAllocAsync(&p, 4096, s));
        fill(s, p, i, 1024);
        OK(cuMemcpyDtoDAsync(out, p + 4000, 4, s));
        OK(cuMemFreeAsync(p, s));
        OK(cuMemAllocAsync(&p, 4096, s));
        fill(s, p, -1, 1024);
        OK(cuMemFreeAsync(p, s));
    }
    OK(cuStreamSynchronize(s));
    CHECK(read_int(out) == 49);
}
