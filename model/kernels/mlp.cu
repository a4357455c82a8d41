/* mlp.cu: elementwise passes inside the MLP and along the projections: bias, GELU, SwiGLU (kernels.h). */
#include <math.h>

#include "element.cuh"
#include "gelu.cuh"
#include "kernels.h"

/* A block takes `rows` rows of x[N,C]. to may be from; bias NULL: none. */
template <bool GELU, typename E>
__global__ void bias_kernel(E *to, const E *from, const E *__restrict__ bias, int N, int C, int rows)
{
    const int first = (int)blockIdx.x * rows, last = smaller(first + rows, N);
    for (int n = first; n < last; n++) {
        const E *const x = from + (size_t)n * C;
        E *const y = to + (size_t)n * C;
        SIMD for (int c = block_thread(); c < C; c += block_threads())
        {
            const float u = bias ? load_f(x[c]) + load_f(bias[c]) : load_f(x[c]);
            store_f(y + c, GELU ? gelu(u) : u);
        }
    }
}

template <typename E>
inline softgpu_cost_t bias_cost(dim3, dim3, E *, const E *, const E *, int N, int C, int)
{
    return launch_cost(1.0 * N * C, as_floats<E>(2.0 * N * C + C));
}
template <typename E>
inline softgpu_cost_t bias_gelu_cost(dim3, dim3, E *, const E *, const E *, int N, int C, int)
{
    return launch_cost(12.0 * N * C, as_floats<E>(2.0 * N * C + C));
}

#define INSTANCE(E)                                                                                          \
    INDEPENDENT_KERNEL(bias_cost<E>, bias_kernel<false, E>);                                                 \
    INDEPENDENT_KERNEL(bias_gelu_cost<E>, bias_kernel<true, E>)
FOR_TYPES(INSTANCE);
#undef INSTANCE

template <bool GELU, typename E>
static void bias_launch(void *to, const void *from, const void *bias, int N, int C, cudaStream_t stream)
{
    const int rows = rows_per_block(C);
    bias_kernel<GELU, E><<<counted((unsigned)ceil_div(N, rows)), BLOCK_THREADS, 0, stream>>>(
        (E *)to, (const E *)from, (const E *)bias, N, C, rows);
}

cudaError_t bias_forward(dtype_t type, void *x, const void *bias, int N, int C, cudaStream_t stream)
{
    if (type == DTYPE_BF16)
        bias_launch<false, bf16>(x, x, bias, N, C, stream);
    else
        bias_launch<false, float>(x, x, bias, N, C, stream);
    return cudaGetLastError();
}

cudaError_t bias_gelu_forward(dtype_t type, void *out, const void *x, const void *bias, int N, int C,
                              cudaStream_t stream)
{
    if (type == DTYPE_BF16)
        bias_launch<true, bf16>(out, x, bias, N, C, stream);
    else
        bias_launch<true, float>(out, x, bias, N, C, stream);
    return cudaGetLastError();
}

/* 1 / (1 + exp(-u)), its exponential as a power of 2. When that overflows to infinity, the result is 0, as it should be. */
static __device__ __forceinline__ float sigmoid(float u)
{
    return 1.0f / (1.0f + exp2f(u * -1.4426950408889634f));
}

/* A block takes `rows` rows. */
template <typename E>
__global__ void swiglu_forward_kernel(E *__restrict__ out,     /* [N,F] */
                                      const E *__restrict__ x, /* [N,2,F] */
                                      int N, int F, int rows)
{
    const int first = (int)blockIdx.x * rows, last = smaller(first + rows, N);
    for (int n = first; n < last; n++) {
        const E *const gate = x + (size_t)n * 2 * F, *const up = gate + F;
        E *const y = out + (size_t)n * F;
        SIMD for (int f = block_thread(); f < F; f += block_threads())
        {
            const float g = load_f(gate[f]);
            store_f(y + f, g * sigmoid(g) * load_f(up[f]));
        }
    }
}

template <typename E> inline softgpu_cost_t swiglu_forward_cost(dim3, dim3, E *, const E *, int N, int F, int)
{
    return launch_cost(8.0 * N * F, as_floats<E>(3.0 * N * F));
}
INDEPENDENT_KERNEL(swiglu_forward_cost<float>, swiglu_forward_kernel<float>);
INDEPENDENT_KERNEL(swiglu_forward_cost<bf16>, swiglu_forward_kernel<bf16>);

/* With s = sigmoid(gate): d silu(gate) = s (1 + gate (1 - s)). dx may be x. */
template <typename E>
__global__ void swiglu_backward_kernel(E *dx,                      /* [N,2,F] */
                                       const E *__restrict__ dout, /* [N,F] */
                                       const E *x,                 /* [N,2,F] */
                                       int N, int F, int rows)
{
    const int first = (int)blockIdx.x * rows, last = smaller(first + rows, N);
    for (int n = first; n < last; n++) {
        const size_t at = (size_t)n * 2 * F;
        const E *const gate = x + at, *const up = gate + F, *const d = dout + (size_t)n * F;
        E *const dgate = dx + at, *const dup = dgate + F;
        SIMD for (int f = block_thread(); f < F; f += block_threads())
        {
            const float g = load_f(gate[f]), u = load_f(up[f]), y = load_f(d[f]), s = sigmoid(g);
            store_f(dup + f, y * g * s);
            store_f(dgate + f, y * u * s * (1.0f + g * (1.0f - s)));
        }
    }
}

template <typename E>
inline softgpu_cost_t swiglu_backward_cost(dim3, dim3, E *, const E *, const E *, int N, int F, int)
{
    return launch_cost(14.0 * N * F, as_floats<E>(5.0 * N * F));
}
INDEPENDENT_KERNEL(swiglu_backward_cost<float>, swiglu_backward_kernel<float>);
INDEPENDENT_KERNEL(swiglu_backward_cost<bf16>, swiglu_backward_kernel<bf16>);

template <typename E>
static void swiglu_forward_launch(void *out, const void *x, int N, int F, cudaStream_t stream)
{
    const int rows = rows_per_block(F);
    swiglu_forward_kernel<E><<<counted((unsigned)ceil_div(N, rows)), BLOCK_THREADS, 0, stream>>>(
        (E *)out, (const E *)x, N, F, rows);
}

cudaError_t swiglu_forward(dtype_t type, void *out, const void *x, int N, int F, cudaStream_t stream)
{
    FOR_DTYPE(type, swiglu_forward_launch, out, x, N, F, stream);
    return cudaGetLastError();
}

template <typename E>
static void swiglu_backward_launch(void *dx, const void *dout, const void *x, int N, int F,
                                   cudaStream_t stream)
{
    const int rows = rows_per_block(F);
    swiglu_backward_kernel<E><<<counted((unsigned)ceil_div(N, rows)), BLOCK_THREADS, 0, stream>>>(
        (E *)dx, (const E *)dout, (const E *)x, N, F, rows);
}

cudaError_t swiglu_backward(dtype_t type, void *dx, const void *dout, const void *x, int N, int F,
                            cudaStream_t stream)
{
    FOR_DTYPE(type, swiglu_backward_launch, dx, dout, x, N, F, stream);
    return cudaGetLastError();
}
