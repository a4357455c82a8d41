#include "arena.cuh"

#include <cuda_runtime.h>

#ifndef BLOCK_SIZE_INDEPENDENT
#define BLOCK_SIZE_INDEPENDENT(...) static_assert(true, "")
#endif

enum { SLICE = 4096 };

#define EACH(i, n)                                                                                                     \
    for (size_t i = (size_t)blockIdx.x * SLICE + threadIdx.x; i < n && i < ((size_t)blockIdx.x + 1) * SLICE;           \
         i += blockDim.x)

__global__ void add_kernel(float *to, const float *from, size_t n)
{
    EACH(i, n) to[i] += from[i] + 1;
}
BLOCK_SIZE_INDEPENDENT(add_kernel);

__global__ void scale_kernel(float *x, const float *by, size_t n)
{
    EACH(i, n) x[i] = 0.5f - 0.9f * x[i] + by[0];
}
BLOCK_SIZE_INDEPENDENT(scale_kernel);

__global__ void sum_kernel(float *out, const float *x, size_t n)
{
    if (threadIdx.x)
        return;
    float sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += x[i];
    out[0] = 1 / (1 + sum * sum);
}
BLOCK_SIZE_INDEPENDENT(sum_kernel);

static unsigned blocks(size_t n)
{
    return (unsigned)((n + SLICE - 1) / SLICE);
}

cudaError_t arena_add(float *to, const float *from, size_t n, cudaStream_t stream)
{
    add_kernel<<<blocks(n), 128, 0, stream>>>(to, from, n);
    return cudaGetLastError();
}

cudaError_t arena_scale(float *x, const float *by, size_t n, cudaStream_t stream)
{
    scale_kernel<<<blocks(n), 128, 0, stream>>>(x, by, n);
    return cudaGetLastError();
}

cudaError_t arena_sum(float *out, const float *x, size_t n, cudaStream_t stream)
{
    sum_kernel<<<1, 32, 0, stream>>>(out, x, n);
    return cudaGetLastError();
}
