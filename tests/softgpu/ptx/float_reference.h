/* float_reference.h: floating-point operations in C, with the roundings of PTX: f32 and f64 by the C library's rounding modes, numbers of few
 * bits by search. */
#ifndef PTX_FLOAT_REFERENCE_H
#define PTX_FLOAT_REFERENCE_H

#include <fenv.h>
#include <math.h>

#include "rows.h"

/* One operation, rounded as the mode says. */
static inline float rounded(int mode, char op, float x, float y, float z)
{
    volatile float a = x, b = y, c = z, d = 0;
    fesetround(mode);
    switch (op) {
    case '+':
        d = a + b;
        break;
    case '-':
        d = a - b;
        break;
    case '*':
        d = a * b;
        break;
    case '/':
        d = a / b;
        break;
    case 'q':
        d = sqrtf(a);
        break;
    case 'f':
        d = fmaf(a, b, c);
        break;
    }
    fesetround(FE_TONEAREST);
    return d;
}
static inline double rounded64(int mode, char op, double x, double y, double z)
{
    volatile double a = x, b = y, c = z, d = 0;
    fesetround(mode);
    d = op == '+'   ? a + b
        : op == '-' ? a - b
        : op == '*' ? a * b
        : op == '/' ? a / b
        : op == 'q' ? sqrt(a)
                    : fma(a, b, c);
    fesetround(FE_TONEAREST);
    return d;
}
static inline float flush(float x)
{
    return fabsf(x) < 0x1p-126f ? copysignf(0, x) : x;
}
static inline double flush64(double x)
{
    return fabs(x) < 0x1p-1022 ? copysign(0, x) : x;
}
static inline float sat(float x)
{
    return x > 0 ? x < 1 ? x : 1 : 0;
}
static inline float min_(float x, float y)
{
    return x != x ? y : y != y ? x : x < y || (x == y && signbit(x)) ? x : y;
}
static inline float max_(float x, float y)
{
    return x != x ? y : y != y ? x : x > y || (x == y && !signbit(x)) ? x : y;
}
/* ---- numbers of few bits ---- */

/* The number with this code, of so many bits of exponent and mantissa. */
static inline double number(uint32_t code, int exponent, int mantissa)
{
    const int bias = (1 << (exponent - 1)) - 1, top = (1 << exponent) - 1;
    const int e = (int)(code >> mantissa) & top, m = (int)(code & ((1u << mantissa) - 1));
    const double x =
        e == top ? (m ? NAN : INFINITY) : ldexp(e ? m + (1 << mantissa) : m, (e ? e : 1) - bias - mantissa);
    return code >> (exponent + mantissa) & 1 ? -x : x;
}

/* The code of the neighbour that the rounding takes, by binary search among the positive ones. `exact` has more digits. Roundings: n, the
 * nearest, the even one of two; a, the nearest, the one away from 0; z, m, p: towards 0, below, above. */
static inline uint32_t code_of(long double exact, int exponent, int mantissa, char rounding)
{
    const uint32_t infinity = ((1u << exponent) - 1) << mantissa;
    const bool minus = signbit(exact);
    if (exact != exact)
        return (1u << (exponent + mantissa)) - 1;
    const long double x = fabsl(exact), beyond = ldexpl(1, 1 << (exponent - 1));
    uint32_t low = 0, high = infinity;
    while (high - low > 1) {
        const uint32_t mid = (low + high) / 2;
        *(number(mid, exponent, mantissa) <= x ? &low : &high) = mid;
    }
    const long double below = x - number(low, exponent, mantissa),
                      above = (high == infinity ? beyond : number(high, exponent, mantissa)) - x;
    const bool up = rounding == 'n'   ? above < below || (above == below && low % 2)
                    : rounding == 'a' ? above <= below
                    : rounding == 'm' ? minus && below > 0
                                      : rounding == 'p' && !minus && below > 0;
    return (up || x == INFINITY ? high : low) | (uint32_t)minus << (exponent + mantissa);
}
static inline double half_value(uint32_t h, bool bf)
{
    return bf ? number(h, 8, 7) : number(h, 5, 10);
}
static inline uint32_t half_of(long double exact, bool bf)
{
    return bf ? code_of(exact, 8, 7, 'n') : code_of(exact, 5, 10, 'n');
}
/* With satfinite the largest number instead of an infinity. */
static inline uint32_t finite_of(uint32_t code, int exponent, int mantissa)
{
    const uint32_t infinity = ((1u << exponent) - 1) << mantissa;
    return (code & ((1u << (exponent + mantissa)) - 1)) == infinity ? code - 1 : code;
}
#define F16_OF(x, r)  code_of(x, 5, 10, r)
#define BF16_OF(x, r) code_of(x, 8, 7, r)
#define X2(high, low) ((uint64_t)(high) << 16 | (low))
/* a * b + c, rounded to odd: what is rounded to fewer digits behind that is as if it were rounded once. */
static inline long double sum_of(double a, double b, double c)
{
    const long double p = (long double)a * b, s = p + c, t = s - p, lost = (p - (s - t)) + (c - t);
    uint64_t digits;
    memcpy(&digits, &s, sizeof digits);
    return lost == 0 || digits & 1 ? s : nextafterl(s, lost > 0 ? INFINITY : -INFINITY);
}
#define HV(x) half_value(H(x), false)
#define BV(x) half_value(H(x), true)

#endif
