/* behaviour: the four shuffles read the lane that they name within groups of `width` lanes; a lane that is out of the group
 * gives the caller's own value.
 * rules: none
 * source: CUDA C++ Programming Guide, Warp Shuffle Functions
 */
#include "conformance.h"

static int source(int kind, int lane, int width)
{
    const int group = lane / width * width;
    switch (kind) {
    case 0:
        return group + 3 % width;
    case 1:
        return lane - 2 >= group ? lane - 2 : lane;
    case 2:
        return lane + 5 < group + width ? lane + 5 : lane;
    default:
        return (lane ^ 9) < group + width ? lane ^ 9 : lane;
    }
}

CONFORMANCE
{
    int got[4 * 32];
    CUdeviceptr out = device_alloc(sizeof got);
    for (int width = 2; width <= 32; width *= 2) {
        OK(cuLaunchKernel(kernel("shuffles"), 1, 1, 1, 32, 1, 1, 0, NULL, (void *[]){&out, &width}, NULL));
        OK(cuMemcpyDtoH(got, out, sizeof got));
        for (int i = 0; i < 4 * 32; i++)
            CHECK(got[i] == 100 + source(i / 32, i % 32, width));
    }
    OK(cuMemFree(out));
}
