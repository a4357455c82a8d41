/* context.h: what a cublasHandle_t points to.
 *
 * Threads: a handle belongs to one thread at a time, as in cuBLAS.
 */
#ifndef SOFTGPU_CUBLAS_CONTEXT_H
#define SOFTGPU_CUBLAS_CONTEXT_H

#include "softgpu/blas/device.h"

struct cublasContext {
    blas_context_t base; /* first: see there */
    CUstream stream;
    cublasPointerMode_t pointer_mode;
    cublasAtomicsMode_t atomics_mode;
    cublasMath_t math_mode;
    int sm_count_target;
    CUdeviceptr result; /* owned: 16 bytes for a result that goes to the host; 0 until first needed */
};

static inline int blas_is_handle(cublasHandle_t handle)
{
    return handle && handle->base.magic == BLAS_MAGIC;
}

#endif
