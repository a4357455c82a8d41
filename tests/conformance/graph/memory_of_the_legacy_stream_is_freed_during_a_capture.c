/* behaviour: While a non-blocking stream captures in relaxed mode, memory is allocated, used and freed on the legacy stream as ever.
 * rules: capture
 * source: CUDA Programming Guide, Stream Capture: what is forbidden concerns the legacy stream while a blocking stream captures
 */
#include "graph/graphs.h"

CONFORMANCE
{
    CUdeviceptr p[4];
    int values[4];
    CUstream s = capturing(CU_STREAM_CAPTURE_MODE_RELAXED);
    for (int i = 0; i < 4; i++) {
        OK(cuMemAllocAsync(&p[i], (size_t)4 << (6 * i), CU_STREAM_LEGACY));
        OK(cuMemsetD8Async(p[i], (unsigned char)i, (size_t)4 << (6 * i), CU_STREAM_LEGACY));
    }
    for (int i = 0; i < 4; i++) {
        OK(cuMemcpyDtoHAsync(&values[i], p[i], sizeof values[i], CU_STREAM_LEGACY));
        EXPECT(CUDA_SUCCESS, cuMemFreeAsync(p[i], CU_STREAM_LEGACY));
    }
    OK(cuGraphDestroy(end_capture(s)));
    OK(cuStreamSynchronize(CU_STREAM_LEGACY));
    for (int i = 0; i < 4; i++)
        CHECK(values[i] == 0x01010101 * i);
}
