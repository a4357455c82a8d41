/* behaviour: one thread has all ranks of a communicator, made by one call or in a group; calls for all of them go into a group.
 * rules: none
 * source: NCCL user guide, ncclCommInitAll, Managing Multiple GPUs from one thread
 * uses: nccl
 */
#include "ranks.h"

CONFORMANCE
{
    enum { RANKS = 3, N = 70000 };
    ncclComm_t all[RANKS];
    CUcontext contexts[RANKS];
    CUstream streams[RANKS];
    CUdeviceptr memory[RANKS];
    ncclUniqueId id;
    int count = 0, value = -1;
    OK(cuDeviceGetCount(&count));
    if (count < RANKS)
        SKIP("not so many devices");
    OK_NCCL(ncclCommInitAll(all, RANKS, NULL));
    for (int twice = 0; twice < 2; twice++) {
        EXPECT_NCCL(ncclSuccess, ncclGroupStart());
        for (int i = 0; i < RANKS; i++) {
            OK(cuDevicePrimaryCtxRetain(&contexts[i], i));
            OK(cuCtxSetCurrent(contexts[i]));
            streams[i] = new_stream(CU_STREAM_NON_BLOCKING);
            memory[i] = ints(N, i, 1);
            EXPECT_NCCL(ncclSuccess, ncclAllReduce(AT(memory[i], 0), AT(memory[i], 0), N, ncclInt32, ncclSum,
                                                   all[i], streams[i]));
        }
        EXPECT_NCCL(ncclSuccess, ncclGroupEnd());
        for (int i = 0; i < RANKS; i++) {
            EXPECT_NCCL(ncclSuccess, ncclCommUserRank(all[i], &value));
            CHECK(value == i);
            EXPECT_NCCL(ncclSuccess, ncclCommCuDevice(all[i], &value));
            CHECK(value == i);
            EXPECT_NCCL(ncclSuccess, ncclCommCount(all[i], &value));
            CHECK(value == RANKS);
            OK(cuCtxSetCurrent(contexts[i]));
            WAIT(streams[i]);
            CHECK(!wrong(memory[i], N, 3, RANKS));
            EXPECT_NCCL(ncclSuccess, ncclCommDestroy(all[i]));
        }
        if (twice)
            break;
        OK_NCCL(ncclGetUniqueId(&id));
        EXPECT_NCCL(ncclSuccess, ncclGroupStart());
        for (int i = 0; i < RANKS; i++) {
            OK(cuCtxSetCurrent(contexts[i]));
            EXPECT_NCCL(ncclSuccess, ncclCommInitRank(&all[i], RANKS, id, i));
        }
        OK_NCCL(ncclGroupEnd());
    }
}
