/* action.c: what nodes do: actions made of the API's descriptions or of captured ops, and the ops that
 * perform them.
 */
#include "softgpu/driver/copy/copy.h"
#include "softgpu/driver/graph/graph.h"

#include <stdlib.h>
#include <string.h>

/* ---- ops ---- */

/* What the op does, not what running it needs. */
sg_op_t *sg_op_clone(const sg_op_t *from)
{
    sg_op_t *op = sg_op_new(from->kind, from->payload_bytes);
    if (!op)
        return NULL;
    op->units = from->units;
    op->group = from->group;
    memcpy(sg_op_payload(op), from->heap_payload ? from->heap_payload : from->payload, from->payload_bytes);
    if (op->kind == SG_OP_KERNEL) {
        op->kernel = from->kernel;
        op->kernel.launch.params = sg_op_payload(op);
    } else {
        op->host = from->host;
    }
    return op;
}

/* ---- kernels ---- */

static bool make_view(sg_action_t *a, bool packed)
{
    const softgpu_kernel_t *k = a->op->kernel.function->kernel;
    const size_t bytes = a->op->kernel.function->buffer_bytes;
    sg_kernel_view_t *v = calloc(1, sizeof *v + k->param_count * sizeof(void *) + bytes);
    if (!v)
        return false;
    char *payload = sg_op_payload(a->op), *buffer = (char *)&v->params[k->param_count];
    v->packed = packed;
    v->bytes = bytes;
    v->extra[0] = CU_LAUNCH_PARAM_BUFFER_POINTER;
    v->extra[1] = buffer;
    v->extra[2] = CU_LAUNCH_PARAM_BUFFER_SIZE;
    v->extra[3] = &v->bytes;
    v->extra[4] = CU_LAUNCH_PARAM_END;
    for (uint32_t i = 0; i < k->param_count; i++) {
        v->params[i] = payload + k->params[i].offset_bytes;
        memcpy(buffer + sg_param_offset(k, i), v->params[i], k->params[i].size_bytes);
    }
    v->attribute[CU_LAUNCH_ATTRIBUTE_COOPERATIVE].cooperative = (int)a->op->kernel.launch.cooperative;
    a->view = v;
    return true;
}

void sg_action_take_attributes(sg_action_t *a, const sg_action_t *from)
{
    softgpu_launch_t *l = &a->op->kernel.launch;
    memcpy(a->view->attribute, from->view->attribute, sizeof a->view->attribute);
    l->cooperative = a->view->attribute[CU_LAUNCH_ATTRIBUTE_COOPERATIVE].cooperative != 0;
    a->op->units = sg_op_kernel_units(a->op);
}

CUresult sg_action_kernel(sg_action_t *out, const CUDA_KERNEL_NODE_PARAMS *p)
{
    SG_TRY(sg_enter_context());
    if (!p)
        return CUDA_ERROR_INVALID_VALUE;
    const sg_wish_t wish = {.function = p->func ? p->func : (CUfunction)p->kern,
                            .grid = {p->gridDimX, p->gridDimY, p->gridDimZ},
                            .block = {p->blockDimX, p->blockDimY, p->blockDimZ},
                            .shared = p->sharedMemBytes,
                            .params = p->kernelParams,
                            .extra = p->extra};
    *out = (sg_action_t){.type = CU_GRAPH_NODE_TYPE_KERNEL, .ctx = sg_current_context()};
    if (!wish.function)
        return CUDA_ERROR_INVALID_VALUE;
    if (p->func) /* a kernel has a field of its own */
        SG_TRY(sg_function_check(p->func));
    SG_TRY(sg_kernel_op(&wish, &out->op));
    if (make_view(out, p->extra))
        return CUDA_SUCCESS;
    sg_op_drop(out->op);
    return CUDA_ERROR_OUT_OF_MEMORY;
}

void sg_action_describe_kernel(const sg_action_t *a, CUDA_KERNEL_NODE_PARAMS *out)
{
    const softgpu_launch_t *l = &a->op->kernel.launch;
    *out = (CUDA_KERNEL_NODE_PARAMS){.func = a->op->kernel.function,
                                     .gridDimX = l->grid[0],
                                     .gridDimY = l->grid[1],
                                     .gridDimZ = l->grid[2],
                                     .blockDimX = l->block[0],
                                     .blockDimY = l->block[1],
                                     .blockDimZ = l->block[2],
                                     .sharedMemBytes = l->dynamic_shared_bytes,
                                     .kernelParams = a->view->packed ? NULL : a->view->params,
                                     .extra = a->view->packed ? a->view->extra : NULL,
                                     .ctx = a->ctx};
}

/* ---- copies ---- */

static sg_place_t place_locked(CUdeviceptr at, size_t bytes)
{
    bool host_may = true;
    if (!at || bytes > UINTPTR_MAX - at)
        return SG_PLACE_BAD;
    if (!sg_window_contains(at))
        return sg_host_place_locked(sg_host(at), bytes);
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

static bool type_fits(CUmemorytype type, sg_place_t place)
{
    if (place == SG_PLACE_BAD)
        return false;
    return type == CU_MEMORYTYPE_HOST     ? place != SG_PLACE_DEVICE
           : type == CU_MEMORYTYPE_DEVICE ? place != SG_PLACE_PAGEABLE
                                          : true;
}

static CUdeviceptr side_base(CUmemorytype type, const void *host, CUdeviceptr address)
{
    return type == CU_MEMORYTYPE_HOST ? (CUdeviceptr)(uintptr_t)host : address;
}

static bool is_flat(const CUDA_MEMCPY3D *p)
{
    return p->Height <= 1 && p->Depth <= 1;
}

/* Rows and slices of which there is one need no pitch. */
static sg_box_t box_of(const CUDA_MEMCPY3D *p)
{
    sg_box_t b = {.width = p->WidthInBytes,
                  .rows = p->Height ? p->Height : 1,
                  .slices = p->Depth ? p->Depth : 1,
                  .src_pitch = p->srcPitch,
                  .dst_pitch = p->dstPitch};
    b.src_slice = b.src_pitch * p->srcHeight;
    b.dst_slice = b.dst_pitch * p->dstHeight;
    b.src = side_base(p->srcMemoryType, p->srcHost, p->srcDevice) + p->srcZ * b.src_slice +
            p->srcY * b.src_pitch + p->srcXInBytes;
    b.dst = side_base(p->dstMemoryType, p->dstHost, p->dstDevice) + p->dstZ * b.dst_slice +
            p->dstY * b.dst_pitch + p->dstXInBytes;
    return b;
}

static bool known_type(CUmemorytype type)
{
    return type == CU_MEMORYTYPE_HOST || type == CU_MEMORYTYPE_DEVICE || type == CU_MEMORYTYPE_UNIFIED;
}

static bool pitches_fit(const CUDA_MEMCPY3D *p)
{
    if (is_flat(p))
        return (!p->srcPitch || p->srcPitch >= p->WidthInBytes + p->srcXInBytes) &&
               (!p->dstPitch || p->dstPitch >= p->WidthInBytes + p->dstXInBytes);
    if (p->srcPitch < p->WidthInBytes + p->srcXInBytes || p->dstPitch < p->WidthInBytes + p->dstXInBytes)
        return false;
    return p->Depth <= 1 || (p->srcHeight >= p->Height + p->srcY && p->dstHeight >= p->Height + p->dstY);
}

static CUresult check_copy_locked(const CUDA_MEMCPY3D *p)
{
    if (p->srcMemoryType == CU_MEMORYTYPE_ARRAY || p->dstMemoryType == CU_MEMORYTYPE_ARRAY)
        return CUDA_ERROR_NOT_SUPPORTED;
    if (!known_type(p->srcMemoryType) || !known_type(p->dstMemoryType) || p->srcLOD || p->dstLOD ||
        p->reserved0 || p->reserved1 || !p->WidthInBytes || !pitches_fit(p))
        return CUDA_ERROR_INVALID_VALUE;
    sg_box_t b = box_of(p);
    return type_fits(p->srcMemoryType, place_locked(b.src, sg_box_span(&b, b.src_pitch, b.src_slice))) &&
                   type_fits(p->dstMemoryType, place_locked(b.dst, sg_box_span(&b, b.dst_pitch, b.dst_slice)))
               ? CUDA_SUCCESS
               : CUDA_ERROR_INVALID_VALUE;
}

/* The context of an argument; NULL stands for the current one. */
static CUresult context_of_locked(CUcontext ctx, CUcontext *out)
{
    *out = ctx ? ctx : sg_current_context();
    return *out ? sg_context_check_locked(*out) : CUDA_ERROR_INVALID_CONTEXT;
}

CUresult sg_action_copy_locked(sg_action_t *out, const CUDA_MEMCPY3D *p, CUcontext ctx)
{
    if (!p)
        return CUDA_ERROR_INVALID_VALUE;
    SG_TRY(context_of_locked(ctx, &ctx));
    SG_TRY(check_copy_locked(p));
    *out = (sg_action_t){.type = CU_GRAPH_NODE_TYPE_MEMCPY, .copy = *p, .ctx = ctx};
    return CUDA_SUCCESS;
}

static sg_op_t *copy_op(const CUDA_MEMCPY3D *p)
{
    const sg_box_t b = box_of(p);
    return sg_box_op(&b);
}

/* ---- memsets ---- */

CUresult sg_action_set_locked(sg_action_t *out, const CUDA_MEMSET_NODE_PARAMS *p, CUcontext ctx)
{
    if (!p || (p->elementSize != 1 && p->elementSize != 2 && p->elementSize != 4) || !p->width ||
        !p->height || p->width > SIZE_MAX / 4 || p->dst % p->elementSize)
        return CUDA_ERROR_INVALID_VALUE;
    SG_TRY(context_of_locked(ctx, &ctx));
    size_t row = p->width * p->elementSize;
    if (p->height > 1 && (p->pitch < row || p->pitch % p->elementSize || p->height > SIZE_MAX / p->pitch))
        return CUDA_ERROR_INVALID_VALUE;
    sg_place_t place = place_locked(p->dst, p->height > 1 ? (p->height - 1) * p->pitch + row : row);
    if (place == SG_PLACE_BAD || place == SG_PLACE_PAGEABLE)
        return CUDA_ERROR_INVALID_VALUE;
    *out = (sg_action_t){.type = CU_GRAPH_NODE_TYPE_MEMSET, .set = *p, .ctx = ctx};
    return CUDA_SUCCESS;
}

static sg_op_t *set_op(const CUDA_MEMSET_NODE_PARAMS *p)
{
    sg_op_t *op = sg_op_new(SG_OP_SET, 0);
    if (!op)
        return NULL;
    op->set.dst = sg_host(p->dst);
    op->set.value = p->value;
    op->set.width = p->elementSize;
    op->set.count = p->width * p->height;
    op->set.row = p->height > 1 ? p->width : 0;
    op->set.pitch = p->height > 1 ? p->pitch : 0;
    sg_copy_split(op);
    return op;
}

/* ---- host functions, events ---- */

CUresult sg_action_host_locked(sg_action_t *out, const CUDA_HOST_NODE_PARAMS *p)
{
    if (!p || !p->fn)
        return CUDA_ERROR_INVALID_VALUE;
    *out = (sg_action_t){.type = CU_GRAPH_NODE_TYPE_HOST, .op = sg_op_new(SG_OP_HOST, 0)};
    if (!out->op)
        return CUDA_ERROR_OUT_OF_MEMORY;
    out->op->host.function = p->fn;
    out->op->host.data = p->userData;
    return CUDA_SUCCESS;
}

CUresult sg_action_event_locked(sg_action_t *out, CUgraphNodeType type, CUevent event)
{
    if (!event || !sg_event_find_locked(event))
        return CUDA_ERROR_INVALID_VALUE;
    *out = (sg_action_t){.type = type, .event = event};
    return CUDA_SUCCESS;
}

/* ---- values in memory ---- */

CUresult sg_action_memops_locked(sg_action_t *out, unsigned count, const CUstreamBatchMemOpParams *params,
                                 CUcontext ctx)
{
    SG_TRY(context_of_locked(ctx, &ctx));
    *out = (sg_action_t){.type = CU_GRAPH_NODE_TYPE_BATCH_MEM_OP, .ctx = ctx};
    out->memops.count = count;
    out->memops.params = malloc(count * sizeof *params);
    if (!out->memops.params)
        return CUDA_ERROR_OUT_OF_MEMORY;
    memcpy(out->memops.params, params, count * sizeof *params);
    return CUDA_SUCCESS;
}

/* ---- captured ops ---- */

static CUmemorytype type_at_locked(const void *p)
{
    return sg_window_contains((CUdeviceptr)(uintptr_t)p) ? CU_MEMORYTYPE_DEVICE : CU_MEMORYTYPE_HOST;
}

static CUresult of_copy_locked(sg_action_t *out, const sg_op_t *op)
{
    size_t rows = op->copy.rows ? op->copy.rows : 1, width = op->copy.rows ? op->copy.width : op->copy.bytes;
    CUDA_MEMCPY3D p = {.srcMemoryType = type_at_locked(op->copy.src),
                       .dstMemoryType = type_at_locked(op->copy.dst),
                       .WidthInBytes = width,
                       .Height = rows,
                       .Depth = op->copy.bytes / (width * rows)};
    if (!is_flat(&p)) {
        p.srcPitch = op->copy.src_pitch;
        p.dstPitch = op->copy.dst_pitch;
        p.srcHeight = op->copy.src_pitch ? op->copy.src_slice / op->copy.src_pitch : 0;
        p.dstHeight = op->copy.dst_pitch ? op->copy.dst_slice / op->copy.dst_pitch : 0;
    }
    p.srcHost = p.srcMemoryType == CU_MEMORYTYPE_HOST ? op->copy.src : NULL;
    p.dstHost = p.dstMemoryType == CU_MEMORYTYPE_HOST ? op->copy.dst : NULL;
    p.srcDevice = p.srcHost ? 0 : (CUdeviceptr)(uintptr_t)op->copy.src;
    p.dstDevice = p.dstHost ? 0 : (CUdeviceptr)(uintptr_t)op->copy.dst;
    return sg_action_copy_locked(out, &p, NULL);
}

static CUresult of_set_locked(sg_action_t *out, const sg_op_t *op)
{
    size_t row = op->set.row ? op->set.row : op->set.count;
    const CUDA_MEMSET_NODE_PARAMS p = {.dst = (CUdeviceptr)(uintptr_t)op->set.dst,
                                       .pitch = op->set.pitch,
                                       .value = op->set.value,
                                       .elementSize = op->set.width,
                                       .width = row,
                                       .height = op->set.count / row};
    return sg_action_set_locked(out, &p, NULL);
}

CUresult sg_action_of_op_locked(sg_action_t *out, sg_op_t *op)
{
    CUresult result = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    if (op->kind == SG_OP_KERNEL) {
        *out = (sg_action_t){.type = CU_GRAPH_NODE_TYPE_KERNEL, .op = op, .ctx = sg_current_context()};
        if (make_view(out, false))
            return CUDA_SUCCESS;
        result = CUDA_ERROR_OUT_OF_MEMORY;
    } else if (op->kind == SG_OP_HOST && !op->host.callback) {
        *out = (sg_action_t){.type = CU_GRAPH_NODE_TYPE_HOST, .op = op};
        return CUDA_SUCCESS;
    } else if (op->kind == SG_OP_COPY && !op->payload_bytes) { /* a staged source would go with the op */
        result = of_copy_locked(out, op);
    } else if (op->kind == SG_OP_SET) {
        result = of_set_locked(out, op);
    }
    sg_op_drop(op);
    return result;
}

/* ---- actions as values ---- */

bool sg_action_clone_locked(sg_action_t *out, const sg_action_t *from, bool handles)
{
    *out = *from;
    out->op = NULL;
    out->view = NULL;
    if (from->op && !(out->op = sg_op_clone(from->op)))
        return false;
    if (from->view) {
        if (!make_view(out, from->view->packed)) {
            sg_op_drop(out->op);
            return false;
        }
        sg_action_take_attributes(out, from);
    }
    if (from->type == CU_GRAPH_NODE_TYPE_BATCH_MEM_OP)
        return !sg_action_memops_locked(out, from->memops.count, from->memops.params, from->ctx);
    if (from->type == CU_GRAPH_NODE_TYPE_GRAPH)
        return (out->child = sg_graph_clone_locked(from->child, handles)) != NULL;
    if (from->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC || from->type == CU_GRAPH_NODE_TYPE_MEM_FREE)
        sg_block_ref(out->block);
    return true;
}

void sg_action_drop_locked(sg_action_t *a)
{
    if (a->op)
        sg_op_drop(a->op);
    free(a->view);
    if (a->type == CU_GRAPH_NODE_TYPE_GRAPH &&
        !(a->child_moved && !a->child->owner)) /* still the program's */
        sg_graph_delete_locked(a->child);
    else if (a->type == CU_GRAPH_NODE_TYPE_BATCH_MEM_OP)
        free(a->memops.params);
    else if (a->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC || a->type == CU_GRAPH_NODE_TYPE_MEM_FREE)
        sg_block_unref_locked(a->block);
    *a = (sg_action_t){.type = CU_GRAPH_NODE_TYPE_EMPTY};
}

CUresult sg_action_ops(const sg_action_t *a, sg_op_t **out)
{
    *out = NULL;
    switch (a->type) {
    case CU_GRAPH_NODE_TYPE_KERNEL:
    case CU_GRAPH_NODE_TYPE_HOST:
        *out = sg_op_clone(a->op);
        break;
    case CU_GRAPH_NODE_TYPE_MEMCPY:
        *out = copy_op(&a->copy);
        break;
    case CU_GRAPH_NODE_TYPE_MEMSET:
        *out = set_op(&a->set);
        break;
    case CU_GRAPH_NODE_TYPE_BATCH_MEM_OP:
        return sg_memop_ops(a->memops.count, a->memops.params, out);
    default:
        return CUDA_SUCCESS;
    }
    return *out ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}
