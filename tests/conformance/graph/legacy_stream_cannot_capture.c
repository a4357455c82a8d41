/* behaviour: The legacy stream cannot capture; the per-thread default stream can, also by the calls that mean it by NULL.
 * rules: none
 * source: CUDA driver API, cuStreamBeginCapture
 */
#define CUDA_API_PER_THREAD_DEFAULT_STREAM
#include "graph/graphs.h"

CONFORMANCE
{
    CUdeviceptr p = device_alloc(N * sizeof(int));
    EXPECT(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED,
           cuStreamBeginCapture(CU_STREAM_LEGACY, CU_STREAM_CAPTURE_MODE_GLOBAL));

    OK(cuStreamBeginCapture(NULL, CU_STREAM_CAPTURE_MODE_GLOBAL));
    CHECK(status_of(CU_STREAM_PER_THREAD) == CU_STREAM_CAPTURE_STATUS_ACTIVE);
    int value = 11, n = N;
    OK(LAUNCH(NULL, "fill", N / 1024, &p, &value, &n));
    add(CU_STREAM_PER_THREAD, p, 1, N);
    CUgraph g = end_capture(CU_STREAM_PER_THREAD);
    CHECK(count_nodes(g) == 2);
    run(instantiate(g), NULL);
    CHECK(all_equal(p, 12, N));
}
