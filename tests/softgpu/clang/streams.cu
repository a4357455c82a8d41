/* Launches on streams with dynamic shared memory; events between them and their times. */
#include "check.h"

__global__ void fill(int *out, int value, int n)
{
    extern __shared__ int seen[];
    seen[threadIdx.x] = value;
    __syncthreads();
    for (int i = threadIdx.x; i < n; i += blockDim.x)
        out[i] += seen[(threadIdx.x + 1) % blockDim.x] * (i + 1);
}

int main()
{
    array<int> x(256);
    cudaStream_t a, b;
    cudaEvent_t begin, filled, end;
    float ms = -1;
    OK(cudaStreamCreate(&a));
    OK(cudaStreamCreateWithFlags(&b, cudaStreamNonBlocking));
    OK(cudaEventCreate(&begin));
    OK(cudaEventCreateWithFlags(&filled, cudaEventDisableTiming));
    OK(cudaEventCreate(&end));
    OK(cudaEventRecord(begin, a));
    fill<<<1, 32, 32 * sizeof(int), a>>>(x.device, 3, 256);
    OK(cudaEventRecord(filled, a));
    OK(cudaStreamWaitEvent(b, filled, 0));
    fill<<<1, 64, 64 * sizeof(int), b>>>(x.device, 4, 256);
    OK(cudaEventRecord(end, b));
    OK(cudaEventSynchronize(end));
    OK(cudaEventElapsedTime(&ms, begin, end));
    CHECK(ms >= 0 && cudaStreamQuery(a) == cudaSuccess);
    x.down();
    for (int i = 0; i < 256; i++)
        CHECK(x[i] == 7 * (i + 1));
    OK(cudaStreamDestroy(a));
    OK(cudaStreamDestroy(b));
}
