/* softgpu/device.h: CUDA C's device side for the host compiler.
 *
 * A .cu file is compiled after this header by g++ (CMake: softgpu_kernels()), for fast mode: __SOFTGPU_FAST__ is defined for the source to
 * test. A block has exactly one thread: threadIdx is 0, blockDim is 1, a warp has one lane. A loop that
 * strides by blockDim over a block's slice becomes a plain loop, which the compiler vectorises; __syncthreads()
 * vanishes; a reduction over LANES lanes has no rounds. Only kernels whose result does not depend on the block size
 * survive that. The source promises it with
 *     BLOCK_SIZE_INDEPENDENT(kernel);       (a template instance: BLOCK_SIZE_INDEPENDENT(kernel<float, 64>);)
 * A kernel without that mark has to compile, and gets no entry for fast mode. All kernels in the other modes, and those without the mark,
 * are what Clang makes of the same source, which does not see this header.
 *
 * What a launch costs a GPU, for the device's virtual clock, is declared beside the kernel by a function that takes
 * the launch's grid and block and the kernel's own parameters (of which it must not follow pointers):
 *     static inline softgpu_cost_t scale_cost(dim3 grid, dim3 block, float *x, float by, int n)
 *     {
 *         return {(double)n, SOFTGPU_FP32, 8.0 * n};
 *     }
 *     KERNEL_COST(scale_cost, scale);
 *
 * By subject: table.h (kernels and their tables), fast.h (threads, barriers), warp.h (what lanes do
 * together), atomics.h, functions.h (small device functions), host.h (host code of a .cu file), fast_math.h. Matrix
 * and asynchronous-copy instructions: intrinsics.cuh, which a kernel includes itself, with nvcc too.
 */
#ifndef SOFTGPU_DEVICE_H
#define SOFTGPU_DEVICE_H

#define __SOFTGPU_FAST__ 1

#include <cuda_runtime.h>
#include <cmath>
#include <limits>
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
#undef __constant__
#undef __managed__
#undef __grid_constant__
#undef __forceinline__
#undef __noinline__
#undef __launch_bounds__
#define __global__
#define __device__ /* not `inline`: `inline __device__` is common, and would say it twice */
#define __host__
#define __constant__
#define __managed__
#define __grid_constant__
/* In a function that is `static thread_local`; with `extern`, an array whose symbol the kernel table defines. */
#define __shared__      thread_local
#define __forceinline__ inline __attribute__((always_inline))
#define __noinline__    __attribute__((noinline))
#define __launch_bounds__(...)

namespace softgpu
{
/* The driver's, set by each run. */
inline const softgpu_services_t *services;

/* Where a call stands, if this is a default argument. */
constexpr softgpu_place_t here(const char *file = __builtin_FILE(), uint32_t line = __builtin_LINE())
{
    return {file, line};
}
} // namespace softgpu

#include "softgpu/table.h"
#include "softgpu/fast.h"
#include "softgpu/functions.h"
#include "softgpu/warp.h"
#include "softgpu/atomics.h"
#include "softgpu/host.h"

#endif
