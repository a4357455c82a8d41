/* collectives.c: the calls that move data: their arguments are checked, and become a piece of work. */
#include "softgpu/nccl/internal.h"

/* ---- reductions of a communicator's own ---- */

ncclResult_t ncclRedOpCreatePreMulSum(ncclRedOp_t *op, void *scalar, ncclDataType_t type,
                                      ncclScalarResidence_t residence, ncclComm_t comm)
{
    if (!nccl_is_comm(comm) || !op || !scalar || !nccl_type_bytes(type) || !nccl_can_reduce(type))
        return nccl_fail(ncclInvalidArgument, "ncclRedOpCreatePreMulSum: type %d", (int)type);
    int i = 0;
    while (i < NCCL_OPS_OF_ITS_OWN && comm->op[i].used)
        i++;
    if (i == NCCL_OPS_OF_ITS_OWN)
        return nccl_fail(ncclInternalError, "more than %d reductions of its own", NCCL_OPS_OF_ITS_OWN);
    nccl_reduction_t *r = &comm->op[i].reduction;
    *r = (nccl_reduction_t){.type = type, .op = ncclSum, .scaled = true, .device_scale = scalar};
    if (residence == ncclScalarHostImmediate) {
        r->scale = nccl_factor(r);
        r->device_scale = NULL;
    }
    comm->op[i].used = true;
    *op = (ncclRedOp_t)(ncclNumOps + i);
    return ncclSuccess;
}

ncclResult_t ncclRedOpDestroy(ncclRedOp_t op, ncclComm_t comm)
{
    const int i = (int)op - ncclNumOps;
    if (!nccl_is_comm(comm) || i < 0 || i >= NCCL_OPS_OF_ITS_OWN || !comm->op[i].used)
        return nccl_fail(ncclInvalidArgument, "reduction %d", (int)op);
    comm->op[i].used = false;
    return ncclSuccess;
}

/* ---- the calls ---- */

static ncclResult_t find_reduction(ncclComm_t comm, ncclRedOp_t op, nccl_work_t *w)
{
    const int own = (int)op - ncclNumOps;
    if (!nccl_can_reduce(w->reduction.type))
        return nccl_fail(ncclInvalidArgument, "8-bit floats are not reduced here");
    if ((int)op >= 0 && own < 0) {
        w->reduction.op = op;
        return ncclSuccess;
    }
    if (own < 0 || own >= NCCL_OPS_OF_ITS_OWN || !comm->op[own].used ||
        comm->op[own].reduction.type != w->reduction.type)
        return nccl_fail(ncclInvalidArgument, "reduction %d", (int)op);
    w->reduction = comm->op[own].reduction;
    return ncclSuccess;
}

static ncclResult_t check(ncclComm_t comm, const nccl_work_t *w, const char *call)
{
    const bool to_root = w->what == NCCL_REDUCE || w->what == NCCL_GATHER,
               from_root = w->what == NCCL_BROADCAST || w->what == NCCL_SCATTER;
    if (w->peer < 0 || w->peer >= comm->ranks)
        return nccl_fail(ncclInvalidArgument, "%s: rank %d of %d", call, w->peer, comm->ranks);
    const bool root = comm->rank == w->peer;
    if ((!w->recv && w->what != NCCL_SEND && !(to_root && !root)) ||
        (!w->send && w->what != NCCL_RECV && !(from_root && !root)))
        return nccl_fail(ncclInvalidArgument, "%s: no memory", call);
    if (comm->finalized || atomic_load(&comm->place->abort))
        return nccl_fail(ncclInvalidUsage, "%s: the communicator is at its end", call);
    return ncclSuccess;
}

static ncclResult_t call(const char *name, nccl_what_t what, const void *send, void *recv, size_t count,
                         ncclDataType_t type, int op, int peer, ncclComm_t comm, cudaStream_t stream)
{
    nccl_work_t w = {
        .what = what, .send = send, .recv = recv, .count = count, .peer = peer, .reduction = {.type = type}};
    if (!nccl_is_comm(comm) || !nccl_type_bytes(type))
        return nccl_reject(
            nccl_fail(ncclInvalidArgument, "%s: no communicator, or type %d", name, (int)type));
    if (!count)
        return ncclSuccess;
    ncclResult_t result = op < 0 ? ncclSuccess : find_reduction(comm, (ncclRedOp_t)op, &w);
    if (!result)
        result = check(comm, &w, name);
    if (result)
        return nccl_reject(result);
    ncclGroupStart();
    result = nccl_enqueue(comm, &w, stream);
    const ncclResult_t ended = ncclGroupEnd();
    return result ? result : ended;
}

#define NONE (-1)

ncclResult_t ncclAllReduce(const void *send, void *recv, size_t count, ncclDataType_t type, ncclRedOp_t op,
                           ncclComm_t comm, cudaStream_t stream)
{
    return call(__func__, NCCL_ALL_REDUCE, send, recv, count, type, (int)op, 0, comm, stream);
}

ncclResult_t ncclReduce(const void *send, void *recv, size_t count, ncclDataType_t type, ncclRedOp_t op,
                        int root, ncclComm_t comm, cudaStream_t stream)
{
    return call(__func__, NCCL_REDUCE, send, recv, count, type, (int)op, root, comm, stream);
}

ncclResult_t ncclReduceScatter(const void *send, void *recv, size_t count, ncclDataType_t type,
                               ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream)
{
    return call(__func__, NCCL_REDUCE_SCATTER, send, recv, count, type, (int)op, 0, comm, stream);
}

ncclResult_t ncclBroadcast(const void *send, void *recv, size_t count, ncclDataType_t type, int root,
                           ncclComm_t comm, cudaStream_t stream)
{
    return call(__func__, NCCL_BROADCAST, send, recv, count, type, NONE, root, comm, stream);
}

ncclResult_t ncclBcast(void *buffer, size_t count, ncclDataType_t type, int root, ncclComm_t comm,
                       cudaStream_t stream)
{
    return ncclBroadcast(buffer, buffer, count, type, root, comm, stream);
}

ncclResult_t ncclAllGather(const void *send, void *recv, size_t count, ncclDataType_t type, ncclComm_t comm,
                           cudaStream_t stream)
{
    return call(__func__, NCCL_ALL_GATHER, send, recv, count, type, NONE, 0, comm, stream);
}

ncclResult_t ncclAlltoAll(const void *send, void *recv, size_t count, ncclDataType_t type, ncclComm_t comm,
                          cudaStream_t stream)
{
    return call(__func__, NCCL_ALL_TO_ALL, send, recv, count, type, NONE, 0, comm, stream);
}

ncclResult_t ncclGather(const void *send, void *recv, size_t count, ncclDataType_t type, int root,
                        ncclComm_t comm, cudaStream_t stream)
{
    return call(__func__, NCCL_GATHER, send, recv, count, type, NONE, root, comm, stream);
}

ncclResult_t ncclScatter(const void *send, void *recv, size_t count, ncclDataType_t type, int root,
                         ncclComm_t comm, cudaStream_t stream)
{
    return call(__func__, NCCL_SCATTER, send, recv, count, type, NONE, root, comm, stream);
}

ncclResult_t ncclSend(const void *send, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream)
{
    return call(__func__, NCCL_SEND, send, NULL, count, type, NONE, peer, comm, stream);
}

ncclResult_t ncclRecv(void *recv, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream)
{
    return call(__func__, NCCL_RECV, NULL, recv, count, type, NONE, peer, comm, stream);
}
