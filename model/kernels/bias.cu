/* bias.cu: elementwise forward passes with a bias (kernels.h). */
#include "block.cuh"
#include "gelu.cuh"
#include "kernels.h"

/* A block takes `rows` rows of x[N,C]. to may be from. */
template <bool GELU>
__global__ void bias_kernel(float *to, const float *from, const float *__restrict__ bias, int N, int C,
                            int rows)
{
    const int first = (int)blockIdx.x * rows, last = smaller(first + rows, N);
    for (int n = first; n < last; n++) {
        const float *const x = from + (size_t)n * C;
        float *const y = to + (size_t)n * C;
        SIMD for (int c = block_thread(); c < C; c += block_threads())
        {
            const float u = x[c] + bias[c];
            y[c] = GELU ? gelu(u) : u;
        }
    }
}
BLOCK_SIZE_INDEPENDENT(bias_kernel<false>);
BLOCK_SIZE_INDEPENDENT(bias_kernel<true>);

template <bool GELU>
inline softgpu_cost_t bias_cost(dim3, dim3, float *, const float *, const float *, int N, int C, int)
{
    return launch_cost((GELU ? 12.0 : 1.0) * N * C, 2.0 * N * C + C);
}
KERNEL_COST(bias_cost<false>, bias_kernel<false>);
KERNEL_COST(bias_cost<true>, bias_kernel<true>);

cudaError_t bias_forward(float *x, const float *bias, int N, int C, cudaStream_t stream)
{
    const int rows = rows_per_block(C);
    bias_kernel<false><<<(unsigned)ceil_div(N, rows), BLOCK_THREADS, 0, stream>>>(x, x, bias, N, C, rows);
    return cudaGetLastError();
}

cudaError_t bias_gelu_forward(float *out, const float *x, const float *bias, int N, int C,
                              cudaStream_t stream)
{
    const int rows = rows_per_block(C);
    bias_kernel<true><<<(unsigned)ceil_div(N, rows), BLOCK_THREADS, 0, stream>>>(out, x, bias, N, C, rows);
    return cudaGetLastError();
}
