#include "loop.cuh"

#include <cuda_runtime.h>
#include <math.h>

#ifndef BLOCK_SIZE_INDEPENDENT
#define BLOCK_SIZE_INDEPENDENT(...) static_assert(true, "")
#endif

enum { SLICE = 16384 };

static __device__ __forceinline__ size_t slice_first(void)
{
    return (size_t)blockIdx.x * SLICE;
}

static __device__ __forceinline__ size_t slice_end(size_t n)
{
    const size_t end = slice_first() + SLICE;
    return end < n ? end : n;
}

/* The parts of the slice in which i % m grows by one, from `first` to `end`. */
static __device__ __forceinline__ size_t run_end(size_t first, size_t n, size_t m)
{
    const size_t end = first - first % m + m;
    return end < slice_end(n) ? end : slice_end(n);
}

#define EACH_RUN(first, end, n, m)                                                                           \
    for (size_t first = slice_first(), end = run_end(first, n, m); first < end;                              \
         first = end, end = run_end(first, n, m))

#define EACH(i, n) for (size_t i = slice_first() + threadIdx.x; i < slice_end(n); i += blockDim.x)

static unsigned blocks(size_t n)
{
    return (unsigned)((n + SLICE - 1) / SLICE);
}

__global__ void forward_kernel(float *out, const float *in, const float *w, float *const *table, size_t n,
                               size_t m)
{
    const float shift = table ? table[0][0] : 0.1f;
    EACH_RUN(first, end, n, m)
    {
        const float *of = w + first % m;
        for (size_t i = threadIdx.x; i < end - first; i += blockDim.x) {
            const float t = in[first + i] * of[i] + shift;
            out[first + i] = t / (1.0f + fabsf(t));
        }
    }
}
BLOCK_SIZE_INDEPENDENT(forward_kernel);

__global__ void adjust_kernel(float *x, const int *flag, float gain, size_t n)
{
    if (flag[0])
        EACH(i, n)
    x[i] = x[i] * gain + 0.01f;
}
BLOCK_SIZE_INDEPENDENT(adjust_kernel);

__global__ void couple_kernel(float *x, float *y, size_t n)
{
    EACH(i, n)
    {
        const float a = x[i], b = y[i];
        x[i] = a + 0.125f * b;
        y[i] = b - 0.25f * a;
    }
}
BLOCK_SIZE_INDEPENDENT(couple_kernel);

__global__ void input_gradient_kernel(float *din, const float *dout, const float *out, const float *w,
                                      size_t n, size_t m)
{
    EACH_RUN(first, end, n, m)
    {
        const float *of = w + first % m;
        for (size_t i = threadIdx.x; i < end - first; i += blockDim.x) {
            const float s = 1.0f - fabsf(out[first + i]);
            din[first + i] = dout[first + i] * s * s * of[i];
        }
    }
}
BLOCK_SIZE_INDEPENDENT(input_gradient_kernel);

/* add: to what is there. */
__global__ void weight_gradient_kernel(float *dw, const float *dout, const float *in, const float *out,
                                       size_t n, size_t m, int add)
{
    EACH(j, m) dw[j] = add ? dw[j] : 0;
    for (size_t row = 0; row < n; row += m)
        EACH(j, n - row < m ? n - row : m)
        {
            const float s = 1.0f - fabsf(out[row + j]);
            dw[j] += dout[row + j] * s * s * in[row + j];
        }
}
BLOCK_SIZE_INDEPENDENT(weight_gradient_kernel);

__global__ void update_kernel(float *w, const float *dw, unsigned *counter, float rate, size_t m)
{
    EACH(j, m) w[j] -= rate * dw[j];
    if (blockIdx.x == 0 && threadIdx.x == 0)
        counter[0]++;
}
BLOCK_SIZE_INDEPENDENT(update_kernel);

__global__ void rows_kernel(float *out, const float *in, size_t n)
{
    EACH(i, n)
    if (i % 16 != 15)
        out[i] = in[i];
}
BLOCK_SIZE_INDEPENDENT(rows_kernel);

typedef struct blend {
    float alpha, beta;
    size_t n;
} blend_t;

__global__ void blend_kernel(float *out, const float *in, blend_t by)
{
    EACH(i, by.n)
    out[i] = by.beta != 0 ? by.alpha * in[i] + by.beta * out[i] : by.alpha * in[i];
}
BLOCK_SIZE_INDEPENDENT(blend_kernel);

__global__ void scale_kernel(float *x, float by, size_t n)
{
    EACH(i, n) x[i] *= by;
}
BLOCK_SIZE_INDEPENDENT(scale_kernel);

/* One thread a block's slice, in order. */
__global__ void probe_kernel(float *sums, const float *x, size_t n)
{
    if (threadIdx.x)
        return;
    float sum = sums[blockIdx.x];
    for (size_t i = slice_first(); i < slice_end(n); i++)
        sum += x[i];
    sums[blockIdx.x] = sum;
}
BLOCK_SIZE_INDEPENDENT(probe_kernel);

__global__ void fill_kernel(float *x, unsigned seed, size_t n)
{
    EACH(i, n) x[i] = (float)(((unsigned)i * 2654435761u ^ seed * 40503u) >> 8 & 0xffff) / 65536.0f - 0.5f;
}
BLOCK_SIZE_INDEPENDENT(fill_kernel);

__global__ void peek_kernel(float *sums, unsigned long long hidden)
{
    if (!threadIdx.x)
        sums[0] += *(const float *)(hidden ^ LOOP_MASK);
}
BLOCK_SIZE_INDEPENDENT(peek_kernel);

cudaError_t loop_forward(float *out, const float *in, const float *w, float *const *table, size_t n, size_t m,
                         cudaStream_t stream)
{
    forward_kernel<<<blocks(n), 256, 0, stream>>>(out, in, w, table, n, m);
    return cudaGetLastError();
}

cudaError_t loop_adjust(float *x, const int *flag, float gain, size_t n, cudaStream_t stream)
{
    adjust_kernel<<<blocks(n), 256, 0, stream>>>(x, flag, gain, n);
    return cudaGetLastError();
}

cudaError_t loop_couple(float *x, float *y, size_t n, cudaStream_t stream)
{
    couple_kernel<<<blocks(n), 256, 0, stream>>>(x, y, n);
    return cudaGetLastError();
}

cudaError_t loop_backward(float *din, float *dw, const float *dout, const float *in, const float *out,
                          const float *w, size_t n, size_t m, int add, cudaStream_t stream)
{
    weight_gradient_kernel<<<blocks(m), 256, 0, stream>>>(dw, dout, in, out, n, m, add);
    input_gradient_kernel<<<blocks(n), 256, 0, stream>>>(din, dout, out, w, n, m);
    return cudaGetLastError();
}

cudaError_t loop_update(float *w, const float *dw, unsigned *counter, float rate, size_t m,
                        cudaStream_t stream)
{
    update_kernel<<<blocks(m), 256, 0, stream>>>(w, dw, counter, rate, m);
    return cudaGetLastError();
}

cudaError_t loop_rows(float *out, const float *in, size_t n, cudaStream_t stream)
{
    rows_kernel<<<blocks(n), 256, 0, stream>>>(out, in, n);
    return cudaGetLastError();
}

cudaError_t loop_blend(float *out, const float *in, float beta, size_t n, cudaStream_t stream)
{
    blend_kernel<<<blocks(n), 256, 0, stream>>>(out, in, blend_t{1, beta, n});
    return cudaGetLastError();
}

cudaError_t loop_scale(float *x, float by, size_t n, cudaStream_t stream)
{
    scale_kernel<<<blocks(n), 256, 0, stream>>>(x, by, n);
    return cudaGetLastError();
}

cudaError_t loop_probe(float *sums, const float *x, size_t n, cudaStream_t stream)
{
    probe_kernel<<<blocks(n), 256, 0, stream>>>(sums, x, n);
    return cudaGetLastError();
}

cudaError_t loop_probe_together(float *sums, const float *x, size_t n, cudaStream_t stream)
{
    void *parameters[] = {&sums, &x, &n};
    return cudaLaunchCooperativeKernel((const void *)probe_kernel, blocks(n), 256, parameters, 0, stream);
}

cudaError_t loop_fill(float *x, unsigned seed, size_t n, cudaStream_t stream)
{
    fill_kernel<<<blocks(n), 256, 0, stream>>>(x, seed, n);
    return cudaGetLastError();
}

cudaError_t loop_peek(float *sums, unsigned long long hidden, cudaStream_t stream)
{
    peek_kernel<<<1, 32, 0, stream>>>(sums, hidden);
    return cudaGetLastError();
}
