/* attention_next.cu: attention of a text's newest token, over keys and values that are kept (kernels.h). */
#include <math.h>

#include "element.cuh"
#include "kernels.h"

enum { NEXT_THREADS = 128, NEXT_KEYS = 512 /* whose scores a block holds at a time */ };

/* A block takes one head. Tiles of keys with a running maximum and sum, as attention.cu: the time goes with `count`, the
 * memory does not. */
template <typename E>
__global__ void __launch_bounds__(NEXT_THREADS)
    attention_next_kernel(E *__restrict__ out,         /* [H,D] */
                          const E *__restrict__ q,     /* [H,D] */
                          const E *__restrict__ cache, /* [count,2KV,D]: keys, then values of a token */
                          int count, int H, int KV, int D, float scale)
{
    __shared__ float shared[NEXT_KEYS + 2 * ATTENTION_HEAD_MAX];
    float *const s = shared_pointer(shared), *const query = s + NEXT_KEYS,
                 *const o = query + ATTENTION_HEAD_MAX;
    const int h = (int)blockIdx.x, kv = h / (H / KV);
    const size_t stride = 2 * (size_t)KV * D;
    const E *const keys = cache + (size_t)kv * D, *const values = keys + (size_t)KV * D;
    float most = -INFINITY, total = 0.0f;

    SIMD for (int d = block_thread(); d < D; d += block_threads())
    {
        query[d] = load_f(q[(size_t)h * D + d]) * scale;
        o[d] = 0.0f;
    }
    for (int k0 = 0; k0 < count; k0 += NEXT_KEYS) {
        const int n = smaller(NEXT_KEYS, count - k0);
        __syncthreads();
        for (int k = block_warp(); k < n; k += block_warps()) {
            const E *const key = keys + (size_t)(k0 + k) * stride;
            float dot = 0.0f;
            SIMD_SUM(dot)
            for (int d = block_lane(); d < D; d += LANES)
                dot += query[d] * load_f(key[d]);
            dot = warp_sum(dot);
            if (block_lane() == 0)
                s[k] = dot;
        }
        __syncthreads();
        float now = most, sum = 0.0f;
        SIMD_MAX(now)
        for (int k = block_thread(); k < n; k += block_threads())
            now = larger(s[k], now);
        now = block_max(now);
        SIMD_SUM(sum)
        for (int k = block_thread(); k < n; k += block_threads()) {
            const float e = expf(s[k] - now);
            s[k] = e;
            sum += e;
        }
        const float shrink = expf(most - now);
        total = total * shrink + block_sum(sum);
        most = now;
        __syncthreads();
        SIMD for (int d = block_thread(); d < D; d += block_threads()) o[d] *= shrink;
        for (int k = 0; k < n; k++) {
            const E *const value = values + (size_t)(k0 + k) * stride;
            SIMD for (int d = block_thread(); d < D; d += block_threads()) o[d] += s[k] * load_f(value[d]);
        }
    }
    const float inverse = 1.0f / total;
    SIMD for (int d = block_thread(); d < D; d += block_threads())
        store_f(out + (size_t)h * D + d, o[d] * inverse);
}

template <typename E>
inline softgpu_cost_t attention_next_cost(dim3, dim3, E *, const E *, const E *, int count, int H, int KV,
                                          int D, float)
{
    return launch_cost(4.0 * count * H * D, as_floats<E>(2.0 * count * KV * D + 2.0 * H * D));
}
#define INSTANCE(E) INDEPENDENT_KERNEL(attention_next_cost<E>, attention_next_kernel<E>)
FOR_TYPES(INSTANCE);
#undef INSTANCE

template <typename E>
static void launch(void *out, const void *q, const void *cache, int count, attention_shape_t s,
                   cudaStream_t stream)
{
    attention_next_kernel<E><<<counted((unsigned)s.H), NEXT_THREADS, 0, stream>>>(
        (E *)out, (const E *)q, (const E *)cache, count, s.H, s.KV, s.D, 1.0f / sqrtf((float)s.D));
}

cudaError_t attention_next(dtype_t type, void *out, const void *q, const void *cache, int count,
                           attention_shape_t shape, cudaStream_t stream)
{
    FOR_DTYPE(type, launch, out, q, cache, count, shape, stream);
    return cudaGetLastError();
}
