/* Gradients in fewer bytes: the kernels against their definitions, and that nothing of a gradient is lost for good. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "model/base/check.h"
#include "model/base/rng.h"
#include "model/kernels/kernels.h"
#include "model/layers/compression.h"

#define SEED 20261127 /* of all random numbers here */

static float *upload(const float *host, size_t count)
{
    float *device;
    CUDA(cudaMalloc((void **)&device, count * sizeof *device));
    CUDA(cudaMemcpy(device, host, count * sizeof *device, cudaMemcpyHostToDevice));
    return device;
}

static void download(void *host, const void *device, size_t bytes)
{
    CUDA(cudaDeviceSynchronize());
    CUDA(cudaMemcpy(host, device, bytes, cudaMemcpyDeviceToHost));
}

static float *normals(size_t count, uint64_t key)
{
    float *values = malloc((count + 1) * sizeof *values);
    assert_non_null(values);
    for (size_t i = 0; i < count; i += 2) {
        double pair[2];
        rng_normal_pair(rng_at(SEED, key), i / 2, pair);
        values[i] = (float)pair[0];
        values[i + 1] = (float)pair[1];
    }
    return values;
}

/* ---- kernels ---- */

static void numbers_are_added(void **state)
{
    (void)state;
    static const size_t counts[] = {1, 1000, 16384, 16385, 40000};
    for (size_t c = 0; c < sizeof counts / sizeof *counts; c++) {
        const size_t n = counts[c];
        float *a = normals(n, 1), *b = normals(n, 2), *sum = upload(a, n), *x = upload(b, n);
        float *out = malloc(n * sizeof *out);
        CUDA(add_scaled(sum, x, -0.5f, n, NULL));
        download(out, sum, n * sizeof *out);
        for (size_t i = 0; i < n; i++)
            assert_true(out[i] == a[i] + -0.5f * b[i]);
        cudaFree(sum);
        cudaFree(x);
        free(a);
        free(b);
        free(out);
    }
}

static double product(const float *p, int rows, int columns, int a, int b)
{
    double sum = 0;
    for (int i = 0; i < rows; i++)
        sum += (double)p[i * columns + a] * (double)p[i * columns + b];
    return sum;
}

/* A column that is a sum of others, or nothing, is replaced; the others span what they did. */
static void columns_become_orthonormal(void **state)
{
    (void)state;
    static const int shapes[][2] = {{1, 1}, {5, 4}, {64, 8}, {1000, 4}, {3001, 3}};
    for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++)
        for (int poor = 0; poor < 3; poor++) {
            const int rows = shapes[s][0], columns = shapes[s][1];
            const size_t n = (size_t)rows * (size_t)columns;
            float *p = normals(n, 3 + s), *out = malloc(n * sizeof *out);
            for (int i = 0; i < rows; i++) {
                if (poor == 1) /* nothing */
                    p[i * columns + columns - 1] = 0;
                if (poor == 2 && columns > 2) /* a sum, as far as rounding allows */
                    p[i * columns + 1] = p[i * columns] * (1 + 1e-6f);
            }
            float *device = upload(p, n);
            CUDA(orthonormalize(device, rows, columns, NULL));
            download(out, device, n * sizeof *out);
            for (int a = 0; a < columns; a++)
                for (int b = 0; b <= a; b++)
                    if (fabs(product(out, rows, columns, a, b) - (a == b)) > 1e-5)
                        fail_msg("%d x %d, %d: columns %d and %d: %g", rows, columns, poor, a, b,
                                 product(out, rows, columns, a, b));
            for (int a = 0; a < columns && poor == 0;
                 a++) { /* what of the old column the new ones do not have */
                double rest = product(p, rows, columns, a, a);
                for (int b = 0; b < columns; b++) {
                    double along = 0;
                    for (int i = 0; i < rows; i++)
                        along += (double)p[i * columns + a] * (double)out[i * columns + b];
                    rest -= along * along;
                }
                assert_true(fabs(rest) < 1e-4 * rows);
            }
            cudaFree(device);
            free(p);
            free(out);
        }
}

typedef struct placed {
    uint32_t bits, place;
} placed_t;

static int by_size(const void *a, const void *b)
{
    const placed_t *x = a, *y = b;
    return x->bits != y->bits ? (x->bits < y->bits) - (x->bits > y->bits)
                              : (x->place > y->place) - (x->place < y->place);
}

static int by_place(const void *a, const void *b)
{
    const placed_t *x = a, *y = b;
    return (x->place > y->place) - (x->place < y->place);
}

static void check_top(const float *x, size_t n, size_t k)
{
    placed_t *sorted = malloc(n * sizeof *sorted);
    uint32_t *place, *places = malloc(k * sizeof *places);
    float *value, *values = malloc(k * sizeof *values), *rest = malloc(n * sizeof *rest),
                  *device = upload(x, n);
    void *scratch;
    CUDA(cudaMalloc((void **)&place, k * sizeof *place));
    CUDA(cudaMalloc((void **)&value, k * sizeof *value));
    CUDA(cudaMalloc(&scratch, top_scratch(n)));
    CUDA(take_top(place, value, device, n, k, scratch, NULL));
    download(places, place, k * sizeof *places);
    download(values, value, k * sizeof *values);
    download(rest, device, n * sizeof *rest);
    for (size_t i = 0; i < n; i++) {
        memcpy(&sorted[i].bits, &x[i], sizeof x[i]);
        sorted[i].bits &= 0x7fffffff;
        sorted[i].place = (uint32_t)i;
    }
    qsort(sorted, n, sizeof *sorted, by_size);
    qsort(sorted, k, sizeof *sorted, by_place);
    for (size_t i = 0; i < k; i++) {
        if (places[i] != sorted[i].place || memcmp(&values[i], &x[places[i]], sizeof *x) != 0)
            fail_msg("%zu of %zu: number %zu: %u, not %u", k, n, i, places[i], sorted[i].place);
        assert_true(rest[places[i]] == 0);
        rest[places[i]] = x[places[i]];
    }
    assert_memory_equal(rest, x, n * sizeof *x);

    /* And back. */
    memset(rest, 0, n * sizeof *rest);
    CUDA(cudaMemset(device, 0, n * sizeof *rest));
    CUDA(add_at(device, place, value, k, NULL));
    CUDA(add_at(device, place, value, k, NULL));
    for (size_t i = 0; i < k; i++)
        rest[places[i]] = values[i] + values[i];
    float *out = malloc(n * sizeof *out);
    download(out, device, n * sizeof *out);
    for (size_t i = 0; i < n; i++)
        assert_true(out[i] == rest[i] || (isnan(out[i]) && isnan(rest[i])));
    cudaFree(device);
    cudaFree(place);
    cudaFree(value);
    cudaFree(scratch);
    free(sorted);
    free(places);
    free(values);
    free(rest);
    free(out);
}

static void the_largest_are_taken(void **state)
{
    (void)state;
    static const size_t counts[] = {1, 7, 300, 16384, 16385, 70000};
    for (size_t c = 0; c < sizeof counts / sizeof *counts; c++)
        for (int kind = 0; kind < 4; kind++) {
            const size_t n = counts[c], wanted[] = {1, (n + 99) / 100, n / 2 + 1, n};
            float *x = normals(n, 20 + c);
            for (size_t i = 0; i < n; i++) {
                if (kind == 1) /* many are equal, of either sign */
                    x[i] = (float)((int)(x[i] * 2));
                else if (kind == 2) /* all are */
                    x[i] = i % 3 ? -0.0f : 0.0f;
                else if (kind == 3) /* what training can come to */
                    x[i] = i % 11 == 3  ? INFINITY
                           : i % 7 == 5 ? -NAN
                           : i % 5 == 0 ? x[i] * 1e-42f
                                        : x[i] * 1e30f;
            }
            for (size_t k = 0; k < sizeof wanted / sizeof *wanted; k++)
                check_top(x, n, wanted[k]);
            free(x);
        }
}

/* ---- PowerSGD, of one rank that takes itself for one of two ---- */

static void describe(layout_t *layout, layout_group_t *group, layout_tensor_t *tensors)
{
    *group = (layout_group_t){.count = 48 * 40 + 6 * 4 + 10};
    tensors[0] = (layout_tensor_t){.rows = 48, .columns = 40};
    tensors[1] = (layout_tensor_t){.rows = 6, .columns = 4, .offset = 48 * 40}; /* too small */
    tensors[2] = (layout_tensor_t){.rows = 1, .columns = 10, .offset = 48 * 40 + 24, .vector = true};
    *layout = (layout_t){.group_count = 1, .tensor_count = 3, .groups = group, .tensors = tensors};
}

/* M is what is owed from before and this step's gradient, as counted here. What is sent is its projection, so that the rest is at right angles
 * to it; all of it if M is a product of so thin matrices. */
static void what_is_lost_is_sent_later(void **state)
{
    (void)state;
    enum { RANK = 3, MATRIX = 48 * 40, COUNT = MATRIX + 6 * 4 + 10 };
    layout_t layout;
    layout_group_t group;
    layout_tensor_t tensors[3];
    gpu_t gpu;
    static float sent[COUNT];
    static double owed[MATRIX];
    describe(&layout, &group, tensors);
    gpu_open(&gpu, 0);
    ranks_t ranks = {.world.count = 2, .gpu = &gpu, .stream = gpu.stream};
    compression_t *compression = compression_open(&gpu, &ranks, &layout, COMPRESS_POWERSGD, RANK, 0, SEED);
    assert_int_equal(compression_bytes(compression), ((48 + 40) * RANK + 24 + 10) * sizeof(float));
    for (int step = 0; step < 40; step++) {
        float *g = normals(COUNT, 100 + (uint64_t)step);
        for (int i = 0; step == 0 && i < MATRIX; i++) /* three different rows */
            g[i] = g[i / 40 % RANK * 40 + i % 40];
        if (step >= 30) /* nothing new comes */
            memset(g, 0, COUNT * sizeof *g);
        float *device = upload(g, COUNT);
        compression_sum(compression, 0, device);
        download(sent, device, sizeof sent);
        double before = 0, rest = 0, across = 0, after = 0;
        for (int i = 0; i < MATRIX; i++) {
            const double m = owed[i] + (double)g[i], s = (double)sent[i];
            owed[i] = m - s / 2; /* of two ranks the sum is twice what each means */
            before += m * m;
            rest += (m - s) * (m - s);
            across += s * (m - s);
            after += owed[i] * owed[i];
        }
        if (fabs(across) > 1e-4 * before || after >= before || (step == 0 && rest > 1e-6 * before))
            fail_msg("step %d: of %g %g are not sent, %g along what is; %g are owed", step, before, rest,
                     across, after);
        assert_memory_equal(sent + MATRIX, g + MATRIX, (COUNT - MATRIX) * sizeof *g);
        cudaFree(device);
        free(g);
    }
    compression_close(compression);
    gpu_close(&gpu);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_are_added),
        cmocka_unit_test(columns_become_orthonormal),
        cmocka_unit_test(the_largest_are_taken),
        cmocka_unit_test(what_is_lost_is_sent_later),
    };
    return cmocka_run_group_tests_name("compression", tests, NULL, NULL);
}
