/* attention_tensor_backward.cu: causal self-attention on matrix instructions, backward (kernels.h, tensor.cuh).
 *
 * With P the probabilities, kept or dropped, dP = dout V^T and dS = P (dP - delta):
 *     dV = P^T dout,    dK = dS^T Q / sqrt(D),    dQ = dS K / sqrt(D).
 * Two kernels make them, each from P of its own: one dQ, for tiles of queries, one dK and dV, for tiles of keys, where scores
 * are made transposed, so that they are left factors as they are. Whatever is summed up stays in one warp's registers: no
 * atomics, and an order that the shape gives. P, dS are rounded to bf16 for the products that follow.
 *
 * By ptxas (CUDA 13.0) for 8.0, 8.6, 8.9, 9.0, 10.0 and 12.0: queries, D 64: 167-216 registers, D 128: 234-244, 33 KiB of shared
 * memory; keys, D 64: 248-253 registers and 50 KiB, D 128: 253-255 and 65 KiB; nothing is spilled. (With D 128 the keys' kernel makes
 * scores of 16 queries at once: of all 32 that are at hand, 44 bytes were.) No GPU has run it. */
#include <math.h>

#include "attention.cuh"
#include "attention_tensor.cuh"

/* Arguments of the backward kernels. */
typedef struct tensor_backward {
    bf16 *dqkv;             /* [B,T,H+2KV,D] */
    float *delta;           /* [B,H,T]: sum over d of dout * out; made by the queries' kernel */
    const bf16 *dout, *out; /* [B,T,H,D] */
    const float *lse;       /* [B,H,T] */
    const bf16 *qkv;        /* [B,T,H+2KV,D] */
    int B, T, H, KV;
    float factor;
    mask_t mask;
} tensor_backward_t;

/* Rows on the other side of a block's 64 that are at hand at once: what registers and 48 KiB of shared memory (queries' kernel)
 * are enough for. */
template <int D> struct backward_step {
    enum { ROWS = D > 64 ? 32 : 64, AT_ONCE = D > 64 ? 16 : 64 /* of which the keys' kernel makes scores */ };
};

#if MATRIX_INSTRUCTIONS

/* delta of the warp's 16 rows into delta[16], 0 from `rows` on; eight lanes read a row. dout and out: the first row. */
template <int D>
static __device__ __forceinline__ void make_delta(float *delta, const bf16 *dout, const bf16 *out,
                                                  size_t stride, int rows)
{
    const int lane = block_lane();
    for (int first = 0; first < WARP_ROWS; first += 4) {
        const int row = first + lane / 8;
        float total = 0.0f;
        if (row < rows) {
            UNROLL
            for (int d = lane % 8 * 8; d < D; d += 64) {
                const uint4 a = *(const uint4 *)(dout + row * stride + d),
                            b = *(const uint4 *)(out + row * stride + d);
                const uint32_t aw[4] = {a.x, a.y, a.z, a.w}, bw[4] = {b.x, b.y, b.z, b.w};
                UNROLL
                for (int i = 0; i < 4; i++) {
                    total += __uint_as_float(aw[i] << 16) * __uint_as_float(bw[i] << 16);
                    total += __uint_as_float(aw[i] & 0xffff0000u) * __uint_as_float(bw[i] & 0xffff0000u);
                }
            }
        }
        UNROLL
        for (int o = 4; o > 0; o /= 2)
            total += __shfl_xor_sync(0xffffffffu, total, o);
        if (lane % 8 == 0)
            delta[row] = total;
    }
    __syncwarp();
}

/* s[16,KEYS], scores, becomes dS, from dp = dout V^T. ahead: as in attention_tensor.cu; kept: the warp's rows, or NULL. */
template <int KEYS>
static __device__ __forceinline__ void
gradient_by_query(float (&s)[KEYS / 8][4], const float (&dp)[KEYS / 8][4], const float (&lse)[2],
                  const float (&delta)[2], int ahead, const uint8_t *kept, float factor, float scale)
{
    UNROLL
    for (int half = 0; half < 2; half++) {
        const int row = lane_group() + 8 * half, last = row - ahead;
        UNROLL
        for (int n = 0; n < KEYS / 8; n++) {
            const int bits = kept ? kept[row * (KEYS / 4) + 2 * n + lane_pair() / 4] >> lane_pair() % 4 : 3;
            UNROLL
            for (int i = 0; i < 2; i++) {
                float *const x = &s[n][2 * half + i];
                const float probability = exp2f(fmaf(*x, factor, -lse[half]));
                const float gradient = bits >> i & 1 ? dp[n][2 * half + i] * scale : 0.0f;
                *x = 8 * n + lane_pair() + i > last ? 0.0f : probability * (gradient - delta[half]);
            }
        }
    }
}
#endif

/* dQ. A block: 64 queries of a head (grid as in the forward kernel); keys and values come in two places by turns, so that the
 * next ones are on their way while these are used. */
template <int D>
__global__ void __launch_bounds__(TENSOR_THREADS) attention_tensor_queries_kernel(tensor_backward_t p)
{
#if MATRIX_INSTRUCTIONS
    constexpr int QUERIES = TENSOR_ROWS, KEYS = backward_step<D>::ROWS, TILE = KEYS * D;
    __shared__ __align__(16) bf16 tiles[4 * TILE]; /* keys, values; twice */
    __shared__ uint8_t kept[QUERIES * KEYS / 4];
    __shared__ float deltas[QUERIES];
    const block_place_t place = attention_place(p.T, QUERIES, p.H);
    const int T = p.T, h = place.h, b = place.b, q0 = (ceil_div(T, QUERIES) - 1 - place.tile) * QUERIES,
              first = block_warp() * WARP_ROWS, last_key = smaller(q0 + QUERIES, T) - 1;
    const size_t bh = (size_t)b * p.H + h, out_stride = (size_t)p.H * D,
                 out_first = ((size_t)b * T + q0) * out_stride + (size_t)h * D;
    const tensor_head_t from = tensor_head(p.qkv, b, h, T, p.H, p.KV, D);

    tile_fetch<QUERIES, D>(tiles, from.q + q0 * from.stride, from.stride, T - q0);
    tile_fetch<QUERIES, D>(tiles + QUERIES * D, p.dout + out_first, out_stride, T - q0);
    cp_async_commit();
    make_delta<D>(deltas + first, p.dout + out_first + first * out_stride,
                  p.out + out_first + first * out_stride, out_stride, T - q0 - first);
    float lse[2], delta[2];
    UNROLL
    for (int half = 0; half < 2; half++) {
        const int row = first + lane_group() + 8 * half;
        lse[half] = q0 + row < T ? p.lse[bh * T + q0 + row] * (float)LOG2_E : 0.0f;
        delta[half] = deltas[row];
        if (lane_pair() == 0 && q0 + row < T)
            p.delta[bh * T + q0 + row] = delta[half];
    }
    cp_async_wait<0>();
    __syncthreads();
    uint32_t q[D / 16][4], dout[D / 16][4];
    left_factors<D>(q, tiles, first);
    left_factors<D>(dout, tiles + QUERIES * D, first);
    __syncthreads();

    float dq[D / 8][4];
    UNROLL
    for (int n = 0; n < D / 8; n++)
        dq[n][0] = dq[n][1] = dq[n][2] = dq[n][3] = 0.0f;
    tile_fetch<KEYS, D>(tiles, from.k, from.stride, T);
    tile_fetch<KEYS, D>(tiles + TILE, from.v, from.stride, T);
    cp_async_commit();
    for (int k0 = 0; k0 <= last_key; k0 += KEYS) {
        bf16 *const keys = tiles + (k0 / KEYS % 2 ? 2 * TILE : 0), *const other =
                                                                       tiles + (k0 / KEYS % 2 ? 0 : 2 * TILE);
        const int next = k0 + KEYS;
        if (next <= last_key) {
            tile_fetch<KEYS, D>(other, from.k + next * from.stride, from.stride, T - next);
            tile_fetch<KEYS, D>(other + TILE, from.v + next * from.stride, from.stride, T - next);
        }
        cp_async_commit(); /* an empty group is one, too */
        if (p.mask.threshold)
            fill_kept<QUERIES, KEYS>(kept, bh, T, q0, k0, p.mask);
        cp_async_wait<1>();
        __syncthreads();
        float s[KEYS / 8][4], dp[KEYS / 8][4];
        product_by_rows<D, KEYS>(s, q, keys);
        product_by_rows<D, KEYS>(dp, dout, keys + TILE);
        gradient_by_query<KEYS>(s, dp, lse, delta, k0 - q0 - first,
                                p.mask.threshold ? kept + first * (KEYS / 4) : NULL, p.factor, p.mask.scale);
        uint32_t ds[KEYS / 16][4];
        round_product<KEYS>(ds, s);
        add_product_by_columns<D, KEYS>(dq, ds, keys);
        __syncthreads();
    }
    const float factor[2] = {p.factor * (float)LN_2, p.factor * (float)LN_2};
    store_product<D>(p.dqkv + (from.q - p.qkv) + (size_t)(q0 + first) * from.stride, from.stride, dq, factor,
                     T - q0 - first);
#endif
}

/* ---- keys and values ---- */

/* Shared memory of the keys' kernel. */
template <int D> struct __align__(16) keys_shared
{
    enum { QUERIES = backward_step<D>::ROWS };
    bf16 keys[TENSOR_ROWS * D], values[TENSOR_ROWS * D];
    struct {
        bf16 queries[QUERIES * D], dout[QUERIES * D];
        float lse[QUERIES], delta[QUERIES];
    } step[2];
    uint8_t kept[QUERIES * TENSOR_ROWS / 4];
};

#if MATRIX_INSTRUCTIONS

/* Asks for queries q0 ... of head h. */
template <int D>
static __device__ __forceinline__ void fetch_queries(keys_shared<D> *shared, int which,
                                                     const tensor_backward_t &p, int b, int h, int q0)
{
    constexpr int QUERIES = keys_shared<D>::QUERIES;
    const tensor_head_t from = tensor_head(p.qkv, b, h, p.T, p.H, p.KV, D);
    const size_t out_stride = (size_t)p.H * D;
    const int rows = p.T - q0;
    tile_fetch<QUERIES, D>(shared->step[which].queries, from.q + q0 * from.stride, from.stride, rows);
    tile_fetch<QUERIES, D>(shared->step[which].dout,
                           p.dout + ((size_t)b * p.T + q0) * out_stride + (size_t)h * D, out_stride, rows);
    const int i = block_thread() % QUERIES;
    const size_t at = ((size_t)b * p.H + h) * p.T + q0 + (i < rows ? i : 0);
    if (block_thread() < QUERIES)
        cp_async_zfill_4(&shared->step[which].lse[i], p.lse + at, i < rows ? 4 : 0);
    else if (block_thread() < 2 * QUERIES)
        cp_async_zfill_4(&shared->step[which].delta[i], p.delta + at, i < rows ? 4 : 0);
}

/* s[16 keys,QUERIES], scores, becomes P; `first_query` is that of the tile less the warp's first key, and the tile's queries
 * from `rows` on do not exist. */
template <int QUERIES>
static __device__ __forceinline__ void probabilities_by_key(float (&s)[QUERIES / 8][4], const float *lse,
                                                            int first_query, int rows, float factor)
{
    UNROLL
    for (int n = 0; n < QUERIES / 8; n++) {
        UNROLL
        for (int i = 0; i < 4; i++) {
            const int query = 8 * n + lane_pair() + i % 2, key = lane_group() + 8 * (i / 2);
            const float x = exp2f(fmaf(s[n][i], factor, -lse[query] * (float)LOG2_E));
            s[n][i] = key <= first_query + query && query < rows ? x : 0.0f;
        }
    }
}

/* Of P what dropout keeps; kept: of the warp's first key. */
template <int QUERIES> static __device__ __forceinline__ bool keeps_key(const uint8_t *kept, int n, int i)
{
    const int query = 8 * n + lane_pair() + i % 2, key = lane_group() + 8 * (i / 2);
    return kept[query * (TENSOR_ROWS / 4) + key / 4] >> key % 4 & 1;
}

/* dV += P^T dout, dK += dS^T Q of some queries of a tile, from the tile's query `begin` on. first_query, rows: theirs. */
template <int D>
static __device__ __forceinline__ void add_queries(float (&dk)[D / 8][4], float (&dv)[D / 8][4],
                                                   keys_shared<D> *shared, int which, int begin,
                                                   const tensor_backward_t &p, int first_query, int rows)
{
    constexpr int QUERIES = backward_step<D>::AT_ONCE;
    auto *const step = &shared->step[which];
    const bf16 *const queries = step->queries + begin * D, *const dout = step->dout + begin * D;
    const float *const lse = step->lse + begin, *const delta = step->delta + begin;
    const int first = block_warp() * WARP_ROWS;
    const uint8_t *const kept = shared->kept + begin * (TENSOR_ROWS / 4) + first / 4;
    const bool dropping = p.mask.threshold != 0;
    float s[QUERIES / 8][4], dp[QUERIES / 8][4];
    product_by_rows<D, QUERIES>(s, shared->keys, first, queries);
    probabilities_by_key<QUERIES>(s, lse, first_query - first, rows, p.factor);
    UNROLL
    for (int n = 0; n < QUERIES / 8; n++) {
        UNROLL
        for (int i = 0; i < 4; i++)
            dp[n][i] = !dropping || keeps_key<QUERIES>(kept, n, i) ? s[n][i] : 0.0f;
    }
    uint32_t factors[QUERIES / 16][4];
    round_product<QUERIES>(factors, dp);
    add_product_by_columns<D, QUERIES>(dv, factors, dout);

    product_by_rows<D, QUERIES>(dp, shared->values, first, dout);
    UNROLL
    for (int n = 0; n < QUERIES / 8; n++) {
        UNROLL
        for (int i = 0; i < 4; i++) {
            const float gradient =
                !dropping || keeps_key<QUERIES>(kept, n, i) ? dp[n][i] * p.mask.scale : 0.0f;
            s[n][i] *= gradient - delta[8 * n + lane_pair() + i % 2];
        }
    }
    round_product<QUERIES>(factors, s);
    add_product_by_columns<D, QUERIES>(dk, factors, queries);
}
#endif

/* dK and dV. A block: 64 keys of a key head (attention_grid: of a head the first and longest first), 16 for each warp; from
 * the heads that share them, one after the other, tiles of queries from the diagonal on, in two places by turns. */
template <int D>
__global__ void __launch_bounds__(TENSOR_THREADS) attention_tensor_keys_kernel(tensor_backward_t p)
{
#if MATRIX_INSTRUCTIONS
    constexpr int QUERIES = keys_shared<D>::QUERIES, AT_ONCE = backward_step<D>::AT_ONCE, KEYS = TENSOR_ROWS;
    extern __shared__ __align__(16) unsigned char keys_shared_bytes[];
    keys_shared<D> *const shared = (keys_shared<D> *)keys_shared_bytes;
    const block_place_t place = attention_place(p.T, KEYS, p.KV);
    const int T = p.T, group = p.H / p.KV, h0 = place.h * group, b = place.b, k0 = place.tile * KEYS,
              tiles = ceil_div(T - k0, QUERIES), first = block_warp() * WARP_ROWS;
    const tensor_head_t from = tensor_head(p.qkv, b, h0, T, p.H, p.KV, D);

    tile_fetch<KEYS, D>(shared->keys, from.k + k0 * from.stride, from.stride, T - k0);
    tile_fetch<KEYS, D>(shared->values, from.v + k0 * from.stride, from.stride, T - k0);
    fetch_queries<D>(shared, 0, p, b, h0, k0);
    cp_async_commit();
    float dk[D / 8][4], dv[D / 8][4];
    UNROLL
    for (int n = 0; n < D / 8; n++)
        dk[n][0] = dk[n][1] = dk[n][2] = dk[n][3] = dv[n][0] = dv[n][1] = dv[n][2] = dv[n][3] = 0.0f;
    int h = h0, q0 = k0;
    for (int i = 0; i < group * tiles; i++) {
        const bool head_ends = q0 + QUERIES >= T;
        const int next_h = head_ends ? h + 1 : h, next_q0 = head_ends ? k0 : q0 + QUERIES;
        if (i + 1 < group * tiles)
            fetch_queries<D>(shared, (i + 1) % 2, p, b, next_h, next_q0);
        cp_async_commit(); /* an empty group is one, too */
        if (p.mask.threshold)
            fill_kept<QUERIES, KEYS>(shared->kept, (size_t)b * p.H + h, T, q0, k0, p.mask);
        cp_async_wait<1>();
        __syncthreads();
        _Pragma("unroll 1") /* registers are scarce */
            for (int begin = 0; begin < QUERIES; begin += AT_ONCE)
                add_queries<D>(dk, dv, shared, i % 2, begin, p, q0 + begin - k0, T - q0 - begin);
        __syncthreads();
        h = next_h;
        q0 = next_q0;
    }
    const float of_keys[2] = {p.factor * (float)LN_2, p.factor * (float)LN_2},
                of_values[2] = {p.mask.scale, p.mask.scale};
    const size_t row = (size_t)(k0 + first) * from.stride;
    store_product<D>(p.dqkv + (from.k - p.qkv) + row, from.stride, dk, of_keys, T - k0 - first);
    store_product<D>(p.dqkv + (from.v - p.qkv) + row, from.stride, dv, of_values, T - k0 - first);
#endif
}

/* ---- costs, launches ---- */

inline softgpu_cost_t tensor_backward_cost(int D, const tensor_backward_t &p, int products, double tensors)
{
    const double rows = (double)p.B * p.T, H = p.H, KV = p.KV;
    return softgpu_cost_t{rows * H * (p.T + 1) / 2 * 2 * products * D, SOFTGPU_BF16,
                          2 * rows * (tensors * H + 2 * KV) * D + 8 * rows * H};
}
template <int D> inline softgpu_cost_t tensor_queries_cost(dim3, dim3, tensor_backward_t p)
{
    return tensor_backward_cost(D, p, 3, 4); /* q, dout, out, dq */
}
template <int D> inline softgpu_cost_t tensor_keys_cost(dim3, dim3, tensor_backward_t p)
{
    return tensor_backward_cost(D, p, 4, 2 + 2.0 * p.KV / p.H); /* q, dout; dk, dv */
}
#define INSTANCE(D)                                                                                          \
    KERNEL_COST(tensor_queries_cost<D>, attention_tensor_queries_kernel<D>);                                 \
    KERNEL_COST(tensor_keys_cost<D>, attention_tensor_keys_kernel<D>)
INSTANCE(64);
INSTANCE(128);
#undef INSTANCE

template <int D> static cudaError_t launch(const tensor_backward_t *p, cudaStream_t stream)
{
    const unsigned queries = attention_grid(p->T, (int)TENSOR_ROWS, p->H, p->B),
                   keys = attention_grid(p->T, (int)TENSOR_ROWS, p->KV, p->B);
    const size_t bytes = sizeof(keys_shared<D>);
    const cudaError_t error = cudaFuncSetAttribute(attention_tensor_keys_kernel<D>,
                                                   cudaFuncAttributeMaxDynamicSharedMemorySize, (int)bytes);
    if (error != cudaSuccess)
        return error;
    attention_tensor_queries_kernel<D><<<counted(queries), TENSOR_THREADS, 0, stream>>>(*p);
    attention_tensor_keys_kernel<D><<<counted(keys), TENSOR_THREADS, bytes, stream>>>(*p);
    return cudaGetLastError();
}

size_t attention_tensor_backward_scratch(attention_shape_t s)
{
    return sizeof(float) * (size_t)s.B * (size_t)s.H * (size_t)s.T; /* delta */
}

cudaError_t attention_tensor_backward(void *dqkv, const void *dout, const void *out, const float *lse,
                                      const void *qkv, attention_shape_t s, dropout_t drop, void *scratch,
                                      cudaStream_t stream)
{
    const tensor_backward_t p = {(bf16 *)dqkv,
                                 (float *)scratch,
                                 (const bf16 *)dout,
                                 (const bf16 *)out,
                                 lse,
                                 (const bf16 *)qkv,
                                 s.B,
                                 s.T,
                                 s.H,
                                 s.KV,
                                 attention_factor(s.D),
                                 dropout_mask(drop)};
    return s.D == 64 ? launch<64>(&p, stream) : s.D == 128 ? launch<128>(&p, stream) : cudaErrorInvalidValue;
}
