/* reload.cu: the kernels of reload.c. */
#include <cuda_runtime.h>

#ifndef BLOCK_SIZE_INDEPENDENT
#define BLOCK_SIZE_INDEPENDENT(...) static_assert(true, "")
#endif

enum { SLICE = 4096 };

#define EACH(i, n)                                                                                                     \
    for (size_t i = (size_t)blockIdx.x * SLICE + threadIdx.x; i < n && i < ((size_t)blockIdx.x + 1) * SLICE;           \
         i += blockDim.x)

extern "C" __global__ void layer(float *y, const float *x, size_t n)
{
    EACH(i, n) y[i] = 0.9f * x[i] + 0.5f / (1 + x[i] * x[i]);
}
BLOCK_SIZE_INDEPENDENT(layer);

extern "C" __global__ void gradient(float *d, const float *x, size_t n)
{
    EACH(i, n) d[i] = 0.5f * d[i] + x[i];
}
BLOCK_SIZE_INDEPENDENT(gradient);

/* By its name one that exchanges data with other devices. */
extern "C" __global__ void ncclDevKernel_AllReduce(float *d, size_t n)
{
    EACH(i, n) d[i] *= 0.5f;
}
BLOCK_SIZE_INDEPENDENT(ncclDevKernel_AllReduce);
