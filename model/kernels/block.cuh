/* block.cuh: what the kernels here are written with.
 *
 * One source, two machines. On the GPU a block is some warps of 32 lanes. In softgpu's fast mode
 * (softgpu/device.h) it is one thread, a "warp" of one lane: loops that stride by lanes or threads become
 * plain loops that the host compiler vectorises, reductions over lanes have no rounds.
 *
 * Three rules make that work, and make it fast on both:
 * - A block owns a slice of the work, whose size depends on the shape only, never on the size of the block.
 *   No grid-stride loops: a CPU worker would walk through all of memory.
 * - Whatever follows from thread or lane numbers is only who does the work, not what is done. The order in
 *   which lanes add up a row does follow the number of lanes: the sum is right to rounding on either machine.
 * - Innermost loops run over contiguous memory.
 *
 * A kernel for which this holds is marked BLOCK_SIZE_INDEPENDENT. Blocks are multiples of 32 threads.
 */
#ifndef EBB_MODEL_BLOCK_CUH
#define EBB_MODEL_BLOCK_CUH

#include <cuda_runtime.h>
#include <stddef.h>
#include <stdint.h>

#include "launches.h"

#ifndef BLOCK_SIZE_INDEPENDENT
#define BLOCK_SIZE_INDEPENDENT(...) static_assert(true, "")
#endif

/* What launches would cost a GPU, declared beside each kernel for softgpu's virtual clock (softgpu/device.h): operations, in fp32 if
 * nothing else is said, and floats read and written if every tensor passes through memory once. */
#ifndef KERNEL_COST
#define KERNEL_COST(...) static_assert(true, "")
enum { SOFTGPU_FP32, SOFTGPU_BF16 };
typedef struct softgpu_cost {
    double operations;
    int kind;
    double bytes;
} softgpu_cost_t;
#endif

/* Both for a kernel: its cost function, then the kernel. */
#define INDEPENDENT_KERNEL(cost, ...)                                                                        \
    BLOCK_SIZE_INDEPENDENT(__VA_ARGS__);                                                                     \
    KERNEL_COST(cost, __VA_ARGS__)

static inline softgpu_cost_t launch_cost(double operations, double floats)
{
    return softgpu_cost_t{operations, SOFTGPU_FP32, 4.0 * floats};
}

/* SIMD before a loop: its iterations are independent (in-place tensors included: element by element), though
 * the compiler may not see it. SIMD_SUM(a, b): except that they add to a and b. */
#ifdef __SOFTGPU_FAST__
#define LANES         1
#define PRAGMA(...)   _Pragma(#__VA_ARGS__)
#define SIMD          PRAGMA(omp simd)
#define SIMD_SUM(...) PRAGMA(omp simd reduction(+ : __VA_ARGS__))
#define SIMD_MAX(...) PRAGMA(omp simd reduction(max : __VA_ARGS__))
#define UNROLL        _Pragma("GCC unroll 32")
#else
#define LANES 32
#define SIMD
#define SIMD_SUM(...)
#define SIMD_MAX(...)
#define UNROLL _Pragma("unroll")
#endif

enum { BLOCK_THREADS = 256 }; /* what launchers ask for where nothing speaks for another number */

static __device__ __forceinline__ int block_thread(void)
{
    return (int)threadIdx.x;
}

static __device__ __forceinline__ int block_threads(void)
{
    return (int)blockDim.x;
}

static __device__ __forceinline__ int block_lane(void)
{
    return (int)threadIdx.x % LANES;
}

static __device__ __forceinline__ int block_warp(void)
{
    return (int)threadIdx.x / LANES;
}

static __device__ __forceinline__ int block_warps(void)
{
    return (int)blockDim.x / LANES;
}

/* A pointer to shared memory. In fast mode that is thread-local, and gcc would rather call the function that
 * finds the address again in the middle of a loop (spilling all vector registers) than keep it. */
template <typename T> static __device__ __forceinline__ T *shared_pointer(T *p)
{
#ifdef __SOFTGPU_FAST__
    __asm__("" : "+r"(p));
#endif
    return p;
}

/* Reductions over the lanes of a warp; every lane gets the result. */
static __device__ __forceinline__ float warp_sum(float v)
{
#if LANES > 1
    for (int o = LANES / 2; o > 0; o /= 2)
        v += __shfl_xor_sync(0xffffffffu, v, o);
#endif
    return v;
}

static __device__ __forceinline__ double warp_sum(double v)
{
#if LANES > 1
    for (int o = LANES / 2; o > 0; o /= 2)
        v += __shfl_xor_sync(0xffffffffu, v, o);
#endif
    return v;
}

static __device__ __forceinline__ float larger(float a, float b)
{
    return a > b ? a : b; /* not fmaxf: one compare; of NaN and a number, either */
}

static __device__ __forceinline__ float warp_max(float v)
{
#if LANES > 1
    for (int o = LANES / 2; o > 0; o /= 2)
        v = larger(v, __shfl_xor_sync(0xffffffffu, v, o));
#endif
    return v;
}

/* Reductions over a block, called by all of its threads; every thread gets the result. */
template <typename T> static __device__ __forceinline__ T block_sum(T v)
{
    v = warp_sum(v);
#if LANES > 1
    __shared__ T part[32];
    __syncthreads(); /* the last call's readers are done */
    if (block_lane() == 0)
        part[block_warp()] = v;
    __syncthreads();
    v = warp_sum(block_lane() < block_warps() ? part[block_lane()] : (T)0);
#endif
    return v;
}

static __device__ __forceinline__ float block_max(float v)
{
    v = warp_max(v);
#if LANES > 1
    __shared__ float part[32];
    __syncthreads();
    if (block_lane() == 0)
        part[block_warp()] = v;
    __syncthreads();
    v = warp_max(part[block_lane() < block_warps() ? block_lane() : 0]);
#endif
    return v;
}

static inline __host__ __device__ int ceil_div(int a, int b)
{
    return a / b + (a % b != 0);
}

static inline __host__ __device__ size_t ceil_div(size_t a, size_t b)
{
    return a / b + (a % b != 0);
}

static inline __host__ __device__ int smaller(int a, int b)
{
    return a < b ? a : b;
}

/* Rows of C elements that one block takes: about 8192 elements, some microseconds of a CPU worker's time, and
 * still hundreds of blocks for a model that is worth a GPU. */
enum { BLOCK_ELEMENTS = 8192 };

static inline __host__ __device__ int rows_per_block(int C)
{
    return C < BLOCK_ELEMENTS ? BLOCK_ELEMENTS / C : 1;
}

/* Of an array of any length: what a block takes. */
enum { SLICE_ELEMENTS = 16384 };

static inline __device__ size_t slice_end(size_t n)
{
    const size_t end = ((size_t)blockIdx.x + 1) * SLICE_ELEMENTS;
    return end < n ? end : n;
}

static inline unsigned slices(size_t n)
{
    return (unsigned)ceil_div(n, (size_t)SLICE_ELEMENTS);
}

#endif
