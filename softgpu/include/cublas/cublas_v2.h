/* cublas_v2.h: the part of cuBLAS's interface that softgpu's libcublas.so.13 provides, for builds whose CUDA
 * Toolkit has no cuBLAS (the real one is half a gigabyte, and of no use where there is no GPU). With a
 * complete toolkit this file is not on the include path, and check.c proves at build time that it says what
 * NVIDIA's says.
 *
 * What is not declared here: take the real header.
 */
#ifndef SOFTGPU_CUBLAS_V2_H
#define SOFTGPU_CUBLAS_V2_H

#include <library_types.h>
#include <stddef.h>
#include <stdint.h>

#include <driver_types.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Normally these make enumerations; in check.c, which has included NVIDIA's, assertions about them. */
#ifndef SOFTGPU_CUBLAS_CHECK
#define CUBLAS_VER_MAJOR            13
#define CUBLAS_VER_MINOR            1
#define CUBLAS_VER_PATCH            0
#define CUBLAS_VERSION              (CUBLAS_VER_MAJOR * 10000 + CUBLAS_VER_MINOR * 100 + CUBLAS_VER_PATCH)
#define SOFTGPU_ENUM                typedef enum {
#define SOFTGPU_VALUE(name, number) name = number,
#define SOFTGPU_ENUM_END(type)                                                                               \
    }                                                                                                        \
    type;
typedef struct cublasContext *cublasHandle_t;
typedef cudaDataType cublasDataType_t;
#else
#define SOFTGPU_ENUM
#define SOFTGPU_VALUE(name, number) _Static_assert(name == number, #name);
#define SOFTGPU_ENUM_END(type)      _Static_assert(sizeof(type) == sizeof(int), #type);
#endif

/* clang-format off */
SOFTGPU_ENUM
    SOFTGPU_VALUE(CUBLAS_STATUS_SUCCESS, 0)
    SOFTGPU_VALUE(CUBLAS_STATUS_NOT_INITIALIZED, 1)
    SOFTGPU_VALUE(CUBLAS_STATUS_ALLOC_FAILED, 3)
    SOFTGPU_VALUE(CUBLAS_STATUS_INVALID_VALUE, 7)
    SOFTGPU_VALUE(CUBLAS_STATUS_ARCH_MISMATCH, 8)
    SOFTGPU_VALUE(CUBLAS_STATUS_MAPPING_ERROR, 11)
    SOFTGPU_VALUE(CUBLAS_STATUS_EXECUTION_FAILED, 13)
    SOFTGPU_VALUE(CUBLAS_STATUS_INTERNAL_ERROR, 14)
    SOFTGPU_VALUE(CUBLAS_STATUS_NOT_SUPPORTED, 15)
    SOFTGPU_VALUE(CUBLAS_STATUS_LICENSE_ERROR, 16)
SOFTGPU_ENUM_END(cublasStatus_t)

SOFTGPU_ENUM
    SOFTGPU_VALUE(CUBLAS_OP_N, 0)
    SOFTGPU_VALUE(CUBLAS_OP_T, 1)
    SOFTGPU_VALUE(CUBLAS_OP_C, 2)
    SOFTGPU_VALUE(CUBLAS_OP_CONJG, 3)
SOFTGPU_ENUM_END(cublasOperation_t)

SOFTGPU_ENUM
    SOFTGPU_VALUE(CUBLAS_POINTER_MODE_HOST, 0)
    SOFTGPU_VALUE(CUBLAS_POINTER_MODE_DEVICE, 1)
SOFTGPU_ENUM_END(cublasPointerMode_t)

SOFTGPU_ENUM
    SOFTGPU_VALUE(CUBLAS_ATOMICS_NOT_ALLOWED, 0)
    SOFTGPU_VALUE(CUBLAS_ATOMICS_ALLOWED, 1)
SOFTGPU_ENUM_END(cublasAtomicsMode_t)

SOFTGPU_ENUM
    SOFTGPU_VALUE(CUBLAS_DEFAULT_MATH, 0)
    SOFTGPU_VALUE(CUBLAS_TENSOR_OP_MATH, 1)
    SOFTGPU_VALUE(CUBLAS_PEDANTIC_MATH, 2)
    SOFTGPU_VALUE(CUBLAS_TF32_TENSOR_OP_MATH, 3)
    SOFTGPU_VALUE(CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION, 16)
SOFTGPU_ENUM_END(cublasMath_t)
/* clang-format on */

#undef SOFTGPU_ENUM
#undef SOFTGPU_VALUE
#undef SOFTGPU_ENUM_END

const char *cublasGetStatusName(cublasStatus_t status);
const char *cublasGetStatusString(cublasStatus_t status);
cublasStatus_t cublasGetProperty(libraryPropertyType type, int *value);
size_t cublasGetCudartVersion(void);

cublasStatus_t cublasCreate_v2(cublasHandle_t *handle);
cublasStatus_t cublasDestroy_v2(cublasHandle_t handle);
cublasStatus_t cublasGetVersion_v2(cublasHandle_t handle, int *version);
cublasStatus_t cublasSetStream_v2(cublasHandle_t handle, cudaStream_t stream);
cublasStatus_t cublasGetStream_v2(cublasHandle_t handle, cudaStream_t *stream);
cublasStatus_t cublasSetWorkspace_v2(cublasHandle_t handle, void *workspace, size_t bytes);
cublasStatus_t cublasSetPointerMode_v2(cublasHandle_t handle, cublasPointerMode_t mode);
cublasStatus_t cublasGetPointerMode_v2(cublasHandle_t handle, cublasPointerMode_t *mode);
cublasStatus_t cublasSetAtomicsMode(cublasHandle_t handle, cublasAtomicsMode_t mode);
cublasStatus_t cublasGetAtomicsMode(cublasHandle_t handle, cublasAtomicsMode_t *mode);
cublasStatus_t cublasSetMathMode(cublasHandle_t handle, cublasMath_t mode);
cublasStatus_t cublasGetMathMode(cublasHandle_t handle, cublasMath_t *mode);
cublasStatus_t cublasSetSmCountTarget(cublasHandle_t handle, int count);
cublasStatus_t cublasGetSmCountTarget(cublasHandle_t handle, int *count);

cublasStatus_t cublasSgemm_v2(cublasHandle_t handle, cublasOperation_t transa, cublasOperation_t transb,
                              int m, int n, int k, const float *alpha, const float *A, int lda,
                              const float *B, int ldb, const float *beta, float *C, int ldc);
cublasStatus_t cublasSgemm_v2_64(cublasHandle_t handle, cublasOperation_t transa, cublasOperation_t transb,
                                 int64_t m, int64_t n, int64_t k, const float *alpha, const float *A,
                                 int64_t lda, const float *B, int64_t ldb, const float *beta, float *C,
                                 int64_t ldc);
cublasStatus_t cublasSgemmStridedBatched(cublasHandle_t handle, cublasOperation_t transa,
                                         cublasOperation_t transb, int m, int n, int k, const float *alpha,
                                         const float *A, int lda, long long int strideA, const float *B,
                                         int ldb, long long int strideB, const float *beta, float *C, int ldc,
                                         long long int strideC, int batchCount);
cublasStatus_t cublasSgemmStridedBatched_64(cublasHandle_t handle, cublasOperation_t transa,
                                            cublasOperation_t transb, int64_t m, int64_t n, int64_t k,
                                            const float *alpha, const float *A, int64_t lda,
                                            long long int strideA, const float *B, int64_t ldb,
                                            long long int strideB, const float *beta, float *C, int64_t ldc,
                                            long long int strideC, int64_t batchCount);

/* Copies of `n` elements, or `rows` x `cols` of them, between the host and the device, with strides in
 * elements. */
cublasStatus_t cublasSetVector(int n, int elem_bytes, const void *x, int incx, void *y, int incy);
cublasStatus_t cublasSetVector_64(int64_t n, int64_t elem_bytes, const void *x, int64_t incx, void *y,
                                  int64_t incy);
cublasStatus_t cublasSetVectorAsync(int n, int elem_bytes, const void *x, int incx, void *y, int incy,
                                    cudaStream_t stream);
cublasStatus_t cublasSetVectorAsync_64(int64_t n, int64_t elem_bytes, const void *x, int64_t incx, void *y,
                                       int64_t incy, cudaStream_t stream);
cublasStatus_t cublasSetMatrix(int rows, int cols, int elem_bytes, const void *A, int lda, void *B, int ldb);
cublasStatus_t cublasSetMatrix_64(int64_t rows, int64_t cols, int64_t elem_bytes, const void *A, int64_t lda,
                                  void *B, int64_t ldb);
cublasStatus_t cublasSetMatrixAsync(int rows, int cols, int elem_bytes, const void *A, int lda, void *B,
                                    int ldb, cudaStream_t stream);
cublasStatus_t cublasSetMatrixAsync_64(int64_t rows, int64_t cols, int64_t elem_bytes, const void *A,
                                       int64_t lda, void *B, int64_t ldb, cudaStream_t stream);
cublasStatus_t cublasGetVector(int n, int elem_bytes, const void *x, int incx, void *y, int incy);
cublasStatus_t cublasGetVector_64(int64_t n, int64_t elem_bytes, const void *x, int64_t incx, void *y,
                                  int64_t incy);
cublasStatus_t cublasGetVectorAsync(int n, int elem_bytes, const void *x, int incx, void *y, int incy,
                                    cudaStream_t stream);
cublasStatus_t cublasGetVectorAsync_64(int64_t n, int64_t elem_bytes, const void *x, int64_t incx, void *y,
                                       int64_t incy, cudaStream_t stream);
cublasStatus_t cublasGetMatrix(int rows, int cols, int elem_bytes, const void *A, int lda, void *B, int ldb);
cublasStatus_t cublasGetMatrix_64(int64_t rows, int64_t cols, int64_t elem_bytes, const void *A, int64_t lda,
                                  void *B, int64_t ldb);
cublasStatus_t cublasGetMatrixAsync(int rows, int cols, int elem_bytes, const void *A, int lda, void *B,
                                    int ldb, cudaStream_t stream);
cublasStatus_t cublasGetMatrixAsync_64(int64_t rows, int64_t cols, int64_t elem_bytes, const void *A,
                                       int64_t lda, void *B, int64_t ldb, cudaStream_t stream);

#ifndef SOFTGPU_CUBLAS_CHECK
#define cublasCreate         cublasCreate_v2
#define cublasDestroy        cublasDestroy_v2
#define cublasGetVersion     cublasGetVersion_v2
#define cublasSetStream      cublasSetStream_v2
#define cublasGetStream      cublasGetStream_v2
#define cublasSetWorkspace   cublasSetWorkspace_v2
#define cublasSetPointerMode cublasSetPointerMode_v2
#define cublasGetPointerMode cublasGetPointerMode_v2
#define cublasSgemm          cublasSgemm_v2
#define cublasSgemm_64       cublasSgemm_v2_64
#endif

#ifdef __cplusplus
}
#endif
#endif
