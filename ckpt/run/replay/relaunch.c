#include "ckpt/run/replay/replay.h"

#include <stdlib.h>
#include <string.h>

#include "alloc/base/driver.h"
#include "alloc/device.h"

/* All but where its arguments, attributes and accesses are. */
static void note(ebb_issued_t *x, const ebb_operation_t *op)
{
    x->kind = op->kind;
    x->function = op->function;
    memcpy(x->grid, op->grid, sizeof x->grid);
    memcpy(x->block, op->block, sizeof x->block);
    x->shared_bytes = op->shared_bytes;
    x->param_bytes = op->param_bytes;
    x->dst = op->dst;
    x->src = op->src;
    x->bytes = op->bytes;
    x->value = op->value;
    x->width = op->width;
    x->attribute_count = op->attribute_count;
    x->map_count = op->map_count;
    memcpy(x->map_at, op->map_at, op->map_count * sizeof *x->map_at);
    x->access_count = op->access_count;
    x->operand_bytes = 0;
    for (uint32_t i = 0; i < op->access_count; i++)
        x->operand_bytes += op->access[i].buffer->bytes;
    x->left_out = false;
}

ebb_issued_t ebb_issued_view(const ebb_operation_t *op)
{
    ebb_issued_t x = {.params = (unsigned char *)(uintptr_t)op->params,
                      .attribute = (CUlaunchAttribute *)(uintptr_t)op->attribute,
                      .access = (ebb_access_t *)(uintptr_t)op->access};
    note(&x, op);
    return x;
}

bool ebb_issued_keep(ebb_issued_t *issued, const ebb_operation_t *op)
{
    unsigned char *params = issued->params;
    CUlaunchAttribute *attribute = issued->room ? issued->attribute : NULL;
    ebb_access_t *access = issued->room ? issued->access : NULL;
    size_t room = issued->room;
    const size_t needed = op->param_bytes ? op->param_bytes : 1;
    if (needed > room) {
        params = realloc(params, needed);
        if (!params)
            return false;
        if (!room) {
            issued->attribute = NULL;
            issued->access = NULL;
        }
        issued->params = params;
        issued->room = room = needed;
    }
    if (op->attribute_count && (!attribute || op->attribute_count > issued->attribute_count)) {
        CUlaunchAttribute *grown = realloc(attribute, op->attribute_count * sizeof *attribute);
        if (!grown)
            return false;
        issued->attribute = attribute = grown;
    }
    if (!access || op->access_count > issued->access_count) {
        ebb_access_t *grown = realloc(access, (op->access_count + 1) * sizeof *access);
        if (!grown)
            return false;
        issued->access = access = grown;
    }
    if (op->access_count)
        memcpy(access, op->access, op->access_count * sizeof *access);
    if (op->param_bytes)
        memcpy(params, op->params, op->param_bytes);
    if (op->attribute_count)
        memcpy(attribute, op->attribute, op->attribute_count * sizeof *attribute);
    note(issued, op);
    return true;
}

void ebb_issued_forget(ebb_issued_t *issued)
{
    if (issued->room) {
        free(issued->params);
        free(issued->attribute);
        free(issued->access);
    }
    *issued = (ebb_issued_t){0};
}

size_t ebb_issued_offset(const ebb_issued_t *issued, const ebb_trace_access_t *recorded)
{
    for (unsigned i = 0; i < issued->access_count; i++)
        if (issued->access[i].param_offset == recorded->param_offset)
            return issued->access[i].offset_bytes;
    return recorded->offset_bytes;
}

bool ebb_issued_has_map(const ebb_issued_t *issued, uint32_t param_offset)
{
    for (unsigned i = 0; i < issued->map_count; i++)
        if (issued->map_at[i] == param_offset)
            return true;
    return false;
}

/* Where the address stands in a tensor map only the driver knows. */
static ebb_status_t point_map(unsigned char *at, CUdeviceptr to)
{
    CUtensorMap map;
    _Static_assert(sizeof map == EBB_TENSOR_MAP_BYTES, "a tensor map has another size");
    memcpy(&map, at, sizeof map);
    EBB_DRIVER(cuTensorMapReplaceAddress, 0, (&map, (void *)(uintptr_t)to));
    memcpy(at, &map, sizeof map);
    return 0;
}

static ebb_status_t relaunch_kernel(ebb_device_t *dev, const ebb_issued_t *x, CUstream stream,
                                    const ebb_pointer_t *pointer, unsigned count)
{
    _Alignas(16) unsigned char params[EBB_RELAUNCH_PARAM_BYTES];
    const size_t bytes = x->param_bytes;
    if (bytes > sizeof params)
        return ebb_fail(CUDA_ERROR_INVALID_VALUE, "a replay", bytes);
    if (bytes)
        memcpy(params, x->params, bytes);
    for (unsigned i = 0; i < count; i++)
        if (ebb_issued_has_map(x, pointer[i].param_offset))
            EBB_TRY(point_map(params + pointer[i].param_offset, pointer[i].to));
        else
            memcpy(params + pointer[i].param_offset, &pointer[i].to, sizeof pointer[i].to);
    const CUlaunchConfig config = {.gridDimX = x->grid[0],
                                   .gridDimY = x->grid[1],
                                   .gridDimZ = x->grid[2],
                                   .blockDimX = x->block[0],
                                   .blockDimY = x->block[1],
                                   .blockDimZ = x->block[2],
                                   .sharedMemBytes = x->shared_bytes,
                                   .hStream = stream,
                                   .attrs = x->attribute,
                                   .numAttrs = x->attribute_count};
    const CUresult result = ebb_launch_block(dev->ebb, &config, x->function, params);
    return result ? ebb_fail(result, "cuLaunchKernelEx", bytes) : 0;
}

/* Of a copy or memset "param_offset" 0 is the destination, anything else the source. */
static ebb_status_t relaunch_copy(const ebb_issued_t *x, CUstream stream, const ebb_pointer_t *pointer,
                                  unsigned count)
{
    CUdeviceptr dst = x->dst, src = x->src;
    for (unsigned i = 0; i < count; i++)
        *(pointer[i].param_offset ? &src : &dst) = pointer[i].to;
    if (x->kind == EBB_COPY)
        EBB_DRIVER(cuMemcpyDtoDAsync_v2, x->bytes, (dst, src, x->bytes, stream));
    else if (x->width == 1)
        EBB_DRIVER(cuMemsetD8Async, x->bytes, (dst, (unsigned char)x->value, x->bytes, stream));
    else if (x->width == 2)
        EBB_DRIVER(cuMemsetD16Async, x->bytes, (dst, (unsigned short)x->value, x->bytes / 2, stream));
    else
        EBB_DRIVER(cuMemsetD32Async, x->bytes, (dst, x->value, x->bytes / 4, stream));
    return 0;
}

ebb_status_t ebb_relaunch(ebb_device_t *dev, const ebb_issued_t *x, ebb_stream_t *stream,
                          const ebb_pointer_t *pointer, unsigned count)
{
    CUstream handle = ebb_stream_handle(stream);
    if (x->left_out)
        return 0;
    EBB_TRY(x->kind == EBB_KERNEL ? relaunch_kernel(dev, x, handle, pointer, count)
                                  : relaunch_copy(x, handle, pointer, count));
    ebb_mark_issue(stream);
    return 0;
}
