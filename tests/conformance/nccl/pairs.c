/* behaviour: sends and receives of a group go on side by side, a rank's to itself, too; of those between two ranks the first sent is the first
 * received; there may be a hundred, of any size.
 * rules: none
 * source: NCCL user guide, Point-to-point communication, Group Calls
 * uses: nccl
 */
#include "ranks.h"

RANKED(3)
{
    enum { N = 100000, MANY = 100 };
    CUdeviceptr mine = ints(N, 1000 * rank, 1), from = ints(ranks * N, -1, 0),
                out = ints(MANY * 10, 7 + rank, 1), in = ints(MANY * 10, -1, 0);
    const int next = (rank + 1) % ranks, previous = (rank + ranks - 1) % ranks;
    EXPECT_NCCL(ncclSuccess, ncclGroupStart());
    for (int i = 0; i < ranks; i++) {
        EXPECT_NCCL(ncclSuccess, ncclSend(AT(mine, 0), N, ncclInt32, i, comm, stream));
        EXPECT_NCCL(ncclSuccess, ncclRecv(AT(from, i * N), N, ncclInt32, i, comm, stream));
    }
    EXPECT_NCCL(ncclSuccess, ncclGroupEnd());
    WAIT(stream);
    for (int i = 0; i < ranks; i++)
        CHECK(!wrong(from + (size_t)(i * N) * sizeof(int), N, 1000 * i, 1));
    EXPECT_NCCL(ncclSuccess, ncclGroupStart());
    for (int i = 0; i < MANY; i++) {
        EXPECT_NCCL(ncclSuccess, ncclSend(AT(out, 10 * i), 10, ncclInt32, next, comm, stream));
        EXPECT_NCCL(ncclSuccess, ncclRecv(AT(in, 10 * i), 10, ncclInt32, previous, comm, stream));
    }
    EXPECT_NCCL(ncclSuccess, ncclGroupEnd());
    WAIT(stream);
    CHECK(!wrong(in, 10 * MANY, 7 + previous, 1));
    /* Alone: whoever sends first, the other receives first. */
    if (rank == 0)
        EXPECT_NCCL(ncclSuccess, ncclSend(AT(mine, 0), N, ncclInt32, 1, comm, stream));
    if (rank == 1)
        EXPECT_NCCL(ncclSuccess, ncclRecv(AT(from, 0), N, ncclInt32, 0, comm, stream));
    WAIT(stream);
    CHECK(rank != 1 || !wrong(from, N, 0, 1));
}
