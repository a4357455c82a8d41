/* passed.h: the driver's functions that go by ebb, each group with the reason why it may. A name that ends in *
 * stands for all that begin so. test_entry_points.c checks that every function of the driver is either here or in
 * the table of entry points.
 */
// clang-format off
static const struct {
    const char *reason;
    const char *names;
} passed[] = {
    {"takes or tells nothing about device memory",
     "cuInit cuDriverGetVersion cuGetErrorString cuGetErrorName cuDeviceGet cuDeviceGetCount cuDeviceGetName cuDeviceGetUuid "
     "cuDeviceGetLuid cuDeviceGetAttribute cuDeviceGetProperties cuDeviceComputeCapability cuDeviceGetByPCIBusId "
     "cuDeviceGetPCIBusId cuDeviceCanAccessPeer cuDeviceGetP2PAttribute cuDeviceGetP2PAtomicCapabilities "
     "cuDeviceGetHostAtomicCapabilities cuDeviceGetNvSciSyncAttributes cuDeviceGetTexture1DLinearMaxWidth "
     "cuDeviceGetExecAffinitySupport cuDeviceRegisterAsyncNotification cuDeviceUnregisterAsyncNotification "
     "cuFlushGPUDirectRDMAWrites cuCoredump* cuLogs* cuOccupancy* cuUserObject* cuMemGetAllocationGranularity cuMemHostGetFlags"},
    {"contexts, but for their end: what is current is asked of the driver at every call",
     "cuCtxCreate cuCtxAttach cuCtxPushCurrent cuCtxPopCurrent cuCtxSetCurrent cuCtxGet* cuCtxSetFlags cuCtxSetLimit "
     "cuCtxSetCacheConfig cuCtxSetSharedMemConfig cuCtxResetPersistingL2Cache cuCtxRecordEvent cuCtxWaitEvent "
     "cuDevicePrimaryCtxRetain cuDevicePrimaryCtxSetFlags cuDevicePrimaryCtxGetState cuThreadExchangeStreamCaptureMode "
     "cuGreenCtx* cuCtxFromGreenCtx cuStreamGetGreenCtx cuDeviceGetDevResource cuDevResourceGenerateDesc cuDevSmResourceSplitByCount"},
    {"rights once granted stay granted on ebb's mappings",
     "cuCtxDisablePeerAccess"},
    {"code: ebb asks for a function's parameters when it is launched",
     "cuModuleGetFunctionCount cuModuleGetLoadingMode cuModuleGetTexRef cuModuleGetSurfRef cuLink* "
     "cuLibraryGetKernelCount cuLibraryGetModule cuLibraryGetUnifiedFunction "
     "cuKernelGetAttribute cuKernelSetAttribute cuKernelSetCacheConfig cuKernelGetName cuKernelGetParamInfo cuKernelGetLibrary "
     "cuFuncGet* cuFuncSet* cuFuncIsLoaded cuFuncLoad"},
    {"arguments of launches of before CUDA 4, which count as touching everything",
     "cuParamSet*"},
    {"streams and events as such: order, not memory",
     "cuStreamCreate cuStreamCreateWithPriority cuStreamGet* cuStreamSetAttribute cuStreamCopyAttributes cuStreamQuery "
     "cuStreamIsCapturing cuStreamUpdateCaptureDependencies cuEventCreate cuEventQuery "
     "cuEventDestroy cuEventElapsedTime cuImportExternalSemaphore cuDestroyExternalSemaphore cuSignalExternalSemaphoresAsync "
     "cuWaitExternalSemaphoresAsync cuIpcGetEventHandle cuIpcOpenEventHandle"},
    {"host functions may not call CUDA, and reach host memory only",
     "cuStreamAddCallback cuLaunchHostFunc cuGraphAddHostNode cuGraphHostNodeSetParams cuGraphExecHostNodeSetParams"},
    {"for managed memory only, which ebb does not serve; of ebb's the driver refuses them",
     "cuMemAdvise cuMemPrefetchAsync cuMemPrefetchBatchAsync cuMemDiscardBatchAsync cuMemDiscardAndPrefetchBatchAsync "
     "cuMemRangeGetAttribute cuMemRangeGetAttributes cuStreamAttachMemAsync"},
    {"about handles of memory that the program has created itself, or about reserved addresses",
     "cuMemAddressReserve cuMemExportToShareableHandle cuMemGetAllocationPropertiesFromHandle cuMemMapArrayAsync "
     "cuMulticastCreate cuMulticastAddDevice cuMulticastBindMem cuMulticastUnbind cuMulticastGetGranularity"},
    {"which pools there are; the driver knows them, and what may be exported of them is its own",
     "cuDeviceGetMemPool cuDeviceGetDefaultMemPool cuMemGetMemPool cuMemGetDefaultMemPool cuMemPoolGetAccess "
     "cuMemPoolExportToShareableHandle"},
    {"arrays have no address that a kernel could be given",
     "cuArrayGet* cuArray3DGetDescriptor cuMipmappedArrayGet* cuSurfObject* cuSurfRef* cuTexObjectGet* cuTexRefCreate "
     "cuTexRefDestroy cuTexRefGet* cuTexRefSetArray cuTexRefSetMipmappedArray cuTexRefSetFormat cuTexRefSetAddressMode "
     "cuTexRefSetFilterMode cuTexRefSetMipmapFilterMode cuTexRefSetMipmapLevelBias cuTexRefSetMipmapLevelClamp "
     "cuTexRefSetMaxAnisotropy cuTexRefSetBorderColor cuTexRefSetFlags"},
    {"memory of other interfaces, known when it is mapped",
     "cuImportExternalMemory cuDestroyExternalMemory cuExternalMemoryGetMappedMipmappedArray cuGraphicsMapResources "
     "cuGraphicsUnmapResources cuGraphicsUnregisterResource cuGraphicsResourceSetMapFlags "
     "cuGraphicsResourceGetMappedMipmappedArray cuGraphicsSubResourceGetMappedArray"},
    {"graphs: questions, order, and nodes that touch no memory of ebb's",
     "cuGraphCreate cuGraphGet* cuGraphNodeGet* cuGraphNodeFindInClone cuGraphAddDependencies cuGraphRemoveDependencies "
     "cuGraphAddEmptyNode cuGraphAddEvent* cuGraphEvent* cuGraphExecEvent* cuGraphAddExternalSemaphores* "
     "cuGraphExternalSemaphores* cuGraphExecExternalSemaphores* cuGraphDestroyNode cuGraphNodeSetEnabled cuGraphExecGetFlags "
     "cuGraphKernelNodeGetParams cuGraphKernelNodeGetAttribute cuGraphKernelNodeSetAttribute cuGraphKernelNodeCopyAttributes "
     "cuGraphMemcpyNodeGetParams cuGraphMemsetNodeGetParams cuGraphBatchMemOpNodeGetParams cuGraphHostNodeGetParams "
     "cuGraphMemAllocNodeGetParams cuGraphMemFreeNodeGetParams cuGraphAddMemFreeNode cuGraphConditionalHandleCreate "
     "cuGraphDebugDotPrint cuGraphRetainUserObject cuGraphReleaseUserObject cuGraphUpload cuDeviceGetGraphMemAttribute "
     "cuDeviceSetGraphMemAttribute cuDeviceGraphMemTrim"},
    {"of another process, or of this one as a whole while it stands still",
     "cuCheckpointProcess*"},
    {"undocumented tables of the driver's for NVIDIA's own libraries, in which memory is not found",
     "cuGetExportTable"},
};
/* Besides: forms of before CUDA 3.2, whose sizes and addresses have 32 bits. They cannot name memory of ebb's. */
