/* Attention, tiled and naive, against double-precision references. */
#include <math.h>
#include <string.h>

#include "fixture.h"
#include "kernels.h"
#include "reference.h"

/* One token, lengths around and off the tiles (multiples of 8, 16, 32, 64 and none), every padded head size
 * and some below it; many heads (backward works head by head) and few (by slices). */
typedef struct shape {
    int B, T, H, D;
} shape_t;
static const shape_t shapes[] = {{1, 1, 1, 8},    {2, 1, 3, 32},   {1, 7, 2, 16},   {2, 33, 2, 40},
                                 {1, 64, 2, 64},  {2, 65, 1, 128}, {1, 130, 2, 32}, {1, 128, 1, 128},
                                 {2, 100, 3, 40}, {1, 200, 1, 64}, {3, 31, 1, 1},   {1, 70, 2, 100},
                                 {8, 65, 4, 32},  {4, 140, 8, 16}, {4, 129, 8, 64}, {5, 40, 7, 128}};

/* The same in small, for modes in which an access takes a hundred times as long. */
static const shape_t small_shapes[] = {{1, 1, 1, 8},  {1, 7, 2, 16}, {1, 33, 1, 40}, {1, 35, 1, 128},
                                       {1, 70, 1, 1}, {4, 9, 4, 32}, {2, 33, 8, 64}, {2, 9, 8, 100}};

typedef struct argument {
    shape_t shape;
    double rate;
    int in_place;
} argument_t;

static void for_shapes(void (*body)(const void *))
{
    const bool small = fixture_small();
    const size_t count = small ? sizeof small_shapes / sizeof *small_shapes : sizeof shapes / sizeof *shapes;
    for (size_t i = 0; i < count; i++) {
        for (int dropped = 0; dropped < 2; dropped++) {
            const argument_t a = {small ? small_shapes[i] : shapes[i], dropped ? 0.3 : 0.0, 0};
            fixture_run(body, &a);
        }
    }
}

static dropout_t kernel_dropout(double rate)
{
    return (dropout_t){(float)rate, 0xfedcba987654321u, 0xfffffff0u};
}

static reference_dropout_t reference_dropout(double rate)
{
    return (reference_dropout_t){(double)(float)rate, 0xfedcba987654321u, 0xfffffff0u};
}

static void attention_body(const void *argument)
{
    const argument_t *const a = argument;
    const int B = a->shape.B, T = a->shape.T, H = a->shape.H, D = a->shape.D;
    const size_t rows = (size_t)B * (size_t)T * (size_t)H, n = rows * (size_t)D;
    double *qkv, *dout, *const out = fixture_doubles(n), *const lse = fixture_doubles(rows),
                               *const dqkv = fixture_doubles(3 * n);
    const float *const qkv_device = fixture_random(&qkv, 3 * n, 2), *const dout_device =
                                                                        fixture_random(&dout, n, 1);
    float *const out_device = fixture_output(n), *const lse_device = fixture_output(rows);
    float *const dqkv_device = fixture_output(3 * n), *const delta = fixture_output(rows);
    const dropout_t drop = kernel_dropout(a->rate);
    fixture_ok(attention_forward(out_device, lse_device, qkv_device, B, T, H, D, drop, NULL));
    fixture_ok(attention_backward(dqkv_device, delta, dout_device, out_device, lse_device, qkv_device, B, T,
                                  H, D, drop, NULL));
    reference_attention_forward(out, lse, qkv, B, T, H, D, reference_dropout(a->rate));
    reference_attention_backward(dqkv, dout, qkv, B, T, H, D, reference_dropout(a->rate));
    fixture_match("out", out_device, out, n);
    fixture_match("lse", lse_device, lse, rows);
    fixture_match("dqkv", dqkv_device, dqkv, 3 * n);
}

static void attention_all_shapes_match_reference(void **state)
{
    (void)state;
    for_shapes(attention_body);
}

/* Scores far apart, the largest ones last: running maxima change in every tile, most probabilities underflow.
 */
static void attention_growing_body(const void *argument)
{
    (void)argument;
    enum { T = 150, D = 32 };
    double qkv[T * 3 * D], out[T * D], lse[T], dqkv[T * 3 * D], *dout;
    for (int t = 0; t < T; t++) {
        for (int d = 0; d < D; d++) {
            qkv[(t * 3 + 0) * D + d] = 1 + fixture_uniform() / 4;
            qkv[(t * 3 + 1) * D + d] = 0.25 * t + fixture_uniform();
            qkv[(t * 3 + 2) * D + d] = fixture_uniform();
        }
    }
    const float *const qkv_device = fixture_tensor(qkv, T * 3 * D), *const dout_device =
                                                                        fixture_random(&dout, T * D, 1);
    float *const out_device = fixture_output(T * D), *const lse_device = fixture_output(T);
    float *const dqkv_device = fixture_output(T * 3 * D), *const delta = fixture_output(T);
    const dropout_t none = {0, 0, 0};
    fixture_ok(attention_forward(out_device, lse_device, qkv_device, 1, T, 1, D, none, NULL));
    fixture_ok(attention_backward(dqkv_device, delta, dout_device, out_device, lse_device, qkv_device, 1, T,
                                  1, D, none, NULL));
    reference_attention_forward(out, lse, qkv, 1, T, 1, D, (reference_dropout_t){0, 0, 0});
    reference_attention_backward(dqkv, dout, qkv, 1, T, 1, D, (reference_dropout_t){0, 0, 0});
    /* Scores near 200 have an absolute rounding error near 1e-5 in float; probabilities have it as a relative
     * one. */
    fixture_match_within("out", out_device, out, T * D, 1e-4);
    fixture_match("lse", lse_device, lse, T);
    fixture_match_within("dqkv", dqkv_device, dqkv, T * 3 * D, 1e-3);
}

static void attention_growing_scores_match_reference(void **state)
{
    (void)state;
    fixture_run(attention_growing_body, NULL);
}

/* What is not a number must not be hidden by the maxima and the clamps. */
static void attention_nan_body(const void *argument)
{
    (void)argument;
    enum { T = 70, D = 32 };
    double *qkv, dummy[1] = {1};
    float *const qkv_device = fixture_random(&qkv, T * 3 * D, 1), *const out_device = fixture_output(T * D),
                 *const lse_device = fixture_output(T), out[T * D];
    fixture_ok(cudaMemset(qkv_device + (40 * 3 + 1) * D + 5, 0xff, 4)); /* one element of key 40 */
    fixture_ok(attention_forward(out_device, lse_device, qkv_device, 1, T, 1, D, (dropout_t){0, 0, 0}, NULL));
    fixture_read(out, out_device, T * D);
    for (int i = 0; i < T * D; i++)
        assert_true(isnan(out[i]) == (i / D >= 40));
    fixture_match("", fixture_tensor(dummy, 1), dummy, 1);
}

static void attention_forward_nan_reaches_the_rows_that_see_it(void **state)
{
    (void)state;
    fixture_run(attention_nan_body, NULL);
}

/* ---- the naive attention's pieces ---- */

static void softmax_body(const void *argument)
{
    const argument_t *const a = argument;
    const int B = a->shape.B, T = a->shape.T, H = a->shape.H;
    const size_t n = (size_t)B * (size_t)H * (size_t)T * (size_t)T;
    double *scores, *ddropped, *const probs = fixture_doubles(n), *const dropped = fixture_doubles(n),
                                      *const dscores = fixture_doubles(n);
    float *const scores_device = fixture_random(&scores, n, 4), *const ddropped_device =
                                                                    fixture_random(&ddropped, n, 1);
    float *const probs_device = a->in_place ? scores_device : fixture_output(n);
    float *const dscores_device = a->in_place ? ddropped_device : fixture_output(n);
    float *const dropped_device = a->rate > 0 ? fixture_output(n) : NULL;
    const dropout_t drop = kernel_dropout(a->rate);
    fixture_ok(
        causal_softmax_forward(probs_device, dropped_device, scores_device, 0.35f, B, H, T, drop, NULL));
    fixture_ok(
        causal_softmax_backward(dscores_device, ddropped_device, probs_device, 0.35f, B, H, T, drop, NULL));
    reference_causal_softmax_forward(probs, dropped, scores, (double)0.35f, B * H, T,
                                     reference_dropout(a->rate));
    reference_causal_softmax_backward(dscores, ddropped, scores, (double)0.35f, B * H, T,
                                      reference_dropout(a->rate));
    fixture_match("probs", probs_device, probs, n);
    if (dropped_device)
        fixture_match("dropped", dropped_device, dropped, n);
    fixture_match("dscores", dscores_device, dscores, n);
}

static void softmax_in_place_body(const void *argument)
{
    argument_t a = *(const argument_t *)argument;
    a.in_place = 1;
    softmax_body(&a);
}

static void causal_softmax_all_shapes_match_reference(void **state)
{
    (void)state;
    for_shapes(softmax_body);
}

static void causal_softmax_in_place_matches_reference(void **state)
{
    (void)state;
    for_shapes(softmax_in_place_body);
}

static void heads_body(const void *argument)
{
    const argument_t *const a = argument;
    const int B = a->shape.B, T = a->shape.T, H = a->shape.H, D = a->shape.D;
    const size_t n = (size_t)B * (size_t)T * (size_t)H * (size_t)D;
    double *qkv, *part[3];
    const float *const qkv_device = fixture_random(&qkv, 3 * n, 1);
    float *const q = fixture_output(n), *const k = fixture_output(n), *const v = fixture_output(n);
    float *const merged = fixture_output(3 * n), *const together = fixture_output(n),
                 *const apart = fixture_output(n);
    for (int i = 0; i < 3; i++)
        part[i] = fixture_doubles(n);
    double *const rows = fixture_doubles(n); /* q as [B,T,H,D] */
    for (size_t i = 0; i < 3 * n; i++) {
        const size_t d = i % (size_t)D, h = i / (size_t)D % (size_t)H, which = i / (size_t)(D * H) % 3,
                     t = i / (size_t)(D * H * 3) % (size_t)T, b = i / (size_t)(D * H * 3) / (size_t)T;
        part[which][((b * (size_t)H + h) * (size_t)T + t) * (size_t)D + d] = qkv[i];
        if (which == 0)
            rows[((b * (size_t)T + t) * (size_t)H + h) * (size_t)D + d] = qkv[i];
    }
    fixture_ok(attention_split(q, k, v, qkv_device, B, T, H, D, NULL));
    fixture_ok(attention_merge(merged, q, k, v, B, T, H, D, NULL));
    fixture_ok(attention_heads(together, q, B, T, H, D, NULL));
    fixture_ok(attention_unheads(apart, together, B, T, H, D, NULL));
    fixture_match_within("q", q, part[0], n, 0);
    fixture_match_within("k", k, part[1], n, 0);
    fixture_match_within("v", v, part[2], n, 0);
    fixture_match_within("qkv", merged, qkv, 3 * n, 0);
    fixture_match_within("heads", together, rows, n, 0);
    fixture_match_within("unheads", apart, part[0], n, 0);
}

static void heads_all_shapes_go_there_and_back(void **state)
{
    (void)state;
    for_shapes(heads_body);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(attention_all_shapes_match_reference),
        cmocka_unit_test(attention_growing_scores_match_reference),
        cmocka_unit_test(attention_forward_nan_reaches_the_rows_that_see_it),
        cmocka_unit_test(causal_softmax_all_shapes_match_reference),
        cmocka_unit_test(causal_softmax_in_place_matches_reference),
        cmocka_unit_test(heads_all_shapes_go_there_and_back),
    };
    return cmocka_run_group_tests(tests, fixture_setup, fixture_teardown);
}
