/* behaviour: memory that NCCL gives out, and memory that is registered, is used like any other.
 * rules: none
 * source: NCCL user guide, ncclMemAlloc, ncclCommRegister, ncclCommWindowRegister, User Buffer Registration
 * uses: nccl
 */
#include "ranks.h"

RANKED(2)
{
    enum { N = 5000 };
    void *given = NULL, *handle = NULL;
    ncclWindow_t window = NULL;
    OK_NCCL(ncclMemAlloc(&given, N * sizeof(int)));
    CUdeviceptr p = (CUdeviceptr)(uintptr_t)given, plain = ints(N, 1, 1);
    EXPECT_NCCL(ncclSuccess, ncclCommRegister(comm, given, N * sizeof(int), &handle));
    EXPECT_NCCL(ncclSuccess,
                ncclCommWindowRegister(comm, given, N * sizeof(int), &window, NCCL_WIN_COLL_SYMMETRIC));
    fill(stream, p, 4, N);
    EXPECT_NCCL(ncclSuccess, ncclAllReduce(given, given, N, ncclInt32, ncclProd, comm, stream));
    EXPECT_NCCL(ncclSuccess, ncclAllReduce(AT(plain, 0), given, N / 2, ncclInt32, ncclSum, comm, stream));
    WAIT(stream);
    CHECK(!wrong(p, N / 2, 2, 2));
    CHECK(!wrong(p + N / 2 * sizeof(int), N / 2, 16, 0));
    EXPECT_NCCL(ncclSuccess, ncclCommWindowDeregister(comm, window));
    EXPECT_NCCL(ncclSuccess, ncclCommDeregister(comm, handle));
    EXPECT_NCCL(ncclSuccess, ncclMemFree(given));
}
