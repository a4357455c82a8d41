/* device.c: limits, flags, peers, inter-process handles, and the driver's own entry points. */
#include "softgpu/runtime/runtime.h"

#include <cuda_profiler_api.h>
#include <string.h>

/* the current device */

cudaError_t cudaDeviceSynchronize(void)
{
    return RT_PASS(cuCtxSynchronize);
}

cudaError_t cudaDeviceSetLimit(enum cudaLimit limit, size_t value)
{
    return RT_PASS(cuCtxSetLimit, (CUlimit)limit, value);
}

cudaError_t cudaDeviceGetLimit(size_t *value, enum cudaLimit limit)
{
    return RT_PASS(cuCtxGetLimit, value, (CUlimit)limit);
}

cudaError_t cudaDeviceGetCacheConfig(enum cudaFuncCache *config)
{
    return RT_PASS(cuCtxGetCacheConfig, (CUfunc_cache *)config);
}

cudaError_t cudaDeviceSetCacheConfig(enum cudaFuncCache config)
{
    return RT_PASS(cuCtxSetCacheConfig, (CUfunc_cache)config);
}

/* Shared memory banks have had one width, 4 bytes, since Volta. */
cudaError_t cudaDeviceGetSharedMemConfig(enum cudaSharedMemConfig *config)
{
    *config = cudaSharedMemBankSizeFourByte;
    return rt_record(rt_enter());
}

cudaError_t cudaDeviceSetSharedMemConfig(enum cudaSharedMemConfig config)
{
    (void)config;
    return rt_record(rt_enter());
}

cudaError_t cudaDeviceGetStreamPriorityRange(int *least, int *greatest)
{
    return RT_PASS(cuCtxGetStreamPriorityRange, least, greatest);
}

cudaError_t cudaCtxResetPersistingL2Cache(void)
{
    return RT_PASS(cuCtxResetPersistingL2Cache);
}

cudaError_t cudaSetDeviceFlags(unsigned int flags)
{
    CUdevice handle;
    return rt_record(rt_current_device(&handle)
                         ?: RT_CALL(&rt_driver[RT_LEGACY], cuDevicePrimaryCtxSetFlags, handle, flags));
}

cudaError_t cudaGetDeviceFlags(unsigned int *flags)
{
    CUdevice handle;
    int active;
    return rt_record(
        rt_current_device(&handle)
            ?: RT_CALL(&rt_driver[RT_LEGACY], cuDevicePrimaryCtxGetState, handle, flags, &active));
}

cudaError_t cudaDeviceFlushGPUDirectRDMAWrites(enum cudaFlushGPUDirectRDMAWritesTarget target,
                                               enum cudaFlushGPUDirectRDMAWritesScope scope)
{
    return RT_PASS(cuFlushGPUDirectRDMAWrites, (CUflushGPUDirectRDMAWritesTarget)target,
                   (CUflushGPUDirectRDMAWritesScope)scope);
}

cudaError_t cudaProfilerStart(void)
{
    return RT_PASS(cuProfilerStart);
}

cudaError_t cudaProfilerStop(void)
{
    return RT_PASS(cuProfilerStop);
}

/* any device */

/* Defines a public function on device number `device`, whose expression sees it as `handle`. */
#define DEVICE_API(name, parameters, expression)                                                             \
    cudaError_t name parameters                                                                              \
    {                                                                                                        \
        const driver_t *d = &rt_driver[RT_LEGACY];                                                           \
        CUdevice handle;                                                                                     \
        return rt_record(rt_device(device, &handle) ?: (expression));                                        \
    }

/* clang-format off */
DEVICE_API(cudaDeviceGetPCIBusId, (char *id, int length, int device),
           RT_CALL(d, cuDeviceGetPCIBusId, id, length, handle))
DEVICE_API(cudaDeviceGetDefaultMemPool, (cudaMemPool_t *pool, int device),
          
           RT_CALL(d, cuDeviceGetDefaultMemPool, pool, handle))
DEVICE_API(cudaDeviceGetMemPool, (cudaMemPool_t *pool, int device),
           RT_CALL(d, cuDeviceGetMemPool, pool, handle))
DEVICE_API(cudaDeviceSetMemPool, (int device, cudaMemPool_t pool),
           RT_CALL(d, cuDeviceSetMemPool, handle, pool))
DEVICE_API(cudaDeviceGraphMemTrim, (int device), RT_CALL(d, cuDeviceGraphMemTrim, handle))
DEVICE_API(cudaDeviceGetGraphMemAttribute, (int device, enum cudaGraphMemAttributeType attribute,
                                            void *value),
           RT_CALL(d, cuDeviceGetGraphMemAttribute, handle, (CUgraphMem_attribute)attribute, value))
DEVICE_API(cudaDeviceSetGraphMemAttribute, (int device, enum cudaGraphMemAttributeType attribute,
                                            void *value),
           RT_CALL(d, cuDeviceSetGraphMemAttribute, handle, (CUgraphMem_attribute)attribute, value))
/* clang-format on */

cudaError_t cudaDeviceGetByPCIBusId(int *device, const char *id)
{
    return RT_PASS_DRIVER(cuDeviceGetByPCIBusId, device, id);
}

/* peers */

cudaError_t cudaDeviceCanAccessPeer(int *can_access, int device, int peer)
{
    CUdevice from, to;
    return rt_record(rt_device(device, &from)
                         ?: rt_device(peer, &to)
                         ?: RT_CALL(&rt_driver[RT_LEGACY], cuDeviceCanAccessPeer, can_access, from, to));
}

cudaError_t cudaDeviceGetP2PAttribute(int *value, enum cudaDeviceP2PAttr attribute, int device, int peer)
{
    CUdevice from, to;
    return rt_record(rt_device(device, &from)
                         ?: rt_device(peer, &to)
                         ?: RT_CALL(&rt_driver[RT_LEGACY], cuDeviceGetP2PAttribute, value,
                                    (CUdevice_P2PAttribute)attribute, from, to));
}

/* A device is no peer of itself. */
static cudaError_t peer_context(int peer, CUcontext *context)
{
    CUdevice current, handle;
    cudaError_t error = rt_enter() ?: rt_current_device(&current) ?: rt_device(peer, &handle);
    if (error != cudaSuccess)
        return error;
    return current == handle ? cudaErrorInvalidDevice : rt_primary_context(peer, context);
}

cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned int flags)
{
    CUcontext context;
    return rt_record(peer_context(peer, &context)
                         ?: RT_CALL(&rt_driver[RT_LEGACY], cuCtxEnablePeerAccess, context, flags));
}

cudaError_t cudaDeviceDisablePeerAccess(int peer)
{
    CUcontext context;
    return rt_record(peer_context(peer, &context)
                         ?: RT_CALL(&rt_driver[RT_LEGACY], cuCtxDisablePeerAccess, context));
}

/* other processes */

_Static_assert(sizeof(cudaIpcEventHandle_t) == sizeof(CUipcEventHandle) &&
                   sizeof(cudaIpcMemHandle_t) == sizeof(CUipcMemHandle),
               "inter-process handles are passed to the driver as they are");

cudaError_t cudaIpcGetEventHandle(cudaIpcEventHandle_t *handle, cudaEvent_t event)
{
    return RT_PASS(cuIpcGetEventHandle, (CUipcEventHandle *)handle, event);
}

cudaError_t cudaIpcOpenEventHandle(cudaEvent_t *event, cudaIpcEventHandle_t handle)
{
    CUipcEventHandle driver_handle;
    memcpy(&driver_handle, &handle, sizeof driver_handle);
    return RT_PASS(cuIpcOpenEventHandle, event, driver_handle);
}

cudaError_t cudaIpcGetMemHandle(cudaIpcMemHandle_t *handle, void *pointer)
{
    return RT_PASS(cuIpcGetMemHandle, (CUipcMemHandle *)handle, rt_address(pointer));
}

cudaError_t cudaIpcOpenMemHandle(void **pointer, cudaIpcMemHandle_t handle, unsigned int flags)
{
    CUipcMemHandle driver_handle;
    memcpy(&driver_handle, &handle, sizeof driver_handle);
    return RT_PASS(cuIpcOpenMemHandle, (CUdeviceptr *)pointer, driver_handle, flags);
}

cudaError_t cudaIpcCloseMemHandle(void *pointer)
{
    return RT_PASS(cuIpcCloseMemHandle, rt_address(pointer));
}

/* the driver's functions */

/* A name that the driver does not have, or not in that version, is no error: the pointer is NULL and the
 * status says why. */
static cudaError_t entry_point(const driver_t *d, const char *symbol, void **function, unsigned int version,
                               unsigned long long flags, enum cudaDriverEntryPointQueryResult *status)
{
    CUdriverProcAddressQueryResult found = CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
    cudaError_t error = symbol && function ? rt_enter_driver() : cudaErrorInvalidValue;
    if (error != cudaSuccess)
        return error;
    if (flags == cudaEnableDefault && d == &rt_driver[RT_PER_THREAD])
        flags = cudaEnablePerThreadDefaultStream;
    *function = NULL;
    error = RT_CALL(d, cuGetProcAddress, symbol, function, (int)version, flags, &found);
    if (error == cudaErrorSymbolNotFound)
        error = cudaSuccess;
    if (error == cudaSuccess && status)
        *status = (enum cudaDriverEntryPointQueryResult)found;
    return error;
}

/* clang-format off */
RT_FORMS(cudaGetDriverEntryPoint, _ptsz,
         (const char *symbol, void **function, unsigned long long flags,
          enum cudaDriverEntryPointQueryResult *status),
         entry_point(d, symbol, function, CUDART_VERSION, flags, status))
RT_FORMS(cudaGetDriverEntryPointByVersion, _ptsz,
         (const char *symbol, void **function, unsigned int version, unsigned long long flags,
          enum cudaDriverEntryPointQueryResult *status),
         entry_point(d, symbol, function, version, flags, status))
/* clang-format on */
