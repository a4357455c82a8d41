/* copy.c: linear copies and memsets: all as their asynchronous forms, on the stream that says which
 * default stream is meant. Copies of other shapes: shape.c. */
#include "alloc/device.h"
#include "hook/internal.h"

typedef enum direction { ANY, H2D, D2H, D2D } direction_t;

typedef struct copy {
    direction_t direction;
    CUdeviceptr dst, src;
    size_t bytes;
    CUstream stream;
} copy_t;

static void *host(CUdeviceptr address)
{
    return (void *)(uintptr_t)address;
}

static CUresult issue_copy(const void *context)
{
    const copy_t *c = context;
    switch (c->direction) {
    case H2D:
        return EBB_PASS(cuMemcpyHtoDAsync_v2, (c->dst, host(c->src), c->bytes, c->stream));
    case D2H:
        return EBB_PASS(cuMemcpyDtoHAsync_v2, (host(c->dst), c->src, c->bytes, c->stream));
    case D2D:
        return EBB_PASS(cuMemcpyDtoDAsync_v2, (c->dst, c->src, c->bytes, c->stream));
    default:
        return EBB_PASS(cuMemcpyAsync, (c->dst, c->src, c->bytes, c->stream));
    }
}

/* ---- between devices ---- */

typedef struct between {
    const copy_t *copy;
    CUcontext to, from;
} between_t;

static CUresult issue_between(const void *context)
{
    const between_t *b = context;
    const copy_t *c = b->copy;
    return EBB_PASS(cuMemcpyPeerAsync, (c->dst, b->to, c->src, b->from, c->bytes, c->stream));
}

/* The context of device memory; NULL: it is none, or of no context. */
static CUcontext context_of(ebb_t *ebb, CUdeviceptr address)
{
    CUcontext context = NULL;
    CUmemorytype type = CU_MEMORYTYPE_HOST;
    const ebb_device_t *dev = ebb_arena_device(ebb, address);
    if (dev)
        return dev->context;
    if (ebb_driver.cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address) ||
        type != CU_MEMORYTYPE_DEVICE ||
        ebb_driver.cuPointerGetAttribute(&context, CU_POINTER_ATTRIBUTE_CONTEXT, address))
        return NULL;
    return context;
}

/* Of memory that is mapped, as ebb's is, an ordinary copy reaches another device only if that has been given access;
 * of what cuMemAlloc gives it does so always. So the copy says that it is one between devices. */
static bool is_between(ebb_t *ebb, const copy_t *c, between_t *out)
{
    if (ebb->device_count < 2 || ebb_captures_under_way(ebb) || c->direction == H2D || c->direction == D2H ||
        (!ebb_arena_contains(ebb, c->dst) && !ebb_arena_contains(ebb, c->src)))
        return false;
    *out = (between_t){c, context_of(ebb, c->dst), context_of(ebb, c->src)};
    return out->to && out->from && out->to != out->from;
}

/* ---- copies ---- */

static CUresult copy(const copy_t *c)
{
    between_t between;
    ebb_device_t *dev = c->bytes ? ebb_enter_work() : NULL;
    if (!dev)
        return issue_copy(c);
    ebb_access_t access[2];
    ebb_operation_t op = {.kind = EBB_COPY,
                          .stream = ebb_stream_of(dev, c->stream),
                          .dst = c->dst,
                          .src = c->src,
                          .bytes = c->bytes,
                          .access = access};
    /* Freed memory may be there still, and so may what follows a buffer, but it is not the program's. */
    bool known = ebb_access_add_span(dev->ebb, &op, c->dst, c->bytes, 0);
    known = ebb_access_add_span(dev->ebb, &op, c->src, c->bytes, 1) && known;
    CUresult result = known ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    if (known && c->direction != D2H && c->bytes >= sizeof(CUdeviceptr) && ebb_is_device(dev))
        result = (CUresult)ebb_table_written(dev->ebb, c->dst, c->src, c->bytes, false);
    if (!result)
        result = is_between(dev->ebb, c, &between) ? ebb_issue(&op, issue_between, &between)
                                                   : ebb_issue(&op, issue_copy, c);
    ebb_unlock();
    return result;
}

/* The synchronous forms wait for the host's side of a copy. */
static CUresult copy_sync(const copy_t *c)
{
    CUresult result = copy(c);
    const CUdeviceptr address[] = {c->dst, c->src};
    return result || !c->bytes || (c->direction == D2D && !ebb_host_waits(address, 2))
               ? result
               : ebb_order_wait(c->stream, result);
}

SYNC_CALL(cuMemcpy, (CUdeviceptr dst, CUdeviceptr src, size_t bytes),
          copy_sync(&(copy_t){ANY, dst, src, bytes, stream}))
SYNC_CALL(cuMemcpyHtoD_v2, (CUdeviceptr dst, const void *src, size_t bytes),
          copy_sync(&(copy_t){H2D, dst, ebb_address_of(src), bytes, stream}))
SYNC_CALL(cuMemcpyDtoH_v2, (void *dst, CUdeviceptr src, size_t bytes),
          copy_sync(&(copy_t){D2H, ebb_address_of(dst), src, bytes, stream}))
SYNC_CALL(cuMemcpyDtoD_v2, (CUdeviceptr dst, CUdeviceptr src, size_t bytes),
          copy_sync(&(copy_t){D2D, dst, src, bytes, stream}))
ASYNC_CALL(cuMemcpyAsync, (CUdeviceptr dst, CUdeviceptr src, size_t bytes, CUstream stream),
           copy(&(copy_t){ANY, dst, src, bytes, stream}))
ASYNC_CALL(cuMemcpyHtoDAsync_v2, (CUdeviceptr dst, const void *src, size_t bytes, CUstream stream),
           copy(&(copy_t){H2D, dst, ebb_address_of(src), bytes, stream}))
ASYNC_CALL(cuMemcpyDtoHAsync_v2, (void *dst, CUdeviceptr src, size_t bytes, CUstream stream),
           copy(&(copy_t){D2H, ebb_address_of(dst), src, bytes, stream}))
ASYNC_CALL(cuMemcpyDtoDAsync_v2, (CUdeviceptr dst, CUdeviceptr src, size_t bytes, CUstream stream),
           copy(&(copy_t){D2D, dst, src, bytes, stream}))

typedef struct set {
    CUdeviceptr dst;
    unsigned value, width;
    size_t count;
    CUstream stream;
} set_t;

static CUresult issue_set(const void *context)
{
    const set_t *s = context;
    if (s->width == 1)
        return EBB_PASS(cuMemsetD8Async, (s->dst, (unsigned char)s->value, s->count, s->stream));
    if (s->width == 2)
        return EBB_PASS(cuMemsetD16Async, (s->dst, (unsigned short)s->value, s->count, s->stream));
    return EBB_PASS(cuMemsetD32Async, (s->dst, s->value, s->count, s->stream));
}

static CUresult set(const set_t *s)
{
    ebb_device_t *dev = s->count ? ebb_enter_work() : NULL;
    if (!dev)
        return issue_set(s);
    ebb_access_t access[1];
    ebb_operation_t op = {.kind = EBB_SET,
                          .stream = ebb_stream_of(dev, s->stream),
                          .dst = s->dst,
                          .bytes = s->count > SIZE_MAX / s->width ? SIZE_MAX : s->count * s->width,
                          .value = s->value,
                          .width = s->width,
                          .access = access};
    bool known = ebb_access_add_span(dev->ebb, &op, s->dst, op.bytes, 0);
    if (known && !ebb_captures_under_way(dev->ebb))
        ebb_table_gone(dev->ebb, s->dst, op.bytes);
    CUresult result = known ? ebb_issue(&op, issue_set, s) : CUDA_ERROR_INVALID_VALUE;
    ebb_unlock();
    return result;
}

static CUresult set_sync(const set_t *s)
{
    CUresult result = set(s);
    return result || !s->count || !ebb_host_waits(&s->dst, 1) ? result : ebb_order_wait(s->stream, result);
}

SYNC_CALL(cuMemsetD8_v2, (CUdeviceptr at, unsigned char value, size_t count),
          set_sync(&(set_t){at, value, 1, count, stream}))
SYNC_CALL(cuMemsetD16_v2, (CUdeviceptr at, unsigned short value, size_t count),
          set_sync(&(set_t){at, value, 2, count, stream}))
SYNC_CALL(cuMemsetD32_v2, (CUdeviceptr at, unsigned value, size_t count),
          set_sync(&(set_t){at, value, 4, count, stream}))
ASYNC_CALL(cuMemsetD8Async, (CUdeviceptr at, unsigned char value, size_t count, CUstream stream),
           set(&(set_t){at, value, 1, count, stream}))
ASYNC_CALL(cuMemsetD16Async, (CUdeviceptr at, unsigned short value, size_t count, CUstream stream),
           set(&(set_t){at, value, 2, count, stream}))
ASYNC_CALL(cuMemsetD32Async, (CUdeviceptr at, unsigned value, size_t count, CUstream stream),
           set(&(set_t){at, value, 4, count, stream}))
