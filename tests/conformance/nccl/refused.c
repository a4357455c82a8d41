/* behaviour: arguments that cannot be meant are refused, and a call of no elements does nothing; the communicator stays good. A group with a call
 * that was refused does nothing and says so. Two ranks on one device are refused.
 * rules: none
 * source: NCCL user guide, Types (ncclResult_t), Group Calls; nccl.h
 * uses: nccl
 */
#include "ranks.h"

RANKED(2)
{
    CUdeviceptr p = ints(10, 1, 0);
    int version = 0;
    EXPECT_NCCL(ncclSuccess, ncclGetVersion(&version));
    CHECK(version >= 20000);
    EXPECT_NCCL(ncclInvalidArgument, ncclGetVersion(NULL));
    EXPECT_NCCL(ncclInvalidArgument,
                ncclAllReduce(AT(p, 0), AT(p, 0), 10, ncclNumTypes, ncclSum, comm, stream));
    EXPECT_NCCL(ncclInvalidArgument,
                ncclAllReduce(AT(p, 0), AT(p, 0), 10, ncclInt32, (ncclRedOp_t)1000, comm, stream));
    EXPECT_NCCL(ncclInvalidArgument, ncclBroadcast(AT(p, 0), AT(p, 0), 10, ncclInt32, ranks, comm, stream));
    EXPECT_NCCL(ncclInvalidArgument, ncclAllReduce(AT(p, 0), AT(p, 0), 10, ncclInt32, ncclSum, NULL, stream));
    EXPECT_NCCL(ncclSuccess, ncclAllReduce(AT(p, 0), AT(p, 0), 0, ncclInt32, ncclSum, comm, stream));
    EXPECT_NCCL(ncclInvalidUsage, ncclGroupEnd());
    EXPECT_NCCL(ncclSuccess, ncclGroupStart());
    EXPECT_NCCL(ncclSuccess, ncclAllReduce(AT(p, 0), AT(p, 0), 10, ncclInt32, ncclSum, comm, stream));
    EXPECT_NCCL(ncclInvalidArgument, ncclBroadcast(AT(p, 0), AT(p, 0), 10, ncclInt32, -1, comm, stream));
    EXPECT_NCCL(ncclInvalidArgument, ncclGroupEnd());
    WAIT(stream);
    CHECK(!wrong(p, 10, 1, 0));
    EXPECT_NCCL(ncclSuccess, ncclAllReduce(AT(p, 0), AT(p, 0), 10, ncclInt32, ncclSum, comm, stream));
    WAIT(stream);
    CHECK(!wrong(p, 10, 2, 0));
    if (!rank)
        EXPECT_NCCL(ncclInvalidUsage, ncclCommInitAll((ncclComm_t[]){NULL, NULL}, 2, (int[]){0, 0}));
    for (int i = 0; i < ncclNumResults; i++)
        CHECK(strlen(ncclGetErrorString((ncclResult_t)i)) > 5);
}
