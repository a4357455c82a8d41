/* runtime_captures.cu: a kernel that a program launches with <<<>>>. */
#ifndef BLOCK_SIZE_INDEPENDENT
#define BLOCK_SIZE_INDEPENDENT(...)
#endif

__global__ void bump(int *p, int by, int n)
{
    int slice = (n + (int)gridDim.x - 1) / (int)gridDim.x, first = (int)blockIdx.x * slice;
    for (int i = first + (int)threadIdx.x; i < first + slice && i < n; i += (int)blockDim.x)
        p[i] += by;
}
BLOCK_SIZE_INDEPENDENT(bump);

#ifndef __SOFTGPU_FAST__
extern "C" cudaError_t launch_bump(int *p, int by, int n, cudaStream_t stream)
{
    bump<<<4, 64, 0, stream>>>(p, by, n);
    return cudaGetLastError();
}
#endif
