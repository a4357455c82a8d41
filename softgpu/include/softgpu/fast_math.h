/* softgpu/fast_math.h: CUDA's single-precision functions for kernels that the host compiler vectorises.
 *
 * libm's functions are calls with branches; a loop with one of them stays scalar. These are short,
 * branch-free and inlined, so that a loop with them becomes one with vector instructions. Errors against
 * double precision on the whole line (tests/softgpu/test_fast_math.cpp): exp, exp2, log 1 ulp; erf 1.2; log2,
 * rsqrt 1.5; tanh 2.5. Infinities and NaN are as in libm. Results smaller than the smallest
 * normal number become 0, and so do such arguments of logf: what nvcc does under --ftz=true.
 *
 * How each works (standard practice: Muller, "Elementary Functions", 3rd edition, chapters 3, 4 and 11):
 * - exp2, exp: x = n + f or n ln 2 + r (Cody and Waite, two constants), a polynomial on the small remainder,
 *   n added to the exponent bits.
 * - log: x = 2^e (1 + s), 1 + s in [sqrt(1/2), sqrt(2)); log(1 + s) = s - s^2/2 + s^3 Q(s).
 * - tanh: t/(t + 2) with t = exp(2|x|) - 1, where exp - 1 is formed before the scaling cancels anything.
 * - erf: |x| < 0.9: x + x P(x^2); else 1 - 2^Q(|x|), Q approximating log2(erfc).
 *
 * The polynomials are minimax approximations for the weight of the final relative error, found by Remez's
 * exchange in 120-bit arithmetic and rounded to float; their error is stated beside each.
 *
 * Kernels are compiled with -fassociative-math and with contraction. Neither may touch the few places where
 * the order of operations carries the precision: SOFTGPU_FMA is opaque to the former, and says what the
 * latter would do. -ffinite-math-only is off, or the comparisons below would lose NaN: each is written so
 * that NaN falls through.
 */
#ifndef SOFTGPU_FAST_MATH_H
#define SOFTGPU_FAST_MATH_H

#include <math.h>
#include <stdint.h>
#include <string.h>

#define SOFTGPU_MATH static inline __attribute__((always_inline, unused))

#if defined(__FP_FAST_FMAF)
#define SOFTGPU_FMA(a, b, c) __builtin_fmaf(a, b, c)
#elif defined(__has_builtin) && __has_builtin(__builtin_assoc_barrier)
#define SOFTGPU_FMA(a, b, c) (__builtin_assoc_barrier((a) * (b)) + (c))
#else /* a compiler that may merge the two steps of an argument reduction: large arguments lose bits */
#define SOFTGPU_FMA(a, b, c) ((a) * (b) + (c))
#endif

namespace softgpu
{

SOFTGPU_MATH int32_t float_bits(float x)
{
    int32_t i;
    memcpy(&i, &x, sizeof i);
    return i;
}

SOFTGPU_MATH float bits_float(int32_t i)
{
    float x;
    memcpy(&x, &i, sizeof x);
    return x;
}

/* 2^n p for 0.5 < p < 2 and a result that is a normal number. */
SOFTGPU_MATH float scale_by_power(float p, int32_t n)
{
    return bits_float((int32_t)((uint32_t)float_bits(p) + ((uint32_t)n << 23)));
}

/* Where the result is not a normal number, all that comes before the last two lines is meaningless, and
 * harmless. NaN stays NaN: the integer made of it, shifted to the exponent, is 0 (x86 and ARM alike). */
SOFTGPU_MATH float exp2_(float x)
{
    const float n = __builtin_rintf(x), f = x - n;
    /* 2^f = 1 + f q(f), |f| <= 1/2, relative error 1.6e-8 */
    float q = 0.000153533416f;
    q = SOFTGPU_FMA(q, f, 0.00133988739f);
    q = SOFTGPU_FMA(q, f, 0.00961843785f);
    q = SOFTGPU_FMA(q, f, 0.0555033237f);
    q = SOFTGPU_FMA(q, f, 0.240226477f);
    q = SOFTGPU_FMA(q, f, 0.693147182f);
    float y = scale_by_power(SOFTGPU_FMA(q, f, 1.0f), (int32_t)n);
    y = x < -126.0f ? 0.0f : y;
    return x >= 128.0f ? INFINITY : y;
}

SOFTGPU_MATH float exp_(float x)
{
    const float n = __builtin_rintf(x * 1.44269502f);
    float r = SOFTGPU_FMA(n, -0.693145752f, x); /* exact: the first constant has 8 trailing zero bits */
    r = SOFTGPU_FMA(n, -1.42860677e-6f, r);
    /* e^r = 1 + r + r^2 q(r), |r| <= ln(2)/2, relative error 4.4e-9 */
    float q = 0.00138144672f;
    q = SOFTGPU_FMA(q, r, 0.00836878084f);
    q = SOFTGPU_FMA(q, r, 0.0416683927f);
    q = SOFTGPU_FMA(q, r, 0.166665196f);
    q = SOFTGPU_FMA(q, r, 0.49999994f);
    q = SOFTGPU_FMA(q, r, 1.0f);
    float y = scale_by_power(SOFTGPU_FMA(q, r, 1.0f), (int32_t)n);
    y = x < -87.3365402f ? 0.0f : y;
    return x > 88.7228317f ? INFINITY : y;
}

SOFTGPU_MATH float log_(float x)
{
    /* Exponent and mantissa, the mantissa taken from [sqrt(1/2), sqrt(2)) by moving the border of the
     * exponent field. */
    const int32_t bits = float_bits(x), e = (int32_t)((uint32_t)bits - 0x3f3504f3u) >> 23;
    const float s = bits_float((int32_t)((uint32_t)bits - ((uint32_t)e << 23))) - 1.0f, n = (float)e;
    /* log(1 + s) = s - s^2/2 + s^3 q(s), relative error 6.4e-9 */
    float q = -0.0763448626f;
    q = SOFTGPU_FMA(q, s, 0.127615646f);
    q = SOFTGPU_FMA(q, s, -0.13160181f);
    q = SOFTGPU_FMA(q, s, 0.142017603f);
    q = SOFTGPU_FMA(q, s, -0.166233584f);
    q = SOFTGPU_FMA(q, s, 0.200012267f);
    q = SOFTGPU_FMA(q, s, -0.250008196f);
    q = SOFTGPU_FMA(q, s, 0.333333313f);
    const float s2 = s * s;
    float low = SOFTGPU_FMA(s2 * s, q, n * 1.42860677e-6f);
    low = SOFTGPU_FMA(s2, -0.5f, low);
    float y = SOFTGPU_FMA(n, 0.693145752f, SOFTGPU_FMA(s, 1.0f, low));
    y = x < 1.17549435e-38f ? -INFINITY : y;
    y = x < 0.0f ? NAN : y;
    return x < INFINITY ? y : x; /* infinity and NaN */
}

SOFTGPU_MATH float log2_(float x)
{
    const int32_t bits = float_bits(x), e = (int32_t)((uint32_t)bits - 0x3f3504f3u) >> 23;
    const float n = (float)e, y = log_(bits_float((int32_t)((uint32_t)bits - ((uint32_t)e << 23))));
    float z = SOFTGPU_FMA(y, 1.44269502f, SOFTGPU_FMA(y, 1.92596300e-8f, n));
    z = x < 1.17549435e-38f ? -INFINITY : z;
    z = x < 0.0f ? NAN : z;
    return x < INFINITY ? z : x;
}

SOFTGPU_MATH float tanh_(float x)
{
    float a = __builtin_fabsf(x);
    a = a > 9.1f ? 9.1f : a; /* from here on the nearest float is 1 */
    a = a + a;
    const float n = __builtin_rintf(a * 1.44269502f);
    float r = SOFTGPU_FMA(n, -0.693145752f, a);
    r = SOFTGPU_FMA(n, -1.42860677e-6f, r);
    float q = 0.00138144672f; /* as in exp_ */
    q = SOFTGPU_FMA(q, r, 0.00836878084f);
    q = SOFTGPU_FMA(q, r, 0.0416683927f);
    q = SOFTGPU_FMA(q, r, 0.166665196f);
    q = SOFTGPU_FMA(q, r, 0.49999994f);
    const float p = SOFTGPU_FMA(q * r, r, r); /* e^r - 1 */
    const float power = scale_by_power(1.0f, (int32_t)n);
    const float t = SOFTGPU_FMA(power, p, power - 1.0f); /* e^2|x| - 1 */
    return __builtin_copysignf(t / (t + 2.0f), x);
}

SOFTGPU_MATH float erf_(float x)
{
    const float a = __builtin_fabsf(x), y = x * x;
    /* |x| < 0.9: x + x p(x^2), relative error 8.6e-10 */
    float p = 8.51310178e-05f;
    p = SOFTGPU_FMA(p, y, -0.00081756385f);
    p = SOFTGPU_FMA(p, y, 0.00520385895f);
    p = SOFTGPU_FMA(p, y, -0.0268605091f);
    p = SOFTGPU_FMA(p, y, 0.112837151f);
    p = SOFTGPU_FMA(p, y, -0.376126349f);
    p = SOFTGPU_FMA(p, y, 0.128379166f);
    const float near = SOFTGPU_FMA(p, x, x);
    /* 0.9 <= |x| <= 4: 1 - 2^q(|x|), relative error 4.8e-9; beyond 4 the nearest float is 1 */
    const float c = a > 4.0f ? 4.0f : a;
    float q = 0.000285968359f;
    q = SOFTGPU_FMA(q, c, -0.00442254776f);
    q = SOFTGPU_FMA(q, c, 0.0321939737f);
    q = SOFTGPU_FMA(q, c, -0.150204152f);
    q = SOFTGPU_FMA(q, c, -0.918962359f);
    q = SOFTGPU_FMA(q, c, -1.62706745f);
    q = SOFTGPU_FMA(q, c, -0.000240150766f);
    const float far = __builtin_copysignf(1.0f - exp2_(q), x);
    return a >= 0.9f ? far : near; /* NaN: near */
}

SOFTGPU_MATH float rsqrt_(float x)
{
    return 1.0f / __builtin_sqrtf(x);
}

/* IEEE fmax and fmin: of a number and NaN, the number. */
SOFTGPU_MATH float fmax_(float a, float b)
{
    return (a > b) | (b != b) ? a : b;
}

SOFTGPU_MATH float fmin_(float a, float b)
{
    return (a < b) | (b != b) ? a : b;
}

} // namespace softgpu

/* By macro, not by overload: they must win over libm's own names, which are builtins of the compiler. */
#define expf(x)          softgpu::exp_(x)
#define exp2f(x)         softgpu::exp2_(x)
#define logf(x)          softgpu::log_(x)
#define log2f(x)         softgpu::log2_(x)
#define tanhf(x)         softgpu::tanh_(x)
#define erff(x)          softgpu::erf_(x)
#define rsqrtf(x)        softgpu::rsqrt_(x)
#define fmaxf(a, b)      softgpu::fmax_(a, b)
#define fminf(a, b)      softgpu::fmin_(a, b)
#define __expf(x)        softgpu::exp_(x)
#define __logf(x)        softgpu::log_(x)
#define __log2f(x)       softgpu::log2_(x)
#define __frsqrt_rn(x)   softgpu::rsqrt_(x)
#define __fdividef(a, b) ((float)(a) / (float)(b))

SOFTGPU_MATH float __int_as_float(int x)
{
    return softgpu::bits_float(x);
}

SOFTGPU_MATH int __float_as_int(float x)
{
    return softgpu::float_bits(x);
}

SOFTGPU_MATH unsigned __umulhi(unsigned a, unsigned b)
{
    return (unsigned)((uint64_t)a * b >> 32);
}

#endif
