/* behaviour: a batch copies each of its ranges, in stream order as a whole; sources that are named so are read during the
 * call. The legacy default stream is refused.
 * rules: none
 * source: CUDA driver API, cuMemcpyBatchAsync (13.0)
 */
#include "conformance.h"

CONFORMANCE
{
    enum { N = 6, BYTES = 4096 };
    CUstream s = new_stream(CU_STREAM_NON_BLOCKING);
    CUdeviceptr from = device_alloc(N * BYTES), to = device_alloc(N * BYTES);
    fill(s, from, 31, N * BYTES / 4);
    CUdeviceptr dst[N], src[N];
    size_t bytes[N], first[2] = {0, N - 1};
    int ephemeral = 5;
    for (size_t i = 0; i < N; i++) {
        dst[i] = to + i * BYTES;
        src[i] = from + i * BYTES;
        bytes[i] = BYTES - i * 4;
    }
    src[N - 1] = (CUdeviceptr)(uintptr_t)&ephemeral;
    bytes[N - 1] = sizeof ephemeral;
    CUmemcpyAttributes attributes[2];
    memset(attributes, 0, sizeof attributes);
    attributes[0].srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM;
    attributes[1].srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_DURING_API_CALL;
    EXPECT(CUDA_ERROR_INVALID_VALUE,
           cuMemcpyBatchAsync(dst, src, bytes, N, attributes, first, 2, CU_STREAM_LEGACY));
    OK(cuMemcpyBatchAsync(dst, src, bytes, N, attributes, first, 2, s));
    ephemeral = -1;
    OK(cuStreamSynchronize(s));
    for (size_t i = 0; i + 1 < N; i++)
        CHECK(read_int(dst[i] + bytes[i] - 4) == 31);
    CHECK(read_int(dst[N - 1]) == 5);
    attributes[0].srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_INVALID;
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemcpyBatchAsync(dst, src, bytes, N, attributes, first, 2, s));
    attributes[0].srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM;
    first[0] = 1;
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemcpyBatchAsync(dst, src, bytes, N, attributes, first, 2, s));
}
