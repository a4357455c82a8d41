/* behaviour: freeing and allocating on the legacy default stream are work in it: what a blocking stream was given before the free does not
 * reach the data of the block's new owner, which another blocking stream writes.
 * rules: none
 * source: CUDA driver API, Stream synchronization behavior, Legacy default stream; Stream Ordered Memory Allocator
 */
#include "conformance.h"

static void check(size_t words)
{
    CUstream first = new_stream(CU_STREAM_DEFAULT), second = new_stream(CU_STREAM_DEFAULT);
    CUdeviceptr p, out = device_alloc(4);
    OK(cuMemAllocAsync(&p, words * 4, NULL));
    OK(cuCtxSynchronize());

    hold_t h = hold(first);
    fill(first, p, 1, (int)words);
    OK(cuMemFreeAsync(p, NULL));
    OK(cuMemAllocAsync(&p, words * 4, NULL));
    fill(second, p, 2, (int)words);
    let_go(h);
    OK(cuCtxSynchronize());
    OK(cuMemcpyDtoD(out, p + (words - 1) * 4, 4));
    CHECK(read_int(out) == 2);
    OK(cuMemFreeAsync(p, NULL));
    OK(cuCtxSynchronize());
}

CONFORMANCE
{
    if (!device_attribute(CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED))
        SKIP("no memory pools");
    check(1000);
    check(3000000);
}
