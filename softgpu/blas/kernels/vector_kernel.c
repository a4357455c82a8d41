/* vector_kernel.c: the device side of the routines on vectors.
 *
 * A reduction is one block, which adds in an order that depends on n alone: into LANES sums, so that the loop
 * vectorises, and then those. Sums are fp64: squares of fp32 neither overflow nor vanish in it.
 */
#include "softgpu/blas/element.h"
#include "softgpu/blas/vector.h"

#include <math.h>
#include <string.h>

enum { ROOM = 2048, LANES = 16 };

/* Element `at` of a vector of n. */
static char *element(const void *p, int64_t n, int64_t inc, int32_t type, int64_t at)
{
    return (char *)(uintptr_t)p + (inc < 0 ? (at - (n - 1)) * inc : at * inc) * element_bytes(type);
}

static void load(const vector_arguments_t *p, const void *vector, int64_t inc, int64_t at, int64_t count,
                 float *to)
{
    element_load(to, element(vector, p->shape.n, inc, p->shape.type, at), count, inc, p->shape.type);
}

static void store(const vector_arguments_t *p, void *vector, int64_t inc, int64_t at, int64_t count,
                  const float *from)
{
    element_store(element(vector, p->shape.n, inc, p->shape.type, at), from, count, inc, p->shape.type);
}

static float alpha_of(const vector_arguments_t *p)
{
    return p->device_alpha ? *p->device_alpha : p->shape.alpha;
}

/* Calls body for the pieces of the blocks' chunks: `at` is where a piece begins, `piece` its length. A vector of which an element
 * is written again and again (increment 0) takes pieces of 1. */
#define FOR_PIECES(p, first, count, body)                                                                    \
    do {                                                                                                     \
        const int64_t end_ = (int64_t)((first) + (count)) * (p)->shape.chunk,                                \
                      last_ = end_ < (p)->shape.n ? end_ : (p)->shape.n, most_ = (p)->shape.incy ? ROOM : 1; \
        for (int64_t at = (int64_t)(first) * (p)->shape.chunk, piece; at < last_; at += piece) {             \
            piece = last_ - at < most_ ? last_ - at : most_;                                                 \
            body                                                                                             \
        }                                                                                                    \
    } while (0)

void vector_run_axpy(const softgpu_launch_t *launch, uint64_t first, uint64_t count)
{
    const vector_arguments_t *p = launch->params;
    const float alpha = alpha_of(p);
    float x[ROOM], y[ROOM];
    if (alpha == 0)
        return;
    FOR_PIECES(p, first, count, {
        load(p, p->x, p->shape.incx, at, piece, x);
        load(p, p->y, p->shape.incy, at, piece, y);
        for (int64_t i = 0; i < piece; i++)
            y[i] = fmaf(alpha, x[i], y[i]);
        store(p, p->y, p->shape.incy, at, piece, y);
    });
}

void vector_run_scal(const softgpu_launch_t *launch, uint64_t first, uint64_t count)
{
    const vector_arguments_t *p = launch->params;
    const float alpha = alpha_of(p);
    float y[ROOM];
    FOR_PIECES(p, first, count, {
        load(p, p->y, p->shape.incy, at, piece, y);
        for (int64_t i = 0; i < piece; i++)
            y[i] = alpha * y[i];
        store(p, p->y, p->shape.incy, at, piece, y);
    });
}

void vector_run_copy(const softgpu_launch_t *launch, uint64_t first, uint64_t count)
{
    const vector_arguments_t *p = launch->params;
    float x[ROOM];
    FOR_PIECES(p, first, count, {
        load(p, p->x, p->shape.incx, at, piece, x);
        store(p, p->y, p->shape.incy, at, piece, x);
    });
}

/* ---- reductions ---- */

typedef struct lanes {
    double sum[LANES];
} lanes_t;

static double total(const lanes_t *lanes)
{
    double sum = 0;
    for (int i = 0; i < LANES; i++)
        sum += lanes->sum[i];
    return sum;
}

/* sum += x[i] y[i]; what is missing at the end of a piece counts as 0. */
static void add_products(lanes_t *lanes, float *x, float *y, int64_t count)
{
    const int64_t whole = (count + LANES - 1) / LANES * LANES;
    for (int64_t i = count; i < whole; i++)
        x[i] = y[i] = 0;
    for (int64_t i = 0; i < whole; i += LANES)
        for (int l = 0; l < LANES; l++)
            lanes->sum[l] += (double)x[i + l] * (double)y[i + l];
}

static void store_result(const vector_arguments_t *p, double value)
{
    const float rounded = (float)value;
    element_store(p->result, &rounded, 1, 1, p->shape.type);
}

void vector_run_dot(const softgpu_launch_t *launch, uint64_t first, uint64_t count)
{
    const vector_arguments_t *p = launch->params;
    float x[ROOM], y[ROOM];
    lanes_t lanes = {{0}};
    (void)first, (void)count;
    for (int64_t at = 0; at < p->shape.n; at += ROOM) {
        const int64_t piece = p->shape.n - at < ROOM ? p->shape.n - at : ROOM;
        load(p, p->x, p->shape.incx, at, piece, x);
        load(p, p->y, p->shape.incy, at, piece, y);
        add_products(&lanes, x, y, piece);
    }
    store_result(p, total(&lanes));
}

void vector_run_nrm2(const softgpu_launch_t *launch, uint64_t first, uint64_t count)
{
    const vector_arguments_t *p = launch->params;
    float x[ROOM], y[ROOM];
    lanes_t lanes = {{0}};
    (void)first, (void)count;
    for (int64_t at = 0; at < p->shape.n; at += ROOM) {
        const int64_t piece = p->shape.n - at < ROOM ? p->shape.n - at : ROOM;
        load(p, p->x, p->shape.incx, at, piece, x);
        memcpy(y, x, (size_t)piece * sizeof *y);
        add_products(&lanes, x, y, piece);
    }
    store_result(p, sqrt(total(&lanes)));
}

void vector_run_asum(const softgpu_launch_t *launch, uint64_t first, uint64_t count)
{
    const vector_arguments_t *p = launch->params;
    float x[ROOM], y[ROOM];
    lanes_t lanes = {{0}};
    (void)first, (void)count;
    for (int64_t at = 0; at < p->shape.n; at += ROOM) {
        const int64_t piece = p->shape.n - at < ROOM ? p->shape.n - at : ROOM;
        load(p, p->x, p->shape.incx, at, piece, x);
        for (int64_t i = 0; i < piece; i++)
            y[i] = copysignf(1.0f, x[i]);
        add_products(&lanes, x, y, piece);
    }
    store_result(p, total(&lanes));
}

/* The first index, counted from 1, of the largest (sign 1) or smallest (sign -1) magnitude; 0 of an empty vector. */
static void find_extreme(const vector_arguments_t *p, float sign)
{
    float x[ROOM], best = 0;
    int64_t index = 0;
    for (int64_t at = 0; at < p->shape.n; at += ROOM) {
        const int64_t piece = p->shape.n - at < ROOM ? p->shape.n - at : ROOM;
        load(p, p->x, p->shape.incx, at, piece, x);
        for (int64_t i = 0; i < piece; i++) {
            const float value = sign * fabsf(x[i]);
            if (index == 0 || value > best) {
                best = value;
                index = at + i + 1;
            }
        }
    }
    if (p->shape.result_bytes == 8)
        *(int64_t *)p->result = index;
    else
        *(int32_t *)p->result = (int32_t)index;
}

void vector_run_iamax(const softgpu_launch_t *launch, uint64_t first, uint64_t count)
{
    (void)first, (void)count;
    find_extreme(launch->params, 1);
}

void vector_run_iamin(const softgpu_launch_t *launch, uint64_t first, uint64_t count)
{
    (void)first, (void)count;
    find_extreme(launch->params, -1);
}

/* Sums and y = a x + y: every vector is read, and y written where there is no result. */
softgpu_cost_t vector_cost(const softgpu_launch_t *launch)
{
    const vector_arguments_t *p = launch->params;
    const double n = (double)p->shape.n, bytes = (double)element_bytes(p->shape.type);
    const int vectors = (p->x ? 1 : 0) + (p->y ? 1 : 0) + (p->result ? 0 : 1);
    return (softgpu_cost_t){2 * n, SOFTGPU_FP32, vectors * n * bytes};
}

softgpu_cost_t vector_cost_copy(const softgpu_launch_t *launch)
{
    const vector_arguments_t *p = launch->params;
    return (softgpu_cost_t){0, SOFTGPU_FP32, 2 * (double)p->shape.n * (double)element_bytes(p->shape.type)};
}
