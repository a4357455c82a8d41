/* attention_backward.cu: causal self-attention, backward (kernels.h, attention.cuh). */
#include <math.h>

#include "attention.cuh"

/* Arguments of the backward kernels; dout and qkv of elements E. */
typedef struct backward {
    float *dqkv;        /* [B,T,H+2KV,D] */
    const void *dout;   /* [B,T,H,D] */
    const float *lse;   /* [B,H,T] */
    const float *delta; /* [B,H,T] */
    const void *qkv;    /* [B,T,H+2KV,D] */
    int B, T, H, KV, D;
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
    float *dq, *dk, *dv;      /* rows stride apart */
    const float *lse, *delta; /* [T] */
    size_t bh, stride, out_stride;
    int T, D, q0, queries, k0, keys; /* tiles begin at query q0 and key k0 */
    bool more;                       /* dk and dv have another head's part already */
    float factor;
    mask_t mask;
} place_t;

/* Inputs of the head. */
template <typename E> struct inputs {
    const E *q, *k, *v, *dout; /* rows stride or (dout) out_stride apart */
};

/* Head h of sequence b. */
template <typename E>
static __device__ __forceinline__ place_t find_head(inputs<E> *from, const backward_t &p, int b, int h)
{
    const size_t T = (size_t)p.T, D = (size_t)p.D, H = (size_t)p.H, KV = (size_t)p.KV;
    const size_t out_stride = H * D, stride = (H + 2 * KV) * D, bh = (size_t)b * H + (size_t)h;
    const size_t sequence = (size_t)b * T * stride, key = (H + (size_t)(h / (p.H / p.KV))) * D;
    from->q = (const E *)p.qkv + sequence + (size_t)h * D;
    from->k = (const E *)p.qkv + sequence + key;
    from->v = from->k + KV * D;
    from->dout = (const E *)p.dout + (size_t)b * T * out_stride + (size_t)h * D;
    place_t at;
    at.dq = p.dqkv + sequence + (size_t)h * D;
    at.dk = p.dqkv + sequence + key;
    at.dv = at.dk + KV * D;
    at.lse = p.lse + bh * T;
    at.delta = p.delta + bh * T;
    at.bh = bh;
    at.stride = stride;
    at.out_stride = out_stride;
    at.T = p.T;
    at.D = p.D;
    at.more = false;
    at.factor = p.factor;
    at.mask = p.mask;
    return at;
}

/* Q (times factor) and dout, on the CPU their transposes as well; lse in units of log 2. */
template <int DP, typename E>
static __device__ __forceinline__ void load_queries(backward_tiles<DP> *tiles, const inputs<E> &from,
                                                    const place_t &at)
{
    using shape = backward_shape<DP>;
    constexpr int QUERIES = shape::QUERIES, Q_LD = shape::Q_LD;
    const int queries = at.queries;
    const size_t q0 = (size_t)at.q0;
    tile_load<QUERIES, DP, Q_LD>(tiles->q, from.q + q0 * at.stride, at.stride, queries, at.D, at.factor);
    tile_load<QUERIES, DP, Q_LD>(tiles->dout, from.dout + q0 * at.out_stride, at.out_stride, queries, at.D,
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
template <int DP, typename E>
static __device__ __forceinline__ void load_keys(backward_tiles<DP> *tiles, const inputs<E> &from,
                                                 const place_t &at)
{
    constexpr int QUERIES = backward_shape<DP>::QUERIES, KEYS = backward_shape<DP>::KEYS;
    const size_t first = (size_t)at.k0 * at.stride;
    tile_load<KEYS, DP, DP>(tiles->k, from.k + first, at.stride, at.keys, at.D, 1.0f);
    tile_load<KEYS, DP, DP>(tiles->v, from.v + first, at.stride, at.keys, at.D, 1.0f);
    if (at.mask.threshold)
        attention_keep<QUERIES>(tiles->keep, at.bh, at.T, at.q0, at.k0, (at.keys + 3) / 4 * 4, at.mask);
}

/* What a warp makes of a gradient at a time: OUT_ROWS x OUT_VECS vecs. */
template <int DP> struct gradient_shape {
    enum {
        OUT_ROWS = backward_shape<DP>::OUT_ROWS,
        OUT_VECS = DP / WIDTH < 2 ? 1 : 2,
        COLUMNS = DP / (OUT_VECS * WIDTH)
    };
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
    constexpr int KEYS = shape::KEYS, OUT_ROWS = gradient_shape<DP>::OUT_ROWS,
                  TOGETHER = KEYS < OUT_ROWS ? KEYS : OUT_ROWS;
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
    const bool more = at.more || q0 > k0;

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
 * Heads that share keys and values add up their parts of dK and dV, one after the other.
 *
 * FOR_ALL: one block does the heads of a key head (grid: B*KV): for each head and each tile of queries all tiles of keys
 * up to the diagonal; dQ, dK and dV are added up in place, by this block alone. Five products per tile. FOR_QUERIES: a
 * block does SLICE queries of a head (grid: B*H; slices), FOR_KEYS: SLICE keys of a key head (grid: B*KV; slices), and
 * makes only their gradients. Seven products per tile, between the two of them, but more blocks. In each, a gradient is
 * the sum over heads and the other side's tiles in ascending order. */
template <int DP, int WHAT, typename E>
__global__ void __launch_bounds__(ATTENTION_THREADS) attention_backward_kernel(backward_t p)
{
    constexpr int QUERIES = backward_shape<DP>::QUERIES, KEYS = backward_shape<DP>::KEYS;
    __shared__ backward_tiles<DP> shared;
    backward_tiles<DP> *const tiles = shared_pointer(&shared);
    const int slice = (int)blockIdx.y * SLICE, slice_end = smaller(slice + SLICE, p.T);
    const int q_begin = WHAT == FOR_ALL ? 0 : slice, q_end = WHAT == FOR_QUERIES ? slice_end : p.T;
    const int k_begin = WHAT == FOR_KEYS ? slice : 0, k_end = WHAT == FOR_KEYS ? slice_end : p.T;
    const int together = WHAT == FOR_QUERIES ? 1 : p.H / p.KV, groups = p.H / together;
    const int b = (int)blockIdx.x / groups, first_head = (int)blockIdx.x % groups * together;

    for (int h = first_head; h < first_head + together; h++) {
        inputs<E> from;
        place_t at = find_head(&from, p, b, h);
        at.more = h > first_head;
        for (int q0 = q_begin; q0 < q_end; q0 += QUERIES) {
            const int queries = smaller(QUERIES, q_end - q0), last_key = smaller(q0 + queries, k_end) - 1;
            at.q0 = q0;
            at.queries = queries;
            __syncthreads(); /* the last tiles have been used */
            load_queries(tiles, from, at);
            for (int k0 = k_begin; k0 <= last_key; k0 += KEYS) {
                at.k0 = k0;
                at.keys = smaller(KEYS, last_key + 1 - k0);
                __syncthreads();
                load_keys(tiles, from, at);
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
}

/* Inputs q, k, v, dout; gradients in fp32. */
template <typename E>
static inline softgpu_cost_t backward_cost(const backward_t &p, int products, double q_gradients,
                                           double k_gradients)
{
    const double rows = (double)p.B * p.T, H = p.H, KV = p.KV;
    return launch_cost(rows * H * (p.T + 1) / 2 * 2 * products * p.D,
                       as_floats<E>(rows * 2 * (H + KV) * p.D) +
                           rows * (q_gradients * H + k_gradients * KV) * p.D + 2 * rows * H);
}
template <typename E> inline softgpu_cost_t for_all_cost(dim3, dim3, backward_t p)
{
    return backward_cost<E>(p, 5, 1, 2);
}
template <typename E> inline softgpu_cost_t for_queries_cost(dim3, dim3, backward_t p)
{
    return backward_cost<E>(p, 3, 1, 0);
}
template <typename E> inline softgpu_cost_t for_keys_cost(dim3, dim3, backward_t p)
{
    return backward_cost<E>(p, 4, 0, 2);
}
#define INSTANCE(DP, WHAT, E, COST) INDEPENDENT_KERNEL(COST<E>, attention_backward_kernel<DP, WHAT, E>)
#define INSTANCES(DP, E)                                                                                     \
    INSTANCE(DP, FOR_ALL, E, for_all_cost);                                                                  \
    INSTANCE(DP, FOR_QUERIES, E, for_queries_cost);                                                          \
    INSTANCE(DP, FOR_KEYS, E, for_keys_cost)
INSTANCES(32, float);
INSTANCES(64, float);
INSTANCES(128, float);
INSTANCES(32, bf16);
INSTANCES(64, bf16);
INSTANCES(128, bf16);
#undef INSTANCES
#undef INSTANCE

/* delta[B,H,T] = sum over d of dout * out, both [B,T,H,D]. A warp per (row, head). */
template <typename E>
__global__ void attention_delta_kernel(float *__restrict__ delta, const E *__restrict__ dout,
                                       const E *__restrict__ out, int N, int T, int H, int D, int rows)
{
    const int first = (int)blockIdx.x * rows, last = smaller(first + rows, N);
    for (size_t i = (size_t)first * H + block_warp(); i < (size_t)last * H; i += block_warps()) {
        const size_t n = i / H, h = i % H, t = n % T, b = n / T;
        float total = 0.0f;
        SIMD_SUM(total)
        for (int d = block_lane(); d < D; d += LANES)
            total += load_f(dout[i * D + d]) * load_f(out[i * D + d]);
        total = warp_sum(total);
        if (block_lane() == 0)
            delta[(b * H + h) * T + t] = total;
    }
}

template <typename E>
inline softgpu_cost_t attention_delta_cost(dim3, dim3, float *, const E *, const E *, int N, int, int H,
                                           int D, int)
{
    return launch_cost(2.0 * N * H * D, as_floats<E>(2.0 * N * H * D) + (double)N * H);
}
INDEPENDENT_KERNEL(attention_delta_cost<float>, attention_delta_kernel<float>);
INDEPENDENT_KERNEL(attention_delta_cost<bf16>, attention_delta_kernel<bf16>);

template <int DP, typename E> static void backward_launch(const backward_t *p, cudaStream_t stream)
{
    const unsigned heads = (unsigned)(p->B * p->H), key_heads = (unsigned)(p->B * p->KV),
                   slices = (unsigned)ceil_div(p->T, SLICE);
    /* Are there heads enough to keep a GPU busy for as long as one head takes? */
    if (key_heads >= 128 || (key_heads >= 16 && p->T <= 1024)) {
        attention_backward_kernel<DP, FOR_ALL, E><<<counted(key_heads), ATTENTION_THREADS, 0, stream>>>(*p);
    } else {
        attention_backward_kernel<DP, FOR_QUERIES, E>
            <<<counted(dim3(heads, slices)), ATTENTION_THREADS, 0, stream>>>(*p);
        attention_backward_kernel<DP, FOR_KEYS, E>
            <<<counted(dim3(key_heads, slices)), ATTENTION_THREADS, 0, stream>>>(*p);
    }
}

/* Floats of delta, up to the next multiple of 16 bytes. */
static size_t delta_floats(attention_shape_t s)
{
    return ((size_t)s.B * (size_t)s.H * (size_t)s.T + 3) / 4 * 4;
}

static size_t qkv_count(attention_shape_t s)
{
    return (size_t)s.B * (size_t)s.T * (size_t)(s.H + 2 * s.KV) * (size_t)s.D;
}

/* In bf16 the gradients, which are added up tile by tile, are rounded when they are complete. */
size_t attention_backward_scratch(dtype_t type, attention_shape_t s)
{
    return sizeof(float) * (delta_floats(s) + (type == DTYPE_BF16 ? qkv_count(s) : 0));
}

template <typename E>
static void launch(float *dqkv, float *delta, const void *dout, const void *out, const float *lse,
                   const void *qkv, attention_shape_t s, mask_t mask, cudaStream_t stream)
{
    const int N = s.B * s.T, rows = rows_per_block(s.H * s.D);
    attention_delta_kernel<E><<<counted((unsigned)ceil_div(N, rows)), BLOCK_THREADS, 0, stream>>>(
        delta, (const E *)dout, (const E *)out, N, s.T, s.H, s.D, rows);
    const backward_t p = {dqkv, dout, lse, delta, qkv, s.B, s.T, s.H, s.KV, s.D, attention_factor(s.D), mask};
    if (s.D <= 32)
        backward_launch<32, E>(&p, stream);
    else if (s.D <= 64)
        backward_launch<64, E>(&p, stream);
    else
        backward_launch<128, E>(&p, stream);
}

cudaError_t attention_backward(dtype_t type, void *dqkv, const void *dout, const void *out, const float *lse,
                               const void *qkv, attention_shape_t s, dropout_t drop, void *scratch,
                               cudaStream_t stream)
{
    float *const delta = (float *)scratch;
    if (type == DTYPE_FP32) {
        launch<float>((float *)dqkv, delta, dout, out, lse, qkv, s, dropout_mask(drop), stream);
        return cudaGetLastError();
    }
    float *const whole = delta + delta_floats(s);
    launch<bf16>(whole, delta, dout, out, lse, qkv, s, dropout_mask(drop), stream);
    const cudaError_t error = cudaGetLastError();
    return error == cudaSuccess ? round_bf16(dqkv, whole, qkv_count(s), stream) : error;
}
