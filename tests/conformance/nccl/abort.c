/* behaviour: when a rank has died, the others end a collective that waits for it by aborting the communicator; the context stays good.
 * rules: none
 * source: NCCL user guide, ncclCommAbort, Fault Tolerance
 * uses: nccl
 */
#include "ranks.h"

RANKED(3)
{
    CUdeviceptr p = ints(10, rank, 0);
    EXPECT_NCCL(ncclSuccess, ncclAllReduce(AT(p, 0), AT(p, 0), 10, ncclInt32, ncclSum, comm, stream));
    WAIT(stream);
    if (rank == 2) {
        shared->dies[rank] = 1;
        raise(SIGKILL);
    }
    hold_t h = hold(stream); /* so that it begins when nobody can help it any more */
    EXPECT_NCCL(ncclSuccess, ncclAllReduce(AT(p, 0), AT(p, 0), 10, ncclInt32, ncclSum, comm, stream));
    ncclComm_t mine = comm;
    comm = NULL;
    let_go(h);
    EXPECT_NCCL(ncclSuccess, ncclCommAbort(mine));
    WAIT(stream);
    fill(stream, p, 3, 10);
    WAIT(stream);
    CHECK(!wrong(p, 10, 3, 0));
}
