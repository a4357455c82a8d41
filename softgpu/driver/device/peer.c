/* peer.c: access between devices. Every device reaches every other one, as over NVLink; a context has to ask. */
#include "softgpu/driver/rules.h"
#include "softgpu/driver/stream/streams.h"

#include <stdlib.h>

SG_EXPORT CUresult cuDeviceCanAccessPeer(int *can, CUdevice device, CUdevice peer)
{
    SG_TRY(sg_device_check(device));
    SG_TRY(sg_device_check(peer));
    if (!can)
        return CUDA_ERROR_INVALID_VALUE;
    *can = device != peer;
    return CUDA_SUCCESS;
}

SG_EXPORT CUresult cuDeviceGetP2PAttribute(int *value, CUdevice_P2PAttribute attribute, CUdevice from,
                                           CUdevice to)
{
    SG_TRY(sg_device_check(from));
    SG_TRY(sg_device_check(to));
    if (from == to)
        return CUDA_ERROR_INVALID_DEVICE;
    if (!value)
        return CUDA_ERROR_INVALID_VALUE;
    switch (attribute) {
    case CU_DEVICE_P2P_ATTRIBUTE_PERFORMANCE_RANK:
    case CU_DEVICE_P2P_ATTRIBUTE_ONLY_PARTIAL_NATIVE_ATOMIC_SUPPORTED:
        *value = 0;
        return CUDA_SUCCESS;
    case CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED:
    case CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED:
        *value = 1;
        return CUDA_SUCCESS;
    case CU_DEVICE_P2P_ATTRIBUTE_CUDA_ARRAY_ACCESS_SUPPORTED: /* there are no arrays */
        *value = 0;
        return CUDA_SUCCESS;
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
}

/* Which of `ctx`'s peers it is; peer_count if it is none. */
static unsigned find_peer(CUcontext ctx, CUcontext peer)
{
    unsigned i = 0;
    while (i < ctx->peer_count && ctx->peers[i] != peer)
        i++;
    return i;
}

/* Kernels take their rights from the devices of all peers. */
static void update_devices(CUcontext ctx)
{
    unsigned devices = 0;
    for (unsigned i = 0; i < ctx->peer_count; i++)
        devices |= 1u << ctx->peers[i]->device;
    atomic_store(&ctx->peer_devices, devices);
}

static CUresult enable_locked(CUcontext ctx, CUcontext peer)
{
    SG_TRY(sg_context_check_locked(peer));
    if (!peer->active)
        return CUDA_ERROR_INVALID_CONTEXT;
    if (peer->device == ctx->device) /* cuDeviceCanAccessPeer denies it */
        return CUDA_ERROR_PEER_ACCESS_UNSUPPORTED;
    if (find_peer(ctx, peer) < ctx->peer_count)
        return CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED;
    if (ctx->peer_count == sizeof ctx->peers / sizeof ctx->peers[0])
        return CUDA_ERROR_TOO_MANY_PEERS;
    ctx->peers[ctx->peer_count++] = peer;
    update_devices(ctx);
    return CUDA_SUCCESS;
}

SG_EXPORT CUresult cuCtxEnablePeerAccess(CUcontext peer, unsigned flags)
{
    SG_TRY(sg_enter_context());
    if (flags)
        return CUDA_ERROR_INVALID_VALUE;
    sg_lock();
    CUresult result = enable_locked(sg_current_context(), peer);
    sg_unlock();
    if (result)
        sg_broken(SG_RULE_PEER_ACCESS, result,
                  "cuCtxEnablePeerAccess: %p is no context of another device, or enabled", (void *)peer);
    return result;
}

SG_EXPORT CUresult cuCtxDisablePeerAccess(CUcontext peer)
{
    SG_TRY(sg_enter_context());
    CUcontext ctx = sg_current_context();
    sg_lock();
    CUresult result = sg_context_check_locked(peer);
    unsigned i = find_peer(ctx, peer);
    if (!result && i == ctx->peer_count)
        result = CUDA_ERROR_PEER_ACCESS_NOT_ENABLED;
    if (!result) {
        ctx->peers[i] = ctx->peers[--ctx->peer_count];
        update_devices(ctx);
    }
    sg_unlock();
    if (result)
        sg_broken(SG_RULE_PEER_ACCESS, result, "cuCtxDisablePeerAccess: access to %p is not enabled",
                  (void *)peer);
    return result;
}

/* A context that ends is nobody's peer any more. */
void sg_peers_drop_locked(CUcontext gone, CUcontext all)
{
    gone->peer_count = 0;
    update_devices(gone);
    for (CUcontext c = all; c; c = c->next) {
        unsigned i = find_peer(c, gone);
        if (i == c->peer_count)
            continue;
        c->peers[i] = c->peers[--c->peer_count];
        update_devices(c);
    }
}
