/* geam_kernel.c: the device side of the sum of two matrices: squares of C, a column at a time; a transposed operand is
 * read across its columns, which a square's worth of cache makes bearable. */
#include "softgpu/blas/element.h"
#include "softgpu/blas/vector.h"

#include <math.h>

/* x[rows] = factor times column j, from row i, of op(matrix), plus x if `add`. */
static void add_column(float *x, float factor, const char *matrix, int64_t ld, int32_t type, int transposed,
                       int64_t i, int64_t j, int64_t rows, int add)
{
    float room[GEAM_TILE];
    const int64_t at = transposed ? j + i * ld : i + j * ld;
    element_load(room, matrix + at * element_bytes(type), rows, transposed ? ld : 1, type);
    for (int64_t r = 0; r < rows; r++)
        x[r] = add ? fmaf(factor, room[r], x[r]) : factor * room[r];
}

static void run_square(const geam_arguments_t *p, float alpha, float beta, int64_t batch, int64_t i,
                       int64_t j)
{
    const struct geam_shape *s = &p->shape;
    const int64_t rows = s->m - i < GEAM_TILE ? s->m - i : GEAM_TILE,
                  end = s->n - j < GEAM_TILE ? s->n : j + GEAM_TILE;
    const char *a = (const char *)p->a + batch * s->stride_a * element_bytes(s->type_a),
               *b = (const char *)p->b + batch * s->stride_b * element_bytes(s->type_b);
    char *c = (char *)p->c + batch * s->stride_c * element_bytes(s->type_c);
    for (; j < end; j++) {
        float x[GEAM_TILE] = {0};
        if (alpha != 0)
            add_column(x, alpha, a, s->lda, s->type_a, s->transpose_a, i, j, rows, 0);
        if (beta != 0)
            add_column(x, beta, b, s->ldb, s->type_b, s->transpose_b, i, j, rows, alpha != 0);
        element_store(c + (i + j * s->ldc) * element_bytes(s->type_c), x, rows, 1, s->type_c);
    }
}

void geam_run(const softgpu_launch_t *launch, uint64_t first, uint64_t count)
{
    const geam_arguments_t *p = launch->params;
    const float alpha = p->device_alpha ? *p->device_alpha : p->shape.alpha,
                beta = p->device_beta ? *p->device_beta : p->shape.beta;
    const int64_t down = (p->shape.m + GEAM_TILE - 1) / GEAM_TILE,
                  across = (p->shape.n + GEAM_TILE - 1) / GEAM_TILE;
    for (int64_t block = (int64_t)first; block < (int64_t)(first + count); block++)
        run_square(p, alpha, beta, block / down / across, block % down * GEAM_TILE,
                   block / down % across * GEAM_TILE);
}

softgpu_cost_t geam_cost(const softgpu_launch_t *launch)
{
    const geam_arguments_t *p = launch->params;
    const struct geam_shape *s = &p->shape;
    const double cells = (double)s->m * (double)s->n * (double)s->batch;
    double bytes = (double)element_bytes(s->type_c);
    bytes += p->device_alpha || s->alpha != 0 ? (double)element_bytes(s->type_a) : 0;
    bytes += p->device_beta || s->beta != 0 ? (double)element_bytes(s->type_b) : 0;
    return (softgpu_cost_t){3 * cells, SOFTGPU_FP32, cells * bytes};
}
