/* cub: a prefix sum over the device, whose blocks look back at one another. */
#include "check.h"

#include <cub/device/device_scan.cuh>

int main()
{
    const int n = 5000;
    array<int> in(n), out(n);
    void *room = nullptr;
    size_t bytes = 0;
    for (int i = 0; i < n; i++)
        in[i] = i % 13 - 5;
    in.up();
    OK(cub::DeviceScan::InclusiveSum(room, bytes, in.device, out.device, n));
    OK(cudaMalloc(&room, bytes));
    OK(cub::DeviceScan::InclusiveSum(room, bytes, in.device, out.device, n));
    out.down();
    for (int i = 0, sum = 0; i < n; i++) {
        sum += in[i];
        CHECK(out[i] == sum);
    }
    OK(cudaFree(room));
}
