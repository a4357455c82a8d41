/* driver.h: the real driver, as one table of functions. Everything in ebb that calls the driver calls it
 * through here, so that ebb's own calls never meet ebb's hooks, and tests can put another driver in.
 */
#ifndef EBB_DRIVER_H
#define EBB_DRIVER_H

#include <cuda.h>
#include <cudaTypedefs.h>

#include "alloc/base/status.h"

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
    X(cuStreamQuery, 2000)                                                                                   \
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

/* X(field, name, version): what a driver may lack. NULL then, and CUDA_ERROR_NOT_SUPPORTED to who calls it. The
 * field is the symbol (with _v1 where the table above has the name), because several forms of one function are here. */
#define EBB_DRIVER_MORE(X)                                                                                   \
    X(cuCtxSynchronize_v2, cuCtxSynchronize, 13000)                                                          \
    X(cuCtxDestroy, cuCtxDestroy, 2000)                                                                      \
    X(cuCtxDestroy_v2, cuCtxDestroy, 4000)                                                                   \
    X(cuCtxDetach, cuCtxDetach, 2000)                                                                        \
    X(cuDevicePrimaryCtxRelease, cuDevicePrimaryCtxRelease, 7000)                                            \
    X(cuDevicePrimaryCtxRelease_v2, cuDevicePrimaryCtxRelease, 11000)                                        \
    X(cuDevicePrimaryCtxReset, cuDevicePrimaryCtxReset, 7000)                                                \
    X(cuDevicePrimaryCtxReset_v2, cuDevicePrimaryCtxReset, 11000)                                            \
    X(cuEventRecordWithFlags, cuEventRecordWithFlags, 11010)                                                 \
    X(cuFuncGetAttribute, cuFuncGetAttribute, 2020)                                                          \
    X(cuFuncGetModule, cuFuncGetModule, 11000)                                                               \
    X(cuKernelGetLibrary, cuKernelGetLibrary, 12050)                                                         \
    X(cuCtxEnablePeerAccess, cuCtxEnablePeerAccess, 4000)                                                    \
    X(cuCtxDisablePeerAccess, cuCtxDisablePeerAccess, 4000)                                                  \
    X(cuMemAllocPitch_v2, cuMemAllocPitch, 3020)                                                             \
    X(cuMemPoolCreate, cuMemPoolCreate, 11020)                                                               \
    X(cuMemPoolDestroy, cuMemPoolDestroy, 11020)                                                             \
    X(cuMemPoolSetAccess, cuMemPoolSetAccess, 11020)                                                         \
    X(cuMemPoolExportPointer, cuMemPoolExportPointer, 11020)                                                 \
    X(cuMemPoolImportPointer, cuMemPoolImportPointer, 11020)                                                 \
    X(cuMemPoolImportFromShareableHandle, cuMemPoolImportFromShareableHandle, 11020)                         \
    X(cuDeviceSetMemPool, cuDeviceSetMemPool, 11020)                                                         \
    X(cuMemSetMemPool, cuMemSetMemPool, 13000)                                                               \
    X(cuPointerSetAttribute, cuPointerSetAttribute, 6000)                                                    \
    X(cuMemGetAccess, cuMemGetAccess, 10020)                                                                 \
    X(cuMemRetainAllocationHandle, cuMemRetainAllocationHandle, 11000)                                       \
    X(cuMemImportFromShareableHandle, cuMemImportFromShareableHandle, 10020)                                 \
    X(cuMulticastBindAddr, cuMulticastBindAddr, 12010)                                                       \
    X(cuMemAllocManaged, cuMemAllocManaged, 6000)                                                            \
    X(cuArrayCreate_v2, cuArrayCreate, 3020)                                                                 \
    X(cuArray3DCreate_v2, cuArray3DCreate, 3020)                                                             \
    X(cuArrayDestroy, cuArrayDestroy, 2000)                                                                  \
    X(cuMipmappedArrayCreate, cuMipmappedArrayCreate, 5000)                                                  \
    X(cuMipmappedArrayDestroy, cuMipmappedArrayDestroy, 5000)                                                \
    X(cuMemAllocHost_v2, cuMemAllocHost, 3020)                                                               \
    X(cuMemHostRegister_v1, cuMemHostRegister, 4000)                                                         \
    X(cuModuleLoad, cuModuleLoad, 2000)                                                                      \
    X(cuModuleLoadDataEx, cuModuleLoadDataEx, 2010)                                                          \
    X(cuModuleLoadFatBinary, cuModuleLoadFatBinary, 2000)                                                    \
    X(cuLibraryLoadData, cuLibraryLoadData, 12000)                                                           \
    X(cuLibraryLoadFromFile, cuLibraryLoadFromFile, 12000)                                                   \
    X(cuLibraryGetModule, cuLibraryGetModule, 12000)                                                         \
    X(cuLibraryGetKernel, cuLibraryGetKernel, 12000)                                                         \
    X(cuLibraryGetKernelCount, cuLibraryGetKernelCount, 12040)                                               \
    X(cuLibraryEnumerateKernels, cuLibraryEnumerateKernels, 12040)                                           \
    X(cuModuleGetFunctionCount, cuModuleGetFunctionCount, 12040)                                             \
    X(cuModuleEnumerateFunctions, cuModuleEnumerateFunctions, 12040)                                         \
    X(cuModuleGetGlobal_v2, cuModuleGetGlobal, 3020)                                                         \
    X(cuLibraryGetGlobal, cuLibraryGetGlobal, 12000)                                                         \
    X(cuLibraryGetManaged, cuLibraryGetManaged, 12000)                                                       \
    X(cuExternalMemoryGetMappedBuffer, cuExternalMemoryGetMappedBuffer, 10000)                               \
    X(cuGraphicsResourceGetMappedPointer_v2, cuGraphicsResourceGetMappedPointer, 3020)                       \
    X(cuIpcGetMemHandle, cuIpcGetMemHandle, 4010)                                                            \
    X(cuIpcOpenMemHandle, cuIpcOpenMemHandle, 4010)                                                          \
    X(cuIpcOpenMemHandle_v2, cuIpcOpenMemHandle, 11000)                                                      \
    X(cuIpcCloseMemHandle, cuIpcCloseMemHandle, 4010)                                                        \
    X(cuMemGetHandleForAddressRange, cuMemGetHandleForAddressRange, 11070)                                   \
    X(cuTexObjectCreate, cuTexObjectCreate, 5000)                                                            \
    X(cuTexObjectDestroy, cuTexObjectDestroy, 5000)                                                          \
    X(cuTexRefSetAddress_v2, cuTexRefSetAddress, 3020)                                                       \
    X(cuTexRefSetAddress2D_v2, cuTexRefSetAddress2D, 3020)                                                   \
    X(cuTexRefSetAddress2D_v3, cuTexRefSetAddress2D, 4010)                                                   \
    X(cuMemcpy, cuMemcpy, 4000)                                                                              \
    X(cuMemcpyHtoD_v2, cuMemcpyHtoD, 3020)                                                                   \
    X(cuMemcpyDtoH_v2, cuMemcpyDtoH, 3020)                                                                   \
    X(cuMemcpyDtoD_v2, cuMemcpyDtoD, 3020)                                                                   \
    X(cuMemcpyPeer, cuMemcpyPeer, 4000)                                                                      \
    X(cuMemcpyPeerAsync, cuMemcpyPeerAsync, 4000)                                                            \
    X(cuMemcpy2D_v2, cuMemcpy2D, 3020)                                                                       \
    X(cuMemcpy2DUnaligned_v2, cuMemcpy2DUnaligned, 3020)                                                     \
    X(cuMemcpy2DAsync_v2, cuMemcpy2DAsync, 3020)                                                             \
    X(cuMemcpy3D_v2, cuMemcpy3D, 3020)                                                                       \
    X(cuMemcpy3DAsync_v2, cuMemcpy3DAsync, 3020)                                                             \
    X(cuMemcpy3DPeer, cuMemcpy3DPeer, 4000)                                                                  \
    X(cuMemcpy3DPeerAsync, cuMemcpy3DPeerAsync, 4000)                                                        \
    X(cuMemcpyBatchAsync, cuMemcpyBatchAsync, 12080)                                                         \
    X(cuMemcpyBatchAsync_v2, cuMemcpyBatchAsync, 13000)                                                      \
    X(cuMemcpy3DBatchAsync, cuMemcpy3DBatchAsync, 12080)                                                     \
    X(cuMemcpy3DBatchAsync_v2, cuMemcpy3DBatchAsync, 13000)                                                  \
    X(cuMemcpyDtoA_v2, cuMemcpyDtoA, 3020)                                                                   \
    X(cuMemcpyAtoD_v2, cuMemcpyAtoD, 3020)                                                                   \
    X(cuMemcpyAtoA_v2, cuMemcpyAtoA, 3020)                                                                   \
    X(cuMemcpyHtoA_v2, cuMemcpyHtoA, 3020)                                                                   \
    X(cuMemcpyAtoH_v2, cuMemcpyAtoH, 3020)                                                                   \
    X(cuMemcpyHtoAAsync_v2, cuMemcpyHtoAAsync, 3020)                                                         \
    X(cuMemcpyAtoHAsync_v2, cuMemcpyAtoHAsync, 3020)                                                         \
    X(cuMemsetD8_v2, cuMemsetD8, 3020)                                                                       \
    X(cuMemsetD16_v2, cuMemsetD16, 3020)                                                                     \
    X(cuMemsetD32_v2, cuMemsetD32, 3020)                                                                     \
    X(cuMemsetD2D8_v2, cuMemsetD2D8, 3020)                                                                   \
    X(cuMemsetD2D16_v2, cuMemsetD2D16, 3020)                                                                 \
    X(cuMemsetD2D32_v2, cuMemsetD2D32, 3020)                                                                 \
    X(cuMemsetD2D8Async, cuMemsetD2D8Async, 3020)                                                            \
    X(cuMemsetD2D16Async, cuMemsetD2D16Async, 3020)                                                          \
    X(cuMemsetD2D32Async, cuMemsetD2D32Async, 3020)                                                          \
    X(cuStreamWriteValue32, cuStreamWriteValue32, 8000)                                                      \
    X(cuStreamWriteValue32_v2, cuStreamWriteValue32, 11070)                                                  \
    X(cuStreamWriteValue64, cuStreamWriteValue64, 9000)                                                      \
    X(cuStreamWriteValue64_v2, cuStreamWriteValue64, 11070)                                                  \
    X(cuStreamWaitValue32, cuStreamWaitValue32, 8000)                                                        \
    X(cuStreamWaitValue32_v2, cuStreamWaitValue32, 11070)                                                    \
    X(cuStreamWaitValue64, cuStreamWaitValue64, 9000)                                                        \
    X(cuStreamWaitValue64_v2, cuStreamWaitValue64, 11070)                                                    \
    X(cuStreamBatchMemOp, cuStreamBatchMemOp, 8000)                                                          \
    X(cuStreamBatchMemOp_v2, cuStreamBatchMemOp, 11070)                                                      \
    X(cuMemBatchDecompressAsync, cuMemBatchDecompressAsync, 12060)                                           \
    X(cuLaunchCooperativeKernel, cuLaunchCooperativeKernel, 9000)                                            \
    X(cuLaunchCooperativeKernelMultiDevice, cuLaunchCooperativeKernelMultiDevice, 9000)                      \
    X(cuLaunch, cuLaunch, 2000)                                                                              \
    X(cuLaunchGrid, cuLaunchGrid, 2000)                                                                      \
    X(cuLaunchGridAsync, cuLaunchGridAsync, 2000)                                                            \
    X(cuTensorMapEncodeTiled, cuTensorMapEncodeTiled, 12000)                                                 \
    X(cuTensorMapEncodeIm2col, cuTensorMapEncodeIm2col, 12000)                                               \
    X(cuTensorMapEncodeIm2colWide, cuTensorMapEncodeIm2colWide, 12080)                                       \
    X(cuTensorMapReplaceAddress, cuTensorMapReplaceAddress, 12000)                                           \
    X(cuStreamDestroy_v1, cuStreamDestroy, 2000)                                                             \
    X(cuStreamBeginCapture, cuStreamBeginCapture, 10000)                                                     \
    X(cuStreamBeginCapture_v2, cuStreamBeginCapture, 10010)                                                  \
    X(cuStreamBeginCaptureToGraph, cuStreamBeginCaptureToGraph, 12030)                                       \
    X(cuStreamEndCapture, cuStreamEndCapture, 10000)                                                         \
    X(cuGraphDestroy, cuGraphDestroy, 10000)                                                                 \
    X(cuGraphExecDestroy, cuGraphExecDestroy, 10000)                                                         \
    X(cuGraphClone, cuGraphClone, 10000)                                                                     \
    X(cuGraphInstantiate, cuGraphInstantiate, 10000)                                                         \
    X(cuGraphInstantiate_v2, cuGraphInstantiate, 11000)                                                      \
    X(cuGraphInstantiateWithFlags, cuGraphInstantiateWithFlags, 11040)                                       \
    X(cuGraphInstantiateWithParams, cuGraphInstantiateWithParams, 12000)                                     \
    X(cuGraphExecUpdate, cuGraphExecUpdate, 10020)                                                           \
    X(cuGraphExecUpdate_v2, cuGraphExecUpdate, 12000)                                                        \
    X(cuGraphLaunch, cuGraphLaunch, 10000)                                                                   \
    X(cuGraphAddKernelNode, cuGraphAddKernelNode, 10000)                                                     \
    X(cuGraphAddKernelNode_v2, cuGraphAddKernelNode, 12000)                                                  \
    X(cuGraphKernelNodeSetParams, cuGraphKernelNodeSetParams, 10000)                                         \
    X(cuGraphKernelNodeSetParams_v2, cuGraphKernelNodeSetParams, 12000)                                      \
    X(cuGraphExecKernelNodeSetParams, cuGraphExecKernelNodeSetParams, 10010)                                 \
    X(cuGraphExecKernelNodeSetParams_v2, cuGraphExecKernelNodeSetParams, 12000)                              \
    X(cuGraphAddMemcpyNode, cuGraphAddMemcpyNode, 10000)                                                     \
    X(cuGraphMemcpyNodeSetParams, cuGraphMemcpyNodeSetParams, 10000)                                         \
    X(cuGraphExecMemcpyNodeSetParams, cuGraphExecMemcpyNodeSetParams, 10020)                                 \
    X(cuGraphAddMemsetNode, cuGraphAddMemsetNode, 10000)                                                     \
    X(cuGraphMemsetNodeSetParams, cuGraphMemsetNodeSetParams, 10000)                                         \
    X(cuGraphExecMemsetNodeSetParams, cuGraphExecMemsetNodeSetParams, 10020)                                 \
    X(cuGraphAddBatchMemOpNode, cuGraphAddBatchMemOpNode, 11070)                                             \
    X(cuGraphBatchMemOpNodeSetParams, cuGraphBatchMemOpNodeSetParams, 11070)                                 \
    X(cuGraphExecBatchMemOpNodeSetParams, cuGraphExecBatchMemOpNodeSetParams, 11070)                         \
    X(cuGraphAddChildGraphNode, cuGraphAddChildGraphNode, 10000)                                             \
    X(cuGraphChildGraphNodeGetGraph, cuGraphChildGraphNodeGetGraph, 10000)                                   \
    X(cuGraphExecChildGraphNodeSetParams, cuGraphExecChildGraphNodeSetParams, 11010)                         \
    X(cuGraphAddNode, cuGraphAddNode, 12020)                                                                 \
    X(cuGraphAddNode_v2, cuGraphAddNode, 12030)                                                              \
    X(cuGraphNodeSetParams, cuGraphNodeSetParams, 12020)                                                     \
    X(cuGraphExecNodeSetParams, cuGraphExecNodeSetParams, 12020)                                             \
    X(cuDevicePrimaryCtxGetState, cuDevicePrimaryCtxGetState, 7000)                                          \
    X(cuDevicePrimaryCtxRetain, cuDevicePrimaryCtxRetain, 7000)                                              \
    X(cuCtxGetApiVersion, cuCtxGetApiVersion, 3020)                                                          \
    X(cuGraphAddMemAllocNode, cuGraphAddMemAllocNode, 11040)                                                 \
    X(cuMemHostGetDevicePointer_v2, cuMemHostGetDevicePointer, 3020)                                         \
    X(cuStreamIsCapturing, cuStreamIsCapturing, 10000)                                                       \
    X(cuStreamGetCaptureInfo, cuStreamGetCaptureInfo, 10010)                                                 \
    X(cuKernelGetParamInfo, cuKernelGetParamInfo, 12040)                                                     \
    X(cuKernelGetName, cuKernelGetName, 12030)                                                               \
    X(cuKernelGetFunction, cuKernelGetFunction, 12000)                                                       \
    X(cuCtxPushCurrent_v2, cuCtxPushCurrent, 4000)                                                           \
    X(cuCtxPopCurrent_v2, cuCtxPopCurrent, 4000)                                                             \
    X(cuStreamGetCtx, cuStreamGetCtx, 9020)                                                                  \
    X(cuDeviceGetCount, cuDeviceGetCount, 2000)                                                              \
    X(cuDeviceGetGraphMemAttribute, cuDeviceGetGraphMemAttribute, 11040)                                     \
    X(cuArrayGetMemoryRequirements, cuArrayGetMemoryRequirements, 11060)

typedef struct ebb_driver {
    PFN_cuGetProcAddress_v12000 cuGetProcAddress;
#define X(name, version) PFN_##name##_v##version name;
    EBB_DRIVER_FUNCTIONS(X)
#undef X
#ifdef __CUDA_API_VERSION_INTERNAL /* else CUDA's header renames some: they come last, the others know none of them */
#define X(field, name, version) PFN_##name##_v##version field;
    EBB_DRIVER_MORE(X)
#undef X
#endif
} ebb_driver_t;

extern ebb_driver_t ebb_driver;

/* Fills the table by the real driver's cuGetProcAddress_v2. CUDA_ERROR_NOT_FOUND if any name that ebb needs is
 * missing (logged): ebb then leaves the program alone, and what there is serves to pass its calls on. */
ebb_status_t ebb_driver_fill(PFN_cuGetProcAddress_v12000 real);

#endif
