/* A kernel that follows pointers which its arguments do not show. */
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
