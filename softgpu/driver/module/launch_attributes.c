/* launch_attributes.c: what cuLaunchKernelEx may be told beside the grid. This device is like one of compute capability 8.0:
 * it has no clusters, one memory domain, and it runs dependent kernels one after the other, which is one way to honour
 * the programmatic attributes. */
#include "softgpu/driver/module/launch.h"
#include "softgpu/driver/rules.h"

static CUresult check_event(CUevent event)
{
    unsigned flags;
    if (!sg_event_flags(event, &flags))
        return CUDA_ERROR_INVALID_HANDLE;
    return flags & CU_EVENT_DISABLE_TIMING && !(flags & CU_EVENT_INTERPROCESS) ? CUDA_SUCCESS
                                                                               : CUDA_ERROR_INVALID_VALUE;
}

static CUresult read_one(const CUlaunchAttribute *a, sg_launch_options_t *out)
{
    const CUlaunchAttributeValue *v = &a->value;
    switch ((int)a->id) {
    case CU_LAUNCH_ATTRIBUTE_IGNORE:
    case CU_LAUNCH_ATTRIBUTE_PRIORITY: /* an op has its stream's */
    case CU_LAUNCH_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE:
    case CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION:
    case CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY:
    case CU_LAUNCH_ATTRIBUTE_NVLINK_UTIL_CENTRIC_SCHEDULING:
        return CUDA_SUCCESS;
    case CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW:
        return v->accessPolicyWindow.hitRatio >= 0 && v->accessPolicyWindow.hitRatio <= 1 &&
                       v->accessPolicyWindow.missProp != CU_ACCESS_PROPERTY_PERSISTING
                   ? CUDA_SUCCESS
                   : CUDA_ERROR_INVALID_VALUE;
    case CU_LAUNCH_ATTRIBUTE_COOPERATIVE:
        out->cooperative = v->cooperative != 0;
        return CUDA_SUCCESS;
    case CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION:
    case CU_LAUNCH_ATTRIBUTE_PREFERRED_CLUSTER_DIMENSION:
        return v->clusterDim.x == 1 && v->clusterDim.y == 1 && v->clusterDim.z == 1
                   ? CUDA_SUCCESS
                   : CUDA_ERROR_INVALID_CLUSTER_SIZE;
    case CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT:
        out->events[0] = v->programmaticEvent.event;
        return check_event(v->programmaticEvent.event);
    case CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT:
        out->events[1] = v->launchCompletionEvent.event;
        return check_event(v->launchCompletionEvent.event);
    case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP:
        return v->memSyncDomainMap.default_ || v->memSyncDomainMap.remote ? CUDA_ERROR_INVALID_VALUE
                                                                          : CUDA_SUCCESS;
    case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN:
        return (unsigned)v->memSyncDomain > CU_LAUNCH_MEM_SYNC_DOMAIN_REMOTE ? CUDA_ERROR_INVALID_VALUE
                                                                             : CUDA_SUCCESS;
    case CU_LAUNCH_ATTRIBUTE_DEVICE_UPDATABLE_KERNEL_NODE: /* of graphs only */
        return CUDA_ERROR_INVALID_VALUE;
    case CU_LAUNCH_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
        return (int)v->sharedMemCarveout < -1 || (int)v->sharedMemCarveout > 100 ? CUDA_ERROR_INVALID_VALUE
                                                                                 : CUDA_SUCCESS;
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
}

CUresult sg_launch_attributes(const CUlaunchConfig *c, sg_launch_options_t *out)
{
    *out = (sg_launch_options_t){0};
    if (c->numAttrs && !c->attrs)
        return CUDA_ERROR_INVALID_VALUE;
    for (unsigned i = 0; i < c->numAttrs; i++)
        SG_TRY(read_one(&c->attrs[i], out));
    return CUDA_SUCCESS;
}

CUresult sg_launch_record_events(const sg_launch_options_t *options, CUstream stream)
{
    for (int i = 0; i < 2; i++)
        if (options->events[i])
            SG_TRY(cuEventRecord(options->events[i], stream));
    return CUDA_SUCCESS;
}
