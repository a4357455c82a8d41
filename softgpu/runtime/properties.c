/* properties.c: cudaGetDeviceProperties, from the driver's attributes. */
#include "softgpu/runtime/runtime.h"

#include <stddef.h>
#include <string.h>

/* Members of cudaDeviceProp by driver attribute. What is not here has a call of its own (name, uuid,
 * totalGlobalMem). */
static const struct property {
    unsigned short offset;
    unsigned char is_size; /* size_t, else int */
    CUdevice_attribute attribute;
} properties[] = {
#define INT(member, attribute)  {offsetof(struct cudaDeviceProp, member), 0, CU_DEVICE_ATTRIBUTE_##attribute},
#define SIZE(member, attribute) {offsetof(struct cudaDeviceProp, member), 1, CU_DEVICE_ATTRIBUTE_##attribute},
    /* clang-format off */
    SIZE(sharedMemPerBlock, MAX_SHARED_MEMORY_PER_BLOCK)
    INT(regsPerBlock, MAX_REGISTERS_PER_BLOCK)
    INT(warpSize, WARP_SIZE)
    SIZE(memPitch, MAX_PITCH)
    INT(maxThreadsPerBlock, MAX_THREADS_PER_BLOCK)
    INT(maxThreadsDim[0], MAX_BLOCK_DIM_X)
    INT(maxThreadsDim[1], MAX_BLOCK_DIM_Y)
    INT(maxThreadsDim[2], MAX_BLOCK_DIM_Z)
    INT(maxGridSize[0], MAX_GRID_DIM_X)
    INT(maxGridSize[1], MAX_GRID_DIM_Y)
    INT(maxGridSize[2], MAX_GRID_DIM_Z)
    SIZE(totalConstMem, TOTAL_CONSTANT_MEMORY)
    INT(major, COMPUTE_CAPABILITY_MAJOR)
    INT(minor, COMPUTE_CAPABILITY_MINOR)
    SIZE(textureAlignment, TEXTURE_ALIGNMENT)
    SIZE(texturePitchAlignment, TEXTURE_PITCH_ALIGNMENT)
    INT(multiProcessorCount, MULTIPROCESSOR_COUNT)
    INT(integrated, INTEGRATED)
    INT(canMapHostMemory, CAN_MAP_HOST_MEMORY)
    INT(maxTexture1D, MAXIMUM_TEXTURE1D_WIDTH)
    INT(maxTexture1DMipmap, MAXIMUM_TEXTURE1D_MIPMAPPED_WIDTH)
    INT(maxTexture2D[0], MAXIMUM_TEXTURE2D_WIDTH)
    INT(maxTexture2D[1], MAXIMUM_TEXTURE2D_HEIGHT)
    INT(maxTexture2DMipmap[0], MAXIMUM_TEXTURE2D_MIPMAPPED_WIDTH)
    INT(maxTexture2DMipmap[1], MAXIMUM_TEXTURE2D_MIPMAPPED_HEIGHT)
    INT(maxTexture2DLinear[0], MAXIMUM_TEXTURE2D_LINEAR_WIDTH)
    INT(maxTexture2DLinear[1], MAXIMUM_TEXTURE2D_LINEAR_HEIGHT)
    INT(maxTexture2DLinear[2], MAXIMUM_TEXTURE2D_LINEAR_PITCH)
    INT(maxTexture2DGather[0], MAXIMUM_TEXTURE2D_GATHER_WIDTH)
    INT(maxTexture2DGather[1], MAXIMUM_TEXTURE2D_GATHER_HEIGHT)
    INT(maxTexture3D[0], MAXIMUM_TEXTURE3D_WIDTH)
    INT(maxTexture3D[1], MAXIMUM_TEXTURE3D_HEIGHT)
    INT(maxTexture3D[2], MAXIMUM_TEXTURE3D_DEPTH)
    INT(maxTexture3DAlt[0], MAXIMUM_TEXTURE3D_WIDTH_ALTERNATE)
    INT(maxTexture3DAlt[1], MAXIMUM_TEXTURE3D_HEIGHT_ALTERNATE)
    INT(maxTexture3DAlt[2], MAXIMUM_TEXTURE3D_DEPTH_ALTERNATE)
    INT(maxTextureCubemap, MAXIMUM_TEXTURECUBEMAP_WIDTH)
    INT(maxTexture1DLayered[0], MAXIMUM_TEXTURE1D_LAYERED_WIDTH)
    INT(maxTexture1DLayered[1], MAXIMUM_TEXTURE1D_LAYERED_LAYERS)
    INT(maxTexture2DLayered[0], MAXIMUM_TEXTURE2D_LAYERED_WIDTH)
    INT(maxTexture2DLayered[1], MAXIMUM_TEXTURE2D_LAYERED_HEIGHT)
    INT(maxTexture2DLayered[2], MAXIMUM_TEXTURE2D_LAYERED_LAYERS)
    INT(maxTextureCubemapLayered[0], MAXIMUM_TEXTURECUBEMAP_LAYERED_WIDTH)
    INT(maxTextureCubemapLayered[1], MAXIMUM_TEXTURECUBEMAP_LAYERED_LAYERS)
    INT(maxSurface1D, MAXIMUM_SURFACE1D_WIDTH)
    INT(maxSurface2D[0], MAXIMUM_SURFACE2D_WIDTH)
    INT(maxSurface2D[1], MAXIMUM_SURFACE2D_HEIGHT)
    INT(maxSurface3D[0], MAXIMUM_SURFACE3D_WIDTH)
    INT(maxSurface3D[1], MAXIMUM_SURFACE3D_HEIGHT)
    INT(maxSurface3D[2], MAXIMUM_SURFACE3D_DEPTH)
    INT(maxSurface1DLayered[0], MAXIMUM_SURFACE1D_LAYERED_WIDTH)
    INT(maxSurface1DLayered[1], MAXIMUM_SURFACE1D_LAYERED_LAYERS)
    INT(maxSurface2DLayered[0], MAXIMUM_SURFACE2D_LAYERED_WIDTH)
    INT(maxSurface2DLayered[1], MAXIMUM_SURFACE2D_LAYERED_HEIGHT)
    INT(maxSurface2DLayered[2], MAXIMUM_SURFACE2D_LAYERED_LAYERS)
    INT(maxSurfaceCubemap, MAXIMUM_SURFACECUBEMAP_WIDTH)
    INT(maxSurfaceCubemapLayered[0], MAXIMUM_SURFACECUBEMAP_LAYERED_WIDTH)
    INT(maxSurfaceCubemapLayered[1], MAXIMUM_SURFACECUBEMAP_LAYERED_LAYERS)
    SIZE(surfaceAlignment, SURFACE_ALIGNMENT)
    INT(concurrentKernels, CONCURRENT_KERNELS)
    INT(ECCEnabled, ECC_ENABLED)
    INT(pciBusID, PCI_BUS_ID)
    INT(pciDeviceID, PCI_DEVICE_ID)
    INT(pciDomainID, PCI_DOMAIN_ID)
    INT(tccDriver, TCC_DRIVER)
    INT(asyncEngineCount, ASYNC_ENGINE_COUNT)
    INT(unifiedAddressing, UNIFIED_ADDRESSING)
    INT(memoryBusWidth, GLOBAL_MEMORY_BUS_WIDTH)
    INT(l2CacheSize, L2_CACHE_SIZE)
    INT(persistingL2CacheMaxSize, MAX_PERSISTING_L2_CACHE_SIZE)
    INT(maxThreadsPerMultiProcessor, MAX_THREADS_PER_MULTIPROCESSOR)
    INT(streamPrioritiesSupported, STREAM_PRIORITIES_SUPPORTED)
    INT(globalL1CacheSupported, GLOBAL_L1_CACHE_SUPPORTED)
    INT(localL1CacheSupported, LOCAL_L1_CACHE_SUPPORTED)
    SIZE(sharedMemPerMultiprocessor, MAX_SHARED_MEMORY_PER_MULTIPROCESSOR)
    INT(regsPerMultiprocessor, MAX_REGISTERS_PER_MULTIPROCESSOR)
    INT(managedMemory, MANAGED_MEMORY)
    INT(isMultiGpuBoard, MULTI_GPU_BOARD)
    INT(multiGpuBoardGroupID, MULTI_GPU_BOARD_GROUP_ID)
    INT(hostNativeAtomicSupported, HOST_NATIVE_ATOMIC_SUPPORTED)
    INT(pageableMemoryAccess, PAGEABLE_MEMORY_ACCESS)
    INT(concurrentManagedAccess, CONCURRENT_MANAGED_ACCESS)
    INT(computePreemptionSupported, COMPUTE_PREEMPTION_SUPPORTED)
    INT(canUseHostPointerForRegisteredMem, CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM)
    INT(cooperativeLaunch, COOPERATIVE_LAUNCH)
    SIZE(sharedMemPerBlockOptin, MAX_SHARED_MEMORY_PER_BLOCK_OPTIN)
    INT(pageableMemoryAccessUsesHostPageTables, PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES)
    INT(directManagedMemAccessFromHost, DIRECT_MANAGED_MEM_ACCESS_FROM_HOST)
    INT(maxBlocksPerMultiProcessor, MAX_BLOCKS_PER_MULTIPROCESSOR)
    INT(accessPolicyMaxWindowSize, MAX_ACCESS_POLICY_WINDOW_SIZE)
    SIZE(reservedSharedMemPerBlock, RESERVED_SHARED_MEMORY_PER_BLOCK)
    INT(hostRegisterSupported, HOST_REGISTER_SUPPORTED)
    INT(sparseCudaArraySupported, SPARSE_CUDA_ARRAY_SUPPORTED)
    INT(hostRegisterReadOnlySupported, READ_ONLY_HOST_REGISTER_SUPPORTED)
    INT(timelineSemaphoreInteropSupported, TIMELINE_SEMAPHORE_INTEROP_SUPPORTED)
    INT(memoryPoolsSupported, MEMORY_POOLS_SUPPORTED)
    INT(gpuDirectRDMASupported, GPU_DIRECT_RDMA_SUPPORTED)
    INT(gpuDirectRDMAFlushWritesOptions, GPU_DIRECT_RDMA_FLUSH_WRITES_OPTIONS)
    INT(gpuDirectRDMAWritesOrdering, GPU_DIRECT_RDMA_WRITES_ORDERING)
    INT(memoryPoolSupportedHandleTypes, MEMPOOL_SUPPORTED_HANDLE_TYPES)
    INT(deferredMappingCudaArraySupported, DEFERRED_MAPPING_CUDA_ARRAY_SUPPORTED)
    INT(ipcEventSupported, IPC_EVENT_SUPPORTED)
    INT(clusterLaunch, CLUSTER_LAUNCH)
    INT(unifiedFunctionPointers, UNIFIED_FUNCTION_POINTERS)
    INT(deviceNumaConfig, NUMA_CONFIG)
    INT(deviceNumaId, NUMA_ID)
    INT(mpsEnabled, MPS_ENABLED)
    INT(hostNumaId, HOST_NUMA_ID)
    INT(gpuPciDeviceID, GPU_PCI_DEVICE_ID)
    INT(gpuPciSubsystemID, GPU_PCI_SUBSYSTEM_ID)
    INT(hostNumaMultinodeIpcSupported, HOST_NUMA_MULTINODE_IPC_SUPPORTED)
/* clang-format on */
#undef INT
#undef SIZE
};

/* An attribute that the driver does not know stays 0. */
static void fill_attributes(struct cudaDeviceProp *out, CUdevice device)
{
    for (size_t i = 0; i < sizeof properties / sizeof properties[0]; i++) {
        int value = 0;
        void *member = (char *)out + properties[i].offset;
        if (RT_CALL(&rt_driver[RT_LEGACY], cuDeviceGetAttribute, &value, properties[i].attribute, device) !=
            cudaSuccess)
            continue;
        if (properties[i].is_size)
            *(size_t *)member = (size_t)value;
        else
            *(int *)member = value;
    }
}

static cudaError_t get_properties(struct cudaDeviceProp *out, int device)
{
    const driver_t *d = &rt_driver[RT_LEGACY];
    CUdevice handle;
    cudaError_t error = out ? rt_device(device, &handle) : cudaErrorInvalidValue;
    if (error != cudaSuccess)
        return error;
    memset(out, 0, sizeof *out);
    fill_attributes(out, handle);
    return RT_CALL(d, cuDeviceGetName, out->name, (int)sizeof out->name, handle)
               ?: RT_CALL(d, cuDeviceGetUuid, (CUuuid *)&out->uuid, handle)
               ?: RT_CALL(d, cuDeviceTotalMem, &out->totalGlobalMem, handle);
}

cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *properties_out, int device)
{
    return rt_record(get_properties(properties_out, device));
}

cudaError_t cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr attribute, int device)
{
    CUdevice handle;
    cudaError_t error = value ? rt_device(device, &handle) : cudaErrorInvalidValue;
    return rt_record(error
                         ?: RT_CALL(&rt_driver[RT_LEGACY], cuDeviceGetAttribute, value,
                                    (CUdevice_attribute)attribute, handle));
}

/* The first device of the compute capability asked for, else the first. */
cudaError_t cudaChooseDevice(int *device, const struct cudaDeviceProp *wanted)
{
    int count = 0;
    cudaError_t error = device && wanted ? cudaGetDeviceCount(&count) : rt_record(cudaErrorInvalidValue);
    if (error != cudaSuccess)
        return error;
    *device = 0;
    for (int i = 0; i < count; i++) {
        struct cudaDeviceProp has;
        if (get_properties(&has, i) == cudaSuccess && has.major == wanted->major &&
            has.minor == wanted->minor) {
            *device = i;
            break;
        }
    }
    return cudaSuccess;
}
