/* behaviour: a host function runs after the work before it in its stream and before the work behind it, and may not call
 * the API.
 * rules: none
 * source: CUDA driver API, cuLaunchHostFunc
 */
#include "conformance.h"

typedef struct seen {
    volatile int *value; /* pinned */
    int at_call;
    CUresult inside;
} seen_t;

static void look(void *data)
{
    seen_t *s = data;
    CUdeviceptr q;
    s->at_call = *s->value;
    s->inside = cuMemAlloc(&q, 16);
    *s->value = 9;
}

CONFORMANCE
{
    CUstream stream = new_stream(CU_STREAM_NON_BLOCKING);
    CUdeviceptr p = device_alloc(2 * sizeof(int));
    seen_t s = {.at_call = -1, .inside = CUDA_SUCCESS};
    void *pinned;
    OK(cuMemAllocHost(&pinned, sizeof(int)));
    s.value = pinned;
    *s.value = 0;
    fill(stream, p, 5, 1);
    OK(cuMemcpyDtoHAsync(pinned, p, sizeof(int), stream));
    OK(cuLaunchHostFunc(stream, look, &s));
    OK(cuMemcpyHtoDAsync(p, pinned, sizeof(int), stream));
    OK(cuStreamSynchronize(stream));
    CHECK(s.at_call == 5);
    CHECK(s.inside == CUDA_ERROR_NOT_PERMITTED);
    CHECK(read_int(p) == 9);
}
