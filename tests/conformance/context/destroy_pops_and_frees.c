/* behaviour: cuCtxDestroy takes the context off the calling thread's stack and frees what cuMemAlloc gave out in it;
 * memory of other contexts stays.
 * rules: none
 * source: CUDA driver API, cuCtxDestroy
 */
#include "conformance.h"

CONFORMANCE
{
    CUcontext other, current;
    CUdeviceptr mine = device_alloc(1 << 20);
    fill(NULL, mine, 5, 1);
    OK(cuCtxSynchronize());
    size_t total, before = 0, within = 0, after = 0;
    OK(cuMemGetInfo(&before, &total));
    OK(cuCtxCreate(&other, NULL, 0, device));
    OK(cuMemGetInfo(&within, &total));
    CUdeviceptr theirs = device_alloc(64 << 20);
    OK(cuMemGetInfo(&after, &total));
    CHECK(after + (64 << 20) <= within);
    OK(cuMemsetD8(theirs, 1, 64 << 20));
    OK(cuCtxDestroy(other));
    OK(cuCtxGetCurrent(&current));
    CHECK(current == context);
    OK(cuMemGetInfo(&after, &total));
    CHECK(after + (32 << 20) >= before); /* but for what the driver keeps of a context */
    CHECK(read_int(mine) == 5);
}
