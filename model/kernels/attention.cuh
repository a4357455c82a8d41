/* attention.cuh: what forward and backward of the tiled attention share.
 *
 * A block works on tiles of QUERIES x KEYS scores, stored transposed, S[key][query]: lanes run over queries.
 * Then keys and values are used as they lie in memory (broadcast, row by row), maxima and sums over keys stay
 * within a lane, and only queries (and in backward dout) are needed by column.
 *
 * Scores are kept in units of log 2, the scale 1/sqrt(D) included: factor(D) = log2(e)/sqrt(D) is multiplied
 * into the queries as they are loaded, so that a probability is one exp2.
 */
#ifndef EBB_MODEL_ATTENTION_CUH
#define EBB_MODEL_ATTENTION_CUH

#include "dropout.cuh"
#include "element.cuh"
#include "kernels.h"
#include "tile.cuh"

/* Four warps: as many as a tile of the GPU has blocks of scores. */
enum { ATTENTION_THREADS = 128 };

enum { SLICE = 64 }; /* queries (or keys) that a block owns: sets the grid, so the same on both machines */

#ifdef __SOFTGPU_FAST__
/* Rows of the block of results that a CPU thread holds in registers, two vectors wide: with the two vectors and the one
 * number that are multiplied, it must fit into 32 registers (AVX-512) or 16 (all else), or each multiply-add spills. */
enum { REGISTER_ROWS = WIDTH >= 16 ? 8 : 4 };
#endif

/* Within it, tiles are what fits: 48 KiB of shared memory on the GPU, the caches of a CPU.
 * DP: D rounded up to 32, 64 or 128. */
template <int DP> struct forward_shape {
#ifdef __SOFTGPU_FAST__
    enum { QUERIES = 64, KEYS = 32, ROWS = REGISTER_ROWS, VECS = 2, Q_LD = DP, OUT_ROWS = ROWS };
#else
    enum { QUERIES = 32, KEYS = DP > 64 ? 16 : 32, ROWS = KEYS / 4, VECS = 1, Q_LD = DP + 1, OUT_ROWS = 8 };
#endif
};

template <int DP> struct backward_shape {
#ifdef __SOFTGPU_FAST__
    enum {
        QUERIES = DP > 64 ? 64 : 128,
        KEYS = 64,
        ROWS = REGISTER_ROWS,
        VECS = 2,
        Q_LD = DP,
        OUT_ROWS = ROWS
    };
#else
    enum { QUERIES = 32, KEYS = DP > 64 ? 8 : 16, ROWS = KEYS / 4, VECS = 1, Q_LD = DP + 1, OUT_ROWS = 8 };
#endif
};

#define LOG2_E 1.44269504088896340736
#define LN_2   0.69314718055994530942

/* A grid of blocks for every tile of `rows` rows of every head: of one dimension, the tiles of a head side by side, because
 * the other dimensions end at 65535. 0, which no launch takes: more than there can be. */
static inline __host__ unsigned attention_grid(int T, int rows, int heads, int B)
{
    const size_t blocks = (size_t)ceil_div(T, rows) * (size_t)heads * (size_t)B;
    return blocks <= 0x7fffffff ? (unsigned)blocks : 0;
}

/* A block's place in it. */
typedef struct block_place {
    int tile, h, b;
} block_place_t;

static __device__ __forceinline__ block_place_t attention_place(int T, int rows, int heads)
{
    const int tiles = ceil_div(T, rows), head = (int)blockIdx.x / tiles;
    const block_place_t place = {(int)blockIdx.x % tiles, head % heads, head / heads};
    return place;
}

static inline __host__ float attention_factor(int D)
{
    return (float)(LOG2_E / sqrt((double)D));
}

/* keep[key][query] (rows QUERIES apart) = dropout factors of the probabilities of queries q0 ... and keys k0
 * ... k0 + keys - 1 of head bh, for keys up to the diagonal. k0 is a multiple of 4. By all threads of a
 * block, no barrier. */
template <int QUERIES>
TILE_PASS void attention_keep(float *keep, size_t bh, int T, int q0, int k0, int keys, mask_t mask)
{
    const uint32_t threshold = mask.threshold;
    const uint64_t seed = mask.seed;
    const float scale = mask.scale;
    const uint64_t first = mask_start(mask);
    const uint64_t row = ((uint64_t)bh * (uint64_t)T + (uint64_t)q0) * (uint64_t)T + (uint64_t)k0;
    if (T % 4 == 0) { /* four keys of a query share a counter */
        const uint64_t start = first + row / 4;
        for (int g = 0; g < keys; g += 4) {
            const uint64_t s = start + (uint64_t)(g / 4);
            const uint32_t low = (uint32_t)s, high = (uint32_t)(s >> 32), step = (uint32_t)T / 4;
            float *to = keep + g * QUERIES;
            SIMD for (int q = block_thread(); q < QUERIES; q += block_threads())
            {
                const uint32_t c = low + (uint32_t)q * step;
                const words_t w = philox(c, high + (c < low), seed);
                to[q] = dropout_factor(w.w0, threshold, scale);
                to[q + QUERIES] = dropout_factor(w.w1, threshold, scale);
                to[q + 2 * QUERIES] = dropout_factor(w.w2, threshold, scale);
                to[q + 3 * QUERIES] = dropout_factor(w.w3, threshold, scale);
            }
        }
    } else {
        for (int k = 0; k < keys; k++) {
            SIMD for (int q = block_thread(); q < QUERIES; q += block_threads())
            {
                const uint64_t i = row + (uint64_t)k + (uint64_t)q * (uint64_t)T, c = first + i / 4;
                const words_t w = philox((uint32_t)c, (uint32_t)(c >> 32), seed);
                const uint32_t word = i & 2 ? (i & 1 ? w.w3 : w.w2) : (i & 1 ? w.w1 : w.w0);
                keep[k * QUERIES + q] = dropout_factor(word, threshold, scale);
            }
        }
    }
}

#endif
