/* Attention on matrix instructions, against double-precision references and against the kernels without them. On the software
 * device it runs in SIMT or checked mode, where every thread does what it does on a GPU. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fixture.h"
#include "model/kernels/kernels.h"
#include "reference.h"

/* One token, lengths on and off the tiles of 32 and 64; keys of their own and shared ones; lengths that Philox's counters
 * divide and others; both head sizes. */
typedef attention_shape_t shape_t; /* B, T, H, KV, D */
static const shape_t shapes[] = {{1, 1, 1, 1, 64},    {1, 7, 2, 1, 128},  {2, 64, 1, 1, 64},
                                 {1, 65, 2, 2, 128},  {1, 96, 1, 1, 128}, {2, 130, 4, 2, 64},
                                 {1, 131, 3, 1, 128}, {1, 200, 1, 1, 64}};
/* For checked mode, in which an access takes a hundred times as long. */
static const shape_t small_shapes[] = {{1, 7, 2, 1, 64}, {1, 70, 1, 1, 64}, {1, 69, 2, 1, 128}};

typedef struct argument {
    shape_t shape;
    dropout_t drop;
} argument_t;

static dropout_t dropout_of(double rate)
{
    return (dropout_t){(float)rate, 0xfedcba987654321u, 0xfffffff0u, NULL};
}

static reference_dropout_t reference_dropout(dropout_t drop)
{
    return (reference_dropout_t){(double)drop.rate, drop.seed, drop.offset};
}

static size_t rows_of(shape_t s)
{
    return (size_t)s.B * (size_t)s.T * (size_t)s.H;
}

static size_t qkv_elements(shape_t s)
{
    return (size_t)s.B * (size_t)s.T * (size_t)(s.H + 2 * s.KV) * (size_t)s.D;
}

/* Results on the device. */
typedef struct results {
    void *out, *dqkv;
    float *lse;
} results_t;

static results_t new_results(shape_t s)
{
    void *const out = fixture_output_elements(rows_of(s) * (size_t)s.D);
    return (results_t){out, fixture_output_elements(qkv_elements(s)), fixture_output(rows_of(s))};
}

static results_t by_matrix_instructions(const argument_t *a, const void *qkv, const void *dout)
{
    const results_t r = new_results(a->shape);
    void *const scratch = fixture_output(attention_tensor_backward_scratch(a->shape) / sizeof(float));
    fixture_ok(attention_tensor_forward(r.out, r.lse, qkv, a->shape, a->drop, NULL));
    fixture_ok(attention_tensor_backward(r.dqkv, dout, r.out, r.lse, qkv, a->shape, a->drop, scratch, NULL));
    return r;
}

static void reference_body(const void *argument)
{
    const argument_t *const a = argument;
    const shape_t s = a->shape;
    const size_t rows = rows_of(s), n = rows * (size_t)s.D, all = qkv_elements(s);
    double *qkv, *dout, *const out = fixture_doubles(n), *const lse = fixture_doubles(rows),
                               *const dqkv = fixture_doubles(all);
    const void *const qkv_device = fixture_elements(&qkv, all, 2), *const dout_device =
                                                                       fixture_elements(&dout, n, 1);
    const results_t r = by_matrix_instructions(a, qkv_device, dout_device);
    const reference_dropout_t drop = reference_dropout(a->drop);
    reference_attention_forward(out, lse, qkv, s.B, s.T, s.H, s.KV, s.D, drop);
    reference_attention_backward(dqkv, dout, qkv, s.B, s.T, s.H, s.KV, s.D, drop);
    fixture_match_elements("out", r.out, out, n);
    fixture_match("lse", r.lse, lse, rows);
    fixture_match_elements("dqkv", r.dqkv, dqkv, all);
}

static void all_shapes_match_reference(void **state)
{
    (void)state;
    const bool small = fixture_small();
    const size_t count = small ? sizeof small_shapes / sizeof *small_shapes : sizeof shapes / sizeof *shapes;
    for (size_t i = 0; i < count; i++)
        for (int dropped = 0; dropped < 2; dropped++)
            fixture_run(reference_body,
                        &(argument_t){small ? small_shapes[i] : shapes[i], dropout_of(dropped ? 0.3 : 0.0)});
}

/* What the device has, as numbers. */
static double *values_of(const void *device, size_t n)
{
    double *const values = fixture_doubles(n);
    uint16_t *const bits = (uint16_t *)fixture_doubles(n);
    fixture_ok(cudaMemcpy(bits, device, n * sizeof *bits, cudaMemcpyDeviceToHost));
    for (size_t i = 0; i < n; i++) {
        const uint32_t word = (uint32_t)bits[i] << 16;
        float x;
        memcpy(&x, &word, sizeof x);
        values[i] = (double)x;
    }
    return values;
}

/* The kernels without matrix instructions, with the same dropout. */
static void flash_body(const void *argument)
{
    const argument_t *const a = argument;
    const shape_t s = a->shape;
    const size_t rows = rows_of(s), n = rows * (size_t)s.D, all = qkv_elements(s);
    double *qkv, *dout, *const lse = fixture_doubles(rows);
    const void *const qkv_device = fixture_elements(&qkv, all, 2), *const dout_device =
                                                                       fixture_elements(&dout, n, 1);
    const results_t r = by_matrix_instructions(a, qkv_device, dout_device), f = new_results(s);
    void *const scratch = fixture_output(attention_backward_scratch(DTYPE_BF16, s) / sizeof(float));
    fixture_ok(attention_forward(DTYPE_BF16, f.out, f.lse, qkv_device, s, a->drop, NULL));
    fixture_ok(attention_backward(DTYPE_BF16, f.dqkv, dout_device, f.out, f.lse, qkv_device, s, a->drop,
                                  scratch, NULL));
    float *const host = (float *)fixture_doubles(rows);
    fixture_read(host, f.lse, rows);
    for (size_t i = 0; i < rows; i++)
        lse[i] = (double)host[i];
    fixture_match_elements("out", r.out, values_of(f.out, n), n);
    fixture_match("lse", r.lse, lse, rows);
    fixture_match_elements("dqkv", r.dqkv, values_of(f.dqkv, all), all);
}

static void agrees_with_the_kernels_without_matrix_instructions(void **state)
{
    (void)state;
    fixture_run(flash_body, &(argument_t){{1, 67, 2, 1, 64}, dropout_of(0.2)});
}

/* Scores far apart, the largest ones last: running maxima change in every tile, most probabilities underflow. */
static void growing_body(const void *argument)
{
    const argument_t *const a = argument;
    const shape_t s = a->shape;
    const size_t T = (size_t)s.T, D = (size_t)s.D, n = T * D;
    double *const qkv = fixture_doubles(3 * n), *const out = fixture_doubles(n),
                  *const lse = fixture_doubles(T), *const dqkv = fixture_doubles(3 * n), *dout;
    for (size_t i = 0; i < n; i++) {
        double *const row = qkv + i / D * 3 * D + i % D;
        row[0] = 1 + fixture_uniform() / 4;
        row[D] = 0.125 * (double)(i / D) + fixture_uniform();
        row[2 * D] = fixture_uniform();
    }
    const void *const qkv_device = fixture_given_elements(qkv, 3 * n), *const dout_device =
                                                                           fixture_elements(&dout, n, 1);
    const results_t r = by_matrix_instructions(a, qkv_device, dout_device);
    reference_attention_forward(out, lse, qkv, 1, s.T, 1, 1, s.D, reference_dropout(a->drop));
    reference_attention_backward(dqkv, dout, qkv, 1, s.T, 1, 1, s.D, reference_dropout(a->drop));
    fixture_match_elements("out", r.out, out, n);
    fixture_match("lse", r.lse, lse, T);
    /* dP - delta is the difference of nearly equal numbers, and delta is made from an output that has been rounded (the
     * kernels without matrix instructions are off by 9e-3). */
    fixture_match_elements_within("dqkv", r.dqkv, dqkv, 3 * n, 1e-5, 2e-2);
}

static void growing_scores_match_reference(void **state)
{
    (void)state;
    fixture_run(growing_body, &(argument_t){{1, fixture_small() ? 70 : 150, 1, 1, 64}, dropout_of(0)});
}

/* What is not a number reaches the rows that see it, and no others. */
static void nan_body(const void *argument)
{
    const argument_t *const a = argument;
    const shape_t s = a->shape;
    const size_t n = rows_of(s) * (size_t)s.D;
    double *qkv, one = 1;
    char *const qkv_device = fixture_elements(&qkv, qkv_elements(s), 1);
    const results_t r = new_results(s);
    fixture_ok(cudaMemset(qkv_device + 2 * ((40 * 3 + 1) * s.D + 5), 0xff, 2)); /* one element of key 40 */
    fixture_ok(attention_tensor_forward(r.out, r.lse, qkv_device, s, a->drop, NULL));
    const double *const out = values_of(r.out, n);
    for (size_t i = 0; i < n; i++)
        assert_true(isnan(out[i]) == (i / (size_t)s.D >= 40));
    fixture_match("", fixture_tensor(&one, 1), &one, 1);
}

static void forward_nan_reaches_the_rows_that_see_it(void **state)
{
    (void)state;
    fixture_run(nan_body, &(argument_t){{1, 70, 1, 1, 64}, dropout_of(0)});
}

static void other_head_sizes_are_refused(void **state)
{
    (void)state;
    const shape_t s = {1, 8, 1, 1, 32};
    assert_int_equal(attention_tensor_forward(NULL, NULL, NULL, s, dropout_of(0), NULL),
                     cudaErrorInvalidValue);
    assert_int_equal(attention_tensor_backward(NULL, NULL, NULL, NULL, NULL, s, dropout_of(0), NULL, NULL),
                     cudaErrorInvalidValue);
}

static int setup(void **state)
{
    const int failed = fixture_setup(state);
    int *usable, host = 0;
    fixture_use(DTYPE_BF16);
    fixture_ok(cudaMalloc((void **)&usable, sizeof *usable));
    fixture_ok(matrix_instructions_usable(usable, NULL));
    fixture_ok(cudaMemcpy(&host, usable, sizeof host, cudaMemcpyDeviceToHost));
    fixture_ok(cudaFree(usable));
    if (!host) {
        printf("no matrix instructions: skipped\n");
        exit(77);
    }
    return failed;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_shapes_match_reference),
        cmocka_unit_test(agrees_with_the_kernels_without_matrix_instructions),
        cmocka_unit_test(growing_scores_match_reference),
        cmocka_unit_test(forward_nan_reaches_the_rows_that_see_it),
        cmocka_unit_test(other_head_sizes_are_refused),
    };
    return cmocka_run_group_tests(tests, setup, fixture_teardown);
}
