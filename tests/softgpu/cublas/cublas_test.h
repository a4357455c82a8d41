/* cublas_test.h: what the cuBLAS test programs share: a handle, device copies of host matrices, random
 * numbers. */
#ifndef CUBLAS_TEST_H
#define CUBLAS_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <cublas_v2.h>
#include <cuda_runtime_api.h>

#define OK(call)      assert_int_equal((call), cudaSuccess)
#define BLAS_OK(call) assert_int_equal((call), CUBLAS_STATUS_SUCCESS)

static cublasHandle_t handle;

static inline int blas_setup(void **state)
{
    (void)state;
    return cublasCreate(&handle) == CUBLAS_STATUS_SUCCESS ? 0 : -1;
}

static inline int blas_teardown(void **state)
{
    (void)state;
    return cublasDestroy(handle) == CUBLAS_STATUS_SUCCESS ? 0 : -1;
}

/* Uniform in [-1, 1), the same on every machine. */
static inline float random_float(uint64_t *seed)
{
    *seed = *seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (float)(int32_t)(*seed >> 32) / 2147483648.0f;
}

static inline float *random_matrix(size_t count, uint64_t seed)
{
    float *p = malloc((count ? count : 1) * sizeof *p);
    assert_non_null(p);
    for (size_t i = 0; i < count; i++)
        p[i] = random_float(&seed);
    return p;
}

/* A device copy of host[count]; freed with cudaFree. */
static inline float *to_device(const float *host, size_t count)
{
    void *p;
    OK(cudaMalloc(&p, (count ? count : 1) * sizeof *host));
    OK(cudaMemcpy(p, host, count * sizeof *host, cudaMemcpyHostToDevice));
    return p;
}

static inline void to_host(float *host, const float *device, size_t count)
{
    OK(cudaMemcpy(host, device, count * sizeof *host, cudaMemcpyDeviceToHost));
}

/* An operand on both sides. */
typedef struct operand {
    float *host, *device; /* owns both */
} operand_t;

/* Of random numbers; with `fill`, of that number throughout. */
static inline operand_t operand_new(size_t count, uint64_t seed, const float *fill)
{
    operand_t o = {.host = random_matrix(count, seed)};
    for (size_t i = 0; fill && i < count; i++)
        o.host[i] = *fill;
    o.device = to_device(o.host, count);
    return o;
}

static inline void operand_free(operand_t *o)
{
    OK(cudaFree(o->device));
    free(o->host);
    *o = (operand_t){NULL, NULL};
}

#endif
