/* behaviour: Only a relaxed capture may be ended by another thread than the one that began it; others say WRONG_THREAD and
 * go on.
 * rules: capture
 * source: CUDA driver API, cuStreamEndCapture
 */
#include "graph/graphs.h"

typedef struct ending {
    CUstream stream;
    CUresult expected;
} ending_t;

static void end_elsewhere(void *data)
{
    const ending_t *e = data;
    CUgraph g = NULL;
    EXPECT(e->expected, cuStreamEndCapture(e->stream, &g));
    if (g)
        OK(cuGraphDestroy(g));
}

CONFORMANCE
{
    CUdeviceptr p = device_alloc(N * sizeof(int));
    CUstream s = capturing(CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
    on_another_thread(end_elsewhere, &(ending_t){s, CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD});
    fill(s, p, 4, N);
    CUgraph g = end_capture(s);
    CHECK(count_nodes(g) == 1);

    OK(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_RELAXED));
    fill(s, p, 4, N);
    on_another_thread(end_elsewhere, &(ending_t){s, CUDA_SUCCESS});
    CHECK(status_of(s) == CU_STREAM_CAPTURE_STATUS_NONE);
}
