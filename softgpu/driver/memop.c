/* memop.c: streams that write and wait for values in memory, alone or in batches. A write is a small copy; a wait is an op
 * whose turn is over when the memory holds what it wants (queue.c asks, poll.c looks again when nothing else does). */
#include "copy.h"

#include <stdlib.h>
#include <string.h>

/* A value's place: device or pinned memory, aligned; managed memory is refused. */
static CUresult check_place(CUdeviceptr at, size_t bytes)
{
    if (at % bytes)
        return CUDA_ERROR_INVALID_VALUE;
    sg_place_t place = sg_place_of(at, bytes);
    return place == SG_PLACE_DEVICE || place == SG_PLACE_PINNED ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

static CUresult write_op(CUdeviceptr at, uint64_t value, size_t bytes, unsigned flags, sg_op_t **out)
{
    if (flags & ~(unsigned)CU_STREAM_WRITE_VALUE_NO_MEMORY_BARRIER)
        return CUDA_ERROR_INVALID_VALUE;
    SG_TRY(check_place(at, bytes));
    sg_op_t *op = sg_op_new(SG_OP_COPY, bytes);
    if (!op)
        return CUDA_ERROR_OUT_OF_MEMORY;
    memcpy(sg_op_payload(op), &value, bytes); /* little-endian: the low half comes first */
    op->copy.dst = sg_host(at);
    op->copy.src = sg_op_payload(op);
    op->copy.bytes = bytes;
    sg_copy_split(op);
    *out = op;
    return CUDA_SUCCESS;
}

static CUresult wait_op(CUdeviceptr at, uint64_t value, size_t bytes, unsigned flags, sg_op_t **out)
{
    if (flags & ~(3u | CU_STREAM_WAIT_VALUE_FLUSH))
        return CUDA_ERROR_INVALID_VALUE;
    SG_TRY(check_place(at, bytes));
    sg_op_t *op = sg_op_new(SG_OP_WAIT, 0);
    if (!op)
        return CUDA_ERROR_OUT_OF_MEMORY;
    op->wait.poll = (sg_poll_t){.address = at, .value = value, .bytes = bytes, .condition = flags & 3};
    *out = op;
    return CUDA_SUCCESS;
}

static CUresult write_value(CUstream stream, CUdeviceptr at, uint64_t value, size_t bytes, unsigned flags)
{
    sg_op_t *op;
    SG_TRY(sg_enter_context());
    SG_TRY(write_op(at, value, bytes, flags, &op));
    return sg_submit(stream, op, false);
}

static CUresult wait_value(CUstream stream, CUdeviceptr at, uint64_t value, size_t bytes, unsigned flags)
{
    sg_op_t *op;
    SG_TRY(sg_enter_context());
    SG_TRY(wait_op(at, value, bytes, flags, &op));
    sg_poll_start();
    return sg_submit(stream, op, false);
}

ASYNC_CALL(cuStreamWriteValue32_v2, (CUstream stream, CUdeviceptr at, cuuint32_t value, unsigned flags),
           write_value(stream, at, value, 4, flags))
ASYNC_CALL(cuStreamWriteValue64_v2, (CUstream stream, CUdeviceptr at, cuuint64_t value, unsigned flags),
           write_value(stream, at, value, 8, flags))
ASYNC_CALL(cuStreamWaitValue32_v2, (CUstream stream, CUdeviceptr at, cuuint32_t value, unsigned flags),
           wait_value(stream, at, value, 4, flags))
ASYNC_CALL(cuStreamWaitValue64_v2, (CUstream stream, CUdeviceptr at, cuuint64_t value, unsigned flags),
           wait_value(stream, at, value, 8, flags))
/* The older forms, which a kernel module's parameter switches on. */
ASYNC_CALL(cuStreamWriteValue32, (CUstream stream, CUdeviceptr at, cuuint32_t value, unsigned flags),
           write_value(stream, at, value, 4, flags))
ASYNC_CALL(cuStreamWriteValue64, (CUstream stream, CUdeviceptr at, cuuint64_t value, unsigned flags),
           write_value(stream, at, value, 8, flags))
ASYNC_CALL(cuStreamWaitValue32, (CUstream stream, CUdeviceptr at, cuuint32_t value, unsigned flags),
           wait_value(stream, at, value, 4, flags))
ASYNC_CALL(cuStreamWaitValue64, (CUstream stream, CUdeviceptr at, cuuint64_t value, unsigned flags),
           wait_value(stream, at, value, 8, flags))

/* NULL in *out: nothing to be done, as for barriers between operations that are ordered anyway. */
static CUresult op_of(const CUstreamBatchMemOpParams *p, sg_op_t **out)
{
    *out = NULL;
    switch (p->operation) {
    case CU_STREAM_MEM_OP_WAIT_VALUE_32:
        return wait_op(p->waitValue.address, p->waitValue.value, 4, p->waitValue.flags, out);
    case CU_STREAM_MEM_OP_WAIT_VALUE_64:
        return wait_op(p->waitValue.address, p->waitValue.value64, 8, p->waitValue.flags, out);
    case CU_STREAM_MEM_OP_WRITE_VALUE_32:
        return write_op(p->writeValue.address, p->writeValue.value, 4, p->writeValue.flags, out);
    case CU_STREAM_MEM_OP_WRITE_VALUE_64:
        return write_op(p->writeValue.address, p->writeValue.value64, 8, p->writeValue.flags, out);
    case CU_STREAM_MEM_OP_BARRIER:
    case CU_STREAM_MEM_OP_FLUSH_REMOTE_WRITES:
        return CUDA_SUCCESS;
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
}

static CUresult batch(CUstream stream, unsigned count, const CUstreamBatchMemOpParams *params, unsigned flags)
{
    sg_op_t *ops[256] = {NULL};
    SG_TRY(sg_enter_context());
    if (!count || count >= 256 || !params || flags)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult result = CUDA_SUCCESS;
    for (unsigned i = 0; i < count && !result; i++)
        result = op_of(&params[i], &ops[i]);
    sg_poll_start();
    for (unsigned i = 0; i < count; i++)
        if (ops[i] && result)
            sg_op_drop(ops[i]);
        else if (ops[i])
            result = sg_submit(stream, ops[i], false);
    return result;
}

ASYNC_CALL(cuStreamBatchMemOp_v2,
           (CUstream stream, unsigned count, CUstreamBatchMemOpParams *params, unsigned flags),
           batch(stream, count, params, flags))
ASYNC_CALL(cuStreamBatchMemOp,
           (CUstream stream, unsigned count, CUstreamBatchMemOpParams *params, unsigned flags),
           batch(stream, count, params, flags))
