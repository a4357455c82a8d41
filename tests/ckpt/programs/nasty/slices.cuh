/* slices.cuh: blocks own slices, so that kernels run with any block size. */
#ifndef NASTY_SLICES_CUH
#define NASTY_SLICES_CUH

#include "kernels.cuh"

#ifndef BLOCK_SIZE_INDEPENDENT
#define BLOCK_SIZE_INDEPENDENT(...) static_assert(true, "")
#endif

static __device__ __forceinline__ unsigned slice_first(void)
{
    return blockIdx.x * NASTY_SLICE;
}

static __device__ __forceinline__ unsigned slice_end(unsigned n)
{
    const unsigned end = slice_first() + NASTY_SLICE;
    return end < n ? end : n;
}

static __device__ __forceinline__ bool is_first_thread(void)
{
    return blockIdx.x == 0 && threadIdx.x == 0;
}

/* The parts of the slice in which i % m grows by one, from `first` to `end`. */
static __device__ __forceinline__ unsigned run_end(unsigned first, unsigned n, unsigned m)
{
    const unsigned end = first - first % m + m;
    return end < slice_end(n) ? end : slice_end(n);
}

#define EACH_RUN(first, end, n, m)                                                                           \
    for (unsigned first = slice_first(), end = run_end(first, n, m); first < end;                            \
         first = end, end = run_end(first, n, m))

#define EACH(i, n) for (unsigned i = slice_first() + threadIdx.x; i < slice_end(n); i += blockDim.x)

#endif
