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
TILE_PASS void tile_add_some(float *to, size_t stride, const vec (&acc)[ROWS][VECS], int rows, int columns,
                             float factor, bool more)
{
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

template <int ROWS, int VECS>
static __device__ __forceinline__ void tile_add(float *to, size_t stride, const vec (&acc)[ROWS][VECS],
                                                int rows, int columns, float factor, bool more)
{
    if (rows < ROWS || columns < VECS * WIDTH) {
        /* An array whose address is passed on lies in memory, and acc shall stay in registers. */
        vec copy[ROWS][VECS];
        UNROLL
        for (int r = 0; r < ROWS; r++) {
            UNROLL
            for (int v = 0; v < VECS; v++)
                copy[r][v] = acc[r][v];
        }
        tile_add_some(to, stride, copy, rows, columns, factor, more);
        return;
    }
    UNROLL
    for (int r = 0; r < ROWS; r++) {
        UNROLL
        for (int v = 0; v < VECS; v++) {
            float *const at = to + (size_t)r * stride + v * WIDTH;
            vec_store(at, (more ? vec_load(at) : vec_all(0.0f)) + acc[r][v] * factor);
        }
    }
}

/* The head that a block works on, and the tiles at hand. */
typedef struct place {
    const float *q, *k, *v, *dout; /* of the head, rows stride or (dout) out_stride apart */
    float *dq, *dk, *dv;           /* rows stride apart */
    const float *lse, *delta;      /* [T] */
    size_t bh, stride, out_stride;
    int T, D, q0, queries, k0, keys; /* tiles begin at query q0 and key k0 */
    float factor;
    mask_t mask;
} place_t;

static __device__ __forceinline__ place_t find_head(const backward_t &p)
{
    const size_t bh = blockIdx.x, b = bh / (size_t)p.H, h = bh % (size_t)p.H, T = (size_t)p.T,
                 D = (size_t)p.D;
    const size_t out_stride = (size_t)p.H * D, stride = 3 * out_stride;
    const size_t head = b * T * stride + h * D;
    place_t at;
    at.q = p.qkv + head;
    at.k = at.q + out_stride;
    at.v = at.k + out_stride;
    at.dout = p.dout + b * T * out_stride + h * D;
    at.dq = p.dqkv + head;
    at.dk = at.dq + out_stride;
    at.dv = at.dk + out_stride;
    at.lse = p.lse + bh * T;
    at.delta = p.delta + bh * T;
    at.bh = bh;
    at.stride = stride;
    at.out_stride = out_stride;
    at.T = p.T;
    at.D = p.D;
    at.factor = p.factor;
    at.mask = p.mask;
    return at;
}

/* Q (times factor) and dout, on the CPU their transposes as well; lse in units of log 2. */
template <int DP>
static __device__ __forceinline__ void load_queries(backward_tiles<DP> *tiles, const place_t &at)
{
    using shape = backward_shape<DP>;
    constexpr int QUERIES = shape::QUERIES, Q_LD = shape::Q_LD;
    const int queries = at.queries;
    const size_t q0 = (size_t)at.q0;
    tile_load<QUERIES, DP, Q_LD>(tiles->q, at.q + q0 * at.stride, at.stride, queries, at.D, at.factor);
    tile_load<QUERIES, DP, Q_LD>(tiles->dout, at.dout + q0 * at.out_stride, at.out_stride, queries, at.D,
                                 1.0f);
#ifdef __SOFTGPU_FAST__
    tile_transpose<QUERIES, DP, Q_LD>(tiles->q_columns, tiles->q, queries);
    tile_transpose<QUERIES, DP, Q_LD>(tiles->dout_columns, tiles->dout, queries);
#endif
    for (int q = block_thread(); q < QUERIES; q += block_threads()) {
        tiles->lse[q] = q < queries ? at.lse[q0 + q] * (float)LOG2_E : 0.0f;
        tiles->delta[q] = q < queries ? at.delta[q0 + q] : 0.0f;
    }
}

/* K, V and the dropout factors. */
template <int DP>
static __device__ __forceinline__ void load_keys(backward_tiles<DP> *tiles, const place_t &at)
{
    constexpr int QUERIES = backward_shape<DP>::QUERIES, KEYS = backward_shape<DP>::KEYS;
    const size_t from = (size_t)at.k0 * at.stride;
    tile_load<KEYS, DP, DP>(tiles->k, at.k + from, at.stride, at.keys, at.D, 1.0f);
    tile_load<KEYS, DP, DP>(tiles->v, at.v + from, at.stride, at.keys, at.D, 1.0f);
    if (at.mask.threshold)
        attention_keep<QUERIES>(tiles->keep, at.bh, at.T, at.q0, at.k0, (at.keys + 3) / 4 * 4, at.mask);
}

/* What a warp makes of a gradient at a time: OUT_ROWS x OUT_VECS vecs. */
template <int DP> struct gradient_shape {
    enum { OUT_ROWS = 8, OUT_VECS = DP / WIDTH < 2 ? 1 : 2, COLUMNS = DP / (OUT_VECS * WIDTH) };
};

/* P (after dropout) and dS of the tiles. */
template <int DP> TILE_PASS void make_scores(backward_tiles<DP> *tiles, const place_t &at)
{
    using shape = backward_shape<DP>;
    constexpr int QUERIES = shape::QUERIES, ROWS = shape::ROWS, VECS = shape::VECS;
    constexpr int SPAN = VECS * WIDTH; /* a block of scores: ROWS keys x SPAN queries */
    float *const p_tile = tiles->p, *const ds_tile = tiles->ds;
    const float *const k_tile = tiles->k, *const v_tile = tiles->v, *const keep = tiles->keep;
#ifdef __SOFTGPU_FAST__
    constexpr int Q_K = QUERIES, Q_LANE = 1;
    const float *const q_columns = tiles->q_columns, *const dout_columns = tiles->dout_columns;
#else
    constexpr int Q_K = 1, Q_LANE = shape::Q_LD;
    const float *const q_columns = tiles->q, *const dout_columns = tiles->dout;
#endif
    const int q0 = at.q0, k0 = at.k0, spans = (at.queries + SPAN - 1) / SPAN,
              groups = (at.keys + ROWS - 1) / ROWS;
    const bool dropping = at.mask.threshold != 0;

    for (int block = block_warp(); block < groups * spans; block += block_warps()) {
        const int k = block / spans * ROWS, q = block % spans * SPAN, tile = k * QUERIES + q;
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
                vec_store(p_tile + tile + r * QUERIES + v * WIDTH, x);
            }
        }
        tile_clear(acc);
        tile_product<DP, 1, Q_K, Q_LANE>(acc, v_tile + k * DP, dout_columns + q * Q_LANE, DP);
        UNROLL
        for (int v = 0; v < VECS; v++) {
            const vec delta = vec_load(tiles->delta + q + v * WIDTH);
            UNROLL
            for (int r = 0; r < ROWS; r++) {
                const int i = tile + r * QUERIES + v * WIDTH;
                const vec x = vec_load(p_tile + i);
                vec dp = acc[r][v];
                if (dropping) {
                    const vec kept = vec_load(keep + i);
                    dp *= kept;
                    vec_store(p_tile + i, x * kept);
                }
                vec_store(ds_tile + i, x * (dp - delta));
            }
        }
    }
#ifndef __SOFTGPU_FAST__
    /* add_keys takes more rows at a time: those behind the last key count for nothing, but it reads them. */
    constexpr int KEYS = shape::KEYS, OUT_ROWS = gradient_shape<DP>::OUT_ROWS, TOGETHER = KEYS < OUT_ROWS ? KEYS : OUT_ROWS;
    const int rows = (at.keys + TOGETHER - 1) / TOGETHER * TOGETHER;
    for (int k = groups * ROWS + block_warp(); k < rows; k += block_warps()) {
        vec_store(p_tile + k * QUERIES, vec_all(0.0f));
        vec_store(ds_tile + k * QUERIES, vec_all(0.0f));
    }
#endif
}

/* dV and dK of the keys, from these queries. */
template <int DP> TILE_PASS void add_keys(const backward_tiles<DP> *tiles, const place_t &at)
{
    using shape = backward_shape<DP>;
    using out = gradient_shape<DP>;
    constexpr int QUERIES = shape::QUERIES, KEYS = shape::KEYS, Q_LD = shape::Q_LD, COLUMNS = out::COLUMNS,
                  ROWS = KEYS < out::OUT_ROWS ? KEYS : out::OUT_ROWS;
    const float *const q_tile = tiles->q, *const dout_tile = tiles->dout, *const p_tile = tiles->p,
                       *const ds_tile = tiles->ds;
    float *const dk = at.dk, *const dv = at.dv;
    const size_t stride = at.stride;
    const int D = at.D, q0 = at.q0, queries = at.queries, k0 = at.k0, keys = at.keys,
              row_blocks = (keys + ROWS - 1) / ROWS;
    /* The first tile of queries that sees these keys is the one that starts at or before them. */
    const bool more = q0 > k0;

    for (int block = block_warp(); block < row_blocks * COLUMNS; block += block_warps()) {
        const int k = block / COLUMNS * ROWS, d = block % COLUMNS * out::OUT_VECS * WIDTH;
        const int first = k0 + k > q0 ? k0 + k - q0 : 0; /* the first query that sees one of these keys */
        const size_t to = (size_t)(k0 + k) * stride + (size_t)d;
        vec acc[ROWS][out::OUT_VECS];
        tile_clear(acc);
        tile_product<QUERIES, 1, Q_LD, 1>(acc, p_tile + k * QUERIES + first, dout_tile + first * Q_LD + d,
                                          queries - first);
        tile_add(dv + to, stride, acc, keys - k, D - d, 1.0f, more);
        tile_clear(acc);
        tile_product<QUERIES, 1, Q_LD, 1>(acc, ds_tile + k * QUERIES + first, q_tile + first * Q_LD + d,
                                          queries - first);
        /* the queries carry log2(e)/sqrt(D) already */
        tile_add(dk + to, stride, acc, keys - k, D - d, (float)LN_2, more);
    }
}

/* dQ of the queries, from these keys. */
template <int DP> TILE_PASS void add_queries(const backward_tiles<DP> *tiles, const place_t &at)
{
    using out = gradient_shape<DP>;
    constexpr int QUERIES = backward_shape<DP>::QUERIES, ROWS = out::OUT_ROWS, COLUMNS = out::COLUMNS;
    const float *const k_tile = tiles->k, *const ds_tile = tiles->ds;
    float *const dq = at.dq;
    const size_t stride = at.stride;
    const int D = at.D, q0 = at.q0, queries = at.queries, k0 = at.k0, keys = at.keys,
              row_blocks = (queries + ROWS - 1) / ROWS;
    const float factor = at.factor * (float)LN_2;

    for (int block = block_warp(); block < row_blocks * COLUMNS; block += block_warps()) {
        const int q = block / COLUMNS * ROWS, d = block % COLUMNS * out::OUT_VECS * WIDTH;
        if (q0 + q + ROWS <= k0)
            continue;
        vec acc[ROWS][out::OUT_VECS];
        tile_clear(acc);
        tile_product<1, QUERIES, DP, 1>(acc, ds_tile + q, k_tile + d, smaller(keys, q0 + q + ROWS - k0));
        tile_add(dq + (size_t)(q0 + q) * stride + (size_t)d, stride, acc, queries - q, D - d, factor, k0 > 0);
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
    constexpr int QUERIES = backward_shape<DP>::QUERIES, KEYS = backward_shape<DP>::KEYS;
    __shared__ backward_tiles<DP> shared;
    backward_tiles<DP> *const tiles = shared_pointer(&shared);
    place_t at = find_head(p);
    const int slice = (int)blockIdx.y * SLICE, slice_end = smaller(slice + SLICE, p.T);
    const int q_begin = WHAT == FOR_ALL ? 0 : slice, q_end = WHAT == FOR_QUERIES ? slice_end : p.T;
    const int k_begin = WHAT == FOR_KEYS ? slice : 0, k_end = WHAT == FOR_KEYS ? slice_end : p.T;

    for (int q0 = q_begin; q0 < q_end; q0 += QUERIES) {
        const int queries = smaller(QUERIES, q_end - q0), last_key = smaller(q0 + queries, k_end) - 1;
        at.q0 = q0;
        at.queries = queries;
        __syncthreads(); /* the last tiles have been used */
        load_queries(tiles, at);
        for (int k0 = k_begin; k0 <= last_key; k0 += KEYS) {
            at.k0 = k0;
            at.keys = smaller(KEYS, last_key + 1 - k0);
            __syncthreads();
            load_keys(tiles, at);
            __syncthreads();
            make_scores(tiles, at);
            __syncthreads();
            if (WHAT != FOR_QUERIES)
                add_keys(tiles, at);
            if (WHAT != FOR_KEYS)
                add_queries(tiles, at);
        }
    }
}

template <int WHAT> inline softgpu_cost_t attention_backward_cost(dim3 grid, dim3, backward_t p)
{
    const int products = WHAT == FOR_ALL ? 5 : WHAT == FOR_QUERIES ? 3 : 4;
    const int gradients = WHAT == FOR_ALL ? 3 : WHAT == FOR_QUERIES ? 1 : 2;
    const double rows = (double)grid.x * p.T; /* grid.x: heads of all sequences */
    return launch_cost(rows * (p.T + 1) / 2 * 2 * products * p.D, rows * ((4.0 + gradients) * p.D + 2));
}
#define INSTANCE(DP, WHAT)                                                                                   \
    BLOCK_SIZE_INDEPENDENT(attention_backward_kernel<DP, WHAT>);                                             \
    KERNEL_COST(attention_backward_cost<WHAT>, attention_backward_kernel<DP, WHAT>)
#define INSTANCES(DP)                                                                                        \
    INSTANCE(DP, FOR_ALL);                                                                                   \
    INSTANCE(DP, FOR_QUERIES);                                                                               \
    INSTANCE(DP, FOR_KEYS)
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

inline softgpu_cost_t attention_delta_cost(dim3, dim3, float *, const float *, const float *, int N, int,
                                           int H, int D, int)
{
    return launch_cost(2.0 * N * H * D, 2.0 * N * H * D + (double)N * H);
}
KERNEL_COST(attention_delta_cost, attention_delta_kernel);

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
