/* The trainer's kernels against double-precision references, all but attention (test_attention.c). */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "fixture.h"
#include "model/kernels/kernels.h"
#include "reference.h"

/* Rows and columns: single elements, odd numbers, more rows than one chunk of a column sum, more columns than
 * one tile of it, and than a dropout mask. */
typedef struct shape {
    int N, C;
} shape_t;
static const shape_t shapes[] = {{1, 1},    {1, 8},    {3, 7},     {5, 33},   {64, 128},
                                 {37, 257}, {70, 768}, {33, 1031}, {300, 20}, {3, 4500}};

typedef struct argument {
    shape_t shape;
    double rate;
    int accumulate, in_place;
} argument_t;

/* A body for each type and shape, with and without each of the options that it knows. */
enum { RATE = 1, ACCUMULATE = 2, IN_PLACE = 4 };
static void for_shapes_of(dtype_t type, void (*body)(const void *), int options)
{
    fixture_use(type);
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        if (fixture_small() && shapes[i].N * shapes[i].C > (type == DTYPE_BF16 ? 9000 : 14000))
            continue;
        for (int chosen = 0; chosen < 8; chosen++) {
            if (chosen & ~options || (type == DTYPE_BF16 && fixture_small() && chosen != options))
                continue;
            const argument_t a = {shapes[i], chosen & RATE ? 0.3 : 0.0, !!(chosen & ACCUMULATE),
                                  !!(chosen & IN_PLACE)};
            fixture_run(body, &a);
        }
    }
}

static void for_shapes(void (*body)(const void *), int options)
{
    for_shapes_of(DTYPE_FP32, body, options);
    for_shapes_of(DTYPE_BF16, body, options);
}

/* The same dropout for both; the rate must be the float's. */
static dropout_t kernel_dropout(double rate)
{
    return (dropout_t){(float)rate, 0x123456789abcdefu, 0xfffffffeu, NULL}; /* the counter passes 32 bits */
}

static reference_dropout_t reference_dropout(double rate)
{
    return (reference_dropout_t){(double)(float)rate, 0x123456789abcdefu, 0xfffffffeu};
}

/* What a gradient holds before: NaN if it is to be overwritten. *expected: what to add to. */
static float *gradient_before(double **expected, size_t n, int accumulate)
{
    if (accumulate)
        return fixture_random(expected, n, 1);
    *expected = fixture_doubles(n);
    return fixture_output(n);
}

/* ---- embedding ---- */

enum { CLASSES = 11 };

static int *random_tokens(int **values, int n)
{
    *values = (int *)fixture_doubles((size_t)n);
    for (int i = 0; i < n; i++)
        (*values)[i] = fixture_below(CLASSES - 1); /* the last class never occurs */
    return fixture_ints(*values, (size_t)n);
}

/* accumulate: without positions. */
static void embedding_forward_body(const void *argument)
{
    const argument_t *const a = argument;
    const int B = 3, T = a->shape.N, C = a->shape.C;
    const size_t n = (size_t)B * (size_t)T * (size_t)C;
    double *wte, *wpe, *const expected = fixture_doubles(n);
    int *tokens;
    const int *const tokens_device = random_tokens(&tokens, B * T);
    const void *const wte_device = fixture_elements(&wte, (size_t)(CLASSES * C), 1);
    const void *const wpe_device = fixture_elements(&wpe, (size_t)(T * C), 1);
    void *const x = fixture_output_elements(n);
    fixture_ok(embedding_forward(fixture_type(), x, tokens_device, wte_device,
                                 a->accumulate ? NULL : wpe_device, B, T, C, kernel_dropout(a->rate), NULL));
    if (a->accumulate)
        memset(wpe, 0, sizeof *wpe * (size_t)(T * C));
    reference_embedding_forward(expected, tokens, wte, wpe, B, T, C, reference_dropout(a->rate));
    fixture_match_elements("x", x, expected, n);
}

static void embedding_forward_all_shapes_match_reference(void **state)
{
    (void)state;
    for_shapes(embedding_forward_body, RATE | ACCUMULATE);
}

/* The index of kernels.h, by counting. */
static token_index_t token_index(const int *tokens, int n)
{
    int token[CLASSES], first[CLASSES + 1], count = 0, at = 0;
    int *const order = (int *)fixture_doubles((size_t)n);
    for (int v = 0; v < CLASSES; v++) {
        const int start = at;
        for (int i = 0; i < n; i++)
            if (tokens[i] == v)
                order[at++] = i;
        if (at > start) {
            token[count] = v;
            first[count++] = start;
        }
    }
    first[count] = at;
    const token_index_t index = {fixture_ints(token, (size_t)count), fixture_ints(first, (size_t)count + 1),
                                 fixture_ints(order, (size_t)n), count};
    return index;
}

/* in_place: without positions. */
static void embedding_backward_body(const void *argument)
{
    const argument_t *const a = argument;
    const int B = 3, T = a->shape.N, C = a->shape.C, positions = T + a->shape.N % 4;
    const size_t n = (size_t)B * (size_t)T * (size_t)C;
    double *dx, *dwte, *dwpe;
    int *tokens;
    random_tokens(&tokens, B * T);
    const token_index_t index = token_index(tokens, B * T);
    const void *const dx_device = fixture_elements(&dx, n, 1);
    float *const dwte_device = fixture_random(&dwte, (size_t)(CLASSES * C), 1);
    float *const dwpe_device = gradient_before(&dwpe, (size_t)(positions * C), a->accumulate);
    fixture_ok(embedding_backward(fixture_type(), dwte_device, a->in_place ? NULL : dwpe_device, dx_device,
                                  index, B, T, positions, C, kernel_dropout(a->rate), a->accumulate, NULL));
    reference_embedding_backward(dwte, dwpe, dx, tokens, B, T, C, reference_dropout(a->rate));
    fixture_match("dwte", dwte_device, dwte, (size_t)(CLASSES * C));
    if (!a->in_place)
        fixture_match("dwpe", dwpe_device, dwpe, (size_t)(positions * C));
}

static void embedding_backward_all_shapes_match_reference(void **state)
{
    (void)state;
    for_shapes(embedding_backward_body, RATE | ACCUMULATE | IN_PLACE);
}

/* ---- norms ---- */

static const float eps = 1e-5f; /* the reference's */

static void layernorm_forward_body(const void *argument)
{
    const argument_t *const a = argument;
    const int N = a->shape.N, C = a->shape.C;
    const size_t n = (size_t)N * (size_t)C;
    double *x, *gamma, *beta, *const out = fixture_doubles(n), *const mean = fixture_doubles((size_t)N),
                                     *const rstd = fixture_doubles((size_t)N);
    const void *const x_device = fixture_elements(&x, n, 2),
                      *const gamma_device = fixture_elements(&gamma, (size_t)C, 1),
                      *const beta_device = fixture_elements(&beta, (size_t)C, 1);
    void *const out_device = fixture_output_elements(n);
    float *const mean_device = fixture_output((size_t)N), *const rstd_device = fixture_output((size_t)N);
    fixture_ok(layernorm_forward(fixture_type(), out_device, mean_device, rstd_device, x_device, gamma_device,
                                 beta_device, eps, N, C, NULL));
    reference_layernorm_forward(out, mean, rstd, x, gamma, beta, N, C);
    fixture_match_elements("out", out_device, out, n);
    fixture_match("mean", mean_device, mean, (size_t)N);
    fixture_match("rstd", rstd_device, rstd, (size_t)N);
}

static void layernorm_forward_all_shapes_match_reference(void **state)
{
    (void)state;
    for_shapes(layernorm_forward_body, 0);
}

/* A large mean must not cost the variance its digits. */
static void layernorm_offset_body(const void *argument)
{
    (void)argument;
    enum { N = 9, C = 300 };
    double *gamma, *beta, out[N * C], mean[N], rstd[N], *const x = fixture_doubles(N * C);
    for (int i = 0; i < N * C; i++)
        x[i] = 50 + fixture_uniform();
    const float *const x_device = fixture_tensor(x, N * C),
                       *const gamma_device = fixture_random(&gamma, C, 1),
                       *const beta_device = fixture_random(&beta, C, 1);
    float *const out_device = fixture_output(N * C), *const mean_device = fixture_output(N),
                 *const rstd_device = fixture_output(N);
    fixture_ok(layernorm_forward(DTYPE_FP32, out_device, mean_device, rstd_device, x_device, gamma_device,
                                 beta_device, eps, N, C, NULL));
    reference_layernorm_forward(out, mean, rstd, x, gamma, beta, N, C);
    fixture_match("out", out_device, out, N * C);
    fixture_match("rstd", rstd_device, rstd, N);
}

static void layernorm_forward_large_mean_keeps_precision(void **state)
{
    (void)state;
    fixture_run(layernorm_offset_body, NULL);
}

static void residual_layernorm_body(const void *argument)
{
    const argument_t *const a = argument;
    const int N = a->shape.N, C = a->shape.C;
    const size_t n = (size_t)N * (size_t)C;
    double *residual, *y, *bias, *gamma,
        *beta, *const sum = fixture_doubles(n), *const out = fixture_doubles(n),
                      *const mean = fixture_doubles((size_t)N), *const rstd = fixture_doubles((size_t)N);
    void *const residual_device = fixture_elements(&residual, n, 1), *const y_device =
                                                                         fixture_elements(&y, n, 1);
    const void *const bias_device = fixture_elements(&bias, (size_t)C, 1),
                      *const gamma_device = fixture_elements(&gamma, (size_t)C, 1),
                      *const beta_device = fixture_elements(&beta, (size_t)C, 1);
    void *const out_device = fixture_output_elements(n);
    float *const mean_device = fixture_output((size_t)N), *const rstd_device = fixture_output((size_t)N);
    void *const sum_device = !a->in_place ? fixture_output_elements(n) : N % 2 ? y_device : residual_device;
    fixture_ok(residual_layernorm_forward(fixture_type(), sum_device, out_device, mean_device, rstd_device,
                                          residual_device, y_device, bias_device, gamma_device, beta_device,
                                          eps, N, C, kernel_dropout(a->rate), NULL));
    reference_residual_forward(sum, residual, y, bias, N, C, reference_dropout(a->rate));
    fixture_match_elements("sum", sum_device, sum, n);
    fixture_round(sum, n); /* the norm is that of what is stored */
    reference_layernorm_forward(out, mean, rstd, sum, gamma, beta, N, C);
    /* A norm over one channel is rounding error times rstd (316): only its bias is meaningful. */
    fixture_match_elements_within("out", out_device, out, n, C == 1 ? 1e-3 : 1e-5, 5e-3);
    /* A sum may be rounded the other way. */
    const double tolerance = fixture_type() == DTYPE_FP32 ? 1e-5 : 1e-3;
    fixture_match_within("mean", mean_device, mean, (size_t)N, tolerance);
    fixture_match_within("rstd", rstd_device, rstd, (size_t)N, tolerance);
}

static void residual_layernorm_forward_all_shapes_match_reference(void **state)
{
    (void)state;
    for_shapes(residual_layernorm_body, RATE | IN_PLACE);
}

/* in_place: with a gradient that flows past the norm, dx in its place. */
static void layernorm_backward_body(const void *argument)
{
    const argument_t *const a = argument;
    const int N = a->shape.N, C = a->shape.C;
    const size_t n = (size_t)N * (size_t)C;
    double *past, *dout, *x, *gamma, *dgamma,
        *dbeta, *const dx = fixture_doubles(n), *const out = fixture_doubles(n),
                       *const mean = fixture_doubles((size_t)N), *const rstd = fixture_doubles((size_t)N);
    void *const past_device = fixture_elements(&past, n, 1);
    const void *const dout_device = fixture_elements(&dout, n, 1),
                      *const x_device = fixture_elements(&x, n, 2),
                      *const gamma_device = fixture_elements(&gamma, (size_t)C, 1);
    reference_layernorm_forward(out, mean, rstd, x, gamma, gamma, N, C);
    const float *const mean_device = fixture_tensor(mean, (size_t)N), *const rstd_device =
                                                                          fixture_tensor(rstd, (size_t)N);
    float *const dgamma_device = gradient_before(&dgamma, (size_t)C, a->accumulate);
    float *const dbeta_device = gradient_before(&dbeta, (size_t)C, a->accumulate);
    double *dsum;
    float *const dsum_device = C % 2 ? NULL : gradient_before(&dsum, (size_t)C, a->accumulate);
    void *const scratch = fixture_output(layernorm_backward_scratch(N, C) / sizeof(float));
    void *const dx_device = a->in_place ? past_device : fixture_output_elements(n);
    fixture_ok(layernorm_backward(fixture_type(), dx_device, dgamma_device, dbeta_device, dsum_device,
                                  a->in_place || N % 2 ? past_device : NULL, dout_device, x_device,
                                  mean_device, rstd_device, gamma_device, N, C, a->accumulate, scratch,
                                  NULL));
    reference_layernorm_backward(dx, dgamma, dbeta, dout, x, gamma, N, C);
    for (size_t i = 0; i < n && (a->in_place || N % 2); i++)
        dx[i] += past[i];
    fixture_match_elements("dx", dx_device, dx, n);
    /* For one channel, x - mean is only the rounding of the mean; so is the reference's 0. */
    fixture_match_within("dgamma", dgamma_device, dgamma, (size_t)C, C == 1 ? 1e-3 : 1e-5);
    fixture_match("dbeta", dbeta_device, dbeta, (size_t)C);
    if (!a->in_place) { /* frozen: dx alone */
        void *const alone = fixture_output_elements(n);
        fixture_ok(layernorm_backward(fixture_type(), alone, NULL, NULL, NULL, N % 2 ? past_device : NULL,
                                      dout_device, x_device, mean_device, rstd_device, gamma_device, N, C,
                                      a->accumulate, NULL, NULL));
        fixture_match_elements("dx alone", alone, dx, n);
    }
    if (dsum_device == NULL)
        return;
    fixture_round(dx, n); /* as it is stored */
    for (size_t i = 0; i < n; i++)
        dsum[i % (size_t)C] += dx[i];
    fixture_match_within("dsum", dsum_device, dsum, (size_t)C, 1e-4);
}

static void layernorm_backward_all_shapes_match_reference(void **state)
{
    (void)state;
    for_shapes(layernorm_backward_body, ACCUMULATE | IN_PLACE);
}

/* accumulate: with the residual addition before it. */
static void rmsnorm_forward_body(const void *argument)
{
    const argument_t *const a = argument;
    const int N = a->shape.N, C = a->shape.C;
    const size_t n = (size_t)N * (size_t)C;
    double *residual, *y,
        *gamma, *const none = fixture_doubles((size_t)C), *const sum = fixture_doubles(n),
                       *const out = fixture_doubles(n), *const rstd = fixture_doubles((size_t)N);
    void *const residual_device = fixture_elements(&residual, n, 1), *const y_device =
                                                                         fixture_elements(&y, n, 1);
    const void *const gamma_device = fixture_elements(&gamma, (size_t)C, 1);
    void *const out_device = fixture_output_elements(n);
    float *const rstd_device = fixture_output((size_t)N);
    void *const sum_device = !a->in_place ? fixture_output_elements(n) : N % 2 ? y_device : residual_device;
    if (a->accumulate) {
        fixture_ok(residual_rmsnorm_forward(fixture_type(), sum_device, out_device, rstd_device,
                                            residual_device, y_device, gamma_device, 1e-6f, N, C,
                                            kernel_dropout(a->rate), NULL));
        reference_residual_forward(sum, residual, y, none, N, C, reference_dropout(a->rate));
        fixture_match_elements("sum", sum_device, sum, n);
        fixture_round(sum, n);
    } else {
        fixture_ok(rmsnorm_forward(fixture_type(), out_device, rstd_device, y_device, gamma_device, 1e-6f, N,
                                   C, NULL));
        memcpy(sum, y, n * sizeof *sum);
    }
    reference_rmsnorm_forward(out, rstd, sum, gamma, 1e-6, N, C);
    fixture_match_elements("out", out_device, out, n);
    fixture_match_within("rstd", rstd_device, rstd, (size_t)N, fixture_type() == DTYPE_FP32 ? 1e-5 : 1e-3);
}

static void rmsnorm_forward_all_shapes_match_reference(void **state)
{
    (void)state;
    for_shapes(rmsnorm_forward_body, RATE | ACCUMULATE | IN_PLACE);
}

/* in_place: with a gradient that flows past the norm, dx in its place. */
static void rmsnorm_backward_body(const void *argument)
{
    const argument_t *const a = argument;
    const int N = a->shape.N, C = a->shape.C;
    const size_t n = (size_t)N * (size_t)C;
    double *past, *dout, *x, *gamma, *dgamma, *const dx = fixture_doubles(n), *const out = fixture_doubles(n),
                                                     *const rstd = fixture_doubles((size_t)N);
    void *const past_device = fixture_elements(&past, n, 1);
    const void *const dout_device = fixture_elements(&dout, n, 1),
                      *const x_device = fixture_elements(&x, n, 2),
                      *const gamma_device = fixture_elements(&gamma, (size_t)C, 1);
    reference_rmsnorm_forward(out, rstd, x, gamma, 1e-2, N, C);
    const float *const rstd_device = fixture_tensor(rstd, (size_t)N);
    float *const dgamma_device = gradient_before(&dgamma, (size_t)C, a->accumulate);
    void *const scratch = fixture_output(rmsnorm_backward_scratch(N, C) / sizeof(float));
    void *const dx_device = a->in_place ? past_device : fixture_output_elements(n);
    fixture_ok(rmsnorm_backward(fixture_type(), dx_device, dgamma_device,
                                a->in_place || N % 2 ? past_device : NULL, dout_device, x_device, rstd_device,
                                gamma_device, N, C, a->accumulate, scratch, NULL));
    reference_rmsnorm_backward(dx, dgamma, dout, x, gamma, 1e-2, N, C);
    for (size_t i = 0; i < n && (a->in_place || N % 2); i++)
        dx[i] += past[i];
    fixture_match_elements_within("dx", dx_device, dx, n, C == 1 ? 1e-4 : 1e-5, 5e-3);
    fixture_match("dgamma", dgamma_device, dgamma, (size_t)C);
    if (!a->in_place) { /* frozen: dx alone */
        void *const alone = fixture_output_elements(n);
        fixture_ok(rmsnorm_backward(fixture_type(), alone, NULL, N % 2 ? past_device : NULL, dout_device,
                                    x_device, rstd_device, gamma_device, N, C, a->accumulate, NULL, NULL));
        fixture_match_elements_within("dx alone", alone, dx, n, C == 1 ? 1e-4 : 1e-5, 5e-3);
    }
}

static void rmsnorm_backward_all_shapes_match_reference(void **state)
{
    (void)state;
    for_shapes(rmsnorm_backward_body, ACCUMULATE | IN_PLACE);
}

static void residual_backward_body(const void *argument)
{
    const argument_t *const a = argument;
    const int N = a->shape.N, C = a->shape.C;
    const size_t n = (size_t)N * (size_t)C;
    double *dsum, *dbias, *const dy = fixture_doubles(n);
    void *const dsum_device = fixture_elements(&dsum, n, 1);
    float *const dbias_device = gradient_before(&dbias, (size_t)C, a->accumulate);
    void *const dy_device = a->in_place ? dsum_device : fixture_output_elements(n);
    void *const scratch = fixture_output(column_sum_scratch(N, C) / sizeof(float));
    fixture_ok(residual_backward(fixture_type(), dy_device, dbias_device, dsum_device, N, C,
                                 kernel_dropout(a->rate), a->accumulate, scratch, NULL));
    reference_residual_backward(dy, dbias, dsum, N, C, reference_dropout(a->rate));
    fixture_match_elements("dy", dy_device, dy, n);
    fixture_match("dbias", dbias_device, dbias, (size_t)C);
}

/* Without a bias: nothing is summed, no scratch is needed. */
static void residual_backward_without_bias_body(const void *argument)
{
    const argument_t *const a = argument;
    const int N = a->shape.N, C = a->shape.C;
    const size_t n = (size_t)N * (size_t)C;
    double *dsum, *const dy = fixture_doubles(n), *const dbias = fixture_doubles((size_t)C);
    void *const dsum_device = fixture_elements(&dsum, n, 1), *const dy_device = fixture_output_elements(n);
    fixture_ok(residual_backward(fixture_type(), dy_device, NULL, dsum_device, N, C, kernel_dropout(a->rate),
                                 a->accumulate, NULL, NULL));
    reference_residual_backward(dy, dbias, dsum, N, C, reference_dropout(a->rate));
    fixture_match_elements("dy", dy_device, dy, n);
}

static void residual_backward_all_shapes_match_reference(void **state)
{
    (void)state;
    for_shapes(residual_backward_body, RATE | ACCUMULATE | IN_PLACE);
    for_shapes(residual_backward_without_bias_body, RATE);
}

/* ---- bias, column sums, the MLP ---- */

static void bias_forward_body(const void *argument)
{
    const argument_t *const a = argument;
    const int N = a->shape.N, C = a->shape.C;
    const size_t n = (size_t)N * (size_t)C;
    double *x, *bias;
    void *const x_device = fixture_elements(&x, n, 1);
    const void *const bias_device = fixture_elements(&bias, (size_t)C, 1);
    fixture_ok(bias_forward(fixture_type(), x_device, bias_device, N, C, NULL));
    for (size_t i = 0; i < n; i++)
        x[i] += bias[i % (size_t)C];
    fixture_match_elements("x", x_device, x, n);
}

static void bias_forward_all_shapes_match_reference(void **state)
{
    (void)state;
    for_shapes(bias_forward_body, 0);
}

static void column_sum_body(const void *argument)
{
    const argument_t *const a = argument;
    const int N = a->shape.N, C = a->shape.C;
    const size_t n = (size_t)N * (size_t)C;
    double *dy, *dbias;
    const void *const dy_device = fixture_elements(&dy, n, 1);
    float *const dbias_device = gradient_before(&dbias, (size_t)C, a->accumulate);
    void *const scratch = fixture_output(column_sum_scratch(N, C) / sizeof(float));
    fixture_ok(column_sum(fixture_type(), dbias_device, dy_device, N, C, a->accumulate, scratch, NULL));
    for (size_t i = 0; i < n; i++)
        dbias[i % (size_t)C] += dy[i];
    fixture_match("dbias", dbias_device, dbias, (size_t)C);
}

static void column_sum_all_shapes_match_reference(void **state)
{
    (void)state;
    for_shapes(column_sum_body, ACCUMULATE);
    /* Chunks of more than 32 rows. */
    const argument_t many = {{9001, 5}, 0, 0, 0};
    fixture_run(column_sum_body, &many);
}

static void bias_gelu_forward_body(const void *argument)
{
    const argument_t *const a = argument;
    const int N = a->shape.N, C = a->shape.C;
    const size_t n = (size_t)N * (size_t)C;
    double *x, *bias, *const out = fixture_doubles(n);
    const void *const x_device = fixture_elements(&x, n, 6), *const bias_device =
                                                                 fixture_elements(&bias, (size_t)C, 1);
    void *const out_device = fixture_output_elements(n);
    fixture_ok(bias_gelu_forward(fixture_type(), out_device, x_device, bias_device, N, C, NULL));
    reference_bias_gelu_forward(out, x, bias, N, C);
    fixture_match_elements("out", out_device, out, n);
}

static void bias_gelu_forward_all_shapes_match_reference(void **state)
{
    (void)state;
    for_shapes(bias_gelu_forward_body, 0);
}

static void gelu_extremes_body(const void *argument)
{
    (void)argument;
    double x[8] = {-1e4, -60, -8, -0.0, 1e-20, 8, 60, 1e4}, zero[8] = {0}, one[8], out[8], dx[8],
           dbias[8] = {0};
    for (int i = 0; i < 8; i++)
        one[i] = 1;
    const float *const x_device = fixture_tensor(x, 8), *const bias_device = fixture_tensor(zero, 8),
                       *const dout_device = fixture_tensor(one, 8);
    float *const out_device = fixture_output(8), *const dx_device = fixture_output(8),
                 *const dbias_device = fixture_output(8);
    void *const scratch = fixture_output(column_sum_scratch(1, 8) / sizeof(float));
    fixture_ok(bias_gelu_forward(DTYPE_FP32, out_device, x_device, bias_device, 1, 8, NULL));
    fixture_ok(bias_gelu_backward(DTYPE_FP32, dx_device, dbias_device, dout_device, x_device, bias_device, 1,
                                  8, 0, scratch, NULL));
    reference_bias_gelu_forward(out, x, zero, 1, 8);
    reference_bias_gelu_backward(dx, dbias, one, x, zero, 1, 8);
    fixture_match("out", out_device, out, 8);
    fixture_match("dx", dx_device, dx, 8);
}

static void bias_gelu_large_arguments_saturate(void **state)
{
    (void)state;
    fixture_run(gelu_extremes_body, NULL);
}

static void bias_gelu_backward_body(const void *argument)
{
    const argument_t *const a = argument;
    const int N = a->shape.N, C = a->shape.C;
    const size_t n = (size_t)N * (size_t)C;
    double *dout, *x, *bias, *dbias, *const dx = fixture_doubles(n);
    void *const dout_device = fixture_elements(&dout, n, 1);
    const void *const x_device = fixture_elements(&x, n, 6), *const bias_device =
                                                                 fixture_elements(&bias, (size_t)C, 1);
    float *const dbias_device = gradient_before(&dbias, (size_t)C, a->accumulate);
    void *const dx_device = a->in_place ? dout_device : fixture_output_elements(n);
    void *const scratch = fixture_output(column_sum_scratch(N, C) / sizeof(float));
    fixture_ok(bias_gelu_backward(fixture_type(), dx_device, dbias_device, dout_device, x_device, bias_device,
                                  N, C, a->accumulate, scratch, NULL));
    reference_bias_gelu_backward(dx, dbias, dout, x, bias, N, C);
    fixture_match_elements("dx", dx_device, dx, n);
    fixture_match("dbias", dbias_device, dbias, (size_t)C);
}

static void bias_gelu_backward_all_shapes_match_reference(void **state)
{
    (void)state;
    for_shapes(bias_gelu_backward_body, ACCUMULATE | IN_PLACE);
}

/* in_place: dx in x. */
static void swiglu_body(const void *argument)
{
    const argument_t *const a = argument;
    const int N = a->shape.N, F = a->shape.C;
    const size_t n = (size_t)N * (size_t)F;
    double *x, *dout, *const out = fixture_doubles(n), *const dx = fixture_doubles(2 * n);
    void *const x_device = fixture_elements(&x, 2 * n, 6);
    const void *const dout_device = fixture_elements(&dout, n, 1);
    void *const out_device = fixture_output_elements(n);
    void *const dx_device = a->in_place ? x_device : fixture_output_elements(2 * n);
    fixture_ok(swiglu_forward(fixture_type(), out_device, x_device, N, F, NULL));
    fixture_ok(swiglu_backward(fixture_type(), dx_device, dout_device, x_device, N, F, NULL));
    reference_swiglu_forward(out, x, N, F);
    reference_swiglu_backward(dx, dout, x, N, F);
    fixture_match_elements("out", out_device, out, n);
    fixture_match_elements("dx", dx_device, dx, 2 * n);
}

static void swiglu_all_shapes_match_reference(void **state)
{
    (void)state;
    for_shapes(swiglu_body, IN_PLACE);
}

static void swiglu_extremes_body(const void *argument)
{
    (void)argument;
    double x[16] = {-1e4, -200, -60, -8, 0, 8, 60, 1e4}, one[8], out[8], dx[16];
    for (int i = 0; i < 8; i++)
        one[i] = x[8 + i] = 1;
    const float *const x_device = fixture_tensor(x, 16), *const dout_device = fixture_tensor(one, 8);
    float *const out_device = fixture_output(8), *const dx_device = fixture_output(16);
    fixture_ok(swiglu_forward(DTYPE_FP32, out_device, x_device, 1, 8, NULL));
    fixture_ok(swiglu_backward(DTYPE_FP32, dx_device, dout_device, x_device, 1, 8, NULL));
    reference_swiglu_forward(out, x, 1, 8);
    reference_swiglu_backward(dx, one, x, 1, 8);
    fixture_match("out", out_device, out, 8);
    fixture_match("dx", dx_device, dx, 16);
}

static void swiglu_large_arguments_saturate(void **state)
{
    (void)state;
    fixture_run(swiglu_extremes_body, NULL);
}

/* ---- rotary positions ---- */

static void rope_body(const void *argument)
{
    const attention_shape_t s = *(const attention_shape_t *)argument;
    const size_t n = (size_t)(s.B * s.T) * (size_t)((s.H + 2 * s.KV) * s.D), angles = (size_t)(s.T * s.D);
    double *qkv, *table = fixture_doubles(angles), *const turned = fixture_doubles(n);
    for (int t = 0; t < s.T; t++) {
        for (int d = 0; d < s.D / 2; d++) {
            table[t * s.D + d] = cos(0.3 * t + d);
            table[t * s.D + s.D / 2 + d] = sin(0.3 * t + d);
        }
    }
    void *const qkv_device = fixture_elements(&qkv, n, 1);
    const float *const table_device = fixture_tensor(table, angles);
    fixture_ok(rope_forward(fixture_type(), qkv_device, table_device, s, NULL));
    reference_rope(turned, qkv, table, s.B, s.T, s.H, s.KV, s.D, 1);
    fixture_match_elements("turned", qkv_device, turned, n);
    fixture_ok(rope_backward(fixture_type(), qkv_device, table_device, s, NULL));
    fixture_match_elements_within("turned back", qkv_device, qkv, n, 1e-5, 1e-2);
}

static void rope_all_shapes_match_reference_and_turn_back(void **state)
{
    (void)state;
    static const attention_shape_t all[] = {
        {1, 1, 1, 1, 2}, {2, 5, 3, 1, 6}, {2, 7, 4, 2, 64}, {1, 70, 8, 8, 40}};
    for (int type = 0; type < 2; type++) {
        fixture_use((dtype_t)type);
        for (size_t i = 0; i < sizeof all / sizeof *all; i++)
            fixture_run(rope_body, &all[i]);
    }
}

/* ---- cross-entropy ---- */

/* accumulate: with the gradient; in_place: in the logits, in fp32. */
static void cross_entropy_body(const void *argument)
{
    const argument_t *const a = argument;
    const int N = a->shape.N, V = a->shape.C;
    const size_t n = (size_t)N * (size_t)V;
    double *logits, *const losses = fixture_doubles((size_t)N), *const gradient = fixture_doubles(n);
    float *const logits_device = fixture_random(&logits, n, 9), *const losses_device =
                                                                    fixture_output((size_t)N);
    const bool in_place = a->in_place && fixture_type() == DTYPE_FP32;
    void *const dlogits = !a->accumulate ? NULL : in_place ? logits_device : fixture_output_elements(n);
    int *const targets = (int *)fixture_doubles((size_t)N);
    for (int i = 0; i < N; i++)
        targets[i] = i == 0 ? 0 : i == 1 ? V - 1 : i % 5 == 2 ? -1 : fixture_below(V);
    const int *const targets_device = fixture_ints(targets, (size_t)N);
    fixture_ok(cross_entropy(fixture_type(), dlogits, losses_device, logits_device, targets_device, N, V,
                             0.25f, NULL));
    reference_cross_entropy(losses, gradient, logits, targets, N, V);
    fixture_match("losses", losses_device, losses, (size_t)N);
    for (size_t i = 0; i < n; i++)
        gradient[i] *= 0.25;
    if (dlogits)
        fixture_match_elements("logits", dlogits, gradient, n);
    else
        fixture_match("logits", logits_device, logits, n);
}

static void cross_entropy_all_shapes_match_reference(void **state)
{
    (void)state;
    for_shapes(cross_entropy_body, ACCUMULATE | IN_PLACE);
    const argument_t bytes = {{40, 256}, 0, 1, 0}, wide = {{3, 50257}, 0, 1, 0};
    fixture_run(cross_entropy_body, &bytes);
    fixture_run(cross_entropy_body, &wide);
}

/* ---- sums and the optimizer ---- */

typedef struct flat {
    size_t n, decayed;
    int accumulate;
} flat_t;
static const flat_t flats[] = {{1, 0, 0},         {7, 7, 1},         {1000, 400, 0},
                               {16384, 16384, 1}, {70001, 33333, 0}, {300000, 0, 1}};

static void sum_body(const void *argument)
{
    const flat_t *const a = argument;
    double *x, *result;
    const float *const x_device = fixture_random(&x, a->n, 1);
    float *const result_device = gradient_before(&result, 1, a->accumulate);
    fixture_ok(sum(result_device, x_device, a->n, 0.5f, a->accumulate, NULL));
    for (size_t i = 0; i < a->n; i++)
        result[0] += 0.5 * x[i];
    fixture_match("result", result_device, result, 1);
}

static void sum_all_sizes_match_reference(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof flats / sizeof *flats - (fixture_small() ? 1 : 0); i++)
        fixture_run(sum_body, &flats[i]);
}

static void gradient_scale_body(const void *argument)
{
    const flat_t *const a = argument;
    double *x, squares = 0;
    const float *const x_device = fixture_random(&x, a->n, 1);
    const size_t partials = sum_squares_partials(a->n);
    float *const partials_device = fixture_output(partials), *const result = fixture_output(2);
    fixture_ok(sum_squares(partials_device, x_device, a->n, NULL));
    for (size_t i = 0; i < a->n; i++)
        squares += x[i] * x[i];
    const double norm = sqrt(squares), clips[] = {0, norm / 2, norm * 2};
    for (int i = 0; i < 3; i++) {
        const double expected[2] = {norm, i == 1 ? 0.5 : 1.0};
        fixture_ok(gradient_scale(result, partials_device, partials, (float)clips[i], NULL));
        fixture_match("norm and scale", result, expected, 2);
    }
}

static void gradient_scale_off_below_and_above_the_norm_matches_reference(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof flats / sizeof *flats - (fixture_small() ? 1 : 0); i++)
        fixture_run(gradient_scale_body, &flats[i]);
}

/* What element i's 16 random bits make of x, and whether these are its two neighbours. */
static double rounded_stochastically(double x, adamw_t options, size_t i)
{
    const uint64_t count = options.offset + i / 8;
    const uint32_t counter[4] = {(uint32_t)count, (uint32_t)(count >> 32), 0, 0},
                   key[2] = {(uint32_t)options.seed, (uint32_t)(options.seed >> 32)};
    uint32_t words[4], bits;
    const float single = (float)x;
    reference_philox(words, counter, key);
    memcpy(&bits, &single, sizeof bits);
    const uint32_t share = bits & 0xffffu, noise = words[i / 2 % 4] >> (i % 2 ? 16 : 0) & 0xffffu;
    const uint32_t to = (bits >> 16) + (share + noise > 0xffffu ? 1 : 0); /* away from 0 */
    const uint32_t whole = to << 16;
    float result;
    memcpy(&result, &whole, sizeof result);
    return (double)result;
}

/* accumulate: a copy that is rounded stochastically, or, with no decay at all, to the nearest. */
static void adamw_body(const void *argument)
{
    const flat_t *const a = argument;
    double *parameter, *m, *v, *gradient, scale[1] = {0.37};
    float *const parameter_device = fixture_random(&parameter, a->n, 1), *const m_device =
                                                                             fixture_random(&m, a->n, 0.1);
    v = fixture_doubles(a->n);
    for (size_t i = 0; i < a->n; i++)
        v[i] = 0.01 * (fixture_uniform() + 1);
    float *const v_device = fixture_tensor(v, a->n);
    const float *const scale_device = fixture_tensor(scale, 1);
    fixture_use(DTYPE_BF16);
    void *const copy = a->accumulate ? fixture_output_elements(a->n) : NULL;
    adamw_t options = {4e-3f,       0.9f, 0.95f, 1e-8f, 0.1f, 1, a->decayed > 0, 0x123456789abcdefu,
                       0xfffffff0u, NULL};
    for (; options.step <= 3; options.step++) {
        const reference_adamw_t reference = {options.learning_rate, options.beta1,        options.beta2,
                                             options.eps,           options.weight_decay, options.step};
        const float *const gradient_device = fixture_random(&gradient, a->n, 1);
        fixture_ok(adamw(parameter_device, m_device, v_device, copy, gradient_device, a->n, a->decayed,
                         scale_device, options, NULL));
        reference_adamw(parameter, m, v, gradient, a->n, a->decayed, scale[0], reference);
    }
    fixture_match("parameter", parameter_device, parameter, a->n);
    fixture_match("m", m_device, m, a->n);
    fixture_match("v", v_device, v, a->n);
    if (!copy)
        return;
    float *const master = (float *)fixture_doubles(a->n);
    double drift = 0, *const expected = fixture_doubles(a->n);
    fixture_read(master, parameter_device, a->n);
    for (size_t i = 0; i < a->n; i++)
        expected[i] = options.stochastic ? rounded_stochastically(master[i], options, i) : (double)master[i];
    fixture_round(expected, a->n);
    for (size_t i = 0; i < a->n; i++)
        drift += (expected[i] - (double)master[i]) / fmax(fabs((double)master[i]), 1e-3);
    assert_true(fabs(drift) / (double)a->n < 0.02 / sqrt((double)a->n)); /* neither way is preferred */
    fixture_match_elements_within("copy", copy, expected, a->n, 0, 0);
}

static void adamw_three_steps_match_reference(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof flats / sizeof *flats - (fixture_small() ? 1 : 0); i++)
        fixture_run(adamw_body, &flats[i]);
}

/* Ties go to the even neighbour; what is too large becomes infinite, what is not a number stays so. */
static void round_bf16_body(const void *argument)
{
    (void)argument;
    enum { N = 12 };
    static const uint32_t from[N] = {0x3f800000, 0x3f808000, 0x3f808001, 0x3f818000, 0x3f817fff, 0xbf808000,
                                     0x00000001, 0x00008001, 0x7f7fffff, 0xff800000, 0x7f800001, 0xffc00000};
    static const uint16_t to[N] = {0x3f80, 0x3f80, 0x3f81, 0x3f82, 0x3f81, 0xbf80,
                                   0x0000, 0x0001, 0x7f80, 0xff80, 0x7fc0, 0xffc0};
    uint16_t got[N];
    double zeros[N] = {0}, one[1] = {1};
    float *const device = fixture_tensor(zeros, N);
    fixture_use(DTYPE_BF16);
    void *const rounded = fixture_output_elements(N);
    fixture_ok(cudaMemcpy(device, from, sizeof from, cudaMemcpyHostToDevice));
    fixture_ok(round_bf16(rounded, device, N, NULL));
    fixture_ok(cudaMemcpy(got, rounded, sizeof got, cudaMemcpyDeviceToHost));
    assert_memory_equal(got, to, sizeof to);
    fixture_match("", fixture_tensor(one, 1), one, 1);
}

static void round_bf16_is_to_the_nearest(void **state)
{
    (void)state;
    fixture_run(round_bf16_body, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(embedding_forward_all_shapes_match_reference),
        cmocka_unit_test(embedding_backward_all_shapes_match_reference),
        cmocka_unit_test(layernorm_forward_all_shapes_match_reference),
        cmocka_unit_test(layernorm_forward_large_mean_keeps_precision),
        cmocka_unit_test(residual_layernorm_forward_all_shapes_match_reference),
        cmocka_unit_test(layernorm_backward_all_shapes_match_reference),
        cmocka_unit_test(rmsnorm_forward_all_shapes_match_reference),
        cmocka_unit_test(rmsnorm_backward_all_shapes_match_reference),
        cmocka_unit_test(residual_backward_all_shapes_match_reference),
        cmocka_unit_test(bias_forward_all_shapes_match_reference),
        cmocka_unit_test(column_sum_all_shapes_match_reference),
        cmocka_unit_test(bias_gelu_forward_all_shapes_match_reference),
        cmocka_unit_test(bias_gelu_large_arguments_saturate),
        cmocka_unit_test(bias_gelu_backward_all_shapes_match_reference),
        cmocka_unit_test(swiglu_all_shapes_match_reference),
        cmocka_unit_test(swiglu_large_arguments_saturate),
        cmocka_unit_test(rope_all_shapes_match_reference_and_turn_back),
        cmocka_unit_test(cross_entropy_all_shapes_match_reference),
        cmocka_unit_test(sum_all_sizes_match_reference),
        cmocka_unit_test(gradient_scale_off_below_and_above_the_norm_matches_reference),
        cmocka_unit_test(adamw_three_steps_match_reference),
        cmocka_unit_test(round_bf16_is_to_the_nearest),
    };
    return cmocka_run_group_tests(tests, fixture_setup, fixture_teardown);
}
