/* context.c: the driver, the kernels of this library, handles and what can be set on them. */
#include "context.h"
#include "../runtime/driver_loader.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

blas_driver_t blas_driver;

/* The module image that the driver is given: what counts is the object that it lies in. */
static const char kernel_image[32] = "softgpu cublas";

static const driver_entry_t driver_entries[] = {
#define ENTRY(name) {#name, offsetof(blas_driver_t, name), 0},
    CUBLAS_DRIVER_FUNCTIONS(ENTRY)
#undef ENTRY
};

static pthread_mutex_t start_lock = PTHREAD_MUTEX_INITIALIZER;
static int started;                         /* guarded by start_lock */
static CUkernel kernels[BLAS_KERNEL_COUNT]; /* NULL until the first handle; guarded by start_lock */

static int driver_is_complete(void)
{
    for (size_t i = 0; i < sizeof driver_entries / sizeof driver_entries[0]; i++) {
        void *address;
        memcpy(&address, (char *)&blas_driver + driver_entries[i].offset, sizeof address);
        if (!address)
            return 0;
    }
    return 1;
}

cublasStatus_t blas_start(void)
{
    pthread_mutex_lock(&start_lock);
    if (!started) {
        driver_lookup_fn lookup = driver_open();
        if (lookup)
            driver_fill(lookup, driver_entries, sizeof driver_entries / sizeof driver_entries[0], 0,
                        &blas_driver);
        started = lookup && driver_is_complete() && blas_driver.cuInit(0) == CUDA_SUCCESS;
    }
    int ok = started;
    pthread_mutex_unlock(&start_lock);
    return ok ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_NOT_INITIALIZED;
}

cublasStatus_t blas_status(CUresult result)
{
    switch (result) {
    case CUDA_SUCCESS:
        return CUBLAS_STATUS_SUCCESS;
    case CUDA_ERROR_OUT_OF_MEMORY:
        return CUBLAS_STATUS_ALLOC_FAILED;
    case CUDA_ERROR_NO_BINARY_FOR_GPU:
    case CUDA_ERROR_INVALID_IMAGE:
        return CUBLAS_STATUS_ARCH_MISMATCH; /* not softgpu's driver, most likely */
    case CUDA_ERROR_NOT_SUPPORTED:
        return CUBLAS_STATUS_NOT_SUPPORTED;
    case CUDA_ERROR_NOT_INITIALIZED:
    case CUDA_ERROR_DEINITIALIZED:
    case CUDA_ERROR_INVALID_CONTEXT:
        return CUBLAS_STATUS_NOT_INITIALIZED;
    default:
        return CUBLAS_STATUS_EXECUTION_FAILED;
    }
}

static CUresult load_kernels(void)
{
    CUlibrary library;
    CUresult result = CUDA_SUCCESS;
    pthread_mutex_lock(&start_lock);
    if (!kernels[0]) {
        result = blas_driver.cuLibraryLoadData(&library, kernel_image, NULL, NULL, 0, NULL, NULL, 0);
        for (int i = BLAS_KERNEL_COUNT - 1; i >= 0 && result == CUDA_SUCCESS; i--)
            result = blas_driver.cuLibraryGetKernel(&kernels[i], library, blas_kernel_names[i]);
    }
    pthread_mutex_unlock(&start_lock);
    return result;
}

/* The context that is current, else the primary one of device 0, made current. */
static CUresult find_context(cublasHandle_t handle)
{
    CUdevice device;
    CUresult result = blas_driver.cuCtxGetCurrent(&handle->context);
    handle->device = -1;
    if (result != CUDA_SUCCESS || handle->context)
        return result;
    if ((result = blas_driver.cuDeviceGet(&device, 0)) != CUDA_SUCCESS ||
        (result = blas_driver.cuDevicePrimaryCtxRetain(&handle->context, device)) != CUDA_SUCCESS)
        return result;
    handle->device = device;
    return blas_driver.cuCtxSetCurrent(handle->context);
}

static CUresult fill_handle(cublasHandle_t handle)
{
    CUresult result = find_context(handle);
    if (result == CUDA_SUCCESS)
        result = load_kernels();
    for (int i = 0; i < BLAS_KERNEL_COUNT && result == CUDA_SUCCESS; i++)
        result = blas_driver.cuKernelGetFunction(&handle->kernel[i], kernels[i]);
    return result;
}

static void release_handle(cublasHandle_t handle)
{
    if (handle->device >= 0)
        blas_driver.cuDevicePrimaryCtxRelease(handle->device);
    handle->magic = 0;
    free(handle);
}

cublasStatus_t cublasCreate_v2(cublasHandle_t *out)
{
    if (!out)
        return CUBLAS_STATUS_INVALID_VALUE;
    *out = NULL;
    cublasStatus_t status = blas_start();
    if (status != CUBLAS_STATUS_SUCCESS)
        return status;
    cublasHandle_t handle = calloc(1, sizeof *handle);
    if (!handle)
        return CUBLAS_STATUS_ALLOC_FAILED;
    handle->magic = BLAS_MAGIC;
    status = blas_status(fill_handle(handle));
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

cublasStatus_t blas_launch(cublasHandle_t handle, blas_kernel_t kernel, const uint32_t grid[3],
                           void **arguments)
{
    CUcontext current = NULL;
    CUresult result = blas_driver.cuCtxGetCurrent(&current);
    if (result == CUDA_SUCCESS && !current)
        result = blas_driver.cuCtxSetCurrent(handle->context);
    if (result == CUDA_SUCCESS)
        result = blas_driver.cuLaunchKernel(handle->kernel[kernel], grid[0], grid[1], grid[2], 1, 1, 1, 0,
                                            handle->stream, arguments, NULL);
    return blas_status(result);
}

/* what can be set and asked */

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
PROPERTY(cublasSetMathMode, cublasGetMathMode, cublasMath_t,
         math_mode) /* fp32 is computed in fp32 whatever the mode */
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
    static const int version[] = {CUBLAS_VER_MAJOR, CUBLAS_VER_MINOR, CUBLAS_VER_PATCH};
    if (!value || (unsigned)type >= sizeof version / sizeof version[0])
        return CUBLAS_STATUS_INVALID_VALUE;
    *value = version[type];
    return CUBLAS_STATUS_SUCCESS;
}

size_t cublasGetCudartVersion(void)
{
    return CUDA_VERSION;
}

/* status texts */

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

const char *cublasGetStatusName(cublasStatus_t status)
{
    return find_text(status)->name;
}

const char *cublasGetStatusString(cublasStatus_t status)
{
    return find_text(status)->text;
}

/* What a name in names.txt does that no file here defines (the generated stubs call it). */
int blas_stub(const char *name, _Atomic int *said);
int blas_stub(const char *name, _Atomic int *said)
{
    const char *log = getenv("SOFTGPU_LOG");
    if (!atomic_exchange(said, 1) && !(log && log[0] == '0'))
        fprintf(stderr, "softgpu: %s is not provided\n", name);
    return CUBLAS_STATUS_NOT_SUPPORTED;
}
