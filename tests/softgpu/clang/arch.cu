/* __CUDA_ARCH__ is there in device code only, and is what the PTX was compiled for. */
#include "check.h"

__host__ __device__ int architecture()
{
#ifdef __CUDA_ARCH__
    return __CUDA_ARCH__;
#else
    return 0;
#endif
}

__global__ void ask(int *out)
{
    out[0] = architecture();
#if __CUDA_ARCH__ >= 700
    out[1] = 1;
#endif
}

int main()
{
    array<int> out(2);
    cudaFuncAttributes attributes;
    ask<<<1, 1>>>(out.device);
    out.down();
    OK(cudaFuncGetAttributes(&attributes, ask));
    CHECK(architecture() == 0 && attributes.ptxVersion * 10 == out[0]);
    CHECK(out[0] >= 700 && out[0] % 10 == 0 && out[1] == 1);
}
