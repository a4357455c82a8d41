/* handle.c: handles, versions, texts, and the settings that change nothing here. */
#include "softgpu/cublaslt/lt.h"

#include <stdatomic.h>
#include <stdlib.h>

cublasStatus_t cublasLtCreate(cublasLtHandle_t *out)
{
    if (!out)
        return CUBLAS_STATUS_INVALID_VALUE;
    *out = NULL;
    cublasLtHandle_t handle = calloc(1, sizeof *handle);
    if (!handle)
        return CUBLAS_STATUS_ALLOC_FAILED;
    cublasStatus_t status = blas_context_init(&handle->base, BLAS_LT_MAGIC);
    if (status == CUBLAS_STATUS_SUCCESS) {
        *out = handle;
        return status;
    }
    blas_context_fini(&handle->base);
    free(handle);
    return status;
}

cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle)
{
    if (!lt_context(handle) || handle->base.magic != BLAS_LT_MAGIC)
        return CUBLAS_STATUS_NOT_INITIALIZED;
    blas_context_fini(&handle->base);
    free(handle);
    return CUBLAS_STATUS_SUCCESS;
}

size_t cublasLtGetVersion(void)
{
    return CUBLAS_VERSION;
}

size_t cublasLtGetCudartVersion(void)
{
    return CUDA_VERSION;
}

cublasStatus_t cublasLtGetProperty(libraryPropertyType type, int *value)
{
    return blas_property(type, value);
}

const char *cublasLtGetStatusName(cublasStatus_t status)
{
    return blas_status_name(status);
}

const char *cublasLtGetStatusString(cublasStatus_t status)
{
    return blas_status_text(status);
}

/* Choosing an algorithm is cheap here: there is no cache, but its size can be set and asked. */
static _Atomic size_t cache_capacity = 8192;

cublasStatus_t cublasLtHeuristicsCacheGetCapacity(size_t *capacity)
{
    if (!capacity)
        return CUBLAS_STATUS_INVALID_VALUE;
    *capacity = cache_capacity;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtHeuristicsCacheSetCapacity(size_t capacity)
{
    cache_capacity = capacity;
    return CUBLAS_STATUS_SUCCESS;
}

/* The log: valid settings are taken, and nothing is written. */

cublasStatus_t cublasLtLoggerSetCallback(cublasLtLoggerCallback_t callback)
{
    (void)callback;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtLoggerSetFile(FILE *file)
{
    (void)file;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtLoggerOpenFile(const char *name)
{
    FILE *file = name ? fopen(name, "w") : NULL;
    if (!file)
        return CUBLAS_STATUS_INVALID_VALUE;
    fclose(file);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtLoggerSetLevel(int level)
{
    return level < 0 || level > 5 ? CUBLAS_STATUS_INVALID_VALUE : CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtLoggerSetMask(int mask)
{
    return mask < 0 || mask > 31 ? CUBLAS_STATUS_INVALID_VALUE : CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtLoggerForceDisable(void); /* the header has no prototype */
cublasStatus_t cublasLtLoggerForceDisable(void)
{
    return CUBLAS_STATUS_SUCCESS;
}

/* What a function of NVIDIA's library does that no file here defines (the generated stubs call it). */
int lt_stub(const char *name, _Atomic int *said);
int lt_stub(const char *name, _Atomic int *said)
{
    return blas_not_provided(name, said);
}
