/* softgpu/fast.h: threads and barriers where a block has one thread. */
#ifndef SOFTGPU_FAST_H
#define SOFTGPU_FAST_H

namespace softgpu
{
/* The block that this worker runs. Not initial-exec: one such variable moves the whole library's thread-local
 * storage, all __shared__ arrays included, into the static block, where dlopen finds no room for it. */
inline thread_local uint3 block_index;
inline thread_local uint3 grid_size;

SOFTGPU_RUN_OF_KERNEL
{
    services = launch->services;
    grid_size = {launch->grid[0], launch->grid[1], launch->grid[2]};
    for (uint64_t b = first; b < first + blocks; b++) {
        block_index.x = (uint32_t)(b % launch->grid[0]);
        block_index.y = (uint32_t)(b / launch->grid[0] % launch->grid[1]);
        block_index.z = (uint32_t)(b / launch->grid[0] / launch->grid[1]);
        call((const char *)launch->params, std::index_sequence_for<Args...>{});
    }
}

/* Constants, so that what depends on them folds away; they convert to what CUDA has. */
struct one_thread_index {
    unsigned x, y, z;
    operator uint3() const
    {
        return {x, y, z};
    }
    operator dim3() const
    {
        return dim3(x, y, z);
    }
};

/* A marked kernel that does what one thread cannot. */
static inline void needs_threads(const char *what, softgpu_place_t place)
{
    if (services)
        services->fail(719 /* CUDA_ERROR_LAUNCH_FAILED */, what, place);
}

} // namespace softgpu

static constexpr softgpu::one_thread_index threadIdx = {0, 0, 0}, blockDim = {1, 1, 1};
#define blockIdx softgpu::block_index
#define gridDim  softgpu::grid_size
enum { warpSize = 1 };

static inline void __syncthreads(void)
{
}
static inline int __syncthreads_count(int predicate)
{
    return predicate != 0;
}
static inline int __syncthreads_and(int predicate)
{
    return predicate != 0;
}
static inline int __syncthreads_or(int predicate)
{
    return predicate != 0;
}
static inline void __syncwarp(unsigned = 0xffffffffu)
{
}
static inline void __grid_sync(softgpu_place_t place = softgpu::here())
{
    softgpu::needs_threads("a barrier of the grid in fast mode", place);
}

#endif
