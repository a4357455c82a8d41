/* attention_naive.cu: the pieces of the attention that stores its scores (kernels.h). */
#include <math.h>

#include "dropout.cuh"

/* The ways between [B,T,parts,H,D] and [B,H,T,D]. */
typedef struct heads {
    float *together; /* [B,T,parts,H,D] */
    float *apart[3]; /* [B,H,T,D] each */
    int N, T, H, D, rows;
} heads_t;

/* A block takes `rows` rows of `together`, a warp one head's part of a row at a time. */
template <int PARTS, bool APART> __global__ void heads_kernel(heads_t p)
{
    const int first = (int)blockIdx.x * p.rows, last = smaller(first + p.rows, p.N), D = p.D;
    for (int n = first; n < last; n++) {
        const size_t b = (size_t)(n / p.T), t = (size_t)(n % p.T);
        for (int part = 0; part < PARTS; part++) {
            for (int h = block_warp(); h < p.H; h += block_warps()) {
                float *const one = p.together + (((size_t)n * PARTS + part) * p.H + h) * D;
                float *const other = p.apart[part] + ((b * p.H + h) * p.T + t) * D;
                const float *const from = APART ? one : other;
                float *const to = APART ? other : one;
                SIMD for (int d = block_lane(); d < D; d += LANES) to[d] = from[d];
            }
        }
    }
}
BLOCK_SIZE_INDEPENDENT(heads_kernel<3, true>);
BLOCK_SIZE_INDEPENDENT(heads_kernel<3, false>);
BLOCK_SIZE_INDEPENDENT(heads_kernel<1, true>);
BLOCK_SIZE_INDEPENDENT(heads_kernel<1, false>);

template <int PARTS> inline softgpu_cost_t heads_cost(dim3, dim3, heads_t p)
{
    return launch_cost(0, 2.0 * PARTS * p.N * p.H * p.D);
}
KERNEL_COST(heads_cost<3>, heads_kernel<3, true>);
KERNEL_COST(heads_cost<3>, heads_kernel<3, false>);
KERNEL_COST(heads_cost<1>, heads_kernel<1, true>);
KERNEL_COST(heads_cost<1>, heads_kernel<1, false>);

static unsigned heads_blocks(const heads_t *p)
{
    return (unsigned)ceil_div(p->N, p->rows);
}

cudaError_t attention_split(float *q, float *k, float *v, const float *qkv, int B, int T, int H, int D,
                            cudaStream_t stream)
{
    const heads_t p = {(float *)qkv, {q, k, v}, B * T, T, H, D, rows_per_block(3 * H * D)};
    heads_kernel<3, true><<<heads_blocks(&p), BLOCK_THREADS, 0, stream>>>(p);
    return cudaGetLastError();
}

cudaError_t attention_merge(float *dqkv, const float *dq, const float *dk, const float *dv, int B, int T,
                            int H, int D, cudaStream_t stream)
{
    const heads_t p = {
        dqkv, {(float *)dq, (float *)dk, (float *)dv}, B * T, T, H, D, rows_per_block(3 * H * D)};
    heads_kernel<3, false><<<heads_blocks(&p), BLOCK_THREADS, 0, stream>>>(p);
    return cudaGetLastError();
}

cudaError_t attention_heads(float *out, const float *y, int B, int T, int H, int D, cudaStream_t stream)
{
    const heads_t p = {out, {(float *)y, NULL, NULL}, B * T, T, H, D, rows_per_block(H * D)};
    heads_kernel<1, false><<<heads_blocks(&p), BLOCK_THREADS, 0, stream>>>(p);
    return cudaGetLastError();
}

cudaError_t attention_unheads(float *y, const float *out, int B, int T, int H, int D, cudaStream_t stream)
{
    const heads_t p = {(float *)out, {y, NULL, NULL}, B * T, T, H, D, rows_per_block(H * D)};
    heads_kernel<1, true><<<heads_blocks(&p), BLOCK_THREADS, 0, stream>>>(p);
    return cudaGetLastError();
}

/* to[rows of T] = from * dropout, rows first ... last - 1 of [B,H,T,T], by a block. */
static __device__ __forceinline__ void drop_rows(float *to, const float *from, float *keep, size_t first,
                                                 int count, int T, mask_t mask)
{
    const size_t end = (first + count) * T;
    for (size_t at = first * T; at < end; at += KEEP) {
        const int n = end - at < KEEP ? (int)(end - at) : (int)KEEP;
        const int lead = dropout_fill(keep, at, n, mask);
        SIMD for (int i = block_thread(); i < n; i += block_threads()) to[at + i] =
            from[at + i] * keep[lead + i];
    }
    __syncthreads();
}

/* A block takes `rows` rows of scores[B*H*T, T], a warp one at a time. probs may be scores. */
template <bool DROPOUT>
__global__ void causal_softmax_forward_kernel(float *probs, float *dropped, const float *scores, float scale,
                                              size_t N, int T, int rows, mask_t mask)
{
    __shared__ float shared[DROPOUT ? KEEP + 8 : 1];
    float *const keep = shared_pointer(shared);
    const size_t first = (size_t)blockIdx.x * rows;
    const int count = N - first < (size_t)rows ? (int)(N - first) : rows;
    for (int i = block_warp(); i < count; i += block_warps()) {
        const size_t row = (first + i) * T;
        const int n = (int)((first + i) % T) + 1; /* keys that this query sees */
        const float *const s = scores + row;
        float *const p = probs + row;
        float most = -INFINITY;
        SIMD_MAX(most)
        for (int j = block_lane(); j < n; j += LANES)
            most = larger(s[j], most);
        most = warp_max(most);
        float total = 0.0f;
        SIMD_SUM(total)
        for (int j = block_lane(); j < n; j += LANES) {
            const float e = expf(scale * (s[j] - most));
            p[j] = e;
            total += e;
        }
        const float inverse = 1.0f / warp_sum(total);
        SIMD for (int j = block_lane(); j < n; j += LANES) p[j] *= inverse;
        SIMD for (int j = n + block_lane(); j < T; j += LANES) p[j] = 0.0f;
    }
    if (DROPOUT) {
        __syncthreads();
        drop_rows(dropped, probs, keep, first, count, T, mask);
    }
}
BLOCK_SIZE_INDEPENDENT(causal_softmax_forward_kernel<false>);
BLOCK_SIZE_INDEPENDENT(causal_softmax_forward_kernel<true>);

/* Half of the scores are read, all probabilities written. */
template <bool DROPOUT>
inline softgpu_cost_t softmax_forward_cost(dim3, dim3, float *, float *, const float *, float, size_t N,
                                           int T, int, mask_t)
{
    const double elements = (double)N * T;
    return launch_cost(3 * elements, (DROPOUT ? 2.5 : 1.5) * elements);
}
KERNEL_COST(softmax_forward_cost<false>, causal_softmax_forward_kernel<false>);
KERNEL_COST(softmax_forward_cost<true>, causal_softmax_forward_kernel<true>);

cudaError_t causal_softmax_forward(float *probs, float *dropped, const float *scores, float scale, int B,
                                   int H, int T, dropout_t drop, cudaStream_t stream)
{
    const size_t N = (size_t)B * (size_t)H * (size_t)T;
    const int rows = rows_per_block(T);
    const unsigned blocks = (unsigned)ceil_div(N, (size_t)rows);
    const mask_t mask = dropout_mask(drop);
    if (mask.threshold)
        causal_softmax_forward_kernel<true>
            <<<blocks, BLOCK_THREADS, 0, stream>>>(probs, dropped, scores, scale, N, T, rows, mask);
    else
        causal_softmax_forward_kernel<false>
            <<<blocks, BLOCK_THREADS, 0, stream>>>(probs, dropped, scores, scale, N, T, rows, mask);
    return cudaGetLastError();
}

/* As forward. With g = dropout(ddropped): dscores = scale probs (g - sum over the row of g probs). */
template <bool DROPOUT>
__global__ void causal_softmax_backward_kernel(float *dscores, const float *ddropped,
                                               const float *__restrict__ probs, float scale, size_t N, int T,
                                               int rows, mask_t mask)
{
    __shared__ float shared[DROPOUT ? KEEP + 8 : 1];
    float *const keep = shared_pointer(shared);
    const size_t first = (size_t)blockIdx.x * rows;
    const int count = N - first < (size_t)rows ? (int)(N - first) : rows;
    if (DROPOUT)
        drop_rows(dscores, ddropped, keep, first, count, T, mask);
    const float *const dprobs = DROPOUT ? dscores : ddropped;
    for (int i = block_warp(); i < count; i += block_warps()) {
        const size_t row = (first + i) * T;
        const int n = (int)((first + i) % T) + 1;
        const float *const g = dprobs + row, *const p = probs + row;
        float *const ds = dscores + row;
        float total = 0.0f;
        SIMD_SUM(total)
        for (int j = block_lane(); j < n; j += LANES)
            total += g[j] * p[j];
        total = warp_sum(total);
        SIMD for (int j = block_lane(); j < n; j += LANES) ds[j] = scale * p[j] * (g[j] - total);
        SIMD for (int j = n + block_lane(); j < T; j += LANES) ds[j] = 0.0f;
    }
}
BLOCK_SIZE_INDEPENDENT(causal_softmax_backward_kernel<false>);
BLOCK_SIZE_INDEPENDENT(causal_softmax_backward_kernel<true>);

inline softgpu_cost_t softmax_backward_cost(dim3, dim3, float *, const float *, const float *, float,
                                            size_t N, int T, int, mask_t)
{
    const double elements = (double)N * T;
    return launch_cost(3 * elements, 2 * elements);
}
KERNEL_COST(softmax_backward_cost, causal_softmax_backward_kernel<false>);
KERNEL_COST(softmax_backward_cost, causal_softmax_backward_kernel<true>);

cudaError_t causal_softmax_backward(float *dscores, const float *ddropped, const float *probs, float scale,
                                    int B, int H, int T, dropout_t drop, cudaStream_t stream)
{
    const size_t N = (size_t)B * (size_t)H * (size_t)T;
    const int rows = rows_per_block(T);
    const unsigned blocks = (unsigned)ceil_div(N, (size_t)rows);
    const mask_t mask = dropout_mask(drop);
    if (mask.threshold)
        causal_softmax_backward_kernel<true>
            <<<blocks, BLOCK_THREADS, 0, stream>>>(dscores, ddropped, probs, scale, N, T, rows, mask);
    else
        causal_softmax_backward_kernel<false>
            <<<blocks, BLOCK_THREADS, 0, stream>>>(dscores, ddropped, probs, scale, N, T, rows, mask);
    return cudaGetLastError();
}
