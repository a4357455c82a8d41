/* boxes.c: copies of rectangles and boxes, and between contexts. Arrays are not provided. */
#include "softgpu/driver/api/gate.h"
#include "softgpu/driver/copy/copy.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_PITCH = 0x7fffffff };

size_t sg_box_span(const sg_box_t *b, size_t pitch, size_t slice)
{
    return (b->slices - 1) * slice + (b->rows - 1) * pitch + b->width;
}

sg_op_t *sg_box_op(const sg_box_t *b)
{
    sg_op_t *op = sg_op_new(SG_OP_COPY, 0);
    if (!op)
        return NULL;
    op->copy.dst = sg_host(b->dst);
    op->copy.src = sg_host(b->src);
    op->copy.bytes = b->width * b->rows * b->slices;
    op->copy.width = b->width;
    op->copy.rows = b->rows;
    op->copy.dst_pitch = b->dst_pitch;
    op->copy.src_pitch = b->src_pitch;
    op->copy.dst_slice = b->dst_slice;
    op->copy.src_slice = b->src_slice;
    sg_copy_split(op);
    return op;
}

/* One end of a copy, as the API's structures describe it. */
typedef struct end {
    CUmemorytype type;
    const void *host;
    CUdeviceptr device;
    size_t x, y, z, pitch, height;
} end_t;

static CUresult address_of(const end_t *e, CUdeviceptr *out)
{
    switch (e->type) {
    case CU_MEMORYTYPE_HOST:
        *out = (CUdeviceptr)(uintptr_t)e->host;
        break;
    case CU_MEMORYTYPE_DEVICE:
    case CU_MEMORYTYPE_UNIFIED:
        *out = e->device;
        break;
    case CU_MEMORYTYPE_ARRAY:
        return sg_not_supported("a copy of an array");
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
    if (*out)
        *out += e->z * e->pitch * e->height + e->y * e->pitch + e->x;
    return CUDA_SUCCESS;
}

static bool type_fits(CUmemorytype type, sg_place_t place)
{
    if (type == CU_MEMORYTYPE_HOST)
        return place != SG_PLACE_DEVICE && place != SG_PLACE_BAD;
    return place != SG_PLACE_BAD && (type == CU_MEMORYTYPE_UNIFIED || place != SG_PLACE_PAGEABLE);
}

/* Pitch and height may be 0 where there is one row or one slice. */
static bool end_fits(const end_t *e, const sg_box_t *b)
{
    if (e->pitch > MAX_PITCH ||
        ((b->rows > 1 || b->slices > 1 || e->y || e->z) && e->pitch < b->width + e->x))
        return false;
    return (b->slices == 1 && !e->z) || e->height >= b->rows + e->y;
}

static CUresult copy_box(sg_box_t *b, end_t dst, end_t src, CUstream stream, bool async)
{
    SG_TRY(sg_enter_context());
    if (!async)
        SG_TRY(sg_capture_sync_call(stream));
    if (!b->width || !b->rows || !b->slices)
        return CUDA_SUCCESS;
    if (!end_fits(&dst, b) || !end_fits(&src, b))
        return CUDA_ERROR_INVALID_VALUE;
    SG_TRY(address_of(&dst, &b->dst));
    SG_TRY(address_of(&src, &b->src));
    b->dst_pitch = dst.pitch;
    b->src_pitch = src.pitch;
    b->dst_slice = dst.pitch * dst.height;
    b->src_slice = src.pitch * src.height;
    sg_place_t to = sg_place_of(b->dst, sg_box_span(b, b->dst_pitch, b->dst_slice));
    sg_place_t from = sg_place_of(b->src, sg_box_span(b, b->src_pitch, b->src_slice));
    if (!type_fits(dst.type, to) || !type_fits(src.type, from))
        return CUDA_ERROR_INVALID_VALUE;
    bool wait = sg_copy_waits(to, from, async, false) || (!async && sg_copy_must_sync(b->dst, b->src));
    return sg_submit(stream, sg_box_op(b), wait);
}

static CUresult copy_2d(const CUDA_MEMCPY2D *c, CUstream stream, bool async)
{
    if (!c)
        return CUDA_ERROR_INVALID_VALUE;
    sg_box_t b = {.width = c->WidthInBytes, .rows = c->Height, .slices = 1};
    end_t dst = {.type = c->dstMemoryType,
                 .host = c->dstHost,
                 .device = c->dstDevice,
                 .x = c->dstXInBytes,
                 .y = c->dstY,
                 .pitch = c->dstPitch};
    end_t src = {.type = c->srcMemoryType,
                 .host = c->srcHost,
                 .device = c->srcDevice,
                 .x = c->srcXInBytes,
                 .y = c->srcY,
                 .pitch = c->srcPitch};
    return copy_box(&b, dst, src, stream, async);
}

SYNC_CALL(cuMemcpy2D_v2, (const CUDA_MEMCPY2D *c), copy_2d(c, stream, false))
SYNC_CALL(cuMemcpy2DUnaligned_v2, (const CUDA_MEMCPY2D *c), copy_2d(c, stream, false))
ASYNC_CALL(cuMemcpy2DAsync_v2, (const CUDA_MEMCPY2D *c, CUstream stream), copy_2d(c, stream, true))

static CUresult copy_3d(const CUDA_MEMCPY3D *c, CUstream stream, bool async)
{
    if (!c || c->srcLOD || c->dstLOD)
        return CUDA_ERROR_INVALID_VALUE;
    sg_box_t b = {.width = c->WidthInBytes, .rows = c->Height, .slices = c->Depth};
    end_t dst = {.type = c->dstMemoryType,
                 .host = c->dstHost,
                 .device = c->dstDevice,
                 .x = c->dstXInBytes,
                 .y = c->dstY,
                 .z = c->dstZ,
                 .pitch = c->dstPitch,
                 .height = c->dstHeight};
    end_t src = {.type = c->srcMemoryType,
                 .host = c->srcHost,
                 .device = c->srcDevice,
                 .x = c->srcXInBytes,
                 .y = c->srcY,
                 .z = c->srcZ,
                 .pitch = c->srcPitch,
                 .height = c->srcHeight};
    return copy_box(&b, dst, src, stream, async);
}

SYNC_CALL(cuMemcpy3D_v2, (const CUDA_MEMCPY3D *c), copy_3d(c, stream, false))
ASYNC_CALL(cuMemcpy3DAsync_v2, (const CUDA_MEMCPY3D *c, CUstream stream), copy_3d(c, stream, true))

/* ---- between contexts ---- */

/* Whose memory it is must be what the program says: addresses are unified, so nothing else depends on it. */
static CUresult check_owner(CUdeviceptr p, CUcontext ctx)
{
    sg_extent_t extent;
    sg_lock();
    CUresult result = sg_context_check_locked(ctx);
    if (!result && sg_extent_find_locked(p, &extent) && extent.device != SG_HOST &&
        extent.device != ctx->device)
        result = CUDA_ERROR_INVALID_VALUE;
    sg_unlock();
    return result;
}

static CUresult copy_peer(CUdeviceptr dst, CUcontext to, CUdeviceptr src, CUcontext from, size_t bytes,
                          CUstream stream, bool async)
{
    SG_TRY(sg_enter_context());
    SG_TRY(check_owner(dst, to));
    SG_TRY(check_owner(src, from));
    sg_box_t b = {.width = bytes, .rows = 1, .slices = 1};
    end_t d = {.type = CU_MEMORYTYPE_DEVICE, .device = dst},
          s = {.type = CU_MEMORYTYPE_DEVICE, .device = src};
    return copy_box(&b, d, s, stream, async);
}

SYNC_CALL(cuMemcpyPeer, (CUdeviceptr dst, CUcontext to, CUdeviceptr src, CUcontext from, size_t bytes),
          copy_peer(dst, to, src, from, bytes, stream, false))
ASYNC_CALL(cuMemcpyPeerAsync,
           (CUdeviceptr dst, CUcontext to, CUdeviceptr src, CUcontext from, size_t bytes, CUstream stream),
           copy_peer(dst, to, src, from, bytes, stream, true))

static CUresult copy_3d_peer(const CUDA_MEMCPY3D_PEER *c, CUstream stream, bool async)
{
    if (!c || c->srcLOD || c->dstLOD)
        return CUDA_ERROR_INVALID_VALUE;
    SG_TRY(sg_enter_context());
    if (c->dstMemoryType == CU_MEMORYTYPE_DEVICE)
        SG_TRY(check_owner(c->dstDevice, c->dstContext));
    if (c->srcMemoryType == CU_MEMORYTYPE_DEVICE)
        SG_TRY(check_owner(c->srcDevice, c->srcContext));
    CUDA_MEMCPY3D plain;
    memset(&plain, 0, sizeof plain);
    plain.srcXInBytes = c->srcXInBytes, plain.srcY = c->srcY, plain.srcZ = c->srcZ;
    plain.srcMemoryType = c->srcMemoryType, plain.srcHost = c->srcHost, plain.srcDevice = c->srcDevice;
    plain.srcPitch = c->srcPitch, plain.srcHeight = c->srcHeight;
    plain.dstXInBytes = c->dstXInBytes, plain.dstY = c->dstY, plain.dstZ = c->dstZ;
    plain.dstMemoryType = c->dstMemoryType, plain.dstHost = c->dstHost, plain.dstDevice = c->dstDevice;
    plain.dstPitch = c->dstPitch, plain.dstHeight = c->dstHeight;
    plain.WidthInBytes = c->WidthInBytes, plain.Height = c->Height, plain.Depth = c->Depth;
    return copy_3d(&plain, stream, async);
}

SYNC_CALL(cuMemcpy3DPeer, (const CUDA_MEMCPY3D_PEER *c), copy_3d_peer(c, stream, false))
ASYNC_CALL(cuMemcpy3DPeerAsync, (const CUDA_MEMCPY3D_PEER *c, CUstream stream), copy_3d_peer(c, stream, true))

/* ---- pitched memory ---- */

SG_EXPORT CUresult cuMemAllocPitch_v2(CUdeviceptr *out, size_t *pitch, size_t width, size_t rows,
                                      unsigned element)
{
    SG_TRY(sg_enter_unsafe());
    if (!out || !pitch || !width || !rows || (element != 4 && element != 8 && element != 16))
        return CUDA_ERROR_INVALID_VALUE;
    size_t row = SG_ROUND_UP(width, SG_HEAP_ALIGN);
    if (row < width || rows > SIZE_MAX / row)
        return CUDA_ERROR_OUT_OF_MEMORY;
    SG_TRY(sg_heap_alloc(&sg_sync_heap[sg_current_context()->device], row * rows, NULL, out));
    *pitch = row;
    return CUDA_SUCCESS;
}
