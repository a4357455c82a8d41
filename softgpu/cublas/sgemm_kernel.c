/* sgemm_kernel.c: the device side: each block of the grid is one single-threaded OpenBLAS call on its tile of
 * C.
 *
 * The sum over k is never split, so a tile's bits are those of one cblas_sgemm of the tile's shape: they
 * depend on the shape only, not on threads, addresses or what else runs.
 */
#include "context.h"
#include "sgemm.h"
#include "softgpu/kernel_abi.h"

#include <cblas.h>
#include <stddef.h>

/* Tiles: large ones are efficient (OpenBLAS packs both operands of every tile anew), several are needed to
 * keep workers busy, and equally so. Chosen by measurement (tests/softgpu/cublas/measure_sgemm.c) on two
 * cores with AVX-512: one thread loses 2-5% against a single call for y and dx of a layer, 5-12% for dW,
 * whose sides are short. Columns of C are long in memory and cheap to cut between: n is divided first. */
enum {
    LARGEST_M = 1024,
    LARGEST_N = 512,
    UNIT = 16,      /* tiles are multiples of OpenBLAS's register tile */
    GOOD_COUNT = 8, /* enough tiles: made if they keep this side and this many multiply-adds */
    GOOD_SIDE = 256,
    GOOD_WORK = 1 << 24,
    FEW = 4, /* the fewest that are acceptable: for them, tiles may be as small as this */
    SMALLEST_SIDE = 64,
    SMALLEST_WORK = 1 << 20
};

static int64_t parts(int64_t length, int64_t step)
{
    return (length + step - 1) / step;
}

/* `length` in `count` nearly equal pieces, multiples of OpenBLAS's register tile. */
static int64_t piece(int64_t length, int64_t count)
{
    return parts(parts(length, count), UNIT) * UNIT;
}

/* Halves n while it is long, then the longer side. 0: the side would be too short, or the tile too little
 * work. */
static int halve(sgemm_shape_t *s, int64_t shortest, int64_t least_work)
{
    int64_t *side = s->tile_n > GOOD_SIDE || s->tile_n >= s->tile_m ? &s->tile_n : &s->tile_m;
    if (*side < 2 * shortest || s->tile_m * s->tile_n / 2 * s->k < least_work)
        return 0;
    *side = piece(*side, 2);
    return 1;
}

static int64_t tile_count(const sgemm_shape_t *s, int64_t batch)
{
    return parts(s->m, s->tile_m) * parts(s->n, s->tile_n) * batch;
}

void sgemm_choose_tile(sgemm_shape_t *s, int64_t batch)
{
    s->tile_m = piece(s->m, parts(s->m, LARGEST_M));
    s->tile_n = piece(s->n, parts(s->n, LARGEST_N));
    while (tile_count(s, batch) < GOOD_COUNT && halve(s, GOOD_SIDE, GOOD_WORK))
        ;
    while (tile_count(s, batch) < FEW && halve(s, SMALLEST_SIDE, SMALLEST_WORK))
        ;
}

typedef struct operands {
    const float *a, *b;
    float *c;
    float alpha, beta;
} operands_t;

/* C is not read if beta is 0; then OpenBLAS stores zeros first. */
static void run_tile(const sgemm_shape_t *s, const operands_t *o, int64_t i, int64_t j, int64_t batch)
{
    const float *a = o->a + batch * s->stride_a + (s->transpose_a ? i * s->lda : i);
    const float *b = o->b + batch * s->stride_b + (s->transpose_b ? j : j * s->ldb);
    float *c = o->c + batch * s->stride_c + i + j * s->ldc;
    int64_t rows = s->m - i < s->tile_m ? s->m - i : s->tile_m;
    int64_t columns = s->n - j < s->tile_n ? s->n - j : s->tile_n;
    cblas_sgemm(CblasColMajor, s->transpose_a ? CblasTrans : CblasNoTrans,
                s->transpose_b ? CblasTrans : CblasNoTrans, (int)rows, (int)columns, (int)s->k, o->alpha, a,
                (int)s->lda, b, (int)s->ldb, o->beta, c, (int)s->ldc);
}

static void run_blocks(const softgpu_launch_t *launch, uint64_t first, uint64_t count,
                       const sgemm_shape_t *shape, const operands_t *operands)
{
    const uint64_t wide = launch->grid[0], high = launch->grid[1];
    blas_prepare_thread();
    for (uint64_t block = first; block < first + count; block++)
        run_tile(shape, operands, (int64_t)(block % wide) * shape->tile_m,
                 (int64_t)(block / wide % high) * shape->tile_n, (int64_t)(block / wide / high));
}

static void run_sgemm(const softgpu_launch_t *launch, uint64_t first, uint64_t count)
{
    const sgemm_arguments_t *p = launch->params;
    const operands_t operands = {p->a, p->b, p->c, p->alpha, p->beta};
    run_blocks(launch, first, count, &p->shape, &operands);
}

static void run_sgemm_device_scalars(const softgpu_launch_t *launch, uint64_t first, uint64_t count)
{
    const sgemm_device_arguments_t *p = launch->params;
    const operands_t operands = {p->a, p->b, p->c, *p->alpha, *p->beta};
    run_blocks(launch, first, count, &p->shape, &operands);
}

/* the kernel table */

#define ARGUMENT(type, member)                                                                               \
    {                                                                                                        \
        offsetof(type, member), sizeof(((type *)0)->member)                                                  \
    }
#define ARGUMENTS(type)                                                                                      \
    {                                                                                                        \
        ARGUMENT(type, a), ARGUMENT(type, b), ARGUMENT(type, c), ARGUMENT(type, alpha),                      \
            ARGUMENT(type, beta), ARGUMENT(type, shape)                                                      \
    }

static const softgpu_param_t sgemm_params[] = ARGUMENTS(sgemm_arguments_t);
static const softgpu_param_t sgemm_device_params[] = ARGUMENTS(sgemm_device_arguments_t);
enum { PARAM_COUNT = sizeof sgemm_params / sizeof sgemm_params[0] };

const char *const blas_kernel_names[BLAS_KERNEL_COUNT] = {
    [BLAS_SGEMM] = "softgpu_sgemm",
    [BLAS_SGEMM_DEVICE_SCALARS] = "softgpu_sgemm_device_scalars",
};

static softgpu_cost_t cost_of(const sgemm_shape_t *s, uint32_t batch)
{
    double m = (double)s->m, n = (double)s->n, k = (double)s->k;
    return (softgpu_cost_t){2 * m * n * k * batch, SOFTGPU_FP32, 4 * (m * k + k * n + m * n) * batch};
}

static softgpu_cost_t cost_sgemm(const softgpu_launch_t *l)
{
    return cost_of(&((const sgemm_arguments_t *)l->params)->shape, l->grid[2]);
}

static softgpu_cost_t cost_sgemm_device_scalars(const softgpu_launch_t *l)
{
    return cost_of(&((const sgemm_device_arguments_t *)l->params)->shape, l->grid[2]);
}

static const softgpu_kernel_t sgemm = {
    "softgpu_sgemm", PARAM_COUNT, sgemm_params, {[SOFTGPU_FAST] = run_sgemm}, cost_sgemm};
static const softgpu_kernel_t sgemm_device_scalars = {"softgpu_sgemm_device_scalars",
                                                      PARAM_COUNT,
                                                      sgemm_device_params,
                                                      {[SOFTGPU_FAST] = run_sgemm_device_scalars},
                                                      cost_sgemm_device_scalars};
static const softgpu_kernel_t *const kernel_list[] = {&sgemm, &sgemm_device_scalars};

extern const softgpu_kernel_table_t softgpu_kernel_table;
const softgpu_kernel_table_t softgpu_kernel_table = {SOFTGPU_ABI_VERSION, BLAS_KERNEL_COUNT, kernel_list};
