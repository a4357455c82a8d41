/* optimizer.cu: sums over everything, gradient clipping, AdamW (kernels.h). */
#include <math.h>

#include "dropout.cuh"
#include "element.cuh"

extern "C" {
uint64_t launches_issued;
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

inline softgpu_cost_t sum_cost(dim3, dim3, float *, const float *, size_t n, float, int)
{
    return launch_cost((double)n, (double)n);
}
INDEPENDENT_KERNEL(sum_cost, sum_kernel);

cudaError_t sum(float *result, const float *x, size_t n, float scale, int accumulate, cudaStream_t stream)
{
    sum_kernel<<<counted(1), 1024, 0, stream>>>(result, x, n, scale, accumulate);
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

inline softgpu_cost_t sum_squares_cost(dim3 grid, dim3, float *, const float *, size_t n)
{
    return launch_cost(2.0 * (double)n, (double)n + grid.x);
}
INDEPENDENT_KERNEL(sum_squares_cost, sum_squares_kernel);

size_t sum_squares_partials(size_t n)
{
    return slices(n);
}

cudaError_t sum_squares(float *partials, const float *x, size_t n, cudaStream_t stream)
{
    sum_squares_kernel<<<counted((unsigned)sum_squares_partials(n)), BLOCK_THREADS, 0, stream>>>(partials, x,
                                                                                                 n);
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

inline softgpu_cost_t gradient_scale_cost(dim3, dim3, float *, const float *, size_t n, float)
{
    return launch_cost((double)n, (double)n);
}
INDEPENDENT_KERNEL(gradient_scale_cost, gradient_scale_kernel);

cudaError_t gradient_scale(float *result, const float *partials, size_t n, float clip, cudaStream_t stream)
{
    gradient_scale_kernel<<<counted(1), 1024, 0, stream>>>(result, partials, n, clip);
    return cudaGetLastError();
}

/* to[n] = from[n], rounded. A block takes a slice. */
__global__ void round_bf16_kernel(bf16 *__restrict__ to, const float *__restrict__ from, size_t n)
{
    const size_t begin = (size_t)blockIdx.x * SLICE_ELEMENTS, end = slice_end(n);
    SIMD for (size_t i = begin + (size_t)block_thread(); i < end; i += (size_t)block_threads())
        store_f(to + i, from[i]);
}

inline softgpu_cost_t round_bf16_cost(dim3, dim3, bf16 *, const float *, size_t n)
{
    return launch_cost((double)n, 1.5 * (double)n);
}
INDEPENDENT_KERNEL(round_bf16_cost, round_bf16_kernel);

cudaError_t round_bf16(void *to, const float *from, size_t n, cudaStream_t stream)
{
    round_bf16_kernel<<<counted(slices(n)), BLOCK_THREADS, 0, stream>>>(
        (bf16 *)to, from, n);
    return cudaGetLastError();
}

/* adamw_t as the kernel takes it: m and v divided by what their sums of weights lack (bias correction). */
typedef struct adamw_step {
    float beta1, beta2, rate /* learning rate / (1 - beta1^step) */, root /* 1 / sqrt(1 - beta2^step) */, eps,
        decay;
    uint64_t seed, offset; /* of stochastic rounding */
} adamw_step_t;

/* Where the new value goes besides the master. */
enum { NO_COPY, NEAREST, STOCHASTIC };

/* Element i's 16 random bits: half (i % 8) of the Philox words with counter offset + i / 8. Added to the bits of an
 * fp32 before the lower half is cut off, they make it the next bf16 away from 0 with the probability that is the share
 * of the way there. An infinity or a NaN is rounded to the nearest. */
static __device__ __forceinline__ void store_stochastically(bf16 *to, float x, uint32_t noise)
{
    const uint32_t bits = __float_as_uint(x);
    if ((bits & 0x7f800000u) == 0x7f800000u)
        store_f(to, x);
    else
        to->bits = (uint16_t)((bits + noise) >> 16);
}

/* The random bits of elements begin ... end - 1, begin a multiple of 8, end - begin <= KEEP, into shared memory:
 * element begin + i's are noise[i]. A Philox call is made once for its eight elements. Barriers before and after are part
 * of this. */
static __device__ __forceinline__ void fill_noise(uint16_t *noise, /* [KEEP] */
                                                  size_t begin, size_t end, adamw_step_t o)
{
    const int blocks = (int)((end - begin + 7) / 8);
    const uint64_t start = o.offset + begin / 8;
    const uint32_t low = (uint32_t)start, high = (uint32_t)(start >> 32);
    __syncthreads();
    SIMD for (int g = block_thread(); g < blocks; g += block_threads())
    {
        const uint32_t c = low + (uint32_t)g;
        const words_t w = philox(c, high + (c < low), o.seed);
        uint16_t *const to = noise + 8 * g;
        to[0] = (uint16_t)w.w0, to[1] = (uint16_t)(w.w0 >> 16);
        to[2] = (uint16_t)w.w1, to[3] = (uint16_t)(w.w1 >> 16);
        to[4] = (uint16_t)w.w2, to[5] = (uint16_t)(w.w2 >> 16);
        to[6] = (uint16_t)w.w3, to[7] = (uint16_t)(w.w3 >> 16);
    }
    __syncthreads();
}

/* Elements begin ... end - 1, by a block; noise: element begin's random bits come first. */
template <int COPY_HOW>
static __device__ __forceinline__ void
adamw_range(float *__restrict__ parameter, float *__restrict__ m, float *__restrict__ v,
            bf16 *__restrict__ copy, const float *__restrict__ gradient, size_t begin, size_t end,
            float scale, adamw_step_t o, float shrink, const uint16_t *__restrict__ noise)
{
    SIMD for (size_t i = begin + (size_t)block_thread(); i < end; i += (size_t)block_threads())
    {
        const float g = gradient[i] * scale;
        const float m1 = o.beta1 * m[i] + (1.0f - o.beta1) * g,
                    v1 = o.beta2 * v[i] + (1.0f - o.beta2) * g * g;
        m[i] = m1;
        v[i] = v1;
        const float x = parameter[i] * shrink - o.rate * m1 / (sqrtf(v1) * o.root + o.eps);
        parameter[i] = x;
        if (COPY_HOW == NEAREST)
            store_f(copy + i, x);
        if (COPY_HOW == STOCHASTIC)
            store_stochastically(copy + i, x, noise[i - begin]);
    }
}

template <int COPY_HOW>
__global__ void adamw_kernel(float *__restrict__ parameter, float *__restrict__ m, float *__restrict__ v,
                             bf16 *__restrict__ copy, const float *__restrict__ gradient, /* [n] each */
                             const float *__restrict__ scale, const adamw_scalars_t *__restrict__ scalars,
                             size_t n, size_t decayed, adamw_step_t o)
{
    __shared__ uint16_t shared_noise[COPY_HOW == STOCHASTIC ? KEEP : 1];
    uint16_t *const noise = shared_pointer(shared_noise);
    if (scale[0] < 0.0f) /* outlier_check */
        return;
    if (scalars) {
        o.rate = scalars->rate;
        o.root = scalars->root;
        o.decay = scalars->decay;
        o.offset += scalars->offset;
    }
    const size_t slice = slice_end(n);
    const size_t part = COPY_HOW == STOCHASTIC ? (size_t)KEEP : (size_t)SLICE_ELEMENTS;
    for (size_t begin = (size_t)blockIdx.x * SLICE_ELEMENTS; begin < slice; begin += part) {
        const size_t end = begin + part < slice ? begin + part : slice;
        const size_t border = decayed < begin ? begin : decayed < end ? decayed : end;
        if (COPY_HOW == STOCHASTIC)
            fill_noise(noise, begin, end, o);
        adamw_range<COPY_HOW>(parameter, m, v, copy, gradient, begin, border, scale[0], o, 1.0f - o.decay,
                              noise);
        adamw_range<COPY_HOW>(parameter, m, v, copy, gradient, border, end, scale[0], o, 1.0f,
                              noise + (COPY_HOW == STOCHASTIC ? border - begin : 0));
    }
}

inline softgpu_cost_t adamw_cost(dim3, dim3, float *, float *, float *, bf16 *copy, const float *,
                                 const float *, const adamw_scalars_t *, size_t n, size_t, adamw_step_t)
{
    return launch_cost(15.0 * (double)n, (copy ? 7.5 : 7.0) * (double)n);
}
INDEPENDENT_KERNEL(adamw_cost, adamw_kernel<NO_COPY>);
INDEPENDENT_KERNEL(adamw_cost, adamw_kernel<NEAREST>);
INDEPENDENT_KERNEL(adamw_cost, adamw_kernel<STOCHASTIC>);

adamw_scalars_t adamw_scalars_of(adamw_t options)
{
    const double lacking1 = 1.0 - pow((double)options.beta1, (double)options.step),
                 lacking2 = 1.0 - pow((double)options.beta2, (double)options.step);
    const adamw_scalars_t scalars = {(float)((double)options.learning_rate / lacking1),
                                     (float)(1.0 / sqrt(lacking2)),
                                     options.learning_rate * options.weight_decay, 0.0f, options.offset};
    return scalars;
}

cudaError_t adamw(float *parameter, float *m, float *v, void *copy, const float *gradient, size_t n,
                  size_t decayed, const float *scale, adamw_t options, cudaStream_t stream)
{
    const adamw_scalars_t now = options.scalars ? adamw_scalars_t{} : adamw_scalars_of(options);
    const adamw_step_t o = {options.beta1, options.beta2, now.rate,     now.root,
                            options.eps,   now.decay,     options.seed, options.offset};
    const unsigned blocks = slices(n);
    bf16 *const to = (bf16 *)copy;
    if (to == NULL)
        adamw_kernel<NO_COPY><<<counted(blocks), BLOCK_THREADS, 0, stream>>>(
            parameter, m, v, to, gradient, scale, options.scalars, n, decayed, o);
    else if (options.stochastic)
        adamw_kernel<STOCHASTIC><<<counted(blocks), BLOCK_THREADS, 0, stream>>>(
            parameter, m, v, to, gradient, scale, options.scalars, n, decayed, o);
    else
        adamw_kernel<NEAREST><<<counted(blocks), BLOCK_THREADS, 0, stream>>>(
            parameter, m, v, to, gradient, scale, options.scalars, n, decayed, o);
    return cudaGetLastError();
}
