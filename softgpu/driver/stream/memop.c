/* memop.c: streams that write and wait for values in memory, alone or in batches. A write is a small copy; a wait is an op
 * whose turn is over when the memory holds what it wants (queue.c asks, poll.c looks again when nothing else does). */
#include "softgpu/driver/copy/copy.h"

#include <string.h>

/* A value's place: device or pinned memory, aligned; managed memory is refused. */
static CUresult check_place(CUdeviceptr at, size_t bytes)
{
    if (at % bytes)
        return CUDA_ERROR_INVALID_VALUE;
    sg_place_t place = sg_place_of(at, bytes);
    return place == SG_PLACE_DEVICE || place == SG_PLACE_PINNED ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

static bool is_wait(const CUstreamBatchMemOpParams *p)
{
    return p->operation == CU_STREAM_MEM_OP_WAIT_VALUE_32 || p->operation == CU_STREAM_MEM_OP_WAIT_VALUE_64;
}

static size_t bytes_of(const CUstreamBatchMemOpParams *p)
{
    return p->operation == CU_STREAM_MEM_OP_WAIT_VALUE_64 || p->operation == CU_STREAM_MEM_OP_WRITE_VALUE_64
               ? 8
               : 4;
}

/* Waits and writes lie alike in the union. */
static CUresult check(const CUstreamBatchMemOpParams *p)
{
    switch (p->operation) {
    case CU_STREAM_MEM_OP_WAIT_VALUE_32:
    case CU_STREAM_MEM_OP_WAIT_VALUE_64:
        if (p->waitValue.flags & ~(3u | CU_STREAM_WAIT_VALUE_FLUSH))
            return CUDA_ERROR_INVALID_VALUE;
        return check_place(p->waitValue.address, bytes_of(p));
    case CU_STREAM_MEM_OP_WRITE_VALUE_32:
    case CU_STREAM_MEM_OP_WRITE_VALUE_64:
        if (p->writeValue.flags & ~(unsigned)CU_STREAM_WRITE_VALUE_NO_MEMORY_BARRIER)
            return CUDA_ERROR_INVALID_VALUE;
        return check_place(p->writeValue.address, bytes_of(p));
    case CU_STREAM_MEM_OP_BARRIER:
    case CU_STREAM_MEM_OP_FLUSH_REMOTE_WRITES:
        return CUDA_SUCCESS;
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
}

CUresult sg_memop_check(unsigned count, const CUstreamBatchMemOpParams *params, unsigned flags)
{
    if (!count || count >= SG_MAX_MEMOPS || !params || flags)
        return CUDA_ERROR_INVALID_VALUE;
    for (unsigned i = 0; i < count; i++)
        SG_TRY(check(&params[i]));
    return CUDA_SUCCESS;
}

static sg_op_t *wait_op(const CUstreamBatchMemOpParams *p)
{
    sg_op_t *op = sg_op_new(SG_OP_WAIT, 0);
    if (op)
        op->wait.poll = (sg_poll_t){.address = p->waitValue.address,
                                    .value = bytes_of(p) == 8 ? p->waitValue.value64 : p->waitValue.value,
                                    .bytes = bytes_of(p),
                                    .condition = p->waitValue.flags & 3};
    return op;
}

static sg_op_t *write_op(const CUstreamBatchMemOpParams *p)
{
    uint64_t value = bytes_of(p) == 8 ? p->writeValue.value64 : p->writeValue.value;
    sg_op_t *op = sg_op_new(SG_OP_COPY, bytes_of(p));
    if (!op)
        return NULL;
    memcpy(sg_op_payload(op), &value, bytes_of(p)); /* little-endian: the low half comes first */
    op->copy.dst = sg_host(p->writeValue.address);
    op->copy.src = sg_op_payload(op);
    op->copy.bytes = bytes_of(p);
    sg_copy_split(op);
    return op;
}

/* A barrier is between operations that are ordered anyway. */
CUresult sg_memop_ops(unsigned count, const CUstreamBatchMemOpParams *params, sg_op_t **out)
{
    sg_op_t **link = out;
    *out = NULL;
    for (unsigned i = 0; i < count; i++) {
        const CUstreamBatchMemOpParams *p = &params[i];
        if (p->operation == CU_STREAM_MEM_OP_BARRIER || p->operation == CU_STREAM_MEM_OP_FLUSH_REMOTE_WRITES)
            continue;
        if (!(*link = is_wait(p) ? wait_op(p) : write_op(p)))
            return CUDA_ERROR_OUT_OF_MEMORY;
        link = &(*link)->next;
    }
    return CUDA_SUCCESS;
}

static CUresult batch(CUstream stream, unsigned count, const CUstreamBatchMemOpParams *params, unsigned flags)
{
    sg_op_t *ops;
    SG_TRY(sg_enter_context());
    SG_TRY(sg_memop_check(count, params, flags));
    CUresult result;
    if (sg_capture_memops(stream, count, params, &result))
        return result;
    result = sg_memop_ops(count, params, &ops);
    sg_poll_start();
    for (sg_op_t *op = ops, *next; op; op = next) {
        next = op->next;
        op->next = NULL;
        if (result)
            sg_op_drop(op);
        else
            result = sg_submit(stream, op, false);
    }
    return result;
}

static CUresult write_value(CUstream stream, CUdeviceptr at, uint64_t value, size_t bytes, unsigned flags)
{
    CUstreamBatchMemOpParams p = {
        .writeValue = {
            .operation = CU_STREAM_MEM_OP_WRITE_VALUE_32, .address = at, .value64 = value, .flags = flags}};
    if (bytes == 8)
        p.operation = CU_STREAM_MEM_OP_WRITE_VALUE_64;
    return batch(stream, 1, &p, 0);
}

static CUresult wait_value(CUstream stream, CUdeviceptr at, uint64_t value, size_t bytes, unsigned flags)
{
    CUstreamBatchMemOpParams p = {
        .waitValue = {
            .operation = CU_STREAM_MEM_OP_WAIT_VALUE_32, .address = at, .value64 = value, .flags = flags}};
    if (bytes == 8)
        p.operation = CU_STREAM_MEM_OP_WAIT_VALUE_64;
    return batch(stream, 1, &p, 0);
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

ASYNC_CALL(cuStreamBatchMemOp_v2,
           (CUstream stream, unsigned count, CUstreamBatchMemOpParams *params, unsigned flags),
           batch(stream, count, params, flags))
ASYNC_CALL(cuStreamBatchMemOp,
           (CUstream stream, unsigned count, CUstreamBatchMemOpParams *params, unsigned flags),
           batch(stream, count, params, flags))
