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

enum { PIECE = 128 }; /* words; hash.c's PIECE_WORDS */

/* Of `bytes` at `p` (aligned to 8), of its pieces those with number % every == turn; block b takes `slice` of them, from b * slice on. Valid
 * in thread 0. */
static __device__ __forceinline__ uint64_t hash_slice(const unsigned char *p, size_t bytes, size_t slice, size_t turn,
                                                      size_t every)
{
    const uint64_t *words = (const uint64_t *)p;
    const unsigned width = blockDim.x < PIECE ? blockDim.x : PIECE, lane = threadIdx.x % width;
    const size_t count = bytes / 8, first = (size_t)blockIdx.x * slice;
    uint64_t sum = 0;
    for (size_t k = first + threadIdx.x / width; k < first + slice; k += blockDim.x / width) {
        const size_t begin = (k * every + turn) * PIECE;
        if (begin > count)
            break;
        const size_t end = count - begin < PIECE ? count : begin + PIECE;
        for (size_t i = begin + lane; i < end; i += width)
            sum += mix(words[i], i);
        if (lane == 0 && bytes % 8 && end == count && count - begin < PIECE)
            sum += mix(tail(p + 8 * count, (unsigned)(bytes % 8)), count);
    }
    return block_sum(sum);
}

/* partial[gridDim.x]: each block's sum. With `different`: compared instead, and different[0] = 1 if any is another. */
extern "C" __global__ void ebb_hash(uint64_t *__restrict__ partial, uint32_t *different,
                                    const unsigned char *__restrict__ p, size_t bytes, size_t slice, size_t turn,
                                    size_t every)
{
    const uint64_t sum = hash_slice(p, bytes, slice, turn, every);
    if (threadIdx.x)
        return;
    if (!different)
        partial[blockIdx.x] = sum;
    else if (partial[blockIdx.x] != sum)
        different[0] = 1;
}
BLOCK_SIZE_INDEPENDENT(ebb_hash);

/* Whether the block's sum is another one; in all its threads. */
static __device__ __forceinline__ bool block_differs(const uint64_t *partial, uint64_t sum)
{
#ifndef __SOFTGPU_FAST__
    __shared__ bool differs;
    if (threadIdx.x == 0)
        differs = partial[blockIdx.x] != sum;
    __syncthreads();
    return differs;
#else
    return partial[blockIdx.x] != sum;
#endif
}

/* A block whose sum is another one copies its slice to the same place at `to`, notes the sum, and different[0] = 1. */
extern "C" __global__ void ebb_hash_copy(uint64_t *__restrict__ partial, uint32_t *different,
                                         const unsigned char *__restrict__ p, size_t bytes, size_t slice, unsigned char *to)
{
    const uint64_t sum = hash_slice(p, bytes, slice, 0, 1);
    if (!block_differs(partial, sum))
        return;
    const size_t all = bytes / 8, begin = blockIdx.x * slice * PIECE, next = begin + slice * PIECE;
    for (size_t i = begin + threadIdx.x; i < all && i < next; i += blockDim.x)
        ((uint64_t *)to)[i] = ((const uint64_t *)p)[i];
    for (size_t i = 8 * all + threadIdx.x; begin <= all && all < next && i < bytes; i += blockDim.x)
        to[i] = p[i];
    if (threadIdx.x == 0) {
        partial[blockIdx.x] = sum;
        different[0] = 1;
    }
}
BLOCK_SIZE_INDEPENDENT(ebb_hash_copy);
#ifdef KERNEL_COST
/* For softgpu's virtual clock: mixing a word takes some ten operations. */
static inline softgpu_cost_t hash_cost(dim3 grid, dim3, uint64_t *, uint32_t *, const unsigned char *, size_t bytes, size_t,
                                       size_t, size_t every)
{
    const double part = (double)bytes / (double)every;
    return {10.0 * part / 8, SOFTGPU_FP32, part + 8.0 * grid.x};
}
KERNEL_COST(hash_cost, ebb_hash);
static inline softgpu_cost_t hash_copy_cost(dim3 grid, dim3, uint64_t *, uint32_t *, const unsigned char *, size_t bytes, size_t,
                                            unsigned char *)
{
    return {10.0 * (double)bytes / 8, SOFTGPU_FP32, (double)bytes + 8.0 * grid.x};
}
KERNEL_COST(hash_copy_cost, ebb_hash_copy);
#endif

#include "hold.cu"
#include "tiles.cu"
