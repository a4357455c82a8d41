/* kernels.cu: the kernels of the conformance cases, with C names. Blocks own slices of 1024 elements, so that they run
 * with any block size. */
#include <cuda.h>

#ifndef BLOCK_SIZE_INDEPENDENT
#define BLOCK_SIZE_INDEPENDENT(...)
#endif

enum { SLICE = 1024 };

#define FOR_SLICE(i, n)                                                                                      \
    for (int i = (int)blockIdx.x * SLICE + (int)threadIdx.x; i < ((int)blockIdx.x + 1) * SLICE && i < (n);   \
         i += (int)blockDim.x)

extern "C" __global__ void fill(int *p, int value, int n)
{
    FOR_SLICE(i, n)
    p[i] = value;
}
BLOCK_SIZE_INDEPENDENT(fill);

/* Of the last argument only the first `n` are looked at. */
struct numbers {
    int of[1000];
};
extern "C" __global__ void take(int *p, int n, const __grid_constant__ numbers from)
{
    for (int i = threadIdx.x; i < n; i += blockDim.x)
        p[i] = from.of[i];
}
BLOCK_SIZE_INDEPENDENT(take);

extern "C" __global__ void add(int *p, int value, int n)
{
    FOR_SLICE(i, n)
    p[i] += value;
}
BLOCK_SIZE_INDEPENDENT(add);

/* out[i] = 31 out[i] + 7 a[i] + b[i] + c: the order of such kernels shows in the result. */
extern "C" __global__ void mix(unsigned *out, const unsigned *a, const unsigned *b, unsigned c, int n)
{
    FOR_SLICE(i, n)
    out[i] = 31u * out[i] + 7u * a[i] + b[i] + c;
}
BLOCK_SIZE_INDEPENDENT(mix);

/* Until the host has written to mapped memory. */
extern "C" __global__ void wait_for(const int *gate)
{
    while (*(volatile const int *)gate == 0) {
    }
}
BLOCK_SIZE_INDEPENDENT(wait_for);

/* out[0..15]: the words of the map. */
extern "C" __global__ void copy_map(const __grid_constant__ CUtensorMap map, unsigned long long *out)
{
    if (blockIdx.x == 0)
        for (int i = (int)threadIdx.x; i < 16; i += (int)blockDim.x)
            out[i] = map.opaque[i];
}
BLOCK_SIZE_INDEPENDENT(copy_map);

/* ---- kernels that need threads ---- */

/* out[4][32] of one warp, groups of `width`: lane 3, two lanes down, five lanes up, the lane with bits 9 flipped. */
extern "C" __global__ void shuffles(int *out, int width)
{
    const int lane = (int)threadIdx.x, v = 100 + lane;
    out[lane] = __shfl_sync(0xffffffffu, v, 3, width);
    out[32 + lane] = __shfl_up_sync(0xffffffffu, v, 2, width);
    out[64 + lane] = __shfl_down_sync(0xffffffffu, v, 5, width);
    out[96 + lane] = __shfl_xor_sync(0xffffffffu, v, 9, width);
}

/* out[5][32] of one warp: ballot of multiples of 5; any >= limit and all >= limit; lanes with the same third; whether all have
 * the same value; the sum of lane numbers. */
extern "C" __global__ void votes(unsigned *out, int limit)
{
    const int lane = (int)threadIdx.x;
    int same = 0;
    out[lane] = __ballot_sync(0xffffffffu, lane % 5 == 0);
    out[32 + lane] = (__any_sync(0xffffffffu, lane >= limit) ? 2u : 0u) + (__all_sync(0xffffffffu, lane >= limit) ? 1u : 0u);
    out[64 + lane] = __match_any_sync(0xffffffffu, lane / 3);
    out[96 + lane] = __match_all_sync(0xffffffffu, limit, &same) + (unsigned)same;
    out[128 + lane] = __reduce_add_sync(0xffffffffu, (unsigned)lane);
}

/* out[0..2]: how many threads are multiples of 3; whether all, any are >= limit. */
extern "C" __global__ void block_votes(int *out, int limit)
{
    const int i = (int)threadIdx.x;
    const int count = __syncthreads_count(i % 3 == 0), all = __syncthreads_and(i >= limit), any = __syncthreads_or(i >= limit);
    if (i == 0) {
        out[0] = count;
        out[1] = all != 0;
        out[2] = any != 0;
    }
}

/* out[i] = how many threads stayed, for those below `stay`; the others leave before the last barrier. */
extern "C" __global__ void some_leave(int *out, int stay)
{
    __shared__ int stayed;
    if (threadIdx.x == 0)
        stayed = 0;
    __syncthreads();
    if ((int)threadIdx.x >= stay)
        return;
    atomicAdd(&stayed, 1);
    __syncthreads();
    out[threadIdx.x] = stayed;
}

/* c[0..9], from 0 (c[4]: all ones): what every thread of the grid does to them. */
extern "C" __global__ void atomics(int *c)
{
    const int i = (int)(blockIdx.x * blockDim.x + threadIdx.x);
    atomicAdd(&c[0], 2);
    atomicSub(&c[1], i);
    atomicMin(&c[2], -i);
    atomicMax(&c[3], i);
    atomicAnd(&c[4], ~(1 << i % 31));
    atomicOr(&c[5], 1 << i % 31);
    atomicXor(&c[6], i);
    atomicInc((unsigned *)&c[7], 9);
    atomicAdd((float *)&c[8], 0.5f);
    for (int seen = c[9], old; (old = atomicCAS(&c[9], seen, seen + 3)) != seen;)
        seen = old;
}

/* out[block] = the sum of 0 ... n - 1, by way of dynamic shared memory. */
extern "C" __global__ void dynamic_sum(int *out, int n)
{
    extern __shared__ int pool[];
    for (int i = (int)threadIdx.x; i < n; i += (int)blockDim.x)
        pool[i] = i;
    __syncthreads();
    if (threadIdx.x == blockDim.x - 1) {
        int total = 0;
        for (int i = 0; i < n; i++)
            total += pool[i];
        out[blockIdx.x] = total;
    }
}

/* seen[i] = indices of thread i of the grid. */
extern "C" __global__ void places(unsigned *seen)
{
    const unsigned thread = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
    const unsigned block = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
    seen[block * blockDim.x * blockDim.y * blockDim.z + thread] =
        block * 1000000 + threadIdx.z * 10000 + threadIdx.y * 100 + threadIdx.x;
}

/* arrived[0] counts blocks; each waits for all of them. out[block] = how many it has seen. */
extern "C" __global__ void wait_for_all_blocks(int *out, int *arrived)
{
    if (threadIdx.x == 0) {
        __threadfence();
        atomicAdd(arrived, 1);
        while (atomicAdd(arrived, 0) < (int)gridDim.x) {
        }
        out[blockIdx.x] = atomicAdd(arrived, 0);
    }
}

extern "C" __global__ void static_shared(int *out)
{
    __shared__ int words[300];
    words[threadIdx.x] = 1;
    __syncthreads();
    out[threadIdx.x] = words[(threadIdx.x + 1) % blockDim.x];
}

__device__ int conformance_counter = 5;
__constant__ int conformance_factors[3];

extern "C" __global__ void use_variables(int *out)
{
    if (threadIdx.x == 0)
        out[0] = conformance_counter + conformance_factors[0] + conformance_factors[1] + conformance_factors[2];
    __syncthreads();
    atomicAdd(&conformance_counter, 1);
}
