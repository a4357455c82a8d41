/* Pointers to device functions: in a table, chosen by thread, copied to the host and back. */
#include "check.h"

typedef int (*operation)(int, int);

__device__ __noinline__ int add(int a, int b)
{
    return a + b;
}
__device__ __noinline__ int multiply(int a, int b)
{
    return a * b;
}
__device__ operation table[2] = {add, multiply};
__device__ operation chosen = multiply;

__global__ void run(int *out, operation given)
{
    const int i = threadIdx.x;
    out[2 * i] = table[i % 2](i, 5);
    out[2 * i + 1] = given(i, 7);
}

int main()
{
    array<int> out(64);
    operation given;
    OK(cudaMemcpyFromSymbol(&given, chosen, sizeof given));
    run<<<1, 32>>>(out.device, given);
    out.down();
    for (int i = 0; i < 32; i++)
        CHECK(out[2 * i] == (i % 2 ? i * 5 : i + 5) && out[2 * i + 1] == i * 7);
}
