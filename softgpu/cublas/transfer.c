/* transfer.c: cublasSetVector, cublasGetMatrix and the like: copies between host and device with strides. */
#include "softgpu/blas/device.h"

typedef struct transfer {
    int64_t rows, columns, element_bytes; /* columns of rows contiguous elements */
    const void *from;
    int64_t from_stride; /* elements from column to column */
    void *to;
    int64_t to_stride;
    int to_device;
} transfer_t;

static CUresult copy_flat(const transfer_t *t, int is_async, CUstream stream)
{
    const size_t bytes = (size_t)(t->rows * t->columns * t->element_bytes);
    const CUdeviceptr to = (CUdeviceptr)(uintptr_t)t->to, from = (CUdeviceptr)(uintptr_t)t->from;
    if (t->to_device)
        return is_async ? blas_driver.cuMemcpyHtoDAsync(to, t->from, bytes, stream)
                        : blas_driver.cuMemcpyHtoD(to, t->from, bytes);
    return is_async ? blas_driver.cuMemcpyDtoHAsync(t->to, from, bytes, stream)
                    : blas_driver.cuMemcpyDtoH(t->to, from, bytes);
}

static CUresult copy_strided(const transfer_t *t, int is_async, CUstream stream)
{
    const CUDA_MEMCPY2D copy = {
        .srcMemoryType = t->to_device ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE,
        .srcHost = t->to_device ? t->from : NULL,
        .srcDevice = t->to_device ? 0 : (CUdeviceptr)(uintptr_t)t->from,
        .srcPitch = (size_t)(t->from_stride * t->element_bytes),
        .dstMemoryType = t->to_device ? CU_MEMORYTYPE_DEVICE : CU_MEMORYTYPE_HOST,
        .dstHost = t->to_device ? NULL : t->to,
        .dstDevice = t->to_device ? (CUdeviceptr)(uintptr_t)t->to : 0,
        .dstPitch = (size_t)(t->to_stride * t->element_bytes),
        .WidthInBytes = (size_t)(t->rows * t->element_bytes),
        .Height = (size_t)t->columns,
    };
    return is_async ? blas_driver.cuMemcpy2DAsync(&copy, stream) : blas_driver.cuMemcpy2DUnaligned(&copy);
}

static cublasStatus_t transfer(const transfer_t *t, int is_async, CUstream stream)
{
    if (t->rows < 0 || t->columns < 0 || t->element_bytes <= 0 || t->from_stride < t->rows ||
        t->to_stride < t->rows)
        return CUBLAS_STATUS_INVALID_VALUE;
    cublasStatus_t status = blas_start();
    if (status != CUBLAS_STATUS_SUCCESS || t->rows == 0 || t->columns == 0)
        return status;
    int is_flat = t->columns == 1 || (t->from_stride == t->rows && t->to_stride == t->rows);
    CUresult result = is_flat ? copy_flat(t, is_async, stream) : copy_strided(t, is_async, stream);
    status = blas_status(result);
    return status == CUBLAS_STATUS_EXECUTION_FAILED ? CUBLAS_STATUS_MAPPING_ERROR : status;
}

/* A vector is a matrix of one row, or, if both increments are 1, of one column. */
static transfer_t vector(int64_t n, int64_t element_bytes, const void *x, int64_t incx, void *y, int64_t incy)
{
    if (incx == 1 && incy == 1)
        return (transfer_t){.rows = n,
                            .columns = 1,
                            .element_bytes = element_bytes,
                            .from = x,
                            .from_stride = n,
                            .to = y,
                            .to_stride = n};
    return (transfer_t){.rows = 1,
                        .columns = n,
                        .element_bytes = element_bytes,
                        .from = x,
                        .from_stride = incx,
                        .to = y,
                        .to_stride = incy};
}

/* Defines the four transfers of one direction for one type of sizes. */
#define DEFINE_TRANSFERS(set_vector, set_vector_async, set_matrix, set_matrix_async, size, direction)        \
    cublasStatus_t set_vector(size n, size elem, const void *x, size incx, void *y, size incy)               \
    {                                                                                                        \
        transfer_t t = vector(n, elem, x, incx, y, incy);                                                    \
        t.to_device = direction;                                                                             \
        return transfer(&t, 0, NULL);                                                                        \
    }                                                                                                        \
    cublasStatus_t set_vector_async(size n, size elem, const void *x, size incx, void *y, size incy,         \
                                    cudaStream_t stream)                                                     \
    {                                                                                                        \
        transfer_t t = vector(n, elem, x, incx, y, incy);                                                    \
        t.to_device = direction;                                                                             \
        return transfer(&t, 1, stream);                                                                      \
    }                                                                                                        \
    cublasStatus_t set_matrix(size rows, size cols, size elem, const void *A, size lda, void *B, size ldb)   \
    {                                                                                                        \
        return transfer(&(transfer_t){rows, cols, elem, A, lda, B, ldb, direction}, 0, NULL);                \
    }                                                                                                        \
    cublasStatus_t set_matrix_async(size rows, size cols, size elem, const void *A, size lda, void *B,       \
                                    size ldb, cudaStream_t stream)                                           \
    {                                                                                                        \
        return transfer(&(transfer_t){rows, cols, elem, A, lda, B, ldb, direction}, 1, stream);              \
    }

/* clang-format off */
DEFINE_TRANSFERS(cublasSetVector, cublasSetVectorAsync, cublasSetMatrix, cublasSetMatrixAsync, int, 1)
DEFINE_TRANSFERS(cublasGetVector, cublasGetVectorAsync, cublasGetMatrix, cublasGetMatrixAsync, int, 0)
DEFINE_TRANSFERS(cublasSetVector_64, cublasSetVectorAsync_64, cublasSetMatrix_64, cublasSetMatrixAsync_64,
                 int64_t, 1)
DEFINE_TRANSFERS(cublasGetVector_64, cublasGetVectorAsync_64, cublasGetMatrix_64, cublasGetMatrixAsync_64,
                 int64_t, 0)
/* clang-format on */
