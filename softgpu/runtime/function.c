/* function.c: what a program can ask about its kernels and set on them, occupancy, libraries of kernels. */
#include "softgpu/runtime/registry.h"

#include <stddef.h>

/* cudaFuncAttributes' members, by driver attribute. */
static const struct function_attribute {
    size_t offset;
    unsigned char is_size; /* size_t, else int */
    CUfunction_attribute attribute;
} function_attributes[] = {
#define INT(member, attribute)  {offsetof(struct cudaFuncAttributes, member), 0, attribute},
#define SIZE(member, attribute) {offsetof(struct cudaFuncAttributes, member), 1, attribute},
    /* clang-format off */
    SIZE(sharedSizeBytes, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES)
    SIZE(constSizeBytes, CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES)
    SIZE(localSizeBytes, CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES)
    INT(maxThreadsPerBlock, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK)
    INT(numRegs, CU_FUNC_ATTRIBUTE_NUM_REGS)
    INT(ptxVersion, CU_FUNC_ATTRIBUTE_PTX_VERSION)
    INT(binaryVersion, CU_FUNC_ATTRIBUTE_BINARY_VERSION)
    INT(cacheModeCA, CU_FUNC_ATTRIBUTE_CACHE_MODE_CA)
    INT(maxDynamicSharedSizeBytes, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES)
    INT(preferredShmemCarveout, CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT)
    INT(clusterDimMustBeSet, CU_FUNC_ATTRIBUTE_CLUSTER_SIZE_MUST_BE_SET)
    INT(requiredClusterWidth, CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH)
    INT(requiredClusterHeight, CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_HEIGHT)
    INT(requiredClusterDepth, CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_DEPTH)
    INT(clusterSchedulingPolicyPreference, CU_FUNC_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE)
    INT(nonPortableClusterSizeAllowed, CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED)
/* clang-format on */
#undef INT
#undef SIZE
};

/* An attribute that the driver does not know stays 0; any other failure is the function's. */
static cudaError_t get_attributes(struct cudaFuncAttributes *out, const void *symbol)
{
    CUfunction function;
    cudaError_t error = out ? rt_function(symbol, &function) : cudaErrorInvalidValue;
    if (error != cudaSuccess)
        return error;
    *out = (struct cudaFuncAttributes){0};
    for (size_t i = 0; i < sizeof function_attributes / sizeof function_attributes[0]; i++) {
        const struct function_attribute *a = &function_attributes[i];
        int value = 0;
        error = RT_CALL(&rt_driver[RT_LEGACY], cuFuncGetAttribute, &value, a->attribute, function);
        if (error == cudaErrorInvalidValue || error == cudaErrorNotSupported)
            continue;
        if (error != cudaSuccess)
            return error;
        void *member = (char *)out + a->offset;
        if (a->is_size)
            *(size_t *)member = (size_t)value;
        else
            *(int *)member = value;
    }
    return cudaSuccess;
}

cudaError_t cudaFuncGetAttributes(struct cudaFuncAttributes *attributes, const void *symbol)
{
    return rt_record(get_attributes(attributes, symbol));
}

/* Defines a public function on a kernel, whose expression sees it as `function`. */
#define FUNCTION_API(name, parameters, expression)                                                           \
    cudaError_t name parameters                                                                              \
    {                                                                                                        \
        const driver_t *d = &rt_driver[RT_LEGACY];                                                           \
        CUfunction function;                                                                                 \
        return rt_record(rt_function(symbol, &function) ?: (expression));                                    \
    }
/* The same with a `kernel`. */
#define KERNEL_API(name, parameters, expression)                                                             \
    cudaError_t name parameters                                                                              \
    {                                                                                                        \
        const driver_t *d = &rt_driver[RT_LEGACY];                                                           \
        CUkernel kernel;                                                                                     \
        return rt_record(rt_enter() ?: registry_kernel(symbol, &kernel) ?: (expression));                    \
    }

/* clang-format off */
FUNCTION_API(cudaFuncSetAttribute, (const void *symbol, enum cudaFuncAttribute attribute, int value),
             RT_CALL(d, cuFuncSetAttribute, function, (CUfunction_attribute)attribute, value))
FUNCTION_API(cudaFuncSetCacheConfig, (const void *symbol, enum cudaFuncCache config),
             RT_CALL(d, cuFuncSetCacheConfig, function, (CUfunc_cache)config))
KERNEL_API(cudaFuncGetName, (const char **name, const void *symbol),
           RT_CALL(d, cuKernelGetName, name, kernel))
KERNEL_API(cudaFuncGetParamInfo, (const void *symbol, size_t index, size_t *offset, size_t *size),
           RT_CALL(d, cuKernelGetParamInfo, kernel, index, offset, size))

FUNCTION_API(cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags,
             (int *blocks, const void *symbol, int block_size, size_t shared, unsigned int flags),
             RT_CALL(d, cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags, blocks, function, block_size,
                     shared, flags))
FUNCTION_API(cudaOccupancyMaxActiveBlocksPerMultiprocessor,
             (int *blocks, const void *symbol, int block_size, size_t shared),
             RT_CALL(d, cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags, blocks, function, block_size,
                     shared, 0))
FUNCTION_API(cudaOccupancyAvailableDynamicSMemPerBlock,
             (size_t *shared, const void *symbol, int blocks, int block_size),
             RT_CALL(d, cuOccupancyAvailableDynamicSMemPerBlock, shared, function, blocks, block_size))
/* clang-format on */

cudaError_t cudaGetFuncBySymbol(cudaFunction_t *function, const void *symbol)
{
    return rt_record(function ? rt_function(symbol, function) : cudaErrorInvalidValue);
}

cudaError_t cudaGetKernel(cudaKernel_t *kernel, const void *symbol)
{
    return rt_record(kernel ? rt_enter() ?: registry_kernel(symbol, kernel) : cudaErrorInvalidValue);
}

/* Shared memory banks have had one width since Volta. */
cudaError_t cudaFuncSetSharedMemConfig(const void *symbol, enum cudaSharedMemConfig config)
{
    CUfunction function;
    (void)config;
    return rt_record(rt_function(symbol, &function));
}

typedef CUresult (*cluster_occupancy_fn)(int *, CUfunction, const CUlaunchConfig *);

static cudaError_t cluster_occupancy(cluster_occupancy_fn ask, const char *name, int *result,
                                     const void *symbol, const cudaLaunchConfig_t *config)
{
    static _Atomic int said;
    CUfunction function;
    cudaError_t error = config ? rt_function(symbol, &function) : cudaErrorInvalidValue;
    if (error != cudaSuccess)
        return error;
    const CUlaunchConfig driver_config = {
        .gridDimX = config->gridDim.x,
        .gridDimY = config->gridDim.y,
        .gridDimZ = config->gridDim.z,
        .blockDimX = config->blockDim.x,
        .blockDimY = config->blockDim.y,
        .blockDimZ = config->blockDim.z,
        .sharedMemBytes = (unsigned)config->dynamicSmemBytes,
        .hStream = config->stream,
        .attrs = (CUlaunchAttribute *)config->attrs,
        .numAttrs = config->numAttrs,
    };
    return ask ? rt_translate(ask(result, function, &driver_config)) : rt_missing(name, &said);
}

cudaError_t cudaOccupancyMaxPotentialClusterSize(int *size, const void *symbol,
                                                 const cudaLaunchConfig_t *config)
{
    cudaError_t error = rt_enter();
    return rt_record(error
                         ?: cluster_occupancy(rt_driver[RT_LEGACY].cuOccupancyMaxPotentialClusterSize,
                                              "cuOccupancyMaxPotentialClusterSize", size, symbol, config));
}

cudaError_t cudaOccupancyMaxActiveClusters(int *count, const void *symbol, const cudaLaunchConfig_t *config)
{
    cudaError_t error = rt_enter();
    return rt_record(error
                         ?: cluster_occupancy(rt_driver[RT_LEGACY].cuOccupancyMaxActiveClusters,
                                              "cuOccupancyMaxActiveClusters", count, symbol, config));
}

/* libraries of kernels */

cudaError_t cudaLibraryLoadData(cudaLibrary_t *library, const void *code, enum cudaJitOption *jit_options,
                                void **jit_values, unsigned int jit_count, enum cudaLibraryOption *options,
                                void **values, unsigned int count)
{
    return RT_PASS(cuLibraryLoadData, library, code, (CUjit_option *)jit_options, jit_values, jit_count,
                   (CUlibraryOption *)options, values, count);
}

cudaError_t cudaLibraryLoadFromFile(cudaLibrary_t *library, const char *file, enum cudaJitOption *jit_options,
                                    void **jit_values, unsigned int jit_count,
                                    enum cudaLibraryOption *options, void **values, unsigned int count)
{
    return RT_PASS(cuLibraryLoadFromFile, library, file, (CUjit_option *)jit_options, jit_values, jit_count,
                   (CUlibraryOption *)options, values, count);
}

cudaError_t cudaLibraryUnload(cudaLibrary_t library)
{
    registry_remove_library(library);
    return RT_PASS(cuLibraryUnload, library);
}

cudaError_t cudaLibraryGetKernel(cudaKernel_t *kernel, cudaLibrary_t library, const char *name)
{
    cudaError_t error = RT_PASS(cuLibraryGetKernel, kernel, library, name);
    if (error == cudaSuccess)
        registry_add_handle(*kernel, library);
    return error;
}

cudaError_t cudaLibraryEnumerateKernels(cudaKernel_t *kernels, unsigned int count, cudaLibrary_t library)
{
    unsigned available = 0;
    cudaError_t error = RT_PASS(cuLibraryGetKernelCount, &available, library);
    if (error == cudaSuccess)
        error = RT_PASS(cuLibraryEnumerateKernels, kernels, count, library);
    for (unsigned i = 0; error == cudaSuccess && i < count && i < available; i++)
        registry_add_handle(kernels[i], library);
    return error;
}

cudaError_t cudaLibraryGetKernelCount(unsigned int *count, cudaLibrary_t library)
{
    return RT_PASS(cuLibraryGetKernelCount, count, library);
}

cudaError_t cudaLibraryGetGlobal(void **address, size_t *bytes, cudaLibrary_t library, const char *name)
{
    return RT_PASS(cuLibraryGetGlobal, (CUdeviceptr *)address, bytes, library, name);
}

cudaError_t cudaLibraryGetManaged(void **address, size_t *bytes, cudaLibrary_t library, const char *name)
{
    return RT_PASS(cuLibraryGetManaged, (CUdeviceptr *)address, bytes, library, name);
}

cudaError_t cudaLibraryGetUnifiedFunction(void **function, cudaLibrary_t library, const char *name)
{
    return RT_PASS(cuLibraryGetUnifiedFunction, function, library, name);
}

cudaError_t cudaKernelSetAttributeForDevice(cudaKernel_t kernel, enum cudaFuncAttribute attribute, int value,
                                            int device)
{
    CUdevice handle;
    return rt_record(rt_device(device, &handle)
                         ?: RT_CALL(&rt_driver[RT_LEGACY], cuKernelSetAttribute,
                                    (CUfunction_attribute)attribute, value, kernel, handle));
}
