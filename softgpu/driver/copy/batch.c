/* batch.c: several copies with one call. They run in the order given, one of the orders that a program must expect.
 * All are checked before the first is submitted, so that a call that fails has copied nothing. */
#include "softgpu/driver/api/gate.h"
#include "softgpu/driver/copy/copy.h"

#include <stdlib.h>
#include <string.h>

/* When a copy's source may be read. */
static bool order_is_valid(CUmemcpySrcAccessOrder order)
{
    return order == CU_MEMCPY_SRC_ACCESS_ORDER_STREAM ||
           order == CU_MEMCPY_SRC_ACCESS_ORDER_DURING_API_CALL || order == CU_MEMCPY_SRC_ACCESS_ORDER_ANY;
}

/* A batch has no default stream that waits for all others, and cannot be captured. */
static CUresult check_stream(CUstream stream)
{
    return !stream || stream == CU_STREAM_LEGACY ? CUDA_ERROR_INVALID_VALUE : sg_capture_refuse(stream);
}

/* The op of one copy; its source is read now if it may not be later. */
static CUresult box_of_batch(const sg_box_t *b, CUmemcpySrcAccessOrder order, unsigned flags, sg_op_t **out)
{
    if (!order_is_valid(order) || flags & ~(unsigned)CU_MEMCPY_FLAG_PREFER_OVERLAP_WITH_COMPUTE)
        return CUDA_ERROR_INVALID_VALUE;
    size_t span = sg_box_span(b, b->src_pitch, b->src_slice);
    sg_place_t to = sg_place_of(b->dst, sg_box_span(b, b->dst_pitch, b->dst_slice));
    sg_place_t from = sg_place_of(b->src, span);
    if (!sg_direction_fits(SG_ANY, to, from))
        return CUDA_ERROR_INVALID_VALUE;
    bool now = order == CU_MEMCPY_SRC_ACCESS_ORDER_DURING_API_CALL && from != SG_PLACE_DEVICE;
    sg_op_t *op = now ? sg_op_new(SG_OP_COPY, span) : sg_box_op(b);
    if (!op)
        return CUDA_ERROR_OUT_OF_MEMORY;
    if (now) {
        sg_op_t *model = sg_box_op(b);
        if (!model) {
            sg_op_drop(op);
            return CUDA_ERROR_OUT_OF_MEMORY;
        }
        op->copy = model->copy;
        op->units = model->units;
        op->group = model->group;
        op->copy.src = memcpy(sg_op_payload(op), sg_host(b->src), span);
        sg_op_drop(model);
    }
    *out = op;
    return CUDA_SUCCESS;
}

/* Submits what has been made, or drops it. */
static CUresult finish(sg_op_t **ops, size_t count, CUresult result, CUstream stream)
{
    for (size_t i = 0; i < count && ops[i]; i++) {
        if (result)
            sg_op_drop(ops[i]);
        else
            result = sg_submit(stream, ops[i], false);
    }
    free(ops);
    return result;
}

typedef struct batch {
    const CUdeviceptr *dst, *src;
    const size_t *bytes;
    size_t count;
    const CUmemcpyAttributes *attributes;
    const size_t *first; /* [attribute_count] the first copy to which each applies */
    size_t attribute_count;
} batch_t;

static bool attributes_are_ordered(const batch_t *b)
{
    if (!b->attributes || !b->first || !b->attribute_count || b->attribute_count > b->count || b->first[0])
        return false;
    for (size_t i = 1; i < b->attribute_count; i++)
        if (b->first[i] <= b->first[i - 1] || b->first[i] >= b->count)
            return false;
    return true;
}

static CUresult copy_batch(const batch_t *b, size_t *failed, CUstream stream)
{
    SG_TRY(sg_enter_context());
    if (failed)
        *failed = SIZE_MAX;
    SG_TRY(check_stream(stream));
    if (!b->dst || !b->src || !b->bytes || !b->count || !attributes_are_ordered(b))
        return CUDA_ERROR_INVALID_VALUE;
    sg_op_t **ops = calloc(b->count, sizeof *ops);
    if (!ops)
        return CUDA_ERROR_OUT_OF_MEMORY;
    CUresult result = CUDA_SUCCESS;
    for (size_t i = 0, a = 0; i < b->count && !result; i++) {
        a += a + 1 < b->attribute_count && b->first[a + 1] == i;
        sg_box_t box = {.dst = b->dst[i], .src = b->src[i], .width = b->bytes[i], .rows = 1, .slices = 1};
        result = b->bytes[i]
                     ? box_of_batch(&box, b->attributes[a].srcAccessOrder, b->attributes[a].flags, &ops[i])
                     : CUDA_ERROR_INVALID_VALUE;
        if (result && failed)
            *failed = i;
    }
    return finish(ops, b->count, result, stream);
}

ASYNC_CALL(cuMemcpyBatchAsync_v2,
           (CUdeviceptr * dst, CUdeviceptr *src, size_t *bytes, size_t count, CUmemcpyAttributes *attributes,
            size_t *first, size_t attribute_count, CUstream stream),
           copy_batch(&(batch_t){dst, src, bytes, count, attributes, first, attribute_count}, NULL, stream))
ASYNC_CALL(cuMemcpyBatchAsync,
           (CUdeviceptr * dst, CUdeviceptr *src, size_t *bytes, size_t count, CUmemcpyAttributes *attributes,
            size_t *first, size_t attribute_count, size_t *failed, CUstream stream),
           copy_batch(&(batch_t){dst, src, bytes, count, attributes, first, attribute_count}, failed, stream))

/* One copy, also in the legacy default stream. */
static CUresult copy_with(const sg_box_t *b, const CUmemcpyAttributes *attributes, CUstream stream)
{
    SG_TRY(sg_enter_context());
    sg_op_t *op = NULL;
    if (!b->width || !attributes)
        return CUDA_ERROR_INVALID_VALUE;
    SG_TRY(sg_capture_refuse(stream));
    SG_TRY(box_of_batch(b, attributes->srcAccessOrder, attributes->flags, &op));
    return sg_submit(stream, op, false);
}

/* CUDA 13.2. No header of 13.0 has it. */
ASYNC_CALL(cuMemcpyWithAttributesAsync,
           (CUdeviceptr dst, CUdeviceptr src, size_t bytes, CUmemcpyAttributes *attributes, CUstream stream),
           copy_with(&(sg_box_t){.dst = dst, .src = src, .width = bytes, .rows = 1, .slices = 1}, attributes,
                     stream))

/* One end of a 3D operation; 0 stands for tightly packed. */
static CUresult end_of(const CUmemcpy3DOperand *o, const CUextent3D *e, CUdeviceptr *at, size_t *pitch,
                       size_t *slice)
{
    if (o->type == CU_MEMCPY_OPERAND_TYPE_ARRAY)
        return sg_not_supported("a batch copy of an array");
    if (o->type != CU_MEMCPY_OPERAND_TYPE_POINTER)
        return CUDA_ERROR_INVALID_VALUE;
    size_t row = o->op.ptr.rowLength ? o->op.ptr.rowLength : e->width;
    size_t height = o->op.ptr.layerHeight ? o->op.ptr.layerHeight : e->height;
    if (row < e->width || height < e->height)
        return CUDA_ERROR_INVALID_VALUE;
    *at = o->op.ptr.ptr;
    *pitch = row;
    *slice = row * height;
    return CUDA_SUCCESS;
}

static CUresult op_of(const CUDA_MEMCPY3D_BATCH_OP *o, sg_op_t **out)
{
    const CUextent3D *e = &o->extent;
    if (!e->width || !e->height || !e->depth)
        return CUDA_ERROR_INVALID_VALUE;
    sg_box_t b = {.width = e->width, .rows = e->height, .slices = e->depth};
    SG_TRY(end_of(&o->dst, e, &b.dst, &b.dst_pitch, &b.dst_slice));
    SG_TRY(end_of(&o->src, e, &b.src, &b.src_pitch, &b.src_slice));
    return box_of_batch(&b, o->srcAccessOrder, o->flags, out);
}

static CUresult copy_batch_3d(size_t count, const CUDA_MEMCPY3D_BATCH_OP *list, size_t *failed,
                              unsigned long long flags, CUstream stream)
{
    SG_TRY(sg_enter_context());
    if (failed)
        *failed = SIZE_MAX;
    SG_TRY(check_stream(stream));
    if (!count || !list || flags)
        return CUDA_ERROR_INVALID_VALUE;
    sg_op_t **ops = calloc(count, sizeof *ops);
    if (!ops)
        return CUDA_ERROR_OUT_OF_MEMORY;
    CUresult result = CUDA_SUCCESS;
    for (size_t i = 0; i < count && !result; i++) {
        result = op_of(&list[i], &ops[i]);
        if (result && failed)
            *failed = i;
    }
    return finish(ops, count, result, stream);
}

ASYNC_CALL(cuMemcpy3DBatchAsync_v2,
           (size_t count, CUDA_MEMCPY3D_BATCH_OP *list, unsigned long long flags, CUstream stream),
           copy_batch_3d(count, list, NULL, flags, stream))
ASYNC_CALL(cuMemcpy3DBatchAsync,
           (size_t count, CUDA_MEMCPY3D_BATCH_OP *list, size_t *failed, unsigned long long flags,
            CUstream stream),
           copy_batch_3d(count, list, failed, flags, stream))
