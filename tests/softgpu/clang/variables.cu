/* __device__ and __constant__ variables: initialised, copied by symbol, written by kernels. */
#include "check.h"

__device__ int counter = 100;
__device__ float table[4] = {1, 2, 4, 8};
__constant__ float factors[8];
static __device__ int *pointer = &counter;
struct pair {
    short a;
    double b;
};
__constant__ pair constants = {-3, 0.125};

__global__ void use(float *out)
{
    const int i = threadIdx.x;
    out[i] = factors[i % 8] * table[i % 4] + (float)constants.b * constants.a;
    atomicAdd(pointer, 1);
}

int main()
{
    array<float> out(64);
    float host[8], back[4], *address;
    size_t bytes;
    int count;
    for (int i = 0; i < 8; i++)
        host[i] = 0.5f * i;
    OK(cudaMemcpyToSymbol(factors, host, sizeof host));
    OK(cudaMemcpyFromSymbol(back, table, sizeof back));
    CHECK(back[0] == 1 && back[3] == 8);
    const float five = 5;
    OK(cudaMemcpyToSymbol(table, &five, sizeof five, sizeof five)); /* at an offset */
    use<<<1, 64>>>(out.device);
    out.down();
    for (int i = 0; i < 64; i++)
        CHECK(out[i] == host[i % 8] * (i % 4 == 1 ? 5.0f : back[i % 4]) - 0.375f);
    OK(cudaMemcpyFromSymbol(&count, counter, sizeof count));
    CHECK(count == 164);
    OK(cudaGetSymbolAddress((void **)&address, table));
    OK(cudaGetSymbolSize(&bytes, table));
    CHECK(bytes == sizeof back);
    OK(cudaMemset(address, 0, bytes));
    OK(cudaMemcpyFromSymbol(back, table, sizeof back));
    CHECK(back[1] == 0 && back[3] == 0);
}
