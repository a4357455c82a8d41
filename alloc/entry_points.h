/* entry_points.h: every driver entry point that ebb answers for, and only these.
 *
 *   PLAIN(name, symbol, version)  no default stream
 *   SYNC(...), ASYNC(...)         also as symbol_ptds, symbol_ptsz, for the per-thread default stream
 *
 * `version`: the form that appeared with it (NVIDIA's cudaTypedefs.h). One row per line.
 */
// clang-format off
PLAIN(cuGetProcAddress, cuGetProcAddress, 11030)
PLAIN(cuGetProcAddress, cuGetProcAddress_v2, 12000)
PLAIN(cuDeviceTotalMem, cuDeviceTotalMem_v2, 3020)
PLAIN(cuCtxSynchronize, cuCtxSynchronize, 2000)
PLAIN(cuMemGetInfo, cuMemGetInfo_v2, 3020)
PLAIN(cuMemAlloc, cuMemAlloc_v2, 3020)
PLAIN(cuMemFree, cuMemFree_v2, 3020)
PLAIN(cuMemGetAddressRange, cuMemGetAddressRange_v2, 3020)
ASYNC(cuMemAllocAsync, cuMemAllocAsync, 11020)
ASYNC(cuMemAllocFromPoolAsync, cuMemAllocFromPoolAsync, 11020)
ASYNC(cuMemFreeAsync, cuMemFreeAsync, 11020)
PLAIN(cuMemPoolGetAttribute, cuMemPoolGetAttribute, 11020)
PLAIN(cuMemPoolTrimTo, cuMemPoolTrimTo, 11020)
PLAIN(cuPointerGetAttribute, cuPointerGetAttribute, 4000)
PLAIN(cuPointerGetAttributes, cuPointerGetAttributes, 7000)
SYNC(cuMemcpy, cuMemcpy, 4000)
SYNC(cuMemcpyHtoD, cuMemcpyHtoD_v2, 3020)
SYNC(cuMemcpyDtoH, cuMemcpyDtoH_v2, 3020)
SYNC(cuMemcpyDtoD, cuMemcpyDtoD_v2, 3020)
ASYNC(cuMemcpyAsync, cuMemcpyAsync, 4000)
ASYNC(cuMemcpyHtoDAsync, cuMemcpyHtoDAsync_v2, 3020)
ASYNC(cuMemcpyDtoHAsync, cuMemcpyDtoHAsync_v2, 3020)
ASYNC(cuMemcpyDtoDAsync, cuMemcpyDtoDAsync_v2, 3020)
SYNC(cuMemsetD8, cuMemsetD8_v2, 3020)
SYNC(cuMemsetD16, cuMemsetD16_v2, 3020)
SYNC(cuMemsetD32, cuMemsetD32_v2, 3020)
ASYNC(cuMemsetD8Async, cuMemsetD8Async, 3020)
ASYNC(cuMemsetD16Async, cuMemsetD16Async, 3020)
ASYNC(cuMemsetD32Async, cuMemsetD32Async, 3020)
PLAIN(cuModuleUnload, cuModuleUnload, 2000)
PLAIN(cuLibraryUnload, cuLibraryUnload, 12000)
PLAIN(cuEventSynchronize, cuEventSynchronize, 2000)
PLAIN(cuStreamDestroy, cuStreamDestroy_v2, 4000)
ASYNC(cuStreamSynchronize, cuStreamSynchronize, 2000)
ASYNC(cuLaunchKernel, cuLaunchKernel, 4000)
ASYNC(cuLaunchKernelEx, cuLaunchKernelEx, 11060)
// clang-format on
