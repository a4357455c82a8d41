/* literals.cu: kernels of a module that has constants and literals, and nothing that a kernel can write. */
#include <stdio.h>

static __constant__ float shift = 1;

extern "C" __global__ void tells(float *x)
{
    __shared__ float part[32];
    part[threadIdx.x] = x[threadIdx.x] + shift;
    __syncthreads();
    x[threadIdx.x] = part[31 - threadIdx.x];
    if (x[threadIdx.x] != x[threadIdx.x])
        printf("no number at %u\n", threadIdx.x);
}
