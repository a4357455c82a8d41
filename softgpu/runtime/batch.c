/* batch.c: what came with CUDA 12.8 and 13: batches of boxes, of prefetches and discards, questions about atomics; and
 * boxes between devices. */
#include "softgpu/runtime/runtime.h"

#include <stddef.h>

_Static_assert(sizeof(struct cudaMemcpy3DBatchOp) == sizeof(CUDA_MEMCPY3D_BATCH_OP) &&
                   offsetof(struct cudaMemcpy3DBatchOp, extent) == offsetof(CUDA_MEMCPY3D_BATCH_OP, extent) &&
                   offsetof(struct cudaMemcpy3DBatchOp, srcAccessOrder) ==
                       offsetof(CUDA_MEMCPY3D_BATCH_OP, srcAccessOrder) &&
                   offsetof(struct cudaMemcpy3DOperand, op) == offsetof(CUmemcpy3DOperand, op),
               "operations are passed to the driver as they are");
_Static_assert(sizeof(struct cudaMemLocation) == sizeof(CUmemLocation), "and so are locations");

/* clang-format off */
RT_BOTH_FORMS(cudaMemcpy3DBatchAsync, _ptsz,
              (size_t count, struct cudaMemcpy3DBatchOp *list, unsigned long long flags, cudaStream_t stream),
              RT_CALL(d, cuMemcpy3DBatchAsync, count, (CUDA_MEMCPY3D_BATCH_OP *)list, flags, stream))
RT_BOTH_FORMS(cudaMemPrefetchBatchAsync, _ptsz,
              (void **pointers, size_t *sizes, size_t count, struct cudaMemLocation *locations, size_t *indices,
               size_t location_count, unsigned long long flags, cudaStream_t stream),
              RT_CALL(d, cuMemPrefetchBatchAsync, (CUdeviceptr *)pointers, sizes, count, (CUmemLocation *)locations,
                      indices, location_count, flags, stream))
RT_BOTH_FORMS(cudaMemDiscardBatchAsync, _ptsz,
              (void **pointers, size_t *sizes, size_t count, unsigned long long flags, cudaStream_t stream),
              RT_CALL(d, cuMemDiscardBatchAsync, (CUdeviceptr *)pointers, sizes, count, flags, stream))
RT_BOTH_FORMS(cudaMemDiscardAndPrefetchBatchAsync, _ptsz,
              (void **pointers, size_t *sizes, size_t count, struct cudaMemLocation *locations, size_t *indices,
               size_t location_count, unsigned long long flags, cudaStream_t stream),
              RT_CALL(d, cuMemDiscardAndPrefetchBatchAsync, (CUdeviceptr *)pointers, sizes, count,
                      (CUmemLocation *)locations, indices, location_count, flags, stream))
/* clang-format on */

/* boxes between devices */

/* cudaErrorNotReady, which no check returns: there is nothing to copy. */
static cudaError_t describe_peer_box(CUDA_MEMCPY3D_PEER *out, const struct cudaMemcpy3DPeerParms *p)
{
    if (!p)
        return cudaErrorInvalidValue;
    if (p->srcArray || p->dstArray)
        return cudaErrorNotSupported;
    if (p->extent.width == 0 || p->extent.height == 0 || p->extent.depth == 0)
        return cudaErrorNotReady;
    *out = (CUDA_MEMCPY3D_PEER){
        .srcXInBytes = p->srcPos.x,
        .srcY = p->srcPos.y,
        .srcZ = p->srcPos.z,
        .srcMemoryType = CU_MEMORYTYPE_DEVICE,
        .srcDevice = rt_address(p->srcPtr.ptr),
        .srcPitch = p->srcPtr.pitch,
        .srcHeight = p->srcPtr.ysize,
        .dstXInBytes = p->dstPos.x,
        .dstY = p->dstPos.y,
        .dstZ = p->dstPos.z,
        .dstMemoryType = CU_MEMORYTYPE_DEVICE,
        .dstDevice = rt_address(p->dstPtr.ptr),
        .dstPitch = p->dstPtr.pitch,
        .dstHeight = p->dstPtr.ysize,
        .WidthInBytes = p->extent.width,
        .Height = p->extent.height,
        .Depth = p->extent.depth,
    };
    return rt_primary_context(p->srcDevice, &out->srcContext)
               ?: rt_primary_context(p->dstDevice, &out->dstContext);
}

static cudaError_t copy_peer_box(const driver_t *d, const struct cudaMemcpy3DPeerParms *p)
{
    CUDA_MEMCPY3D_PEER copy;
    cudaError_t error = describe_peer_box(&copy, p);
    if (error == cudaErrorNotReady)
        return cudaSuccess;
    return error ?: RT_CALL(d, cuMemcpy3DPeer, &copy);
}

static cudaError_t copy_peer_box_async(const driver_t *d, const struct cudaMemcpy3DPeerParms *p,
                                       cudaStream_t stream)
{
    CUDA_MEMCPY3D_PEER copy;
    cudaError_t error = describe_peer_box(&copy, p);
    if (error == cudaErrorNotReady)
        return cudaSuccess;
    return error ?: RT_CALL(d, cuMemcpy3DPeerAsync, &copy, stream);
}

/* clang-format off */
RT_BOTH_FORMS(cudaMemcpy3DPeer, _ptds, (const struct cudaMemcpy3DPeerParms *p), copy_peer_box(d, p))
RT_BOTH_FORMS(cudaMemcpy3DPeerAsync, _ptsz, (const struct cudaMemcpy3DPeerParms *p, cudaStream_t stream),
              copy_peer_box_async(d, p, stream))
/* clang-format on */

/* atomics */

cudaError_t cudaDeviceGetHostAtomicCapabilities(unsigned int *capabilities,
                                                const enum cudaAtomicOperation *operations,
                                                unsigned int count, int device)
{
    CUdevice handle;
    return rt_record(rt_device(device, &handle)
                         ?: RT_CALL(&rt_driver[RT_LEGACY], cuDeviceGetHostAtomicCapabilities, capabilities,
                                    (const CUatomicOperation *)operations, count, handle));
}

cudaError_t cudaDeviceGetP2PAtomicCapabilities(unsigned int *capabilities,
                                               const enum cudaAtomicOperation *operations, unsigned int count,
                                               int from, int to)
{
    CUdevice from_handle, to_handle;
    return rt_record(rt_device(from, &from_handle)
                         ?: rt_device(to, &to_handle)
                         ?: RT_CALL(&rt_driver[RT_LEGACY], cuDeviceGetP2PAtomicCapabilities, capabilities,
                                    (const CUatomicOperation *)operations, count, from_handle, to_handle));
}
