/* hash.cu: numbers that tell whether bytes on the device are the same; see hash.h.
 *
 * The sum, modulo 2^64, of every word mixed with its index (the finaliser of splitmix64: Steele, Lea, Flood, "Fast
 * splittable pseudorandom number generators", OOPSLA 2014). A sum has no order, so neither the number of threads nor of
 * blocks changes the result; a block leaves the sum of its slice.
 */
#include <cuda_runtime.h>
#include <stddef.h>
#include <stdint.h>

#ifndef BLOCK_SIZE_INDEPENDENT
#define BLOCK_SIZE_INDEPENDENT(...) static_assert(true, "")
#endif

static __device__ __forceinline__ uint64_t mix(uint64_t word, uint64_t index)
{
    uint64_t z = word + (index + 1) * 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

/* The last word, where the bytes end in the middle of it. */
static __device__ uint64_t tail(const unsigned char *p, unsigned count)
{
    uint64_t word = 0;
    for (unsigned i = 0; i < count; i++)
        word |= (uint64_t)p[i] << (8 * i);
    return word;
}

/* Over all threads of the block, valid in thread 0. */
static __device__ __forceinline__ uint64_t block_sum(uint64_t x)
{
#ifndef __SOFTGPU_FAST__
    __shared__ uint64_t of_warp[32];
    for (int lanes = 16; lanes > 0; lanes /= 2)
        x += __shfl_xor_sync(0xffffffffu, x, lanes);
    if (threadIdx.x % 32 == 0)
        of_warp[threadIdx.x / 32] = x;
    __syncthreads();
    if (threadIdx.x == 0)
        for (unsigned w = 1; w < blockDim.x / 32; w++)
            x += of_warp[w];
    __syncthreads();
#endif
    return x;
}

/* partial[gridDim.x] from `bytes` at `p` (aligned to 8); block b takes words [b * slice, (b + 1) * slice). */
extern "C" __global__ void ebb_hash(uint64_t *__restrict__ partial, const unsigned char *__restrict__ p, size_t bytes,
                                    size_t slice)
{
    const uint64_t *words = (const uint64_t *)p;
    const size_t count = bytes / 8, first = (size_t)blockIdx.x * slice;
    const size_t end = first + slice < count ? first + slice : count;
    uint64_t sum = 0;
    for (size_t i = first + threadIdx.x; i < end; i += blockDim.x)
        sum += mix(words[i], i);
    if (bytes % 8 && blockIdx.x == 0 && threadIdx.x == 0)
        sum += mix(tail(p + 8 * count, (unsigned)(bytes % 8)), count);
    sum = block_sum(sum);
    if (threadIdx.x == 0)
        partial[blockIdx.x] = sum;
}
BLOCK_SIZE_INDEPENDENT(ebb_hash);
#ifdef KERNEL_COST
/* For softgpu's virtual clock: mixing a word takes some ten operations. */
static inline softgpu_cost_t hash_cost(dim3 grid, dim3, uint64_t *, const unsigned char *, size_t bytes, size_t)
{
    return {10.0 * (double)(bytes / 8), SOFTGPU_FP32, (double)bytes + 8.0 * grid.x};
}
KERNEL_COST(hash_cost, ebb_hash);
#endif

/* different[0] = whether two sets of partial sums, of `count` blocks, differ. One block. */
extern "C" __global__ void ebb_hash_compare(uint32_t *different, const uint64_t *a, const uint64_t *b, unsigned count)
{
    if (threadIdx.x)
        return;
    uint32_t any = 0;
    for (unsigned i = 0; i < count; i++)
        any |= a[i] != b[i];
    different[0] = any;
}
BLOCK_SIZE_INDEPENDENT(ebb_hash_compare);
#ifdef KERNEL_COST
static inline softgpu_cost_t hash_compare_cost(dim3, dim3, uint32_t *, const uint64_t *, const uint64_t *, unsigned count)
{
    return {(double)count, SOFTGPU_FP32, 16.0 * count};
}
KERNEL_COST(hash_compare_cost, ebb_hash_compare);
#endif

#include "hold.cu"
#include "tiles.cu"
