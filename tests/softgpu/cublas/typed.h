/* typed.h: matrices and vectors of fp32, bf16, fp16 and fp64 on both sides, and a product's reference in double precision. The
 * conversions are written apart from the library's: by the compiler's half, and by scaling with frexp. */
#ifndef TYPED_H
#define TYPED_H

#include "cublas_test.h"

#include <math.h>

typedef struct array {
    cudaDataType type;
    size_t count;
    void *host, *device; /* owns both */
} array_t;

static inline size_t type_bytes(cudaDataType type)
{
    return type == CUDA_R_64F ? 8 : type == CUDA_R_32F ? 4 : 2;
}

/* The distance of 1 from the next number, halved: what rounding may cost. */
static inline double type_epsilon(cudaDataType type)
{
    return type == CUDA_R_64F   ? 0x1p-53
           : type == CUDA_R_32F ? 0x1p-24
           : type == CUDA_R_16F ? 0x1p-11
                                : 0x1p-8;
}

static inline double get(const array_t *a, size_t i)
{
    uint16_t bits16;
    uint32_t bits;
    float f;
    _Float16 h;
    switch (a->type) {
    case CUDA_R_64F:
        return ((const double *)a->host)[i];
    case CUDA_R_32F:
        return (double)((const float *)a->host)[i];
    case CUDA_R_16F:
        memcpy(&h, (const char *)a->host + 2 * i, 2);
        return (double)h;
    default:
        memcpy(&bits16, (const char *)a->host + 2 * i, 2);
        bits = (uint32_t)bits16 << 16;
        memcpy(&f, &bits, 4);
        return (double)f;
    }
}

/* The nearest bf16, ties to even, of a number that is not near its limits. */
static inline uint16_t nearest_bf16(double x)
{
    int exponent = 0;
    const double mantissa = frexp(x, &exponent);
    const float f = (float)ldexp(nearbyint(ldexp(mantissa, 8)), exponent - 8);
    uint32_t bits;
    memcpy(&bits, &f, 4);
    return isnan(x) ? 0x7fc0 : (uint16_t)(bits >> 16);
}

static inline void set(array_t *a, size_t i, double x)
{
    const _Float16 h = (_Float16)x;
    const uint16_t b = nearest_bf16(x);
    if (a->type == CUDA_R_64F)
        ((double *)a->host)[i] = x;
    else if (a->type == CUDA_R_32F)
        ((float *)a->host)[i] = (float)x;
    else if (a->type == CUDA_R_16F)
        memcpy((char *)a->host + 2 * i, &h, 2);
    else
        memcpy((char *)a->host + 2 * i, &b, 2);
}

static inline void upload(const array_t *a)
{
    OK(cudaMemcpy(a->device, a->host, a->count * type_bytes(a->type), cudaMemcpyHostToDevice));
}

static inline void download(array_t *a)
{
    OK(cudaMemcpy(a->host, a->device, a->count * type_bytes(a->type), cudaMemcpyDeviceToHost));
}

/* Random numbers in [-1, 1); with seed 0 NaN throughout. */
static inline array_t array_new(cudaDataType type, size_t count, uint64_t seed)
{
    array_t a = {.type = type, .count = count ? count : 1};
    a.host = malloc(a.count * type_bytes(type));
    assert_non_null(a.host);
    for (size_t i = 0; i < a.count; i++)
        set(&a, i, seed ? (double)random_float(&seed) : NAN);
    OK(cudaMalloc(&a.device, a.count * type_bytes(type)));
    upload(&a);
    return a;
}

/* Another with the same numbers. */
static inline array_t array_copy(const array_t *from)
{
    array_t a = array_new(from->type, from->count, 1);
    memcpy(a.host, from->host, from->count * type_bytes(from->type));
    upload(&a);
    return a;
}

static inline void array_free(array_t *a)
{
    OK(cudaFree(a->device));
    free(a->host);
    *a = (array_t){0};
}

/* A matrix inside an array: element (i,j) of op(matrix) is at offset + i + j ld, or, if transposed, the other way. */
typedef struct view {
    const array_t *array;
    size_t offset, ld;
    int transposed;
} view_t;

static inline double at(const view_t *v, size_t i, size_t j)
{
    return get(v->array, v->offset + (v->transposed ? j + i * v->ld : i + j * v->ld));
}

/* Row i of op(A) times column j of op(B), and the sum of magnitudes, which bounds the rounding. */
static inline double dot_product(const view_t *a, const view_t *b, size_t i, size_t j, size_t k,
                                 double *magnitude)
{
    double sum = 0;
    *magnitude = 0;
    for (size_t l = 0; l < k; l++) {
        const double x = at(a, i, l) * at(b, l, j);
        sum += x;
        *magnitude += fabs(x);
    }
    return sum;
}

/* How far a result stored in `type` may be from `want`, which was summed up from k terms of this total magnitude. */
static inline double tolerance(cudaDataType type, double want, double magnitude, size_t k)
{
    const double unit = type == CUDA_R_64F ? 0x1p-53 : 0x1p-24;
    return 2 * unit * (8 + 4 * sqrt((double)k)) * magnitude + type_epsilon(type) * fabs(want) * 1.01 +
           (type == CUDA_R_16F ? 0x1p-25 : 1e-30);
}

#endif
