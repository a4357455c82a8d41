/* function_more.c: functions and kernels beyond what a launch needs: hints, occupancy of shared memory and
 * clusters, and the linker's answers. */
#include "softgpu/driver/sg.h"

#include <stdlib.h>

/* Addresses of functions that host and device share are of compute capability 9 and of systems that this is not. */
SG_EXPORT CUresult cuLibraryGetUnifiedFunction(void **out, CUlibrary library, const char *symbol)
{
    unsigned count;
    if (!out || !symbol)
        return CUDA_ERROR_INVALID_VALUE;
    SG_TRY(cuLibraryGetKernelCount(&count, library));
    return CUDA_ERROR_NOT_FOUND;
}

/* Kernel libraries list no managed variables. */
SG_EXPORT CUresult cuLibraryGetManaged(CUdeviceptr *out, size_t *bytes, CUlibrary library, const char *name)
{
    unsigned count;
    if (!name || (!out && !bytes))
        return CUDA_ERROR_INVALID_VALUE;
    SG_TRY(cuLibraryGetKernelCount(&count, library));
    return CUDA_ERROR_NOT_FOUND;
}

/* ---- hints ---- */

SG_EXPORT CUresult cuKernelSetCacheConfig(CUkernel kernel, CUfunc_cache config, CUdevice device)
{
    SG_TRY(sg_enter_context());
    SG_TRY(sg_device_check(device));
    CUfunction f;
    SG_TRY(sg_kernel_resolve(kernel, &f));
    return cuFuncSetCacheConfig(f, config);
}

SG_EXPORT CUresult cuFuncSetSharedMemConfig(CUfunction f, CUsharedconfig config)
{
    SG_TRY(sg_enter_context());
    SG_TRY(sg_function_check(f));
    return config > CU_SHARED_MEM_CONFIG_EIGHT_BYTE_BANK_SIZE ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

/* ---- occupancy ---- */

SG_EXPORT CUresult cuOccupancyAvailableDynamicSMemPerBlock(size_t *bytes, CUfunction f, int blocks,
                                                           int block_size)
{
    int per_multiprocessor, reserved, optin, fixed, fit;
    SG_TRY(sg_enter_context());
    if (!bytes || blocks <= 0 || block_size <= 0)
        return CUDA_ERROR_INVALID_VALUE;
    SG_TRY(sg_function_resolve(&f));
    SG_TRY(cuOccupancyMaxActiveBlocksPerMultiprocessor(&fit, f, block_size, 0));
    if (blocks > fit)
        return CUDA_ERROR_INVALID_VALUE;
    CUdevice d = (CUdevice)sg_current_context()->device;
    SG_TRY(cuDeviceGetAttribute(&per_multiprocessor, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR,
                                d));
    SG_TRY(cuDeviceGetAttribute(&reserved, CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK, d));
    SG_TRY(cuDeviceGetAttribute(&optin, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, d));
    SG_TRY(cuFuncGetAttribute(&fixed, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, f));
    int share = per_multiprocessor / blocks - reserved;
    share = share > optin ? optin : share;
    *bytes = share > fixed ? (size_t)(share - fixed) : 0;
    return CUDA_SUCCESS;
}

/* A device without clusters launches clusters of one block. */
SG_EXPORT CUresult cuOccupancyMaxPotentialClusterSize(int *size, CUfunction f, const CUlaunchConfig *config)
{
    SG_TRY(sg_enter_context());
    if (!size || !config)
        return CUDA_ERROR_INVALID_VALUE;
    SG_TRY(sg_function_resolve(&f));
    *size = 1;
    return CUDA_SUCCESS;
}

SG_EXPORT CUresult cuOccupancyMaxActiveClusters(int *clusters, CUfunction f, const CUlaunchConfig *config)
{
    SG_TRY(sg_enter_context());
    if (!clusters || !config)
        return CUDA_ERROR_INVALID_VALUE;
    int blocks, multiprocessors;
    unsigned long threads = (unsigned long)config->blockDimX * config->blockDimY * config->blockDimZ;
    if (!threads || threads > 1024)
        return CUDA_ERROR_INVALID_VALUE;
    for (unsigned i = 0; i < config->numAttrs; i++) {
        const CUlaunchAttribute *a = &config->attrs[i];
        if (a->id == CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION &&
            a->value.clusterDim.x * a->value.clusterDim.y * a->value.clusterDim.z != 1)
            return CUDA_ERROR_INVALID_CLUSTER_SIZE;
    }
    SG_TRY(cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, f, (int)threads, config->sharedMemBytes));
    SG_TRY(cuDeviceGetAttribute(&multiprocessors, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT,
                                (CUdevice)sg_current_context()->device));
    *clusters = blocks * multiprocessors;
    return CUDA_SUCCESS;
}

/* ---- the linker: nothing is compiled here ---- */

SG_EXPORT CUresult cuLinkCreate_v2(unsigned count, CUjit_option *options, void **values, CUlinkState *out)
{
    (void)options, (void)values;
    SG_TRY(sg_enter_context());
    if (!out || (count && (!options || !values)))
        return CUDA_ERROR_INVALID_VALUE;
    sg_log(1, "cuLinkCreate: kernels are compiled with their program (softgpu/README.md), not at run time");
    return CUDA_ERROR_JIT_COMPILER_NOT_FOUND;
}

SG_EXPORT CUresult cuLinkComplete(CUlinkState state, void **image, size_t *bytes)
{
    (void)state, (void)image, (void)bytes;
    SG_TRY(sg_enter_context());
    return CUDA_ERROR_INVALID_HANDLE;
}

SG_EXPORT CUresult cuLinkDestroy(CUlinkState state)
{
    (void)state;
    SG_TRY(sg_enter_context());
    return CUDA_ERROR_INVALID_HANDLE;
}
