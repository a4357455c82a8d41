/* error.c: error names and texts, the last error of each thread, and the names that this runtime does not
 * provide. */
#include "softgpu/runtime/runtime.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

static _Thread_local cudaError_t last_error;

static const struct error_text {
    cudaError_t error;
    const char *name, *text;
} error_texts[] = {
#define ERROR(error, text) {error, #error, text},
#include "softgpu/runtime/error_texts.h"
#undef ERROR
};

static const struct error_text *find_text(cudaError_t error)
{
    static const struct error_text unknown = {cudaErrorUnknown, "unrecognized error code",
                                              "unrecognized error code"};
    for (size_t i = 0; i < sizeof error_texts / sizeof error_texts[0]; i++)
        if (error_texts[i].error == error)
            return &error_texts[i];
    return &unknown;
}

const char *cudaGetErrorName(cudaError_t error)
{
    return find_text(error)->name;
}

const char *cudaGetErrorString(cudaError_t error)
{
    return find_text(error)->text;
}

/* Errors that leave the context unusable: every later call on it fails with the same one, and reading it does
 * not clear it. */
static int is_sticky(cudaError_t error)
{
    switch (error) {
    case cudaErrorECCUncorrectable:
    case cudaErrorContained:
    case cudaErrorIllegalAddress:
    case cudaErrorLaunchTimeout:
    case cudaErrorAssert:
    case cudaErrorHardwareStackError:
    case cudaErrorIllegalInstruction:
    case cudaErrorMisalignedAddress:
    case cudaErrorInvalidAddressSpace:
    case cudaErrorInvalidPc:
    case cudaErrorLaunchFailure:
    case cudaErrorTensorMemoryLeak:
        return 1;
    default:
        return 0;
    }
}

cudaError_t rt_note(cudaError_t error)
{
    if (error != cudaSuccess && !is_sticky(last_error))
        last_error = error;
    return error;
}

void rt_forget_error(void)
{
    last_error = cudaSuccess;
}

cudaError_t cudaGetLastError(void)
{
    cudaError_t error = last_error;
    if (!is_sticky(error))
        last_error = cudaSuccess;
    return error;
}

cudaError_t cudaPeekAtLastError(void)
{
    return last_error;
}

cudaError_t rt_translate(CUresult result)
{
    /* The two enumerations share their numbers, but for driver errors that the runtime has no name for. */
    if (result == CUDA_ERROR_CONTEXT_ALREADY_CURRENT || result == CUDA_ERROR_KEY_ROTATION)
        return cudaErrorUnknown;
    return (cudaError_t)result;
}

cudaError_t rt_missing(const char *name, _Atomic int *said)
{
    const char *log = getenv("SOFTGPU_LOG"); /* 0: quiet, as for the driver */
    if (!atomic_exchange(said, 1) && !(log && log[0] == '0'))
        fprintf(stderr, "softgpu: %s is not provided\n", name);
    return cudaErrorNotSupported;
}

/* What a function of NVIDIA's library does that no file here defines (the generated stubs call it). */
int rt_stub(const char *name, _Atomic int *said);
int rt_stub(const char *name, _Atomic int *said)
{
    return (int)rt_record(rt_missing(name, said));
}
