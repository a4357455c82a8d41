/* The functions that kernels get in fast mode (softgpu/fast_math.h) against double precision, over the whole
 * line of floats. Compiled with the flags of kernels, since those are what could break them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmath>

extern "C" {
#include <cmocka.h>
}

#include "softgpu/fast_math.h"

enum { BATCH = 4096 };
static const uint32_t STRIDE = 509; /* every 509th float: 8.4 million of them */

typedef void (*batch_fn)(float *y, const float *x);
typedef double (*exact_fn)(double);

/* One loop per function, as in a kernel: the vectorised form is what is tested. */
#define BATCH_OF(name, expression)                                                                           \
    __attribute__((noinline)) static void name(float *y, const float *values)                                \
    {                                                                                                        \
        for (int i = 0; i < BATCH; i++) {                                                                    \
            const float x = values[i];                                                                       \
            y[i] = expression;                                                                               \
        }                                                                                                    \
    }
BATCH_OF(batch_exp, expf(x))
BATCH_OF(batch_exp2, exp2f(x))
BATCH_OF(batch_log, logf(x))
BATCH_OF(batch_log2, log2f(x))
BATCH_OF(batch_tanh, tanhf(x))
BATCH_OF(batch_erf, erff(x))
BATCH_OF(batch_rsqrt, rsqrtf(x))

static double exact_rsqrt(double x)
{
    return 1.0 / std::sqrt(x);
}

static double ulp_of(double x)
{
    int e;
    std::frexp(x, &e);
    return std::ldexp(1.0, (e < -125 ? -125 : e) - 24);
}

/* Denormal arguments and results count as zero (--ftz). */
static bool skipped(float x, double exact)
{
    const double tiny = 1.1754944e-38;
    return (x != 0 && std::fabs((double)x) < tiny) || (exact != 0 && std::fabs(exact) < tiny);
}

static void compare(const char *name, batch_fn batch, exact_fn exact, double limit)
{
    static float x[BATCH], y[BATCH];
    double worst = 0;
    float at = 0;
    for (uint64_t bits = 0; bits < 1ull << 32;) {
        for (int i = 0; i < BATCH; i++, bits += STRIDE) {
            const uint32_t b = (uint32_t)bits;
            memcpy(&x[i], &b, 4);
        }
        batch(y, x);
        for (int i = 0; i < BATCH; i++) {
            const double e = exact((double)x[i]);
            if (skipped(x[i], e))
                continue;
            if (std::isnan(e)) {
                if (!std::isnan(y[i]))
                    fail_msg("%s(%a) = %a, not NaN", name, x[i], y[i]);
                continue;
            }
            if (std::fabs(e) > 3.4028235e38 || std::isinf(y[i])) {
                if ((float)e != y[i])
                    fail_msg("%s(%a) = %a, expected %a", name, x[i], y[i], e);
                continue;
            }
            const double error = std::fabs((double)y[i] - e) / ulp_of(e);
            if (!(error <= worst)) {
                worst = error;
                at = x[i];
            }
        }
    }
    printf("%-6s %.3f ulp at %.9g\n", name, worst, (double)at);
    if (!(worst <= limit))
        fail_msg("%s is %.3f ulp off at %a; allowed are %.2f", name, worst, at, limit);
}

static void exp_whole_line_within_ulps(void **state)
{
    (void)state;
    compare(
        "exp", batch_exp, [](double x) { return std::exp(x); }, 1.1);
}

static void exp2_whole_line_within_ulps(void **state)
{
    (void)state;
    compare(
        "exp2", batch_exp2, [](double x) { return std::exp2(x); }, 1.1);
}

static void log_whole_line_within_ulps(void **state)
{
    (void)state;
    compare(
        "log", batch_log, [](double x) { return std::log(x); }, 1.1);
}

static void log2_whole_line_within_ulps(void **state)
{
    (void)state;
    compare(
        "log2", batch_log2, [](double x) { return std::log2(x); }, 2.1);
}

static void tanh_whole_line_within_ulps(void **state)
{
    (void)state;
    compare(
        "tanh", batch_tanh, [](double x) { return std::tanh(x); }, 2.6);
}

static void erf_whole_line_within_ulps(void **state)
{
    (void)state;
    compare(
        "erf", batch_erf, [](double x) { return std::erf(x); }, 1.6);
}

static void rsqrt_whole_line_within_ulps(void **state)
{
    (void)state;
    compare("rsqrt", batch_rsqrt, exact_rsqrt, 1.6);
}

static void special_values_are_as_in_libm(void **state)
{
    (void)state;
    static float x[BATCH], y[BATCH];
    const float inf = INFINITY, values[] = {0.0f, -0.0f, inf, -inf, NAN};
    memcpy(x, values, sizeof values);
    batch_exp(y, x);
    assert_true(y[0] == 1 && y[1] == 1 && y[2] == inf && y[3] == 0 && std::isnan(y[4]));
    batch_exp2(y, x);
    assert_true(y[0] == 1 && y[1] == 1 && y[2] == inf && y[3] == 0 && std::isnan(y[4]));
    batch_log(y, x);
    assert_true(y[0] == -inf && y[1] == -inf && y[2] == inf && std::isnan(y[3]) && std::isnan(y[4]));
    batch_tanh(y, x);
    assert_true(y[0] == 0 && y[1] == 0 && y[2] == 1 && y[3] == -1 && std::isnan(y[4]));
    batch_erf(y, x);
    assert_true(y[0] == 0 && y[1] == 0 && y[2] == 1 && y[3] == -1 && std::isnan(y[4]));
}

static void minimum_and_maximum_of_a_number_and_nan_are_the_number(void **state)
{
    (void)state;
    assert_true(fmaxf(NAN, 2.0f) == 2.0f && fmaxf(2.0f, NAN) == 2.0f);
    assert_true(fminf(NAN, 2.0f) == 2.0f && fminf(2.0f, NAN) == 2.0f);
    assert_true(fmaxf(-INFINITY, 2.0f) == 2.0f && fminf(INFINITY, 2.0f) == 2.0f);
    assert_true(std::isnan(fmaxf(NAN, NAN)) && std::isnan(fminf(NAN, NAN)));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(exp_whole_line_within_ulps),
        cmocka_unit_test(exp2_whole_line_within_ulps),
        cmocka_unit_test(log_whole_line_within_ulps),
        cmocka_unit_test(log2_whole_line_within_ulps),
        cmocka_unit_test(tanh_whole_line_within_ulps),
        cmocka_unit_test(erf_whole_line_within_ulps),
        cmocka_unit_test(rsqrt_whole_line_within_ulps),
        cmocka_unit_test(special_values_are_as_in_libm),
        cmocka_unit_test(minimum_and_maximum_of_a_number_and_nan_are_the_number),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
