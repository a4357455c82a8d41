/* Static and dynamic shared memory, the latter as several types. */
#include "check.h"

__global__ void transpose(const int *in, int *out, int n)
{
    __shared__ int tile[8][9];
    const int x = blockIdx.x * 8 + threadIdx.x, y = blockIdx.y * 8 + threadIdx.y;
    tile[threadIdx.y][threadIdx.x] = in[y * n + x];
    __syncthreads();
    out[(blockIdx.x * 8 + threadIdx.y) * n + blockIdx.y * 8 + threadIdx.x] = tile[threadIdx.x][threadIdx.y];
}

__global__ void reverse(double *x, int n)
{
    extern __shared__ __align__(16) unsigned char room[];
    double *values = reinterpret_cast<double *>(room);
    int *order = reinterpret_cast<int *>(values + n);
    order[threadIdx.x] = n - 1 - threadIdx.x;
    values[threadIdx.x] = x[threadIdx.x];
    __syncthreads();
    x[threadIdx.x] = values[order[threadIdx.x]];
}

int main()
{
    const int n = 16;
    array<int> in(n * n), out(n * n);
    for (int i = 0; i < n * n; i++)
        in[i] = i * i;
    in.up();
    transpose<<<dim3(2, 2), dim3(8, 8)>>>(in.device, out.device, n);
    out.down();
    for (int i = 0; i < n * n; i++)
        CHECK(out[i % n * n + i / n] == i * i);
    array<double> x(100);
    for (int i = 0; i < 100; i++)
        x[i] = 0.1 * i;
    x.up();
    reverse<<<1, 100, 100 * (sizeof(double) + sizeof(int))>>>(x.device, 100);
    x.down();
    for (int i = 0; i < 100; i++)
        CHECK(x[i] == 0.1 * (99 - i));
}
