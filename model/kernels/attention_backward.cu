/* attention_backward.cu: causal self-attention, backward (kernels.h, attention.cuh). */
#include <math.h>

#include "attention.cuh"

/* Arguments of the backward kernels. */
typedef struct backward {
    float *dqkv;        /* [B,T,3,H,D] */
    const float *dout;  /* [B,T,H,D] */
    const float *lse;   /* [B,H,T] */
    const float *delta; /* [B,H,T] */
    const float *qkv;   /* [B,T,3,H,D] */
    int B, T, H, D;
    float factor;
    mask_t mask;
} backward_t;

template <int DP> struct __align__(64) backward_tiles
{
    using shape = backward_shape<DP>;
    float q[shape::QUERIES * shape::Q_LD], dout[shape::QUERIES * shape::Q_LD];
#ifdef __SOFTGPU_FAST__
    float q_columns[DP * shape::QUERIES], dout_columns[DP * shape::QUERIES];
#endif
    float k[shape::KEYS * DP], v[shape::KEYS * DP];
    float p[shape::KEYS * shape::QUERIES], ds[shape::KEYS * shape::QUERIES];
    float keep[shape::KEYS * shape::QUERIES]; /* of dropout */
    float lse[shape::QUERIES], delta[shape::QUERIES];
};

/* to (`rows` rows `stride` apart, `columns` columns) = what is there (`more`) + factor * acc. */
template <int ROWS, int VECS>
static __device__ __forceinline__ void tile_add(float *to, size_t stride, const vec (&acc)[ROWS][VECS],
                                                int rows, int columns, float factor, bool more)
{
    if (rows >= ROWS && columns >= VECS * WIDTH) {
        UNROLL
        for (int r = 0; r < ROWS; r++) {
            UNROLL
            for (int v = 0; v < VECS; v++) {
                float *const at = to + (size_t)r * stride + v * WIDTH;
                vec_store(at, (more ? vec_load(at) : vec_all(0.0f)) + acc[r][v] * factor);
            }
        }
        return;
    }
    UNROLL
    for (int r = 0; r < ROWS; r++) {
        UNROLL
        for (int v = 0; v < VECS; v++) {
            float *const at = to + (size_t)r * stride + v * WIDTH;
            const int count = r < rows ? columns - v * WIDTH : 0;
            const vec old = more ? vec_load_some(at, count) : vec_all(0.0f);
            vec_store_some(at, old + acc[r][v] * factor, count);
        }
    }
}

/* Which gradients a block makes. */
enum { FOR_ALL, FOR_QUERIES, FOR_KEYS };

/* With P the probabilities, dP = dout V^T, dS = P (dP - delta):
 *     dV = P^T dout,    dK = dS^T Q / sqrt(D),    dQ = dS K / sqrt(D).
 *
 * FOR_ALL: one block does a head (grid: B*H): for each tile of queries all tiles of keys up to the diagonal;
 * dQ, dK and dV are added up in place, by this block alone. Five products per tile. FOR_QUERIES, FOR_KEYS: a
 * block does SLICE queries or SLICE keys of a head (grid: B*H; slices), and makes only their gradients. Seven
 * products per tile, between the two of them, but more blocks. In each, a gradient is the sum over the other
 * side's tiles in ascending order. */
template <int DP, int WHAT>
__global__ void __launch_bounds__(ATTENTION_THREADS) attention_backward_kernel(backward_t p)
{
    using shape = backward_shape<DP>;
    constexpr int QUERIES = shape::QUERIES, KEYS = shape::KEYS, ROWS = shape::ROWS, VECS = shape::VECS,
                  Q_LD = shape::Q_LD;
    constexpr int SPAN = VECS * WIDTH; /* a block of scores: ROWS keys x SPAN queries */
    constexpr int OUT_ROWS = 8, OUT_VECS = DP / WIDTH < 2 ? 1 : 2, COLUMNS = DP / (OUT_VECS * WIDTH);
    constexpr int KEY_ROWS = KEYS < OUT_ROWS ? KEYS : OUT_ROWS;
    __shared__ backward_tiles<DP> shared;
    backward_tiles<DP> *const tiles = shared_pointer(&shared);
    float *const q_tile = tiles->q, *const dout_tile = tiles->dout, *const k_tile = tiles->k,
                 *const v_tile = tiles->v, *const p_tile = tiles->p, *const ds_tile = tiles->ds,
                 *const keep = tiles->keep;
#ifdef __SOFTGPU_FAST__
    float *const q_columns = tiles->q_columns, *const dout_columns = tiles->dout_columns;
    constexpr int Q_K = QUERIES, Q_LANE = 1;
#else
    float *const q_columns = q_tile, *const dout_columns = dout_tile;
    constexpr int Q_K = 1, Q_LANE = Q_LD;
#endif
    const int T = p.T, D = p.D;
    const size_t bh = blockIdx.x, b = bh / (size_t)p.H, h = bh % (size_t)p.H;
    const size_t stride = 3 * (size_t)p.H * D, out_stride = (size_t)p.H * D;
    const float *const q_head = p.qkv + b * T * stride + h * D, *const k_head = q_head + out_stride,
                       *const v_head = k_head + out_stride,
                       *const dout_head = p.dout + b * T * out_stride + h * D;
    float *const dq_head = p.dqkv + b * T * stride + h * D, *const dk_head = dq_head + out_stride,
                 *const dv_head = dk_head + out_stride;

    const int slice = (int)blockIdx.y * SLICE, slice_end = smaller(slice + SLICE, T);
    const int q_begin = WHAT == FOR_ALL ? 0 : slice, q_end = WHAT == FOR_QUERIES ? slice_end : T;
    const int k_begin = WHAT == FOR_KEYS ? slice : 0, k_end = WHAT == FOR_KEYS ? slice_end : T;

    for (int q0 = q_begin; q0 < q_end; q0 += QUERIES) {
        const int queries = smaller(QUERIES, q_end - q0), last_key = smaller(q0 + queries, k_end) - 1;
        const int spans = (queries + SPAN - 1) / SPAN;
        __syncthreads();
        tile_load<QUERIES, DP, Q_LD>(q_tile, q_head + (size_t)q0 * stride, stride, queries, D, p.factor);
        tile_load<QUERIES, DP, Q_LD>(dout_tile, dout_head + (size_t)q0 * out_stride, out_stride, queries, D,
                                     1.0f);
#ifdef __SOFTGPU_FAST__
        tile_transpose<QUERIES, DP, Q_LD>(q_columns, q_tile, queries);
        tile_transpose<QUERIES, DP, Q_LD>(dout_columns, dout_tile, queries);
#endif
        for (int q = block_thread(); q < QUERIES; q += block_threads()) {
            tiles->lse[q] = q < queries ? p.lse[bh * T + q0 + q] * (float)LOG2_E : 0.0f;
            tiles->delta[q] = q < queries ? p.delta[bh * T + q0 + q] : 0.0f;
        }

        for (int k0 = k_begin; k0 <= last_key; k0 += KEYS) {
            const int keys = smaller(KEYS, last_key + 1 - k0), groups = (keys + ROWS - 1) / ROWS;
            __syncthreads(); /* the last tile has been used */
            tile_load<KEYS, DP, DP>(k_tile, k_head + (size_t)k0 * stride, stride, keys, D, 1.0f);
            tile_load<KEYS, DP, DP>(v_tile, v_head + (size_t)k0 * stride, stride, keys, D, 1.0f);
            if (p.mask.threshold)
                attention_keep<QUERIES>(keep, bh, T, q0, k0, (keys + 3) / 4 * 4, p.mask);
            __syncthreads();

            for (int block = block_warp(); block < groups * spans; block += block_warps()) {
                const int k = block / spans * ROWS, q = block % spans * SPAN, at = k * QUERIES + q;
                if (k0 + k > q0 + q + SPAN - 1)
                    continue; /* right of the diagonal: never read */
                vec acc[ROWS][VECS];
                tile_clear(acc);
                tile_product<DP, 1, Q_K, Q_LANE>(acc, k_tile + k * DP, q_columns + q * Q_LANE, DP);
                const bool diagonal = k0 + k + ROWS - 1 > q0 + q;
                UNROLL
                for (int v = 0; v < VECS; v++) {
                    const int_vec visible = vec_lanes() + (q0 + q + v * WIDTH - k0 - k);
                    const vec lse = vec_load(tiles->lse + q + v * WIDTH);
                    UNROLL
                    for (int r = 0; r < ROWS; r++) {
                        vec x = vec_exp2(acc[r][v] - lse);
                        if (diagonal)
                            x = visible < r ? vec_all(0.0f) : x;
                        vec_store(p_tile + at + r * QUERIES + v * WIDTH, x);
                    }
                }
                tile_clear(acc);
                tile_product<DP, 1, Q_K, Q_LANE>(acc, v_tile + k * DP, dout_columns + q * Q_LANE, DP);
                UNROLL
                for (int v = 0; v < VECS; v++) {
                    const vec delta = vec_load(tiles->delta + q + v * WIDTH);
                    UNROLL
                    for (int r = 0; r < ROWS; r++) {
                        const int i = at + r * QUERIES + v * WIDTH;
                        const vec x = vec_load(p_tile + i);
                        vec dp = acc[r][v];
                        if (p.mask.threshold) {
                            const vec kept = vec_load(keep + i);
                            dp *= kept;
                            vec_store(p_tile + i, x * kept);
                        }
                        vec_store(ds_tile + i, x * (dp - delta));
                    }
                }
            }
            __syncthreads();

            if (WHAT != FOR_QUERIES) {
                const int row_blocks = (keys + KEY_ROWS - 1) / KEY_ROWS;
                for (int block = block_warp(); block < row_blocks * COLUMNS; block += block_warps()) {
                    const int k = block / COLUMNS * KEY_ROWS, d = block % COLUMNS * OUT_VECS * WIDTH;
                    const int first =
                        k0 + k > q0 ? k0 + k - q0 : 0; /* the first query that sees one of these keys */
                    const size_t at = (size_t)(k0 + k) * stride + (size_t)d;
                    /* The first tile of queries that sees these keys is the one that starts at or before
                     * them. */
                    const bool more = q0 > k0;
                    vec acc[KEY_ROWS][OUT_VECS];
                    tile_clear(acc);
                    tile_product<QUERIES, 1, Q_LD, 1>(acc, p_tile + k * QUERIES + first,
                                                      dout_tile + first * Q_LD + d, queries - first);
                    tile_add(dv_head + at, stride, acc, keys - k, D - d, 1.0f, more);
                    tile_clear(acc);
                    tile_product<QUERIES, 1, Q_LD, 1>(acc, ds_tile + k * QUERIES + first,
                                                      q_tile + first * Q_LD + d, queries - first);
                    /* the queries carry log2(e)/sqrt(D) already */
                    tile_add(dk_head + at, stride, acc, keys - k, D - d, (float)LN_2, more);
                }
            }
            if (WHAT != FOR_KEYS) {
                const int row_blocks = (queries + OUT_ROWS - 1) / OUT_ROWS;
                for (int block = block_warp(); block < row_blocks * COLUMNS; block += block_warps()) {
                    const int q = block / COLUMNS * OUT_ROWS, d = block % COLUMNS * OUT_VECS * WIDTH;
                    if (q0 + q + OUT_ROWS <= k0)
                        continue;
                    vec acc[OUT_ROWS][OUT_VECS];
                    tile_clear(acc);
                    tile_product<1, QUERIES, DP, 1>(acc, ds_tile + q, k_tile + d,
                                                    smaller(keys, q0 + q + OUT_ROWS - k0));
                    tile_add(dq_head + (size_t)(q0 + q) * stride + (size_t)d, stride, acc, queries - q, D - d,
                             p.factor * (float)LN_2, k0 > 0);
                }
            }
        }
    }
}
#define INSTANCES(DP)                                                                                        \
    BLOCK_SIZE_INDEPENDENT(attention_backward_kernel<DP, FOR_ALL>);                                          \
    BLOCK_SIZE_INDEPENDENT(attention_backward_kernel<DP, FOR_QUERIES>);                                      \
    BLOCK_SIZE_INDEPENDENT(attention_backward_kernel<DP, FOR_KEYS>)
INSTANCES(32);
INSTANCES(64);
INSTANCES(128);

/* delta[B,H,T] = sum over d of dout * out, both [B,T,H,D]. A warp per (row, head). */
__global__ void attention_delta_kernel(float *__restrict__ delta, const float *__restrict__ dout,
                                       const float *__restrict__ out, int N, int T, int H, int D, int rows)
{
    const int first = (int)blockIdx.x * rows, last = smaller(first + rows, N);
    for (size_t i = (size_t)first * H + block_warp(); i < (size_t)last * H; i += block_warps()) {
        const size_t n = i / H, h = i % H, t = n % T, b = n / T;
        float total = 0.0f;
        SIMD_SUM(total)
        for (int d = block_lane(); d < D; d += LANES)
            total += dout[i * D + d] * out[i * D + d];
        total = warp_sum(total);
        if (block_lane() == 0)
            delta[(b * H + h) * T + t] = total;
    }
}
BLOCK_SIZE_INDEPENDENT(attention_delta_kernel);

template <int DP> static void backward_launch(const backward_t *p, cudaStream_t stream)
{
    const unsigned heads = (unsigned)(p->B * p->H), slices = (unsigned)ceil_div(p->T, SLICE);
    /* Are there heads enough to keep a GPU busy for as long as one head takes? */
    if (heads >= 128 || (heads >= 16 && p->T <= 1024)) {
        attention_backward_kernel<DP, FOR_ALL><<<heads, ATTENTION_THREADS, 0, stream>>>(*p);
    } else {
        attention_backward_kernel<DP, FOR_QUERIES><<<dim3(heads, slices), ATTENTION_THREADS, 0, stream>>>(*p);
        attention_backward_kernel<DP, FOR_KEYS><<<dim3(heads, slices), ATTENTION_THREADS, 0, stream>>>(*p);
    }
}

cudaError_t attention_backward(float *dqkv, float *delta, const float *dout, const float *out,
                               const float *lse, const float *qkv, int B, int T, int H, int D, dropout_t drop,
                               cudaStream_t stream)
{
    const int N = B * T, rows = rows_per_block(H * D);
    attention_delta_kernel<<<(unsigned)ceil_div(N, rows), BLOCK_THREADS, 0, stream>>>(delta, dout, out, N, T,
                                                                                      H, D, rows);
    const backward_t p = {dqkv, dout, lse, delta, qkv, B, T, H, D, attention_factor(D), dropout_mask(drop)};
    if (D <= 32)
        backward_launch<32>(&p, stream);
    else if (D <= 64)
        backward_launch<64>(&p, stream);
    else
        backward_launch<128>(&p, stream);
    return cudaGetLastError();
}
