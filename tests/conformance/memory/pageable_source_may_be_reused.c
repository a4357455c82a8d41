/* behaviour: after an asynchronous copy from pageable host memory has returned, that memory may be written again.
 * rules: none
 * source: CUDA driver API, API synchronization behavior
 */
#include "conformance.h"

CONFORMANCE
{
    enum { LARGE = 1 << 20, SMALL = 256 };
    CUstream s = new_stream(CU_STREAM_NON_BLOCKING);
    CUdeviceptr p = device_alloc(LARGE * sizeof(int)), q = device_alloc(SMALL * sizeof(int));
    int *large = malloc(LARGE * sizeof *large), small[SMALL];
    CHECK(large != NULL);
    if (!large)
        return;
    for (int i = 0; i < LARGE; i++)
        large[i] = i;
    for (int i = 0; i < SMALL; i++)
        small[i] = i;
    OK(cuMemcpyHtoDAsync(p, large, LARGE * sizeof(int), s));
    memset(large, 0xff, LARGE * sizeof *large);
    OK(cuMemcpyHtoDAsync(q, small, sizeof small, s));
    memset(small, 0xff, sizeof small);
    OK(cuStreamSynchronize(s));
    CHECK(read_int(p + (LARGE - 1) * sizeof(int)) == LARGE - 1);
    CHECK(read_int(q + (SMALL - 1) * sizeof(int)) == SMALL - 1);
    free(large);
}
