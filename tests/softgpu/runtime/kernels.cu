// kernels.cu: kernels for the runtime's tests; built with several sets of nvcc options and as one kernel library.
#include "kernels.h"

extern "C" __global__ void fill(float *p, float value, int n)
{
    int slice = (n + gridDim.x - 1) / gridDim.x, first = blockIdx.x * slice;
    for (int i = first + threadIdx.x; i < first + slice && i < n; i += blockDim.x)
        p[i] = value;
}

template <typename T> __global__ void add(T *p, T value, int n)
{
    int slice = (n + gridDim.x - 1) / gridDim.x, first = blockIdx.x * slice;
    for (int i = first + threadIdx.x; i < first + slice && i < n; i += blockDim.x)
        p[i] += value;
}

extern "C" __global__ void slow_increment(int *p, unsigned rounds)
{
    volatile unsigned sink = 0;
    if (threadIdx.x == 0) {
        for (unsigned i = 0; i < rounds; i++)
            sink = sink + i;
        p[0] += 1;
    }
}

__global__ void unmarked(int *p)
{
    p[blockIdx.x * blockDim.x + threadIdx.x] = 1;
}

__device__ int variable;

#ifdef __SOFTGPU_FAST__
BLOCK_SIZE_INDEPENDENT(fill);
BLOCK_SIZE_INDEPENDENT(add<float>);
BLOCK_SIZE_INDEPENDENT(slow_increment);

#ifdef KERNEL_COST
/* In virtual time too: a nanosecond a round on an A100, the default profile. */
static inline softgpu_cost_t slow_increment_cost(dim3, dim3, int *, unsigned rounds)
{
    return {19.5e3 * rounds, SOFTGPU_FP32, 8};
}
KERNEL_COST(slow_increment_cost, slow_increment);
#endif
#else
const void *const device_variable = &variable;
const void *const fill_kernel = (const void *)fill;
const void *const increment_kernel = (const void *)slow_increment;
#endif

cudaError_t launch_fill(float *p, float value, int n, int blocks, cudaStream_t stream)
{
    fill<<<blocks, 64, 0, stream>>>(p, value, n);
    return cudaGetLastError();
}

cudaError_t launch_add(float *p, float value, int n, cudaStream_t stream)
{
    add<float><<<4, 32, 0, stream>>>(p, value, n);
    return cudaGetLastError();
}

cudaError_t launch_slow_increment(int *p, unsigned rounds, cudaStream_t stream)
{
    slow_increment<<<1, 32, 0, stream>>>(p, rounds);
    return cudaGetLastError();
}

cudaError_t launch_unmarked(int *p)
{
    unmarked<<<1, 32>>>(p);
    return cudaGetLastError();
}

cudaError_t launch_too_wide(float *p)
{
    fill<<<1, 1 << 16>>>(p, 1.0f, 1);
    return cudaGetLastError();
}

cudaError_t launch_wild_store(void)
{
    fill<<<1, 1>>>((float *)16, 1.0f, 1);
    return cudaGetLastError();
}

static int launches_too(float *p, int n)
{
    add<float><<<1, 32>>>(p, 1.0f, n);
    return n;
}

cudaError_t launch_nested(float *p, int n)
{
    fill<<<2, 32>>>(p, 2.0f, launches_too(p + n, n));
    return cudaGetLastError();
}
