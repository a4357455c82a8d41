#include "ckpt/run/replay/replay.h"

#include <stdlib.h>
#include <string.h>

#include "alloc/base/driver.h"
#include "alloc/device.h"

static size_t operand_bytes(const ebb_operation_t *op)
{
    size_t bytes = 0;
    for (uint32_t i = 0; i < op->access_count; i++)
        bytes += op->access[i].buffer->bytes;
    return bytes;
}

ebb_issued_t ebb_issued_view(const ebb_operation_t *op)
{
    return (ebb_issued_t){.op = *op, .operand_bytes = operand_bytes(op)};
}

/* Puts a list behind what is in the block already. */
static void *put(ebb_issued_t *x, size_t *at, const void *list, size_t bytes)
{
    unsigned char *to = x->block + *at;
    if (bytes)
        memcpy(to, list, bytes);
    *at += (bytes + 15) / 16 * 16;
    return to;
}

bool ebb_issued_keep(ebb_issued_t *issued, const ebb_operation_t *op)
{
    const size_t attribute_bytes = op->attribute_count * sizeof *op->attribute,
                 access_bytes = op->access_count * sizeof *op->access,
                 needed = op->param_bytes + attribute_bytes + access_bytes + 3 * 16;
    if (needed > issued->room) {
        unsigned char *block = realloc(issued->block, needed);
        if (!block)
            return false;
        issued->block = block;
        issued->room = needed;
    }
    issued->op = *op;
    issued->operand_bytes = operand_bytes(op);
    issued->left_out = false;
    size_t at = 0;
    issued->op.params = put(issued, &at, op->params, op->param_bytes);
    issued->op.attribute = put(issued, &at, op->attribute, attribute_bytes);
    issued->op.access = put(issued, &at, op->access, access_bytes);
    return true;
}

void ebb_issued_forget(ebb_issued_t *issued)
{
    free(issued->block);
    *issued = (ebb_issued_t){0};
}

size_t ebb_issued_offset(const ebb_issued_t *issued, const ebb_trace_access_t *recorded)
{
    for (unsigned i = 0; i < issued->op.access_count; i++)
        if (issued->op.access[i].param_offset == recorded->param_offset)
            return issued->op.access[i].offset_bytes;
    return recorded->offset_bytes;
}

bool ebb_issued_has_map(const ebb_issued_t *issued, uint32_t param_offset)
{
    for (unsigned i = 0; i < issued->op.map_count; i++)
        if (issued->op.map_at[i] == param_offset)
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
    const size_t bytes = x->op.param_bytes;
    if (bytes > sizeof params)
        return ebb_fail(CUDA_ERROR_INVALID_VALUE, "a replay", bytes);
    if (bytes)
        memcpy(params, x->op.params, bytes);
    for (unsigned i = 0; i < count; i++)
        if (ebb_issued_has_map(x, pointer[i].param_offset))
            EBB_TRY(point_map(params + pointer[i].param_offset, pointer[i].to));
        else
            memcpy(params + pointer[i].param_offset, &pointer[i].to, sizeof pointer[i].to);
    const CUlaunchConfig config = {.gridDimX = x->op.grid[0],
                                   .gridDimY = x->op.grid[1],
                                   .gridDimZ = x->op.grid[2],
                                   .blockDimX = x->op.block[0],
                                   .blockDimY = x->op.block[1],
                                   .blockDimZ = x->op.block[2],
                                   .sharedMemBytes = x->op.shared_bytes,
                                   .hStream = stream,
                                   .attrs = (CUlaunchAttribute *)(uintptr_t)x->op.attribute,
                                   .numAttrs = x->op.attribute_count};
    const CUresult result = ebb_launch_block(dev->ebb, &config, x->op.function, params);
    return result ? ebb_fail(result, "cuLaunchKernelEx", bytes) : 0;
}

/* Of a copy or memset "param_offset" 0 is the destination, anything else the source. */
static ebb_status_t relaunch_copy(const ebb_issued_t *x, CUstream stream, const ebb_pointer_t *pointer,
                                  unsigned count)
{
    CUdeviceptr dst = x->op.dst, src = x->op.src;
    for (unsigned i = 0; i < count; i++)
        *(pointer[i].param_offset ? &src : &dst) = pointer[i].to;
    if (x->op.kind == EBB_COPY)
        EBB_DRIVER(cuMemcpyDtoDAsync_v2, x->op.bytes, (dst, src, x->op.bytes, stream));
    else if (x->op.width == 1)
        EBB_DRIVER(cuMemsetD8Async, x->op.bytes, (dst, (unsigned char)x->op.value, x->op.bytes, stream));
    else if (x->op.width == 2)
        EBB_DRIVER(cuMemsetD16Async, x->op.bytes,
                   (dst, (unsigned short)x->op.value, x->op.bytes / 2, stream));
    else
        EBB_DRIVER(cuMemsetD32Async, x->op.bytes, (dst, x->op.value, x->op.bytes / 4, stream));
    return 0;
}

ebb_status_t ebb_relaunch(ebb_device_t *dev, const ebb_issued_t *x, ebb_stream_t *stream,
                          const ebb_pointer_t *pointer, unsigned count)
{
    CUstream handle = ebb_stream_handle(stream);
    if (x->left_out)
        return 0;
    EBB_TRY(x->op.kind == EBB_KERNEL ? relaunch_kernel(dev, x, handle, pointer, count)
                                     : relaunch_copy(x, handle, pointer, count));
    ebb_mark_issue(stream);
    return 0;
}
