/* launch.c: from a host function or kernel handle to a launch by the driver. */
#include "softgpu/runtime/registry.h"

#include <stddef.h>

/* The kernels that a thread used last, by what it named them with. A function belongs to a context; an
 * entry of an older epoch is stale. */
enum { CACHE_SIZE = 64 };
typedef struct cached_kernel {
    const void *symbol;
    CUcontext context;
    uint64_t epoch;
    CUkernel kernel;
    CUfunction function;
} cached_kernel_t;
static _Thread_local cached_kernel_t cache[CACHE_SIZE];

static cached_kernel_t *cache_slot(const void *symbol)
{
    return &cache[((uintptr_t)symbol >> 4) * UINT64_C(0x9e3779b97f4a7c15) >> 58];
}

static cudaError_t find(const void *symbol, const cached_kernel_t **out)
{
    cached_kernel_t found = {.symbol = symbol}, *slot = cache_slot(symbol);
    cudaError_t error = rt_enter_context(&found.context);
    if (error != cudaSuccess)
        return error;
    *out = slot;
    found.epoch = rt_epoch();
    if (slot->symbol == symbol && slot->context == found.context && slot->epoch == found.epoch)
        return cudaSuccess;
    error = registry_kernel(symbol, &found.kernel)
                ?: RT_CALL(&rt_driver[RT_LEGACY], cuKernelGetFunction, &found.function, found.kernel);
    if (error == cudaSuccess)
        *slot = found;
    return error;
}

cudaError_t rt_function(const void *symbol, CUfunction *function)
{
    const cached_kernel_t *found;
    cudaError_t error = find(symbol, &found);
    if (error == cudaSuccess)
        *function = found->function;
    return error;
}

cudaError_t rt_launched(const void *symbol, CUfunction *handle)
{
    const cached_kernel_t *found;
    cudaError_t error = find(symbol, &found);
    if (error == cudaSuccess)
        *handle = (CUfunction)found->kernel;
    return error;
}

static int exceeds(CUdevice device, CUdevice_attribute attribute, uint64_t value)
{
    int limit = 0;
    cudaError_t error = RT_CALL(&rt_driver[RT_LEGACY], cuDeviceGetAttribute, &limit, attribute, device);
    return error == cudaSuccess && value > (uint64_t)limit;
}

/* The driver calls an impossible geometry an invalid value; the runtime has an error of its own for it. */
static int geometry_is_impossible(const rt_launch_t *launch)
{
    const dim3 g = launch->grid, b = launch->block;
    CUdevice device;
    if (!g.x || !g.y || !g.z || !b.x || !b.y || !b.z)
        return 1;
    if (rt_current_device(&device) != cudaSuccess)
        return 0;
    return exceeds(device, CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK, (uint64_t)b.x * b.y * b.z) ||
           exceeds(device, CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X, b.x) ||
           exceeds(device, CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y, b.y) ||
           exceeds(device, CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z, b.z) ||
           exceeds(device, CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X, g.x) ||
           exceeds(device, CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y, g.y) ||
           exceeds(device, CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z, g.z);
}

static cudaError_t launch_error(cudaError_t error, const rt_launch_t *launch)
{
    return error == cudaErrorInvalidValue && geometry_is_impossible(launch) ? cudaErrorInvalidConfiguration
                                                                            : error;
}

cudaError_t rt_launch(const driver_t *d, CUfunction function, const rt_launch_t *launch)
{
    const dim3 g = launch->grid, b = launch->block;
    cudaError_t error = RT_CALL(d, cuLaunchKernel, function, g.x, g.y, g.z, b.x, b.y, b.z,
                                (unsigned)launch->shared_bytes, launch->stream, launch->args, NULL);
    return launch_error(error, launch);
}

static cudaError_t launch_symbol(const driver_t *d, const void *symbol, const rt_launch_t *launch)
{
    CUfunction function;
    return rt_launched(symbol, &function) ?: rt_launch(d, function, launch);
}

static cudaError_t launch_cooperative(const driver_t *d, const void *symbol, const rt_launch_t *launch)
{
    const dim3 g = launch->grid, b = launch->block;
    CUfunction function;
    cudaError_t error = rt_launched(symbol, &function)
                            ?: RT_CALL(d, cuLaunchCooperativeKernel, function, g.x, g.y, g.z, b.x, b.y, b.z,
                                       (unsigned)launch->shared_bytes, launch->stream, launch->args);
    return launch_error(error, launch);
}

_Static_assert(sizeof(cudaLaunchAttribute) == sizeof(CUlaunchAttribute) &&
                   offsetof(cudaLaunchAttribute, val) == offsetof(CUlaunchAttribute, value),
               "launch attributes are passed to the driver as they are");

static cudaError_t launch_with_attributes(const driver_t *d, const cudaLaunchConfig_t *config,
                                          const void *symbol, void **args)
{
    if (!config)
        return cudaErrorInvalidConfiguration;
    const rt_launch_t launch = {config->gridDim, config->blockDim, args, config->dynamicSmemBytes,
                                config->stream};
    CUlaunchConfig driver_config = {
        .gridDimX = launch.grid.x,
        .gridDimY = launch.grid.y,
        .gridDimZ = launch.grid.z,
        .blockDimX = launch.block.x,
        .blockDimY = launch.block.y,
        .blockDimZ = launch.block.z,
        .sharedMemBytes = (unsigned)launch.shared_bytes,
        .hStream = launch.stream,
        .attrs = (CUlaunchAttribute *)config->attrs,
        .numAttrs = config->numAttrs,
    };
    CUfunction function;
    cudaError_t error =
        rt_launched(symbol, &function) ?: RT_CALL(d, cuLaunchKernelEx, &driver_config, function, args, NULL);
    return launch_error(error, &launch);
}

/* clang-format off */
RT_FORMS(cudaLaunchKernel, _ptsz, (const void *func, dim3 grid, dim3 block, void **args, size_t shared,
                                   cudaStream_t stream),
              launch_symbol(d, func, &(rt_launch_t){grid, block, args, shared, stream}))
RT_FORMS(cudaLaunchCooperativeKernel, _ptsz, (const void *func, dim3 grid, dim3 block, void **args,
                                              size_t shared, cudaStream_t stream),
              launch_cooperative(d, func, &(rt_launch_t){grid, block, args, shared, stream}))
RT_FORMS(cudaLaunchKernelExC, _ptsz, (const cudaLaunchConfig_t *config, const void *func, void **args),
              launch_with_attributes(d, config, func, args))
RT_BOTH_FORMS(cudaLaunchHostFunc, _ptsz, (cudaStream_t stream, cudaHostFn_t fn, void *user_data),
              RT_CALL(d, cuLaunchHostFunc, stream, fn, user_data))
/* clang-format on */
