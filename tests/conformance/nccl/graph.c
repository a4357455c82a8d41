/* behaviour: collectives can be captured, also more of them than one kernel's arguments hold, and are done anew with each launch of the graph.
 * rules: none
 * source: NCCL user guide, Using NCCL with CUDA Graphs
 * uses: nccl
 */
#include "ranks.h"

RANKED(2)
{
    enum { N = 100, MANY = 90 };
    CUdeviceptr p = ints(N, 1 + rank, 0), q = ints(N, 0, 0), r = ints(N, rank, 0);
    EXPECT_NCCL(ncclSuccess, ncclAllReduce(AT(q, 0), AT(q, 0), N, ncclInt32, ncclSum, comm,
                                           stream)); /* and not captured */
    WAIT(stream);
    CUgraph graph;
    CUgraphExec exec;
    OK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    EXPECT_NCCL(ncclSuccess, ncclAllReduce(AT(p, 0), AT(p, 0), N, ncclInt32, ncclSum, comm, stream));
    EXPECT_NCCL(ncclSuccess, ncclGroupStart());
    for (int i = 0; i < MANY; i++) {
        EXPECT_NCCL(ncclSuccess, ncclSend(AT(p, i), 1, ncclInt32, 1 - rank, comm, stream));
        EXPECT_NCCL(ncclSuccess, ncclRecv(AT(q, i), 1, ncclInt32, 1 - rank, comm, stream));
    }
    EXPECT_NCCL(ncclSuccess, ncclGroupEnd());
    /* A group that another stream takes part in: it goes on behind it. */
    CUstream other = new_stream(CU_STREAM_NON_BLOCKING);
    CUevent e = new_event(CU_EVENT_DISABLE_TIMING);
    OK(cuEventRecord(e, stream));
    OK(cuStreamWaitEvent(other, e, 0));
    EXPECT_NCCL(ncclSuccess, ncclGroupStart());
    EXPECT_NCCL(ncclSuccess, ncclAllReduce(AT(r, 0), AT(r, 0), N, ncclInt32, ncclMax, comm, stream));
    EXPECT_NCCL(ncclSuccess, ncclAllReduce(AT(r, 0), AT(r, 0), N, ncclInt32, ncclSum, comm, other));
    EXPECT_NCCL(ncclSuccess, ncclGroupEnd());
    add(other, r, 1, N);
    OK(cuEventRecord(e, other));
    OK(cuStreamWaitEvent(stream, e, 0));
    OK(cuStreamEndCapture(stream, &graph));
    OK(cuGraphInstantiateWithFlags(&exec, graph, 0));
    for (int i = 0; i < 3; i++)
        OK(cuGraphLaunch(exec, stream));
    WAIT(stream);
    CHECK(!wrong(p, N, 12, 0));
    CHECK(!wrong(q, MANY, 12, 0));
    CHECK(!wrong(r, N, 15, 0)); /* (1 * 2 + 1, 3 * 2 + 1, 7 * 2 + 1) */
    EXPECT_NCCL(ncclSuccess, ncclAllReduce(AT(p, 0), AT(p, 0), N, ncclInt32, ncclSum, comm, stream));
    WAIT(stream);
    CHECK(!wrong(p, N, 24, 0));
    OK(cuGraphExecDestroy(exec));
    OK(cuGraphDestroy(graph));
}
