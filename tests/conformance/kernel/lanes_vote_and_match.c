/* behaviour: votes, matches and reductions of a warp give every lane the same answer about all of them.
 * rules: none
 * source: CUDA C++ Programming Guide, Warp Vote, Warp Match and Warp Reduce Functions
 */
#include "conformance.h"

CONFORMANCE
{
    unsigned got[5 * 32], fives = 0;
    CUdeviceptr out = device_alloc(sizeof got);
    for (int i = 0; i < 32; i += 5)
        fives |= 1u << i;
    for (int limit = 0; limit <= 32; limit += 16) {
        OK(cuLaunchKernel(kernel("votes"), 1, 1, 1, 32, 1, 1, 0, NULL, (void *[]){&out, &limit}, NULL));
        OK(cuMemcpyDtoH(got, out, sizeof got));
        for (unsigned lane = 0; lane < 32; lane++) {
            const unsigned third = lane / 3 * 3;
            CHECK(got[lane] == fives);
            CHECK(got[32 + lane] == (limit < 32 ? 2u : 0u) + (limit == 0 ? 1u : 0u));
            CHECK(got[64 + lane] == (third == 30 ? 3u << 30 : 7u << third));
            CHECK(got[96 + lane] == 0); /* all lanes, and 1 */
            CHECK(got[128 + lane] == 31 * 32 / 2);
        }
    }
    OK(cuMemFree(out));
}
