/* behaviour: a communicator is split by color, ranks in it by key and then by rank; who has no color gets none; a communicator is shrunk by ranks that
 * do not take part any more; both work as any other.
 * rules: none
 * source: NCCL user guide, ncclCommSplit, ncclCommShrink
 * uses: nccl
 */
#include "ranks.h"

RANKED(4)
{
    ncclComm_t part_of = NULL, rest = NULL;
    int value = -1;
    CUdeviceptr p = ints(10, rank, 0);
    /* Ranks 0, 2, 3: in the order 3, 2, 0. */
    OK_NCCL(ncclCommSplit(comm, rank == 1 ? NCCL_SPLIT_NOCOLOR : 5, -rank, &part_of, NULL));
    CHECK((part_of == NULL) == (rank == 1));
    if (part_of) {
        EXPECT_NCCL(ncclSuccess, ncclCommCount(part_of, &value));
        CHECK(value == 3);
        EXPECT_NCCL(ncclSuccess, ncclCommUserRank(part_of, &value));
        CHECK(value == (rank == 3 ? 0 : rank == 2 ? 1 : 2));
        EXPECT_NCCL(ncclSuccess, ncclBroadcast(AT(p, 0), AT(p, 0), 10, ncclInt32, 0, part_of, stream));
        WAIT(stream);
        CHECK(!wrong(p, 10, 3, 0));
        EXPECT_NCCL(ncclSuccess, ncclCommDestroy(part_of));
    }
    /* Two at once, of the same parent. */
    OK_NCCL(ncclCommSplit(comm, rank % 2, 0, &part_of, NULL));
    OK(cuMemFree(p));
    p = ints(10, rank, 0);
    EXPECT_NCCL(ncclSuccess, ncclAllReduce(AT(p, 0), AT(p, 0), 10, ncclInt32, ncclSum, part_of, stream));
    EXPECT_NCCL(ncclSuccess, ncclAllReduce(AT(p, 0), AT(p, 0), 10, ncclInt32, ncclMax, comm, stream));
    WAIT(stream);
    CHECK(!wrong(p, 10, 4, 0));
    EXPECT_NCCL(ncclSuccess, ncclCommDestroy(part_of));
    if (rank != 2) {
        OK_NCCL(ncclCommShrink(comm, (int[]){2}, 1, &rest, NULL, NCCL_SHRINK_DEFAULT));
        EXPECT_NCCL(ncclSuccess, ncclCommUserRank(rest, &value));
        CHECK(value == (rank == 3 ? 2 : rank));
        EXPECT_NCCL(ncclSuccess, ncclAllReduce(AT(p, 0), AT(p, 0), 10, ncclInt32, ncclSum, rest, stream));
        WAIT(stream);
        CHECK(!wrong(p, 10, 12, 0));
        EXPECT_NCCL(ncclSuccess, ncclCommDestroy(rest));
    }
}
