/* behaviour: a free on a blocking stream comes after what the legacy default stream was given before it, also where that stream has nothing
 * else to do and is waited for: what uses the memory there does not reach the data of a new owner on a stream that waits for neither.
 * rules: none
 * source: CUDA driver API, Stream synchronization behavior, Legacy default stream; Stream Ordered Memory Allocator
 */
#include "conformance.h"

enum { LAUNCHES = 100 };

static void check(size_t words)
{
    CUstream freeing = new_stream(CU_STREAM_DEFAULT), owner = new_stream(CU_STREAM_NON_BLOCKING);
    CUdeviceptr p, q, out = device_alloc(4);
    OK(cuMemAllocAsync(&p, words * 4, freeing));
    OK(cuCtxSynchronize());

    for (int i = 0; i < LAUNCHES; i++)
        fill(NULL, p, 1, (int)words);
    OK(cuMemFreeAsync(p, freeing));
    OK(cuStreamSynchronize(freeing));
    OK(cuMemAllocAsync(&q, words * 4, owner));
    fill(owner, q, 2, (int)words);
    OK(cuCtxSynchronize());
    OK(cuMemcpyDtoD(out, q + (words - 1) * 4, 4));
    CHECK(read_int(out) == 2);
    OK(cuMemFreeAsync(q, owner));
    OK(cuCtxSynchronize());
}

CONFORMANCE
{
    if (!device_attribute(CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED))
        SKIP("no memory pools");
    check(1000);
    check(3000000);
}
