/* behaviour: a stream waits for a value in memory that another stream, or the host, writes; work behind the wait runs after
 * it.
 * rules: none
 * source: CUDA driver API, cuStreamWaitValue32 and cuStreamWriteValue32
 */
#include "conformance.h"

CONFORMANCE
{
    CUstream waiter = new_stream(CU_STREAM_NON_BLOCKING), writer = new_stream(CU_STREAM_NON_BLOCKING);
    CUdeviceptr flag = device_alloc(4096), data = device_alloc(4096);
    OK(cuMemsetD32(flag, 0, 16));
    OK(cuMemsetD32(data, 0, 16));
    OK(cuCtxSynchronize());
    CUresult first = cuStreamWaitValue32(waiter, flag, 7, CU_STREAM_WAIT_VALUE_EQ);
    if (first == CUDA_ERROR_NOT_SUPPORTED)
        SKIP("no waiting for values");
    OK(first);
    add(waiter, data, 5, 1);
    EXPECT(CUDA_ERROR_NOT_READY, cuStreamQuery(waiter));
    fill(writer, data, 100, 1);
    OK(cuStreamWriteValue32(writer, flag, 6, 0));
    OK(cuStreamSynchronize(writer));
    EXPECT(CUDA_ERROR_NOT_READY, cuStreamQuery(waiter));
    OK(cuStreamWriteValue32(writer, flag, 7, 0));
    OK(cuStreamSynchronize(waiter));
    CHECK(read_int(data) == 105);
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuStreamWriteValue32(writer, flag + 2, 0, 0));
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuStreamWaitValue32(waiter, flag + 2, 0, 0));

    volatile unsigned *host;
    CUdeviceptr seen;
    OK(cuMemHostAlloc((void **)&host, 4096, CU_MEMHOSTALLOC_DEVICEMAP));
    *host = 0;
    OK(cuMemHostGetDevicePointer(&seen, (void *)host, 0));
    OK(cuStreamWaitValue32(waiter, seen, 1, CU_STREAM_WAIT_VALUE_GEQ));
    add(waiter, data, 1, 1);
    EXPECT(CUDA_ERROR_NOT_READY, cuStreamQuery(waiter));
    *host = 3;
    OK(cuStreamSynchronize(waiter));
    CHECK(read_int(data) == 106);
}
