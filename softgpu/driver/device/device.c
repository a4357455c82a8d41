/* device.c: the devices, and what they say of themselves. */
#include "softgpu/driver/scheduler/profile.h"
#include "softgpu/driver/stream/streams.h"

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

SG_EXPORT CUresult cuDeviceGetCount(int *count)
{
    SG_TRY(sg_enter());
    if (!count)
        return CUDA_ERROR_INVALID_VALUE;
    *count = (int)sg.config.devices;
    return CUDA_SUCCESS;
}

SG_EXPORT CUresult cuDeviceGet(CUdevice *device, int ordinal)
{
    SG_TRY(sg_device_check(ordinal));
    if (!device)
        return CUDA_ERROR_INVALID_VALUE;
    *device = ordinal;
    return CUDA_SUCCESS;
}

SG_EXPORT CUresult cuDeviceGetName(char *name, int length, CUdevice device)
{
    SG_TRY(sg_device_check(device));
    if (!name || length <= 0)
        return CUDA_ERROR_INVALID_VALUE;
    if (sg_profile_named)
        snprintf(name, (size_t)length, "softgpu (%s)", sg_profile->product);
    else if (sg.config.deterministic) /* another device to whoever keeps what one has measured */
        snprintf(name, (size_t)length, "softgpu: CUDA device in software (computed clock)");
    else
        snprintf(name, (size_t)length, "softgpu: CUDA device in software (%u CPU threads)",
                 sg.config.workers);
    return CUDA_SUCCESS;
}

SG_EXPORT CUresult cuDeviceGetUuid_v2(CUuuid *uuid, CUdevice device)
{
    SG_TRY(sg_device_check(device));
    if (!uuid)
        return CUDA_ERROR_INVALID_VALUE;
    sg_device_uuid(sg.config.installed[device], (unsigned char *)uuid->bytes);
    return CUDA_SUCCESS;
}

SG_EXPORT CUresult cuDeviceGetUuid(CUuuid *uuid, CUdevice device)
{
    return cuDeviceGetUuid_v2(uuid, device);
}

SG_EXPORT CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice device)
{
    SG_TRY(sg_device_check(device));
    if (!bytes)
        return CUDA_ERROR_INVALID_VALUE;
    *bytes = sg.config.memory_bytes;
    return CUDA_SUCCESS;
}

SG_EXPORT CUresult cuDeviceGetPCIBusId(char *out, int length, CUdevice device)
{
    SG_TRY(sg_device_check(device));
    if (!out || length <= 0)
        return CUDA_ERROR_INVALID_VALUE;
    snprintf(out, (size_t)length, "0000:%02x:00.0", (unsigned)sg.config.installed[device]);
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
    {CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH, 1},
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
    {CU_DEVICE_ATTRIBUTE_STREAM_PRIORITIES_SUPPORTED, 1},
    {CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED, 1},
    {CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM, 1},
    {CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, 1},
    {CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED, 1},
    {CU_DEVICE_ATTRIBUTE_SINGLE_TO_DOUBLE_PRECISION_PERF_RATIO, 2},
    {CU_DEVICE_ATTRIBUTE_SURFACE_ALIGNMENT, 512},
    {CU_DEVICE_ATTRIBUTE_GLOBAL_L1_CACHE_SUPPORTED, 1},
    {CU_DEVICE_ATTRIBUTE_LOCAL_L1_CACHE_SUPPORTED, 1},
    {CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY, 1},
    {CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS, 1},
    {CU_DEVICE_ATTRIBUTE_COMPUTE_PREEMPTION_SUPPORTED, 1},
    {CU_DEVICE_ATTRIBUTE_CAN_FLUSH_REMOTE_WRITES, 1},
    {CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS, 1},
    {CU_DEVICE_ATTRIBUTE_CAN_USE_STREAM_WAIT_VALUE_NOR, 1},
    {CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED, 1},
    {CU_DEVICE_ATTRIBUTE_MEMPOOL_SUPPORTED_HANDLE_TYPES, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR},
    {CU_DEVICE_ATTRIBUTE_MAX_PERSISTING_L2_CACHE_SIZE, 20 << 20},
    {CU_DEVICE_ATTRIBUTE_MAX_ACCESS_POLICY_WINDOW_SIZE, 128 << 20},
    {CU_DEVICE_ATTRIBUTE_READ_ONLY_HOST_REGISTER_SUPPORTED, 1},
    {CU_DEVICE_ATTRIBUTE_IPC_EVENT_SUPPORTED, 1},
    {CU_DEVICE_ATTRIBUTE_MEM_SYNC_DOMAIN_COUNT, 1},
    {CU_DEVICE_ATTRIBUTE_UNIFIED_FUNCTION_POINTERS, 0},
    {CU_DEVICE_ATTRIBUTE_NUMA_CONFIG, CU_DEVICE_NUMA_CONFIG_NONE},
    {CU_DEVICE_ATTRIBUTE_NUMA_ID, -1},
    {CU_DEVICE_ATTRIBUTE_HOST_NUMA_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, 1},
    {CU_DEVICE_ATTRIBUTE_HOST_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, 1},
    {CU_DEVICE_ATTRIBUTE_HOST_NUMA_MEMORY_POOLS_SUPPORTED, 1},
    {CU_DEVICE_ATTRIBUTE_HOST_MEMORY_POOLS_SUPPORTED, 1},
    {CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WRITES_ORDERING, CU_GPU_DIRECT_RDMA_WRITES_ORDERING_ALL_DEVICES},
};

/* Those in which GPUs differ and by which programs choose. */
static void profile_attribute(int *value, CUdevice_attribute attribute)
{
    if (attribute == CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)
        *value = (int)sg_profile->multiprocessors;
    else if (attribute == CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE)
        *value = (int)sg_profile->l2_mib << 20;
}

static void arch_attribute(int *value, CUdevice_attribute attribute)
{
    if (attribute == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)
        *value = (int)sg.config.arch / 10;
    else if (attribute == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)
        *value = (int)sg.config.arch % 10;
    else if (attribute == CU_DEVICE_ATTRIBUTE_TENSOR_MAP_ACCESS_SUPPORTED)
        *value = sg.config.arch >= 90;
}

SG_EXPORT CUresult cuDeviceGetAttribute(int *value, CUdevice_attribute attribute, CUdevice device)
{
    SG_TRY(sg_device_check(device));
    if (!value || attribute <= 0 || attribute >= CU_DEVICE_ATTRIBUTE_MAX)
        return CUDA_ERROR_INVALID_VALUE;
    *value = 0;
    if (attribute == CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)
        *value = (int)sg.config.workers;
    if (attribute == CU_DEVICE_ATTRIBUTE_PCI_BUS_ID)
        *value = sg.config.installed[device];
    for (size_t i = 0; i < sizeof attributes / sizeof attributes[0]; i++)
        if (attributes[i].attribute == attribute)
            *value = attributes[i].value;
    arch_attribute(value, attribute);
    if (sg_profile_named)
        profile_attribute(value, attribute);
    if ((attribute == CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED && !sg.limits.vmm) ||
        ((attribute == CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED ||
          attribute == CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM) &&
         !sg.limits.one_registration))
        *value = 0;
    return CUDA_SUCCESS;
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

/* ---- beyond attributes ---- */

SG_EXPORT CUresult cuDeviceGetByPCIBusId(CUdevice *device, const char *bus_id)
{
    SG_TRY(sg_enter());
    if (!device || !bus_id)
        return CUDA_ERROR_INVALID_VALUE;
    unsigned domain = 0, bus = 0, slot = 0, function = 0;
    if (sscanf(bus_id, "%x:%x:%x.%x", &domain, &bus, &slot, &function) < 3) {
        domain = 0;
        if (sscanf(bus_id, "%x:%x.%x", &bus, &slot, &function) != 3)
            return CUDA_ERROR_INVALID_VALUE;
    }
    for (unsigned i = 0; !domain && !slot && !function && i < sg.config.devices; i++)
        if (sg.config.installed[i] == bus) {
            *device = (CUdevice)i;
            return CUDA_SUCCESS;
        }
    return CUDA_ERROR_INVALID_DEVICE;
}

SG_EXPORT CUresult cuDeviceComputeCapability(int *major, int *minor, CUdevice device)
{
    if (!major || !minor)
        return CUDA_ERROR_INVALID_VALUE;
    SG_TRY(cuDeviceGetAttribute(major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device));
    return cuDeviceGetAttribute(minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, device);
}

SG_EXPORT CUresult cuDeviceGetProperties(CUdevprop *out, CUdevice device)
{
    SG_TRY(sg_device_check(device));
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    const struct {
        int *value;
        CUdevice_attribute attribute;
    } rows[] = {
        {&out->maxThreadsPerBlock, CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK},
        {&out->maxThreadsDim[0], CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X},
        {&out->maxThreadsDim[1], CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y},
        {&out->maxThreadsDim[2], CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z},
        {&out->maxGridSize[0], CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X},
        {&out->maxGridSize[1], CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y},
        {&out->maxGridSize[2], CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z},
        {&out->sharedMemPerBlock, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK},
        {&out->totalConstantMemory, CU_DEVICE_ATTRIBUTE_TOTAL_CONSTANT_MEMORY},
        {&out->SIMDWidth, CU_DEVICE_ATTRIBUTE_WARP_SIZE},
        {&out->memPitch, CU_DEVICE_ATTRIBUTE_MAX_PITCH},
        {&out->regsPerBlock, CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK},
        {&out->clockRate, CU_DEVICE_ATTRIBUTE_CLOCK_RATE},
        {&out->textureAlign, CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        SG_TRY(cuDeviceGetAttribute(rows[i].value, rows[i].attribute, device));
    return CUDA_SUCCESS;
}

/* A share of a device's multiprocessors exists under MPS only. */
SG_EXPORT CUresult cuDeviceGetExecAffinitySupport(int *out, CUexecAffinityType type, CUdevice device)
{
    SG_TRY(sg_device_check(device));
    if (!out || (unsigned)type >= CU_EXEC_AFFINITY_TYPE_MAX)
        return CUDA_ERROR_INVALID_VALUE;
    *out = 0;
    return CUDA_SUCCESS;
}

/* The host's and a peer's atomics are the CPU's, all of them native. */
static CUresult atomics(unsigned *out, const CUatomicOperation *operations, unsigned count,
                        unsigned capabilities)
{
    if (!out || !operations || !count)
        return CUDA_ERROR_INVALID_VALUE;
    for (unsigned i = 0; i < count; i++) {
        if ((unsigned)operations[i] >= CU_ATOMIC_OPERATION_MAX)
            return CUDA_ERROR_INVALID_VALUE;
        out[i] = capabilities;
    }
    return CUDA_SUCCESS;
}

SG_EXPORT CUresult cuDeviceGetHostAtomicCapabilities(unsigned *out, const CUatomicOperation *operations,
                                                     unsigned count, CUdevice device)
{
    SG_TRY(sg_device_check(device));
    return atomics(out, operations, count, 0); /* CU_DEVICE_ATTRIBUTE_HOST_NATIVE_ATOMIC_SUPPORTED is 0 */
}

SG_EXPORT CUresult cuDeviceGetP2PAtomicCapabilities(unsigned *out, const CUatomicOperation *operations,
                                                    unsigned count, CUdevice from, CUdevice to)
{
    SG_TRY(sg_device_check(from));
    SG_TRY(sg_device_check(to));
    if (from == to)
        return CUDA_ERROR_INVALID_DEVICE;
    return atomics(out, operations, count, CU_ATOMIC_CAPABILITY_SCALAR_32 | CU_ATOMIC_CAPABILITY_SCALAR_64);
}

/* Writes of other devices are visible at once. */
SG_EXPORT CUresult cuFlushGPUDirectRDMAWrites(CUflushGPUDirectRDMAWritesTarget target,
                                              CUflushGPUDirectRDMAWritesScope scope)
{
    SG_TRY(sg_enter_context());
    if (target != CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TARGET_CURRENT_CTX ||
        (scope != CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TO_OWNER &&
         scope != CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TO_ALL_DEVICES))
        return CUDA_ERROR_INVALID_VALUE;
    return CUDA_SUCCESS;
}
