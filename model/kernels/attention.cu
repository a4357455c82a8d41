/* attention.cu: causal self-attention, forward (kernels.h, attention.cuh). */
#include <math.h>

#include "attention.cuh"

/* Arguments of the forward kernel; out and qkv of elements E. */
typedef struct forward {
    void *out;       /* [B,T,H,D] */
    float *lse;      /* [B,H,T] */
    const void *qkv; /* [B,T,H+2KV,D] */
    int B, T, H, KV, D;
    float factor;
    mask_t mask;
} forward_t;

template <int DP> struct __align__(64) forward_tiles
{
    using shape = forward_shape<DP>;
    float q[shape::QUERIES * shape::Q_LD];
#ifdef __SOFTGPU_FAST__
    float q_columns[DP * shape::QUERIES];
#endif
    float kv[shape::KEYS * DP]; /* keys, then values */
    float s[shape::KEYS * shape::QUERIES];
    float keep[shape::KEYS * shape::QUERIES]; /* of dropout */
    float o[shape::QUERIES * DP];
    float part[shape::KEYS / shape::ROWS * shape::QUERIES]; /* a maximum or sum for each block of scores */
    float running_max[shape::QUERIES], running_sum[shape::QUERIES], shrink[shape::QUERIES];
};

/* One block: SLICE queries of one head (attention_grid: of a head the last and longest first). For each tile of
 * keys:
 *   1. scores S[key][query], and their maxima over the keys of each block of rows
 *   2. new running maximum m, and by how much the old sums shrink
 *   3. S becomes the probabilities (up to 1/l), and their sums
 *   4. O[query][d] = shrunk O + S^T V
 * Blocks of scores right of the diagonal are skipped; the reads of 4 end before them. */
template <int DP, typename E>
__global__ void __launch_bounds__(ATTENTION_THREADS) attention_forward_kernel(forward_t p)
{
    using shape = forward_shape<DP>;
    constexpr int QUERIES = shape::QUERIES, KEYS = shape::KEYS, ROWS = shape::ROWS, VECS = shape::VECS;
    constexpr int SPAN = VECS * WIDTH; /* a block of scores: ROWS keys x SPAN queries */
    constexpr int OUT_ROWS = shape::OUT_ROWS, OUT_VECS = DP / WIDTH < 2 ? 1 : 2;
    __shared__ forward_tiles<DP> shared;
    forward_tiles<DP> *const tiles = shared_pointer(&shared);
    float *const q_tile = tiles->q, *const kv_tile = tiles->kv, *const s_tile = tiles->s,
                 *const keep = tiles->keep, *const o_tile = tiles->o, *const part = tiles->part,
                 *const running_max = tiles->running_max, *const running_sum = tiles->running_sum,
                 *const shrink = tiles->shrink;
    const block_place_t place = attention_place(p.T, SLICE, p.H);
    const int T = p.T, D = p.D, h = place.h, b = place.b;
    const int group = p.H / p.KV; /* heads that share keys and values */
    const size_t stride = ((size_t)p.H + 2 * (size_t)p.KV) * D, bh = (size_t)b * p.H + h;
    const E *const sequence = (const E *)p.qkv + (size_t)b * T * stride, *const qkv =
                                                                             sequence + (size_t)h * D;
    const E *const keys_of_head = sequence + ((size_t)p.H + h / group) * D, *const values_of_head =
                                                                                keys_of_head +
                                                                                (size_t)p.KV * D;
    E *const out = (E *)p.out + ((size_t)b * T * p.H + h) * D;
    const size_t out_stride = (size_t)p.H * D;
    const int slice = (ceil_div(T, SLICE) - 1 - place.tile) * SLICE, slice_end = smaller(slice + SLICE, T);
#ifdef __SOFTGPU_FAST__
    float *const q_columns = tiles->q_columns;
    constexpr int Q_K = QUERIES, Q_LANE = 1, KEEP_ROWS = 4;
#else
    float *const q_columns = q_tile;
    constexpr int Q_K = 1, Q_LANE = shape::Q_LD, KEEP_ROWS = ROWS; /* those of a last block are all read */
#endif

    for (int q0 = slice; q0 < slice_end; q0 += QUERIES) {
        const int queries = smaller(QUERIES, T - q0), last_key = q0 + queries - 1;
        __syncthreads();
        tile_prefetch<0>(keys_of_head, stride, smaller(KEYS, last_key + 1), D);
        tile_load<QUERIES, DP, shape::Q_LD>(q_tile, qkv + (size_t)q0 * stride, stride, queries, D, p.factor);
#ifdef __SOFTGPU_FAST__
        tile_transpose<QUERIES, DP, shape::Q_LD>(q_columns, q_tile, queries);
#endif
        for (int q = block_thread(); q < QUERIES; q += block_threads()) {
            running_max[q] = -INFINITY;
            running_sum[q] = 0.0f;
        }
        const int spans = (queries + SPAN - 1) / SPAN;

        for (int k0 = 0; k0 <= last_key; k0 += KEYS) {
            const int keys = smaller(KEYS, last_key + 1 - k0), groups = (keys + ROWS - 1) / ROWS;
            __syncthreads(); /* of the last tile: V is read */
            tile_load<KEYS, DP, DP>(kv_tile, keys_of_head + (size_t)k0 * stride, stride, keys, D, 1.0f);
            tile_prefetch<0>(values_of_head + (size_t)k0 * stride, stride, keys, D);
            if (p.mask.threshold)
                attention_keep<QUERIES>(keep, bh, T, q0, k0, (keys + KEEP_ROWS - 1) / KEEP_ROWS * KEEP_ROWS,
                                        p.mask);
            __syncthreads();

            for (int block = block_warp(); block < groups * spans; block += block_warps()) {
                const int k = block / spans * ROWS, q = block % spans * SPAN;
                float *const s = s_tile + k * QUERIES + q;
                if (k0 + k > q0 + q + SPAN - 1) {
                    UNROLL
                    for (int v = 0; v < VECS; v++)
                        vec_store(part + k / ROWS * QUERIES + q + v * WIDTH, vec_all(-INFINITY));
                    continue;
                }
                vec acc[ROWS][VECS];
                tile_clear(acc);
                tile_product<DP, 1, Q_K, Q_LANE>(acc, kv_tile + k * DP, q_columns + q * Q_LANE, DP);
                if (k0 + k + ROWS - 1 > q0 + q) { /* the diagonal runs through */
                    UNROLL
                    for (int v = 0; v < VECS; v++) {
                        const int_vec visible = vec_lanes() + (q0 + q + v * WIDTH - k0 - k);
                        UNROLL
                        for (int r = 0; r < ROWS; r++)
                            acc[r][v] = visible < r ? vec_all(-INFINITY) : acc[r][v];
                    }
                }
                UNROLL
                for (int v = 0; v < VECS; v++) {
                    vec most = acc[0][v];
                    UNROLL
                    for (int r = 0; r < ROWS; r++) {
                        vec_store(s + r * QUERIES + v * WIDTH, acc[r][v]);
                        most = vec_larger(acc[r][v], most);
                    }
                    vec_store(part + k / ROWS * QUERIES + q + v * WIDTH, most);
                }
            }
            __syncthreads();

            for (int q = block_warp() * WIDTH; q < spans * SPAN; q += block_warps() * WIDTH) {
                const vec before = vec_load(running_max + q);
                vec now = before;
                for (int g = 0; g < groups; g++)
                    now = vec_larger(now, vec_load(part + g * QUERIES + q));
                const vec alpha = vec_exp2(before - now);
                vec_store(running_max + q, now);
                vec_store(shrink + q, alpha);
                vec_store(running_sum + q, vec_load(running_sum + q) * alpha);
            }
            /* K has been read: V takes its place. */
            tile_load<KEYS, DP, DP>(kv_tile, values_of_head + (size_t)k0 * stride, stride, keys, D, 1.0f);
            if (k0 + KEYS <= last_key)
                tile_prefetch<0>(keys_of_head + (size_t)(k0 + KEYS) * stride, stride,
                                 smaller(KEYS, last_key + 1 - k0 - KEYS), D);
            else
                tile_prefetch<1>(out + (size_t)q0 * out_stride, out_stride, queries, D);
            __syncthreads();

            for (int block = block_warp(); block < groups * spans; block += block_warps()) {
                const int k = block / spans * ROWS, q = block % spans * SPAN;
                const bool hidden = k0 + k > q0 + q + SPAN - 1, diagonal = k0 + k + ROWS - 1 > q0 + q;
                UNROLL
                for (int v = 0; v < VECS; v++) {
                    const int i = q + v * WIDTH;
                    const int_vec visible = vec_lanes() + (q0 + i - k0 - k);
                    const vec most = vec_load(running_max + i);
                    vec total = vec_all(0.0f);
                    if (!hidden) {
                        UNROLL
                        for (int r = 0; r < ROWS; r++) {
                            float *const s = s_tile + (k + r) * QUERIES + i;
                            vec x = vec_exp2(vec_load(s) - most);
                            if (diagonal)
                                x = visible < r ? vec_all(0.0f) : x;
                            total += x;
                            if (p.mask.threshold)
                                x *= vec_load(keep + (k + r) * QUERIES + i);
                            vec_store(s, x);
                        }
                    }
                    vec_store(part + k / ROWS * QUERIES + i, total);
                }
            }
            __syncthreads();

            for (int q = block_warp() * WIDTH; q < spans * SPAN; q += block_warps() * WIDTH) {
                vec total = vec_load(running_sum + q);
                for (int g = 0; g < groups; g++)
                    total += vec_load(part + g * QUERIES + q);
                vec_store(running_sum + q, total);
            }
            constexpr int COLUMNS = DP / (OUT_VECS * WIDTH);
            const int row_blocks = (queries + OUT_ROWS - 1) / OUT_ROWS;
            for (int block = block_warp(); block < row_blocks * COLUMNS; block += block_warps()) {
                const int q = block / COLUMNS * OUT_ROWS, d = block % COLUMNS * OUT_VECS * WIDTH;
                float *const o = o_tile + q * DP + d;
                vec acc[OUT_ROWS][OUT_VECS];
                UNROLL
                for (int r = 0; r < OUT_ROWS; r++) {
                    UNROLL
                    for (int v = 0; v < OUT_VECS; v++)
                        acc[r][v] = k0 ? vec_load(o + r * DP + v * WIDTH) * shrink[q + r] : vec_all(0.0f);
                }
                tile_product<1, QUERIES, DP, 1>(acc, s_tile + q, kv_tile + d,
                                                smaller(keys, q0 + q + OUT_ROWS - k0));
                UNROLL
                for (int r = 0; r < OUT_ROWS; r++) {
                    UNROLL
                    for (int v = 0; v < OUT_VECS; v++)
                        vec_store(o + r * DP + v * WIDTH, acc[r][v]);
                }
            }
        }
        __syncthreads();
        for (int q = block_warp(); q < queries; q += block_warps()) {
            const float inverse = 1.0f / running_sum[q];
            for (int d = 0; d < D; d += WIDTH)
                vec_store_some(out + (size_t)(q0 + q) * out_stride + d,
                               vec_load(o_tile + q * DP + d) * inverse, D - d);
        }
        for (int q = block_thread(); q < queries; q += block_threads())
            p.lse[bh * T + q0 + q] = running_max[q] * (float)LN_2 + logf(running_sum[q]);
    }
}

/* Two products for each pair of a query and a key up to it. */
template <typename E> inline softgpu_cost_t attention_forward_cost(dim3, dim3, forward_t p)
{
    const double rows = (double)p.B * p.T, heads = p.H;
    return launch_cost(rows * heads * (p.T + 1) / 2 * 4 * p.D,
                       as_floats<E>(rows * (2.0 * heads + 2.0 * p.KV) * p.D) + rows * heads);
}
#define INSTANCE(DP, E) INDEPENDENT_KERNEL(attention_forward_cost<E>, attention_forward_kernel<DP, E>)
INSTANCE(32, float);
INSTANCE(64, float);
INSTANCE(128, float);
INSTANCE(32, bf16);
INSTANCE(64, bf16);
INSTANCE(128, bf16);
#undef INSTANCE

template <typename E> static void launch(forward_t p, cudaStream_t stream)
{
    const unsigned grid = attention_grid(p.T, SLICE, p.H, p.B);
    if (p.D <= 32)
        attention_forward_kernel<32, E><<<counted(grid), ATTENTION_THREADS, 0, stream>>>(p);
    else if (p.D <= 64)
        attention_forward_kernel<64, E><<<counted(grid), ATTENTION_THREADS, 0, stream>>>(p);
    else
        attention_forward_kernel<128, E><<<counted(grid), ATTENTION_THREADS, 0, stream>>>(p);
}

cudaError_t attention_forward(dtype_t type, void *out, float *lse, const void *qkv, attention_shape_t s,
                              dropout_t drop, cudaStream_t stream)
{
    const forward_t p = {out, lse, qkv, s.B, s.T, s.H, s.KV, s.D, attention_factor(s.D), dropout_mask(drop)};
    FOR_DTYPE(type, launch, p, stream);
    return cudaGetLastError();
}
