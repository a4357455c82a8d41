/* static_runtime.c: a program with the CUDA runtime linked in. */
#include <cuda_runtime_api.h>

int main(void)
{
    void *p = NULL;
    return cudaMalloc(&p, 1) != cudaSuccess;
}
