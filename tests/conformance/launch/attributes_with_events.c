/* behaviour: a launch attribute records an event with the kernel; the event must be without timing.
 * rules: none
 * source: CUDA driver API, cuLaunchKernelEx, CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT
 */
#include "conformance.h"

CONFORMANCE
{
    CUstream s = new_stream(CU_STREAM_NON_BLOCKING), other = new_stream(CU_STREAM_NON_BLOCKING);
    CUevent event = new_event(CU_EVENT_DISABLE_TIMING), timed = new_event(0);
    CUdeviceptr p = device_alloc(4096);
    int value = 4, n = 4;
    void *a[] = {&p, &value, &n};
    CUlaunchAttribute attribute;
    memset(&attribute, 0, sizeof attribute);
    attribute.id = CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT;
    attribute.value.launchCompletionEvent.event = event;
    CUlaunchConfig config = {.gridDimX = 1,
                             .gridDimY = 1,
                             .gridDimZ = 1,
                             .blockDimX = 32,
                             .blockDimY = 1,
                             .blockDimZ = 1,
                             .hStream = s,
                             .attrs = &attribute,
                             .numAttrs = 1};
    CUresult first = cuLaunchKernelEx(&config, kernel("fill"), a, NULL);
    if (first == CUDA_ERROR_NOT_SUPPORTED)
        SKIP("no event at launch completion");
    OK(first);
    OK(cuStreamWaitEvent(other, event, 0));
    OK(cuStreamSynchronize(s));
    OK(cuStreamSynchronize(other));
    EXPECT(CUDA_SUCCESS, cuEventQuery(event));
    CHECK(read_int(p) == 4);
    attribute.value.launchCompletionEvent.event = timed;
    CHECK(cuLaunchKernelEx(&config, kernel("fill"), a, NULL) != CUDA_SUCCESS);
    attribute.id = CU_LAUNCH_ATTRIBUTE_PRIORITY;
    attribute.value.priority = 0;
    EXPECT(CUDA_SUCCESS, cuLaunchKernelEx(&config, kernel("fill"), a, NULL));
    OK(cuStreamSynchronize(s));
}
