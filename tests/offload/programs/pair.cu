/* pair.cu: the kernels of pair.c: relaxation of fields, and sorting of keys. Any block size gives the same bits. */
#include "pair.cuh"

#ifndef BLOCK_SIZE_INDEPENDENT
#define BLOCK_SIZE_INDEPENDENT(...)
#endif

/* The grid has two dimensions; a block's number counts along x first. */
static __device__ __forceinline__ unsigned slice_begin(void)
{
    return (blockIdx.y * gridDim.x + blockIdx.x) * PAIR_SLICE;
}

#define EACH(i, n)                                                                                                     \
    for (unsigned i = slice_begin() + threadIdx.x; i < slice_begin() + PAIR_SLICE && i < (n); i += blockDim.x)

/* out[n] from the fields on both sides and its own; `walls`: one value a slice. */
extern "C" __global__ void relax(float *out, const float *left, const float *mid, const float *right, const float *walls,
                                 unsigned n, float rate)
{
    EACH(i, n)
    {
        const float flow = left[n - 1 - i] + right[i] - 2.0f * mid[i];
        out[i] = mid[i] + rate * flow + walls[i / PAIR_SLICE];
    }
}
BLOCK_SIZE_INDEPENDENT(relax);

/* lower[n] and upper[n] swap elements that are in the wrong order. */
extern "C" __global__ void exchange(unsigned *lower, unsigned *upper, unsigned n, unsigned shift)
{
    EACH(i, n)
    {
        const unsigned j = (i + shift) % n;
        const unsigned a = lower[i], b = upper[j];
        lower[i] = a < b ? a : b;
        upper[j] = a < b ? b : a;
    }
}
BLOCK_SIZE_INDEPENDENT(exchange);

/* counts[slices][PAIR_BINS] of the keys' upper bits. One thread a block. */
extern "C" __global__ void histogram(unsigned *counts, const unsigned *keys, unsigned n)
{
    if (threadIdx.x)
        return;
    unsigned *own = counts + slice_begin() / PAIR_SLICE * PAIR_BINS;
    for (unsigned k = 0; k < PAIR_BINS; k++)
        own[k] = 0;
    for (unsigned i = slice_begin(); i < slice_begin() + PAIR_SLICE && i < n; i++)
        own[keys[i] >> 28]++;
}
BLOCK_SIZE_INDEPENDENT(histogram);

/* Keys from a field's bits, and the other way round: what the two halves give each other. */
extern "C" __global__ void to_keys(unsigned *keys, const float *field, unsigned n, unsigned salt)
{
    EACH(i, n)
    keys[i] = ((unsigned)__float_as_int(field[i]) ^ salt) * 2654435761U;
}
BLOCK_SIZE_INDEPENDENT(to_keys);

extern "C" __global__ void to_field(float *field, const unsigned *keys, unsigned n)
{
    EACH(i, n)
    field[i] = (float)(keys[i] >> 9) * (1.0f / 8388608.0f) - 0.5f;
}
BLOCK_SIZE_INDEPENDENT(to_field);

/* keys[n]: a fixed function of index and seed. */
extern "C" __global__ void seed_keys(unsigned *keys, unsigned n, unsigned seed)
{
    EACH(i, n)
    {
        unsigned x = i * 747796405U + seed;
        x = (x >> ((x >> 28) + 4) ^ x) * 277803737U;
        keys[i] = x >> 22 ^ x;
    }
}
BLOCK_SIZE_INDEPENDENT(seed_keys);
