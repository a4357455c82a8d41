/* dropout.cuh: dropout by counter (kernels.h says which element gets which random word).
 *
 * A mask is made where it is used, four elements per Philox call, into shared memory: so the random words
 * cost the same whatever a row's length and alignment, and the loop that uses them stays a plain loop. */
#ifndef EBB_MODEL_DROPOUT_CUH
#define EBB_MODEL_DROPOUT_CUH

#include "block.cuh"
#include "kernels.h"

/* dropout_t as kernels take it: an element is kept if its word is >= threshold; 0 switches dropout off. */
typedef struct mask {
    uint64_t seed, offset;
    uint32_t threshold;
    float scale;
    const uint64_t *base;
} mask_t;

/* The counter of element 0. */
static __device__ __forceinline__ uint64_t mask_start(mask_t mask)
{
    return mask.offset + (mask.base ? *mask.base : 0);
}

static inline __host__ mask_t dropout_mask(dropout_t drop)
{
    mask_t mask = {drop.seed, drop.offset, 0, 1.0f, drop.base};
    if (drop.rate > 0) {
        /* word/2^32 >= rate in exact arithmetic: word >= ceil(rate 2^32) */
        const double limit = (double)drop.rate * 4294967296.0;
        const uint64_t whole = (uint64_t)limit, up = whole + ((double)whole < limit);
        mask.threshold = up < 0xffffffffu ? (uint32_t)up : 0xffffffffu;
        mask.scale = 1.0f / (1.0f - drop.rate);
    }
    return mask;
}

typedef struct words {
    uint32_t w0, w1, w2, w3;
} words_t;

/* Philox4x32-10 (Salmon et al., SC 2011), counter (low, high, 0, 0), key the seed. In 32-bit arithmetic
 * throughout: it vectorises over counters. */
static __device__ __forceinline__ words_t philox(uint32_t low, uint32_t high, uint64_t seed)
{
    uint32_t c0 = low, c1 = high, c2 = 0, c3 = 0, k0 = (uint32_t)seed, k1 = (uint32_t)(seed >> 32);
    UNROLL
    for (int round = 0; round < 10; round++) {
        const uint64_t a = (uint64_t)0xD2511F53u * c0, b = (uint64_t)0xCD9E8D57u * c2;
        c0 = (uint32_t)(b >> 32) ^ c1 ^ k0;
        c1 = (uint32_t)b;
        c2 = (uint32_t)(a >> 32) ^ c3 ^ k1;
        c3 = (uint32_t)a;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    const words_t words = {c0, c1, c2, c3};
    return words;
}

static __device__ __forceinline__ float dropout_factor(uint32_t word, uint32_t threshold, float scale)
{
    return word >= threshold ? scale : 0.0f;
}

enum { KEEP = 4096 }; /* elements of a mask made at a time */

/* Rows of C elements that one mask covers; a longer row needs several. */
static inline __host__ __device__ int dropout_rows(int C)
{
    return C < KEEP ? KEEP / C : 1;
}

/* The factors (0 or 1/(1-rate)) of elements first ... first + count - 1, count <= KEEP, by all threads of a
 * block. Element first + i is at keep[result + i]. keep[count + 8] is in shared memory; a barrier before,
 * since others may still be reading it, and one after are part of this. */
static __device__ __forceinline__ int dropout_fill(float *keep, size_t first, int count, mask_t mask)
{
    const int lead = (int)(first % 4), groups = (lead + count + 3) / 4;
    const uint64_t start = mask_start(mask) + first / 4, seed = mask.seed;
    const uint32_t low = (uint32_t)start, high = (uint32_t)(start >> 32), threshold = mask.threshold;
    const float scale = mask.scale;
    __syncthreads();
    SIMD for (int g = block_thread(); g < groups; g += block_threads())
    {
        const uint32_t c = low + (uint32_t)g;
        const words_t w = philox(c, high + (c < low), seed);
        keep[4 * g + 0] = dropout_factor(w.w0, threshold, scale);
        keep[4 * g + 1] = dropout_factor(w.w1, threshold, scale);
        keep[4 * g + 2] = dropout_factor(w.w2, threshold, scale);
        keep[4 * g + 3] = dropout_factor(w.w3, threshold, scale);
    }
    __syncthreads();
    return lead;
}

#endif
