/* nvcc_entry.c: the entry points that nvcc's generated host code calls (crt/host_runtime.h of the toolkit).
 *
 * Per object file with kernels: a constructor registers the fat binary, its kernels and variables; atexit
 * unregisters. Per `kernel<<<...>>>(args)`: __cudaPushCallConfiguration, then the host stub, which gets the
 * kernel's handle once
 * (__cudaGetKernel, in a static initialiser), pops the configuration and calls __cudaLaunchKernel.
 */
#include "softgpu/runtime/registry.h"

#include <fatbinary_section.h>
#include <stdatomic.h>
#include <stdio.h>

void **__cudaRegisterFatBinary(void *wrapper);
void __cudaRegisterFatBinaryEnd(void **image);
void __cudaUnregisterFatBinary(void **image);
void __cudaRegisterFunction(void **image, const char *host, char *device, const char *name, int thread_limit,
                            uint3 *tid, uint3 *bid, dim3 *block, dim3 *grid, int *warp_size);
void __cudaRegisterVar(void **image, char *host, char *device, const char *name, int external, size_t bytes,
                       int constant, int global);
void __cudaRegisterManagedVar(void **image, void **host, char *device, const char *name, int external,
                              size_t bytes, int constant, int global);
char __cudaInitModule(void **image);
unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared, struct CUstream_st *stream);
cudaError_t __cudaPopCallConfiguration(dim3 *grid, dim3 *block, size_t *shared, void *stream);
cudaError_t __cudaGetKernel(cudaKernel_t *kernel, const void *host);
cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block, void **args, size_t shared,
                               cudaStream_t stream);
cudaError_t __cudaLaunchKernel_ptsz(cudaKernel_t kernel, dim3 grid, dim3 block, void **args, size_t shared,
                                    cudaStream_t stream);

void **__cudaRegisterFatBinary(void *wrapper)
{
    const __fatBinC_Wrapper_t *fat = wrapper; /* in the section .nvFatBinSegment */
    return (void **)registry_add_image(fat->magic == FATBINC_MAGIC ? (const void *)fat->data : wrapper);
}

void __cudaRegisterFatBinaryEnd(void **image)
{
    (void)image;
}

void __cudaUnregisterFatBinary(void **image)
{
    registry_remove_image((rt_image_t *)image);
}

void __cudaRegisterFunction(void **image, const char *host, char *device, const char *name, int thread_limit,
                            uint3 *tid, uint3 *bid, dim3 *block, dim3 *grid, int *warp_size)
{
    (void)device, (void)thread_limit, (void)tid, (void)bid, (void)block, (void)grid, (void)warp_size;
    if (image)
        registry_add((rt_image_t *)image, SYMBOL_KERNEL, host, name);
}

void __cudaRegisterVar(void **image, char *host, char *device, const char *name, int external, size_t bytes,
                       int constant, int global)
{
    (void)device, (void)external, (void)bytes, (void)constant, (void)global;
    if (image)
        registry_add((rt_image_t *)image, SYMBOL_VARIABLE, host, name);
}

void __cudaRegisterManagedVar(void **image, void **host, char *device, const char *name, int external,
                              size_t bytes, int constant, int global)
{
    (void)device, (void)external, (void)bytes, (void)constant, (void)global;
    if (image)
        registry_add((rt_image_t *)image, SYMBOL_MANAGED, host, name);
}

/* Called before the first host access to a __managed__ variable. */
char __cudaInitModule(void **image)
{
    if (rt_record(rt_enter()) != cudaSuccess)
        return 0;
    return (char)registry_init_managed((rt_image_t *)image);
}

/* launches */

/* Configurations of `<<<>>>` that are not launched yet. They nest: an argument may itself launch. */
enum { MAX_CONFIGURATIONS = 16 };
static _Thread_local struct {
    rt_launch_t launch[MAX_CONFIGURATIONS];
    int count;
} pending;

unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared, struct CUstream_st *stream)
{
    if (pending.count == MAX_CONFIGURATIONS)
        return rt_record(cudaErrorLaunchMaxDepthExceeded);
    pending.launch[pending.count++] =
        (rt_launch_t){.grid = grid, .block = block, .shared_bytes = shared, .stream = stream};
    return cudaSuccess;
}

cudaError_t __cudaPopCallConfiguration(dim3 *grid, dim3 *block, size_t *shared, void *stream)
{
    if (pending.count == 0)
        return rt_record(cudaErrorMissingConfiguration);
    const rt_launch_t *launch = &pending.launch[--pending.count];
    *grid = launch->grid;
    *block = launch->block;
    *shared = launch->shared_bytes;
    *(cudaStream_t *)stream = launch->stream;
    return cudaSuccess;
}

/* Why a handle could not be had: the stub asks once and launches with NULL for ever after. */
static _Atomic int no_kernel_error = cudaErrorInvalidDeviceFunction;

cudaError_t __cudaGetKernel(cudaKernel_t *kernel, const void *host)
{
    cudaError_t error = rt_enter() ?: registry_kernel(host, kernel);
    if (error != cudaSuccess) {
        *kernel = NULL;
        atomic_store(&no_kernel_error, (int)error);
    }
    return rt_record(error);
}

static cudaError_t launch_handle(const driver_t *d, cudaKernel_t kernel, const rt_launch_t *launch)
{
    if (!kernel)
        return (cudaError_t)atomic_load(&no_kernel_error);
    return rt_enter() ?: rt_launch(d, (CUfunction)kernel, launch);
}

cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block, void **args, size_t shared,
                               cudaStream_t stream)
{
    rt_launch_t launch = {grid, block, args, shared, stream};
    return rt_record(launch_handle(&rt_driver[RT_LEGACY], kernel, &launch));
}

cudaError_t __cudaLaunchKernel_ptsz(cudaKernel_t kernel, dim3 grid, dim3 block, void **args, size_t shared,
                                    cudaStream_t stream)
{
    rt_launch_t launch = {grid, block, args, shared, stream};
    return rt_record(launch_handle(&rt_driver[RT_PER_THREAD], kernel, &launch));
}
