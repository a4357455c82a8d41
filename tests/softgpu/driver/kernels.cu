/* Kernels for the driver's tests. Each block owns SLICE elements. */
#include <cuda.h>

#ifndef BLOCK_SIZE_INDEPENDENT
#define BLOCK_SIZE_INDEPENDENT(...)
#endif
#define SLICE 1024

/* p[n] = value */
__global__ void fill(float *p, float value, int n)
{
    int end = min(n, (int)(blockIdx.x + 1) * SLICE);
    for (int i = blockIdx.x * SLICE + threadIdx.x; i < end; i += blockDim.x)
        p[i] = value;
}
BLOCK_SIZE_INDEPENDENT(fill);

/* out[n] = a[n] + b[n] */
__global__ void add(float *out, const float *a, const float *b, int n)
{
    int end = min(n, (int)(blockIdx.x + 1) * SLICE);
    for (int i = blockIdx.x * SLICE + threadIdx.x; i < end; i += blockDim.x)
        out[i] = a[i] + b[i];
}
BLOCK_SIZE_INDEPENDENT(add);

/* p[0] = value after `rounds` of doing nothing useful: a kernel that takes its time. */
__global__ void slow_store(int *p, int value, unsigned rounds)
{
    volatile unsigned sink = 0;
    if (threadIdx.x == 0) {
        for (unsigned i = 0; i < rounds; i++)
            sink = sink + i;
        p[0] = value;
    }
}
BLOCK_SIZE_INDEPENDENT(slow_store);

#ifdef KERNEL_COST
/* In virtual time too: a nanosecond a round on an A100, the default profile. */
static inline softgpu_cost_t slow_store_cost(dim3, dim3, int *, int, unsigned rounds)
{
    return {19.5e3 * rounds, SOFTGPU_FP32, 8};
}
KERNEL_COST(slow_store_cost, slow_store);
#endif

/* Arguments of every kind: out[5] receives them as doubles. */
struct mixed {
    char tag;
    double x;
    int y[5];
};
__global__ void take_arguments(double *out, char c, struct mixed m, short s, float f)
{
    if (threadIdx.x == 0) {
        out[0] = c;
        out[1] = m.tag + m.x + m.y[2];
        out[2] = s;
        out[3] = f;
        out[4] = blockIdx.x + 10.0 * blockIdx.y + 100.0 * blockIdx.z;
    }
}
BLOCK_SIZE_INDEPENDENT(take_arguments);

/* out[2][16] receives the words of both maps. */
struct holder {
    int n;
    CUtensorMap map;
};
extern "C" __global__ void take_maps(const __grid_constant__ CUtensorMap first, unsigned long long *out,
                                     const __grid_constant__ struct holder second)
{
    for (unsigned i = threadIdx.x; i < 16; i += blockDim.x) {
        out[i] = first.opaque[i];
        out[16 + i] = second.map.opaque[i];
    }
}
BLOCK_SIZE_INDEPENDENT(take_maps);

/* Fills what the first `count` pointers lead to. */
struct list {
    int count;
    float *p[12];
};
__global__ void fill_some(struct list of, float value, int n)
{
    for (int k = 0; k < of.count; k++)
        for (int i = threadIdx.x; i < n; i += blockDim.x)
            of.p[k][i] = value;
}
BLOCK_SIZE_INDEPENDENT(fill_some);

/* seen[x + gx*(y + gy*z)] += 1: which blocks have run */
__global__ void count_blocks(int *seen)
{
    if (threadIdx.x == 0)
        seen[blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z)] += 1;
}
BLOCK_SIZE_INDEPENDENT(count_blocks);

/* Depends on the block size, and is honest about it. */
__global__ void unmarked(float *p, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        p[i] = 1;
}
