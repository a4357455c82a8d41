/* behaviour: threadIdx, blockIdx, blockDim and gridDim number the threads of a grid of three dimensions, x first.
 * rules: none
 * source: CUDA C++ Programming Guide, Built-in Variables
 */
#include "conformance.h"

CONFORMANCE
{
    enum { BLOCKS = 3 * 2 * 2, THREADS = 7 * 3 * 2 };
    static unsigned got[BLOCKS * THREADS];
    CUdeviceptr out = device_alloc(sizeof got);
    OK(cuLaunchKernel(kernel("places"), 3, 2, 2, 7, 3, 2, 0, NULL, (void *[]){&out}, NULL));
    OK(cuMemcpyDtoH(got, out, sizeof got));
    for (unsigned i = 0; i < BLOCKS * THREADS; i++) {
        const unsigned t = i % THREADS;
        CHECK(got[i] == i / THREADS * 1000000 + t / 21 * 10000 + t / 7 % 3 * 100 + t % 7);
    }
    OK(cuMemFree(out));
}
