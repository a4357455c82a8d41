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
typedef void (*cublasLogCallback)(const char *message);
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
    SOFTGPU_VALUE(CUBLAS_FILL_MODE_LOWER, 0)
    SOFTGPU_VALUE(CUBLAS_FILL_MODE_UPPER, 1)
    SOFTGPU_VALUE(CUBLAS_FILL_MODE_FULL, 2)
SOFTGPU_ENUM_END(cublasFillMode_t)

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

SOFTGPU_ENUM
    SOFTGPU_VALUE(CUBLAS_COMPUTE_16F, 64)
    SOFTGPU_VALUE(CUBLAS_COMPUTE_16F_PEDANTIC, 65)
    SOFTGPU_VALUE(CUBLAS_COMPUTE_32F, 68)
    SOFTGPU_VALUE(CUBLAS_COMPUTE_32F_PEDANTIC, 69)
    SOFTGPU_VALUE(CUBLAS_COMPUTE_64F, 70)
    SOFTGPU_VALUE(CUBLAS_COMPUTE_64F_PEDANTIC, 71)
    SOFTGPU_VALUE(CUBLAS_COMPUTE_32I, 72)
    SOFTGPU_VALUE(CUBLAS_COMPUTE_32I_PEDANTIC, 73)
    SOFTGPU_VALUE(CUBLAS_COMPUTE_32F_FAST_16F, 74)
    SOFTGPU_VALUE(CUBLAS_COMPUTE_32F_FAST_16BF, 75)
    SOFTGPU_VALUE(CUBLAS_COMPUTE_32F_FAST_TF32, 77)
SOFTGPU_ENUM_END(cublasComputeType_t)

SOFTGPU_ENUM
    SOFTGPU_VALUE(CUBLAS_GEMM_DEFAULT, -1)
    SOFTGPU_VALUE(CUBLAS_GEMM_ALGO0, 0)
    SOFTGPU_VALUE(CUBLAS_GEMM_ALGO1, 1)
    SOFTGPU_VALUE(CUBLAS_GEMM_ALGO2, 2)
    SOFTGPU_VALUE(CUBLAS_GEMM_ALGO3, 3)
    SOFTGPU_VALUE(CUBLAS_GEMM_ALGO4, 4)
    SOFTGPU_VALUE(CUBLAS_GEMM_ALGO5, 5)
    SOFTGPU_VALUE(CUBLAS_GEMM_ALGO6, 6)
    SOFTGPU_VALUE(CUBLAS_GEMM_ALGO7, 7)
    SOFTGPU_VALUE(CUBLAS_GEMM_ALGO8, 8)
    SOFTGPU_VALUE(CUBLAS_GEMM_ALGO9, 9)
    SOFTGPU_VALUE(CUBLAS_GEMM_ALGO10, 10)
    SOFTGPU_VALUE(CUBLAS_GEMM_ALGO11, 11)
    SOFTGPU_VALUE(CUBLAS_GEMM_ALGO12, 12)
    SOFTGPU_VALUE(CUBLAS_GEMM_ALGO13, 13)
    SOFTGPU_VALUE(CUBLAS_GEMM_ALGO14, 14)
    SOFTGPU_VALUE(CUBLAS_GEMM_ALGO15, 15)
    SOFTGPU_VALUE(CUBLAS_GEMM_ALGO16, 16)
    SOFTGPU_VALUE(CUBLAS_GEMM_ALGO17, 17)
    SOFTGPU_VALUE(CUBLAS_GEMM_ALGO18, 18)
    SOFTGPU_VALUE(CUBLAS_GEMM_ALGO19, 19)
    SOFTGPU_VALUE(CUBLAS_GEMM_ALGO20, 20)
    SOFTGPU_VALUE(CUBLAS_GEMM_ALGO21, 21)
    SOFTGPU_VALUE(CUBLAS_GEMM_ALGO22, 22)
    SOFTGPU_VALUE(CUBLAS_GEMM_ALGO23, 23)
    SOFTGPU_VALUE(CUBLAS_GEMM_DEFAULT_TENSOR_OP, 99)
    SOFTGPU_VALUE(CUBLAS_GEMM_ALGO0_TENSOR_OP, 100)
    SOFTGPU_VALUE(CUBLAS_GEMM_ALGO1_TENSOR_OP, 101)
    SOFTGPU_VALUE(CUBLAS_GEMM_ALGO2_TENSOR_OP, 102)
    SOFTGPU_VALUE(CUBLAS_GEMM_ALGO3_TENSOR_OP, 103)
    SOFTGPU_VALUE(CUBLAS_GEMM_ALGO4_TENSOR_OP, 104)
    SOFTGPU_VALUE(CUBLAS_GEMM_ALGO5_TENSOR_OP, 105)
    SOFTGPU_VALUE(CUBLAS_GEMM_ALGO6_TENSOR_OP, 106)
    SOFTGPU_VALUE(CUBLAS_GEMM_ALGO7_TENSOR_OP, 107)
    SOFTGPU_VALUE(CUBLAS_GEMM_ALGO8_TENSOR_OP, 108)
    SOFTGPU_VALUE(CUBLAS_GEMM_ALGO9_TENSOR_OP, 109)
    SOFTGPU_VALUE(CUBLAS_GEMM_ALGO10_TENSOR_OP, 110)
    SOFTGPU_VALUE(CUBLAS_GEMM_ALGO11_TENSOR_OP, 111)
    SOFTGPU_VALUE(CUBLAS_GEMM_ALGO12_TENSOR_OP, 112)
    SOFTGPU_VALUE(CUBLAS_GEMM_ALGO13_TENSOR_OP, 113)
    SOFTGPU_VALUE(CUBLAS_GEMM_ALGO14_TENSOR_OP, 114)
    SOFTGPU_VALUE(CUBLAS_GEMM_ALGO15_TENSOR_OP, 115)
    SOFTGPU_VALUE(CUBLAS_GEMM_AUTOTUNE, 999)
SOFTGPU_ENUM_END(cublasGemmAlgo_t)
/* clang-format on */

#undef SOFTGPU_ENUM
#undef SOFTGPU_VALUE
#undef SOFTGPU_ENUM_END

const char *cublasGetStatusName(cublasStatus_t status);
const char *cublasGetStatusString(cublasStatus_t status);
cublasStatus_t cublasGetProperty(libraryPropertyType type, int *value);
size_t cublasGetCudartVersion(void);

cublasStatus_t cublasLoggerConfigure(int is_on, int to_stdout, int to_stderr, const char *file);
cublasStatus_t cublasSetLoggerCallback(cublasLogCallback callback);
cublasStatus_t cublasGetLoggerCallback(cublasLogCallback *callback);

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

/* Each routine exists with 32-bit and with 64-bit sizes. */
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
cublasStatus_t cublasSgemmBatched(cublasHandle_t handle, cublasOperation_t transa, cublasOperation_t transb,
                                  int m, int n, int k, const float *alpha, const float *const A[], int lda,
                                  const float *const B[], int ldb, const float *beta, float *const C[],
                                  int ldc, int batchCount);
cublasStatus_t cublasSgemmBatched_64(cublasHandle_t handle, cublasOperation_t transa,
                                     cublasOperation_t transb, int64_t m, int64_t n, int64_t k,
                                     const float *alpha, const float *const A[], int64_t lda,
                                     const float *const B[], int64_t ldb, const float *beta, float *const C[],
                                     int64_t ldc, int64_t batchCount);
cublasStatus_t cublasDgemm_v2(cublasHandle_t handle, cublasOperation_t transa, cublasOperation_t transb,
                              int m, int n, int k, const double *alpha, const double *A, int lda,
                              const double *B, int ldb, const double *beta, double *C, int ldc);
cublasStatus_t cublasDgemm_v2_64(cublasHandle_t handle, cublasOperation_t transa, cublasOperation_t transb,
                                 int64_t m, int64_t n, int64_t k, const double *alpha, const double *A,
                                 int64_t lda, const double *B, int64_t ldb, const double *beta, double *C,
                                 int64_t ldc);
cublasStatus_t cublasDgemmStridedBatched(cublasHandle_t handle, cublasOperation_t transa,
                                         cublasOperation_t transb, int m, int n, int k, const double *alpha,
                                         const double *A, int lda, long long int strideA, const double *B,
                                         int ldb, long long int strideB, const double *beta, double *C,
                                         int ldc, long long int strideC, int batchCount);
cublasStatus_t cublasDgemmStridedBatched_64(cublasHandle_t handle, cublasOperation_t transa,
                                            cublasOperation_t transb, int64_t m, int64_t n, int64_t k,
                                            const double *alpha, const double *A, int64_t lda,
                                            long long int strideA, const double *B, int64_t ldb,
                                            long long int strideB, const double *beta, double *C, int64_t ldc,
                                            long long int strideC, int64_t batchCount);
cublasStatus_t cublasDgemmBatched(cublasHandle_t handle, cublasOperation_t transa, cublasOperation_t transb,
                                  int m, int n, int k, const double *alpha, const double *const A[], int lda,
                                  const double *const B[], int ldb, const double *beta, double *const C[],
                                  int ldc, int batchCount);
cublasStatus_t cublasDgemmBatched_64(cublasHandle_t handle, cublasOperation_t transa,
                                     cublasOperation_t transb, int64_t m, int64_t n, int64_t k,
                                     const double *alpha, const double *const A[], int64_t lda,
                                     const double *const B[], int64_t ldb, const double *beta,
                                     double *const C[], int64_t ldc, int64_t batchCount);

/* Products of types of their own, with alpha and beta of the type that is computed in. */
cublasStatus_t cublasSgemmEx(cublasHandle_t handle, cublasOperation_t transa, cublasOperation_t transb, int m,
                             int n, int k, const float *alpha, const void *A, cudaDataType Atype, int lda,
                             const void *B, cudaDataType Btype, int ldb, const float *beta, void *C,
                             cudaDataType Ctype, int ldc);
cublasStatus_t cublasSgemmEx_64(cublasHandle_t handle, cublasOperation_t transa, cublasOperation_t transb,
                                int64_t m, int64_t n, int64_t k, const float *alpha, const void *A,
                                cudaDataType Atype, int64_t lda, const void *B, cudaDataType Btype,
                                int64_t ldb, const float *beta, void *C, cudaDataType Ctype, int64_t ldc);
cublasStatus_t cublasGemmEx(cublasHandle_t handle, cublasOperation_t transa, cublasOperation_t transb, int m,
                            int n, int k, const void *alpha, const void *A, cudaDataType Atype, int lda,
                            const void *B, cudaDataType Btype, int ldb, const void *beta, void *C,
                            cudaDataType Ctype, int ldc, cublasComputeType_t computeType,
                            cublasGemmAlgo_t algo);
cublasStatus_t cublasGemmEx_64(cublasHandle_t handle, cublasOperation_t transa, cublasOperation_t transb,
                               int64_t m, int64_t n, int64_t k, const void *alpha, const void *A,
                               cudaDataType Atype, int64_t lda, const void *B, cudaDataType Btype,
                               int64_t ldb, const void *beta, void *C, cudaDataType Ctype, int64_t ldc,
                               cublasComputeType_t computeType, cublasGemmAlgo_t algo);
cublasStatus_t cublasGemmStridedBatchedEx(cublasHandle_t handle, cublasOperation_t transa,
                                          cublasOperation_t transb, int m, int n, int k, const void *alpha,
                                          const void *A, cudaDataType Atype, int lda, long long int strideA,
                                          const void *B, cudaDataType Btype, int ldb, long long int strideB,
                                          const void *beta, void *C, cudaDataType Ctype, int ldc,
                                          long long int strideC, int batchCount,
                                          cublasComputeType_t computeType, cublasGemmAlgo_t algo);
cublasStatus_t cublasGemmStridedBatchedEx_64(cublasHandle_t handle, cublasOperation_t transa,
                                             cublasOperation_t transb, int64_t m, int64_t n, int64_t k,
                                             const void *alpha, const void *A, cudaDataType Atype,
                                             int64_t lda, long long int strideA, const void *B,
                                             cudaDataType Btype, int64_t ldb, long long int strideB,
                                             const void *beta, void *C, cudaDataType Ctype, int64_t ldc,
                                             long long int strideC, int64_t batchCount,
                                             cublasComputeType_t computeType, cublasGemmAlgo_t algo);
cublasStatus_t cublasGemmBatchedEx(cublasHandle_t handle, cublasOperation_t transa, cublasOperation_t transb,
                                   int m, int n, int k, const void *alpha, const void *const Aarray[],
                                   cudaDataType Atype, int lda, const void *const Barray[],
                                   cudaDataType Btype, int ldb, const void *beta, void *const Carray[],
                                   cudaDataType Ctype, int ldc, int batchCount,
                                   cublasComputeType_t computeType, cublasGemmAlgo_t algo);
cublasStatus_t cublasGemmBatchedEx_64(cublasHandle_t handle, cublasOperation_t transa,
                                      cublasOperation_t transb, int64_t m, int64_t n, int64_t k,
                                      const void *alpha, const void *const Aarray[], cudaDataType Atype,
                                      int64_t lda, const void *const Barray[], cudaDataType Btype,
                                      int64_t ldb, const void *beta, void *const Carray[], cudaDataType Ctype,
                                      int64_t ldc, int64_t batchCount, cublasComputeType_t computeType,
                                      cublasGemmAlgo_t algo);

/* C = alpha op(A) + beta op(B) */
cublasStatus_t cublasSgeam(cublasHandle_t handle, cublasOperation_t transa, cublasOperation_t transb, int m,
                           int n, const float *alpha, const float *A, int lda, const float *beta,
                           const float *B, int ldb, float *C, int ldc);
cublasStatus_t cublasSgeam_64(cublasHandle_t handle, cublasOperation_t transa, cublasOperation_t transb,
                              int64_t m, int64_t n, const float *alpha, const float *A, int64_t lda,
                              const float *beta, const float *B, int64_t ldb, float *C, int64_t ldc);

/* Vectors. A result goes to the host, and the call waits for it, or to the device, by the pointer mode. */
cublasStatus_t cublasSaxpy_v2(cublasHandle_t handle, int n, const float *alpha, const float *x, int incx,
                              float *y, int incy);
cublasStatus_t cublasSaxpy_v2_64(cublasHandle_t handle, int64_t n, const float *alpha, const float *x,
                                 int64_t incx, float *y, int64_t incy);
cublasStatus_t cublasSscal_v2(cublasHandle_t handle, int n, const float *alpha, float *x, int incx);
cublasStatus_t cublasSscal_v2_64(cublasHandle_t handle, int64_t n, const float *alpha, float *x,
                                 int64_t incx);
cublasStatus_t cublasScopy_v2(cublasHandle_t handle, int n, const float *x, int incx, float *y, int incy);
cublasStatus_t cublasScopy_v2_64(cublasHandle_t handle, int64_t n, const float *x, int64_t incx, float *y,
                                 int64_t incy);
cublasStatus_t cublasSdot_v2(cublasHandle_t handle, int n, const float *x, int incx, const float *y, int incy,
                             float *result);
cublasStatus_t cublasSdot_v2_64(cublasHandle_t handle, int64_t n, const float *x, int64_t incx,
                                const float *y, int64_t incy, float *result);
cublasStatus_t cublasSnrm2_v2(cublasHandle_t handle, int n, const float *x, int incx, float *result);
cublasStatus_t cublasSnrm2_v2_64(cublasHandle_t handle, int64_t n, const float *x, int64_t incx,
                                 float *result);
cublasStatus_t cublasSasum_v2(cublasHandle_t handle, int n, const float *x, int incx, float *result);
cublasStatus_t cublasSasum_v2_64(cublasHandle_t handle, int64_t n, const float *x, int64_t incx,
                                 float *result);
cublasStatus_t cublasIsamax_v2(cublasHandle_t handle, int n, const float *x, int incx, int *result);
cublasStatus_t cublasIsamax_v2_64(cublasHandle_t handle, int64_t n, const float *x, int64_t incx,
                                  int64_t *result);
cublasStatus_t cublasIsamin_v2(cublasHandle_t handle, int n, const float *x, int incx, int *result);
cublasStatus_t cublasIsamin_v2_64(cublasHandle_t handle, int64_t n, const float *x, int64_t incx,
                                  int64_t *result);
cublasStatus_t cublasAxpyEx(cublasHandle_t handle, int n, const void *alpha, cudaDataType alphaType,
                            const void *x, cudaDataType xType, int incx, void *y, cudaDataType yType,
                            int incy, cudaDataType executiontype);
cublasStatus_t cublasAxpyEx_64(cublasHandle_t handle, int64_t n, const void *alpha, cudaDataType alphaType,
                               const void *x, cudaDataType xType, int64_t incx, void *y, cudaDataType yType,
                               int64_t incy, cudaDataType executiontype);
cublasStatus_t cublasScalEx(cublasHandle_t handle, int n, const void *alpha, cudaDataType alphaType, void *x,
                            cudaDataType xType, int incx, cudaDataType executionType);
cublasStatus_t cublasScalEx_64(cublasHandle_t handle, int64_t n, const void *alpha, cudaDataType alphaType,
                               void *x, cudaDataType xType, int64_t incx, cudaDataType executionType);
cublasStatus_t cublasCopyEx(cublasHandle_t handle, int n, const void *x, cudaDataType xType, int incx,
                            void *y, cudaDataType yType, int incy);
cublasStatus_t cublasCopyEx_64(cublasHandle_t handle, int64_t n, const void *x, cudaDataType xType,
                               int64_t incx, void *y, cudaDataType yType, int64_t incy);
cublasStatus_t cublasDotEx(cublasHandle_t handle, int n, const void *x, cudaDataType xType, int incx,
                           const void *y, cudaDataType yType, int incy, void *result, cudaDataType resultType,
                           cudaDataType executionType);
cublasStatus_t cublasDotEx_64(cublasHandle_t handle, int64_t n, const void *x, cudaDataType xType,
                              int64_t incx, const void *y, cudaDataType yType, int64_t incy, void *result,
                              cudaDataType resultType, cudaDataType executionType);
cublasStatus_t cublasNrm2Ex(cublasHandle_t handle, int n, const void *x, cudaDataType xType, int incx,
                            void *result, cudaDataType resultType, cudaDataType executionType);
cublasStatus_t cublasNrm2Ex_64(cublasHandle_t handle, int64_t n, const void *x, cudaDataType xType,
                               int64_t incx, void *result, cudaDataType resultType,
                               cudaDataType executionType);
cublasStatus_t cublasAsumEx(cublasHandle_t handle, int n, const void *x, cudaDataType xType, int incx,
                            void *result, cudaDataType resultType, cudaDataType executionType);
cublasStatus_t cublasAsumEx_64(cublasHandle_t handle, int64_t n, const void *x, cudaDataType xType,
                               int64_t incx, void *result, cudaDataType resultType,
                               cudaDataType executionType);
cublasStatus_t cublasIamaxEx(cublasHandle_t handle, int n, const void *x, cudaDataType xType, int incx,
                             int *result);
cublasStatus_t cublasIamaxEx_64(cublasHandle_t handle, int64_t n, const void *x, cudaDataType xType,
                                int64_t incx, int64_t *result);
cublasStatus_t cublasIaminEx(cublasHandle_t handle, int n, const void *x, cudaDataType xType, int incx,
                             int *result);
cublasStatus_t cublasIaminEx_64(cublasHandle_t handle, int64_t n, const void *x, cudaDataType xType,
                                int64_t incx, int64_t *result);

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
#define cublasDgemm          cublasDgemm_v2
#define cublasDgemm_64       cublasDgemm_v2_64
#define cublasSaxpy          cublasSaxpy_v2
#define cublasSaxpy_64       cublasSaxpy_v2_64
#define cublasSscal          cublasSscal_v2
#define cublasSscal_64       cublasSscal_v2_64
#define cublasScopy          cublasScopy_v2
#define cublasScopy_64       cublasScopy_v2_64
#define cublasSdot           cublasSdot_v2
#define cublasSdot_64        cublasSdot_v2_64
#define cublasSnrm2          cublasSnrm2_v2
#define cublasSnrm2_64       cublasSnrm2_v2_64
#define cublasSasum          cublasSasum_v2
#define cublasSasum_64       cublasSasum_v2_64
#define cublasIsamax         cublasIsamax_v2
#define cublasIsamax_64      cublasIsamax_v2_64
#define cublasIsamin         cublasIsamin_v2
#define cublasIsamin_64      cublasIsamin_v2_64
#endif

#ifdef __cplusplus
}
#endif
#endif
