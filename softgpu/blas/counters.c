/* counters.c: the counters by which the blocks of a split-K launch agree on who is last.
 *
 * They reset themselves: a launch finds them at zero, and the last block of each tile puts its counter back.
 * So they may serve launch after launch, but not two launches at once. A handle therefore has a row of them for
 * each stream, zeroed in stream order when the stream first needs it, and never again. The row belongs to the
 * stream's id, which the driver gives out only once.
 *
 * Where no row will do (the stream is being captured, so that nobody knows what the launch will run beside;
 * rows are used up; another context is current), the caller's own memory serves, zeroed before each launch.
 */
#include "softgpu/blas/device.h"

static int is_captured(CUstream stream)
{
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    CUresult result = blas_driver.cuStreamIsCapturing(stream, &status);
    return result == CUDA_ERROR_STREAM_CAPTURE_IMPLICIT ||
           (result == CUDA_SUCCESS && status != CU_STREAM_CAPTURE_STATUS_NONE);
}

/* The stream's row, or 0. */
static CUresult find_row(blas_context_t *context, CUstream stream, CUdeviceptr *out)
{
    const size_t row_bytes = BLAS_COUNTERS * sizeof(uint32_t);
    unsigned long long id;
    unsigned i = 0;
    CUresult result = blas_driver.cuStreamGetId(stream, &id);
    if (result == CUDA_SUCCESS && !context->counters)
        result = blas_allocate(&context->counters, BLAS_COUNTER_STREAMS * row_bytes);
    if (result != CUDA_SUCCESS)
        return result;
    while (i < context->counter_stream_count && context->counter_streams[i] != id)
        i++;
    if (i == BLAS_COUNTER_STREAMS)
        return CUDA_SUCCESS;
    *out = context->counters + i * row_bytes;
    if (i < context->counter_stream_count)
        return CUDA_SUCCESS;
    result = blas_driver.cuMemsetD32Async(*out, 0, BLAS_COUNTERS, stream);
    if (result == CUDA_SUCCESS)
        context->counter_streams[context->counter_stream_count++] = id;
    return result;
}

CUresult blas_counters(blas_context_t *context, CUstream stream, CUdeviceptr room, unsigned count,
                       CUdeviceptr *out)
{
    CUcontext current = NULL;
    CUresult result = blas_driver.cuCtxGetCurrent(&current);
    *out = 0;
    if (result == CUDA_SUCCESS && current == context->context && !is_captured(stream)) {
        pthread_mutex_lock(&context->lock);
        result = find_row(context, stream, out);
        pthread_mutex_unlock(&context->lock);
    }
    if (result != CUDA_SUCCESS || *out)
        return result;
    *out = room;
    return blas_driver.cuMemsetD32Async(room, 0, count, stream);
}
