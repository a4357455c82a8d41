/* behaviour: an asynchronous copy into pageable host memory returns when it is done, with what the stream did before it.
 * rules: none
 * source: CUDA driver API, API synchronization behavior
 */
#include "conformance.h"

CONFORMANCE
{
    enum { N = 1 << 18 };
    CUstream s = new_stream(CU_STREAM_NON_BLOCKING);
    CUdeviceptr p = device_alloc(N * sizeof(int));
    int *to = calloc(N, sizeof *to);
    CHECK(to != NULL);
    if (!to)
        return;
    fill(s, p, 7, N);
    OK(cuMemcpyDtoHAsync(to, p, N * sizeof(int), s));
    CHECK(to[0] == 7);
    CHECK(to[N - 1] == 7);
    free(to);
}
