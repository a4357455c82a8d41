/* driver.h: the real driver, as one table of functions. Everything in ebb that calls the driver calls it
 * through here, so that ebb's own calls never meet ebb's hooks, and tests can put another driver in.
 */
#ifndef EBB_DRIVER_H
#define EBB_DRIVER_H

#include <cuda.h>
#include <cudaTypedefs.h>

#include "status.h"

/* X(name, version): the form of the function that appeared with that version (NVIDIA's cudaTypedefs.h). */
#define EBB_DRIVER_FUNCTIONS(X)                                                                              \
    X(cuCtxGetDevice, 2000)                                                                                  \
    X(cuCtxGetCurrent, 4000)                                                                                 \
    X(cuCtxSynchronize, 2000)                                                                                \
    X(cuDeviceTotalMem, 3020)                                                                                \
    X(cuDeviceGetAttribute, 2000)                                                                            \
    X(cuDeviceGetPCIBusId, 4010)                                                                             \
    X(cuDeviceGetName, 2000)                                                                                 \
    X(cuDriverGetVersion, 2020)                                                                              \
    X(cuGetErrorName, 6000)                                                                                  \
    X(cuFuncGetName, 12030)                                                                                  \
    X(cuFuncGetParamInfo, 12040)                                                                             \
    X(cuMemGetInfo, 3020)                                                                                    \
    X(cuMemAlloc, 3020)                                                                                      \
    X(cuMemFree, 3020)                                                                                       \
    X(cuMemGetAddressRange, 3020)                                                                            \
    X(cuMemAllocAsync, 11020)                                                                                \
    X(cuMemAllocFromPoolAsync, 11020)                                                                        \
    X(cuMemFreeAsync, 11020)                                                                                 \
    X(cuDeviceGetDefaultMemPool, 11020)                                                                      \
    X(cuMemPoolGetAttribute, 11020)                                                                          \
    X(cuMemPoolSetAttribute, 11020)                                                                          \
    X(cuMemPoolTrimTo, 11020)                                                                                \
    X(cuMemAddressReserve, 10020)                                                                            \
    X(cuMemAddressFree, 10020)                                                                               \
    X(cuMemCreate, 10020)                                                                                    \
    X(cuMemRelease, 10020)                                                                                   \
    X(cuMemMap, 10020)                                                                                       \
    X(cuMemUnmap, 10020)                                                                                     \
    X(cuMemSetAccess, 10020)                                                                                 \
    X(cuMemGetAllocationGranularity, 10020)                                                                  \
    X(cuMemHostAlloc, 2020)                                                                                  \
    X(cuMemHostRegister, 6050)                                                                               \
    X(cuMemHostUnregister, 4000)                                                                             \
    X(cuMemFreeHost, 2000)                                                                                   \
    X(cuMemcpyAsync, 4000)                                                                                   \
    X(cuMemcpyHtoDAsync, 3020)                                                                               \
    X(cuMemcpyDtoHAsync, 3020)                                                                               \
    X(cuMemcpyDtoDAsync, 3020)                                                                               \
    X(cuMemsetD16Async, 3020)                                                                                \
    X(cuMemsetD32Async, 3020)                                                                                \
    X(cuMemsetD8Async, 3020)                                                                                 \
    X(cuPointerGetAttribute, 4000)                                                                           \
    X(cuPointerGetAttributes, 7000)                                                                          \
    X(cuStreamCreate, 2000)                                                                                  \
    X(cuStreamDestroy, 4000)                                                                                 \
    X(cuStreamSynchronize, 2000)                                                                             \
    X(cuStreamWaitEvent, 3020)                                                                               \
    X(cuStreamGetId, 12000)                                                                                  \
    X(cuEventCreate, 2000)                                                                                   \
    X(cuEventDestroy, 4000)                                                                                  \
    X(cuEventRecord, 2000)                                                                                   \
    X(cuEventQuery, 2000)                                                                                    \
    X(cuEventSynchronize, 2000)                                                                              \
    X(cuEventElapsedTime, 2000)                                                                              \
    X(cuLaunchKernelEx, 11060)                                                                               \
    X(cuModuleLoadData, 2000)                                                                                \
    X(cuModuleGetFunction, 2000)                                                                             \
    X(cuModuleUnload, 2000)                                                                                  \
    X(cuLibraryUnload, 12000)                                                                                \
    X(cuLaunchKernel, 4000)                                                                                  \
    X(cuThreadExchangeStreamCaptureMode, 10010)

typedef struct ebb_driver {
    PFN_cuGetProcAddress_v12000 cuGetProcAddress;
#define X(name, version) PFN_##name##_v##version name;
    EBB_DRIVER_FUNCTIONS(X)
#undef X
} ebb_driver_t;

extern ebb_driver_t ebb_driver;

/* Fills the table by the real driver's cuGetProcAddress_v2. CUDA_ERROR_NOT_FOUND if any name is missing
 * (logged): ebb then leaves the program alone, and what there is serves to pass its calls on. */
ebb_status_t ebb_driver_fill(PFN_cuGetProcAddress_v12000 real);

#endif
