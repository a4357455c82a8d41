/* Attention, tiled and naive, against double-precision references. */
#include <math.h>
#include <string.h>

#include "fixture.h"
#include "model/kernels/kernels.h"
#include "reference.h"

/* One token, lengths around and off the tiles (multiples of 8, 16, 32, 64 and none), every padded head size
 * and some below it; many heads (backward works head by head) and few (by slices); keys of their own and shared ones. */
typedef attention_shape_t shape_t; /* B, T, H, KV, D */
static const shape_t shapes[] = {
    {1, 1, 1, 1, 8},    {2, 1, 3, 1, 32},   {1, 7, 2, 2, 16},    {2, 33, 2, 1, 40},  {1, 64, 2, 2, 64},
    {2, 65, 1, 1, 128}, {1, 130, 2, 2, 32}, {1, 128, 1, 1, 128}, {2, 100, 3, 3, 40}, {1, 200, 1, 1, 64},
    {3, 31, 1, 1, 1},   {1, 70, 2, 2, 100}, {8, 65, 4, 4, 32},   {4, 140, 8, 8, 16}, {4, 129, 8, 8, 64},
    {5, 40, 7, 7, 128}, {2, 130, 6, 2, 24}, {8, 70, 8, 2, 64}};

/* The same in small, for modes in which an access takes a hundred times as long. */
static const shape_t small_shapes[] = {
    {1, 1, 1, 1, 8},  {1, 7, 2, 2, 16},  {1, 33, 1, 1, 40}, {1, 35, 1, 1, 128}, {1, 70, 1, 1, 1},
    {4, 9, 4, 4, 32}, {2, 33, 8, 8, 64}, {2, 9, 8, 8, 100}, {1, 33, 4, 2, 8},   {8, 9, 4, 2, 16}};

typedef struct argument {
    shape_t shape;
    double rate;
    int in_place;
} argument_t;

static void for_shapes_of(dtype_t type, void (*body)(const void *))
{
    fixture_use(type);
    const bool small = fixture_small();
    const size_t count = small ? sizeof small_shapes / sizeof *small_shapes : sizeof shapes / sizeof *shapes;
    for (size_t i = 0; i < count; i += type == DTYPE_BF16 ? 3 : 1) {
        for (int dropped = 0; dropped < 2; dropped++) {
            const argument_t a = {small ? small_shapes[i] : shapes[i], dropped ? 0.3 : 0.0, 0};
            fixture_run(body, &a);
        }
    }
}

static void for_shapes(void (*body)(const void *))
{
    for_shapes_of(DTYPE_FP32, body);
    for_shapes_of(DTYPE_BF16, body);
}

static dropout_t kernel_dropout(double rate)
{
    return (dropout_t){(float)rate, 0xfedcba987654321u, 0xfffffff0u, NULL};
}

static reference_dropout_t reference_dropout(double rate)
{
    return (reference_dropout_t){(double)(float)rate, 0xfedcba987654321u, 0xfffffff0u};
}

static void attention_body(const void *argument)
{
    const argument_t *const a = argument;
    const shape_t shape = a->shape;
    const int B = shape.B, T = shape.T, H = shape.H, KV = shape.KV, D = shape.D;
    const dtype_t type = fixture_type();
    const size_t rows = (size_t)B * (size_t)T * (size_t)H, n = rows * (size_t)D,
                 all = (size_t)B * (size_t)T * (size_t)(H + 2 * KV) * (size_t)D;
    double *qkv, *dout, *const out = fixture_doubles(n), *const lse = fixture_doubles(rows),
                               *const dqkv = fixture_doubles(all);
    const void *const qkv_device = fixture_elements(&qkv, all, 2), *const dout_device =
                                                                       fixture_elements(&dout, n, 1);
    void *const out_device = fixture_output_elements(n), *const dqkv_device = fixture_output_elements(all);
    float *const lse_device = fixture_output(rows);
    void *const scratch = fixture_output(attention_backward_scratch(type, shape) / sizeof(float));
    const dropout_t drop = kernel_dropout(a->rate);
    fixture_ok(attention_forward(type, out_device, lse_device, qkv_device, shape, drop, NULL));
    fixture_ok(attention_backward(type, dqkv_device, dout_device, out_device, lse_device, qkv_device, shape,
                                  drop, scratch, NULL));
    reference_attention_forward(out, lse, qkv, B, T, H, KV, D, reference_dropout(a->rate));
    reference_attention_backward(dqkv, dout, qkv, B, T, H, KV, D, reference_dropout(a->rate));
    fixture_match_elements("out", out_device, out, n);
    fixture_match("lse", lse_device, lse, rows);
    fixture_match_elements("dqkv", dqkv_device, dqkv, all);
}

/* As many as no grid has in its second and third dimension. */
static void attention_of_65537_sequences_matches_reference(void **state)
{
    (void)state;
    const argument_t a = {{fixture_small() ? 5 : 65537, 2, 1, 1, 4}, 0, 0};
    fixture_use(DTYPE_FP32);
    fixture_run(attention_body, &a);
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
    const shape_t shape = {1, T, 1, 1, D};
    float *const dqkv_device = fixture_output(T * 3 * D), *const scratch = fixture_output(
                                                              attention_backward_scratch(DTYPE_FP32, shape) /
                                                              sizeof(float));
    const dropout_t none = {0, 0, 0, NULL};
    fixture_ok(attention_forward(DTYPE_FP32, out_device, lse_device, qkv_device, shape, none, NULL));
    fixture_ok(attention_backward(DTYPE_FP32, dqkv_device, dout_device, out_device, lse_device, qkv_device,
                                  shape, none, scratch, NULL));
    reference_attention_forward(out, lse, qkv, 1, T, 1, 1, D, (reference_dropout_t){0, 0, 0});
    reference_attention_backward(dqkv, dout, qkv, 1, T, 1, 1, D, (reference_dropout_t){0, 0, 0});
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
    fixture_ok(attention_forward(DTYPE_FP32, out_device, lse_device, qkv_device, (shape_t){1, T, 1, 1, D},
                                 (dropout_t){0, 0, 0, NULL}, NULL));
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
    const dtype_t type = fixture_type();
    const bool in_place = a->in_place && type == DTYPE_FP32;
    const size_t n = (size_t)B * (size_t)H * (size_t)T * (size_t)T;
    double *scores, *ddropped, *const probs = fixture_doubles(n), *const dropped = fixture_doubles(n),
                                      *const dscores = fixture_doubles(n);
    float *const scores_device = fixture_random(&scores, n, 4), *const ddropped_device =
                                                                    fixture_random(&ddropped, n, 1);
    void *const probs_device = in_place ? scores_device : fixture_output_elements(n);
    void *const dscores_device = in_place ? ddropped_device : fixture_output_elements(n);
    void *const dropped_device = a->rate > 0 ? fixture_output_elements(n) : NULL;
    const dropout_t drop = kernel_dropout(a->rate);
    fixture_ok(causal_softmax_forward(type, probs_device, dropped_device, scores_device, 0.35f, B, H, T, drop,
                                      NULL));
    fixture_ok(causal_softmax_backward(type, dscores_device, ddropped_device, probs_device, 0.35f, B, H, T,
                                       drop, NULL));
    reference_causal_softmax_forward(probs, dropped, scores, (double)0.35f, B * H, T,
                                     reference_dropout(a->rate));
    reference_causal_softmax_backward(dscores, ddropped, scores, (double)0.35f, B * H, T,
                                      reference_dropout(a->rate));
    fixture_match_elements("probs", probs_device, probs, n);
    if (dropped_device)
        fixture_match_elements("dropped", dropped_device, dropped, n);
    /* A row's probabilities, each rounded, no longer add up to 1. */
    fixture_match_elements_within("dscores", dscores_device, dscores, n, 1e-5, 1e-2);
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
    const shape_t shape = a->shape;
    const int B = shape.B, T = shape.T, H = shape.H, KV = shape.KV, D = shape.D, heads = H + 2 * KV;
    const dtype_t type = fixture_type();
    const size_t n = (size_t)B * (size_t)T * (size_t)H * (size_t)D,
                 all = (size_t)B * (size_t)T * (size_t)heads * (size_t)D;
    double *qkv, *part[3], *const sums = fixture_doubles(all);
    const void *const qkv_device = fixture_elements(&qkv, all, 1);
    void *const q = fixture_output_elements(n), *const k = fixture_output_elements(n),
                *const v = fixture_output_elements(n), *const merged = fixture_output_elements(all),
                *const together = fixture_output_elements(n), *const apart = fixture_output_elements(n);
    for (int i = 0; i < 3; i++)
        part[i] = fixture_doubles(n);
    double *const rows = fixture_doubles(n); /* q as [B,T,H,D] */
    for (size_t i = 0; i < all; i++) {
        const int d = (int)(i % (size_t)D), head = (int)(i / (size_t)D % (size_t)heads);
        const size_t row = i / (size_t)(D * heads), t = row % (size_t)T, b = row / (size_t)T;
        const int which = head < H        ? 0
                          : head < H + KV ? 1
                                          : 2,
                  shared = which == 0 ? 1 : H / KV, first = which == 0 ? head : (head - H) % KV * shared;
        for (int h = first; h < first + shared; h++)
            part[which][((b * (size_t)H + (size_t)h) * (size_t)T + t) * (size_t)D + (size_t)d] = qkv[i];
        sums[i] = shared * qkv[i];
        if (which == 0)
            rows[(row * (size_t)H + (size_t)head) * (size_t)D + (size_t)d] = qkv[i];
    }
    fixture_round(sums, all);
    fixture_ok(attention_split(type, q, k, v, qkv_device, shape, NULL));
    fixture_ok(attention_merge(type, merged, q, k, v, shape, NULL));
    fixture_ok(attention_heads(type, together, q, shape, NULL));
    fixture_ok(attention_unheads(type, apart, together, shape, NULL));
    fixture_match_elements_within("q", q, part[0], n, 0, 0);
    fixture_match_elements_within("k", k, part[1], n, 0, 0);
    fixture_match_elements_within("v", v, part[2], n, 0, 0);
    fixture_match_elements_within("qkv", merged, sums, all, 1e-7, 0.002);
    fixture_match_elements_within("heads", together, rows, n, 0, 0);
    fixture_match_elements_within("unheads", apart, part[0], n, 0, 0);
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
        cmocka_unit_test(attention_of_65537_sequences_matches_reference),
        cmocka_unit_test(attention_growing_scores_match_reference),
        cmocka_unit_test(attention_forward_nan_reaches_the_rows_that_see_it),
        cmocka_unit_test(causal_softmax_all_shapes_match_reference),
        cmocka_unit_test(causal_softmax_in_place_matches_reference),
        cmocka_unit_test(heads_all_shapes_go_there_and_back),
    };
    return cmocka_run_group_tests(tests, fixture_setup, fixture_teardown);
}
