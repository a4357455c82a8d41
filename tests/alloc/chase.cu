/* Kernels that follow pointers and tensor maps which their arguments do not show. */
#include <cuda.h>

#include "softgpu/intrinsics.cuh"

#ifndef BLOCK_SIZE_INDEPENDENT
#define BLOCK_SIZE_INDEPENDENT(...)
#endif

/* out[i] = *table[i] */
__global__ void chase(float *out, float *const *table, int n)
{
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        out[i] = *table[i];
}
BLOCK_SIZE_INDEPENDENT(chase);

/* out[i] = *tables[i][0] */
extern "C" __global__ void chase_nested(float *out, float *const *const *tables, int n)
{
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        out[i] = *tables[i][0];
}
BLOCK_SIZE_INDEPENDENT(chase_nested);

__device__ float *const *chase_root;

/* out[i] = *chase_root[i] */
extern "C" __global__ void chase_variable(float *out, int n)
{
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        out[i] = *chase_root[i];
}
BLOCK_SIZE_INDEPENDENT(chase_variable);

/* out[i]: the first float of the i-th tensor. One block. */
extern "C" __global__ void chase_maps(float *out, const CUtensorMap *table, int n)
{
    alignas(128) __shared__ float box[4];
    for (int i = 0; i < n && threadIdx.x == 0; i++) {
        tensor_load_2d(box, &table[i], 0, 0, sizeof box);
        out[i] = box[0];
    }
}
BLOCK_SIZE_INDEPENDENT(chase_maps);
