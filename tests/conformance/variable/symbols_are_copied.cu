/* The kernels and variables of symbols_are_copied.c, and what it does with them. */
#include <cuda_runtime.h>
#include <stdio.h>

#ifndef BLOCK_SIZE_INDEPENDENT
#define BLOCK_SIZE_INDEPENDENT(...) static_assert(true, "")
#endif

__constant__ int factors[4];
static __device__ int of_file = 3;
namespace
{
__device__ float unnamed[2] = {1.5f, 2.5f};
struct pair {
    int a, b;
};
__global__ void add_pair(pair p, int *out)
{
    out[threadIdx.x] += p.a * p.b + (int)(2 * unnamed[1]);
}
} // namespace

static __global__ void use(int *out)
{
    out[threadIdx.x] = factors[threadIdx.x % 4] + of_file;
}

template <int N> __global__ void change(int *out)
{
    if (threadIdx.x == 0)
        of_file += N;
    __syncthreads();
    out[threadIdx.x] = of_file;
}

static int failures;
#define CHECK(condition)                                                                                     \
    do {                                                                                                     \
        if (!(condition)) {                                                                                  \
            failures++;                                                                                      \
            printf("%s:%d: %s does not hold\n", __FILE__, __LINE__, #condition);                             \
        }                                                                                                    \
    } while (0)

extern "C" int symbols_failures(void)
{
    int got[32], values[4] = {10, 20, 30, 40}, other = 7, host = 0, *out;
    float f[2];
    void *address;
    size_t bytes;
    cudaStream_t stream;
    CHECK(cudaMalloc(&out, sizeof got) == cudaSuccess);
    CHECK(cudaStreamCreate(&stream) == cudaSuccess);
    CHECK(cudaMemcpyToSymbol(factors, values, sizeof values) == cudaSuccess);
    CHECK(cudaMemcpyToSymbolAsync(factors, &other, sizeof other, 2 * sizeof(int), cudaMemcpyHostToDevice,
                                  stream) == cudaSuccess);
    use<<<1, 32, 0, stream>>>(out);
    CHECK(cudaMemcpyAsync(got, out, sizeof got, cudaMemcpyDeviceToHost, stream) == cudaSuccess);
    CHECK(cudaStreamSynchronize(stream) == cudaSuccess);
    for (int i = 0; i < 32; i++)
        CHECK(got[i] == (i % 4 == 2 ? 7 : 10 + 10 * (i % 4)) + 3);

    change<39><<<1, 32, 0, stream>>>(out);
    CHECK(cudaMemcpyFromSymbolAsync(&host, of_file, sizeof host, 0, cudaMemcpyDeviceToHost, stream) ==
          cudaSuccess);
    CHECK(cudaStreamSynchronize(stream) == cudaSuccess);
    CHECK(host == 42);

    f[0] = 8.0f;
    CHECK(cudaMemcpyToSymbol(unnamed, f, sizeof(float), sizeof(float)) == cudaSuccess);
    CHECK(cudaMemcpyFromSymbol(f, unnamed, sizeof f) == cudaSuccess);
    CHECK(f[0] == 1.5f && f[1] == 8.0f);
    add_pair<<<1, 32>>>(pair{3, 4}, out);
    CHECK(cudaMemcpy(got, out, sizeof got, cudaMemcpyDeviceToHost) == cudaSuccess);
    CHECK(got[31] == 42 + 12 + 16);

    CHECK(cudaGetSymbolSize(&bytes, factors) == cudaSuccess && bytes == sizeof values);
    CHECK(cudaGetSymbolAddress(&address, factors) == cudaSuccess);
    CHECK(cudaMemcpy(got, address, sizeof values, cudaMemcpyDeviceToHost) == cudaSuccess && got[3] == 40);
    CHECK(cudaMemcpyToSymbol(factors, values, sizeof values, 4) == cudaErrorInvalidValue);
    CHECK(cudaGetSymbolSize(&bytes, (const void *)&host) == cudaErrorInvalidSymbol);
    cudaGetLastError();
    CHECK(cudaStreamDestroy(stream) == cudaSuccess && cudaFree(out) == cudaSuccess);
    return failures;
}
