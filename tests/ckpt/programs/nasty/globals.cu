/* globals.cu: kernels that read and write variables of their module, which the host looks up. */
#include "passes.cuh"

static __device__ float gain = 0.99f;
static __constant__ float shift = 0.001f;
static __device__ unsigned passes;

NASTY_KERNEL scaled(float *x, unsigned n)
{
    EACH(i, n) x[i] = x[i] * gain + shift;
}
BLOCK_SIZE_INDEPENDENT(scaled);

NASTY_KERNEL counted(float *x, unsigned n)
{
    shrink_and_count(x, n, &passes);
}
BLOCK_SIZE_INDEPENDENT(counted);

NASTY_KERNEL by_count(float *x, unsigned n)
{
    grow_by_count(x, n, &passes);
}
BLOCK_SIZE_INDEPENDENT(by_count);

extern "C" const void *nasty_symbol_gain(void)
{
    return &gain;
}

extern "C" const void *nasty_symbol_shift(void)
{
    return &shift;
}

extern "C" const void *nasty_symbol_passes(void)
{
    return &passes;
}
