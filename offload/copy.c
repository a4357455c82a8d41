/* copy.c: the copy engine. Its streams are non-blocking: the program's default stream does not concern them.
 */
#include "driver.h"
#include "ebb_offload.h"
#include "traffic.h"

static ebb_stream_t *stream_of[2];

ebb_stream_t *ebb_copy_stream(ebb_direction_t direction)
{
    CUstream handle;
    if (stream_of[direction])
        return stream_of[direction];
    int result = ebb_driver.cuStreamCreate(&handle, CU_STREAM_NON_BLOCKING);
    if (result) {
        ebb_fail(result, "cuStreamCreate", 0);
        return NULL;
    }
    return stream_of[direction] = ebb_stream_of(handle);
}

ebb_status_t ebb_copy_issue(ebb_direction_t direction, CUdeviceptr device, void *host, size_t bytes)
{
    ebb_stream_t *s = ebb_copy_stream(direction);
    if (!s)
        return CUDA_ERROR_OUT_OF_MEMORY;
    CUstream stream = ebb_stream_handle(s);
    if (direction == EBB_OUT) {
        EBB_DRIVER(cuMemcpyDtoHAsync, bytes, (host, device, bytes, stream));
        ebb_traffic_counters.bytes_out += bytes;
    } else {
        EBB_DRIVER(cuMemcpyHtoDAsync, bytes, (device, host, bytes, stream));
        ebb_traffic_counters.bytes_in += bytes;
    }
    ebb_mark_issue(s);
    return 0;
}

ebb_status_t ebb_copy_out(ebb_buffer_t *b, void *host, ebb_mark_t *done)
{
    EBB_DCHECK(b->range->mapped);
    ebb_stream_t *s = ebb_copy_stream(EBB_OUT);
    if (!s)
        return CUDA_ERROR_OUT_OF_MEMORY;
    EBB_TRY(ebb_buffer_join(ebb_stream_handle(s), b));
    EBB_TRY(ebb_copy_issue(EBB_OUT, b->address, host, b->bytes));
    *done = ebb_mark_here(s);
    return 0;
}

ebb_status_t ebb_copy_in(ebb_buffer_t *b, const void *host, ebb_mark_t *done)
{
    EBB_DCHECK(b->range->mapped);
    EBB_TRY(ebb_copy_issue(EBB_IN, b->address, (void *)(uintptr_t)host, b->bytes));
    *done = ebb_mark_here(ebb_copy_stream(EBB_IN));
    return 0;
}
