/* shape.c: copies and memsets that are not one run of bytes: of two and three dimensions, to and from
 * arrays, between contexts, in batches. What they touch is made resident; the driver does the rest.
 *
 * The synchronous forms are issued as their asynchronous ones, where there are such forms, and then waited for
 * without the lock, if the host has to see their outcome.
 */
#include <stdlib.h>

#include "hook/internal.h"

/* ---- two dimensions, three, between contexts ---- */

/* One side of such a copy. */
typedef struct side {
    CUmemorytype type;
    const void *host;
    CUdeviceptr device;
    size_t first_byte; /* where the copied part begins */
    size_t span;       /* bytes from there to its end */
} side_t;

/* The rows of a copy and, between them, what it leaves out. */
static size_t span_of(size_t width, size_t rows, size_t pitch)
{
    return width && rows ? (rows - 1) * pitch + width : 0;
}

static CUdeviceptr begin_of(const side_t *s)
{
    switch (s->type) {
    case CU_MEMORYTYPE_ARRAY:
        return 0;
    case CU_MEMORYTYPE_HOST:
        return ebb_address_of(s->host) + s->first_byte;
    default:
        return s->device + s->first_byte;
    }
}

typedef struct shaped {
    const char *name;
    const void *params; /* the driver's structure */
    side_t dst, src;
    size_t bytes;
    CUstream stream;
    CUresult (*issue)(const void *context);
} shaped_t;

static CUresult copy_shaped(const shaped_t *s)
{
    const CUdeviceptr address[] = {begin_of(&s->dst), begin_of(&s->src)};
    const size_t span[] = {s->dst.span, s->src.span};
    return ebb_issue_other(&(ebb_other_t){s->name, s->stream, s->bytes, address, 2, span, false}, s->issue,
                           s);
}

static shaped_t shape_of_2d(const CUDA_MEMCPY2D *p, CUstream stream)
{
    return (shaped_t){
        .params = p,
        .dst = {p->dstMemoryType, p->dstHost, p->dstDevice, p->dstY * p->dstPitch + p->dstXInBytes,
                span_of(p->WidthInBytes, p->Height, p->dstPitch)},
        .src = {p->srcMemoryType, p->srcHost, p->srcDevice, p->srcY * p->srcPitch + p->srcXInBytes,
                span_of(p->WidthInBytes, p->Height, p->srcPitch)},
        .bytes = p->WidthInBytes * p->Height,
        .stream = stream};
}

static CUresult issue_2d(const void *context)
{
    const shaped_t *s = context;
    return EBB_PASS(cuMemcpy2DAsync_v2, (s->params, s->stream));
}

static CUresult issue_2d_unaligned(const void *context)
{
    const shaped_t *s = context;
    if (s->stream == CU_STREAM_PER_THREAD) /* has no form that names its stream */
        return EBB_PASS(cuMemcpy2DAsync_v2, (s->params, s->stream));
    return EBB_PASS(cuMemcpy2DUnaligned_v2, (s->params));
}

static CUresult copy_2d(const CUDA_MEMCPY2D *p, CUstream stream)
{
    if (!p)
        return EBB_PASS(cuMemcpy2DAsync_v2, (p, stream));
    shaped_t s = shape_of_2d(p, stream);
    s.name = "cuMemcpy2D";
    s.issue = issue_2d;
    return copy_shaped(&s);
}

static CUresult copy_2d_unaligned(const CUDA_MEMCPY2D *p, CUstream stream)
{
    if (!p)
        return EBB_PASS(cuMemcpy2DUnaligned_v2, (p));
    shaped_t s = shape_of_2d(p, stream);
    s.name = "cuMemcpy2DUnaligned";
    s.issue = issue_2d_unaligned;
    return ebb_order_wait(stream, copy_shaped(&s));
}

SYNC_CALL(cuMemcpy2D_v2, (const CUDA_MEMCPY2D *p), ebb_order_wait(stream, copy_2d(p, stream)))
SYNC_CALL(cuMemcpy2DUnaligned_v2, (const CUDA_MEMCPY2D *p), copy_2d_unaligned(p, stream))
ASYNC_CALL(cuMemcpy2DAsync_v2, (const CUDA_MEMCPY2D *p, CUstream stream), copy_2d(p, stream))

/* CUDA_MEMCPY3D and CUDA_MEMCPY3D_PEER name these alike. */
#define SPAN_OF_3D(p, side)                                                                                  \
    span_of((p)->WidthInBytes, (p)->Depth ? ((p)->Depth - 1) * (p)->side##Height + (p)->Height : 0,          \
            (p)->side##Pitch)
#define SHAPE_OF_3D(p)                                                                                       \
    .params = (p), .bytes = (p)->WidthInBytes * (p)->Height * (p)->Depth,                                    \
    .dst = {(p)->dstMemoryType, (p)->dstHost, (p)->dstDevice,                                                \
            ((p)->dstZ * (p)->dstHeight + (p)->dstY) * (p)->dstPitch + (p)->dstXInBytes,                     \
            SPAN_OF_3D(p, dst)},                                                                             \
    .src = {(p)->srcMemoryType, (p)->srcHost, (p)->srcDevice,                                                \
            ((p)->srcZ * (p)->srcHeight + (p)->srcY) * (p)->srcPitch + (p)->srcXInBytes, SPAN_OF_3D(p, src)}

void ebb_copy_addresses(const CUDA_MEMCPY3D *p, CUdeviceptr address[2])
{
    const shaped_t s = {SHAPE_OF_3D(p)};
    address[0] = begin_of(&s.dst);
    address[1] = begin_of(&s.src);
}

static CUresult issue_3d(const void *context)
{
    const shaped_t *s = context;
    return EBB_PASS(cuMemcpy3DAsync_v2, (s->params, s->stream));
}

static CUresult copy_3d(const CUDA_MEMCPY3D *p, CUstream stream)
{
    if (!p)
        return EBB_PASS(cuMemcpy3DAsync_v2, (p, stream));
    return copy_shaped(
        &(shaped_t){.name = "cuMemcpy3D", .issue = issue_3d, .stream = stream, SHAPE_OF_3D(p)});
}

static CUresult issue_3d_peer(const void *context)
{
    const shaped_t *s = context;
    return EBB_PASS(cuMemcpy3DPeerAsync, (s->params, s->stream));
}

static CUresult copy_3d_peer(const CUDA_MEMCPY3D_PEER *p, CUstream stream)
{
    if (!p)
        return EBB_PASS(cuMemcpy3DPeerAsync, (p, stream));
    return copy_shaped(
        &(shaped_t){.name = "cuMemcpy3DPeer", .issue = issue_3d_peer, .stream = stream, SHAPE_OF_3D(p)});
}

SYNC_CALL(cuMemcpy3D_v2, (const CUDA_MEMCPY3D *p), ebb_order_wait(stream, copy_3d(p, stream)))
ASYNC_CALL(cuMemcpy3DAsync_v2, (const CUDA_MEMCPY3D *p, CUstream stream), copy_3d(p, stream))
SYNC_CALL(cuMemcpy3DPeer, (const CUDA_MEMCPY3D_PEER *p), ebb_order_wait(stream, copy_3d_peer(p, stream)))
ASYNC_CALL(cuMemcpy3DPeerAsync, (const CUDA_MEMCPY3D_PEER *p, CUstream stream), copy_3d_peer(p, stream))

typedef struct peer_copy {
    CUdeviceptr dst, src;
    CUcontext dst_context, src_context;
    size_t bytes;
    CUstream stream;
} peer_copy_t;

static CUresult issue_peer(const void *context)
{
    const peer_copy_t *c = context;
    return EBB_PASS(cuMemcpyPeerAsync, (c->dst, c->dst_context, c->src, c->src_context, c->bytes, c->stream));
}

static CUresult copy_peer(const peer_copy_t *c)
{
    const CUdeviceptr address[] = {c->dst, c->src};
    const size_t span[] = {c->bytes, c->bytes};
    return ebb_issue_other(&(ebb_other_t){"cuMemcpyPeer", c->stream, c->bytes, address, 2, span, true},
                           issue_peer, c);
}

SYNC_CALL(cuMemcpyPeer, (CUdeviceptr dst, CUcontext to, CUdeviceptr src, CUcontext from, size_t bytes),
          ebb_order_wait(stream, copy_peer(&(peer_copy_t){dst, src, to, from, bytes, stream})))
ASYNC_CALL(cuMemcpyPeerAsync,
           (CUdeviceptr dst, CUcontext to, CUdeviceptr src, CUcontext from, size_t bytes, CUstream stream),
           copy_peer(&(peer_copy_t){dst, src, to, from, bytes, stream}))

/* ---- batches ---- */

typedef struct batch {
    CUdeviceptr *dsts, *srcs;
    size_t *sizes;
    size_t count;
    CUmemcpyAttributes *attributes;
    size_t *attribute_index;
    size_t attribute_count;
    size_t *failed; /* of the older form, else unused */
    CUmemcpy3DOperand *operand;
    CUDA_MEMCPY3D_BATCH_OP *op;
    unsigned long long flags;
    CUstream stream;
    bool older, early; /* early: sources may be read before the stream gets there */
} batch_t;

/* What is about to be fetched is ordered on the stream, and so would such a read overtake it. */
static void let_arrive(const batch_t *b)
{
    if (b->early)
        EBB_PASS(cuStreamSynchronize, (b->stream));
}

static CUresult issue_batch(const void *context)
{
    const batch_t *b = context;
    let_arrive(b);
    if (b->older)
        return EBB_PASS(cuMemcpyBatchAsync, (b->dsts, b->srcs, b->sizes, b->count, b->attributes,
                                             b->attribute_index, b->attribute_count, b->failed, b->stream));
    return EBB_PASS(cuMemcpyBatchAsync_v2, (b->dsts, b->srcs, b->sizes, b->count, b->attributes,
                                            b->attribute_index, b->attribute_count, b->stream));
}

static CUresult copy_batch(batch_t *b)
{
    if (!b->count || !b->dsts || !b->srcs || !b->sizes)
        return issue_batch(b);
    CUdeviceptr *address = calloc(2 * b->count, sizeof *address);
    size_t *span = calloc(2 * b->count, sizeof *span);
    if (!address || !span) {
        free(address);
        free(span);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    size_t bytes = 0;
    for (size_t i = 0; i < b->count; i++) {
        address[2 * i] = b->dsts[i];
        address[2 * i + 1] = b->srcs[i];
        bytes += span[2 * i] = span[2 * i + 1] = b->sizes[i];
    }
    for (size_t i = 0; b->attributes && i < b->attribute_count; i++)
        b->early |= b->attributes[i].srcAccessOrder != CU_MEMCPY_SRC_ACCESS_ORDER_STREAM;
    b->early = b->early && ebb_touches(b->srcs, b->count);
    CUresult result = ebb_issue_other(
        &(ebb_other_t){"cuMemcpyBatchAsync", b->stream, bytes, address, 2 * b->count, span, true},
        issue_batch, b);
    free(address);
    free(span);
    return result;
}

ASYNC_CALL(cuMemcpyBatchAsync,
           (CUdeviceptr * dsts, CUdeviceptr *srcs, size_t *sizes, size_t count,
            CUmemcpyAttributes *attributes, size_t *index, size_t attribute_count, size_t *failed,
            CUstream stream),
           copy_batch(&(batch_t){.dsts = dsts,
                                 .srcs = srcs,
                                 .sizes = sizes,
                                 .count = count,
                                 .attributes = attributes,
                                 .attribute_index = index,
                                 .attribute_count = attribute_count,
                                 .failed = failed,
                                 .stream = stream,
                                 .older = true}))
ASYNC_CALL(cuMemcpyBatchAsync_v2,
           (CUdeviceptr * dsts, CUdeviceptr *srcs, size_t *sizes, size_t count,
            CUmemcpyAttributes *attributes, size_t *index, size_t attribute_count, CUstream stream),
           copy_batch(&(batch_t){.dsts = dsts,
                                 .srcs = srcs,
                                 .sizes = sizes,
                                 .count = count,
                                 .attributes = attributes,
                                 .attribute_index = index,
                                 .attribute_count = attribute_count,
                                 .stream = stream}))

static CUresult issue_batch_3d(const void *context)
{
    const batch_t *b = context;
    let_arrive(b);
    if (b->older)
        return EBB_PASS(cuMemcpy3DBatchAsync, (b->count, b->op, b->failed, b->flags, b->stream));
    return EBB_PASS(cuMemcpy3DBatchAsync_v2, (b->count, b->op, b->flags, b->stream));
}

static CUdeviceptr operand_address(const CUmemcpy3DOperand *o)
{
    return o->type == CU_MEMCPY_OPERAND_TYPE_POINTER ? o->op.ptr.ptr : 0;
}

static CUresult copy_batch_3d(batch_t *b)
{
    CUdeviceptr *address = b->op && b->count ? malloc(2 * b->count * sizeof *address) : NULL;
    if (!address)
        return b->op && b->count ? CUDA_ERROR_OUT_OF_MEMORY : issue_batch_3d(b);
    size_t bytes = 0;
    for (size_t i = 0; i < b->count; i++) {
        const CUDA_MEMCPY3D_BATCH_OP *op = &b->op[i];
        address[2 * i] = operand_address(&op->dst);
        address[2 * i + 1] = operand_address(&op->src);
        bytes += op->extent.width * op->extent.height * op->extent.depth;
        b->early |=
            op->srcAccessOrder != CU_MEMCPY_SRC_ACCESS_ORDER_STREAM && ebb_touches(&address[2 * i + 1], 1);
    }
    CUresult result = ebb_issue_other(
        &(ebb_other_t){"cuMemcpy3DBatchAsync", b->stream, bytes, address, 2 * b->count, NULL, false},
        issue_batch_3d, b);
    free(address);
    return result;
}

ASYNC_CALL(cuMemcpy3DBatchAsync,
           (size_t count, CUDA_MEMCPY3D_BATCH_OP *op, size_t *failed, unsigned long long flags,
            CUstream stream),
           copy_batch_3d(&(batch_t){
               .count = count, .op = op, .failed = failed, .flags = flags, .stream = stream, .older = true}))
ASYNC_CALL(cuMemcpy3DBatchAsync_v2,
           (size_t count, CUDA_MEMCPY3D_BATCH_OP *op, unsigned long long flags, CUstream stream),
           copy_batch_3d(&(batch_t){.count = count, .op = op, .flags = flags, .stream = stream}))

/* ---- to and from arrays ---- */

typedef struct array_copy {
    CUarray array, other; /* other: of a copy between arrays */
    size_t offset, other_offset;
    CUdeviceptr device;
    const void *host;
    size_t bytes;
    CUstream stream;
} array_copy_t;

static CUresult copy_array(const char *name, const array_copy_t *c, CUresult (*issue)(const void *context))
{
    const CUdeviceptr address[] = {c->device, ebb_address_of(c->host)};
    const size_t span[] = {c->bytes, c->bytes};
    return ebb_issue_other(&(ebb_other_t){name, c->stream, c->bytes, address, 2, span, false}, issue, c);
}

/* Of the synchronous forms within the device. */
static CUresult copy_array_sync(const char *name, const array_copy_t *c,
                                CUresult (*issue)(const void *context))
{
    CUresult result = copy_array(name, c, issue);
    return c->bytes && ebb_host_waits(&c->device, c->device != 0) ? ebb_order_wait(c->stream, result)
                                                                  : result;
}

static CUresult issue_d2a(const void *context)
{
    const array_copy_t *c = context;
    return EBB_PASS(cuMemcpyDtoA_v2, (c->array, c->offset, c->device, c->bytes));
}

static CUresult issue_a2d(const void *context)
{
    const array_copy_t *c = context;
    return EBB_PASS(cuMemcpyAtoD_v2, (c->device, c->array, c->offset, c->bytes));
}

static CUresult issue_a2a(const void *context)
{
    const array_copy_t *c = context;
    return EBB_PASS(cuMemcpyAtoA_v2, (c->array, c->offset, c->other, c->other_offset, c->bytes));
}

static CUresult issue_h2a(const void *context)
{
    const array_copy_t *c = context;
    return EBB_PASS(cuMemcpyHtoAAsync_v2, (c->array, c->offset, c->host, c->bytes, c->stream));
}

static CUresult issue_a2h(const void *context)
{
    const array_copy_t *c = context;
    return EBB_PASS(cuMemcpyAtoHAsync_v2,
                    ((void *)(uintptr_t)c->host, c->array, c->offset, c->bytes, c->stream));
}

/* Those without an asynchronous form run on the legacy stream, whichever default stream was meant: that waits
 * for more than it must. */
SYNC_CALL(
    cuMemcpyDtoA_v2, (CUarray to, size_t offset, CUdeviceptr from, size_t bytes),
    copy_array_sync("cuMemcpyDtoA",
                    &(array_copy_t){
                        .array = to, .offset = offset, .device = from, .bytes = bytes, .stream = stream},
                    issue_d2a))
SYNC_CALL(
    cuMemcpyAtoD_v2, (CUdeviceptr to, CUarray from, size_t offset, size_t bytes),
    copy_array_sync("cuMemcpyAtoD",
                    &(array_copy_t){
                        .array = from, .offset = offset, .device = to, .bytes = bytes, .stream = stream},
                    issue_a2d))
SYNC_CALL(cuMemcpyAtoA_v2, (CUarray to, size_t to_offset, CUarray from, size_t from_offset, size_t bytes),
          copy_array_sync("cuMemcpyAtoA",
                          &(array_copy_t){.array = to,
                                          .offset = to_offset,
                                          .other = from,
                                          .other_offset = from_offset,
                                          .bytes = bytes,
                                          .stream = stream},
                          issue_a2a))

static CUresult copy_h2a(CUarray to, size_t offset, const void *from, size_t bytes, CUstream stream)
{
    return copy_array(
        "cuMemcpyHtoA",
        &(array_copy_t){.array = to, .offset = offset, .host = from, .bytes = bytes, .stream = stream},
        issue_h2a);
}

static CUresult copy_a2h(const void *to, CUarray from, size_t offset, size_t bytes, CUstream stream)
{
    return copy_array(
        "cuMemcpyAtoH",
        &(array_copy_t){.array = from, .offset = offset, .host = to, .bytes = bytes, .stream = stream},
        issue_a2h);
}

SYNC_CALL(cuMemcpyHtoA_v2, (CUarray to, size_t offset, const void *from, size_t bytes),
          ebb_order_wait(stream, copy_h2a(to, offset, from, bytes, stream)))
SYNC_CALL(cuMemcpyAtoH_v2, (void *to, CUarray from, size_t offset, size_t bytes),
          ebb_order_wait(stream, copy_a2h(to, from, offset, bytes, stream)))
ASYNC_CALL(cuMemcpyHtoAAsync_v2, (CUarray to, size_t offset, const void *from, size_t bytes, CUstream stream),
           copy_h2a(to, offset, from, bytes, stream))
ASYNC_CALL(cuMemcpyAtoHAsync_v2, (void *to, CUarray from, size_t offset, size_t bytes, CUstream stream),
           copy_a2h(to, from, offset, bytes, stream))

/* ---- memsets of rows ---- */

typedef struct set_rows {
    CUdeviceptr dst;
    size_t pitch;
    unsigned value, width;
    size_t columns, rows;
    CUstream stream;
} set_rows_t;

static CUresult issue_set_rows(const void *context)
{
    const set_rows_t *s = context;
    if (s->width == 1)
        return EBB_PASS(cuMemsetD2D8Async,
                        (s->dst, s->pitch, (unsigned char)s->value, s->columns, s->rows, s->stream));
    if (s->width == 2)
        return EBB_PASS(cuMemsetD2D16Async,
                        (s->dst, s->pitch, (unsigned short)s->value, s->columns, s->rows, s->stream));
    return EBB_PASS(cuMemsetD2D32Async, (s->dst, s->pitch, s->value, s->columns, s->rows, s->stream));
}

static CUresult set_rows(const set_rows_t *s)
{
    static const char *const name[] = {[1] = "cuMemsetD2D8", [2] = "cuMemsetD2D16", [4] = "cuMemsetD2D32"};
    const size_t span = span_of(s->width * s->columns, s->rows, s->pitch);
    return ebb_issue_other(
        &(ebb_other_t){name[s->width], s->stream, s->width * s->columns * s->rows, &s->dst, 1, &span, false},
        issue_set_rows, s);
}

static CUresult set_rows_sync(const set_rows_t *s)
{
    CUresult result = set_rows(s);
    return s->columns && s->rows && ebb_host_waits(&s->dst, 1) ? ebb_order_wait(s->stream, result) : result;
}

SYNC_CALL(cuMemsetD2D8_v2, (CUdeviceptr at, size_t pitch, unsigned char value, size_t columns, size_t rows),
          set_rows_sync(&(set_rows_t){at, pitch, value, 1, columns, rows, stream}))
SYNC_CALL(cuMemsetD2D16_v2, (CUdeviceptr at, size_t pitch, unsigned short value, size_t columns, size_t rows),
          set_rows_sync(&(set_rows_t){at, pitch, value, 2, columns, rows, stream}))
SYNC_CALL(cuMemsetD2D32_v2, (CUdeviceptr at, size_t pitch, unsigned value, size_t columns, size_t rows),
          set_rows_sync(&(set_rows_t){at, pitch, value, 4, columns, rows, stream}))
ASYNC_CALL(cuMemsetD2D8Async,
           (CUdeviceptr at, size_t pitch, unsigned char value, size_t columns, size_t rows, CUstream stream),
           set_rows(&(set_rows_t){at, pitch, value, 1, columns, rows, stream}))
ASYNC_CALL(cuMemsetD2D16Async,
           (CUdeviceptr at, size_t pitch, unsigned short value, size_t columns, size_t rows, CUstream stream),
           set_rows(&(set_rows_t){at, pitch, value, 2, columns, rows, stream}))
ASYNC_CALL(cuMemsetD2D32Async,
           (CUdeviceptr at, size_t pitch, unsigned value, size_t columns, size_t rows, CUstream stream),
           set_rows(&(set_rows_t){at, pitch, value, 4, columns, rows, stream}))
