/* behaviour: cuMemAlloc, which a capture would not see, is forbidden to the capturing thread unless the capture is relaxed,
 * and to other threads while a global capture goes on; a forbidden call invalidates the capture.
 * rules: capture
 * source: CUDA driver API, cuThreadExchangeStreamCaptureMode
 */
#include "graph/graphs.h"

typedef struct attempt {
    CUstreamCaptureMode thread_mode;
    CUresult expected;
} attempt_t;

static void allocate(void *data)
{
    const attempt_t *a = data;
    CUstreamCaptureMode mode = a->thread_mode;
    OK(cuThreadExchangeStreamCaptureMode(&mode));
    CUdeviceptr p = 0;
    EXPECT(a->expected, cuMemAlloc(&p, 1 << 20));
    OK(cuThreadExchangeStreamCaptureMode(&mode));
    CHECK(mode == a->thread_mode);
}

static const CUstreamCaptureMode GLOBAL = CU_STREAM_CAPTURE_MODE_GLOBAL,
                                 LOCAL = CU_STREAM_CAPTURE_MODE_THREAD_LOCAL,
                                 RELAXED = CU_STREAM_CAPTURE_MODE_RELAXED;
static const CUresult allowed = CUDA_SUCCESS, refused = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;

static void try(CUstreamCaptureMode capture, CUstreamCaptureMode thread, bool elsewhere, CUresult expected)
{
    attempt_t a = {thread, expected};
    CUstream s = capturing(capture);
    if (elsewhere)
        on_another_thread(allocate, &a);
    else
        allocate(&a);
    if (expected)
        expect_invalidated(s);
    else
        OK(cuGraphDestroy(end_capture(s)));
    OK(cuStreamDestroy(s));
}

CONFORMANCE
{
    try(GLOBAL, GLOBAL, false, refused);
    try(GLOBAL, LOCAL, false, refused);
    try(GLOBAL, RELAXED, false, allowed);
    try(LOCAL, GLOBAL, false, refused);
    try(LOCAL, LOCAL, false, refused);
    try(LOCAL, RELAXED, false, allowed);
    try(RELAXED, GLOBAL, false, allowed);
    try(RELAXED, LOCAL, false, allowed);

    try(GLOBAL, GLOBAL, true, refused);
    try(GLOBAL, LOCAL, true, allowed);
    try(GLOBAL, RELAXED, true, allowed);
    try(LOCAL, GLOBAL, true, allowed);
    try(RELAXED, GLOBAL, true, allowed);
}
