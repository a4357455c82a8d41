/* context.h: what the parts of softgpu's cuBLAS share.
 *
 * Every routine is a kernel launch through the driver, on the handle's stream, so that whatever watches the
 * driver sees the operands: each pointer is one argument of 8 bytes. The kernels are in this library itself,
 * which therefore is its own kernel library (softgpu/kernel_abi.h, rule 1): it exports softgpu_kernel_table.
 *
 * Like NVIDIA's, this library knows nothing of the runtime that the program uses; it finds the driver for
 * itself (runtime/driver_loader.h).
 *
 * Threads: a handle belongs to one thread at a time, as in cuBLAS. What the process has once (driver,
 * kernels) is guarded by a lock in context.c.
 */
#ifndef SOFTGPU_CUBLAS_CONTEXT_H
#define SOFTGPU_CUBLAS_CONTEXT_H

#include <cuda.h>
#include <cublas_v2.h>
#include <stdint.h>

/* The driver functions that cuBLAS calls. */
#define CUBLAS_DRIVER_FUNCTIONS(F)                                                                           \
    F(cuInit)                                                                                                \
    F(cuDeviceGet)                                                                                           \
    F(cuDevicePrimaryCtxRetain)                                                                              \
    F(cuDevicePrimaryCtxRelease)                                                                             \
    F(cuCtxGetCurrent)                                                                                       \
    F(cuCtxSetCurrent)                                                                                       \
    F(cuLibraryLoadData)                                                                                     \
    F(cuLibraryGetKernel)                                                                                    \
    F(cuKernelGetFunction)                                                                                   \
    F(cuLaunchKernel)                                                                                        \
    F(cuMemcpyHtoD)                                                                                          \
    F(cuMemcpyDtoH)                                                                                          \
    F(cuMemcpyHtoDAsync)                                                                                     \
    F(cuMemcpyDtoHAsync)                                                                                     \
    F(cuMemcpy2DUnaligned)                                                                                   \
    F(cuMemcpy2DAsync)

typedef struct blas_driver {
#define MEMBER(name) __typeof__(name) *name;
    CUBLAS_DRIVER_FUNCTIONS(MEMBER)
#undef MEMBER
} blas_driver_t;

/* Constant once a handle exists. */
extern blas_driver_t blas_driver;

typedef enum blas_kernel { BLAS_SGEMM, BLAS_SGEMM_DEVICE_SCALARS, BLAS_KERNEL_COUNT } blas_kernel_t;
extern const char *const blas_kernel_names[BLAS_KERNEL_COUNT]; /* sgemm_kernel.c */

/* What a cublasHandle_t points to. */
struct cublasContext {
    uint32_t magic; /* BLAS_MAGIC while alive */
    int device;     /* whose primary context the handle retained; -1: it found a context current */
    CUcontext context;
    CUstream stream;
    cublasPointerMode_t pointer_mode;
    cublasAtomicsMode_t atomics_mode;
    cublasMath_t math_mode;
    int sm_count_target;
    CUfunction kernel[BLAS_KERNEL_COUNT];
};
#define BLAS_MAGIC 0x626c6173u

static inline int blas_is_handle(cublasHandle_t handle)
{
    return handle && handle->magic == BLAS_MAGIC;
}

/* Opens the driver and calls cuInit. Any thread, any number of times. */
cublasStatus_t blas_start(void);
/* The status that stands for a driver error. */
cublasStatus_t blas_status(CUresult result);
/* Launches one of the kernels on the handle's stream: grid[3] blocks, `arguments` as for cuLaunchKernel. */
cublasStatus_t blas_launch(cublasHandle_t handle, blas_kernel_t kernel, const uint32_t grid[3],
                           void **arguments);

#endif
