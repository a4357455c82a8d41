/* device.c: the driver, the kernels of this library, and what every handle begins with. */
#include "softgpu/blas/device.h"
#include "softgpu/runtime/driver_loader.h"

#include <limits.h>
#include <string.h>

blas_driver_t blas_driver;

/* The module image that the driver is given: what counts is the object that it lies in. To whoever reads it, a module without variables. */
static const char kernel_image[] = ".version 9.0\n.target sm_80\n.address_size 64\n";

static const driver_entry_t driver_entries[] = {
#define ENTRY(name) {#name, offsetof(blas_driver_t, name), 0},
    BLAS_DRIVER_FUNCTIONS(ENTRY)
#undef ENTRY
};

enum { ENTRIES = sizeof driver_entries / sizeof driver_entries[0] };

static pthread_mutex_t start_lock = PTHREAD_MUTEX_INITIALIZER;
static int started;                         /* guarded by start_lock */
static CUkernel kernels[BLAS_KERNEL_COUNT]; /* NULL until the first handle; guarded by start_lock */

cublasStatus_t blas_start(void)
{
    pthread_mutex_lock(&start_lock);
    if (!started) {
        driver_lookup_fn lookup = driver_open();
        if (lookup)
            driver_fill(lookup, driver_entries, ENTRIES, 0, &blas_driver);
        started = lookup && !driver_missing(driver_entries, ENTRIES, &blas_driver) &&
                  blas_driver.cuInit(0) == CUDA_SUCCESS;
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
static CUresult find_context(blas_context_t *context)
{
    CUdevice device;
    CUresult result = blas_driver.cuCtxGetCurrent(&context->context);
    if (result != CUDA_SUCCESS || context->context)
        return result;
    if ((result = blas_driver.cuDeviceGet(&device, 0)) != CUDA_SUCCESS ||
        (result = blas_driver.cuDevicePrimaryCtxRetain(&context->context, device)) != CUDA_SUCCESS)
        return result;
    context->device = device;
    return blas_driver.cuCtxSetCurrent(context->context);
}

cublasStatus_t blas_context_init(blas_context_t *context, uint32_t magic)
{
    context->device = -1;
    pthread_mutex_init(&context->lock, NULL);
    cublasStatus_t status = blas_start();
    if (status != CUBLAS_STATUS_SUCCESS)
        return status;
    CUresult result = find_context(context);
    if (result == CUDA_SUCCESS)
        result = load_kernels();
    for (int i = 0; i < BLAS_KERNEL_COUNT && result == CUDA_SUCCESS; i++)
        result = blas_driver.cuKernelGetFunction(&context->kernel[i], kernels[i]);
    if (result == CUDA_SUCCESS)
        context->magic = magic;
    return blas_status(result);
}

void blas_context_fini(blas_context_t *context)
{
    if (context->counters)
        blas_driver.cuMemFree(context->counters);
    if (context->device >= 0)
        blas_driver.cuDevicePrimaryCtxRelease(context->device);
    pthread_mutex_destroy(&context->lock);
    context->magic = 0;
}

cublasStatus_t blas_launch(blas_context_t *context, CUstream stream, blas_kernel_t kernel, int64_t blocks,
                           void **arguments)
{
    CUcontext current = NULL;
    if (blocks > INT_MAX) /* the largest grid that the hardware takes */
        return CUBLAS_STATUS_NOT_SUPPORTED;
    CUresult result = blas_driver.cuCtxGetCurrent(&current);
    if (result == CUDA_SUCCESS && !current)
        result = blas_driver.cuCtxSetCurrent(context->context);
    if (result == CUDA_SUCCESS)
        result = blas_driver.cuLaunchKernel(context->kernel[kernel], (unsigned)blocks, 1, 1, 1, 1, 1, 0,
                                            stream, arguments, NULL);
    return blas_status(result);
}

CUresult blas_allocate(CUdeviceptr *out, size_t bytes)
{
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    CUresult exchanged = blas_driver.cuThreadExchangeStreamCaptureMode(&mode);
    CUresult result = blas_driver.cuMemAlloc(out, bytes);
    if (exchanged == CUDA_SUCCESS)
        blas_driver.cuThreadExchangeStreamCaptureMode(&mode);
    return result;
}
