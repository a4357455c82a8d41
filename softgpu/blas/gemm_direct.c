/* gemm_direct.c: the device side of products of one type: each block is one single-threaded OpenBLAS call on its
 * tile of C.
 *
 * The sum over k is never split, so a tile's bits are those of one call of the tile's shape: they depend on the
 * shape only, not on threads, addresses or what else runs.
 */
#include "softgpu/blas/gemm.h"

#include <cblas.h>

typedef struct operands {
    const char *a, *b;
    char *c;
} operands_t;

static operands_t find_operands(const gemm_direct_t *p, int64_t batch, int64_t bytes, int tables)
{
    if (tables)
        return (operands_t){((const char *const *)p->a)[batch], ((const char *const *)p->b)[batch],
                            ((char *const *)p->c)[batch]};
    return (operands_t){(const char *)p->a + batch * p->shape.stride_a * bytes,
                        (const char *)p->b + batch * p->shape.stride_b * bytes,
                        (char *)p->c + batch * p->shape.stride_c * bytes};
}

static double scalar(const void *device, double value, int is_double)
{
    if (!device)
        return value;
    return is_double ? *(const double *)device : (double)*(const float *)device;
}

/* C is not read if beta is 0; then OpenBLAS stores zeros first. */
static void run(const softgpu_launch_t *launch, uint64_t first, uint64_t count, int is_double, int tables)
{
    const gemm_direct_t *p = launch->params;
    const struct gemm_direct_shape *s = &p->shape;
    const int64_t bytes = is_double ? 8 : 4;
    const CBLAS_TRANSPOSE ta = s->transpose_a ? CblasTrans : CblasNoTrans,
                          tb = s->transpose_b ? CblasTrans : CblasNoTrans;
    const double alpha = scalar(p->device_alpha, s->alpha, is_double),
                 beta = scalar(p->device_beta, s->beta, is_double);
    const int lda = (int)s->lda, ldb = (int)s->ldb, ldc = (int)s->ldc, k = (int)s->k;
    blas_prepare_thread();
    for (int64_t block = (int64_t)first; block < (int64_t)(first + count); block++) {
        const int64_t i = block % s->tiles.down * s->tiles.m,
                      j = block / s->tiles.down % s->tiles.across * s->tiles.n,
                      batch = block / s->tiles.down / s->tiles.across;
        const operands_t o = find_operands(p, batch, bytes, tables);
        const void *a = o.a + (s->transpose_a ? i * s->lda : i) * bytes,
                   *b = o.b + (s->transpose_b ? j : j * s->ldb) * bytes;
        void *c = o.c + (i + j * s->ldc) * bytes;
        const int rows = (int)(s->m - i < s->tiles.m ? s->m - i : s->tiles.m),
                  columns = (int)(s->n - j < s->tiles.n ? s->n - j : s->tiles.n);
        if (is_double)
            cblas_dgemm(CblasColMajor, ta, tb, rows, columns, k, alpha, a, lda, b, ldb, beta, c, ldc);
        else
            cblas_sgemm(CblasColMajor, ta, tb, rows, columns, k, (float)alpha, a, lda, b, ldb, (float)beta, c,
                        ldc);
    }
}

void gemm_run_direct_f32(const softgpu_launch_t *launch, uint64_t first, uint64_t count)
{
    run(launch, first, count, 0, 0);
}

void gemm_run_direct_f32_batched(const softgpu_launch_t *launch, uint64_t first, uint64_t count)
{
    run(launch, first, count, 0, 1);
}

void gemm_run_direct_f64(const softgpu_launch_t *launch, uint64_t first, uint64_t count)
{
    run(launch, first, count, 1, 0);
}

void gemm_run_direct_f64_batched(const softgpu_launch_t *launch, uint64_t first, uint64_t count)
{
    run(launch, first, count, 1, 1);
}

softgpu_cost_t gemm_cost_direct(const softgpu_launch_t *launch)
{
    const struct gemm_direct_shape *s = &((const gemm_direct_t *)launch->params)->shape;
    const double m = (double)s->m, n = (double)s->n, k = (double)s->k, batch = (double)s->batch,
                 bytes = s->arithmetic == SOFTGPU_FP64 ? 8 : 4;
    return (softgpu_cost_t){2 * m * n * k * batch, (softgpu_arithmetic_t)s->arithmetic,
                            bytes * (m * k + k * n + m * n) * batch};
}
