/* cub: sums and prefix sums of a block. */
#include "check.h"

#include <cub/cub.cuh>

__global__ void run(const int *in, int *sums, int *prefix)
{
    using reduce = cub::BlockReduce<int, 64>;
    using scan = cub::BlockScan<int, 64>;
    __shared__ union {
        typename reduce::TempStorage reduce;
        typename scan::TempStorage scan;
    } room;
    const int i = blockIdx.x * 64 + threadIdx.x;
    const int sum = reduce(room.reduce).Sum(in[i]);
    if (threadIdx.x == 0)
        sums[blockIdx.x] = sum;
    __syncthreads();
    int before;
    scan(room.scan).ExclusiveSum(in[i], before);
    prefix[i] = before;
}

int main()
{
    array<int> in(128), sums(2), prefix(128);
    for (int i = 0; i < 128; i++)
        in[i] = i * i % 17;
    in.up();
    run<<<2, 64>>>(in.device, sums.device, prefix.device);
    sums.down(), prefix.down();
    for (int b = 0; b < 2; b++) {
        int sum = 0;
        for (int i = 0; i < 64; i++) {
            CHECK(prefix[b * 64 + i] == sum);
            sum += in[b * 64 + i];
        }
        CHECK(sums[b] == sum);
    }
}
