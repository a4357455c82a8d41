/* vector.c: axpy, scal, copy, dot, nrm2, asum, iamax and iamin for fp32, and as ...Ex for bf16 and fp16 stored,
 * computed in fp32; with 32- and 64-bit sizes. */
#include "softgpu/blas/vector.h"
#include "softgpu/blas/element.h"
#include "softgpu/cublas/internal.h"

#include <string.h>

/* A call as the program makes it. Types that do not matter for a routine repeat type_x. */
typedef struct vector_call {
    int64_t n, incx, incy;
    const void *x;
    void *y, *result;
    const void *alpha;
    cudaDataType type_x, type_y, type_alpha, type_result, type_compute;
    int result_bytes;
} vector_call_t;

static int types_supported(const vector_call_t *c)
{
    return element_is_small_float((int32_t)c->type_x) && c->type_y == c->type_x &&
           c->type_result == c->type_x && c->type_alpha == CUDA_R_32F && c->type_compute == CUDA_R_32F;
}

static vector_arguments_t arguments_of(cublasHandle_t handle, const vector_call_t *c)
{
    vector_arguments_t p = {.x = c->x,
                            .y = c->y,
                            .result = c->result,
                            .shape = {.n = c->n,
                                      .incx = c->incx,
                                      .incy = c->incy,
                                      .chunk = c->n,
                                      .type = (int32_t)c->type_x,
                                      .result_bytes = c->result_bytes}};
    if (c->alpha && handle->pointer_mode == CUBLAS_POINTER_MODE_DEVICE)
        p.device_alpha = c->alpha;
    else if (c->alpha)
        p.shape.alpha = *(const float *)c->alpha;
    return p;
}

static cublasStatus_t launch(cublasHandle_t handle, blas_kernel_t kernel, vector_arguments_t *p,
                             int64_t blocks)
{
    void *arguments[] = {&p->x, &p->y, &p->result, &p->device_alpha, &p->shape};
    return blas_launch(&handle->base, handle->stream, kernel, blocks, arguments);
}

/* Routines that write a vector. */
static cublasStatus_t update(cublasHandle_t handle, blas_kernel_t kernel, const vector_call_t *c)
{
    enum { CHUNK = 1 << 16 };
    if (!blas_is_handle(handle))
        return CUBLAS_STATUS_NOT_INITIALIZED;
    if (kernel != BLAS_COPY && !c->alpha)
        return CUBLAS_STATUS_INVALID_VALUE;
    if (!types_supported(c))
        return CUBLAS_STATUS_NOT_SUPPORTED;
    if (c->n <= 0 || (kernel == BLAS_SCAL && c->incy <= 0))
        return CUBLAS_STATUS_SUCCESS;
    if (!c->y || (kernel != BLAS_SCAL && !c->x))
        return CUBLAS_STATUS_INVALID_VALUE;
    vector_arguments_t p = arguments_of(handle, c);
    if (c->incy != 0) /* else one block: all write the same element */
        p.shape.chunk = CHUNK;
    return launch(handle, kernel, &p, (c->n + p.shape.chunk - 1) / p.shape.chunk);
}

/* From the device to the host's variable; returns when it is there. */
static cublasStatus_t fetch(cublasHandle_t handle, void *result, size_t bytes)
{
    CUresult status = blas_driver.cuMemcpyDtoHAsync(result, handle->result, bytes, handle->stream);
    if (status == CUDA_SUCCESS)
        status = blas_driver.cuStreamSynchronize(handle->stream);
    return blas_status(status);
}

/* Routines with a result. As in BLAS, nothing is added up of an empty vector, and for those with one vector an
 * increment of 0 or less makes it empty. */
static cublasStatus_t reduce(cublasHandle_t handle, blas_kernel_t kernel, const vector_call_t *call)
{
    vector_call_t c = *call;
    if (!blas_is_handle(handle))
        return CUBLAS_STATUS_NOT_INITIALIZED;
    if (!c.result)
        return CUBLAS_STATUS_INVALID_VALUE;
    if (!types_supported(&c))
        return CUBLAS_STATUS_NOT_SUPPORTED;
    if (c.n < 0 || (kernel != BLAS_DOT && c.incx <= 0))
        c.n = 0;
    if (c.n > 0 && (!c.x || (kernel == BLAS_DOT && !c.y)))
        return CUBLAS_STATUS_INVALID_VALUE;
    const size_t bytes = c.result_bytes ? (size_t)c.result_bytes : (size_t)element_bytes((int32_t)c.type_x);
    vector_arguments_t p = arguments_of(handle, &c);
    if (handle->pointer_mode == CUBLAS_POINTER_MODE_DEVICE)
        return launch(handle, kernel, &p, 1);
    if (c.n == 0) {
        memset(c.result, 0, bytes);
        return CUBLAS_STATUS_SUCCESS;
    }
    CUresult allocated = handle->result ? CUDA_SUCCESS : blas_allocate(&handle->result, 16);
    if (allocated != CUDA_SUCCESS)
        return blas_status(allocated);
    p.result = (void *)(uintptr_t)handle->result;
    cublasStatus_t status = launch(handle, kernel, &p, 1);
    return status == CUBLAS_STATUS_SUCCESS ? fetch(handle, c.result, bytes) : status;
}

#define CALL(...) (&(const vector_call_t){__VA_ARGS__})
#define F32       CUDA_R_32F
#define ALL_F32   .type_x = F32, .type_y = F32, .type_alpha = F32, .type_result = F32, .type_compute = F32

/* Defines NAME_v2 and its kin for both types of sizes: the body is the same. */
#define BOTH_SIZES(DEFINE)                                                                                   \
    DEFINE(, int)                                                                                            \
    DEFINE(_64, int64_t)

#define DEFINE_FP32(suffix, size)                                                                            \
    cublasStatus_t cublasSaxpy_v2##suffix(cublasHandle_t handle, size n, const float *alpha, const float *x, \
                                          size incx, float *y, size incy)                                    \
    {                                                                                                        \
        return update(handle, BLAS_AXPY,                                                                     \
                      CALL(.n = n, .alpha = alpha, .x = x, .incx = incx, .y = y, .incy = incy, ALL_F32));    \
    }                                                                                                        \
    cublasStatus_t cublasSscal_v2##suffix(cublasHandle_t handle, size n, const float *alpha, float *x,       \
                                          size incx)                                                         \
    {                                                                                                        \
        return update(handle, BLAS_SCAL, CALL(.n = n, .alpha = alpha, .y = x, .incy = incx, ALL_F32));       \
    }                                                                                                        \
    cublasStatus_t cublasScopy_v2##suffix(cublasHandle_t handle, size n, const float *x, size incx,          \
                                          float *y, size incy)                                               \
    {                                                                                                        \
        return update(handle, BLAS_COPY, CALL(.n = n, .x = x, .incx = incx, .y = y, .incy = incy, ALL_F32)); \
    }                                                                                                        \
    cublasStatus_t cublasSdot_v2##suffix(cublasHandle_t handle, size n, const float *x, size incx,           \
                                         const float *y, size incy, float *result)                           \
    {                                                                                                        \
        return reduce(handle, BLAS_DOT,                                                                      \
                      CALL(.n = n, .x = x, .incx = incx, .y = (void *)(uintptr_t)y, .incy = incy,            \
                           .result = result, ALL_F32));                                                      \
    }                                                                                                        \
    cublasStatus_t cublasSnrm2_v2##suffix(cublasHandle_t handle, size n, const float *x, size incx,          \
                                          float *result)                                                     \
    {                                                                                                        \
        return reduce(handle, BLAS_NRM2, CALL(.n = n, .x = x, .incx = incx, .result = result, ALL_F32));     \
    }                                                                                                        \
    cublasStatus_t cublasSasum_v2##suffix(cublasHandle_t handle, size n, const float *x, size incx,          \
                                          float *result)                                                     \
    {                                                                                                        \
        return reduce(handle, BLAS_ASUM, CALL(.n = n, .x = x, .incx = incx, .result = result, ALL_F32));     \
    }                                                                                                        \
    cublasStatus_t cublasIsamax_v2##suffix(cublasHandle_t handle, size n, const float *x, size incx,         \
                                           size *result)                                                     \
    {                                                                                                        \
        return reduce(                                                                                       \
            handle, BLAS_IAMAX,                                                                              \
            CALL(.n = n, .x = x, .incx = incx, .result = result, .result_bytes = sizeof *result, ALL_F32));  \
    }                                                                                                        \
    cublasStatus_t cublasIsamin_v2##suffix(cublasHandle_t handle, size n, const float *x, size incx,         \
                                           size *result)                                                     \
    {                                                                                                        \
        return reduce(                                                                                       \
            handle, BLAS_IAMIN,                                                                              \
            CALL(.n = n, .x = x, .incx = incx, .result = result, .result_bytes = sizeof *result, ALL_F32));  \
    }

#define DEFINE_EX(suffix, size)                                                                              \
    cublasStatus_t cublasAxpyEx##suffix(cublasHandle_t handle, size n, const void *alpha,                    \
                                        cudaDataType alpha_type, const void *x, cudaDataType x_type,         \
                                        size incx, void *y, cudaDataType y_type, size incy,                  \
                                        cudaDataType execution_type)                                         \
    {                                                                                                        \
        return update(handle, BLAS_AXPY,                                                                     \
                      CALL(.n = n, .alpha = alpha, .x = x, .incx = incx, .y = y, .incy = incy,               \
                           .type_x = x_type, .type_y = y_type, .type_alpha = alpha_type,                     \
                           .type_result = x_type, .type_compute = execution_type));                          \
    }                                                                                                        \
    cublasStatus_t cublasScalEx##suffix(cublasHandle_t handle, size n, const void *alpha,                    \
                                        cudaDataType alpha_type, void *x, cudaDataType x_type, size incx,    \
                                        cudaDataType execution_type)                                         \
    {                                                                                                        \
        return update(handle, BLAS_SCAL,                                                                     \
                      CALL(.n = n, .alpha = alpha, .y = x, .incy = incx, .type_x = x_type, .type_y = x_type, \
                           .type_alpha = alpha_type, .type_result = x_type,                                  \
                           .type_compute = execution_type));                                                 \
    }                                                                                                        \
    cublasStatus_t cublasCopyEx##suffix(cublasHandle_t handle, size n, const void *x, cudaDataType x_type,   \
                                        size incx, void *y, cudaDataType y_type, size incy)                  \
    {                                                                                                        \
        return update(handle, BLAS_COPY,                                                                     \
                      CALL(.n = n, .x = x, .incx = incx, .y = y, .incy = incy, .type_x = x_type,             \
                           .type_y = y_type, .type_alpha = F32, .type_result = x_type,                       \
                           .type_compute = F32));                                                            \
    }                                                                                                        \
    cublasStatus_t cublasDotEx##suffix(cublasHandle_t handle, size n, const void *x, cudaDataType x_type,    \
                                       size incx, const void *y, cudaDataType y_type, size incy,             \
                                       void *result, cudaDataType result_type, cudaDataType execution_type)  \
    {                                                                                                        \
        return reduce(handle, BLAS_DOT,                                                                      \
                      CALL(.n = n, .x = x, .incx = incx, .y = (void *)(uintptr_t)y, .incy = incy,            \
                           .result = result, .type_x = x_type, .type_y = y_type, .type_alpha = F32,          \
                           .type_result = result_type, .type_compute = execution_type));                     \
    }                                                                                                        \
    cublasStatus_t cublasNrm2Ex##suffix(cublasHandle_t handle, size n, const void *x, cudaDataType x_type,   \
                                        size incx, void *result, cudaDataType result_type,                   \
                                        cudaDataType execution_type)                                         \
    {                                                                                                        \
        return reduce(handle, BLAS_NRM2,                                                                     \
                      CALL(.n = n, .x = x, .incx = incx, .result = result, .type_x = x_type,                 \
                           .type_y = x_type, .type_alpha = F32, .type_result = result_type,                  \
                           .type_compute = execution_type));                                                 \
    }                                                                                                        \
    cublasStatus_t cublasAsumEx##suffix(cublasHandle_t handle, size n, const void *x, cudaDataType x_type,   \
                                        size incx, void *result, cudaDataType result_type,                   \
                                        cudaDataType execution_type)                                         \
    {                                                                                                        \
        return reduce(handle, BLAS_ASUM,                                                                     \
                      CALL(.n = n, .x = x, .incx = incx, .result = result, .type_x = x_type,                 \
                           .type_y = x_type, .type_alpha = F32, .type_result = result_type,                  \
                           .type_compute = execution_type));                                                 \
    }                                                                                                        \
    cublasStatus_t cublasIamaxEx##suffix(cublasHandle_t handle, size n, const void *x, cudaDataType x_type,  \
                                         size incx, size *result)                                            \
    {                                                                                                        \
        return reduce(handle, BLAS_IAMAX,                                                                    \
                      CALL(.n = n, .x = x, .incx = incx, .result = result, .result_bytes = sizeof *result,   \
                           .type_x = x_type, .type_y = x_type, .type_alpha = F32, .type_result = x_type,     \
                           .type_compute = F32));                                                            \
    }                                                                                                        \
    cublasStatus_t cublasIaminEx##suffix(cublasHandle_t handle, size n, const void *x, cudaDataType x_type,  \
                                         size incx, size *result)                                            \
    {                                                                                                        \
        return reduce(handle, BLAS_IAMIN,                                                                    \
                      CALL(.n = n, .x = x, .incx = incx, .result = result, .result_bytes = sizeof *result,   \
                           .type_x = x_type, .type_y = x_type, .type_alpha = F32, .type_result = x_type,     \
                           .type_compute = F32));                                                            \
    }

BOTH_SIZES(DEFINE_FP32)
BOTH_SIZES(DEFINE_EX)
