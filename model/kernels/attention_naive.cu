/* attention_naive.cu: the pieces of the attention that stores its scores (kernels.h). */
#include <math.h>

#include "dropout.cuh"
#include "element.cuh"

/* The ways between [B,T,parts,D], parts of `heads` heads each, and [B,H,T,D]. */
typedef struct heads {
    void *together; /* [B,T,H+2KV,D], or [B,T,H,D] */
    void *apart[3]; /* [B,H,T,D] each */
    int N, T, H, KV, D, rows;
} heads_t;

/* A block takes `rows` rows of `together`, a warp one head's part of a row at a time. Of the parts the first one has H
 * heads, the others KV, each of which is that of H/KV heads apart: copied to all of them, or their sum, in order. */
template <int PARTS, bool APART, typename E> __global__ void heads_kernel(heads_t p)
{
    const int first = (int)blockIdx.x * p.rows, last = smaller(first + p.rows, p.N), D = p.D;
    const int all = PARTS == 1 ? p.H : p.H + 2 * p.KV;
    const size_t step = (size_t)p.T * D;
    for (int n = first; n < last; n++) {
        const size_t b = (size_t)(n / p.T), t = (size_t)(n % p.T);
        for (int i = block_warp(); i < all; i += block_warps()) {
            const int part = i < p.H ? 0 : i < p.H + p.KV ? 1 : 2;
            const int shared = part ? p.H / p.KV : 1, h = part ? (i - p.H) % p.KV * shared : i;
            E *const one = (E *)p.together + ((size_t)n * all + i) * D;
            E *const other = (E *)p.apart[part] + ((b * p.H + h) * p.T + t) * D;
            if (APART) {
                for (int k = 0; k < shared; k++) {
                    E *const to = other + k * step;
                    SIMD for (int d = block_lane(); d < D; d += LANES) to[d] = one[d];
                }
            } else {
                SIMD for (int d = block_lane(); d < D; d += LANES)
                {
                    float total = load_f(other[d]);
                    for (int k = 1; k < shared; k++)
                        total += load_f(other[k * step + d]);
                    store_f(one + d, total);
                }
            }
        }
    }
}

template <typename E> inline softgpu_cost_t three_parts_cost(dim3, dim3, heads_t p)
{
    return launch_cost(0, as_floats<E>((4.0 * p.H + 2.0 * p.KV) * p.N * p.D));
}
template <typename E> inline softgpu_cost_t one_part_cost(dim3, dim3, heads_t p)
{
    return launch_cost(0, as_floats<E>(2.0 * p.H * p.N * p.D));
}
#define INSTANCE(E)                                                                                          \
    INDEPENDENT_KERNEL(three_parts_cost<E>, heads_kernel<3, true, E>);                                       \
    INDEPENDENT_KERNEL(three_parts_cost<E>, heads_kernel<3, false, E>);                                      \
    INDEPENDENT_KERNEL(one_part_cost<E>, heads_kernel<1, true, E>);                                          \
    INDEPENDENT_KERNEL(one_part_cost<E>, heads_kernel<1, false, E>)
FOR_TYPES(INSTANCE);
#undef INSTANCE

template <int PARTS, bool APART>
static void heads_launch(dtype_t type, void *together, void *first, void *second, void *third,
                         attention_shape_t s, cudaStream_t stream)
{
    const int rows = rows_per_block((PARTS == 1 ? s.H : s.H + 2 * s.KV) * s.D);
    const heads_t p = {together, {first, second, third}, s.B * s.T, s.T, s.H, s.KV, s.D, rows};
    const unsigned blocks = (unsigned)ceil_div(p.N, p.rows);
    if (type == DTYPE_BF16)
        heads_kernel<PARTS, APART, bf16><<<counted(blocks), BLOCK_THREADS, 0, stream>>>(p);
    else
        heads_kernel<PARTS, APART, float><<<counted(blocks), BLOCK_THREADS, 0, stream>>>(p);
}

cudaError_t attention_split(dtype_t type, void *q, void *k, void *v, const void *qkv, attention_shape_t s,
                            cudaStream_t stream)
{
    heads_launch<3, true>(type, (void *)qkv, q, k, v, s, stream);
    return cudaGetLastError();
}

cudaError_t attention_merge(dtype_t type, void *dqkv, const void *dq, const void *dk, const void *dv,
                            attention_shape_t s, cudaStream_t stream)
{
    heads_launch<3, false>(type, dqkv, (void *)dq, (void *)dk, (void *)dv, s, stream);
    return cudaGetLastError();
}

cudaError_t attention_heads(dtype_t type, void *out, const void *y, attention_shape_t s, cudaStream_t stream)
{
    heads_launch<1, false>(type, out, (void *)y, NULL, NULL, s, stream);
    return cudaGetLastError();
}

cudaError_t attention_unheads(dtype_t type, void *y, const void *out, attention_shape_t s,
                              cudaStream_t stream)
{
    heads_launch<1, true>(type, (void *)out, y, NULL, NULL, s, stream);
    return cudaGetLastError();
}

/* to[rows of T] = from * dropout, rows first ... last - 1 of [B,H,T,T], by a block. */
template <typename TO, typename FROM>
static __device__ __forceinline__ void drop_rows(TO *to, const FROM *from, float *keep, size_t first,
                                                 int count, int T, mask_t mask)
{
    const size_t end = (first + count) * T;
    for (size_t at = first * T; at < end; at += KEEP) {
        const int n = end - at < KEEP ? (int)(end - at) : (int)KEEP;
        const int lead = dropout_fill(keep, at, n, mask);
        SIMD for (int i = block_thread(); i < n; i += block_threads())
            store_f(to + at + i, load_f(from[at + i]) * keep[lead + i]);
    }
    __syncthreads();
}

/* A block takes `rows` rows of scores[B*H*T, T], which it overwrites, a warp one at a time. probs may be scores. */
template <bool DROPOUT, typename E>
__global__ void causal_softmax_forward_kernel(E *probs, E *dropped, float *scores, float scale, size_t N,
                                              int T, int rows, mask_t mask)
{
    __shared__ float shared[DROPOUT ? KEEP + 8 : 1];
    float *const keep = shared_pointer(shared);
    const size_t first = (size_t)blockIdx.x * rows;
    const int count = N - first < (size_t)rows ? (int)(N - first) : rows;
    for (int i = block_warp(); i < count; i += block_warps()) {
        const size_t row = (first + i) * T;
        const int n = (int)((first + i) % T) + 1; /* keys that this query sees */
        float *const s = scores + row;
        E *const p = probs + row;
        float most = -INFINITY;
        SIMD_MAX(most)
        for (int j = block_lane(); j < n; j += LANES)
            most = larger(s[j], most);
        most = warp_max(most);
        float total = 0.0f;
        SIMD_SUM(total)
        for (int j = block_lane(); j < n; j += LANES) {
            const float e = expf(scale * (s[j] - most));
            s[j] = e;
            total += e;
        }
        const float inverse = 1.0f / warp_sum(total);
        SIMD for (int j = block_lane(); j < n; j += LANES) store_f(p + j, s[j] * inverse);
        SIMD for (int j = n + block_lane(); j < T; j += LANES) store_f(p + j, 0.0f);
    }
    if (DROPOUT) {
        __syncthreads();
        drop_rows(dropped, (const E *)probs, keep, first, count, T, mask);
    }
}

/* Half of the scores are read, all probabilities written. */
template <typename E>
inline softgpu_cost_t softmax_forward_cost(dim3, dim3, E *, E *dropped, float *, float, size_t N, int T, int,
                                           mask_t)
{
    const double elements = (double)N * T;
    return launch_cost(3 * elements, 0.5 * elements + as_floats<E>((dropped ? 2.0 : 1.0) * elements));
}

/* As forward. With g = dropout(ddropped): dscores = scale probs (g - sum over the row of g probs). ddropped is
 * overwritten. */
template <bool DROPOUT, typename E>
__global__ void causal_softmax_backward_kernel(E *dscores, float *ddropped, const E *__restrict__ probs,
                                               float scale, size_t N, int T, int rows, mask_t mask)
{
    __shared__ float shared[DROPOUT ? KEEP + 8 : 1];
    float *const keep = shared_pointer(shared);
    const size_t first = (size_t)blockIdx.x * rows;
    const int count = N - first < (size_t)rows ? (int)(N - first) : rows;
    if (DROPOUT)
        drop_rows(ddropped, (const float *)ddropped, keep, first, count, T, mask);
    for (int i = block_warp(); i < count; i += block_warps()) {
        const size_t row = (first + i) * T;
        const int n = (int)((first + i) % T) + 1;
        const float *const g = ddropped + row;
        const E *const p = probs + row;
        E *const ds = dscores + row;
        float total = 0.0f;
        SIMD_SUM(total)
        for (int j = block_lane(); j < n; j += LANES)
            total += g[j] * load_f(p[j]);
        total = warp_sum(total);
        SIMD for (int j = block_lane(); j < n; j += LANES)
            store_f(ds + j, scale * load_f(p[j]) * (g[j] - total));
        SIMD for (int j = n + block_lane(); j < T; j += LANES) store_f(ds + j, 0.0f);
    }
}

template <typename E>
inline softgpu_cost_t softmax_backward_cost(dim3, dim3, E *, float *, const E *, float, size_t N, int T, int,
                                            mask_t)
{
    const double elements = (double)N * T;
    return launch_cost(3 * elements, 0.5 * elements + as_floats<E>(1.5 * elements));
}
#define INSTANCE(DROPOUT, E)                                                                                 \
    INDEPENDENT_KERNEL(softmax_forward_cost<E>, causal_softmax_forward_kernel<DROPOUT, E>);                  \
    INDEPENDENT_KERNEL(softmax_backward_cost<E>, causal_softmax_backward_kernel<DROPOUT, E>)
FOR_FLAGS(INSTANCE);
#undef INSTANCE

typedef struct softmax {
    size_t N;
    int T, rows;
    unsigned blocks;
    mask_t mask;
} softmax_t;

static softmax_t softmax_of(int B, int H, int T, dropout_t drop)
{
    const size_t N = (size_t)B * (size_t)H * (size_t)T;
    const int rows = rows_per_block(T);
    const softmax_t s = {N, T, rows, (unsigned)ceil_div(N, (size_t)rows), dropout_mask(drop)};
    return s;
}

template <typename E>
static void forward_launch(void *probs, void *dropped, float *scores, float scale, softmax_t s,
                           cudaStream_t stream)
{
    if (s.mask.threshold)
        causal_softmax_forward_kernel<true, E><<<counted(s.blocks), BLOCK_THREADS, 0, stream>>>(
            (E *)probs, (E *)dropped, scores, scale, s.N, s.T, s.rows, s.mask);
    else
        causal_softmax_forward_kernel<false, E><<<counted(s.blocks), BLOCK_THREADS, 0, stream>>>(
            (E *)probs, NULL, scores, scale, s.N, s.T, s.rows, s.mask);
}

cudaError_t causal_softmax_forward(dtype_t type, void *probs, void *dropped, float *scores, float scale,
                                   int B, int H, int T, dropout_t drop, cudaStream_t stream)
{
    FOR_DTYPE(type, forward_launch, probs, dropped, scores, scale, softmax_of(B, H, T, drop), stream);
    return cudaGetLastError();
}

template <typename E>
static void backward_launch(void *dscores, float *ddropped, const void *probs, float scale, softmax_t s,
                            cudaStream_t stream)
{
    if (s.mask.threshold)
        causal_softmax_backward_kernel<true, E><<<counted(s.blocks), BLOCK_THREADS, 0, stream>>>(
            (E *)dscores, ddropped, (const E *)probs, scale, s.N, s.T, s.rows, s.mask);
    else
        causal_softmax_backward_kernel<false, E><<<counted(s.blocks), BLOCK_THREADS, 0, stream>>>(
            (E *)dscores, ddropped, (const E *)probs, scale, s.N, s.T, s.rows, s.mask);
}

cudaError_t causal_softmax_backward(dtype_t type, void *dscores, float *ddropped, const void *probs,
                                    float scale, int B, int H, int T, dropout_t drop, cudaStream_t stream)
{
    FOR_DTYPE(type, backward_launch, dscores, ddropped, probs, scale, softmax_of(B, H, T, drop), stream);
    return cudaGetLastError();
}
