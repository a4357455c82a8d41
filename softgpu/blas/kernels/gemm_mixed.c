/* gemm_mixed.c: the device side of all other products: tiles summed in fp32 by OpenBLAS, then finished (finish.c).
 *
 * Factors in bf16 and fp16 are unpacked to fp32 piece by piece along k, each piece as long as the last, so that
 * bits depend on the shape only. Unpacked factors and a tile's sums are in scratch memory of the worker's.
 *
 * Split-K: blocks that share a tile leave their parts in the workspace. Either the last of them adds the parts up,
 * in the parts' order whatever the order of arrival, finishes the tile and puts its counter back to zero; or a
 * second kernel does (gemm_run_reduce).
 */
#include "softgpu/blas/element.h"
#include "softgpu/blas/gemm.h"

#include <cblas.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum { PIECE = 512 }; /* of k, for factors that are unpacked */

typedef struct scratch {
    float a[GEMM_LARGEST_M * PIECE], b[GEMM_LARGEST_N * PIECE], sums[GEMM_LARGEST_M * GEMM_LARGEST_N];
    double row_sums[GEMM_LARGEST_M];
} scratch_t;

static pthread_once_t scratch_once = PTHREAD_ONCE_INIT;
static pthread_key_t scratch_key; /* scratch_t, owned by its thread */
static int has_scratch_key;

static void make_scratch_key(void)
{
    has_scratch_key = !pthread_key_create(&scratch_key, free);
}

/* NULL: no memory; the launch has failed. */
static scratch_t *get_scratch(const softgpu_launch_t *launch)
{
    pthread_once(&scratch_once, make_scratch_key);
    scratch_t *s = has_scratch_key ? pthread_getspecific(scratch_key) : NULL;
    if (s)
        return s;
    s = has_scratch_key ? aligned_alloc(64, (sizeof *s + 63) / 64 * 64) : NULL;
    if (s && !pthread_setspecific(scratch_key, s))
        return s;
    free(s);
    launch->services->fail(CUDA_ERROR_OUT_OF_MEMORY, "no host memory for a product's sums",
                           (softgpu_place_t){__FILE__, __LINE__});
    return NULL;
}

/* With the addresses that its maps stand for. 0: they are none, and the launch has failed. */
static int read_arguments(const softgpu_launch_t *launch, gemm_mixed_t *p)
{
    const softgpu_services_t *device = launch->services;
    softgpu_tensor_t a, b, d;
    *p = *(const gemm_mixed_t *)launch->params;
    if (p->shape.mapped == GEMM_POINTERS)
        return 1;
    if (!device->read_tensor_map(p->maps.a, &a) || !device->read_tensor_map(p->maps.b, &b) ||
        !device->read_tensor_map(p->maps.d, &d)) {
        device->fail(CUDA_ERROR_ILLEGAL_INSTRUCTION, "a product of something that is no tensor map",
                     (softgpu_place_t){__FILE__, __LINE__});
        return 0;
    }
    p->a = a.at;
    p->b = b.at;
    p->d = d.at;
    if (p->shape.mapped == GEMM_MAPS_IN_PLACE)
        p->c = p->d;
    return 1;
}

static gemm_operands_t find_operands(const gemm_mixed_t *p, int64_t batch, int tables)
{
    const struct gemm_mixed_shape *s = &p->shape;
    const int64_t in = element_bytes(s->type_ab), out = element_bytes(s->type_d);
    if (tables)
        return (gemm_operands_t){((const char *const *)p->a)[batch], ((const char *const *)p->b)[batch],
                                 p->c ? ((const char *const *)p->c)[batch] : NULL,
                                 ((char *const *)p->d)[batch]};
    return (gemm_operands_t){(const char *)p->a + batch * s->stride_a * in,
                             (const char *)p->b + batch * s->stride_b * in,
                             p->c ? (const char *)p->c + batch * s->stride_c * out : NULL,
                             (char *)p->d + batch * s->stride_d * out};
}

static gemm_tile_t find_tile(const struct gemm_mixed_shape *s, int64_t index)
{
    gemm_tile_t t = {.index = index,
                     .batch = index / s->tiles.down / s->tiles.across,
                     .i = index % s->tiles.down * s->tiles.m,
                     .j = index / s->tiles.down % s->tiles.across * s->tiles.n};
    t.rows = s->m - t.i < s->tiles.m ? s->m - t.i : s->tiles.m;
    t.columns = s->n - t.j < s->tiles.n ? s->n - t.j : s->tiles.n;
    return t;
}

/* One factor's part in a tile: `length` rows of op(A) or columns of op(B), from `at`, and k in [k0, k0 + kc). Returns it in
 * fp32 with its leading dimension: where it lies, or unpacked. `along_k`: k runs along the columns in memory. */
static const float *unpack(const char *data, int64_t ld, int32_t type, int along_k, int64_t at,
                           int64_t length, int64_t k0, int64_t kc, float *room, int64_t *out_ld)
{
    const int64_t row = along_k ? k0 : at, column = along_k ? at : k0, rows = along_k ? kc : length,
                  columns = along_k ? length : kc;
    const char *from = data + (row + column * ld) * element_bytes(type);
    if (type == CUDA_R_32F) {
        *out_ld = ld;
        return (const float *)(const void *)from;
    }
    for (int64_t c = 0; c < columns; c++)
        element_load(room + c * rows, from + c * ld * element_bytes(type), rows, 1, type);
    *out_ld = rows;
    return room;
}

/* sums[rows,columns], ld apart, = op(A) op(B) over k in [k0, k1). */
static void multiply(const gemm_mixed_t *p, const gemm_operands_t *o, const gemm_tile_t *t, int64_t k0,
                     int64_t k1, scratch_t *scratch, float *sums, int64_t ld)
{
    const struct gemm_mixed_shape *s = &p->shape;
    const int64_t piece = s->type_ab == CUDA_R_32F ? k1 - k0 : PIECE;
    if (k1 <= k0)
        memset(sums, 0, (size_t)(ld * t->columns) * sizeof *sums);
    for (int64_t k = k0; k < k1; k += piece) {
        const int64_t kc = k1 - k < piece ? k1 - k : piece;
        int64_t lda, ldb;
        const float *a = unpack(o->a, s->lda, s->type_ab, s->transpose_a, t->i, t->rows, k, kc, scratch->a,
                                &lda),
                    *b = unpack(o->b, s->ldb, s->type_ab, !s->transpose_b, t->j, t->columns, k, kc,
                                scratch->b, &ldb);
        cblas_sgemm(CblasColMajor, s->transpose_a ? CblasTrans : CblasNoTrans,
                    s->transpose_b ? CblasTrans : CblasNoTrans, (int)t->rows, (int)t->columns, (int)kc, 1.0f,
                    a, (int)lda, b, (int)ldb, k == k0 ? 0.0f : 1.0f, sums, (int)ld);
    }
}

/* The factors are not read if alpha is 0. */
static int64_t depth(const gemm_mixed_t *p)
{
    return (p->device_alpha ? *p->device_alpha : p->shape.alpha) == 0 ? 0 : p->shape.k;
}

/* A tile as wide as C, where the sums of its rows are wanted, is wider than the scratch memory. */
static void run_whole(const gemm_mixed_t *p, const gemm_operands_t *o, const gemm_tile_t *tile,
                      scratch_t *scratch)
{
    const int sums_rows = p->shape.epilogue & GEMM_BGRAD;
    if (sums_rows)
        memset(scratch->row_sums, 0, sizeof scratch->row_sums);
    if (p->shape.epilogue & (GEMM_BGRADA | GEMM_BGRADB))
        gemm_sum_factor(p, o, tile);
    for (int64_t j = 0; j < tile->columns; j += GEMM_LARGEST_N) {
        gemm_tile_t part = *tile;
        part.j += j;
        part.columns = tile->columns - j < GEMM_LARGEST_N ? tile->columns - j : GEMM_LARGEST_N;
        multiply(p, o, &part, 0, depth(p), scratch, scratch->sums, part.rows);
        gemm_finish(p, o, &part, scratch->sums, scratch->row_sums);
    }
    if (sums_rows)
        gemm_store_row_sums(p, tile, scratch->row_sums);
}

static float *partial(const gemm_mixed_t *p, const gemm_tile_t *tile, int64_t split)
{
    const struct gemm_mixed_shape *s = &p->shape;
    return (float *)p->workspace + (tile->index * s->splits + split) * s->tiles.m * s->tiles.n;
}

/* Adds up a tile's parts, which lie `rows` apart as the sums do. */
static void reduce(const gemm_mixed_t *p, const gemm_operands_t *o, const gemm_tile_t *tile,
                   scratch_t *scratch)
{
    const int64_t count = tile->rows * tile->columns;
    float *sums = scratch->sums;
    memcpy(sums, partial(p, tile, 0), (size_t)count * sizeof *sums);
    for (int64_t split = 1; split < p->shape.splits; split++) {
        const float *part = partial(p, tile, split);
        for (int64_t i = 0; i < count; i++)
            sums[i] += part[i];
    }
    gemm_finish(p, o, tile, sums, NULL);
}

static void run_part(const gemm_mixed_t *p, const gemm_operands_t *o, const gemm_tile_t *tile, int64_t split,
                     scratch_t *scratch)
{
    const int64_t splits = p->shape.splits, k = depth(p), step = (k + splits - 1) / splits;
    const int64_t k0 = split * step < k ? split * step : k, k1 = k - k0 < step ? k : k0 + step;
    multiply(p, o, tile, k0, k1, scratch, partial(p, tile, split), tile->rows);
    if (!p->counters)
        return;
    _Atomic uint32_t *counter = (_Atomic uint32_t *)&p->counters[tile->index];
    if (atomic_fetch_add_explicit(counter, 1, memory_order_acq_rel) + 1 != (uint32_t)splits)
        return;
    reduce(p, o, tile, scratch);
    atomic_store_explicit(counter, 0, memory_order_relaxed);
}

static void run(const softgpu_launch_t *launch, uint64_t first, uint64_t count, int tables)
{
    gemm_mixed_t p;
    scratch_t *scratch = get_scratch(launch);
    const int ready = read_arguments(launch, &p);
    blas_prepare_thread();
    for (int64_t block = (int64_t)first; ready && scratch && block < (int64_t)(first + count); block++) {
        const gemm_tile_t tile = find_tile(&p.shape, block / p.shape.splits);
        const gemm_operands_t o = find_operands(&p, tile.batch, tables);
        if (p.shape.splits > 1)
            run_part(&p, &o, &tile, block % p.shape.splits, scratch);
        else
            run_whole(&p, &o, &tile, scratch);
    }
}

static void run_reduce(const softgpu_launch_t *launch, uint64_t first, uint64_t count, int tables)
{
    gemm_mixed_t p;
    scratch_t *scratch = get_scratch(launch);
    const int ready = read_arguments(launch, &p);
    for (int64_t block = (int64_t)first; ready && scratch && block < (int64_t)(first + count); block++) {
        const gemm_tile_t tile = find_tile(&p.shape, block);
        const gemm_operands_t o = find_operands(&p, tile.batch, tables);
        reduce(&p, &o, &tile, scratch);
    }
}

void gemm_run_mixed(const softgpu_launch_t *launch, uint64_t first, uint64_t count)
{
    run(launch, first, count, 0);
}

void gemm_run_mixed_batched(const softgpu_launch_t *launch, uint64_t first, uint64_t count)
{
    run(launch, first, count, 1);
}

void gemm_run_reduce(const softgpu_launch_t *launch, uint64_t first, uint64_t count)
{
    run_reduce(launch, first, count, 0);
}

void gemm_run_reduce_batched(const softgpu_launch_t *launch, uint64_t first, uint64_t count)
{
    run_reduce(launch, first, count, 1);
}

/* Bytes of C or D, bias and auxiliary matrix that finishing a product touches. */
static double finish_bytes(const gemm_mixed_t *p)
{
    const struct gemm_mixed_shape *s = &p->shape;
    const double cells = (double)s->m * (double)s->n, out = (double)element_bytes(s->type_d);
    double bytes = cells * out;
    if (p->device_beta || s->beta != 0)
        bytes += cells * out;
    if (s->epilogue & GEMM_AUX)
        bytes += s->epilogue & (GEMM_RELU | GEMM_DRELU) ? cells / 8 : cells * out;
    if (s->epilogue & (GEMM_BIAS | GEMM_BGRAD | GEMM_BGRADA))
        bytes += (double)s->m * out;
    return bytes;
}

softgpu_cost_t gemm_cost_mixed(const softgpu_launch_t *launch)
{
    const gemm_mixed_t *p = launch->params;
    const struct gemm_mixed_shape *s = &p->shape;
    const double m = (double)s->m, n = (double)s->n, k = (double)s->k, splits = s->splits;
    double bytes = (m * k + k * n) * (double)element_bytes(s->type_ab);
    bytes += splits > 1 ? splits * m * n * 4 * (p->counters ? 2 : 1) : 0;
    bytes += splits > 1 && !p->counters ? 0 : finish_bytes(p);
    return (softgpu_cost_t){2 * m * n * k * (double)s->batch, (softgpu_arithmetic_t)s->arithmetic,
                            bytes * (double)s->batch};
}

softgpu_cost_t gemm_cost_reduce(const softgpu_launch_t *launch)
{
    const gemm_mixed_t *p = launch->params;
    const double parts = (double)p->shape.m * (double)p->shape.n * (double)p->shape.batch * p->shape.splits;
    return (softgpu_cost_t){parts, SOFTGPU_FP32, parts * 4 + finish_bytes(p) * (double)p->shape.batch};
}
