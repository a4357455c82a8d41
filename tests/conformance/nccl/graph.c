/* behaviour: collectives can be captured, also more of them than one kernel's arguments hold, and are done anew with each launch of the graph.
 * rules: none
 * source: NCCL user guide, Using NCCL with CUDA Graphs
 * uses: nccl
 */
#include "ranks.h"

RANKED(2)
{
    enum { N = 100, MANY = 90 };
    CUdeviceptr p = ints(N, 1 + rank, 0), q = ints(N, 0, 0);
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
    OK(cuStreamEndCapture(stream, &graph));
    OK(cuGraphInstantiateWithFlags(&exec, graph, 0));
    for (int i = 0; i < 3; i++)
        OK(cuGraphLaunch(exec, stream));
    WAIT(stream);
    CHECK(!wrong(p, N, 12, 0));
    CHECK(!wrong(q, MANY, 12, 0));
    EXPECT_NCCL(ncclSuccess, ncclAllReduce(AT(p, 0), AT(p, 0), N, ncclInt32, ncclSum, comm, stream));
    WAIT(stream);
    CHECK(!wrong(p, N, 24, 0));
    OK(cuGraphExecDestroy(exec));
    OK(cuGraphDestroy(graph));
}
