/* behaviour: a collective is work of its stream: it begins when what is before it there has ended, what follows waits for it, and the call waits for
 * neither. Those of one communicator in several streams run one after another.
 * rules: none
 * source: NCCL user guide, CUDA Stream Semantics
 * uses: nccl
 */
#include "ranks.h"

RANKED(2)
{
    enum { N = 1000 };
    CUstream other = new_stream(CU_STREAM_NON_BLOCKING);
    CUdeviceptr p = ints(N, 1, 0), q = ints(N, -1, 0);
    hold_t h = hold(stream);
    fill(stream, p, 5 + rank, N);
    EXPECT_NCCL(ncclSuccess, ncclAllReduce(AT(p, 0), AT(q, 0), N, ncclInt32, ncclSum, comm, stream));
    add(stream, q, 100, N);
    EXPECT(CUDA_ERROR_NOT_READY, cuStreamQuery(stream));
    let_go(h);
    WAIT(stream);
    CHECK(!wrong(q, N, 111, 0));
    /* 1, doubled and squared in turn: in another order it is another number. */
    fill(stream, p, 1, N);
    WAIT(stream);
    for (int i = 0; i < 8; i++)
        EXPECT_NCCL(ncclSuccess, ncclAllReduce(AT(p, 0), AT(p, 0), N, ncclInt32, i % 2 ? ncclProd : ncclSum,
                                               comm, i % 2 ? other : stream));
    WAIT(stream);
    WAIT(other);
    CHECK(!wrong(p, N, 1 << 30, 0));
    /* A group over two streams: both go on behind it. */
    CUevent e = new_event(CU_EVENT_DISABLE_TIMING);
    fill(stream, p, 1 + rank, N);
    fill(other, q, 10 + rank, N);
    EXPECT_NCCL(ncclSuccess, ncclGroupStart());
    EXPECT_NCCL(ncclSuccess, ncclAllReduce(AT(p, 0), AT(p, 0), N, ncclInt32, ncclSum, comm, stream));
    EXPECT_NCCL(ncclSuccess, ncclAllReduce(AT(q, 0), AT(q, 0), N, ncclInt32, ncclSum, comm, other));
    EXPECT_NCCL(ncclSuccess, ncclGroupEnd());
    add(stream, q, 1, N);
    OK(cuEventRecord(e, stream));
    OK(cuStreamWaitEvent(other, e, 0));
    add(other, p, 1, N);
    WAIT(other);
    CHECK(!wrong(p, N, 4, 0));
    CHECK(!wrong(q, N, 22, 0));
}
