/* tiles.cu: memory by tiles of 64 KiB: hashing, copying or zeroing, comparing; see tiles.h. One block a tile, whatever
 * the number of threads; no atomics. The hash is that of hash.cu: a sum of mixed words has no order. Included by hash.cu:
 * one module. */
#include "tiles.h"

/* The job of this block, and its tile within it. */
static __device__ __forceinline__ const ebb_tile_job_t *job_of(const ebb_tile_jobs_t *all, unsigned *tile)
{
    unsigned i = 0, at = blockIdx.x;
    while (at >= all->job[i].tiles)
        at -= all->job[i++].tiles;
    *tile = at;
    return &all->job[i];
}

static __device__ __forceinline__ size_t bytes_in(const ebb_tile_job_t *job, unsigned tile)
{
    const size_t left = job->bytes - (size_t)tile * EBB_TILE_BYTES;
    return left < EBB_TILE_BYTES ? left : EBB_TILE_BYTES;
}

/* Over all threads of the block, valid in thread 0; only one of this and block_sum between two barriers. */
static __device__ __forceinline__ uint64_t block_max(uint64_t x)
{
#ifndef __SOFTGPU_FAST__
    __shared__ uint64_t of_warp[32];
    for (int lanes = 16; lanes > 0; lanes /= 2) {
        const uint64_t other = __shfl_xor_sync(0xffffffffu, x, lanes);
        x = other > x ? other : x;
    }
    if (threadIdx.x % 32 == 0)
        of_warp[threadIdx.x / 32] = x;
    __syncthreads();
    if (threadIdx.x == 0)
        for (unsigned w = 1; w < blockDim.x / 32; w++)
            x = of_warp[w] > x ? of_warp[w] : x;
    __syncthreads();
#endif
    return x;
}

/* By its 64 KiB, mixed (2^64 over the golden ratio), so that neighbours are in different ones. */
static __device__ __forceinline__ unsigned group_of(uint64_t word)
{
    static_assert(EBB_TILE_GROUPS == 16, "the upper four bits");
    return (unsigned)((word >> 16) * 0x9e3779b97f4a7c15u >> 60);
}

/* Words that could be addresses: the largest of each group in [low, high) times 64 KiB, and the largest elsewhere. */
static __device__ void find_pointers(uint64_t *out, const uint64_t *words, size_t count, uint64_t low, uint64_t high)
{
    uint64_t inside[EBB_TILE_GROUPS] = {0}, outside = 0;
    for (size_t i = threadIdx.x; i < count; i += blockDim.x) {
        const uint64_t w = words[i];
        if (w % 4 || w >> 32 == 0 || w >> 48)
            continue;
        if (w >> 16 >= low && w >> 16 < high)
            inside[group_of(w)] = w > inside[group_of(w)] ? w : inside[group_of(w)];
        else
            outside = w > outside ? w : outside;
    }
    for (int i = 0; i < EBB_TILE_FOUND; i++) {
        const uint64_t largest = block_max(i < EBB_TILE_GROUPS ? inside[i] : outside);
        if (threadIdx.x == 0)
            out[i] = largest;
    }
}

extern "C" __global__ void ebb_tiles_hash(const __grid_constant__ ebb_tile_jobs_t all)
{
    unsigned tile;
    const ebb_tile_job_t *job = job_of(&all, &tile);
    const unsigned char *p = (const unsigned char *)job->a + (size_t)tile * EBB_TILE_BYTES;
    const uint64_t *words = (const uint64_t *)p;
    const size_t bytes = bytes_in(job, tile), count = bytes / 8;
    uint64_t sum = 0;
    for (size_t i = threadIdx.x; i < count; i += blockDim.x)
        sum += mix(words[i], i);
    if (bytes % 8 && threadIdx.x == 0)
        sum += mix(tail(p + 8 * count, (unsigned)(bytes % 8)), count);
    sum = block_sum(sum);
    if (threadIdx.x == 0) {
        uint64_t *known = (uint64_t *)job->table + tile;
        if (job->result)
            ((unsigned char *)job->result)[tile] = *known != sum;
        *known = sum;
    }
    if (job->b && tile == 0)
        find_pointers((uint64_t *)job->b, words, count, all.low, all.high);
}
BLOCK_SIZE_INDEPENDENT(ebb_tiles_hash);

extern "C" __global__ void ebb_tiles_move(const __grid_constant__ ebb_tile_jobs_t all)
{
    unsigned tile;
    const ebb_tile_job_t *job = job_of(&all, &tile);
    const size_t first = (size_t)tile * EBB_TILE_BYTES, bytes = bytes_in(job, tile), count = bytes / 8;
    uint64_t *to = (uint64_t *)(job->a + first);
    const uint64_t *from = (const uint64_t *)(job->b + first);
    uint64_t any = 0;
    for (size_t i = threadIdx.x; i < count; i += blockDim.x) {
        const uint64_t x = job->b ? from[i] : 0;
        any |= x & 0x7fff7fff7fff7fffu; /* -0.0 is zero, of whatever size */
        to[i] = x;
    }
    for (size_t i = 8 * count + threadIdx.x; i < bytes; i += blockDim.x) {
        const unsigned char x = job->b ? ((const unsigned char *)from)[i] : 0;
        any |= x & 0x7f;
        ((unsigned char *)to)[i] = x;
    }
    if (!job->result)
        return;
    any = block_max(any);
    if (threadIdx.x == 0)
        ((unsigned char *)job->result)[tile] = any != 0;
}
BLOCK_SIZE_INDEPENDENT(ebb_tiles_move);

extern "C" __global__ void ebb_tiles_compare(const __grid_constant__ ebb_tile_jobs_t all)
{
    unsigned tile;
    const ebb_tile_job_t *job = job_of(&all, &tile);
    const size_t first = (size_t)tile * EBB_TILE_BYTES, bytes = bytes_in(job, tile), count = bytes / 8;
    const uint64_t *a = (const uint64_t *)(job->a + first), *b = (const uint64_t *)(job->b + first);
    const uint64_t *c = job->table ? (const uint64_t *)(job->table + first) : a;
    uint64_t different = 0, other = 0;
    for (size_t i = threadIdx.x; i < count; i += blockDim.x) {
        const uint64_t x = a[i];
        different |= x ^ b[i];
        other |= x ^ c[i];
    }
    for (size_t i = 8 * count + threadIdx.x; i < bytes; i += blockDim.x) {
        const unsigned char x = ((const unsigned char *)a)[i];
        different |= x ^ ((const unsigned char *)b)[i];
        other |= x ^ ((const unsigned char *)c)[i];
    }
    different = block_max(different);
    other = block_max(other);
    if (threadIdx.x == 0) {
        unsigned char *result = (unsigned char *)job->result;
        result[tile] = different != 0;
        if (job->table)
            result[job->tiles + tile] = other != 0;
    }
}
BLOCK_SIZE_INDEPENDENT(ebb_tiles_compare);

#ifdef KERNEL_COST
static inline double job_bytes(const ebb_tile_jobs_t &all)
{
    double sum = 0;
    for (unsigned i = 0; i < all.count; i++)
        sum += (double)all.job[i].bytes;
    return sum;
}
static inline softgpu_cost_t tiles_hash_cost(dim3, dim3, const ebb_tile_jobs_t all)
{
    return {10.0 * job_bytes(all) / 8, SOFTGPU_FP32, job_bytes(all)};
}
KERNEL_COST(tiles_hash_cost, ebb_tiles_hash);
static inline softgpu_cost_t tiles_move_cost(dim3, dim3, const ebb_tile_jobs_t all)
{
    double zeros = 0;
    for (unsigned i = 0; i < all.count; i++)
        zeros += all.job[i].b ? 0 : (double)all.job[i].bytes;
    return {job_bytes(all) / 8, SOFTGPU_FP32, 2 * job_bytes(all) - zeros};
}
KERNEL_COST(tiles_move_cost, ebb_tiles_move);
static inline softgpu_cost_t tiles_compare_cost(dim3, dim3, const ebb_tile_jobs_t all)
{
    double third = 0;
    for (unsigned i = 0; i < all.count; i++)
        third += all.job[i].table ? (double)all.job[i].bytes : 0;
    return {(job_bytes(all) + third) / 8, SOFTGPU_FP32, 2 * job_bytes(all) + third};
}
KERNEL_COST(tiles_compare_cost, ebb_tiles_compare);
#endif
