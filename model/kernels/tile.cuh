/* tile.cuh: small matrix products on tiles in shared memory, for attention.
 *
 * `vec` is a warp's worth of floats: on the GPU one float in each of 32 lanes, in fast mode one vector
 * register of the CPU. WIDTH is how many floats that is. Code written with vec is the same on both: a warp (a
 * CPU thread) holds a block of ROWS x VECS vecs of the result in registers, and adds outer products to it.
 */
#ifndef EBB_MODEL_TILE_CUH
#define EBB_MODEL_TILE_CUH

#include "element.cuh"

#ifdef __SOFTGPU_FAST__
#if defined(__AVX512F__)
#define WIDTH 16
#elif defined(__AVX__)
#define WIDTH 8
#else
#define WIDTH 4
#endif
typedef float vec __attribute__((vector_size(4 * WIDTH)));
typedef int32_t int_vec __attribute__((vector_size(4 * WIDTH)));
typedef float vec_anywhere __attribute__((vector_size(4 * WIDTH), aligned(4), may_alias));
typedef uint32_t word_vec __attribute__((vector_size(4 * WIDTH)));
typedef uint16_t half_vec __attribute__((vector_size(2 * WIDTH)));
typedef uint16_t half_vec_anywhere __attribute__((vector_size(2 * WIDTH), aligned(2), may_alias));
#else
#define WIDTH 32
typedef float vec;
typedef int int_vec;
#endif

/* A pass over a whole tile. On the CPU a function of its own, compiled once for a shape instead of once in
 * every kernel that has such a pass: these are unrolled, and compiling them is what takes time. */
#ifdef __SOFTGPU_FAST__
#define TILE_PASS static __noinline__
#else
#define TILE_PASS static __device__ __forceinline__
#endif

/* Element STRIDE * i of p for lane i. */
template <int STRIDE = 1> static __device__ __forceinline__ vec vec_load(const float *p)
{
#ifdef __SOFTGPU_FAST__
    static_assert(STRIDE == 1, "only a GPU gathers at full speed");
    return *(const vec_anywhere *)p;
#else
    return p[STRIDE * block_lane()];
#endif
}

template <int STRIDE = 1> static __device__ __forceinline__ vec vec_load(const bf16 *p)
{
#ifdef __SOFTGPU_FAST__
    static_assert(STRIDE == 1, "only a GPU gathers at full speed");
    const half_vec bits = *(const half_vec_anywhere *)p;
    return (vec)(__builtin_convertvector(bits, word_vec) << 16);
#else
    return load_f(p[STRIDE * block_lane()]);
#endif
}

static __device__ __forceinline__ void vec_store(float *p, vec v)
{
#ifdef __SOFTGPU_FAST__
    *(vec_anywhere *)p = v;
#else
    p[block_lane()] = v;
#endif
}

static __device__ __forceinline__ void vec_store(bf16 *p, vec v)
{
#ifdef __SOFTGPU_FAST__
    const word_vec bits = (word_vec)v, rounded = bits + 0x7fffu + (bits >> 16 & 1u);
    const word_vec to = (bits & 0x7fffffffu) > 0x7f800000u ? bits | 0x400000u : rounded;
    *(half_vec_anywhere *)p = __builtin_convertvector(to >> 16, half_vec);
#else
    store_f(p + block_lane(), v);
#endif
}

/* The same where only the first `count` elements exist (count may be <= 0, or above WIDTH); others load as 0.
 */
template <typename E> static __device__ __forceinline__ vec vec_load_some(const E *p, int count)
{
#ifdef __SOFTGPU_FAST__
    if (count >= WIDTH)
        return vec_load(p);
    vec v = {};
    for (int i = 0; i < count; i++)
        v[i] = load_f(p[i]);
    return v;
#else
    return block_lane() < count ? load_f(p[block_lane()]) : 0.0f;
#endif
}

template <typename E> static __device__ __forceinline__ void vec_store_some(E *p, vec v, int count)
{
#ifdef __SOFTGPU_FAST__
    if (count >= WIDTH)
        vec_store(p, v);
    else
        for (int i = 0; i < count; i++)
            store_f(p + i, v[i]);
#else
    if (block_lane() < count)
        store_f(p + block_lane(), v);
#endif
}

static __device__ __forceinline__ vec vec_all(float x)
{
#ifdef __SOFTGPU_FAST__
    return x - (vec){};
#else
    return x;
#endif
}

/* 0, 1, ... by lane. Comparisons with it give conditions for `? :`, on both machines. */
static __device__ __forceinline__ int_vec vec_lanes(void)
{
#ifdef __SOFTGPU_FAST__
    int_vec v;
    UNROLL
    for (int i = 0; i < WIDTH; i++)
        v[i] = i;
    return v;
#else
    return block_lane();
#endif
}

static __device__ __forceinline__ vec vec_larger(vec a, vec b)
{
    return a > b ? a : b;
}

/* 2^x for x <= 0 (a little above is harmless), with 2^-126 for what is smaller; NaN stays NaN. On the CPU as
 * exp2 in softgpu/fast_math.h, one coefficient shorter: relative error 1.1e-7. */
static __device__ __forceinline__ vec vec_exp2(vec x)
{
#ifdef __SOFTGPU_FAST__
    x = x < -126.0f ? vec_all(-126.0f) : x;
    const int_vec n = __builtin_convertvector(x - 0.5f, int_vec); /* towards 0, hence nearest */
    const vec f = x - __builtin_convertvector(n, vec);
    vec p = f * 0.0013264725f + 0.00967151299f;
    p = p * f + 0.0555073358f;
    p = p * f + 0.240222424f;
    p = p * f + 0.693147004f;
    p = p * f + 1.0f;
    return (vec)((int_vec)p + (n << 23));
#else
    return exp2f(x);
#endif
}

/* v, which is used several times: gcc would rather load it again for each multiply-add, of which a CPU can do as many as
 * it can load. */
static __device__ __forceinline__ vec vec_in_register(vec v)
{
#if defined(__SOFTGPU_FAST__) && defined(__AVX__)
    __asm__("" : "+v"(v));
#endif
    return v;
}

/* acc[r][v] += sum over k < depth of A(r, k) * B(k, v), with A(r, k) = a[r * AR + k * AK], one float for all
 * lanes, and B(k, v) = the vec at b[k * BK + v * WIDTH * BL], lanes BL apart. */
template <int AR, int AK, int BK, int BL, int ROWS, int VECS>
static __device__ __forceinline__ void tile_product(vec (&acc)[ROWS][VECS], const float *a, const float *b,
                                                    int depth)
{
    for (int k = 0; k < depth; k++) {
        vec bs[VECS];
        UNROLL
        for (int v = 0; v < VECS; v++)
            bs[v] = vec_in_register(vec_load<BL>(b + k * BK + v * WIDTH * BL));
        UNROLL
        for (int r = 0; r < ROWS; r++) {
            const float x = a[r * AR + k * AK];
            UNROLL
            for (int v = 0; v < VECS; v++)
                acc[r][v] += x * bs[v];
        }
    }
}

template <int ROWS, int VECS> static __device__ __forceinline__ void tile_clear(vec (&acc)[ROWS][VECS])
{
    UNROLL
    for (int r = 0; r < ROWS; r++) {
        UNROLL
        for (int v = 0; v < VECS; v++)
            acc[r][v] = vec_all(0.0f);
    }
}

/* tile[ROWS_MAX][DP] (rows LD apart) = factor * rows of a tensor (`stride` apart), 0 where row >= rows or
 * column >= D. By all threads of a block. */
template <int ROWS_MAX, int DP, int LD, typename E>
TILE_PASS void tile_load(float *tile, const E *from, size_t stride, int rows, int D, float factor)
{
    const int whole = D == DP ? rows : 0;
    for (int r = block_warp(); r < whole; r += block_warps()) {
        UNROLL
        for (int d = 0; d < DP; d += WIDTH)
            vec_store(tile + r * LD + d, vec_load(from + (size_t)r * stride + d) * factor);
    }
    for (int r = whole + block_warp(); r < ROWS_MAX; r += block_warps()) {
        for (int d = 0; d < DP; d += WIDTH) {
            const vec x = vec_load_some(from + (size_t)r * stride + d, r < rows ? D - d : 0);
            vec_store(tile + r * LD + d, x * factor);
        }
    }
}

/* Asks for rows of a tensor that tile_load or stores will touch soon. The rows of one head lie far apart: a
 * CPU's own prefetcher does not find them. A GPU has other warps to run meanwhile. */
template <int FOR_WRITING, typename E>
static __device__ __forceinline__ void tile_prefetch(const E *from, size_t stride, int rows, int D)
{
#ifdef __SOFTGPU_FAST__
    for (int r = 0; r < rows; r++) {
        for (int d = 0; d < D; d += 64 / (int)sizeof(E))
            __builtin_prefetch(from + (size_t)r * stride + d, FOR_WRITING);
    }
#else
    (void)from, (void)stride, (void)rows, (void)D;
#endif
}

#ifdef __SOFTGPU_FAST__
/* columns[DP][ROWS_MAX] = the transpose of tile[ROWS_MAX][DP]: a GPU reads columns of a tile as they are
 * (with an odd LD, without bank conflicts), a CPU wants them contiguous. WIDTH x WIDTH at a time: after
 * log2(WIDTH) rounds of interleaving row i with row i + WIDTH/2, element (r, c) has moved to (c, r). */
template <int ROWS_MAX, int DP, int LD>
TILE_PASS void tile_transpose(float *columns, const float *tile, int rows)
{
    int_vec low, high;
    UNROLL
    for (int i = 0; i < WIDTH; i++) {
        low[i] = i / 2 + i % 2 * WIDTH;
        high[i] = low[i] + WIDTH / 2;
    }
    for (int r = 0; r < rows; r += WIDTH) {
        for (int d = 0; d < DP; d += WIDTH) {
            vec x[WIDTH], y[WIDTH];
            UNROLL
            for (int i = 0; i < WIDTH; i++)
                x[i] = vec_load(tile + (r + i) * LD + d);
            UNROLL
            for (int round = 1; round < WIDTH; round *= 2) {
                UNROLL
                for (int i = 0; i < WIDTH / 2; i++) {
                    y[2 * i] = __builtin_shuffle(x[i], x[i + WIDTH / 2], low);
                    y[2 * i + 1] = __builtin_shuffle(x[i], x[i + WIDTH / 2], high);
                }
                UNROLL
                for (int i = 0; i < WIDTH; i++)
                    x[i] = y[i];
            }
            UNROLL
            for (int i = 0; i < WIDTH; i++)
                vec_store(columns + (d + i) * ROWS_MAX + r, x[i]);
        }
    }
}
#endif

#endif
