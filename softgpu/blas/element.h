/* element.h: elements of matrices and vectors: fp32, bf16, fp16 and, for storage only, fp64. */
#ifndef SOFTGPU_CUBLAS_ELEMENT_H
#define SOFTGPU_CUBLAS_ELEMENT_H

#include <library_types.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* 0: not a type of ours. */
static inline int64_t element_bytes(int32_t type)
{
    switch (type) {
    case CUDA_R_64F:
        return 8;
    case CUDA_R_32F:
        return 4;
    case CUDA_R_16BF:
    case CUDA_R_16F:
        return 2;
    default:
        return 0;
    }
}

static inline int element_is_small_float(int32_t type)
{
    return type == CUDA_R_32F || type == CUDA_R_16BF || type == CUDA_R_16F;
}

/* to[count] from elements of a type of at most 32 bits that lie `stride` elements apart (any stride). Exact. */
void element_load(float *to, const void *from, int64_t count, int64_t stride, int32_t type);
/* The way back, rounded to nearest, ties to even; too large becomes infinite, NaN stays NaN. */
void element_store(void *to, const float *from, int64_t count, int64_t stride, int32_t type);

/* kernels/gelu.cpp: GELU in its tanh form, x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))), and its derivative. */
void element_gelu(float *x, int64_t count);
void element_gelu_gradient(float *y, const float *x, int64_t count); /* y *= GELU'(x) */

#ifdef __cplusplus
}
#endif
#endif
