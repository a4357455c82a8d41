/* vector.h: routines on vectors (BLAS level 1) and the sum of two matrices, as they go from vector.c, geam.c and
 * cublaslt/transform.c to their kernels.
 */
#ifndef SOFTGPU_CUBLAS_VECTOR_H
#define SOFTGPU_CUBLAS_VECTOR_H

#include "softgpu/kernel_abi.h"

#include <stdint.h>

/* The arguments of all vector kernels. y[] = alpha x[] + y[] and the like, or a result from x and y. Elements are stored
 * as `type` and computed with in fp32, sums in fp64. A vector with a negative increment begins at its last element. */
typedef struct vector_arguments {
    const void *x;
    void *y;
    void *result;
    const float *device_alpha; /* instead of alpha, if not NULL */
    struct vector_shape {
        int64_t n, incx, incy;
        int64_t chunk; /* elements of a block; n for reductions, whose one block adds in a fixed order */
        float alpha;
        int32_t type;         /* cudaDataType of x and y */
        int32_t result_bytes; /* of an index: 4 or 8 */
    } shape;
} vector_arguments_t;

void vector_run_axpy(const softgpu_launch_t *launch, uint64_t first, uint64_t count); /* y += alpha x */
void vector_run_scal(const softgpu_launch_t *launch, uint64_t first, uint64_t count); /* y *= alpha */
void vector_run_copy(const softgpu_launch_t *launch, uint64_t first, uint64_t count); /* y = x */
void vector_run_dot(const softgpu_launch_t *launch, uint64_t first, uint64_t count);
void vector_run_nrm2(const softgpu_launch_t *launch, uint64_t first, uint64_t count);
void vector_run_asum(const softgpu_launch_t *launch, uint64_t first, uint64_t count);
void vector_run_iamax(const softgpu_launch_t *launch, uint64_t first, uint64_t count);
void vector_run_iamin(const softgpu_launch_t *launch, uint64_t first, uint64_t count);
softgpu_cost_t vector_cost(const softgpu_launch_t *launch);
softgpu_cost_t vector_cost_copy(const softgpu_launch_t *launch);

/* C = alpha op(A) + beta op(B), column-major; each may have a type of its own. A factor of 0: the matrix is not read. */
typedef struct geam_arguments {
    const void *a, *b;
    void *c;
    const float *device_alpha, *device_beta;
    struct geam_shape {
        int64_t m, n, batch;
        int64_t lda, ldb, ldc, stride_a, stride_b, stride_c;
        float alpha, beta;
        int32_t transpose_a, transpose_b;
        int32_t type_a, type_b, type_c, reserved;
    } shape;
} geam_arguments_t;

enum { GEAM_TILE = 128 }; /* a block's square of C */
static inline int64_t geam_block_count(const struct geam_shape *s)
{
    return (s->m + GEAM_TILE - 1) / GEAM_TILE * ((s->n + GEAM_TILE - 1) / GEAM_TILE) * s->batch;
}
void geam_run(const softgpu_launch_t *launch, uint64_t first, uint64_t count);
softgpu_cost_t geam_cost(const softgpu_launch_t *launch);

#endif
