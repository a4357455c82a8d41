/* softgpu/simt.h: threads and barriers where every thread is a fiber. */
#ifndef SOFTGPU_SIMT_H
#define SOFTGPU_SIMT_H

namespace softgpu
{
/* The running thread of this worker: the driver sets it whenever it goes from one to another. */
inline thread_local const softgpu_thread_t *self;
inline thread_local const softgpu_launch_t *current_launch;

SOFTGPU_RUN_OF_KERNEL
{
    services = launch->services;
    const softgpu_entry_t entry = {one_thread, &self, &current_launch};
    services->run_blocks(launch, first, blocks, &entry);
}

SOFTGPU_UNSEEN uint3 triple(const uint32_t (softgpu_thread_t::*member)[3])
{
    const uint32_t *const v = self->*member;
    return {v[0], v[1], v[2]};
}

SOFTGPU_UNSEEN uint32_t lane(void)
{
    return self->lane;
}

SOFTGPU_UNSEEN void let_others_run(void)
{
    services->pause();
}
} // namespace softgpu

#define threadIdx (softgpu::triple(&softgpu_thread_t::thread))
#define blockIdx  (softgpu::triple(&softgpu_thread_t::block))
#define blockDim  (dim3(softgpu::triple(&softgpu_thread_t::block_dim)))
#define gridDim   (dim3(softgpu::triple(&softgpu_thread_t::grid)))
enum { warpSize = 32 };

SOFTGPU_UNSEEN void __syncthreads(softgpu_place_t place = softgpu::here())
{
    softgpu::services->barrier(SOFTGPU_SYNC, 0, place);
}
SOFTGPU_UNSEEN int __syncthreads_count(int predicate, softgpu_place_t place = softgpu::here())
{
    return softgpu::services->barrier(SOFTGPU_SYNC_COUNT, predicate, place);
}
SOFTGPU_UNSEEN int __syncthreads_and(int predicate, softgpu_place_t place = softgpu::here())
{
    return softgpu::services->barrier(SOFTGPU_SYNC_AND, predicate, place);
}
SOFTGPU_UNSEEN int __syncthreads_or(int predicate, softgpu_place_t place = softgpu::here())
{
    return softgpu::services->barrier(SOFTGPU_SYNC_OR, predicate, place);
}
/* All threads of a cooperative launch. (Not CUDA's name: intrinsics.cuh has it for nvcc.) */
SOFTGPU_UNSEEN void __grid_sync(softgpu_place_t place = softgpu::here())
{
    softgpu::services->grid_barrier(place);
}

#endif
