/* passes.cuh: what kernels do that count their launches, and that depend on the count, each module with a counter of its own. */
#ifndef NASTY_PASSES_CUH
#define NASTY_PASSES_CUH

#include "slices.cuh"

static __device__ __forceinline__ void shrink_and_count(float *x, unsigned n, unsigned *passes)
{
    EACH(i, n) x[i] *= 0.97f;
    if (is_first_thread())
        (*passes)++;
}

static __device__ __forceinline__ void grow_by_count(float *x, unsigned n, const unsigned *passes)
{
    EACH(i, n) x[i] += (float)(*passes % 1024) * 1e-4f;
}

#endif
