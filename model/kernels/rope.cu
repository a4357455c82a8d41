/* rope.cu: rotary positions (kernels.h). Su et al., "RoFormer", arXiv:2104.09864. */
#include "element.cuh"
#include "kernels.h"

/* A block takes `rows` rows, a warp one head of one row at a time. Pairs are (d, d + D/2). SIGN -1 turns back. */
template <int SIGN, typename E>
__global__ void rope_kernel(E *__restrict__ qkv,             /* [N,H+2KV,D], in place */
                            const float *__restrict__ table, /* [T or more,2,D/2]: cosines, sines */
                            int N, int T, int turned,
                            int heads, /* the first `turned` of the heads of a row */
                            int D, int rows)
{
    const int first = (int)blockIdx.x * rows, last = smaller(first + rows, N), half = D / 2;
    for (int n = first; n < last; n++) {
        const float *const cosine = table + (size_t)(n % T) * D, *const sine = cosine + half;
        for (int h = block_warp(); h < turned; h += block_warps()) {
            E *const x = qkv + ((size_t)n * heads + h) * D, *const y = x + half;
            SIMD for (int d = block_lane(); d < half; d += LANES)
            {
                const float a = load_f(x[d]), b = load_f(y[d]), c = cosine[d], s = SIGN * sine[d];
                store_f(x + d, a * c - b * s);
                store_f(y + d, b * c + a * s);
            }
        }
    }
}

template <typename E>
inline softgpu_cost_t rope_cost(dim3, dim3, E *, const float *, int N, int T, int turned, int, int D, int)
{
    return launch_cost(3.0 * N * turned * D, as_floats<E>(2.0 * N * turned * D) + (double)T * D);
}
#define INSTANCE(SIGN, E) INDEPENDENT_KERNEL(rope_cost<E>, rope_kernel<SIGN, E>)
INSTANCE(1, float);
INSTANCE(-1, float);
INSTANCE(1, bf16);
INSTANCE(-1, bf16);
#undef INSTANCE

template <int SIGN, typename E>
static void rope_launch(void *qkv, const float *table, attention_shape_t s, cudaStream_t stream)
{
    const int N = s.B * s.T, heads = s.H + 2 * s.KV, rows = rows_per_block(heads * s.D);
    rope_kernel<SIGN, E><<<counted((unsigned)ceil_div(N, rows)), BLOCK_THREADS, 0, stream>>>(
        (E *)qkv, table, N, s.T, s.H + s.KV, heads, s.D, rows);
}

cudaError_t rope_forward(dtype_t type, void *qkv, const float *table, attention_shape_t shape,
                         cudaStream_t stream)
{
    if (type == DTYPE_BF16)
        rope_launch<1, bf16>(qkv, table, shape, stream);
    else
        rope_launch<1, float>(qkv, table, shape, stream);
    return cudaGetLastError();
}

cudaError_t rope_backward(dtype_t type, void *dqkv, const float *table, attention_shape_t shape,
                          cudaStream_t stream)
{
    if (type == DTYPE_BF16)
        rope_launch<-1, bf16>(dqkv, table, shape, stream);
    else
        rope_launch<-1, float>(dqkv, table, shape, stream);
    return cudaGetLastError();
}
