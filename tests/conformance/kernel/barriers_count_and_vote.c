/* behaviour: __syncthreads_count, _and and _or tell every thread about the predicates of all threads of the block.
 * rules: none
 * source: CUDA C++ Programming Guide, Synchronization Functions
 */
#include "conformance.h"

CONFORMANCE
{
    int got[3];
    CUdeviceptr out = device_alloc(sizeof got);
    for (int limit = 0; limit <= 100; limit += 50) {
        OK(cuLaunchKernel(kernel("block_votes"), 1, 1, 1, 100, 1, 1, 0, NULL, (void *[]){&out, &limit},
                          NULL));
        OK(cuMemcpyDtoH(got, out, sizeof got));
        CHECK(got[0] == 34);
        CHECK(got[1] == (limit == 0));
        CHECK(got[2] == (limit < 100));
    }
    OK(cuMemFree(out));
}
