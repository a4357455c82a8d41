/* query.c: questions about a device beyond its attributes. */
#include "softgpu/driver/sg.h"

#include <stdio.h>
#include <string.h>

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
    if (domain || slot || function || bus >= sg.config.devices)
        return CUDA_ERROR_INVALID_DEVICE;
    *device = (CUdevice)bus;
    return CUDA_SUCCESS;
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
