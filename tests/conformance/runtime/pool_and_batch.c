/* behaviour: the runtime allocates from a pool that the program made, and copies in batches.
 * rules: none
 * uses: cudart
 * source: CUDA runtime API, Stream Ordered Memory Allocator; cudaMemcpyBatchAsync
 */
#include "conformance.h"

#include <cuda_runtime_api.h>

#define RT(call) CHECK((call) == cudaSuccess)

CONFORMANCE
{
    if (!device_attribute(CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED))
        SKIP("no memory pools");
    struct cudaMemPoolProps props;
    memset(&props, 0, sizeof props);
    props.allocType = cudaMemAllocationTypePinned;
    props.location.type = cudaMemLocationTypeDevice;
    props.location.id = 0;
    cudaMemPool_t pool;
    cudaStream_t s;
    char *p;
    RT(cudaMemPoolCreate(&pool, &props));
    RT(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
    RT(cudaMallocFromPoolAsync((void **)&p, 8192, pool, s));
    static char from[2][100], to[2][100];
    memset(from[0], 4, 100);
    memset(from[1], 5, 100);
    const void *in[] = {from[0], from[1]}, *out_of[] = {p, p + 4096};
    void *there[] = {p, p + 4096}, *back[] = {to[0], to[1]};
    size_t sizes[] = {100, 100}, first = 0;
    struct cudaMemcpyAttributes how;
    memset(&how, 0, sizeof how);
    how.srcAccessOrder = cudaMemcpySrcAccessOrderDuringApiCall;
    RT(cudaMemcpyBatchAsync((void *const *)there, in, sizes, 2, &how, &first, 1, s));
    how.srcAccessOrder = cudaMemcpySrcAccessOrderStream;
    RT(cudaMemcpyBatchAsync((void *const *)back, out_of, sizes, 2, &how, &first, 1, s));
    RT(cudaFreeAsync(p, s));
    RT(cudaStreamSynchronize(s));
    CHECK(!memcmp(from, to, sizeof from));
    RT(cudaMemPoolDestroy(pool));
}
