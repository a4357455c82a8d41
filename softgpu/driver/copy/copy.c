/* copy.c: copies and memsets.
 *
 * As the driver has it: asynchronous copies between device and pinned memory return at once; from pageable
 * memory a small one is staged and returns at once, a large one and any copy into pageable memory returns
 * when it is done. A copy within the device and a memset of device memory never wait, in their synchronous
 * forms either.
 */
#include "softgpu/driver/copy/copy.h"
#include "softgpu/driver/rules.h"
#include "softgpu/driver/simt/shadow.h"

#include <string.h>

enum { PIECE_BYTES = 1 << 18 };

/* ---- what the workers do ---- */

size_t sg_copy_bytes(const sg_op_t *op)
{
    return op->kind == SG_OP_COPY ? op->copy.bytes : op->set.count * op->set.width;
}

/* Rows of a box or rectangle that make a unit: about a piece. */
static size_t rows_per_unit(size_t row_bytes)
{
    return row_bytes >= PIECE_BYTES ? 1 : PIECE_BYTES / row_bytes;
}

void sg_copy_split(sg_op_t *op)
{
    bool is_copy = op->kind == SG_OP_COPY;
    size_t bytes = sg_copy_bytes(op);
    size_t row = is_copy ? (op->copy.rows ? op->copy.width : 0) : op->set.row * op->set.width;
    size_t unit = row ? row * rows_per_unit(row) : PIECE_BYTES;
    op->units = bytes / unit + (bytes % unit != 0);
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

static void copy_rows(const sg_op_t *op, size_t first, size_t last)
{
    for (size_t i = first; i < last; i++) {
        size_t slice = i / op->copy.rows, row = i % op->copy.rows;
        char *to = op->copy.dst + slice * op->copy.dst_slice + row * op->copy.dst_pitch;
        const char *from = op->copy.src + slice * op->copy.src_slice + row * op->copy.src_pitch;
        memmove(to, from, op->copy.width);
        sg_watch_copied(op, to, from, op->copy.width);
    }
}

/* Units [first, first + count) of an op that has rows. */
static void run_rows(const sg_op_t *op, uint64_t first, uint64_t count)
{
    bool is_copy = op->kind == SG_OP_COPY;
    size_t row = is_copy ? op->copy.width : op->set.row * op->set.width, per_unit = rows_per_unit(row);
    size_t rows = is_copy ? op->copy.bytes / row : op->set.count / op->set.row;
    size_t from = first * per_unit,
           to = (first + count) * per_unit < rows ? (first + count) * per_unit : rows;
    if (is_copy)
        copy_rows(op, from, to);
    else
        for (size_t i = from; i < to; i++) {
            set_elements(op->set.dst + i * op->set.pitch, op->set.value, op->set.width, op->set.row);
            sg_watch_copied(op, op->set.dst + i * op->set.pitch, NULL, op->set.row * op->set.width);
        }
}

void sg_copy_run(const sg_op_t *op, uint64_t first, uint64_t count)
{
    if (op->kind == SG_OP_COPY ? op->copy.rows : op->set.row) {
        run_rows(op, first, count);
        return;
    }
    size_t total = sg_copy_bytes(op);
    size_t from = first * PIECE_BYTES, to = (first + count) * PIECE_BYTES;
    if (to > total)
        to = total;
    if (op->kind == SG_OP_COPY) {
        memmove(op->copy.dst + from, op->copy.src + from, to - from);
        sg_watch_copied(op, op->copy.dst + from, op->copy.src + from, to - from);
    } else {
        set_elements(op->set.dst + from, op->set.value, op->set.width, (to - from) / op->set.width);
        sg_watch_copied(op, op->set.dst + from, NULL, to - from);
    }
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

static sg_place_t place_in_window_locked(CUdeviceptr at, size_t bytes)
{
    bool host_may = true;
    /* Several mappings side by side serve one copy. */
    for (CUdeviceptr p = at; p < at + bytes;) {
        sg_extent_t extent;
        if (!sg_extent_find_locked(p, &extent))
            return SG_PLACE_BAD;
        host_may = host_may && extent.access.host;
        p = extent.base + extent.bytes;
        if (extent.managed_by_heap && p < at + bytes)
            return SG_PLACE_BAD;
    }
    return host_may ? SG_PLACE_BOTH : SG_PLACE_DEVICE;
}

sg_place_t sg_place_of(CUdeviceptr at, size_t bytes)
{
    if (!at || bytes > UINTPTR_MAX - at)
        return SG_PLACE_BAD;
    sg_lock();
    const sg_place_t place = sg_window_contains(at) ? place_in_window_locked(at, bytes)
                                                    : sg_host_place_locked(sg_host(at), bytes);
    sg_unlock();
    if (place == SG_PLACE_BAD)
        sg_broken(SG_RULE_ACCESSIBLE, CUDA_ERROR_INVALID_VALUE,
                  "%zu bytes at 0x%llx are not one live allocation, or pinned in part", bytes, at);
    return place;
}

/* ---- copies ---- */

bool sg_direction_fits(sg_direction_t d, sg_place_t dst, sg_place_t src)
{
    if (dst == SG_PLACE_BAD || src == SG_PLACE_BAD)
        return false;
    bool to_device = dst == SG_PLACE_DEVICE || dst == SG_PLACE_BOTH, to_host = dst != SG_PLACE_DEVICE;
    bool from_device = src == SG_PLACE_DEVICE || src == SG_PLACE_BOTH, from_host = src != SG_PLACE_DEVICE;
    switch (d) {
    case SG_H2D:
        return to_device && from_host;
    case SG_D2H:
        return to_host && from_device;
    case SG_D2D: /* pinned memory has a device address too */
        return dst != SG_PLACE_PAGEABLE && src != SG_PLACE_PAGEABLE;
    default:
        return true;
    }
}

bool sg_copy_waits(sg_place_t dst, sg_place_t src, bool async, bool staged)
{
    if (async)
        return (src == SG_PLACE_PAGEABLE && !staged) || dst == SG_PLACE_PAGEABLE;
    return dst != SG_PLACE_DEVICE || src != SG_PLACE_DEVICE;
}

static bool wants_sync_locked(CUdeviceptr at)
{
    const sg_host_range_t *pinned = sg_host_find_locked(sg_host(at));
    const bool *flag = pinned ? &pinned->sync_memops : sg_heap_sync_memops_locked(at);
    return flag && *flag;
}

bool sg_copy_must_sync(CUdeviceptr dst, CUdeviceptr src)
{
    if (sg_current_context()->flags & CU_CTX_SYNC_MEMOPS)
        return true;
    sg_lock();
    bool sync = wants_sync_locked(dst) || (src && wants_sync_locked(src));
    sg_unlock();
    return sync;
}

static CUresult copy(sg_direction_t direction, CUdeviceptr dst, CUdeviceptr src, size_t bytes,
                     CUstream stream, bool async)
{
    SG_TRY(sg_enter_context());
    if (!async)
        SG_TRY(sg_capture_sync_call(stream));
    if (!bytes)
        return CUDA_SUCCESS;
    sg_place_t to = sg_place_of(dst, bytes), from = sg_place_of(src, bytes);
    if (!sg_direction_fits(direction, to, from))
        return CUDA_ERROR_INVALID_VALUE;
    /* A captured copy reads its source whenever it is launched. */
    bool stage = from == SG_PLACE_PAGEABLE && to == SG_PLACE_DEVICE && bytes <= SG_STAGED_COPY_BYTES &&
                 !sg_stream_captures(stream);
    bool wait = sg_copy_waits(to, from, async, stage) || (!async && sg_copy_must_sync(dst, src));

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
          copy(SG_ANY, dst, src, bytes, stream, false))
SYNC_CALL(cuMemcpyHtoD_v2, (CUdeviceptr dst, const void *src, size_t bytes),
          copy(SG_H2D, dst, host_address(src), bytes, stream, false))
SYNC_CALL(cuMemcpyDtoH_v2, (void *dst, CUdeviceptr src, size_t bytes),
          copy(SG_D2H, host_address(dst), src, bytes, stream, false))
SYNC_CALL(cuMemcpyDtoD_v2, (CUdeviceptr dst, CUdeviceptr src, size_t bytes),
          copy(SG_D2D, dst, src, bytes, stream, false))
ASYNC_CALL(cuMemcpyAsync, (CUdeviceptr dst, CUdeviceptr src, size_t bytes, CUstream stream),
           copy(SG_ANY, dst, src, bytes, stream, true))
ASYNC_CALL(cuMemcpyHtoDAsync_v2, (CUdeviceptr dst, const void *src, size_t bytes, CUstream stream),
           copy(SG_H2D, dst, host_address(src), bytes, stream, true))
ASYNC_CALL(cuMemcpyDtoHAsync_v2, (void *dst, CUdeviceptr src, size_t bytes, CUstream stream),
           copy(SG_D2H, host_address(dst), src, bytes, stream, true))
ASYNC_CALL(cuMemcpyDtoDAsync_v2, (CUdeviceptr dst, CUdeviceptr src, size_t bytes, CUstream stream),
           copy(SG_D2D, dst, src, bytes, stream, true))

/* ---- memsets ---- */

/* A memset of `row` elements in each of `rows` rows; one row has no pitch. */
typedef struct set {
    CUdeviceptr at;
    size_t pitch;
    uint32_t value;
    unsigned width;
    size_t row, rows;
} set_t;

static CUresult set_rows(const set_t *s, CUstream stream, bool async)
{
    SG_TRY(sg_enter_context());
    if (!async)
        SG_TRY(sg_capture_sync_call(stream));
    if (!s->row || !s->rows)
        return CUDA_SUCCESS;
    size_t row_bytes = s->row * s->width;
    if (s->at % s->width || s->row > SIZE_MAX / s->width ||
        (s->rows > 1 && (s->pitch < row_bytes || s->pitch % s->width || s->rows > SIZE_MAX / s->pitch)))
        return CUDA_ERROR_INVALID_VALUE;
    sg_place_t place = sg_place_of(s->at, (s->rows - 1) * s->pitch + row_bytes);
    if (place == SG_PLACE_BAD || place == SG_PLACE_PAGEABLE)
        return CUDA_ERROR_INVALID_VALUE;
    sg_op_t *op = set_op(s->at, s->value, s->width, s->row * s->rows);
    if (op && s->rows > 1) {
        op->set.row = s->row;
        op->set.pitch = s->pitch;
        sg_copy_split(op);
    }
    return sg_submit(stream, op, !async && (place != SG_PLACE_DEVICE || sg_copy_must_sync(s->at, 0)));
}

static CUresult set(CUdeviceptr at, uint32_t value, unsigned width, size_t count, CUstream stream, bool async)
{
    return set_rows(&(set_t){.at = at, .value = value, .width = width, .row = count, .rows = 1}, stream,
                    async);
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
SYNC_CALL(cuMemsetD2D8_v2, (CUdeviceptr at, size_t pitch, unsigned char value, size_t row, size_t rows),
          set_rows(&(set_t){at, pitch, value, 1, row, rows}, stream, false))
ASYNC_CALL(cuMemsetD2D8Async,
           (CUdeviceptr at, size_t pitch, unsigned char value, size_t row, size_t rows, CUstream stream),
           set_rows(&(set_t){at, pitch, value, 1, row, rows}, stream, true))
SYNC_CALL(cuMemsetD2D16_v2, (CUdeviceptr at, size_t pitch, unsigned short value, size_t row, size_t rows),
          set_rows(&(set_t){at, pitch, value, 2, row, rows}, stream, false))
ASYNC_CALL(cuMemsetD2D16Async,
           (CUdeviceptr at, size_t pitch, unsigned short value, size_t row, size_t rows, CUstream stream),
           set_rows(&(set_t){at, pitch, value, 2, row, rows}, stream, true))
SYNC_CALL(cuMemsetD2D32_v2, (CUdeviceptr at, size_t pitch, unsigned value, size_t row, size_t rows),
          set_rows(&(set_t){at, pitch, value, 4, row, rows}, stream, false))
ASYNC_CALL(cuMemsetD2D32Async,
           (CUdeviceptr at, size_t pitch, unsigned value, size_t row, size_t rows, CUstream stream),
           set_rows(&(set_t){at, pitch, value, 4, row, rows}, stream, true))
