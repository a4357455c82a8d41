/* stream.c: streams and events. cudaStream_t and cudaEvent_t are the driver's handles; cudaStreamLegacy and
 * cudaStreamPerThread have the driver's values. */
#include "softgpu/runtime/runtime.h"

#include <string.h>

_Static_assert(cudaStreamNonBlocking == (int)CU_STREAM_NON_BLOCKING,
               "stream flags have the driver's numbers");
_Static_assert(cudaEventDisableTiming == (int)CU_EVENT_DISABLE_TIMING &&
                   cudaEventBlockingSync == (int)CU_EVENT_BLOCKING_SYNC &&
                   cudaEventInterprocess == (int)CU_EVENT_INTERPROCESS,
               "event flags have the driver's numbers");
_Static_assert(sizeof(cudaStreamAttrValue) == sizeof(CUstreamAttrValue),
               "stream attributes are passed to the driver as they are");

/* streams */

cudaError_t cudaStreamCreate(cudaStream_t *stream)
{
    return RT_PASS(cuStreamCreate, stream, CU_STREAM_DEFAULT);
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned int flags)
{
    return RT_PASS(cuStreamCreate, stream, flags);
}

cudaError_t cudaStreamCreateWithPriority(cudaStream_t *stream, unsigned int flags, int priority)
{
    return RT_PASS(cuStreamCreateWithPriority, stream, flags, priority);
}

/* The default streams cannot be destroyed. */
cudaError_t cudaStreamDestroy(cudaStream_t stream)
{
    if (!stream)
        return rt_record(cudaErrorInvalidResourceHandle);
    return RT_PASS(cuStreamDestroy, stream);
}

static cudaError_t add_callback(const driver_t *d, cudaStream_t stream, cudaStreamCallback_t callback,
                                void *user_data, unsigned int flags)
{
    CUstreamCallback driver_callback; /* the same function: its status argument has the same numbers */
    memcpy(&driver_callback, &callback, sizeof driver_callback);
    return RT_CALL(d, cuStreamAddCallback, stream, driver_callback, user_data, flags);
}

/* clang-format off */
RT_BOTH_FORMS(cudaStreamSynchronize, _ptsz, (cudaStream_t stream), RT_CALL(d, cuStreamSynchronize, stream))
RT_BOTH_FORMS(cudaStreamQuery, _ptsz, (cudaStream_t stream), RT_CALL(d, cuStreamQuery, stream))
RT_BOTH_FORMS(cudaStreamWaitEvent, _ptsz, (cudaStream_t stream, cudaEvent_t event, unsigned int flags),
              RT_CALL(d, cuStreamWaitEvent, stream, event, flags))
RT_BOTH_FORMS(cudaStreamAddCallback, _ptsz,
              (cudaStream_t stream, cudaStreamCallback_t callback, void *user_data, unsigned int flags),
              add_callback(d, stream, callback, user_data, flags))
RT_BOTH_FORMS(cudaStreamAttachMemAsync, _ptsz, (cudaStream_t stream, void *pointer, size_t bytes,
                                                unsigned int flags),
              RT_CALL(d, cuStreamAttachMemAsync, stream, rt_address(pointer), bytes, flags))
RT_BOTH_FORMS(cudaStreamGetPriority, _ptsz, (cudaStream_t stream, int *priority),
              RT_CALL(d, cuStreamGetPriority, stream, priority))
RT_BOTH_FORMS(cudaStreamGetFlags, _ptsz, (cudaStream_t stream, unsigned int *flags),
              RT_CALL(d, cuStreamGetFlags, stream, flags))
RT_BOTH_FORMS(cudaStreamGetId, _ptsz, (cudaStream_t stream, unsigned long long *id),
             
              RT_CALL(d, cuStreamGetId, stream, id))
RT_BOTH_FORMS(cudaStreamGetDevice, _ptsz, (cudaStream_t stream, int *device),
              RT_CALL(d, cuStreamGetDevice, stream, device))
RT_BOTH_FORMS(cudaStreamCopyAttributes, _ptsz, (cudaStream_t to, cudaStream_t from),
              RT_CALL(d, cuStreamCopyAttributes, to, from))
RT_BOTH_FORMS(cudaStreamGetAttribute, _ptsz, (cudaStream_t stream, cudaStreamAttrID id,
                                              cudaStreamAttrValue *value),
              RT_CALL(d, cuStreamGetAttribute, stream, (CUstreamAttrID)id, (CUstreamAttrValue *)value))
RT_BOTH_FORMS(cudaStreamSetAttribute, _ptsz, (cudaStream_t stream, cudaStreamAttrID id,
                                              const cudaStreamAttrValue *value),
              RT_CALL(d, cuStreamSetAttribute, stream, (CUstreamAttrID)id, (const CUstreamAttrValue *)value))

/* events */

RT_BOTH_FORMS(cudaEventRecord, _ptsz, (cudaEvent_t event, cudaStream_t stream),
              RT_CALL(d, cuEventRecord, event, stream))
RT_BOTH_FORMS(cudaEventRecordWithFlags, _ptsz, (cudaEvent_t event, cudaStream_t stream, unsigned int flags),
              RT_CALL(d, cuEventRecordWithFlags, event, stream, flags))
/* clang-format on */

cudaError_t cudaEventCreate(cudaEvent_t *event)
{
    return RT_PASS(cuEventCreate, event, CU_EVENT_DEFAULT);
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned int flags)
{
    return RT_PASS(cuEventCreate, event, flags);
}

cudaError_t cudaEventDestroy(cudaEvent_t event)
{
    return RT_PASS(cuEventDestroy, event);
}

cudaError_t cudaEventQuery(cudaEvent_t event)
{
    return RT_PASS(cuEventQuery, event);
}

cudaError_t cudaEventSynchronize(cudaEvent_t event)
{
    return RT_PASS(cuEventSynchronize, event);
}

cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t start, cudaEvent_t end)
{
    return RT_PASS(cuEventElapsedTime, ms, start, end);
}
