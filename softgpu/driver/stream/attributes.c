/* attributes.c: attributes of streams. They are hints for caches and memory domains, kept and given back. */
#include "softgpu/driver/stream/streams.h"

#include <string.h>

static bool is_of_streams(CUstreamAttrID id)
{
    return id == CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW ||
           id == CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY ||
           id == CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP || id == CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN ||
           id == CU_LAUNCH_ATTRIBUTE_PRIORITY;
}

/* Whether an attribute is one of streams and its value makes sense. */
static bool is_valid(CUstreamAttrID id, const CUstreamAttrValue *v)
{
    switch (id) {
    case CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW:
        return v->accessPolicyWindow.hitRatio >= 0 && v->accessPolicyWindow.hitRatio <= 1 &&
               v->accessPolicyWindow.missProp != CU_ACCESS_PROPERTY_PERSISTING;
    case CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY:
        return v->syncPolicy >= CU_SYNC_POLICY_AUTO && v->syncPolicy <= CU_SYNC_POLICY_BLOCKING_SYNC;
    case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP: /* there is one domain */
        return !v->memSyncDomainMap.default_ && !v->memSyncDomainMap.remote;
    case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN:
        return v->memSyncDomain == CU_LAUNCH_MEM_SYNC_DOMAIN_DEFAULT ||
               v->memSyncDomain == CU_LAUNCH_MEM_SYNC_DOMAIN_REMOTE;
    case CU_LAUNCH_ATTRIBUTE_PRIORITY:
        return true;
    default:
        return false;
    }
}

static CUresult access_attribute(CUstream handle, CUstreamAttrID id, CUstreamAttrValue *v, bool set)
{
    SG_TRY(sg_enter_context());
    if (!v || !(set ? is_valid(id, v) : is_of_streams(id)))
        return CUDA_ERROR_INVALID_VALUE;
    sg_lock();
    sg_stream_t *s = sg_stream_resolve_locked(handle);
    if (s && id == CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW)
        *(set ? &s->attributes.window : &v->accessPolicyWindow) =
            *(set ? &v->accessPolicyWindow : &s->attributes.window);
    else if (s && id == CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY)
        *(set ? &s->attributes.policy : &v->syncPolicy) = *(set ? &v->syncPolicy : &s->attributes.policy);
    else if (s && id == CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN)
        *(set ? &s->attributes.domain : &v->memSyncDomain) =
            *(set ? &v->memSyncDomain : &s->attributes.domain);
    else if (s && id == CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP && !set)
        memset(&v->memSyncDomainMap, 0, sizeof v->memSyncDomainMap);
    else if (s && id == CU_LAUNCH_ATTRIBUTE_PRIORITY)
        *(set ? &s->priority : &v->priority) = *(set ? &v->priority : &s->priority);
    if (s)
        s->priority = s->priority > 0 ? 0 : s->priority < -5 ? -5 : s->priority;
    sg_unlock();
    return s ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

ASYNC_CALL(cuStreamGetAttribute, (CUstream stream, CUstreamAttrID id, CUstreamAttrValue *value),
           access_attribute(stream, id, value, false))
ASYNC_CALL(cuStreamSetAttribute, (CUstream stream, CUstreamAttrID id, const CUstreamAttrValue *value),
           access_attribute(stream, id, (CUstreamAttrValue *)(uintptr_t)value, true))

static CUresult copy_attributes(CUstream dst, CUstream src)
{
    SG_TRY(sg_enter_context());
    sg_lock();
    sg_stream_t *to = sg_stream_resolve_locked(dst), *from = sg_stream_resolve_locked(src);
    bool fits = to && from && to->ctx == from->ctx;
    if (fits)
        to->attributes = from->attributes;
    sg_unlock();
    return fits ? CUDA_SUCCESS : to && from ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_INVALID_HANDLE;
}

SG_EXPORT CUresult cuStreamCopyAttributes(CUstream dst, CUstream src)
{
    return copy_attributes(dst, src);
}

SG_EXPORT CUresult cuStreamCopyAttributes_ptsz(CUstream dst, CUstream src);
SG_EXPORT CUresult cuStreamCopyAttributes_ptsz(CUstream dst, CUstream src)
{
    return copy_attributes(dst ? dst : CU_STREAM_PER_THREAD, src ? src : CU_STREAM_PER_THREAD);
}

/* There are no green contexts. */
static CUresult contexts_of(CUstream handle, CUcontext *ctx, CUgreenCtx *green)
{
    SG_TRY(sg_enter_context());
    if (!ctx || !green)
        return CUDA_ERROR_INVALID_VALUE;
    sg_lock();
    const sg_stream_t *s = sg_stream_resolve_locked(handle);
    if (s) {
        *ctx = s->ctx;
        *green = NULL;
    }
    sg_unlock();
    return s ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

ASYNC_CALL(cuStreamGetCtx_v2, (CUstream stream, CUcontext *ctx, CUgreenCtx *green),
           contexts_of(stream, ctx, green))
