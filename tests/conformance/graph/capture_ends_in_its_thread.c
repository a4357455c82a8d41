/* behaviour: Only a relaxed capture may be ended by another thread than the one that began it; others say WRONG_THREAD and
 * are over: the stream captures no more, and there is no graph.
 * rules: capture
 * source: CUDA driver API, cuStreamEndCapture; H200, driver 580.159.04
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
    CHECK(status_of(s) == CU_STREAM_CAPTURE_STATUS_NONE);
    fill(s, p, 4, N);
    CUgraph g = NULL;
    EXPECT(CUDA_ERROR_ILLEGAL_STATE, cuStreamEndCapture(s, &g));
    OK(cuStreamSynchronize(s));
    CHECK(all_equal(p, 4, N)); /* it was launched, not captured */

    OK(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_RELAXED));
    fill(s, p, 4, N);
    on_another_thread(end_elsewhere, &(ending_t){s, CUDA_SUCCESS});
    CHECK(status_of(s) == CU_STREAM_CAPTURE_STATUS_NONE);
}
