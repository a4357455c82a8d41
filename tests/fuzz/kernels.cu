/* kernels.cu: what fuzz programs launch. Whole numbers only: the same bits on every device. Blocks own slices of 4096
 * words, so that they run with any block size. */
#include "kernels.cuh"

#ifndef BLOCK_SIZE_INDEPENDENT
#define BLOCK_SIZE_INDEPENDENT(...)
#endif

#define FOR_SLICE(i, n)                                                                                                \
    for (unsigned i = blockIdx.x * FUZZ_SLICE + threadIdx.x, end = slice_end(n); i < end; i += blockDim.x)

/* Asked once: a store may be to where blockIdx is, for all that the compiler knows. */
static __device__ __forceinline__ unsigned slice_end(unsigned n)
{
    const unsigned end = (blockIdx.x + 1) * FUZZ_SLICE;
    return end < n ? end : n;
}

static __device__ __forceinline__ unsigned scramble(unsigned x)
{
    x ^= x >> 16;
    x *= 0x7feb352dU;
    x ^= x >> 15;
    x *= 0x846ca68bU;
    return x ^ x >> 16;
}

/* out[n] = f(seed, i) */
extern "C" __global__ void fill(unsigned *out, unsigned n, unsigned seed)
{
    FOR_SLICE(i, n)
    out[i] = scramble(i * 2654435761U + seed);
}
BLOCK_SIZE_INDEPENDENT(fill);

/* out[n] += f(a, b), read round and round */
extern "C" __global__ void mix(unsigned *out, const unsigned *a, const unsigned *b, unsigned n, unsigned na, unsigned nb,
                               unsigned salt)
{
    FOR_SLICE(i, n)
    out[i] = out[i] * 3 + scramble(a[i % na] ^ salt) + b[(i + salt) % nb];
}
BLOCK_SIZE_INDEPENDENT(mix);

/* Up to FUZZ_INPUTS inputs, their addresses inside a structure. */
extern "C" __global__ void gather(struct fuzz_gather g, unsigned salt)
{
    FOR_SLICE(i, g.n)
    {
        unsigned sum = salt;
        for (unsigned k = 0; k < FUZZ_INPUTS; k++)
            if (g.in[k])
                sum = sum * 31 + g.in[k][i % g.count[k]];
        g.out[i] = sum;
    }
}
BLOCK_SIZE_INDEPENDENT(gather);

/* The same of a structure in device memory: `way` leads to it, or to where its address is. */
extern "C" __global__ void gather_by(const void *way, unsigned ways, unsigned salt)
{
    const struct fuzz_gather *g =
        (const struct fuzz_gather *)(ways > 1 ? *(const void *const *)way : way);
    FOR_SLICE(i, g->n)
    {
        unsigned sum = salt;
        for (unsigned k = 0; k < FUZZ_INPUTS; k++)
            if (g->in[k])
                sum = sum * 31 + g->in[k][i % g->count[k]];
        g->out[i] = sum;
    }
}
BLOCK_SIZE_INDEPENDENT(gather_by);

/* x[n] changes only if the flag's first word is odd. */
extern "C" __global__ void perhaps(unsigned *x, const unsigned *flag, unsigned n, unsigned salt)
{
    if (flag[0] & 1)
        FOR_SLICE(i, n)
    x[i] = scramble(x[i] + salt);
}
BLOCK_SIZE_INDEPENDENT(perhaps);

/* In place over [first, end): the second address is one past the end of its buffer. */
extern "C" __global__ void span(unsigned *first, unsigned *end, unsigned salt)
{
    const unsigned n = (unsigned)(end - first);
    FOR_SLICE(i, n)
    first[i] = first[i] * 5 + (salt ^ i);
}
BLOCK_SIZE_INDEPENDENT(span);

/* x[0] changes after a while, so that work piles up behind it. */
extern "C" __global__ void dawdle(unsigned *x, unsigned rounds, unsigned salt)
{
    if (threadIdx.x == 0 && blockIdx.x == 0) {
        volatile unsigned sink = 0;
        for (unsigned i = 0; i < rounds; i++)
            sink = sink + i;
        x[0] = scramble(x[0] + salt);
    }
}
BLOCK_SIZE_INDEPENDENT(dawdle);
