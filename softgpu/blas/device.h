/* device.h: what cuBLAS and cuBLASLt have in common below their handles: the driver, the kernels, launches.
 *
 * Every routine is a kernel launch through the driver, on the caller's stream, so that whatever watches the
 * driver sees the operands: each pointer is one argument of 8 bytes. The files named in softgpu_blas
 * (CMakeLists.txt) are in both libraries, each of which is its own kernel library (softgpu/kernel_abi.h, rule
 * 1): it exports softgpu_kernel_table.
 *
 * Like NVIDIA's, the libraries know nothing of the runtime that the program uses; they find the driver for
 * themselves (runtime/driver_loader.h).
 *
 * Threads: what a library has once in a process (driver, kernels) is guarded by a lock in device.c. Functions
 * here may be called from any thread.
 */
#ifndef SOFTGPU_CUBLAS_DEVICE_H
#define SOFTGPU_CUBLAS_DEVICE_H

#include <cuda.h>
#include <cublas_v2.h>
#include <pthread.h>
#include <stdint.h>

/* The driver functions that the libraries call. */
#define BLAS_DRIVER_FUNCTIONS(F)                                                                             \
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
    F(cuTensorMapEncodeTiled)                                                                                \
    F(cuMemAlloc)                                                                                            \
    F(cuMemFree)                                                                                             \
    F(cuMemsetD32Async)                                                                                      \
    F(cuMemcpyHtoD)                                                                                          \
    F(cuMemcpyDtoH)                                                                                          \
    F(cuMemcpyHtoDAsync)                                                                                     \
    F(cuMemcpyDtoHAsync)                                                                                     \
    F(cuMemcpy2DUnaligned)                                                                                   \
    F(cuMemcpy2DAsync)                                                                                       \
    F(cuStreamSynchronize)                                                                                   \
    F(cuStreamGetId)                                                                                         \
    F(cuStreamIsCapturing)                                                                                   \
    F(cuThreadExchangeStreamCaptureMode)

typedef struct blas_driver {
#define MEMBER(name) __typeof__(name) *name;
    BLAS_DRIVER_FUNCTIONS(MEMBER)
#undef MEMBER
} blas_driver_t;

/* Constant once blas_start has succeeded. */
extern blas_driver_t blas_driver;

/* The kernels (kernels.c). */
typedef enum blas_kernel {
    BLAS_SGEMM, /* gemm_direct.c: a tile is one OpenBLAS call; _BATCHED: operands in tables of pointers */
    BLAS_SGEMM_BATCHED,
    BLAS_DGEMM,
    BLAS_DGEMM_BATCHED,
    BLAS_GEMM, /* kernels/gemm_mixed.c: other types, epilogues, C apart from D */
    BLAS_GEMM_BATCHED,
    BLAS_GEMM_SPLITK, /* the same with the sum over k in parts */
    BLAS_GEMM_SPLITK_BATCHED,
    BLAS_SPLITK_REDUCE,
    BLAS_SPLITK_REDUCE_BATCHED,
    /* The same six with the epilogue of a backward pass: kernels of their own, as other arguments are written. */
    BLAS_GEMM_GRAD,
    BLAS_GEMM_GRAD_BATCHED,
    BLAS_GEMM_GRAD_SPLITK,
    BLAS_GEMM_GRAD_SPLITK_BATCHED,
    BLAS_GRAD_SPLITK_REDUCE,
    BLAS_GRAD_SPLITK_REDUCE_BATCHED,
    BLAS_GEAM, /* geam_kernel.c */
    BLAS_AXPY, /* kernels/vector_kernel.c */
    BLAS_SCAL,
    BLAS_COPY,
    BLAS_DOT,
    BLAS_NRM2,
    BLAS_ASUM,
    BLAS_IAMAX,
    BLAS_IAMIN,
    BLAS_KERNEL_COUNT
} blas_kernel_t;
extern const char *const blas_kernel_names[BLAS_KERNEL_COUNT];

/* Split-K launches: how many tiles one may count, and for how many streams a handle keeps counters. */
enum { BLAS_COUNTERS = 1024, BLAS_COUNTER_STREAMS = 32 };

/* What every handle begins with, so that a cublasHandle_t serves as a cublasLtHandle_t, as NVIDIA documents. */
typedef struct blas_context {
    uint32_t magic; /* BLAS_MAGIC or BLAS_LT_MAGIC while alive */
    int device;     /* whose primary context the handle retained; -1: it found a context current */
    CUcontext context;
    CUfunction kernel[BLAS_KERNEL_COUNT];
    pthread_mutex_t lock;
    /* counters.c; guarded by lock */
    CUdeviceptr counters; /* owned: [BLAS_COUNTER_STREAMS][BLAS_COUNTERS] of 4 bytes; 0 until first needed */
    unsigned long long counter_streams[BLAS_COUNTER_STREAMS]; /* ids of the streams that have a row */
    unsigned counter_stream_count;
} blas_context_t;
#define BLAS_MAGIC    0x626c6173u
#define BLAS_LT_MAGIC 0x626c4c74u

/* Opens the driver and calls cuInit. Any number of times. */
cublasStatus_t blas_start(void);
/* The status that stands for a driver error. */
cublasStatus_t blas_status(CUresult result);
/* Makes a handle of a zeroed object: blas_start, the current context (else the primary one of device 0, which
 * becomes current), its kernels. blas_context_fini gives back what it holds, also after a failure. */
cublasStatus_t blas_context_init(blas_context_t *context, uint32_t magic);
void blas_context_fini(blas_context_t *context);
/* Launches `blocks` blocks of a kernel, `arguments` as for cuLaunchKernel. NOT_SUPPORTED: too many. */
cublasStatus_t blas_launch(blas_context_t *context, CUstream stream, blas_kernel_t kernel, int64_t blocks,
                           void **arguments);
/* cuMemAlloc that works while another stream is being captured. */
CUresult blas_allocate(CUdeviceptr *out, size_t bytes);

/* counters.c: `count` 32-bit counters for a launch on `stream` that finds them at zero and leaves them at
 * zero. `room`: memory of the caller's for that many, used where the handle has none to give. */
CUresult blas_counters(blas_context_t *context, CUstream stream, CUdeviceptr room, unsigned count,
                       CUdeviceptr *out);

/* texts.c */
const char *blas_status_name(cublasStatus_t status);
const char *blas_status_text(cublasStatus_t status);
cublasStatus_t blas_property(libraryPropertyType type, int *value);
/* Says once that a name is not provided. */
int blas_not_provided(const char *name, _Atomic int *said);

#endif
