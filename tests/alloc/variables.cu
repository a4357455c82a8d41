/* variables.cu: a module that takes device memory by being loaded: 8 MiB. */
#ifndef BLOCK_SIZE_INDEPENDENT
#define BLOCK_SIZE_INDEPENDENT(...)
#endif

__device__ unsigned ballast[2 << 20];

extern "C" __global__ void weigh(unsigned *out)
{
    if (!threadIdx.x && !blockIdx.x)
        *out = ballast[1] + ballast[(2 << 20) - 1];
}
BLOCK_SIZE_INDEPENDENT(weigh);
