#include "relaunch.h"

#include <stdlib.h>
#include <string.h>

#include "driver.h"

ebb_issued_t ebb_issued_view(const ebb_operation_t *op)
{
    ebb_issued_t x = {.kind = op->kind,
                      .function = op->function,
                      .shared_bytes = op->shared_bytes,
                      .params = (unsigned char *)(uintptr_t)op->params,
                      .param_bytes = op->param_bytes,
                      .dst = op->dst,
                      .src = op->src,
                      .bytes = op->bytes,
                      .value = op->value,
                      .width = op->width};
    memcpy(x.grid, op->grid, sizeof x.grid);
    memcpy(x.block, op->block, sizeof x.block);
    return x;
}

bool ebb_issued_keep(ebb_issued_t *issued, const ebb_operation_t *op)
{
    unsigned char *params = issued->params;
    size_t room = issued->room;
    if (op->param_bytes > room) {
        params = realloc(params, op->param_bytes);
        if (!params)
            return false;
        room = op->param_bytes;
    }
    if (op->param_bytes)
        memcpy(params, op->params, op->param_bytes);
    *issued = ebb_issued_view(op);
    issued->params = params;
    issued->room = room;
    return true;
}

void ebb_issued_forget(ebb_issued_t *issued)
{
    if (issued->room)
        free(issued->params);
    *issued = (ebb_issued_t){0};
}

static ebb_status_t relaunch_kernel(const ebb_issued_t *x, CUstream stream, const ebb_pointer_t *pointer,
                                    unsigned count)
{
    _Alignas(16) unsigned char params[EBB_RELAUNCH_PARAM_BYTES];
    size_t bytes = x->param_bytes;
    if (bytes > sizeof params)
        return ebb_fail(CUDA_ERROR_INVALID_VALUE, "a replay", bytes);
    if (bytes)
        memcpy(params, x->params, bytes);
    for (unsigned i = 0; i < count; i++)
        memcpy(params + pointer[i].param_offset, &pointer[i].to, sizeof pointer[i].to);
    void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, params, CU_LAUNCH_PARAM_BUFFER_SIZE, &bytes,
                     CU_LAUNCH_PARAM_END};
    EBB_DRIVER(cuLaunchKernel, 0,
               (x->function, x->grid[0], x->grid[1], x->grid[2], x->block[0], x->block[1], x->block[2],
                x->shared_bytes, stream, NULL, extra));
    return 0;
}

/* Of a copy or memset "param_offset" 0 is the destination, anything else the source. */
static ebb_status_t relaunch_copy(const ebb_issued_t *x, CUstream stream, const ebb_pointer_t *pointer,
                                  unsigned count)
{
    CUdeviceptr dst = x->dst, src = x->src;
    for (unsigned i = 0; i < count; i++)
        *(pointer[i].param_offset ? &src : &dst) = pointer[i].to;
    if (x->kind == EBB_COPY)
        EBB_DRIVER(cuMemcpyDtoDAsync, x->bytes, (dst, src, x->bytes, stream));
    else if (x->width == 1)
        EBB_DRIVER(cuMemsetD8Async, x->bytes, (dst, (unsigned char)x->value, x->bytes, stream));
    else if (x->width == 2)
        EBB_DRIVER(cuMemsetD16Async, x->bytes, (dst, (unsigned short)x->value, x->bytes / 2, stream));
    else
        EBB_DRIVER(cuMemsetD32Async, x->bytes, (dst, x->value, x->bytes / 4, stream));
    return 0;
}

ebb_status_t ebb_relaunch(const ebb_issued_t *x, ebb_stream_t *stream, const ebb_pointer_t *pointer,
                          unsigned count)
{
    CUstream handle = ebb_stream_handle(stream);
    EBB_TRY(x->kind == EBB_KERNEL ? relaunch_kernel(x, handle, pointer, count)
                                  : relaunch_copy(x, handle, pointer, count));
    ebb_mark_issue(stream);
    return 0;
}
