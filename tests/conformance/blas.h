/* blas.h: what the cases of cuBLAS and cuBLASLt share. Matrices are column-major. Numbers are small integers where the
 * result can be so: then every order of adding up gives the same, and what is rounded is known. */
#ifndef CONFORMANCE_BLAS_H
#define CONFORMANCE_BLAS_H

#include "conformance.h"

#include <cublas_v2.h>
#include <math.h>
#include <pthread.h>

static inline bool blas_expect(int got, int want, const char *call, const char *file, int line)
{
    if (got == want)
        return true;
    conformance_failures++;
    printf("%s:%d: %s: status %d, expected %d\n", file, line, call, got, want);
    return false;
}

/* The call returns this status. */
#define BLAS_EXPECT(status, call) ((void)blas_expect((int)(call), (int)(status), #call, __FILE__, __LINE__))

/* The call succeeds, or nothing that follows makes sense. */
#define BLAS(call)                                                                                           \
    do {                                                                                                     \
        if (!blas_expect((int)(call), (int)CUBLAS_STATUS_SUCCESS, #call, __FILE__, __LINE__))                \
            exit(1);                                                                                         \
    } while (0)

static inline cublasHandle_t new_handle(CUstream stream)
{
    cublasHandle_t handle = NULL;
    BLAS(cublasCreate(&handle));
    BLAS(cublasSetStream(handle, stream));
    return handle;
}

static inline void *to_device(const void *host, size_t bytes)
{
    CUdeviceptr p = device_alloc(bytes);
    OK(cuMemcpyHtoD(p, host, bytes));
    return (void *)(uintptr_t)p;
}

static inline void to_host(void *host, const void *device_memory, size_t bytes)
{
    OK(cuMemcpyDtoH(host, (CUdeviceptr)(uintptr_t)device_memory, bytes));
}

/* The same for floats; count[n] small integers from -3 to 3, the same on every machine. */
static inline float *integers(size_t count, unsigned seed)
{
    float *p = malloc(count * sizeof *p);
    for (size_t i = 0; i < count; i++) {
        seed = seed * 1664525u + 1013904223u;
        p[i] = (float)((int)(seed >> 24) % 7 - 3);
    }
    return p;
}

/* C[m,n] = A[m,k] B[k,n] on the host, leading dimensions m, k and m. */
static inline float *product_of(const float *a, const float *b, int m, int n, int k)
{
    float *c = calloc((size_t)m * (size_t)n, sizeof *c);
    for (int j = 0; j < n; j++)
        for (int l = 0; l < k; l++)
            for (int i = 0; i < m; i++)
                c[i + j * m] += a[i + l * m] * b[l + j * k];
    return c;
}

static inline bool same(const float *a, const float *b, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (!(a[i] == b[i])) {
            printf("element %zu is %g, not %g\n", i, (double)a[i], (double)b[i]);
            return false;
        }
    return true;
}

static inline bool near(const float *a, const float *b, size_t count, float tolerance)
{
    for (size_t i = 0; i < count; i++)
        if (!(fabsf(a[i] - b[i]) <= tolerance * (1 + fabsf(b[i])))) {
            printf("element %zu is %g, not near %g\n", i, (double)a[i], (double)b[i]);
            return false;
        }
    return true;
}

/* 16-bit types: from floats that they hold exactly, and back. */
static inline uint16_t bf16_of(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return (uint16_t)(bits >> 16);
}

static inline float float_of_bf16(uint16_t h)
{
    const uint32_t bits = (uint32_t)h << 16;
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static inline uint16_t *bf16s(const float *from, size_t count)
{
    uint16_t *p = malloc(count * sizeof *p);
    for (size_t i = 0; i < count; i++)
        p[i] = bf16_of(from[i]);
    return p;
}

#endif
