/* device.c: the one device, what it says of itself, and its primary context. */
#include "streams.h"

#include <stdio.h>
#include <string.h>

SG_EXPORT CUresult cuInit(unsigned flags)
{
    if (flags)
        return CUDA_ERROR_INVALID_VALUE;
    return sg_initialise();
}

SG_EXPORT CUresult cuDriverGetVersion(int *version)
{
    if (!version)
        return CUDA_ERROR_INVALID_VALUE;
    *version = SG_DRIVER_VERSION;
    return CUDA_SUCCESS;
}

static CUresult check_device(CUdevice device)
{
    SG_TRY(sg_enter());
    return device ? CUDA_ERROR_INVALID_DEVICE : CUDA_SUCCESS;
}

SG_EXPORT CUresult cuDeviceGetCount(int *count)
{
    SG_TRY(sg_enter());
    if (!count)
        return CUDA_ERROR_INVALID_VALUE;
    *count = 1;
    return CUDA_SUCCESS;
}

SG_EXPORT CUresult cuDeviceGet(CUdevice *device, int ordinal)
{
    SG_TRY(check_device(ordinal));
    if (!device)
        return CUDA_ERROR_INVALID_VALUE;
    *device = 0;
    return CUDA_SUCCESS;
}

SG_EXPORT CUresult cuDeviceGetName(char *name, int length, CUdevice device)
{
    SG_TRY(check_device(device));
    if (!name || length <= 0)
        return CUDA_ERROR_INVALID_VALUE;
    snprintf(name, (size_t)length, "softgpu: CUDA device in software (%u CPU threads)", sg.config.workers);
    return CUDA_SUCCESS;
}

SG_EXPORT CUresult cuDeviceGetUuid_v2(CUuuid *uuid, CUdevice device)
{
    SG_TRY(check_device(device));
    if (!uuid)
        return CUDA_ERROR_INVALID_VALUE;
    memcpy(uuid->bytes, "softgpu-device-0", sizeof uuid->bytes);
    return CUDA_SUCCESS;
}

SG_EXPORT CUresult cuDeviceGetUuid(CUuuid *uuid, CUdevice device)
{
    return cuDeviceGetUuid_v2(uuid, device);
}

SG_EXPORT CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice device)
{
    SG_TRY(check_device(device));
    if (!bytes)
        return CUDA_ERROR_INVALID_VALUE;
    *bytes = sg.config.memory_bytes;
    return CUDA_SUCCESS;
}

SG_EXPORT CUresult cuDeviceGetPCIBusId(char *out, int length, CUdevice device)
{
    SG_TRY(check_device(device));
    if (!out || length <= 0)
        return CUDA_ERROR_INVALID_VALUE;
    snprintf(out, (size_t)length, "0000:00:00.0");
    return CUDA_SUCCESS;
}

/* Attributes that are not listed are 0: the feature is not there. */
static const struct {
    CUdevice_attribute attribute;
    int value;
} attributes[] = {
    {CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK, 1024},
    {CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X, 1024},
    {CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y, 1024},
    {CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z, 64},
    {CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X, 0x7fffffff},
    {CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y, 65535},
    {CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z, 65535},
    {CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK, 48 << 10},
    {CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, 163 << 10},
    {CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR, 164 << 10},
    {CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK, 1 << 10},
    {CU_DEVICE_ATTRIBUTE_TOTAL_CONSTANT_MEMORY, 64 << 10},
    {CU_DEVICE_ATTRIBUTE_WARP_SIZE, 32},
    {CU_DEVICE_ATTRIBUTE_MAX_PITCH, 0x7fffffff},
    {CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK, 65536},
    {CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR, 65536},
    {CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR, 2048},
    {CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR, 32},
    {CU_DEVICE_ATTRIBUTE_CLOCK_RATE, 1000000},
    {CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE, 1000000},
    {CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH, 128},
    {CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE, 32 << 20},
    {CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT, 512},
    {CU_DEVICE_ATTRIBUTE_TEXTURE_PITCH_ALIGNMENT, 32},
    {CU_DEVICE_ATTRIBUTE_GPU_OVERLAP, 1},
    {CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY, 1},
    {CU_DEVICE_ATTRIBUTE_CONCURRENT_KERNELS, 1},
    {CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT, 2},
    {CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING, 1},
    {CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 8},
    {CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, 0},
    {CU_DEVICE_ATTRIBUTE_STREAM_PRIORITIES_SUPPORTED, 1},
    {CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED, 1},
    {CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM, 1},
    {CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, 1},
    {CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED, 1},
    {CU_DEVICE_ATTRIBUTE_SINGLE_TO_DOUBLE_PRECISION_PERF_RATIO, 2},
};

SG_EXPORT CUresult cuDeviceGetAttribute(int *value, CUdevice_attribute attribute, CUdevice device)
{
    SG_TRY(check_device(device));
    if (!value || attribute <= 0 || attribute >= CU_DEVICE_ATTRIBUTE_MAX)
        return CUDA_ERROR_INVALID_VALUE;
    *value = 0;
    if (attribute == CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)
        *value = (int)sg.config.workers;
    for (size_t i = 0; i < sizeof attributes / sizeof attributes[0]; i++)
        if (attributes[i].attribute == attribute)
            *value = attributes[i].value;
    return CUDA_SUCCESS;
}

SG_EXPORT CUresult cuDeviceCanAccessPeer(int *can, CUdevice device, CUdevice peer)
{
    SG_TRY(check_device(device));
    SG_TRY(check_device(peer));
    if (!can)
        return CUDA_ERROR_INVALID_VALUE;
    *can = 0;
    return CUDA_SUCCESS;
}

/* ---- the primary context ---- */

SG_EXPORT CUresult cuDevicePrimaryCtxRetain(CUcontext *out, CUdevice device)
{
    SG_TRY(check_device(device));
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    sg_lock();
    sg.ctx.primary_refs++;
    sg.ctx.active = true;
    sg_unlock();
    *out = &sg.ctx;
    return CUDA_SUCCESS;
}

SG_EXPORT CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device)
{
    SG_TRY(check_device(device));
    sg_lock();
    bool retained = sg.ctx.primary_refs > 0;
    /* What the context holds stays until the process ends: nobody may use it any more, which is what can be
     * told. */
    if (retained && !--sg.ctx.primary_refs)
        sg.ctx.active = false;
    sg_unlock();
    return retained ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
}

/* Allocations are given back and a sticky error is cleared. Streams, events, modules and the program's own
 * VMM mappings stay until the process ends; without an active context nobody can use them. */
SG_EXPORT CUresult cuDevicePrimaryCtxReset_v2(CUdevice device)
{
    SG_TRY(check_device(device));
    sg_wait_all();
    sg_lock();
    sg_capture_drop_locked();
    sg_heap_reset_locked();
    sg.ctx.active = sg.ctx.primary_refs > 0; /* who still holds it gets a fresh one */
    atomic_store(&sg.ctx.sticky, CUDA_SUCCESS);
    sg_unlock();
    return CUDA_SUCCESS;
}

SG_EXPORT CUresult cuDevicePrimaryCtxGetState(CUdevice device, unsigned *flags, int *active)
{
    SG_TRY(check_device(device));
    if (!flags || !active)
        return CUDA_ERROR_INVALID_VALUE;
    sg_lock();
    *flags = sg.ctx.flags;
    *active = sg.ctx.active;
    sg_unlock();
    return CUDA_SUCCESS;
}

SG_EXPORT CUresult cuDevicePrimaryCtxSetFlags_v2(CUdevice device, unsigned flags)
{
    SG_TRY(check_device(device));
    if (flags & ~(unsigned)CU_CTX_FLAGS_MASK)
        return CUDA_ERROR_INVALID_VALUE;
    sg_lock();
    sg.ctx.flags = flags;
    sg_unlock();
    return CUDA_SUCCESS;
}

/* ---- what a context can be asked ---- */

SG_EXPORT CUresult cuCtxGetDevice(CUdevice *device)
{
    SG_TRY(sg_enter_context());
    if (!device)
        return CUDA_ERROR_INVALID_VALUE;
    *device = 0;
    return CUDA_SUCCESS;
}

SG_EXPORT CUresult cuCtxGetFlags(unsigned *flags)
{
    SG_TRY(sg_enter_context());
    if (!flags)
        return CUDA_ERROR_INVALID_VALUE;
    *flags = sg.ctx.flags;
    return CUDA_SUCCESS;
}

SG_EXPORT CUresult cuCtxSetFlags(unsigned flags)
{
    SG_TRY(sg_enter_context());
    return cuDevicePrimaryCtxSetFlags_v2(0, flags);
}

SG_EXPORT CUresult cuCtxGetApiVersion(CUcontext ctx, unsigned *version)
{
    SG_TRY(sg_enter());
    if ((ctx && ctx != &sg.ctx) || !version)
        return ctx && version ? CUDA_ERROR_INVALID_CONTEXT : CUDA_ERROR_INVALID_VALUE;
    *version = 3020;
    return CUDA_SUCCESS;
}

SG_EXPORT CUresult cuCtxGetId(CUcontext ctx, unsigned long long *id)
{
    SG_TRY(sg_enter());
    if (!id || (ctx && ctx != &sg.ctx))
        return id ? CUDA_ERROR_INVALID_CONTEXT : CUDA_ERROR_INVALID_VALUE;
    *id = 1;
    return CUDA_SUCCESS;
}

SG_EXPORT CUresult cuCtxGetStreamPriorityRange(int *least, int *greatest)
{
    SG_TRY(sg_enter_context());
    if (least)
        *least = 0;
    if (greatest)
        *greatest = -5;
    return CUDA_SUCCESS;
}

/* Limits concern the device's stack, printf buffer and heap, which have no counterpart here: a value is kept.
 */
static size_t limits[CU_LIMIT_MAX] = {[CU_LIMIT_STACK_SIZE] = 1024,
                                      [CU_LIMIT_PRINTF_FIFO_SIZE] = 1 << 20,
                                      [CU_LIMIT_MALLOC_HEAP_SIZE] = 8 << 20};

SG_EXPORT CUresult cuCtxGetLimit(size_t *value, CUlimit limit)
{
    SG_TRY(sg_enter_context());
    if (!value || limit >= CU_LIMIT_MAX)
        return value ? CUDA_ERROR_UNSUPPORTED_LIMIT : CUDA_ERROR_INVALID_VALUE;
    sg_lock();
    *value = limits[limit];
    sg_unlock();
    return CUDA_SUCCESS;
}

SG_EXPORT CUresult cuCtxSetLimit(CUlimit limit, size_t value)
{
    SG_TRY(sg_enter_context());
    if (limit >= CU_LIMIT_MAX)
        return CUDA_ERROR_UNSUPPORTED_LIMIT;
    sg_lock();
    limits[limit] = value;
    sg_unlock();
    return CUDA_SUCCESS;
}

SG_EXPORT CUresult cuCtxGetCacheConfig(CUfunc_cache *config)
{
    SG_TRY(sg_enter_context());
    if (!config)
        return CUDA_ERROR_INVALID_VALUE;
    *config = CU_FUNC_CACHE_PREFER_NONE;
    return CUDA_SUCCESS;
}

SG_EXPORT CUresult cuCtxSetCacheConfig(CUfunc_cache config)
{
    (void)config;
    return sg_enter_context();
}

/* There is no profiler to switch, which is no error. */
SG_EXPORT CUresult cuProfilerStart(void);
SG_EXPORT CUresult cuProfilerStart(void)
{
    return sg_enter_context();
}

SG_EXPORT CUresult cuProfilerStop(void);
SG_EXPORT CUresult cuProfilerStop(void)
{
    return sg_enter_context();
}
