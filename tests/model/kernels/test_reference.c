/* The references that kernels are compared with: gradients against finite differences, random words against
 * published ones, forward passes against properties that hold by definition. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "reference.h"

static uint64_t state = 20240607;

/* In [-1, 1). */
static double uniform(void)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (double)(state >> 11) / 4503599627370496.0 - 1.0;
}

static double *uniforms(size_t n)
{
    double *const x = malloc(n * sizeof *x);
    assert_non_null(x);
    for (size_t i = 0; i < n; i++)
        x[i] = uniform();
    return x;
}

static double *zeros(size_t n)
{
    double *const x = calloc(n, sizeof *x);
    assert_non_null(x);
    return x;
}

/* One problem: any of these may be used; `loss` is sum of weights * outputs. */
enum { B = 2, T = 5, H = 2, KV = 1, D = 3, C = H * D, N = B * T, V = 7, SHARED = (H + 2 * KV) * D };
typedef struct problem {
    double *x, *y, *a, *b; /* inputs */
    double *weights;       /* of the outputs */
    int tokens[N];
    reference_dropout_t drop;
} problem_t;
typedef double (*loss_fn)(const problem_t *);

static double weighted(const double *out, const double *weights, size_t n)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += out[i] * weights[i];
    return sum;
}

/* d loss/d x[n], numerically, against `gradient`. */
static void check(const char *what, const problem_t *p, loss_fn loss, double *x, const double *gradient,
                  size_t n)
{
    double error = 0, norm = 0;
    for (size_t i = 0; i < n; i++) {
        const double at = x[i], h = 1e-5;
        x[i] = at + h;
        const double up = loss(p);
        x[i] = at - h;
        const double down = loss(p);
        x[i] = at;
        const double slope = (up - down) / (2 * h);
        error += (slope - gradient[i]) * (slope - gradient[i]);
        norm += slope * slope;
    }
    assert_true(norm > 0);
    if (!(sqrt(error / norm) < 1e-7))
        fail_msg("gradient of %s is off by %.3g", what, sqrt(error / norm));
}

static problem_t problem(double rate)
{
    problem_t p = {uniforms(1000), uniforms(1000), uniforms(1000), uniforms(1000), uniforms(1000), {0},
                   {rate, 77, 5}};
    for (int n = 0; n < N; n++)
        p.tokens[n] = (int)((uint64_t)(uniform() * 1e6 + 1e6) % V);
    return p;
}

static void release(problem_t *p)
{
    free(p->x);
    free(p->y);
    free(p->a);
    free(p->b);
    free(p->weights);
}

static void philox_known_answers_match(void **unused)
{
    (void)unused;
    /* From the Random123 distribution's kat_vectors (philox4x32, 10 rounds). */
    const struct {
        uint32_t counter[4], key[2], words[4];
    } known[] = {
        {{0, 0, 0, 0}, {0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
        {{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff},
         {0xffffffff, 0xffffffff},
         {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
        {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
         {0xa4093822, 0x299f31d0},
         {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        uint32_t words[4];
        reference_philox(words, known[i].counter, known[i].key);
        assert_memory_equal(words, known[i].words, sizeof words);
    }
}

static void dropout_many_elements_keeps_the_mean(void **unused)
{
    (void)unused;
    const reference_dropout_t drop = {0.3, 1, 0xffffffffu};
    double sum = 0;
    const size_t n = 400000;
    for (size_t i = 0; i < n; i++)
        sum += reference_keep(drop, i);
    assert_true(fabs(sum / (double)n - 1.0) < 0.005);
}

static double embedding_loss(const problem_t *p)
{
    double *const out = zeros(N * C);
    reference_embedding_forward(out, p->tokens, p->x, p->y, B, T, C, p->drop);
    const double loss = weighted(out, p->weights, N * C);
    free(out);
    return loss;
}

static void embedding_backward_finite_differences_match(void **unused)
{
    (void)unused;
    problem_t p = problem(0.25);
    double *const dwte = zeros(V * C), *const dwpe = zeros(T * C);
    reference_embedding_backward(dwte, dwpe, p.weights, p.tokens, B, T, C, p.drop);
    check("wte", &p, embedding_loss, p.x, dwte, V * C);
    check("wpe", &p, embedding_loss, p.y, dwpe, T * C);
    free(dwte);
    free(dwpe);
    release(&p);
}

static double layernorm_loss(const problem_t *p)
{
    double *const out = zeros(N * C), mean[N], rstd[N];
    reference_layernorm_forward(out, mean, rstd, p->x, p->a, p->b, N, C);
    const double loss = weighted(out, p->weights, N * C);
    free(out);
    return loss;
}

static void layernorm_backward_finite_differences_match(void **unused)
{
    (void)unused;
    problem_t p = problem(0);
    double *const dx = zeros(N * C), *const dgamma = zeros(C), *const dbeta = zeros(C);
    reference_layernorm_backward(dx, dgamma, dbeta, p.weights, p.x, p.a, N, C);
    check("x", &p, layernorm_loss, p.x, dx, N * C);
    check("gamma", &p, layernorm_loss, p.a, dgamma, C);
    check("beta", &p, layernorm_loss, p.b, dbeta, C);
    free(dx);
    free(dgamma);
    free(dbeta);
    release(&p);
}

static void layernorm_forward_rows_have_mean_0_and_variance_1(void **unused)
{
    (void)unused;
    enum { WIDE = 200 };
    double *const x = uniforms(2 * WIDE), *const out = zeros(2 * WIDE), *const gamma = zeros(WIDE),
                  *const beta = zeros(WIDE), mean[2], rstd[2];
    for (int c = 0; c < WIDE; c++)
        gamma[c] = 1;
    reference_layernorm_forward(out, mean, rstd, x, gamma, beta, 2, WIDE);
    for (int n = 0; n < 2; n++) {
        double m = 0, v = 0;
        for (int c = 0; c < WIDE; c++) {
            m += out[n * WIDE + c] / WIDE;
            v += out[n * WIDE + c] * out[n * WIDE + c] / WIDE;
        }
        assert_true(fabs(m) < 1e-12 && fabs(v - 1) < 1e-3);
    }
    free(x);
    free(out);
    free(gamma);
    free(beta);
}

static double residual_loss(const problem_t *p)
{
    double *const out = zeros(N * C);
    reference_residual_forward(out, p->y, p->x, p->b, N, C, p->drop);
    const double loss = weighted(out, p->weights, N * C);
    free(out);
    return loss;
}

static void residual_backward_finite_differences_match(void **unused)
{
    (void)unused;
    problem_t p = problem(0.4);
    double *const dy = zeros(N * C), *const dbias = zeros(C);
    reference_residual_backward(dy, dbias, p.weights, N, C, p.drop);
    check("y", &p, residual_loss, p.x, dy, N * C);
    check("bias", &p, residual_loss, p.b, dbias, C);
    check("residual", &p, residual_loss, p.y, p.weights, N * C);
    free(dy);
    free(dbias);
    release(&p);
}

static double gelu_loss(const problem_t *p)
{
    double *const out = zeros(N * C);
    reference_bias_gelu_forward(out, p->x, p->b, N, C);
    const double loss = weighted(out, p->weights, N * C);
    free(out);
    return loss;
}

static void bias_gelu_backward_finite_differences_match(void **unused)
{
    (void)unused;
    problem_t p = problem(0);
    for (int i = 0; i < N * C; i++)
        p.x[i] *= 4;
    double *const dx = zeros(N * C), *const dbias = zeros(C);
    reference_bias_gelu_backward(dx, dbias, p.weights, p.x, p.b, N, C);
    check("x", &p, gelu_loss, p.x, dx, N * C);
    check("bias", &p, gelu_loss, p.b, dbias, C);
    free(dx);
    free(dbias);
    release(&p);
}

static double attention_loss(const problem_t *p)
{
    double *const out = zeros(N * C), lse[B * H * T];
    reference_attention_forward(out, lse, p->x, B, T, H, H, D, p->drop);
    const double loss = weighted(out, p->weights, N * C);
    free(out);
    return loss;
}

static void attention_backward_finite_differences_match(void **unused)
{
    (void)unused;
    for (int dropped = 0; dropped < 2; dropped++) {
        problem_t p = problem(dropped ? 0.3 : 0);
        for (int i = 0; i < N * 3 * C; i++)
            p.x[i] *= 2;
        double *const dqkv = zeros(N * 3 * C);
        reference_attention_backward(dqkv, p.weights, p.x, B, T, H, H, D, p.drop);
        check("qkv", &p, attention_loss, p.x, dqkv, N * 3 * C);
        free(dqkv);
        release(&p);
    }
}

static double shared_keys_loss(const problem_t *p)
{
    double out[N * C], lse[B * H * T];
    reference_attention_forward(out, lse, p->x, B, T, H, KV, D, p->drop);
    return weighted(out, p->weights, N * C);
}

static void attention_backward_of_shared_keys_finite_differences_match(void **unused)
{
    (void)unused;
    problem_t p = problem(0.3);
    double dqkv[N * SHARED];
    reference_attention_backward(dqkv, p.weights, p.x, B, T, H, KV, D, p.drop);
    check("qkv", &p, shared_keys_loss, p.x, dqkv, N * SHARED);
    release(&p);
}

/* Shared keys and values are as good as copies of them. */
static void attention_forward_of_shared_keys_is_that_of_copies(void **unused)
{
    (void)unused;
    problem_t p = problem(0.3);
    double copies[N * 3 * C], shared[N * C], apart[N * C], lse[B * H * T];
    for (int n = 0; n < N; n++)
        for (int part = 0; part < 3; part++)
            for (int h = 0; h < H; h++)
                for (int d = 0; d < D; d++)
                    copies[((n * 3 + part) * H + h) * D + d] =
                        p.x[(n * (H + 2 * KV) + (part == 0 ? h : H + part - 1)) * D + d];
    reference_attention_forward(shared, lse, p.x, B, T, H, KV, D, p.drop);
    reference_attention_forward(apart, lse, copies, B, T, H, H, D, p.drop);
    assert_memory_equal(shared, apart, sizeof shared);
    release(&p);
}

static double rmsnorm_loss(const problem_t *p)
{
    double out[N * C], rstd[N];
    reference_rmsnorm_forward(out, rstd, p->x, p->a, 1e-3, N, C);
    return weighted(out, p->weights, N * C);
}

static void rmsnorm_backward_finite_differences_match(void **unused)
{
    (void)unused;
    problem_t p = problem(0);
    double dx[N * C], dgamma[C] = {0};
    reference_rmsnorm_backward(dx, dgamma, p.weights, p.x, p.a, 1e-3, N, C);
    check("x", &p, rmsnorm_loss, p.x, dx, N * C);
    check("gamma", &p, rmsnorm_loss, p.a, dgamma, C);
    release(&p);
}

static double swiglu_loss(const problem_t *p)
{
    double out[N * C];
    reference_swiglu_forward(out, p->x, N, C);
    return weighted(out, p->weights, N * C);
}

static void swiglu_backward_finite_differences_match(void **unused)
{
    (void)unused;
    problem_t p = problem(0);
    double dx[N * 2 * C];
    for (int i = 0; i < N * 2 * C; i++)
        p.x[i] *= 4;
    reference_swiglu_backward(dx, p.weights, p.x, N, C);
    check("x", &p, swiglu_loss, p.x, dx, N * 2 * C);
    release(&p);
}

/* A turn keeps lengths, turns back, and makes products of queries and keys depend on their distance alone. */
static void rope_turns_are_turns(void **unused)
{
    (void)unused;
    enum { PAIRS = 4, ROW = 3 * 2 * PAIRS };
    double table[T * 2 * PAIRS], x[T * ROW], y[T * ROW], back[T * ROW], *const one = uniforms(ROW);
    for (int t = 0; t < T; t++) {
        memcpy(x + t * ROW, one, sizeof *one * ROW);
        for (int d = 0; d < PAIRS; d++) {
            table[t * 2 * PAIRS + d] = cos(t * (d + 1.0));
            table[t * 2 * PAIRS + PAIRS + d] = sin(t * (d + 1.0));
        }
    }
    reference_rope(y, x, table, 1, T, 1, 1, 2 * PAIRS, 1);
    reference_rope(back, y, table, 1, T, 1, 1, 2 * PAIRS, -1);
    for (int i = 0; i < T * ROW; i++)
        assert_true(fabs(back[i] - x[i]) < 1e-14);
    double first = 0, second = 0;
    for (int d = 0; d < 2 * PAIRS; d++) {
        first += y[2 * ROW + d] * y[0 * ROW + 2 * PAIRS + d];  /* query 2, key 0 */
        second += y[4 * ROW + d] * y[2 * ROW + 2 * PAIRS + d]; /* query 4, key 2 */
    }
    assert_true(fabs(first - second) < 1e-13);
    assert_memory_equal(y + ROW + 4 * PAIRS, x + ROW + 4 * PAIRS, sizeof *x * 2 * PAIRS); /* values stay */
    free(one);
}

static void attention_forward_later_tokens_change_nothing(void **unused)
{
    (void)unused;
    problem_t p = problem(0);
    double out[N * C], changed[N * C], lse[B * H * T];
    reference_attention_forward(out, lse, p.x, B, T, H, H, D, p.drop);
    for (int i = 0; i < 3 * C; i++)
        p.x[3 * 3 * C + i] += 1; /* token 3 of sequence 0 */
    reference_attention_forward(changed, lse, p.x, B, T, H, H, D, p.drop);
    assert_memory_equal(out, changed, sizeof *out * 3 * C);
    assert_memory_equal(out + T * C, changed + T * C, sizeof *out * T * C);
    assert_memory_not_equal(out + 3 * C, changed + 3 * C, sizeof *out * C);
    assert_memory_not_equal(out + 4 * C, changed + 4 * C, sizeof *out * C);
    release(&p);
}

static double softmax_loss(const problem_t *p)
{
    double *const probs = zeros(B * H * T * T), *const dropped = zeros(B * H * T * T);
    reference_causal_softmax_forward(probs, dropped, p->x, 0.7, B * H, T, p->drop);
    const double loss = weighted(dropped, p->weights, B * H * T * T);
    free(probs);
    free(dropped);
    return loss;
}

static void causal_softmax_backward_finite_differences_match(void **unused)
{
    (void)unused;
    problem_t p = problem(0.2);
    double *const dscores = zeros(B * H * T * T);
    reference_causal_softmax_backward(dscores, p.weights, p.x, 0.7, B * H, T, p.drop);
    check("scores", &p, softmax_loss, p.x, dscores, B * H * T * T);
    free(dscores);
    release(&p);
}

/* The two attentions are one: out = dropped V, with the same mask. */
static void attention_forward_equals_softmax_times_values(void **unused)
{
    (void)unused;
    problem_t p = problem(0.3);
    double out[N * C], lse[B * H * T], scores[B * H * T * T], probs[B * H * T * T], dropped[B * H * T * T];
    reference_attention_forward(out, lse, p.x, B, T, H, H, D, p.drop);
    for (int i = 0; i < B * H * T * T; i++) {
        const int j = i % T, t = i / T % T, h = i / (T * T) % H, b = i / (T * T * H);
        scores[i] = 0;
        for (int d = 0; d < D; d++)
            scores[i] += p.x[((b * T + t) * 3 * H + h) * D + d] * p.x[((b * T + j) * 3 * H + H + h) * D + d];
    }
    reference_causal_softmax_forward(probs, dropped, scores, 1 / sqrt(D), B * H, T, p.drop);
    for (int i = 0; i < N * C; i++) {
        const int d = i % D, h = i / D % H, n = i / C, b = n / T;
        double o = 0;
        for (int j = 0; j < T; j++)
            o += dropped[((b * H + h) * T + n % T) * T + j] * p.x[((b * T + j) * 3 * H + 2 * H + h) * D + d];
        assert_true(fabs(o - out[i]) < 1e-12);
    }
    release(&p);
}

static double entropy_loss(const problem_t *p)
{
    double losses[N], gradient[N * V];
    reference_cross_entropy(losses, gradient, p->x, p->tokens, N, V);
    double sum = 0;
    for (int n = 0; n < N; n++)
        sum += losses[n];
    return sum;
}

static void cross_entropy_finite_differences_match(void **unused)
{
    (void)unused;
    problem_t p = problem(0);
    double losses[N], gradient[N * V];
    for (int i = 0; i < N * V; i++)
        p.x[i] *= 5;
    reference_cross_entropy(losses, gradient, p.x, p.tokens, N, V);
    check("logits", &p, entropy_loss, p.x, gradient, N * V);
    release(&p);
}

static void cross_entropy_equal_logits_is_log_of_classes(void **unused)
{
    (void)unused;
    double logits[V] = {0}, loss, gradient[V];
    const int target = 3;
    reference_cross_entropy(&loss, gradient, logits, &target, 1, V);
    assert_true(fabs(loss - log(V)) < 1e-14);
}

/* By hand: the first step moves by the rate, against the sign of the gradient, whatever its size. */
static void adamw_first_step_moves_by_the_rate(void **unused)
{
    (void)unused;
    double w[3] = {1, 1, 1}, m[3] = {0}, v[3] = {0};
    const double g[3] = {1e-3, -5, 7};
    const reference_adamw_t o = {0.01, 0.9, 0.95, 0, 0.1, 1};
    reference_adamw(w, m, v, g, 3, 2, 0.5, o);
    assert_true(fabs(w[0] - (1 - 0.01 - 0.001)) < 1e-14);
    assert_true(fabs(w[1] - (1 + 0.01 - 0.001)) < 1e-14);
    assert_true(fabs(w[2] - (1 - 0.01)) < 1e-14);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(philox_known_answers_match),
        cmocka_unit_test(dropout_many_elements_keeps_the_mean),
        cmocka_unit_test(embedding_backward_finite_differences_match),
        cmocka_unit_test(layernorm_backward_finite_differences_match),
        cmocka_unit_test(layernorm_forward_rows_have_mean_0_and_variance_1),
        cmocka_unit_test(residual_backward_finite_differences_match),
        cmocka_unit_test(bias_gelu_backward_finite_differences_match),
        cmocka_unit_test(attention_backward_finite_differences_match),
        cmocka_unit_test(attention_backward_of_shared_keys_finite_differences_match),
        cmocka_unit_test(attention_forward_of_shared_keys_is_that_of_copies),
        cmocka_unit_test(rmsnorm_backward_finite_differences_match),
        cmocka_unit_test(swiglu_backward_finite_differences_match),
        cmocka_unit_test(rope_turns_are_turns),
        cmocka_unit_test(attention_forward_later_tokens_change_nothing),
        cmocka_unit_test(causal_softmax_backward_finite_differences_match),
        cmocka_unit_test(attention_forward_equals_softmax_times_values),
        cmocka_unit_test(cross_entropy_finite_differences_match),
        cmocka_unit_test(cross_entropy_equal_logits_is_log_of_classes),
        cmocka_unit_test(adamw_first_step_moves_by_the_rate),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
