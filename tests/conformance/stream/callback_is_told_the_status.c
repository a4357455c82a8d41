/* behaviour: a callback is called once, when the work before it in its stream is done, with that stream and SUCCESS; the work
 * behind it waits for it. Its flags must be 0.
 * rules: none
 * source: CUDA driver API, cuStreamAddCallback
 */
#include "conformance.h"

static CUstream expected_stream;
static int *pinned, calls, wrong;

static void CUDA_CB look(CUstream stream, CUresult status, void *data)
{
    calls++;
    wrong += stream != expected_stream || status != CUDA_SUCCESS || pinned[0] != *(const int *)data;
    pinned[0] = 100;
}

CONFORMANCE
{
    static int want = 7;
    CUdeviceptr p = device_alloc(4096);
    OK(cuMemAllocHost((void **)&pinned, 4096));
    CUstream s = expected_stream = new_stream(CU_STREAM_NON_BLOCKING);
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuStreamAddCallback(s, look, &want, 1));
    fill(s, p, 7, 16);
    OK(cuMemcpyDtoHAsync(pinned, p, 4, s));
    OK(cuStreamAddCallback(s, look, &want, 0));
    OK(cuMemcpyHtoDAsync(p, pinned, 4, s)); /* reads what the callback has written */
    OK(cuStreamSynchronize(s));
    CHECK(calls == 1 && !wrong);
    CHECK(read_int(p) == 100);
}
