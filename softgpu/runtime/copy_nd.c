/* copy_nd.c: copies and sets of rectangles and boxes, and sets of flat ranges. CUDA arrays are not provided.
 */
#include "softgpu/runtime/runtime.h"

/* copies */

static CUmemorytype end_type(enum cudaMemcpyKind kind, int is_destination)
{
    switch (kind) {
    case cudaMemcpyHostToHost:
        return CU_MEMORYTYPE_HOST;
    case cudaMemcpyHostToDevice:
        return is_destination ? CU_MEMORYTYPE_DEVICE : CU_MEMORYTYPE_HOST;
    case cudaMemcpyDeviceToHost:
        return is_destination ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
    case cudaMemcpyDeviceToDevice:
        return CU_MEMORYTYPE_DEVICE;
    default:
        return CU_MEMORYTYPE_UNIFIED;
    }
}

static int is_kind(enum cudaMemcpyKind kind)
{
    return (unsigned)kind <= cudaMemcpyDefault;
}

typedef struct rectangle_copy {
    void *to;
    size_t to_pitch;
    const void *from;
    size_t from_pitch;
    size_t width, height;
    enum cudaMemcpyKind kind;
} rectangle_copy_t;

/* cudaErrorNotReady, which no check returns: there is nothing to copy. */
static cudaError_t describe_2d(CUDA_MEMCPY2D *out, const rectangle_copy_t *c)
{
    if (!is_kind(c->kind))
        return cudaErrorInvalidMemcpyDirection;
    if (c->width > c->to_pitch || c->width > c->from_pitch)
        return cudaErrorInvalidPitchValue;
    if (c->width == 0 || c->height == 0)
        return cudaErrorNotReady;
    *out = (CUDA_MEMCPY2D){
        .srcMemoryType = end_type(c->kind, 0),
        .srcPitch = c->from_pitch,
        .dstMemoryType = end_type(c->kind, 1),
        .dstPitch = c->to_pitch,
        .WidthInBytes = c->width,
        .Height = c->height,
    };
    if (out->srcMemoryType == CU_MEMORYTYPE_HOST)
        out->srcHost = c->from;
    else
        out->srcDevice = rt_address(c->from);
    if (out->dstMemoryType == CU_MEMORYTYPE_HOST)
        out->dstHost = c->to;
    else
        out->dstDevice = rt_address(c->to);
    return cudaSuccess;
}

static cudaError_t copy_2d(const driver_t *d, const rectangle_copy_t *c)
{
    CUDA_MEMCPY2D copy;
    cudaError_t error = describe_2d(&copy, c);
    if (error == cudaErrorNotReady)
        return cudaSuccess;
    return error ?: RT_CALL(d, cuMemcpy2DUnaligned, &copy);
}

static cudaError_t copy_2d_async(const driver_t *d, const rectangle_copy_t *c, cudaStream_t stream)
{
    CUDA_MEMCPY2D copy;
    cudaError_t error = describe_2d(&copy, c);
    if (error == cudaErrorNotReady)
        return cudaSuccess;
    return error ?: RT_CALL(d, cuMemcpy2DAsync, &copy, stream);
}

/* cudaErrorNotReady: there is nothing to copy. */
static cudaError_t describe_3d(CUDA_MEMCPY3D *out, const struct cudaMemcpy3DParms *p)
{
    if (!p)
        return cudaErrorInvalidValue;
    if (p->srcArray || p->dstArray)
        return cudaErrorNotSupported;
    if (!is_kind(p->kind))
        return cudaErrorInvalidMemcpyDirection;
    if (p->extent.width == 0 || p->extent.height == 0 || p->extent.depth == 0)
        return cudaErrorNotReady;
    *out = (CUDA_MEMCPY3D){
        .srcXInBytes = p->srcPos.x,
        .srcY = p->srcPos.y,
        .srcZ = p->srcPos.z,
        .srcMemoryType = end_type(p->kind, 0),
        .srcPitch = p->srcPtr.pitch,
        .srcHeight = p->srcPtr.ysize,
        .dstXInBytes = p->dstPos.x,
        .dstY = p->dstPos.y,
        .dstZ = p->dstPos.z,
        .dstMemoryType = end_type(p->kind, 1),
        .dstPitch = p->dstPtr.pitch,
        .dstHeight = p->dstPtr.ysize,
        .WidthInBytes = p->extent.width,
        .Height = p->extent.height,
        .Depth = p->extent.depth,
    };
    if (out->srcMemoryType == CU_MEMORYTYPE_HOST)
        out->srcHost = p->srcPtr.ptr;
    else
        out->srcDevice = rt_address(p->srcPtr.ptr);
    if (out->dstMemoryType == CU_MEMORYTYPE_HOST)
        out->dstHost = p->dstPtr.ptr;
    else
        out->dstDevice = rt_address(p->dstPtr.ptr);
    return cudaSuccess;
}

static cudaError_t copy_3d(const driver_t *d, const struct cudaMemcpy3DParms *p)
{
    CUDA_MEMCPY3D copy;
    cudaError_t error = describe_3d(&copy, p);
    if (error == cudaErrorNotReady)
        return cudaSuccess;
    return error ?: RT_CALL(d, cuMemcpy3D, &copy);
}

static cudaError_t copy_3d_async(const driver_t *d, const struct cudaMemcpy3DParms *p, cudaStream_t stream)
{
    CUDA_MEMCPY3D copy;
    cudaError_t error = describe_3d(&copy, p);
    if (error == cudaErrorNotReady)
        return cudaSuccess;
    return error ?: RT_CALL(d, cuMemcpy3DAsync, &copy, stream);
}

/* clang-format off */
RT_BOTH_FORMS(cudaMemcpy2D, _ptds,
              (void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width, size_t height,
               enum cudaMemcpyKind kind),
              copy_2d(d, &(rectangle_copy_t){to, to_pitch, from, from_pitch, width, height, kind}))
RT_BOTH_FORMS(cudaMemcpy2DAsync, _ptsz,
              (void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width, size_t height,
               enum cudaMemcpyKind kind, cudaStream_t stream),
              copy_2d_async(d, &(rectangle_copy_t){to, to_pitch, from, from_pitch, width, height, kind},
                            stream))
RT_BOTH_FORMS(cudaMemcpy3D, _ptds, (const struct cudaMemcpy3DParms *p), copy_3d(d, p))
RT_BOTH_FORMS(cudaMemcpy3DAsync, _ptsz, (const struct cudaMemcpy3DParms *p, cudaStream_t stream),
              copy_3d_async(d, p, stream))
/* clang-format on */

/* sets */

static cudaError_t set_1d(const driver_t *d, void *pointer, int value, size_t bytes)
{
    return bytes ? RT_CALL(d, cuMemsetD8, rt_address(pointer), (unsigned char)value, bytes) : cudaSuccess;
}

static cudaError_t set_1d_async(const driver_t *d, void *pointer, int value, size_t bytes,
                                cudaStream_t stream)
{
    return bytes ? RT_CALL(d, cuMemsetD8Async, rt_address(pointer), (unsigned char)value, bytes, stream)
                 : cudaSuccess;
}

static cudaError_t set_2d(const driver_t *d, void *pointer, size_t pitch, int value, size_t width,
                          size_t height)
{
    if (width == 0 || height == 0)
        return cudaSuccess;
    return RT_CALL(d, cuMemsetD2D8, rt_address(pointer), pitch, (unsigned char)value, width, height);
}

static cudaError_t set_2d_async(const driver_t *d, void *pointer, size_t pitch, int value, size_t width,
                                size_t height, cudaStream_t stream)
{
    if (width == 0 || height == 0)
        return cudaSuccess;
    return RT_CALL(d, cuMemsetD2D8Async, rt_address(pointer), pitch, (unsigned char)value, width, height,
                   stream);
}

/* A box is set slice by slice; slices lie pitch * ysize apart. */
static cudaError_t set_3d(const driver_t *d, struct cudaPitchedPtr p, int value, struct cudaExtent extent)
{
    cudaError_t error = cudaSuccess;
    for (size_t z = 0; z < extent.depth && error == cudaSuccess; z++)
        error = set_2d(d, (char *)p.ptr + z * p.pitch * p.ysize, p.pitch, value, extent.width, extent.height);
    return error;
}

static cudaError_t set_3d_async(const driver_t *d, struct cudaPitchedPtr p, int value,
                                struct cudaExtent extent, cudaStream_t stream)
{
    cudaError_t error = cudaSuccess;
    for (size_t z = 0; z < extent.depth && error == cudaSuccess; z++)
        error = set_2d_async(d, (char *)p.ptr + z * p.pitch * p.ysize, p.pitch, value, extent.width,
                             extent.height, stream);
    return error;
}

/* clang-format off */
RT_BOTH_FORMS(cudaMemset, _ptds, (void *pointer, int value, size_t bytes), set_1d(d, pointer, value, bytes))
RT_BOTH_FORMS(cudaMemsetAsync, _ptsz, (void *pointer, int value, size_t bytes, cudaStream_t stream),
              set_1d_async(d, pointer, value, bytes, stream))
RT_BOTH_FORMS(cudaMemset2D, _ptds, (void *pointer, size_t pitch, int value, size_t width, size_t height),
              set_2d(d, pointer, pitch, value, width, height))
RT_BOTH_FORMS(cudaMemset2DAsync, _ptsz,
              (void *pointer, size_t pitch, int value, size_t width, size_t height, cudaStream_t stream),
              set_2d_async(d, pointer, pitch, value, width, height, stream))
RT_BOTH_FORMS(cudaMemset3D, _ptds, (struct cudaPitchedPtr pointer, int value, struct cudaExtent extent),
              set_3d(d, pointer, value, extent))
RT_BOTH_FORMS(cudaMemset3DAsync, _ptsz,
              (struct cudaPitchedPtr pointer, int value, struct cudaExtent extent, cudaStream_t stream),
              set_3d_async(d, pointer, value, extent, stream))
/* clang-format on */
