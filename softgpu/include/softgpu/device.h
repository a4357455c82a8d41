/* softgpu/device.h: CUDA C's device side for the host compiler, fast mode.
 *
 * A .cu file is compiled after this header by g++ (CMake: softgpu_kernels()). In fast mode a block has
 * exactly one thread: threadIdx is 0, blockDim is 1, a warp has one lane. A loop that strides by blockDim
 * over a block's slice becomes a plain loop, which the compiler vectorises; __syncthreads() vanishes; a
 * reduction over LANES lanes has no rounds.
 *
 * Only kernels whose result does not depend on the block size survive that. The source promises it with
 *     BLOCK_SIZE_INDEPENDENT(kernel);       (a template instance: BLOCK_SIZE_INDEPENDENT(kernel<float, 64>);)
 * A kernel without that mark gets no entry for fast mode and the driver refuses to launch it.
 *
 * What a launch costs a GPU, for the device's virtual clock, is declared beside the kernel by a function that takes
 * the launch's grid and block and the kernel's own parameters (of which it must not follow pointers):
 *     static inline softgpu_cost_t scale_cost(dim3 grid, dim3 block, float *x, float by, int n)
 *     {
 *         return {(double)n, SOFTGPU_FP32, 8.0 * n};
 *     }
 *     KERNEL_COST(scale_cost, scale);
 *
 * Defined here for the source to test: __SOFTGPU__ and __SOFTGPU_FAST__. Not in fast mode: extern __shared__
 * arrays, warp intrinsics, atomics, __constant__ and __device__ variables (the SIMT mode's business).
 */
#ifndef SOFTGPU_DEVICE_H
#define SOFTGPU_DEVICE_H

#define __SOFTGPU__      1
#define __SOFTGPU_FAST__ 1

#include <cuda_runtime.h>
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <type_traits>
#include <utility>

#include "softgpu/kernel_abi.h"
#include "softgpu/fast_math.h"

#undef __global__
#undef __device__
#undef __host__
#undef __shared__
#undef __forceinline__
#undef __noinline__
#undef __launch_bounds__
#define __global__
#define __device__ /* not `inline`: `inline __device__` is common, and would say it twice */
#define __host__
#define __shared__      static thread_local
#define __forceinline__ inline __attribute__((always_inline))
#define __noinline__    __attribute__((noinline))
#define __launch_bounds__(...)

namespace softgpu
{
/* The block that this worker runs. Not initial-exec: one such variable moves the whole library's thread-local
 * storage, all __shared__ arrays included, into the static block, where dlopen finds no room for it. */
inline thread_local uint3 block_index;
inline thread_local uint3 grid_size;

template <auto Kernel> struct block_size_independent {
    static constexpr bool value = false;
};

template <auto Kernel> struct cost_of {
    static constexpr softgpu_cost_fn function = nullptr;
};

/* Calls Kernel with the arguments found in a launch's argument block, once for each block asked for. */
template <auto Kernel, typename Signature> struct adapter;

template <auto Kernel, typename... Args> struct adapter<Kernel, void (*)(Args...)> {
    static constexpr uint32_t count = sizeof...(Args);

    /* Arguments are laid out like the members of a struct: each at the next multiple of its alignment. */
    struct layout {
        softgpu_param_t params[count ? count : 1] = {};
        constexpr layout()
        {
            const size_t size[] = {sizeof(Args)..., 0}, align[] = {alignof(Args)..., 1};
            size_t offset = 0;
            for (uint32_t i = 0; i < count; i++) {
                offset = (offset + align[i] - 1) / align[i] * align[i];
                params[i].offset_bytes = (uint32_t)offset;
                params[i].size_bytes = (uint32_t)size[i];
                offset += size[i];
            }
        }
    };
    static constexpr layout params{};

    template <size_t... I> static void call(const char *block, std::index_sequence<I...>)
    {
        (void)block;
        Kernel(*reinterpret_cast<const Args *>(block + params.params[I].offset_bytes)...);
    }

    template <auto Cost, size_t... I>
    static softgpu_cost_t cost_with(const softgpu_launch_t *l, std::index_sequence<I...>)
    {
        const char *block = (const char *)l->params;
        (void)block;
        return Cost(dim3(l->grid[0], l->grid[1], l->grid[2]), dim3(l->block[0], l->block[1], l->block[2]),
                    *reinterpret_cast<const Args *>(block + params.params[I].offset_bytes)...);
    }
    template <auto Cost> static softgpu_cost_t cost(const softgpu_launch_t *launch)
    {
        return cost_with<Cost>(launch, std::index_sequence_for<Args...>{});
    }

    static void run(const softgpu_launch_t *launch, uint64_t first, uint64_t blocks)
    {
        grid_size = {launch->grid[0], launch->grid[1], launch->grid[2]};
        for (uint64_t b = first; b < first + blocks; b++) {
            block_index.x = (uint32_t)(b % launch->grid[0]);
            block_index.y = (uint32_t)(b / launch->grid[0] % launch->grid[1]);
            block_index.z = (uint32_t)(b / launch->grid[0] / launch->grid[1]);
            call((const char *)launch->params, std::index_sequence_for<Args...>{});
        }
    }
};

template <auto Kernel> constexpr softgpu_kernel_t describe(const char *name)
{
    using bound = adapter<Kernel, decltype(Kernel)>;
    return {name,
            bound::count,
            bound::params.params,
            {block_size_independent<Kernel>::value ? bound::run : nullptr, nullptr, nullptr},
            cost_of<Kernel>::function};
}

/* What `kernel<<<grid, block>>>(...)` in the source becomes here: host code of a .cu file is compiled, never
 * run. */
struct never_launched {
    template <typename... Args> void operator()(Args &&...) const
    {
    }
};
template <typename... Args> never_launched launch_configuration(Args &&...)
{
    return {};
}
} // namespace softgpu

#define BLOCK_SIZE_INDEPENDENT(...)                                                                          \
    template <> struct softgpu::block_size_independent<&__VA_ARGS__> {                                       \
        static constexpr bool value = true;                                                                  \
    }

/* KERNEL_COST(cost function, kernel). */
#define KERNEL_COST(function_, ...)                                                                          \
    template <> struct softgpu::cost_of<&__VA_ARGS__> {                                                      \
        static constexpr softgpu_cost_fn function =                                                          \
            softgpu::adapter<&__VA_ARGS__, decltype(&__VA_ARGS__)>::template cost<&function_>;               \
    }

static constexpr struct {
    unsigned x, y, z;
} threadIdx = {0, 0, 0}, blockDim = {1, 1, 1};
#define blockIdx softgpu::block_index
#define gridDim  softgpu::grid_size

static inline void __syncthreads(void)
{
}
static inline void __syncwarp(unsigned = 0xffffffffu)
{
}
/* CUDA's integer min and max; those of floats are in fast_math.h. */
#define SOFTGPU_MIN_MAX(type)                                                                                \
    static inline type min(type a, type b)                                                                   \
    {                                                                                                        \
        return b < a ? b : a;                                                                                \
    }                                                                                                        \
    static inline type max(type a, type b)                                                                   \
    {                                                                                                        \
        return a < b ? b : a;                                                                                \
    }
SOFTGPU_MIN_MAX(int)
SOFTGPU_MIN_MAX(unsigned)
SOFTGPU_MIN_MAX(long)
SOFTGPU_MIN_MAX(unsigned long)
SOFTGPU_MIN_MAX(long long)
SOFTGPU_MIN_MAX(unsigned long long)
#undef SOFTGPU_MIN_MAX
template <typename T> static inline T __ldg(const T *p)
{
    return *p;
}

#endif
