/* test_translate_float.c: floating-point instructions as they are translated, against C: f32 in double or with the C library's rounding
 * modes, f16 and bf16 by search. */
#include "ptx_test.h"

#include <fenv.h>
#include <math.h>

#include "rows.h"

/* One operation, rounded as the mode says. */
static float rounded(int mode, char op, float x, float y, float z)
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
static double rounded64(int mode, char op, double x, double y, double z)
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
static float flush(float x)
{
    return fabsf(x) < 0x1p-126f ? copysignf(0, x) : x;
}
static float sat(float x)
{
    return x > 0 ? x < 1 ? x : 1 : 0;
}
static float min_(float x, float y)
{
    return x != x ? y : y != y ? x : x < y || (x == y && signbit(x)) ? x : y;
}
static float max_(float x, float y)
{
    return x != x ? y : y != y ? x : x > y || (x == y && !signbit(x)) ? x : y;
}
static double half_value(uint32_t h, bool bf)
{
    const int mantissa = bf ? 7 : 10, bias = bf ? 127 : 15, top = bf ? 255 : 31;
    const int e = (int)(h >> mantissa) & top, m = (int)(h & ((1u << mantissa) - 1));
    const double x =
        e == top ? (m ? NAN : INFINITY) : ldexp(e ? m + (1 << mantissa) : m, (e ? e : 1) - bias - mantissa);
    return h >> 15 ? -x : x;
}
/* The nearest of all numbers of 16 bits, the even one of two: by binary search among the positive ones. `exact` has more digits. */
static uint32_t half_of(long double exact, bool bf)
{
    const uint32_t infinity = bf ? 0x7f80 : 0x7c00, sign = signbit(exact) ? 0x8000 : 0;
    if (exact != exact)
        return 0x7fff;
    const long double x = exact < 0 ? -exact : exact;
    uint32_t low = 0, high = infinity;
    if (x >= (bf ? 0x1.ffp127L : 65520.0L))
        return sign | infinity;
    while (high - low > 1) {
        const uint32_t mid = (low + high) / 2;
        *(mid != infinity && half_value(mid, bf) <= x ? &low : &high) = mid;
    }
    const long double below = x - half_value(low, bf),
                      above = (high == infinity ? (bf ? 0x1p128L : 65536.0L) : half_value(high, bf)) - x;
    return sign | (below < above || (below == above && low % 2 == 0) ? low : high);
}
/* a * b + c; where digits are lost, not on a tie for what is rounded to fewer ones. */
static long double sum_of(double a, double b, double c)
{
    const long double p = (long double)a * b, s = p + c, t = s - p, lost = (p - (s - t)) + (c - t);
    return lost > 0 ? nextafterl(s, INFINITY) : lost < 0 ? nextafterl(s, -INFINITY) : s;
}
#define HV(x) half_value(H(x), false)
#define BV(x) half_value(H(x), true)
static uint64_t to_int(double x, double low, double high, int64_t if_nan)
{
    return x != x      ? (uint64_t)if_nan
           : x <= low  ? (uint64_t)(int64_t)low
           : x >= high ? (uint64_t)(int64_t)high
                       : (uint64_t)(int64_t)x;
}
static uint64_t to_u64(double x)
{
    return x != x ? UINT64_C(1) << 63 : x <= 0 ? 0 : x >= 0x1p64 ? UINT64_MAX : (uint64_t)x;
}
static float of_u64(uint64_t x, int mode, bool is_signed)
{
    volatile uint64_t from = x;
    fesetround(mode);
    volatile float d = is_signed ? (float)(int64_t)from : (float)from;
    fesetround(FE_TONEAREST);
    return d;
}
static float of_f64(double x, int mode)
{
    volatile double from = x;
    fesetround(mode);
    volatile float d = (float)from;
    fesetround(FE_TONEAREST);
    return d;
}
/* e4m3 or e5m2 by search, never beyond the largest. */
static uint32_t eight(double x, bool e4m3)
{
    uint32_t best = 0;
    const uint32_t largest = e4m3 ? 0x7e : 0x7b;
    double off = INFINITY;
    if (x != x)
        return 0x7f;
    for (uint32_t code = 0; code <= largest; code++) {
        const int mantissa = e4m3 ? 3 : 2, bias = e4m3 ? 7 : 15, e = (int)(code >> mantissa),
                  m = (int)(code & ((1u << mantissa) - 1));
        const double d = fabs(ldexp(e ? m + (1 << mantissa) : m, (e ? e : 1) - bias - mantissa) - fabs(x));
        if (d < off || (d == off && code % 2 == 0)) {
            off = d;
            best = code;
        }
    }
    if (fabs(x) >= (e4m3 ? 448 : 57344))
        best = largest;
    return best | (signbit(x) ? 0x80 : 0);
}

// clang-format off
#define DIRECTED(ROW, name, mode) \
    ROW("add." name ".f32 D, A, B", "fff", 0, FB(rounded(mode, '+', F(a), F(b), 0))) ROW("sub." name ".f32 D, A, B", "fff", 0, FB(rounded(mode, '-', F(a), F(b), 0))) ROW("mul." name ".f32 D, A, B", "fff", 0, FB(rounded(mode, '*', F(a), F(b), 0))) \
    ROW("div." name ".f32 D, A, B", "fff", 0, FB(rounded(mode, '/', F(a), F(b), 0))) ROW("sqrt." name ".f32 D, A", "ff", 0, FB(rounded(mode, 'q', F(a), 0, 0))) ROW("fma." name ".f32 D, A, B, C", "ffff", 0, FB(rounded(mode, 'f', F(a), F(b), F(c)))) ROW("rcp." name ".f32 D, A", "ff", 0, FB(rounded(mode, '/', 1, F(a), 0))) \
    ROW("add." name ".f64 D, A, B", "ggg", 0, GB(rounded64(mode, '+', G(a), G(b), 0))) ROW("sub." name ".f64 D, A, B", "ggg", 0, GB(rounded64(mode, '-', G(a), G(b), 0))) ROW("mul." name ".f64 D, A, B", "ggg", 0, GB(rounded64(mode, '*', G(a), G(b), 0))) \
    ROW("div." name ".f64 D, A, B", "ggg", 0, GB(rounded64(mode, '/', G(a), G(b), 0))) ROW("sqrt." name ".f64 D, A", "gg", 0, GB(rounded64(mode, 'q', G(a), 0, 0))) ROW("fma." name ".f64 D, A, B, C", "gggg", 0, GB(rounded64(mode, 'f', G(a), G(b), G(c)))) ROW("rcp." name ".f64 D, A", "gg", 0, GB(rounded64(mode, '/', 1, G(a), 0))) \
    ROW("cvt." name ".f32.f64 D, A", "fg", 0, FB(of_f64(G(a), mode))) ROW("cvt." name ".f32.u64 D, A", "fl", 0, FB(of_u64(a, mode, false))) ROW("cvt." name ".f32.s64 D, A", "fl", 0, FB(of_u64(a, mode, true))) ROW("cvt." name ".f32.s32 D, A", "fw", 0, FB(of_u64((uint64_t)SW(a), mode, true)))

#define SINGLE(ROW) \
    DIRECTED(ROW, "rn", FE_TONEAREST) DIRECTED(ROW, "rz", FE_TOWARDZERO) DIRECTED(ROW, "rm", FE_DOWNWARD) DIRECTED(ROW, "rp", FE_UPWARD) \
    ROW("add.f32 D, A, B", "fff", 0, FB(F(a) + F(b))) ROW("add.ftz.f32 D, A, B", "fff", 0, FB(flush(flush(F(a)) + flush(F(b))))) ROW("mul.ftz.sat.f32 D, A, B", "fff", 0, FB(sat(flush(flush(F(a)) * flush(F(b)))))) ROW("fma.rn.sat.f32 D, A, B, C", "ffff", 0, FB(sat(fmaf(F(a), F(b), F(c))))) \
    ROW("fma.rn.ftz.f32 D, A, B, C", "ffff", 0, FB(flush(fmaf(flush(F(a)), flush(F(b)), flush(F(c)))))) ROW("mad.rn.f32 D, A, B, C", "ffff", 0, FB(fmaf(F(a), F(b), F(c)))) ROW("add.f32 D, A, 0f3fc00000", "ff", 0, FB(F(a) + 1.5f)) \
    ROW("abs.f32 D, A", "ff", 0, FB(fabsf(F(a)))) ROW("neg.f32 D, A", "ff", 0, FB(-F(a))) ROW("abs.ftz.f32 D, A", "ff", 0, FB(fabsf(flush(F(a))))) ROW("abs.f64 D, A", "gg", 0, GB(fabs(G(a)))) ROW("neg.f64 D, A", "gg", 0, GB(-G(a))) ROW("copysign.f32 D, A, B", "fff", 0, FB(copysignf(F(b), F(a)))) \
    ROW("min.f32 D, A, B", "fff", 0, FB(min_(F(a), F(b)))) ROW("max.f32 D, A, B", "fff", 0, FB(max_(F(a), F(b)))) ROW("min.NaN.f32 D, A, B", "fff", 0, FB(F(a) != F(a) || F(b) != F(b) ? NAN : min_(F(a), F(b)))) ROW("max.ftz.f32 D, A, B", "fff", 0, FB(max_(flush(F(a)), flush(F(b))))) \
    ROW("max.xorsign.abs.f32 D, A, B", "fff", 0, FB(copysignf(max_(fabsf(F(a)), fabsf(F(b))), !signbit(F(a)) == !signbit(F(b)) ? 1 : -1))) ROW("max.f32 D, A, B, C", "ffff", 0, FB(max_(max_(F(a), F(b)), F(c)))) ROW("max.f64 D, A, B", "ggg", 0, GB(G(a) != G(a) ? G(b) : G(b) != G(b) ? G(a) : G(a) > G(b) || (G(a) == G(b) && !signbit(G(a))) ? G(a) : G(b))) \
    ROW("div.approx.f32 D, A, B", "fff", 2, FB(F(a) / F(b))) ROW("div.full.f32 D, A, B", "fff", 2, FB(F(a) / F(b))) ROW("rcp.approx.f32 D, A", "ff", 1, FB(1 / F(a))) ROW("sqrt.approx.f32 D, A", "ff", 1, FB(sqrtf(F(a)))) ROW("rsqrt.approx.f32 D, A", "ff", 2, FB((float)(1 / sqrt((double)F(a))))) \
    ROW("ex2.approx.f32 D, A", "ff", 2, FB((float)exp2((double)F(a)))) ROW("ex2.approx.ftz.f32 D, A", "ff", 2, FB(flush((float)exp2((double)flush(F(a)))))) ROW("lg2.approx.f32 D, A", "ff", 2, FB((float)log2((double)F(a)))) ROW("sin.approx.f32 D, A", "ff", 2, FB((float)sin((double)F(a)))) ROW("cos.approx.f32 D, A", "ff", 2, FB((float)cos((double)F(a)))) ROW("tanh.approx.f32 D, A", "ff", 4, FB((float)tanh((double)F(a)))) \
    ROW("rsqrt.approx.f64 D, A", "gg", 4, GB(1 / sqrt(G(a)))) \
    ROW("testp.finite.f32 D, A", "pf", 0, isfinite(F(a)) != 0) ROW("testp.infinite.f32 D, A", "pf", 0, isinf(F(a)) != 0) ROW("testp.number.f32 D, A", "pf", 0, F(a) == F(a)) ROW("testp.notanumber.f64 D, A", "pg", 0, G(a) != G(a)) ROW("testp.normal.f32 D, A", "pf", 0, isnormal(F(a)) != 0) ROW("testp.subnormal.f32 D, A", "pf", 0, fabsf(F(a)) < 0x1p-126f) \
    ROW("setp.eq.f32 D, A, B", "pff", 0, F(a) == F(b)) ROW("setp.ne.f32 D, A, B", "pff", 0, F(a) < F(b) || F(a) > F(b)) ROW("setp.lt.f32 D, A, B", "pff", 0, F(a) < F(b)) ROW("setp.le.f64 D, A, B", "pgg", 0, G(a) <= G(b)) ROW("setp.gt.f32 D, A, B", "pff", 0, F(a) > F(b)) ROW("setp.ge.f32 D, A, B", "pff", 0, F(a) >= F(b)) \
    ROW("setp.equ.f32 D, A, B", "pff", 0, !(F(a) < F(b) || F(a) > F(b))) ROW("setp.neu.f32 D, A, B", "pff", 0, F(a) != F(b)) ROW("setp.ltu.f32 D, A, B", "pff", 0, !(F(a) >= F(b))) ROW("setp.leu.f32 D, A, B", "pff", 0, !(F(a) > F(b))) ROW("setp.gtu.f64 D, A, B", "pgg", 0, !(G(a) <= G(b))) ROW("setp.geu.f32 D, A, B", "pff", 0, !(F(a) < F(b))) \
    ROW("setp.num.f32 D, A, B", "pff", 0, F(a) == F(a) && F(b) == F(b)) ROW("setp.nan.f32 D, A, B", "pff", 0, F(a) != F(a) || F(b) != F(b)) ROW("setp.lt.ftz.f32 D, A, B", "pff", 0, flush(F(a)) < flush(F(b))) ROW("set.gt.f32.f32 D, A, B", "fff", 0, FB(F(a) > F(b) ? 1 : 0)) ROW("set.le.u32.f64 D, A, B", "wgg", 0, G(a) <= G(b) ? UINT32_MAX : 0)

#define CONVERSIONS(ROW) \
    ROW("cvt.rni.s32.f32 D, A", "wf", 0, W(to_int(rintf(F(a)), INT32_MIN, INT32_MAX, 0))) ROW("cvt.rzi.s32.f32 D, A", "wf", 0, W(to_int(truncf(F(a)), INT32_MIN, INT32_MAX, 0))) ROW("cvt.rmi.s32.f32 D, A", "wf", 0, W(to_int(floorf(F(a)), INT32_MIN, INT32_MAX, 0))) ROW("cvt.rpi.s32.f32 D, A", "wf", 0, W(to_int(ceilf(F(a)), INT32_MIN, INT32_MAX, 0))) \
    ROW("cvt.rzi.u32.f32 D, A", "wf", 0, W(to_int(truncf(F(a)), 0, UINT32_MAX, 0))) ROW("cvt.rni.u8.f32 D, A", "wf", 0, W(to_int(rintf(F(a)), 0, 255, 0))) ROW("cvt.rzi.s8.f32 D, A", "wf", 0, W(to_int(truncf(F(a)), -128, 127, 0))) ROW("cvt.rzi.s16.f64 D, A", "hg", 0, H(to_int(trunc(G(a)), -32768, 32767, 0x8000))) \
    ROW("cvt.rzi.s32.f64 D, A", "wg", 0, W(to_int(trunc(G(a)), INT32_MIN, INT32_MAX, INT32_MIN))) ROW("cvt.rzi.u64.f32 D, A", "lf", 0, to_u64(truncf(F(a)))) ROW("cvt.rni.u64.f64 D, A", "lg", 0, to_u64(rint(G(a)))) ROW("cvt.rzi.s64.f32 D, A", "lf", 0, F(a) != F(a) ? 1ull << 63 : F(a) >= 0x1p63f ? INT64_MAX : F(a) <= -0x1p63f ? 1ull << 63 : (uint64_t)(int64_t)F(a)) \
    ROW("cvt.rni.f32.f32 D, A", "ff", 0, FB(rintf(F(a)))) ROW("cvt.rmi.f64.f64 D, A", "gg", 0, GB(floor(G(a)))) ROW("cvt.rzi.ftz.f32.f32 D, A", "ff", 0, FB(truncf(flush(F(a))))) ROW("cvt.sat.f32.f32 D, A", "ff", 0, FB(sat(F(a)))) ROW("cvt.f64.f32 D, A", "gf", 0, GB((double)F(a))) ROW("cvt.rn.f64.u64 D, A", "gl", 0, GB((double)a)) ROW("cvt.rn.f64.s32 D, A", "gw", 0, GB(SW(a))) ROW("cvt.rn.f32.u32 D, A", "fw", 0, FB((float)W(a))) ROW("cvt.rn.f32.u8 D, A", "fw", 0, FB((uint8_t)a)) ROW("cvt.rn.f32.s16 D, A", "fh", 0, FB(SH(a))) ROW("cvt.rn.sat.f32.s32 D, A", "fw", 0, FB(sat((float)SW(a)))) \
    ROW("cvt.rn.f16.f32 D, A", "bf", 0, half_of(F(a), false)) ROW("cvt.rn.bf16.f32 D, A", "bf", 0, half_of(F(a), true)) ROW("cvt.rn.f16.f64 D, A", "bg", 0, half_of(G(a), false)) ROW("cvt.rn.f16.u64 D, A", "bl", 0, half_of(a, false)) ROW("cvt.rn.f16.s32 D, A", "bw", 0, half_of(SW(a), false)) ROW("cvt.rn.bf16.s64 D, A", "bl", 0, half_of(SL(a), true)) ROW("cvt.rn.bf16.f64 D, A", "bg", 0, half_of(G(a), true)) \
    ROW("cvt.f32.f16 D, A", "fb", 0, FB((float)HV(a))) ROW("cvt.f32.bf16 D, A", "fb", 0, FB((float)BV(a))) ROW("cvt.f64.f16 D, A", "gb", 0, GB(HV(a))) ROW("cvt.rzi.s32.f16 D, A", "wb", 0, W(to_int(trunc(HV(a)), INT32_MIN, INT32_MAX, 0))) ROW("cvt.rni.f16.f16 D, A", "bb", 0, half_of(rint(HV(a)), false)) \
    ROW("cvt.rn.f16x2.f32 D, A, B", "wff", 0, F(a) != F(a) || F(b) != F(b) ? (uint64_t)(F(a) != F(a) ? 0x7fff : half_of(F(a), false)) << 16 | (F(b) != F(b) ? 0x7fff : half_of(F(b), false)) : (uint64_t)half_of(F(a), false) << 16 | half_of(F(b), false)) \
    ROW("cvt.rn.relu.bf16x2.f32 D, A, B", "wff", 0, (uint64_t)(F(a) != F(a) ? 0x7fff : F(a) > 0 ? half_of(F(a), true) : 0) << 16 | (F(b) != F(b) ? 0x7fff : F(b) > 0 ? half_of(F(b), true) : 0)) \
    ROW("cvt.rn.satfinite.e4m3x2.f32 D, A, B", "hff", 0, eight(F(a), true) << 8 | eight(F(b), true)) ROW("cvt.rn.satfinite.e5m2x2.f32 D, A, B", "hff", 0, eight(F(a), false) << 8 | eight(F(b), false)) \
    ROW("cvt.rn.satfinite.e4m3x2.f16x2 D, A", "hw", 0, eight(HV(a >> 16), true) << 8 | eight(HV(a), true)) ROW("set.lt.u16.f16 D, A, B", "hbb", 0, HV(a) < HV(b) ? 0xffff : 0) ROW("set.neu.f16x2.f16x2 D, A, B", "www", 0, (HV(a) != HV(b) ? 0x3c00u : 0) | (HV(a >> 16) != HV(b >> 16) ? 0x3c000000u : 0)) \
    ROW("add.rn.f32.f16 D, A, B", "fbf", 0, FB((float)HV(a) + F(b))) ROW("fma.rz.f32.bf16 D, A, B, C", "fbbf", 0, FB(rounded(FE_TOWARDZERO, 'f', (float)BV(a), (float)BV(b), F(c)))) \
    ROW("cvt.rna.tf32.f32 D, A", "wf", 0, F(a) != F(a) ? 0x7fffffff : isinf(F(a)) ? W(a) : (W(a) + 0x1000) & 0xffffe000)

#define HALVES(ROW, type, value, bf) \
    ROW("add.rn." type " D, A, B", "bbb", 0, half_of((long double)value(a) + value(b), bf)) ROW("sub.rn." type " D, A, B", "bbb", 0, half_of((long double)value(a) - value(b), bf)) ROW("mul.rn." type " D, A, B", "bbb", 0, half_of((long double)value(a) * value(b), bf)) \
    ROW("fma.rn." type " D, A, B, C", "bbbb", 0, half_of(sum_of(value(a), value(b), value(c)), bf)) ROW("neg." type " D, A", "bb", 0, half_of(-value(a), bf)) ROW("abs." type " D, A", "bb", 0, half_of(fabs(value(a)), bf)) \
    ROW("min." type " D, A, B", "bbb", 0, half_of(min_((float)value(a), (float)value(b)), bf)) ROW("max.NaN." type " D, A, B", "bbb", 0, half_of(value(a) != value(a) || value(b) != value(b) ? NAN : max_((float)value(a), (float)value(b)), bf)) \
    ROW("setp.lt." type " D, A, B", "pbb", 0, value(a) < value(b)) ROW("setp.neu." type " D, A, B", "pbb", 0, value(a) != value(b))
#define SMALL(ROW) HALVES(ROW, "f16", HV, false) HALVES(ROW, "bf16", BV, true) \
    ROW("fma.rn.relu.f16 D, A, B, C", "bbbb", 0, half_of(sum_of(HV(a), HV(b), HV(c)) > 0 || isnan(sum_of(HV(a), HV(b), HV(c))) ? sum_of(HV(a), HV(b), HV(c)) : 0, false)) ROW("add.rn.sat.f16 D, A, B", "bbb", 0, half_of(sat((float)half_value(half_of((long double)HV(a) + HV(b), false), false)), false)) \
    ROW("{ .reg .b32 t, u; mov.b32 t, {A, B}; mov.b32 u, {B, C}; add.rn.f16x2 t, t, u; mov.b32 {_, D}, t; }", "bbbb", 0, half_of((long double)HV(b) + HV(c), false)) ROW("{ .reg .b32 t, u; mov.b32 t, {A, B}; mov.b32 u, {B, C}; fma.rn.bf16x2 t, t, u, u; mov.b32 {D, _}, t; }", "bbbb", 0, half_of(sum_of(BV(a), BV(b), BV(b)), true))

ROWS(single_and_double_equal_c, SINGLE)
ROWS(conversions_equal_c, CONVERSIONS)
ROWS(halves_equal_the_nearest_number, SMALL)
// clang-format on

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(single_and_double_equal_c),
                                       cmocka_unit_test(conversions_equal_c),
                                       cmocka_unit_test(halves_equal_the_nearest_number)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
