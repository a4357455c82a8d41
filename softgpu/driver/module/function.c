/* function.c: functions, and kernels, which lead to them: a row of a kernel library's table. */
#include "softgpu/driver/module/module.h"

#include <stdlib.h>

CUcontext sg_function_context(CUfunction f)
{
    return f->module->ctx;
}

CUresult sg_function_load(CUfunction f)
{
    if (atomic_load(&f->loaded))
        return CUDA_SUCCESS;
    SG_TRY(sg_wait_context(f->module->ctx ? f->module->ctx : sg_current_context()));
    atomic_store(&f->loaded, true);
    return CUDA_SUCCESS;
}

static uint32_t device_limit(CUfunction f, CUdevice_attribute what)
{
    int limit = 0;
    cuDeviceGetAttribute(&limit, what, f->module->ctx ? (CUdevice)f->module->ctx->device : 0);
    return (uint32_t)limit;
}

uint32_t sg_function_max_shared(CUfunction f)
{
    const int set = atomic_load(&f->max_dynamic_shared);
    if (set >= 0)
        return (uint32_t)set;
    const uint32_t limit = device_limit(f, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK);
    return f->kernel->static_shared_bytes < limit ? limit - f->kernel->static_shared_bytes : 0;
}

static CUresult check_function(CUfunction f)
{
    SG_TRY(sg_enter_look_up());
    return sg_function_check(f);
}

static CUresult check_kernel(CUkernel kernel, CUfunction *f)
{
    SG_TRY(sg_enter_look_up());
    return sg_kernel_resolve(kernel, f);
}

SG_EXPORT CUresult cuKernelGetFunction(CUfunction *out, CUkernel kernel)
{
    CUfunction f;
    SG_TRY(check_kernel(kernel, &f));
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    *out = f;
    return sg_function_load(f);
}

SG_EXPORT CUresult cuFuncGetModule(CUmodule *out, CUfunction f)
{
    SG_TRY(check_function(f));
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    *out = (CUmodule)f->module;
    return CUDA_SUCCESS;
}

SG_EXPORT CUresult cuFuncGetName(const char **out, CUfunction f)
{
    SG_TRY(check_function(f));
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    *out = f->kernel->name;
    return CUDA_SUCCESS;
}

SG_EXPORT CUresult cuKernelGetName(const char **out, CUkernel kernel)
{
    CUfunction f;
    SG_TRY(check_kernel(kernel, &f));
    return cuFuncGetName(out, f);
}

/* Where the parameters lie in a kernel's constant bank. ptxas aligns their addresses there, so that what is aligned to more than the bank's
 * beginning lies at odd offsets: a tensor map (128) that comes first at 112 on sm_90, at 32 on sm_80, at 0 on sm_100. (Compiled with nvcc
 * 13.0, read from EIATTR_PARAM_CBANK and EIATTR_KPARAM_INFO in .nv.info.*; the test gpu_facts_layout compiles such kernels again.) Below sm_90,
 * parameters of more than 4352 bytes, once the most that ptxas took, lie elsewhere. */
static uint32_t bank_begin(const softgpu_kernel_t *k)
{
    enum { ONCE_THE_MOST = 4352 };
    const softgpu_param_t *last = &k->params[k->param_count - 1];
    if (sg.config.arch >= 90)
        return sg.config.arch >= 100 ? 0x380 : 0x210;
    return last->offset_bytes + last->size_bytes > ONCE_THE_MOST ? 0x1a80 : 0x160;
}

uint32_t sg_param_offset(const softgpu_kernel_t *k, uint32_t index)
{
    const uint32_t begin = bank_begin(k);
    uint32_t at = begin;
    for (uint32_t i = 0;; i++) {
        const softgpu_param_t *p = &k->params[i];
        const uint32_t align = p->align_bytes;
        at = align ? (at + align - 1) / align * align : begin + p->offset_bytes;
        if (i == index)
            return at - begin;
        at += p->size_bytes;
    }
}

SG_EXPORT CUresult cuFuncGetParamInfo(CUfunction f, size_t index, size_t *offset, size_t *size)
{
    SG_TRY(check_function(f));
    if (!offset || index >= f->kernel->param_count)
        return CUDA_ERROR_INVALID_VALUE;
    *offset = sg_param_offset(f->kernel, (uint32_t)index);
    if (size)
        *size = f->kernel->params[index].size_bytes;
    return CUDA_SUCCESS;
}

SG_EXPORT CUresult cuKernelGetParamInfo(CUkernel kernel, size_t index, size_t *offset, size_t *size)
{
    CUfunction f;
    SG_TRY(check_kernel(kernel, &f));
    return cuFuncGetParamInfo(f, index, offset, size);
}

SG_EXPORT CUresult cuFuncGetAttribute(int *out, CUfunction_attribute attribute, CUfunction f)
{
    SG_TRY(check_function(f));
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    switch (attribute) {
    case CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
        *out = f->kernel->max_threads && f->kernel->max_threads < 1024 ? (int)f->kernel->max_threads : 1024;
        break;
    case CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES:
        *out = (int)f->kernel->static_shared_bytes;
        break;
    case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
        *out = (int)sg_function_max_shared(f);
        break;
    case CU_FUNC_ATTRIBUTE_NUM_REGS:
        *out = 32;
        break;
    case CU_FUNC_ATTRIBUTE_PTX_VERSION: /* CUB takes the shapes that the kernel was compiled with by it */
        *out = (int)(f->module->ptx_target ? f->module->ptx_target : sg.config.arch);
        break;
    case CU_FUNC_ATTRIBUTE_BINARY_VERSION:
        *out = (int)sg.config.arch;
        break;
    default:
        if (attribute < 0 || attribute >= CU_FUNC_ATTRIBUTE_MAX)
            return CUDA_ERROR_INVALID_VALUE;
        *out = 0;
    }
    return CUDA_SUCCESS;
}

SG_EXPORT CUresult cuKernelGetAttribute(int *out, CUfunction_attribute attribute, CUkernel kernel,
                                        CUdevice device)
{
    CUfunction f;
    SG_TRY(check_kernel(kernel, &f));
    return sg_device_check(device) ? CUDA_ERROR_INVALID_DEVICE : cuFuncGetAttribute(out, attribute, f);
}

SG_EXPORT CUresult cuFuncSetAttribute(CUfunction f, CUfunction_attribute attribute, int value)
{
    SG_TRY(check_function(f));
    if (attribute == CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES) {
        if (value < 0 || (unsigned)value + f->kernel->static_shared_bytes >
                             device_limit(f, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN))
            return CUDA_ERROR_INVALID_VALUE;
        f->max_dynamic_shared = value;
        return CUDA_SUCCESS;
    }
    return attribute == CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT ? CUDA_SUCCESS
                                                                           : CUDA_ERROR_INVALID_VALUE;
}

SG_EXPORT CUresult cuKernelSetAttribute(CUfunction_attribute attribute, int value, CUkernel kernel,
                                        CUdevice device)
{
    CUfunction f;
    SG_TRY(check_kernel(kernel, &f));
    return sg_device_check(device) ? CUDA_ERROR_INVALID_DEVICE : cuFuncSetAttribute(f, attribute, value);
}

SG_EXPORT CUresult cuFuncSetCacheConfig(CUfunction f, CUfunc_cache config)
{
    (void)config;
    return check_function(f);
}

SG_EXPORT CUresult cuFuncLoad(CUfunction f)
{
    SG_TRY(check_function(f));
    return sg_function_load(f);
}

SG_EXPORT CUresult cuFuncIsLoaded(CUfunctionLoadingState *state, CUfunction f)
{
    SG_TRY(check_function(f));
    if (!state)
        return CUDA_ERROR_INVALID_VALUE;
    *state = atomic_load(&f->loaded) ? CU_FUNCTION_LOADING_STATE_LOADED : CU_FUNCTION_LOADING_STATE_UNLOADED;
    return CUDA_SUCCESS;
}

/* ---- beyond what a launch needs: hints, occupancy of shared memory and clusters, and the linker's answers ---- */

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
