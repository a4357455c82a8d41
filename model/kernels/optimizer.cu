/* optimizer.cu: sums over everything, gradient clipping, AdamW (kernels.h). */
#include <math.h>

#include "block.cuh"
#include "kernels.h"

enum { SLICE_ELEMENTS = 16384 }; /* that a block of sum_squares or adamw takes */

static inline __device__ size_t slice_end(size_t n)
{
    const size_t end = ((size_t)blockIdx.x + 1) * SLICE_ELEMENTS;
    return end < n ? end : n;
}

/* One block. In double: it is little work, and the loss that is logged and compared comes out of it. */
__global__ void sum_kernel(float *__restrict__ result, const float *__restrict__ x, size_t n, float scale,
                           int accumulate)
{
    double total = 0;
    SIMD_SUM(total)
    for (size_t i = (size_t)block_thread(); i < n; i += (size_t)block_threads())
        total += (double)x[i];
    total = block_sum(total);
    if (block_thread() == 0)
        result[0] = (accumulate ? result[0] : 0.0f) + (float)((double)scale * total);
}
BLOCK_SIZE_INDEPENDENT(sum_kernel);

inline softgpu_cost_t sum_cost(dim3, dim3, float *, const float *, size_t n, float, int)
{
    return launch_cost((double)n, (double)n);
}
KERNEL_COST(sum_cost, sum_kernel);

cudaError_t sum(float *result, const float *x, size_t n, float scale, int accumulate, cudaStream_t stream)
{
    sum_kernel<<<1, 1024, 0, stream>>>(result, x, n, scale, accumulate);
    return cudaGetLastError();
}

__global__ void sum_squares_kernel(float *__restrict__ partials, /* a block's slice: one */
                                   const float *__restrict__ x, size_t n)
{
    const size_t begin = (size_t)blockIdx.x * SLICE_ELEMENTS, end = slice_end(n);
    float total = 0.0f;
    SIMD_SUM(total)
    for (size_t i = begin + (size_t)block_thread(); i < end; i += (size_t)block_threads())
        total += x[i] * x[i];
    total = block_sum(total);
    if (block_thread() == 0)
        partials[blockIdx.x] = total;
}
BLOCK_SIZE_INDEPENDENT(sum_squares_kernel);

inline softgpu_cost_t sum_squares_cost(dim3 grid, dim3, float *, const float *, size_t n)
{
    return launch_cost(2.0 * (double)n, (double)n + grid.x);
}
KERNEL_COST(sum_squares_cost, sum_squares_kernel);

size_t sum_squares_partials(size_t n)
{
    return ceil_div(n, (size_t)SLICE_ELEMENTS);
}

cudaError_t sum_squares(float *partials, const float *x, size_t n, cudaStream_t stream)
{
    sum_squares_kernel<<<(unsigned)sum_squares_partials(n), BLOCK_THREADS, 0, stream>>>(partials, x, n);
    return cudaGetLastError();
}

/* One block. */
__global__ void gradient_scale_kernel(float *__restrict__ result, const float *__restrict__ partials,
                                      size_t n, float clip)
{
    double total = 0;
    SIMD_SUM(total)
    for (size_t i = (size_t)block_thread(); i < n; i += (size_t)block_threads())
        total += (double)partials[i];
    total = block_sum(total);
    if (block_thread() == 0) {
        const float norm = (float)sqrt(total);
        result[0] = norm;
        result[1] = clip > 0.0f && norm > clip ? clip / norm : 1.0f;
    }
}
BLOCK_SIZE_INDEPENDENT(gradient_scale_kernel);

inline softgpu_cost_t gradient_scale_cost(dim3, dim3, float *, const float *, size_t n, float)
{
    return launch_cost((double)n, (double)n);
}
KERNEL_COST(gradient_scale_cost, gradient_scale_kernel);

cudaError_t gradient_scale(float *result, const float *partials, size_t n, float clip, cudaStream_t stream)
{
    gradient_scale_kernel<<<1, 1024, 0, stream>>>(result, partials, n, clip);
    return cudaGetLastError();
}

/* adamw_t as the kernel takes it: m and v divided by what their sums of weights lack (bias correction). */
typedef struct adamw_step {
    float beta1, beta2, rate /* learning rate / (1 - beta1^step) */, root /* 1 / sqrt(1 - beta2^step) */, eps,
        decay;
} adamw_step_t;

/* Elements begin ... end - 1, by a block. */
static __device__ __forceinline__ void adamw_range(float *__restrict__ parameter, float *__restrict__ m,
                                                   float *__restrict__ v, const float *__restrict__ gradient,
                                                   size_t begin, size_t end, float scale, adamw_step_t o,
                                                   float shrink)
{
    SIMD for (size_t i = begin + (size_t)block_thread(); i < end; i += (size_t)block_threads())
    {
        const float g = gradient[i] * scale;
        const float m1 = o.beta1 * m[i] + (1.0f - o.beta1) * g,
                    v1 = o.beta2 * v[i] + (1.0f - o.beta2) * g * g;
        m[i] = m1;
        v[i] = v1;
        parameter[i] = parameter[i] * shrink - o.rate * m1 / (sqrtf(v1) * o.root + o.eps);
    }
}

__global__ void adamw_kernel(float *__restrict__ parameter, float *__restrict__ m, float *__restrict__ v,
                             const float *__restrict__ gradient, /* [n] each */
                             size_t n, size_t decayed, const float *__restrict__ scale, adamw_step_t o)
{
    const size_t begin = (size_t)blockIdx.x * SLICE_ELEMENTS, end = slice_end(n);
    const size_t border = decayed < begin ? begin : decayed < end ? decayed : end;
    adamw_range(parameter, m, v, gradient, begin, border, scale[0], o, 1.0f - o.decay);
    adamw_range(parameter, m, v, gradient, border, end, scale[0], o, 1.0f);
}
BLOCK_SIZE_INDEPENDENT(adamw_kernel);

inline softgpu_cost_t adamw_cost(dim3, dim3, float *, float *, float *, const float *, size_t n, size_t,
                                 const float *, adamw_step_t)
{
    return launch_cost(15.0 * (double)n, 7.0 * (double)n);
}
KERNEL_COST(adamw_cost, adamw_kernel);

cudaError_t adamw(float *parameter, float *m, float *v, const float *gradient, size_t n, size_t decayed,
                  const float *scale, adamw_t options, cudaStream_t stream)
{
    const double lacking1 = 1.0 - pow((double)options.beta1, (double)options.step),
                 lacking2 = 1.0 - pow((double)options.beta2, (double)options.step);
    const adamw_step_t o = {options.beta1,
                            options.beta2,
                            (float)((double)options.learning_rate / lacking1),
                            (float)(1.0 / sqrt(lacking2)),
                            options.eps,
                            options.learning_rate * options.weight_decay};
    adamw_kernel<<<(unsigned)ceil_div(n, (size_t)SLICE_ELEMENTS), BLOCK_THREADS, 0, stream>>>(
        parameter, m, v, gradient, n, decayed, scale, o);
    return cudaGetLastError();
}
