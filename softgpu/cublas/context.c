/* context.c: handles and what can be set on them; the parts of the interface that need no kernel. */
#include "softgpu/cublas/internal.h"

#include <stdlib.h>

static void release_handle(cublasHandle_t handle)
{
    if (handle->result)
        blas_driver.cuMemFree(handle->result);
    blas_context_fini(&handle->base);
    free(handle);
}

cublasStatus_t cublasCreate_v2(cublasHandle_t *out)
{
    if (!out)
        return CUBLAS_STATUS_INVALID_VALUE;
    *out = NULL;
    cublasHandle_t handle = calloc(1, sizeof *handle);
    if (!handle)
        return CUBLAS_STATUS_ALLOC_FAILED;
    cublasStatus_t status = blas_context_init(&handle->base, BLAS_MAGIC);
    if (status == CUBLAS_STATUS_SUCCESS)
        *out = handle;
    else
        release_handle(handle);
    return status;
}

cublasStatus_t cublasDestroy_v2(cublasHandle_t handle)
{
    if (!blas_is_handle(handle))
        return CUBLAS_STATUS_NOT_INITIALIZED;
    release_handle(handle);
    return CUBLAS_STATUS_SUCCESS;
}

/* Defines cublasSet<name> and cublasGet<name> for a member of the handle. */
#define PROPERTY(setter, getter, type, member)                                                               \
    cublasStatus_t setter(cublasHandle_t handle, type value)                                                 \
    {                                                                                                        \
        if (!blas_is_handle(handle))                                                                         \
            return CUBLAS_STATUS_NOT_INITIALIZED;                                                            \
        handle->member = value;                                                                              \
        return CUBLAS_STATUS_SUCCESS;                                                                        \
    }                                                                                                        \
    cublasStatus_t getter(cublasHandle_t handle, type *value)                                                \
    {                                                                                                        \
        if (!blas_is_handle(handle))                                                                         \
            return CUBLAS_STATUS_NOT_INITIALIZED;                                                            \
        if (!value)                                                                                          \
            return CUBLAS_STATUS_INVALID_VALUE;                                                              \
        *value = handle->member;                                                                             \
        return CUBLAS_STATUS_SUCCESS;                                                                        \
    }

PROPERTY(cublasSetStream_v2, cublasGetStream_v2, cudaStream_t, stream)
PROPERTY(cublasSetPointerMode_v2, cublasGetPointerMode_v2, cublasPointerMode_t, pointer_mode)
PROPERTY(cublasSetAtomicsMode, cublasGetAtomicsMode, cublasAtomicsMode_t, atomics_mode)
PROPERTY(cublasSetMathMode, cublasGetMathMode, cublasMath_t, math_mode) /* changes costs, never numbers */
PROPERTY(cublasSetSmCountTarget, cublasGetSmCountTarget, int, sm_count_target)

/* Taken and never used: no routine here needs a workspace. */
cublasStatus_t cublasSetWorkspace_v2(cublasHandle_t handle, void *workspace, size_t bytes)
{
    if (!blas_is_handle(handle))
        return CUBLAS_STATUS_NOT_INITIALIZED;
    return (uintptr_t)workspace % 256 || (!workspace && bytes) ? CUBLAS_STATUS_INVALID_VALUE
                                                               : CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasGetVersion_v2(cublasHandle_t handle, int *version)
{
    if (!blas_is_handle(handle))
        return CUBLAS_STATUS_NOT_INITIALIZED;
    if (!version)
        return CUBLAS_STATUS_INVALID_VALUE;
    *version = CUBLAS_VERSION;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasGetProperty(libraryPropertyType type, int *value)
{
    return blas_property(type, value);
}

size_t cublasGetCudartVersion(void)
{
    return CUDA_VERSION;
}

const char *cublasGetStatusName(cublasStatus_t status)
{
    return blas_status_name(status);
}

const char *cublasGetStatusString(cublasStatus_t status)
{
    return blas_status_text(status);
}

/* The log: there is nothing that this library would write into one, but a callback that is set can be had back. */

static _Atomic(cublasLogCallback) log_callback;

cublasStatus_t cublasLoggerConfigure(int is_on, int to_stdout, int to_stderr, const char *file)
{
    (void)is_on, (void)to_stdout, (void)to_stderr, (void)file;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasSetLoggerCallback(cublasLogCallback callback)
{
    log_callback = callback;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasGetLoggerCallback(cublasLogCallback *callback)
{
    if (!callback)
        return CUBLAS_STATUS_INVALID_VALUE;
    *callback = log_callback;
    return CUBLAS_STATUS_SUCCESS;
}

/* What a function of NVIDIA's library does that no file here defines (the generated stubs call it). */
int blas_stub(const char *name, _Atomic int *said);
int blas_stub(const char *name, _Atomic int *said)
{
    return blas_not_provided(name, said);
}
