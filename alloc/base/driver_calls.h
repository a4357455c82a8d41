/* driver_calls.h: the one table of the CUDA driver's functions: what ebb does when a program calls one, and which of them ebb calls
 * itself. What goes by function follows from it: the table through which ebb calls the driver (driver.h), the look-ups that
 * answer with ebb's functions (hook/lookup.c), the tests against NVIDIA's headers, and docs/driver-calls.md.
 *
 *   SECTION(title)                               the SERVED and WATCHED rows below have one subject
 *   SERVED(name, symbol, version, form, use)     ebb answers where the memory is its own, be it by refusing; else the driver does
 *   WATCHED(name, symbol, version, form, use)    the driver does it; before or after, ebb makes memory resident, counts it against
 *                                                the budget (and may refuse it), or records the operation
 *   ALIAS(name, symbol, version, form)           another name under which cuGetProcAddress finds the form of a row
 *   PASSED(reason, names)                        the program reaches the driver directly, in every form of these functions, and why
 *                                                it may. A name that ends in * stands for all that begin so
 *   CALLED(name, symbol, version, form, use)     passed for the reason of the PASSED row above, and called by ebb
 *
 *   name      as cuGetProcAddress has it
 *   symbol    as dlsym has it; the field of ebb_driver
 *   version   the CUDA version that brought this form (NVIDIA's cudaTypedefs.h); forms of one name are rows of their own
 *   form      PLAIN: no default stream. SYNC, ASYNC: also as symbol_ptds, symbol_ptsz, for the per-thread default stream
 *   use       REQUIRED: ebb leaves the program alone without it. OPTIONAL: NULL where the driver lacks it. UNUSED: ebb never calls it
 *             (it issues the asynchronous form of a copy and waits)
 *
 * To add a function: its row, and, if it is SERVED or WATCHED, its body in hook/ under the symbol's name (hook/internal.h). Then
 * `test_alloc_driver_calls --page >docs/driver-calls.md`. The test names what cuda.h declares and this table lacks.
 * Forms of before CUDA 3.2, whose addresses and sizes have 32 bits, need no row: they cannot name memory of ebb's.
 *
 * An includer defines the macros whose rows it wants: HOOKED for SERVED and WATCHED rows, CALL for these and CALLED ones.
 * They are undefined at the end. One row per line; no include guard.
 */
// clang-format off
#ifndef CALL
#define CALL(name, symbol, version, form, use)
#endif
#ifndef CALLED
#define CALLED CALL
#endif
#ifndef HOOKED
#define HOOKED CALL
#endif
#ifndef SERVED
#define SERVED HOOKED
#endif
#ifndef WATCHED
#define WATCHED HOOKED
#endif
#ifndef ALIAS
#define ALIAS(name, symbol, version, form)
#endif
#ifndef PASSED
#define PASSED(reason, names)
#endif
#ifndef SECTION
#define SECTION(title)
#endif

SECTION("Look-ups")
SERVED(cuGetProcAddress, cuGetProcAddress, 11030, PLAIN, UNUSED)
SERVED(cuGetProcAddress, cuGetProcAddress_v2, 12000, PLAIN, REQUIRED)

SECTION("Contexts")
WATCHED(cuCtxSynchronize, cuCtxSynchronize, 2000, PLAIN, REQUIRED)
WATCHED(cuCtxSynchronize, cuCtxSynchronize_v2, 13000, PLAIN, OPTIONAL)
WATCHED(cuCtxDestroy, cuCtxDestroy, 2000, PLAIN, OPTIONAL)
WATCHED(cuCtxDestroy, cuCtxDestroy_v2, 4000, PLAIN, OPTIONAL)
WATCHED(cuCtxDetach, cuCtxDetach, 2000, PLAIN, OPTIONAL)
WATCHED(cuDevicePrimaryCtxRelease, cuDevicePrimaryCtxRelease, 7000, PLAIN, OPTIONAL)
WATCHED(cuDevicePrimaryCtxRelease, cuDevicePrimaryCtxRelease_v2, 11000, PLAIN, OPTIONAL)
WATCHED(cuDevicePrimaryCtxReset, cuDevicePrimaryCtxReset, 7000, PLAIN, OPTIONAL)
WATCHED(cuDevicePrimaryCtxReset, cuDevicePrimaryCtxReset_v2, 11000, PLAIN, OPTIONAL)
WATCHED(cuCtxEnablePeerAccess, cuCtxEnablePeerAccess, 4000, PLAIN, OPTIONAL)

SECTION("Allocation")
SERVED(cuMemAlloc, cuMemAlloc_v2, 3020, PLAIN, REQUIRED)
SERVED(cuMemAllocPitch, cuMemAllocPitch_v2, 3020, PLAIN, OPTIONAL)
SERVED(cuMemFree, cuMemFree_v2, 3020, PLAIN, REQUIRED)
SERVED(cuMemAllocAsync, cuMemAllocAsync, 11020, ASYNC, REQUIRED)
SERVED(cuMemAllocFromPoolAsync, cuMemAllocFromPoolAsync, 11020, ASYNC, REQUIRED)
SERVED(cuMemFreeAsync, cuMemFreeAsync, 11020, ASYNC, REQUIRED)
WATCHED(cuMemPoolCreate, cuMemPoolCreate, 11020, PLAIN, OPTIONAL)
WATCHED(cuMemPoolDestroy, cuMemPoolDestroy, 11020, PLAIN, OPTIONAL)
WATCHED(cuMemPoolSetAccess, cuMemPoolSetAccess, 11020, PLAIN, OPTIONAL)
SERVED(cuMemPoolTrimTo, cuMemPoolTrimTo, 11020, PLAIN, REQUIRED)
SERVED(cuMemPoolGetAttribute, cuMemPoolGetAttribute, 11020, PLAIN, REQUIRED)
SERVED(cuMemPoolSetAttribute, cuMemPoolSetAttribute, 11020, PLAIN, REQUIRED)
SERVED(cuMemPoolExportPointer, cuMemPoolExportPointer, 11020, PLAIN, OPTIONAL)
WATCHED(cuMemPoolImportPointer, cuMemPoolImportPointer, 11020, PLAIN, OPTIONAL)
WATCHED(cuMemPoolImportFromShareableHandle, cuMemPoolImportFromShareableHandle, 11020, PLAIN, OPTIONAL)
WATCHED(cuDeviceSetMemPool, cuDeviceSetMemPool, 11020, PLAIN, OPTIONAL)
WATCHED(cuMemSetMemPool, cuMemSetMemPool, 13000, PLAIN, OPTIONAL)

SECTION("Information about memory")
SERVED(cuDeviceTotalMem, cuDeviceTotalMem_v2, 3020, PLAIN, REQUIRED)
SERVED(cuMemGetInfo, cuMemGetInfo_v2, 3020, PLAIN, REQUIRED)
SERVED(cuMemGetAddressRange, cuMemGetAddressRange_v2, 3020, PLAIN, REQUIRED)
SERVED(cuPointerGetAttribute, cuPointerGetAttribute, 4000, PLAIN, REQUIRED)
SERVED(cuPointerGetAttributes, cuPointerGetAttributes, 7000, PLAIN, REQUIRED)
SERVED(cuPointerSetAttribute, cuPointerSetAttribute, 6000, PLAIN, OPTIONAL)
SERVED(cuMemGetAccess, cuMemGetAccess, 10020, PLAIN, OPTIONAL)

SECTION("Memory that the driver serves, and code")
WATCHED(cuMemCreate, cuMemCreate, 10020, PLAIN, REQUIRED)
WATCHED(cuMemRelease, cuMemRelease, 10020, PLAIN, REQUIRED)
SERVED(cuMemRetainAllocationHandle, cuMemRetainAllocationHandle, 11000, PLAIN, OPTIONAL)
SERVED(cuMemMap, cuMemMap, 10020, PLAIN, REQUIRED)
SERVED(cuMemUnmap, cuMemUnmap, 10020, PLAIN, REQUIRED)
SERVED(cuMemSetAccess, cuMemSetAccess, 10020, PLAIN, REQUIRED)
SERVED(cuMemAddressFree, cuMemAddressFree, 10020, PLAIN, REQUIRED)
WATCHED(cuMulticastBindAddr, cuMulticastBindAddr, 12010, PLAIN, OPTIONAL)
WATCHED(cuMemAllocManaged, cuMemAllocManaged, 6000, PLAIN, OPTIONAL)
WATCHED(cuArrayCreate, cuArrayCreate_v2, 3020, PLAIN, OPTIONAL)
WATCHED(cuArray3DCreate, cuArray3DCreate_v2, 3020, PLAIN, OPTIONAL)
WATCHED(cuArrayDestroy, cuArrayDestroy, 2000, PLAIN, OPTIONAL)
WATCHED(cuMipmappedArrayCreate, cuMipmappedArrayCreate, 5000, PLAIN, OPTIONAL)
WATCHED(cuMipmappedArrayDestroy, cuMipmappedArrayDestroy, 5000, PLAIN, OPTIONAL)
WATCHED(cuMemAllocHost, cuMemAllocHost_v2, 3020, PLAIN, OPTIONAL)
WATCHED(cuMemHostAlloc, cuMemHostAlloc, 2020, PLAIN, REQUIRED)
WATCHED(cuMemFreeHost, cuMemFreeHost, 2000, PLAIN, REQUIRED)
WATCHED(cuMemHostRegister, cuMemHostRegister, 4000, PLAIN, OPTIONAL)
WATCHED(cuMemHostRegister, cuMemHostRegister_v2, 6050, PLAIN, REQUIRED)
WATCHED(cuMemHostUnregister, cuMemHostUnregister, 4000, PLAIN, REQUIRED)
WATCHED(cuMemHostGetDevicePointer, cuMemHostGetDevicePointer_v2, 3020, PLAIN, OPTIONAL)
WATCHED(cuModuleGetGlobal, cuModuleGetGlobal_v2, 3020, PLAIN, OPTIONAL)
WATCHED(cuModuleLoad, cuModuleLoad, 2000, PLAIN, OPTIONAL)
WATCHED(cuModuleLoadData, cuModuleLoadData, 2000, PLAIN, REQUIRED)
WATCHED(cuModuleLoadDataEx, cuModuleLoadDataEx, 2010, PLAIN, OPTIONAL)
WATCHED(cuModuleLoadFatBinary, cuModuleLoadFatBinary, 2000, PLAIN, OPTIONAL)
WATCHED(cuLibraryLoadData, cuLibraryLoadData, 12000, PLAIN, OPTIONAL)
WATCHED(cuLibraryLoadFromFile, cuLibraryLoadFromFile, 12000, PLAIN, OPTIONAL)
WATCHED(cuLibraryGetGlobal, cuLibraryGetGlobal, 12000, PLAIN, OPTIONAL)
WATCHED(cuLibraryGetManaged, cuLibraryGetManaged, 12000, PLAIN, OPTIONAL)
WATCHED(cuModuleUnload, cuModuleUnload, 2000, PLAIN, REQUIRED)
WATCHED(cuLibraryUnload, cuLibraryUnload, 12000, PLAIN, REQUIRED)
WATCHED(cuModuleGetFunction, cuModuleGetFunction, 2000, PLAIN, REQUIRED)
WATCHED(cuModuleEnumerateFunctions, cuModuleEnumerateFunctions, 12040, PLAIN, OPTIONAL)
WATCHED(cuLibraryGetKernel, cuLibraryGetKernel, 12000, PLAIN, OPTIONAL)
WATCHED(cuLibraryEnumerateKernels, cuLibraryEnumerateKernels, 12040, PLAIN, OPTIONAL)
WATCHED(cuKernelGetFunction, cuKernelGetFunction, 12000, PLAIN, OPTIONAL)
WATCHED(cuExternalMemoryGetMappedBuffer, cuExternalMemoryGetMappedBuffer, 10000, PLAIN, OPTIONAL)
WATCHED(cuGraphicsResourceGetMappedPointer, cuGraphicsResourceGetMappedPointer_v2, 3020, PLAIN, OPTIONAL)

SECTION("Memory shared with other devices, processes and textures")
SERVED(cuIpcGetMemHandle, cuIpcGetMemHandle, 4010, PLAIN, OPTIONAL)
WATCHED(cuIpcOpenMemHandle, cuIpcOpenMemHandle, 4010, PLAIN, OPTIONAL)
WATCHED(cuIpcOpenMemHandle, cuIpcOpenMemHandle_v2, 11000, PLAIN, OPTIONAL)
WATCHED(cuIpcCloseMemHandle, cuIpcCloseMemHandle, 4010, PLAIN, OPTIONAL)
WATCHED(cuMemGetHandleForAddressRange, cuMemGetHandleForAddressRange, 11070, PLAIN, OPTIONAL)
WATCHED(cuTexObjectCreate, cuTexObjectCreate, 5000, PLAIN, OPTIONAL)
WATCHED(cuTexObjectDestroy, cuTexObjectDestroy, 5000, PLAIN, OPTIONAL)
WATCHED(cuTexRefSetAddress, cuTexRefSetAddress_v2, 3020, PLAIN, OPTIONAL)
WATCHED(cuTexRefSetAddress2D, cuTexRefSetAddress2D_v2, 3020, PLAIN, OPTIONAL)
WATCHED(cuTexRefSetAddress2D, cuTexRefSetAddress2D_v3, 4010, PLAIN, OPTIONAL)

SECTION("Copies")
WATCHED(cuMemcpy, cuMemcpy, 4000, SYNC, UNUSED)
WATCHED(cuMemcpyHtoD, cuMemcpyHtoD_v2, 3020, SYNC, UNUSED)
WATCHED(cuMemcpyDtoH, cuMemcpyDtoH_v2, 3020, SYNC, UNUSED)
WATCHED(cuMemcpyDtoD, cuMemcpyDtoD_v2, 3020, SYNC, UNUSED)
WATCHED(cuMemcpyAsync, cuMemcpyAsync, 4000, ASYNC, REQUIRED)
WATCHED(cuMemcpyHtoDAsync, cuMemcpyHtoDAsync_v2, 3020, ASYNC, REQUIRED)
WATCHED(cuMemcpyDtoHAsync, cuMemcpyDtoHAsync_v2, 3020, ASYNC, REQUIRED)
WATCHED(cuMemcpyDtoDAsync, cuMemcpyDtoDAsync_v2, 3020, ASYNC, REQUIRED)
WATCHED(cuMemcpyPeer, cuMemcpyPeer, 4000, SYNC, UNUSED)
WATCHED(cuMemcpyPeerAsync, cuMemcpyPeerAsync, 4000, ASYNC, OPTIONAL)
WATCHED(cuMemcpy2D, cuMemcpy2D_v2, 3020, SYNC, UNUSED)
WATCHED(cuMemcpy2DUnaligned, cuMemcpy2DUnaligned_v2, 3020, SYNC, OPTIONAL)
WATCHED(cuMemcpy2DAsync, cuMemcpy2DAsync_v2, 3020, ASYNC, OPTIONAL)
WATCHED(cuMemcpy3D, cuMemcpy3D_v2, 3020, SYNC, UNUSED)
WATCHED(cuMemcpy3DAsync, cuMemcpy3DAsync_v2, 3020, ASYNC, OPTIONAL)
WATCHED(cuMemcpy3DPeer, cuMemcpy3DPeer, 4000, SYNC, UNUSED)
WATCHED(cuMemcpy3DPeerAsync, cuMemcpy3DPeerAsync, 4000, ASYNC, OPTIONAL)
WATCHED(cuMemcpyBatchAsync, cuMemcpyBatchAsync, 12080, ASYNC, OPTIONAL)
WATCHED(cuMemcpyBatchAsync, cuMemcpyBatchAsync_v2, 13000, ASYNC, OPTIONAL)
WATCHED(cuMemcpy3DBatchAsync, cuMemcpy3DBatchAsync, 12080, ASYNC, OPTIONAL)
WATCHED(cuMemcpy3DBatchAsync, cuMemcpy3DBatchAsync_v2, 13000, ASYNC, OPTIONAL)
WATCHED(cuMemcpyDtoA, cuMemcpyDtoA_v2, 3020, SYNC, OPTIONAL)
WATCHED(cuMemcpyAtoD, cuMemcpyAtoD_v2, 3020, SYNC, OPTIONAL)
WATCHED(cuMemcpyAtoA, cuMemcpyAtoA_v2, 3020, SYNC, OPTIONAL)
WATCHED(cuMemcpyHtoA, cuMemcpyHtoA_v2, 3020, SYNC, UNUSED)
WATCHED(cuMemcpyAtoH, cuMemcpyAtoH_v2, 3020, SYNC, UNUSED)
WATCHED(cuMemcpyHtoAAsync, cuMemcpyHtoAAsync_v2, 3020, ASYNC, OPTIONAL)
WATCHED(cuMemcpyAtoHAsync, cuMemcpyAtoHAsync_v2, 3020, ASYNC, OPTIONAL)

SECTION("Memsets")
WATCHED(cuMemsetD8, cuMemsetD8_v2, 3020, SYNC, UNUSED)
WATCHED(cuMemsetD16, cuMemsetD16_v2, 3020, SYNC, UNUSED)
WATCHED(cuMemsetD32, cuMemsetD32_v2, 3020, SYNC, UNUSED)
WATCHED(cuMemsetD8Async, cuMemsetD8Async, 3020, ASYNC, REQUIRED)
WATCHED(cuMemsetD16Async, cuMemsetD16Async, 3020, ASYNC, REQUIRED)
WATCHED(cuMemsetD32Async, cuMemsetD32Async, 3020, ASYNC, REQUIRED)
WATCHED(cuMemsetD2D8, cuMemsetD2D8_v2, 3020, SYNC, UNUSED)
WATCHED(cuMemsetD2D16, cuMemsetD2D16_v2, 3020, SYNC, UNUSED)
WATCHED(cuMemsetD2D32, cuMemsetD2D32_v2, 3020, SYNC, UNUSED)
WATCHED(cuMemsetD2D8Async, cuMemsetD2D8Async, 3020, ASYNC, OPTIONAL)
WATCHED(cuMemsetD2D16Async, cuMemsetD2D16Async, 3020, ASYNC, OPTIONAL)
WATCHED(cuMemsetD2D32Async, cuMemsetD2D32Async, 3020, ASYNC, OPTIONAL)

SECTION("Stream memory operations")
WATCHED(cuStreamWriteValue32, cuStreamWriteValue32, 8000, ASYNC, OPTIONAL)
WATCHED(cuStreamWriteValue32, cuStreamWriteValue32_v2, 11070, ASYNC, OPTIONAL)
WATCHED(cuStreamWriteValue64, cuStreamWriteValue64, 9000, ASYNC, OPTIONAL)
WATCHED(cuStreamWriteValue64, cuStreamWriteValue64_v2, 11070, ASYNC, OPTIONAL)
WATCHED(cuStreamWaitValue32, cuStreamWaitValue32, 8000, ASYNC, OPTIONAL)
WATCHED(cuStreamWaitValue32, cuStreamWaitValue32_v2, 11070, ASYNC, OPTIONAL)
WATCHED(cuStreamWaitValue64, cuStreamWaitValue64, 9000, ASYNC, OPTIONAL)
WATCHED(cuStreamWaitValue64, cuStreamWaitValue64_v2, 11070, ASYNC, OPTIONAL)
WATCHED(cuStreamBatchMemOp, cuStreamBatchMemOp, 8000, ASYNC, OPTIONAL)
WATCHED(cuStreamBatchMemOp, cuStreamBatchMemOp_v2, 11070, ASYNC, OPTIONAL)
WATCHED(cuMemBatchDecompressAsync, cuMemBatchDecompressAsync, 12060, ASYNC, OPTIONAL)

SECTION("Launches")
WATCHED(cuLaunchKernel, cuLaunchKernel, 4000, ASYNC, REQUIRED)
WATCHED(cuLaunchKernelEx, cuLaunchKernelEx, 11060, ASYNC, REQUIRED)
WATCHED(cuLaunchCooperativeKernel, cuLaunchCooperativeKernel, 9000, ASYNC, OPTIONAL)
WATCHED(cuLaunchCooperativeKernelMultiDevice, cuLaunchCooperativeKernelMultiDevice, 9000, PLAIN, OPTIONAL)
WATCHED(cuLaunch, cuLaunch, 2000, PLAIN, OPTIONAL)
WATCHED(cuLaunchGrid, cuLaunchGrid, 2000, PLAIN, OPTIONAL)
WATCHED(cuLaunchGridAsync, cuLaunchGridAsync, 2000, PLAIN, OPTIONAL)
WATCHED(cuTensorMapEncodeTiled, cuTensorMapEncodeTiled, 12000, PLAIN, OPTIONAL)
WATCHED(cuTensorMapEncodeIm2col, cuTensorMapEncodeIm2col, 12000, PLAIN, OPTIONAL)
WATCHED(cuTensorMapEncodeIm2colWide, cuTensorMapEncodeIm2colWide, 12080, PLAIN, OPTIONAL)
WATCHED(cuTensorMapReplaceAddress, cuTensorMapReplaceAddress, 12000, PLAIN, OPTIONAL)

SECTION("Streams and events")
WATCHED(cuEventRecord, cuEventRecord, 2000, ASYNC, REQUIRED)
WATCHED(cuEventRecordWithFlags, cuEventRecordWithFlags, 11010, ASYNC, OPTIONAL)
WATCHED(cuEventSynchronize, cuEventSynchronize, 2000, PLAIN, REQUIRED)
WATCHED(cuEventQuery, cuEventQuery, 2000, PLAIN, REQUIRED)
WATCHED(cuStreamQuery, cuStreamQuery, 2000, ASYNC, REQUIRED)
WATCHED(cuStreamDestroy, cuStreamDestroy, 2000, PLAIN, OPTIONAL)
WATCHED(cuStreamDestroy, cuStreamDestroy_v2, 4000, PLAIN, REQUIRED)
WATCHED(cuStreamSynchronize, cuStreamSynchronize, 2000, ASYNC, REQUIRED)

SECTION("Capture and graphs")
WATCHED(cuStreamBeginCapture, cuStreamBeginCapture, 10000, ASYNC, OPTIONAL)
WATCHED(cuStreamBeginCapture, cuStreamBeginCapture_v2, 10010, ASYNC, OPTIONAL)
WATCHED(cuStreamBeginCaptureToGraph, cuStreamBeginCaptureToGraph, 12030, ASYNC, OPTIONAL)
WATCHED(cuStreamEndCapture, cuStreamEndCapture, 10000, ASYNC, OPTIONAL)
WATCHED(cuStreamWaitEvent, cuStreamWaitEvent, 3020, ASYNC, REQUIRED)
WATCHED(cuGraphDestroy, cuGraphDestroy, 10000, PLAIN, OPTIONAL)
WATCHED(cuGraphExecDestroy, cuGraphExecDestroy, 10000, PLAIN, OPTIONAL)
WATCHED(cuGraphCreate, cuGraphCreate, 10000, PLAIN, OPTIONAL)
WATCHED(cuGraphClone, cuGraphClone, 10000, PLAIN, OPTIONAL)
WATCHED(cuGraphInstantiate, cuGraphInstantiate, 10000, PLAIN, OPTIONAL)
WATCHED(cuGraphInstantiate, cuGraphInstantiate_v2, 11000, PLAIN, OPTIONAL)
WATCHED(cuGraphInstantiateWithFlags, cuGraphInstantiateWithFlags, 11040, PLAIN, OPTIONAL)
/* As cuda.h defines the one name as the other: cuda.bindings, which looks up all names when it is first used, asks for it so. */
ALIAS(cuGraphInstantiate, cuGraphInstantiateWithFlags, 11040, PLAIN)
WATCHED(cuGraphInstantiateWithParams, cuGraphInstantiateWithParams, 12000, ASYNC, OPTIONAL)
WATCHED(cuGraphExecUpdate, cuGraphExecUpdate, 10020, PLAIN, OPTIONAL)
WATCHED(cuGraphExecUpdate, cuGraphExecUpdate_v2, 12000, PLAIN, OPTIONAL)
WATCHED(cuGraphLaunch, cuGraphLaunch, 10000, ASYNC, OPTIONAL)
WATCHED(cuGraphUpload, cuGraphUpload, 11010, ASYNC, OPTIONAL)
WATCHED(cuGraphNodeSetEnabled, cuGraphNodeSetEnabled, 11060, PLAIN, OPTIONAL)
WATCHED(cuGraphRetainUserObject, cuGraphRetainUserObject, 11030, PLAIN, OPTIONAL)
WATCHED(cuGraphAddKernelNode, cuGraphAddKernelNode, 10000, PLAIN, OPTIONAL)
WATCHED(cuGraphAddKernelNode, cuGraphAddKernelNode_v2, 12000, PLAIN, OPTIONAL)
WATCHED(cuGraphKernelNodeSetParams, cuGraphKernelNodeSetParams, 10000, PLAIN, OPTIONAL)
WATCHED(cuGraphKernelNodeSetParams, cuGraphKernelNodeSetParams_v2, 12000, PLAIN, OPTIONAL)
WATCHED(cuGraphExecKernelNodeSetParams, cuGraphExecKernelNodeSetParams, 10010, PLAIN, OPTIONAL)
WATCHED(cuGraphExecKernelNodeSetParams, cuGraphExecKernelNodeSetParams_v2, 12000, PLAIN, OPTIONAL)
WATCHED(cuGraphAddMemcpyNode, cuGraphAddMemcpyNode, 10000, PLAIN, OPTIONAL)
WATCHED(cuGraphMemcpyNodeSetParams, cuGraphMemcpyNodeSetParams, 10000, PLAIN, OPTIONAL)
WATCHED(cuGraphExecMemcpyNodeSetParams, cuGraphExecMemcpyNodeSetParams, 10020, PLAIN, OPTIONAL)
WATCHED(cuGraphAddMemsetNode, cuGraphAddMemsetNode, 10000, PLAIN, OPTIONAL)
WATCHED(cuGraphMemsetNodeSetParams, cuGraphMemsetNodeSetParams, 10000, PLAIN, OPTIONAL)
WATCHED(cuGraphExecMemsetNodeSetParams, cuGraphExecMemsetNodeSetParams, 10020, PLAIN, OPTIONAL)
WATCHED(cuGraphAddBatchMemOpNode, cuGraphAddBatchMemOpNode, 11070, PLAIN, OPTIONAL)
WATCHED(cuGraphBatchMemOpNodeSetParams, cuGraphBatchMemOpNodeSetParams, 11070, PLAIN, OPTIONAL)
WATCHED(cuGraphExecBatchMemOpNodeSetParams, cuGraphExecBatchMemOpNodeSetParams, 11070, PLAIN, OPTIONAL)
WATCHED(cuGraphAddMemAllocNode, cuGraphAddMemAllocNode, 11040, PLAIN, OPTIONAL)
WATCHED(cuGraphAddChildGraphNode, cuGraphAddChildGraphNode, 10000, PLAIN, OPTIONAL)
WATCHED(cuGraphChildGraphNodeGetGraph, cuGraphChildGraphNodeGetGraph, 10000, PLAIN, OPTIONAL)
WATCHED(cuGraphExecChildGraphNodeSetParams, cuGraphExecChildGraphNodeSetParams, 11010, PLAIN, OPTIONAL)
WATCHED(cuGraphAddNode, cuGraphAddNode, 12020, PLAIN, OPTIONAL)
WATCHED(cuGraphAddNode, cuGraphAddNode_v2, 12030, PLAIN, OPTIONAL)
WATCHED(cuGraphNodeSetParams, cuGraphNodeSetParams, 12020, PLAIN, OPTIONAL)
WATCHED(cuGraphExecNodeSetParams, cuGraphExecNodeSetParams, 12020, PLAIN, OPTIONAL)

PASSED("takes or tells nothing about device memory",
       "cuInit cuGetErrorString cuDeviceGet cuDeviceGetUuid cuDeviceGetLuid cuDeviceGetProperties cuDeviceComputeCapability "
       "cuDeviceGetByPCIBusId cuDeviceCanAccessPeer cuDeviceGetP2PAttribute cuDeviceGetP2PAtomicCapabilities "
       "cuDeviceGetHostAtomicCapabilities cuDeviceGetNvSciSyncAttributes cuDeviceGetTexture1DLinearMaxWidth "
       "cuDeviceGetExecAffinitySupport cuDeviceRegisterAsyncNotification cuDeviceUnregisterAsyncNotification "
       "cuFlushGPUDirectRDMAWrites cuCoredump* cuLogs* cuOccupancy* cuProfiler* cuUserObject* cuMemHostGetFlags")
CALLED(cuDeviceGetAttribute, cuDeviceGetAttribute, 2000, PLAIN, REQUIRED)
CALLED(cuDeviceGetPCIBusId, cuDeviceGetPCIBusId, 4010, PLAIN, REQUIRED)
CALLED(cuDeviceGetName, cuDeviceGetName, 2000, PLAIN, REQUIRED)
CALLED(cuDriverGetVersion, cuDriverGetVersion, 2020, PLAIN, REQUIRED)
CALLED(cuGetErrorName, cuGetErrorName, 6000, PLAIN, REQUIRED)
CALLED(cuMemGetAllocationGranularity, cuMemGetAllocationGranularity, 10020, PLAIN, REQUIRED)
CALLED(cuDeviceGetCount, cuDeviceGetCount, 2000, PLAIN, OPTIONAL)

PASSED("contexts, but for their end: what is current is asked of the driver at every call",
       "cuCtxCreate cuCtxAttach cuCtxSetCurrent cuCtxGet* cuCtxSetFlags cuCtxSetLimit cuCtxSetCacheConfig "
       "cuCtxSetSharedMemConfig cuCtxResetPersistingL2Cache cuCtxRecordEvent cuCtxWaitEvent cuDevicePrimaryCtxSetFlags "
       "cuGreenCtx* cuCtxFromGreenCtx cuStreamGetGreenCtx cuDeviceGetDevResource cuDevResourceGenerateDesc "
       "cuDevSmResource*")
CALLED(cuCtxGetDevice, cuCtxGetDevice, 2000, PLAIN, REQUIRED)
CALLED(cuCtxGetCurrent, cuCtxGetCurrent, 4000, PLAIN, REQUIRED)
CALLED(cuThreadExchangeStreamCaptureMode, cuThreadExchangeStreamCaptureMode, 10010, PLAIN, REQUIRED)
CALLED(cuDevicePrimaryCtxGetState, cuDevicePrimaryCtxGetState, 7000, PLAIN, OPTIONAL)
CALLED(cuDevicePrimaryCtxRetain, cuDevicePrimaryCtxRetain, 7000, PLAIN, OPTIONAL)
CALLED(cuCtxGetApiVersion, cuCtxGetApiVersion, 3020, PLAIN, OPTIONAL)
CALLED(cuCtxPushCurrent, cuCtxPushCurrent_v2, 4000, PLAIN, OPTIONAL)
CALLED(cuCtxPopCurrent, cuCtxPopCurrent_v2, 4000, PLAIN, OPTIONAL)

PASSED("rights once granted stay granted on ebb's mappings", "")
CALLED(cuCtxDisablePeerAccess, cuCtxDisablePeerAccess, 4000, PLAIN, OPTIONAL)

PASSED("code: ebb asks for a function's parameters when it is launched",
       "cuModuleGetLoadingMode cuModuleGetTexRef cuModuleGetSurfRef cuLink* cuLibraryGetUnifiedFunction cuKernelGetAttribute "
       "cuKernelSetAttribute cuKernelSetCacheConfig cuFuncGet* cuFuncSet* cuFuncIsLoaded cuFuncLoad")
CALLED(cuFuncGetName, cuFuncGetName, 12030, PLAIN, REQUIRED)
CALLED(cuFuncGetParamInfo, cuFuncGetParamInfo, 12040, PLAIN, REQUIRED)
CALLED(cuFuncGetAttribute, cuFuncGetAttribute, 2020, PLAIN, OPTIONAL)
CALLED(cuFuncGetModule, cuFuncGetModule, 11000, PLAIN, OPTIONAL)
CALLED(cuKernelGetLibrary, cuKernelGetLibrary, 12050, PLAIN, OPTIONAL)
CALLED(cuLibraryGetModule, cuLibraryGetModule, 12000, PLAIN, OPTIONAL)
CALLED(cuLibraryGetKernelCount, cuLibraryGetKernelCount, 12040, PLAIN, OPTIONAL)
CALLED(cuModuleGetFunctionCount, cuModuleGetFunctionCount, 12040, PLAIN, OPTIONAL)
CALLED(cuKernelGetParamInfo, cuKernelGetParamInfo, 12040, PLAIN, OPTIONAL)
CALLED(cuKernelGetName, cuKernelGetName, 12030, PLAIN, OPTIONAL)

PASSED("arguments of launches of before CUDA 4, which count as touching everything", "cuParamSet*")

PASSED("streams and events as such: order, not memory",
       "cuStreamCreateWithPriority cuStreamGet* cuStreamSetAttribute cuStreamCopyAttributes "
       "cuStreamUpdateCaptureDependencies cuImportExternalSemaphore cuDestroyExternalSemaphore cuSignalExternalSemaphoresAsync "
       "cuWaitExternalSemaphoresAsync cuIpcGetEventHandle cuIpcOpenEventHandle")
CALLED(cuStreamCreate, cuStreamCreate, 2000, PLAIN, REQUIRED)
CALLED(cuStreamGetId, cuStreamGetId, 12000, ASYNC, REQUIRED)
CALLED(cuEventCreate, cuEventCreate, 2000, PLAIN, REQUIRED)
CALLED(cuEventDestroy, cuEventDestroy_v2, 4000, PLAIN, REQUIRED)
CALLED(cuEventElapsedTime, cuEventElapsedTime, 2000, PLAIN, REQUIRED)
CALLED(cuStreamIsCapturing, cuStreamIsCapturing, 10000, ASYNC, OPTIONAL)
CALLED(cuStreamGetCaptureInfo, cuStreamGetCaptureInfo_v2, 11030, ASYNC, OPTIONAL)
CALLED(cuStreamGetCtx, cuStreamGetCtx, 9020, ASYNC, OPTIONAL)

PASSED("host functions may not call CUDA, and reach host memory only",
       "cuStreamAddCallback cuLaunchHostFunc cuGraphAddHostNode cuGraphHostNodeSetParams cuGraphExecHostNodeSetParams")

PASSED("for managed memory only, which ebb does not serve; of ebb's the driver refuses them",
       "cuMemAdvise cuMemPrefetchAsync cuMemPrefetchBatchAsync cuMemDiscardBatchAsync cuMemDiscardAndPrefetchBatchAsync "
       "cuMemRangeGetAttribute cuMemRangeGetAttributes cuStreamAttachMemAsync")

PASSED("about handles of memory that the program has created itself, or about reserved addresses",
       "cuMemExportToShareableHandle cuMemImportFromShareableHandle cuMemGetAllocationPropertiesFromHandle cuMemMapArrayAsync cuMulticastCreate "
       "cuMulticastAddDevice cuMulticastBindMem cuMulticastUnbind cuMulticastGetGranularity")
CALLED(cuMemAddressReserve, cuMemAddressReserve, 10020, PLAIN, REQUIRED)

PASSED("which pools there are; the driver knows them, and what may be exported of them is its own",
       "cuDeviceGetMemPool cuMemGetMemPool cuMemGetDefaultMemPool cuMemPoolGetAccess cuMemPoolExportToShareableHandle")
CALLED(cuDeviceGetDefaultMemPool, cuDeviceGetDefaultMemPool, 11020, PLAIN, REQUIRED)

PASSED("arrays have no address that a kernel could be given",
       "cuArrayGet* cuArray3DGetDescriptor cuMipmappedArrayGet* cuSurfObject* cuSurfRef* cuTexObjectGet* cuTexRefCreate "
       "cuTexRefDestroy cuTexRefGet* cuTexRefSetArray cuTexRefSetMipmappedArray cuTexRefSetFormat cuTexRefSetAddressMode "
       "cuTexRefSetFilterMode cuTexRefSetMipmapFilterMode cuTexRefSetMipmapLevelBias cuTexRefSetMipmapLevelClamp "
       "cuTexRefSetMaxAnisotropy cuTexRefSetBorderColor cuTexRefSetFlags")

PASSED("memory of other interfaces, known when it is mapped",
       "cuImportExternalMemory cuDestroyExternalMemory cuExternalMemoryGetMappedMipmappedArray cuGraphicsMapResources "
       "cuGraphicsUnmapResources cuGraphicsUnregisterResource cuGraphicsResourceSetMapFlags "
       "cuGraphicsResourceGetMappedMipmappedArray cuGraphicsSubResourceGetMappedArray")

PASSED("OpenGL, VDPAU and EGL, whose memory is known when it is mapped; a frame of the program's own memory that it presents to an EGL stream is not",
       "cuGL* cuWGLGetDevice cuVDPAU* cuEGLStream* cuEventCreateFromEGLSync cuGraphicsGL* cuGraphicsVDPAU* cuGraphicsEGL* cuGraphicsResourceGetMappedEglFrame")

PASSED("graphs: questions, order, and nodes that touch no memory of ebb's",
       "cuGraphGet* cuGraphNodeGet* cuGraphNodeFindInClone cuGraphAddDependencies cuGraphRemoveDependencies "
       "cuGraphAddEmptyNode cuGraphAddEvent* cuGraphEvent* cuGraphExecEvent* cuGraphAddExternalSemaphores* "
       "cuGraphExternalSemaphores* cuGraphExecExternalSemaphores* cuGraphDestroyNode cuGraphExecGet* "
       "cuGraphKernelNodeSetAttribute cuGraphKernelNodeCopyAttributes cuGraphBatchMemOpNodeGetParams cuGraphHostNodeGetParams "
       "cuGraphAddMemFreeNode cuGraphConditionalHandleCreate cuGraphDebugDotPrint cuGraphReleaseUserObject "
       "cuDeviceGetGraphMemAttribute cuDeviceSetGraphMemAttribute")
CALLED(cuGraphGetNodes, cuGraphGetNodes, 10000, PLAIN, OPTIONAL)
CALLED(cuGraphGetEdges, cuGraphGetEdges_v2, 12030, PLAIN, OPTIONAL)
CALLED(cuGraphNodeGetType, cuGraphNodeGetType, 10000, PLAIN, OPTIONAL)
CALLED(cuGraphKernelNodeGetParams, cuGraphKernelNodeGetParams_v2, 12000, PLAIN, OPTIONAL)
CALLED(cuGraphKernelNodeGetAttribute, cuGraphKernelNodeGetAttribute, 11000, PLAIN, OPTIONAL)
CALLED(cuGraphMemcpyNodeGetParams, cuGraphMemcpyNodeGetParams, 10000, PLAIN, OPTIONAL)
CALLED(cuGraphMemsetNodeGetParams, cuGraphMemsetNodeGetParams, 10000, PLAIN, OPTIONAL)
CALLED(cuGraphMemAllocNodeGetParams, cuGraphMemAllocNodeGetParams, 11040, PLAIN, OPTIONAL)
CALLED(cuGraphMemFreeNodeGetParams, cuGraphMemFreeNodeGetParams, 11040, PLAIN, OPTIONAL)
CALLED(cuDeviceGraphMemTrim, cuDeviceGraphMemTrim, 11040, PLAIN, OPTIONAL)

PASSED("of another process, or of this one as a whole while it stands still", "cuCheckpointProcess*")

PASSED("undocumented tables of the driver's for NVIDIA's own libraries, in which memory is not found", "cuGetExportTable")

#undef CALL
#undef CALLED
#undef HOOKED
#undef SERVED
#undef WATCHED
#undef ALIAS
#undef PASSED
#undef SECTION
// clang-format on
