/* behaviour: each collective puts on every rank what the guide says, of sizes that need one piece and many, in place as well.
 * rules: none
 * source: NCCL user guide, Collective Communication Functions, In-place Operations
 * uses: nccl
 */
#include "ranks.h"

static void of_size(int n)
{
    const int all = ranks * n, sum = ranks * (ranks - 1) / 2;
    CUdeviceptr mine = ints(n, 1000 * rank, 1), out = ints(all, -1, 0), whole = ints(all, 1000 * rank, 1);
    EXPECT_NCCL(ncclSuccess,
                ncclAllReduce(AT(mine, 0), AT(out, 0), (size_t)n, ncclInt32, ncclSum, comm, stream));
    WAIT(stream);
    CHECK(!wrong(out, n, 1000 * sum, ranks));
    EXPECT_NCCL(ncclSuccess, ncclAllGather(AT(mine, 0), AT(out, 0), (size_t)n, ncclInt32, comm, stream));
    WAIT(stream);
    for (int i = 0; i < ranks; i++)
        CHECK(!wrong(out + (size_t)(i * n) * sizeof(int), n, 1000 * i, 1));
    EXPECT_NCCL(ncclSuccess,
                ncclReduceScatter(AT(whole, 0), AT(out, 0), (size_t)n, ncclInt32, ncclSum, comm, stream));
    WAIT(stream);
    CHECK(!wrong(out, n, 1000 * sum + ranks * rank * n, ranks));
    EXPECT_NCCL(ncclSuccess, ncclAlltoAll(AT(whole, 0), AT(out, 0), (size_t)n, ncclInt32, comm, stream));
    WAIT(stream);
    for (int i = 0; i < ranks; i++)
        CHECK(!wrong(out + (size_t)(i * n) * sizeof(int), n, 1000 * i + rank * n, 1));
    for (int root = 0; root < ranks; root += ranks - 1) {
        CUdeviceptr other = ints(all, -1, 0);
        EXPECT_NCCL(ncclSuccess,
                    ncclReduce(AT(mine, 0), AT(other, 0), (size_t)n, ncclInt32, ncclMax, root, comm, stream));
        WAIT(stream);
        CHECK(!wrong(other, n, rank == root ? 1000 * (ranks - 1) : -1, rank == root));
        EXPECT_NCCL(ncclSuccess, ncclBroadcast(rank == root ? AT(mine, 0) : NULL, AT(other, 0), (size_t)n,
                                               ncclInt32, root, comm, stream));
        WAIT(stream);
        CHECK(!wrong(other, n, 1000 * root, 1));
        EXPECT_NCCL(ncclSuccess, ncclGather(AT(mine, 0), rank == root ? AT(other, 0) : NULL, (size_t)n,
                                            ncclInt32, root, comm, stream));
        WAIT(stream);
        for (int i = 0; i < ranks && rank == root; i++)
            CHECK(!wrong(other + (size_t)(i * n) * sizeof(int), n, 1000 * i, 1));
        EXPECT_NCCL(ncclSuccess, ncclScatter(rank == root ? AT(whole, 0) : NULL, AT(other, 0), (size_t)n,
                                             ncclInt32, root, comm, stream));
        WAIT(stream);
        CHECK(!wrong(other, n, 1000 * root + rank * n, 1));
        OK(cuMemFree(other));
    }
    /* In place. */
    EXPECT_NCCL(ncclSuccess, ncclReduceScatter(AT(whole, 0), AT(whole, rank * n), (size_t)n, ncclInt32,
                                               ncclSum, comm, stream));
    EXPECT_NCCL(ncclSuccess,
                ncclAllGather(AT(whole, rank * n), AT(whole, 0), (size_t)n, ncclInt32, comm, stream));
    EXPECT_NCCL(ncclSuccess,
                ncclAllReduce(AT(mine, 0), AT(mine, 0), (size_t)n, ncclInt32, ncclSum, comm, stream));
    WAIT(stream);
    CHECK(!wrong(whole, all, 1000 * sum, ranks));
    CHECK(!wrong(mine, n, 1000 * sum, ranks));
    OK(cuMemFree(mine));
    OK(cuMemFree(out));
    OK(cuMemFree(whole));
}

RANKED(3)
{
    of_size(1);
    of_size(1000);
    of_size(200001);
}
