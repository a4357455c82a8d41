/* copy.c: copies and memsets.
 *
 * As the driver has it: asynchronous copies between device and pinned memory return at once; from pageable
 * memory a small one is staged and returns at once, a large one and any copy into pageable memory returns
 * when it is done. A copy within the device and a memset of device memory never wait, in their synchronous
 * forms either.
 */
#include "streams.h"

#include <string.h>

enum { PIECE_BYTES = 1 << 18 };

/* ---- what the workers do ---- */

void sg_copy_split(sg_op_t *op)
{
    size_t bytes = op->kind == SG_OP_COPY ? op->copy.bytes : op->set.count * op->set.width;
    op->units = bytes / PIECE_BYTES + (bytes % PIECE_BYTES != 0);
    op->group = 1;
}

static void set_elements(char *at, uint32_t value, unsigned width, size_t count)
{
    if (width == 1) {
        memset(at, (int)(value & 0xff), count);
    } else if (width == 2) {
        uint16_t *p = (uint16_t *)(void *)at;
        for (size_t i = 0; i < count; i++)
            p[i] = (uint16_t)value;
    } else {
        uint32_t *p = (uint32_t *)(void *)at;
        for (size_t i = 0; i < count; i++)
            p[i] = value;
    }
}

void sg_copy_run(const sg_op_t *op, uint64_t first, uint64_t count)
{
    size_t total = op->kind == SG_OP_COPY ? op->copy.bytes : op->set.count * op->set.width;
    size_t from = first * PIECE_BYTES, to = (first + count) * PIECE_BYTES;
    if (to > total)
        to = total;
    if (op->kind == SG_OP_COPY)
        memmove(op->copy.dst + from, op->copy.src + from, to - from);
    else
        set_elements(op->set.dst + from, op->set.value, op->set.width, (to - from) / op->set.width);
}

static sg_op_t *set_op(CUdeviceptr at, uint32_t value, unsigned width, size_t count)
{
    sg_op_t *op = sg_op_new(SG_OP_SET, 0);
    if (!op)
        return NULL;
    op->set.dst = sg_host(at);
    op->set.value = value;
    op->set.width = width;
    op->set.count = count;
    sg_copy_split(op);
    return op;
}

sg_op_t *sg_poison_op(CUdeviceptr address, size_t bytes, unsigned char pattern)
{
    return set_op(address, pattern, 1, bytes);
}

/* ---- what an address is ---- */

typedef enum place { PLACE_BAD, PLACE_DEVICE, PLACE_PINNED, PLACE_PAGEABLE } place_t;

/* All of [at, at + bytes) must be accessible device memory, or all of it host memory. */
static place_t place_of(CUdeviceptr at, size_t bytes)
{
    if (!at || bytes > UINTPTR_MAX - at)
        return PLACE_BAD;
    place_t place = PLACE_DEVICE;
    sg_lock();
    if (!sg_window_contains(at)) {
        place = sg_host_is_pinned_locked(sg_host(at), bytes) ? PLACE_PINNED : PLACE_PAGEABLE;
    } else {
        /* Several mappings side by side serve one copy. */
        for (CUdeviceptr p = at; p < at + bytes;) {
            sg_extent_t extent;
            if (!sg_extent_find_locked(p, &extent)) {
                place = PLACE_BAD;
                break;
            }
            p = extent.base + extent.bytes;
            if (extent.managed_by_heap && p < at + bytes) {
                place = PLACE_BAD;
                break;
            }
        }
    }
    sg_unlock();
    return place;
}

/* ---- copies ---- */

typedef enum direction { H2D, D2H, D2D, ANY } direction_t;

static bool direction_fits(direction_t d, place_t dst, place_t src)
{
    if (dst == PLACE_BAD || src == PLACE_BAD)
        return false;
    bool to_device = dst == PLACE_DEVICE, from_device = src == PLACE_DEVICE;
    switch (d) {
    case H2D:
        return to_device && !from_device;
    case D2H:
        return !to_device && from_device;
    case D2D: /* pinned memory has a device address too */
        return dst != PLACE_PAGEABLE && src != PLACE_PAGEABLE;
    default:
        return true;
    }
}

static CUresult copy(direction_t direction, CUdeviceptr dst, CUdeviceptr src, size_t bytes, CUstream stream,
                     bool async)
{
    SG_TRY(sg_enter_context());
    if (!async)
        SG_TRY(sg_capture_sync_call(stream));
    if (!bytes)
        return CUDA_SUCCESS;
    place_t to = place_of(dst, bytes), from = place_of(src, bytes);
    if (!direction_fits(direction, to, from))
        return CUDA_ERROR_INVALID_VALUE;
    /* A captured copy reads its source whenever it is launched. */
    bool stage = from == PLACE_PAGEABLE && to == PLACE_DEVICE && bytes <= SG_STAGED_COPY_BYTES &&
                 !sg_stream_captures(stream);
    bool host_side = to != PLACE_DEVICE || from != PLACE_DEVICE;
    bool wait = async ? (from == PLACE_PAGEABLE && !stage) || to == PLACE_PAGEABLE : host_side;

    sg_op_t *op = sg_op_new(SG_OP_COPY, stage ? bytes : 0);
    if (!op)
        return CUDA_ERROR_OUT_OF_MEMORY;
    op->copy.dst = sg_host(dst);
    op->copy.src = sg_host(src);
    op->copy.bytes = bytes;
    if (stage)
        op->copy.src = memcpy(sg_op_payload(op), sg_host(src), bytes);
    sg_copy_split(op);
    return sg_submit(stream, op, wait);
}

static CUdeviceptr host_address(const void *p)
{
    return (CUdeviceptr)(uintptr_t)p;
}

SYNC_CALL(cuMemcpy, (CUdeviceptr dst, CUdeviceptr src, size_t bytes),
          copy(ANY, dst, src, bytes, stream, false))
SYNC_CALL(cuMemcpyHtoD_v2, (CUdeviceptr dst, const void *src, size_t bytes),
          copy(H2D, dst, host_address(src), bytes, stream, false))
SYNC_CALL(cuMemcpyDtoH_v2, (void *dst, CUdeviceptr src, size_t bytes),
          copy(D2H, host_address(dst), src, bytes, stream, false))
SYNC_CALL(cuMemcpyDtoD_v2, (CUdeviceptr dst, CUdeviceptr src, size_t bytes),
          copy(D2D, dst, src, bytes, stream, false))
ASYNC_CALL(cuMemcpyAsync, (CUdeviceptr dst, CUdeviceptr src, size_t bytes, CUstream stream),
           copy(ANY, dst, src, bytes, stream, true))
ASYNC_CALL(cuMemcpyHtoDAsync_v2, (CUdeviceptr dst, const void *src, size_t bytes, CUstream stream),
           copy(H2D, dst, host_address(src), bytes, stream, true))
ASYNC_CALL(cuMemcpyDtoHAsync_v2, (void *dst, CUdeviceptr src, size_t bytes, CUstream stream),
           copy(D2H, host_address(dst), src, bytes, stream, true))
ASYNC_CALL(cuMemcpyDtoDAsync_v2, (CUdeviceptr dst, CUdeviceptr src, size_t bytes, CUstream stream),
           copy(D2D, dst, src, bytes, stream, true))

/* ---- memsets ---- */

static CUresult set(CUdeviceptr at, uint32_t value, unsigned width, size_t count, CUstream stream, bool async)
{
    SG_TRY(sg_enter_context());
    if (!async)
        SG_TRY(sg_capture_sync_call(stream));
    if (!count)
        return CUDA_SUCCESS;
    place_t place = at % width || count > SIZE_MAX / width ? PLACE_BAD : place_of(at, count * width);
    if (place != PLACE_DEVICE && place != PLACE_PINNED)
        return CUDA_ERROR_INVALID_VALUE;
    return sg_submit(stream, set_op(at, value, width, count), !async && place == PLACE_PINNED);
}

SYNC_CALL(cuMemsetD8_v2, (CUdeviceptr at, unsigned char value, size_t count),
          set(at, value, 1, count, stream, false))
SYNC_CALL(cuMemsetD16_v2, (CUdeviceptr at, unsigned short value, size_t count),
          set(at, value, 2, count, stream, false))
SYNC_CALL(cuMemsetD32_v2, (CUdeviceptr at, unsigned value, size_t count),
          set(at, value, 4, count, stream, false))
ASYNC_CALL(cuMemsetD8Async, (CUdeviceptr at, unsigned char value, size_t count, CUstream stream),
           set(at, value, 1, count, stream, true))
ASYNC_CALL(cuMemsetD16Async, (CUdeviceptr at, unsigned short value, size_t count, CUstream stream),
           set(at, value, 2, count, stream, true))
ASYNC_CALL(cuMemsetD32Async, (CUdeviceptr at, unsigned value, size_t count, CUstream stream),
           set(at, value, 4, count, stream, true))
