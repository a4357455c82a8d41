/* texts.c: names and texts of statuses, version numbers, and what a routine that is not provided says. */
#include "softgpu/blas/device.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

static const struct status_text {
    cublasStatus_t status;
    const char *name, *text;
} status_texts[] = {
#define STATUS(status, text) {status, #status, text},
    /* clang-format off */
    STATUS(CUBLAS_STATUS_SUCCESS, "success")
    STATUS(CUBLAS_STATUS_NOT_INITIALIZED, "the library was not initialized")
    STATUS(CUBLAS_STATUS_ALLOC_FAILED, "the resource allocation failed")
    STATUS(CUBLAS_STATUS_INVALID_VALUE, "an unsupported value or parameter was passed to the function")
    STATUS(CUBLAS_STATUS_ARCH_MISMATCH,
           "the function requires an architectural feature absent from the device")
    STATUS(CUBLAS_STATUS_MAPPING_ERROR, "an access to GPU memory space failed")
    STATUS(CUBLAS_STATUS_EXECUTION_FAILED, "the function failed to launch on the GPU")
    STATUS(CUBLAS_STATUS_INTERNAL_ERROR, "an internal operation failed")
    STATUS(CUBLAS_STATUS_NOT_SUPPORTED, "the requested functionality is not supported")
    STATUS(CUBLAS_STATUS_LICENSE_ERROR, "the license check failed")
/* clang-format on */
#undef STATUS
};

static const struct status_text *find_text(cublasStatus_t status)
{
    static const struct status_text unknown = {CUBLAS_STATUS_INTERNAL_ERROR, "unrecognized status",
                                               "unrecognized status"};
    for (size_t i = 0; i < sizeof status_texts / sizeof status_texts[0]; i++)
        if (status_texts[i].status == status)
            return &status_texts[i];
    return &unknown;
}

const char *blas_status_name(cublasStatus_t status)
{
    return find_text(status)->name;
}

const char *blas_status_text(cublasStatus_t status)
{
    return find_text(status)->text;
}

cublasStatus_t blas_property(libraryPropertyType type, int *value)
{
    static const int version[] = {CUBLAS_VER_MAJOR, CUBLAS_VER_MINOR, CUBLAS_VER_PATCH};
    if (!value || (unsigned)type >= sizeof version / sizeof version[0])
        return CUBLAS_STATUS_INVALID_VALUE;
    *value = version[type];
    return CUBLAS_STATUS_SUCCESS;
}

int blas_not_provided(const char *name, _Atomic int *said)
{
    const char *log = getenv("SOFTGPU_LOG");
    if (!atomic_exchange(said, 1) && !(log && log[0] == '0'))
        fprintf(stderr, "softgpu: %s is not provided\n", name);
    return CUBLAS_STATUS_NOT_SUPPORTED;
}
