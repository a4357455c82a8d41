/* __launch_bounds__: the limit shows, and a launch beyond it is refused; occupancy can be asked. */
#include "check.h"

__global__ void __launch_bounds__(96, 2) bounded(int *out)
{
    __shared__ int x[100];
    x[threadIdx.x] = (int)threadIdx.x;
    __syncthreads();
    out[threadIdx.x] = x[95 - threadIdx.x];
}

int main()
{
    array<int> out(96);
    cudaFuncAttributes attributes;
    int blocks = 0;
    OK(cudaFuncGetAttributes(&attributes, bounded));
    CHECK(attributes.maxThreadsPerBlock == 96 && attributes.sharedSizeBytes == 400);
    OK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, bounded, 96, 0));
    CHECK(blocks > 0);
    bounded<<<1, 128>>>(out.device);
    CHECK(cudaGetLastError() != cudaSuccess);
    bounded<<<1, 96>>>(out.device);
    out.down();
    for (int i = 0; i < 96; i++)
        CHECK(out[i] == 95 - i);
}
