/* graph_action.c: what nodes do: actions made of the API's descriptions or of captured ops, and the ops that
 * perform them.
 */
#include "graph.h"

#include <stdlib.h>
#include <string.h>

/* ---- ops ---- */

sg_op_t *sg_op_clone(const sg_op_t *from)
{
    sg_op_t *op = sg_op_new(from->kind, from->payload_bytes);
    if (!op)
        return NULL;
    void *heap_payload = op->heap_payload;
    memcpy((void *)op, from, offsetof(sg_op_t, payload));
    op->heap_payload = heap_payload;
    op->stream = NULL;
    op->next = op->next_run = NULL;
    memcpy(sg_op_payload(op), heap_payload ? from->heap_payload : from->payload, from->payload_bytes);
    if (op->kind == SG_OP_KERNEL)
        op->kernel.launch.params = sg_op_payload(op);
    return op;
}

/* ---- kernels ---- */

static bool make_view(sg_action_t *a, bool packed)
{
    const softgpu_kernel_t *k = a->op->kernel.function->kernel;
    sg_kernel_view_t *v = calloc(1, sizeof *v + k->param_count * sizeof(void *));
    if (!v)
        return false;
    char *payload = sg_op_payload(a->op);
    v->packed = packed;
    v->bytes = a->op->payload_bytes;
    v->extra[0] = CU_LAUNCH_PARAM_BUFFER_POINTER;
    v->extra[1] = payload;
    v->extra[2] = CU_LAUNCH_PARAM_BUFFER_SIZE;
    v->extra[3] = &v->bytes;
    v->extra[4] = CU_LAUNCH_PARAM_END;
    for (uint32_t i = 0; i < k->param_count; i++)
        v->params[i] = payload + k->params[i].offset_bytes;
    a->view = v;
    return true;
}

CUresult sg_action_kernel(sg_action_t *out, const CUDA_KERNEL_NODE_PARAMS *p)
{
    SG_TRY(sg_enter_context());
    if (!p)
        return CUDA_ERROR_INVALID_VALUE;
    const unsigned grid[3] = {p->gridDimX, p->gridDimY, p->gridDimZ};
    const unsigned block[3] = {p->blockDimX, p->blockDimY, p->blockDimZ};
    CUfunction f = p->func ? p->func : (CUfunction)p->kern;
    *out = (sg_action_t){.type = CU_GRAPH_NODE_TYPE_KERNEL, .ctx = sg_current_context()};
    if (!f)
        return CUDA_ERROR_INVALID_VALUE;
    SG_TRY(sg_kernel_op(f, grid, block, p->sharedMemBytes, p->kernelParams, p->extra, &out->op));
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

typedef struct side {
    CUdeviceptr at;
    size_t pitch, plane; /* bytes from row to row, from slice to slice */
} side_t;

typedef struct box {
    side_t to, from;
    size_t width, height, depth;
} box_t;

typedef enum place { PLACE_BAD, PLACE_DEVICE, PLACE_PINNED, PLACE_PAGEABLE } place_t;

static place_t place_locked(CUdeviceptr at, size_t bytes)
{
    if (!at || bytes > UINTPTR_MAX - at)
        return PLACE_BAD;
    if (!sg_window_contains(at))
        return sg_host_is_pinned_locked(sg_host(at), bytes) ? PLACE_PINNED : PLACE_PAGEABLE;
    for (CUdeviceptr p = at; p < at + bytes;) {
        sg_extent_t extent;
        if (!sg_extent_find_locked(p, &extent))
            return PLACE_BAD;
        p = extent.base + extent.bytes;
        if (extent.managed_by_heap && p < at + bytes)
            return PLACE_BAD;
    }
    return PLACE_DEVICE;
}

static bool place_fits(CUmemorytype type, place_t place)
{
    switch (type) {
    case CU_MEMORYTYPE_HOST:
        return place == PLACE_PINNED || place == PLACE_PAGEABLE;
    case CU_MEMORYTYPE_DEVICE:
        return place == PLACE_DEVICE || place == PLACE_PINNED;
    default:
        return place != PLACE_BAD;
    }
}

/* Where one side of the copy begins, and that all of it lies in memory of its type. */
static CUresult read_side(side_t *out, CUmemorytype type, CUdeviceptr base, const size_t at[3], size_t pitch,
                          size_t rows, const box_t *box)
{
    bool flat = box->height == 1 && box->depth == 1;
    if (!pitch && flat)
        pitch = at[0] + box->width;
    if (pitch < at[0] + box->width || (box->depth > 1 && rows < at[1] + box->height))
        return CUDA_ERROR_INVALID_VALUE;
    *out = (side_t){.pitch = pitch, .plane = pitch * rows};
    out->at = base + at[2] * out->plane + at[1] * pitch + at[0];
    size_t bytes = (box->depth - 1) * out->plane + (box->height - 1) * pitch + box->width;
    return base && place_fits(type, place_locked(out->at, bytes)) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

static CUdeviceptr side_base(CUmemorytype type, const void *host, CUdeviceptr address)
{
    return type == CU_MEMORYTYPE_HOST ? (CUdeviceptr)(uintptr_t)host : address;
}

static bool known_type(CUmemorytype type)
{
    return type == CU_MEMORYTYPE_HOST || type == CU_MEMORYTYPE_DEVICE || type == CU_MEMORYTYPE_UNIFIED;
}

static CUresult read_box_locked(box_t *box, const CUDA_MEMCPY3D *p)
{
    if (p->srcMemoryType == CU_MEMORYTYPE_ARRAY || p->dstMemoryType == CU_MEMORYTYPE_ARRAY)
        return CUDA_ERROR_NOT_SUPPORTED;
    if (!known_type(p->srcMemoryType) || !known_type(p->dstMemoryType) || p->srcLOD || p->dstLOD ||
        p->reserved0 || p->reserved1 || !p->WidthInBytes)
        return CUDA_ERROR_INVALID_VALUE;
    *box = (box_t){
        .width = p->WidthInBytes, .height = p->Height ? p->Height : 1, .depth = p->Depth ? p->Depth : 1};
    SG_TRY(read_side(&box->from, p->srcMemoryType, side_base(p->srcMemoryType, p->srcHost, p->srcDevice),
                     (const size_t[]){p->srcXInBytes, p->srcY, p->srcZ}, p->srcPitch, p->srcHeight, box));
    return read_side(&box->to, p->dstMemoryType, side_base(p->dstMemoryType, p->dstHost, p->dstDevice),
                     (const size_t[]){p->dstXInBytes, p->dstY, p->dstZ}, p->dstPitch, p->dstHeight, box);
}

/* The same of a description that was checked before; memory may have gone since. */
static box_t box_of(const CUDA_MEMCPY3D *p)
{
    box_t box = {
        .width = p->WidthInBytes, .height = p->Height ? p->Height : 1, .depth = p->Depth ? p->Depth : 1};
    size_t from_pitch = p->srcPitch ? p->srcPitch : p->WidthInBytes + p->srcXInBytes;
    size_t to_pitch = p->dstPitch ? p->dstPitch : p->WidthInBytes + p->dstXInBytes;
    box.from = (side_t){.pitch = from_pitch, .plane = from_pitch * p->srcHeight};
    box.to = (side_t){.pitch = to_pitch, .plane = to_pitch * p->dstHeight};
    box.from.at = side_base(p->srcMemoryType, p->srcHost, p->srcDevice) + p->srcZ * box.from.plane +
                  p->srcY * from_pitch + p->srcXInBytes;
    box.to.at = side_base(p->dstMemoryType, p->dstHost, p->dstDevice) + p->dstZ * box.to.plane +
                p->dstY * to_pitch + p->dstXInBytes;
    return box;
}

static bool context_fits(CUcontext ctx)
{
    return !ctx || ctx == sg_current_context();
}

CUresult sg_action_copy_locked(sg_action_t *out, const CUDA_MEMCPY3D *p, CUcontext ctx)
{
    box_t box;
    if (!p)
        return CUDA_ERROR_INVALID_VALUE;
    if (!context_fits(ctx))
        return CUDA_ERROR_INVALID_CONTEXT;
    SG_TRY(read_box_locked(&box, p));
    *out = (sg_action_t){.type = CU_GRAPH_NODE_TYPE_MEMCPY, .copy = *p, .ctx = sg_current_context()};
    return CUDA_SUCCESS;
}

static bool add_copy_op(sg_op_t ***link, CUdeviceptr to, CUdeviceptr from, size_t bytes)
{
    sg_op_t *op = sg_op_new(SG_OP_COPY, 0);
    if (!op)
        return false;
    op->copy.dst = sg_host(to);
    op->copy.src = sg_host(from);
    op->copy.bytes = bytes;
    sg_copy_split(op);
    **link = op;
    *link = &op->next;
    return true;
}

/* Rows that follow each other in memory are one op. */
static bool copy_ops(const CUDA_MEMCPY3D *p, sg_op_t ***link)
{
    box_t b = box_of(p);
    if (b.height > 1 && b.to.pitch == b.width && b.from.pitch == b.width) {
        b.width *= b.height;
        b.height = 1;
    }
    if (b.depth > 1 && b.height == 1 && b.to.plane == b.width && b.from.plane == b.width) {
        b.width *= b.depth;
        b.depth = 1;
    }
    for (size_t z = 0; z < b.depth; z++)
        for (size_t y = 0; y < b.height; y++)
            if (!add_copy_op(link, b.to.at + z * b.to.plane + y * b.to.pitch,
                             b.from.at + z * b.from.plane + y * b.from.pitch, b.width))
                return false;
    return true;
}

/* ---- memsets ---- */

CUresult sg_action_set_locked(sg_action_t *out, const CUDA_MEMSET_NODE_PARAMS *p, CUcontext ctx)
{
    if (!p || (p->elementSize != 1 && p->elementSize != 2 && p->elementSize != 4) || !p->width ||
        !p->height || p->width > SIZE_MAX / 4 || p->dst % p->elementSize)
        return CUDA_ERROR_INVALID_VALUE;
    if (!context_fits(ctx))
        return CUDA_ERROR_INVALID_CONTEXT;
    size_t row = p->width * p->elementSize;
    if (p->height > 1 && (p->pitch < row || p->pitch % p->elementSize || p->height > SIZE_MAX / p->pitch))
        return CUDA_ERROR_INVALID_VALUE;
    place_t place = place_locked(p->dst, p->height > 1 ? (p->height - 1) * p->pitch + row : row);
    if (place != PLACE_DEVICE && place != PLACE_PINNED)
        return CUDA_ERROR_INVALID_VALUE;
    *out = (sg_action_t){.type = CU_GRAPH_NODE_TYPE_MEMSET, .set = *p, .ctx = sg_current_context()};
    return CUDA_SUCCESS;
}

static bool set_ops(const CUDA_MEMSET_NODE_PARAMS *p, sg_op_t ***link)
{
    bool one = p->height == 1 || p->pitch == p->width * p->elementSize;
    for (size_t y = 0; y < (one ? 1 : p->height); y++) {
        sg_op_t *op = sg_op_new(SG_OP_SET, 0);
        if (!op)
            return false;
        op->set.dst = (char *)sg_host(p->dst) + y * p->pitch;
        op->set.value = p->value;
        op->set.width = p->elementSize;
        op->set.count = p->width * (one ? p->height : 1);
        sg_copy_split(op);
        **link = op;
        *link = &op->next;
    }
    return true;
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

/* ---- captured ops ---- */

static CUmemorytype type_at_locked(const void *p)
{
    return sg_window_contains((CUdeviceptr)(uintptr_t)p) ? CU_MEMORYTYPE_DEVICE : CU_MEMORYTYPE_HOST;
}

static CUresult of_copy_locked(sg_action_t *out, const sg_op_t *op)
{
    CUDA_MEMCPY3D p = {.srcMemoryType = type_at_locked(op->copy.src),
                       .dstMemoryType = type_at_locked(op->copy.dst),
                       .WidthInBytes = op->copy.bytes,
                       .Height = 1,
                       .Depth = 1};
    p.srcHost = p.srcMemoryType == CU_MEMORYTYPE_HOST ? op->copy.src : NULL;
    p.dstHost = p.dstMemoryType == CU_MEMORYTYPE_HOST ? op->copy.dst : NULL;
    p.srcDevice = p.srcHost ? 0 : (CUdeviceptr)(uintptr_t)op->copy.src;
    p.dstDevice = p.dstHost ? 0 : (CUdeviceptr)(uintptr_t)op->copy.dst;
    return sg_action_copy_locked(out, &p, NULL);
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
    } else if (op->kind == SG_OP_COPY) {
        result = of_copy_locked(out, op);
    } else if (op->kind == SG_OP_SET) {
        const CUDA_MEMSET_NODE_PARAMS p = {.dst = (CUdeviceptr)(uintptr_t)op->set.dst,
                                           .value = op->set.value,
                                           .elementSize = op->set.width,
                                           .width = op->set.count,
                                           .height = 1};
        result = sg_action_set_locked(out, &p, NULL);
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
        memcpy(out->view->attribute, from->view->attribute, sizeof from->view->attribute);
        out->view->attributes_set = from->view->attributes_set;
    }
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
    else if (a->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC || a->type == CU_GRAPH_NODE_TYPE_MEM_FREE)
        sg_block_unref_locked(a->block);
    *a = (sg_action_t){.type = CU_GRAPH_NODE_TYPE_EMPTY};
}

bool sg_action_ops(const sg_action_t *a, sg_op_t ***link)
{
    sg_op_t *op;
    switch (a->type) {
    case CU_GRAPH_NODE_TYPE_KERNEL:
    case CU_GRAPH_NODE_TYPE_HOST:
        op = sg_op_clone(a->op);
        if (!op)
            return false;
        **link = op;
        *link = &op->next;
        return true;
    case CU_GRAPH_NODE_TYPE_MEMCPY:
        return copy_ops(&a->copy, link);
    case CU_GRAPH_NODE_TYPE_MEMSET:
        return set_ops(&a->set, link);
    default:
        return true;
    }
}
