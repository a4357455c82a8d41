/* test_translate_float.c: floating-point instructions as they are translated, against C: f32 in double or with the C library's rounding
 * modes, numbers of few bits by search. */
#include "ptx_test.h"

#include "float_reference.h"

static double reciprocal(double x)
{
    return 1 / x;
}
static double rsqrt(double x)
{
    return 1 / sqrt(x);
}
/* div.approx: a divisor above 2^126 counts as infinite. */
static float quotient(float x, float y)
{
    return fabsf(y) > 0x1p126f ? x * copysignf(0, y) : (float)((double)x / (double)y);
}
static uint32_t tf32_of(float x, char rounding, bool saturates)
{
    const uint32_t code = code_of(x, 8, 10, rounding);
    return x != x ? 0x7fffffff : (saturates ? finite_of(code, 8, 10) : code) << 13;
}
static float relu(float x)
{
    return x > 0 || x != x ? x : 0;
}
/* A whole number in a type of integers; `wide`: from f64. A NaN becomes 0, or, to or from 64 bits, the highest bit alone. */
static uint64_t whole(long double x, int bits, bool is_signed, bool wide)
{
    const long double low = is_signed ? -ldexpl(1, bits - 1) : 0, high = ldexpl(1, bits - is_signed);
    const uint64_t top = UINT64_C(1) << (bits - 1);
    return x != x               ? (wide || bits == 64 ? is_signed ? 0 - top : top : 0)
           : x <= low           ? (uint64_t)(int64_t)low
           : x >= high          ? 2 * (is_signed ? top / 2 : top) - 1
           : is_signed || x < 0 ? (uint64_t)(int64_t)x
                                : (uint64_t)x;
}
#define OF_INTEGER(name, type)                                                                               \
    static type name(uint64_t x, int mode, bool is_signed)                                                   \
    {                                                                                                        \
        volatile uint64_t from = x;                                                                          \
        fesetround(mode);                                                                                    \
        volatile type d = is_signed ? (type)(int64_t)from : (type)from;                                      \
        fesetround(FE_TONEAREST);                                                                            \
        return d;                                                                                            \
    }
OF_INTEGER(f32_of_int, float)
OF_INTEGER(f64_of_int, double)
static float of_f64(double x, int mode)
{
    volatile double from = x;
    fesetround(mode);
    volatile float d = (float)from;
    fesetround(FE_TONEAREST);
    return d;
}
/* e4m3 or e5m2 by search, never beyond the largest; and back. */
static double eight_value(uint32_t code, bool e4m3)
{
    const int mantissa = e4m3 ? 3 : 2, bias = e4m3 ? 7 : 15, e = (int)(code >> mantissa) & (e4m3 ? 15 : 31),
              m = (int)(code & ((1u << mantissa) - 1));
    const double x = e4m3 && e == 15 && m == 7 ? NAN
                     : !e4m3 && e == 31        ? m ? NAN : INFINITY
                                        : ldexp(e ? m + (1 << mantissa) : m, (e ? e : 1) - bias - mantissa);
    return code & 0x80 ? -x : x;
}
static uint32_t eight(double x, bool e4m3)
{
    uint32_t best = 0;
    const uint32_t largest = e4m3 ? 0x7e : 0x7b;
    double off = INFINITY;
    if (x != x)
        return 0x7f;
    for (uint32_t code = 0; code <= largest; code++) {
        const double d = fabs(eight_value(code, e4m3) - fabs(x));
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
    ROW("cvt." name ".f32.f64 D, A", "fg", 0, FB(of_f64(G(a), mode))) ROW("cvt." name ".f32.u64 D, A", "fl", 0, FB(f32_of_int(a, mode, false))) ROW("cvt." name ".f32.s64 D, A", "fl", 0, FB(f32_of_int(a, mode, true))) ROW("cvt." name ".f32.s32 D, A", "fw", 0, FB(f32_of_int((uint64_t)SW(a), mode, true)))

#define SINGLE(ROW) \
    DIRECTED(ROW, "rn", FE_TONEAREST) DIRECTED(ROW, "rz", FE_TOWARDZERO) DIRECTED(ROW, "rm", FE_DOWNWARD) DIRECTED(ROW, "rp", FE_UPWARD) \
    ROW("mul.ftz.sat.f32 D, A, B", "fff", 0, FB(sat(flush(flush(F(a)) * flush(F(b)))))) ROW("setp.lt.ftz.f32 D, A, B", "pff", 0, flush(F(a)) < flush(F(b))) ROW("add.f32 D, A, 0f3fc00000", "ff", 0, FB(F(a) + 1.5f)) \
    ROW("testp.finite.f32 D, A", "pf", 0, isfinite(F(a)) != 0) ROW("testp.infinite.f32 D, A", "pf", 0, isinf(F(a)) != 0) ROW("testp.number.f32 D, A", "pf", 0, F(a) == F(a)) ROW("testp.notanumber.f64 D, A", "pg", 0, G(a) != G(a)) ROW("testp.normal.f32 D, A", "pf", 0, isnormal(F(a)) != 0) ROW("testp.subnormal.f32 D, A", "pf", 0, fabsf(F(a)) < 0x1p-126f)


/* To every type of integers. */
#define TO_INTS(ROW, name, function, type, kind, value, wide) \
    ROW("cvt." name ".u8." type " D, A", "w" kind, 0, W(whole(function(value(a)), 8, false, wide))) ROW("cvt." name ".s8." type " D, A", "w" kind, 0, W(whole(function(value(a)), 8, true, wide))) \
    ROW("cvt." name ".u16." type " D, A", "h" kind, 0, H(whole(function(value(a)), 16, false, wide))) ROW("cvt." name ".s16." type " D, A", "h" kind, 0, H(whole(function(value(a)), 16, true, wide))) \
    ROW("cvt." name ".u32." type " D, A", "w" kind, 0, W(whole(function(value(a)), 32, false, wide))) ROW("cvt." name ".s32." type " D, A", "w" kind, 0, W(whole(function(value(a)), 32, true, wide))) \
    ROW("cvt." name ".u64." type " D, A", "l" kind, 0, whole(function(value(a)), 64, false, wide)) ROW("cvt." name ".s64." type " D, A", "l" kind, 0, whole(function(value(a)), 64, true, wide))
#define INTS_OF(ROW, name, function) \
    TO_INTS(ROW, name, function, "f32", "f", F, false) TO_INTS(ROW, name, function, "f64", "g", G, true) TO_INTS(ROW, name, function, "f16", "b", HV, false) TO_INTS(ROW, name, function, "bf16", "b", BV, false) \
    ROW("cvt." name ".f32.f32 D, A", "ff", 0, FB((float)function(F(a)))) ROW("cvt." name ".f64.f64 D, A", "gg", 0, GB(function(G(a)))) ROW("cvt." name ".f16.f16 D, A", "bb", 0, half_of(function(HV(a)), false)) ROW("cvt." name ".bf16.bf16 D, A", "bb", 0, half_of(function(BV(a)), true))
#define OF_FLOATS(ROW) \
    INTS_OF(ROW, "rni", rint) INTS_OF(ROW, "rzi", trunc) INTS_OF(ROW, "rmi", floor) INTS_OF(ROW, "rpi", ceil) \
    ROW("cvt.rzi.ftz.s32.f32 D, A", "wf", 0, W(whole(trunc(flush(F(a))), 32, true, false))) ROW("cvt.rpi.ftz.u32.f32 D, A", "wf", 0, W(whole(ceil(flush(F(a))), 32, false, false))) ROW("cvt.rzi.sat.u8.f32 D, A", "wf", 0, W(whole(trunc(F(a)), 8, false, false))) ROW("cvt.rzi.ftz.f32.f32 D, A", "ff", 0, FB(truncf(flush(F(a)))))

/* To what is smaller, with a rounding. */
#define NARROWED(ROW, name, r, mode) \
    ROW("cvt." name ".f16.f32 D, A", "bf", 0, F16_OF(F(a), r)) ROW("cvt." name ".f16.f64 D, A", "bg", 0, F16_OF(G(a), r)) ROW("cvt." name ".bf16.f32 D, A", "bf", 0, BF16_OF(F(a), r)) ROW("cvt." name ".bf16.f64 D, A", "bg", 0, BF16_OF(G(a), r)) ROW("cvt." name ".bf16.f16 D, A", "bb", 0, BF16_OF(HV(a), r)) \
    ROW("cvt." name ".f16.u64 D, A", "bl", 0, F16_OF(a, r)) ROW("cvt." name ".f16.s32 D, A", "bw", 0, F16_OF(SW(a), r)) ROW("cvt." name ".f16.u8 D, A", "bw", 0, F16_OF((uint8_t)a, r)) ROW("cvt." name ".bf16.s64 D, A", "bl", 0, BF16_OF(SL(a), r)) ROW("cvt." name ".bf16.u32 D, A", "bw", 0, BF16_OF(W(a), r)) ROW("cvt." name ".bf16.s16 D, A", "bh", 0, BF16_OF(SH(a), r)) \
    ROW("cvt." name ".f64.u64 D, A", "gl", 0, GB(f64_of_int(a, mode, false))) ROW("cvt." name ".f64.s64 D, A", "gl", 0, GB(f64_of_int(a, mode, true))) ROW("cvt." name ".f64.s32 D, A", "gw", 0, GB(SW(a))) \
    ROW("cvt." name ".sat.f16.f32 D, A", "bf", 0, F16_OF(sat(F(a)), r)) ROW("cvt." name ".sat.f32.f64 D, A", "fg", 0, FB(sat(of_f64(G(a), mode)))) ROW("cvt." name ".ftz.f32.f64 D, A", "fg", 0, FB(flush(of_f64(G(a), mode))))
#define CONVERSIONS(ROW) \
    NARROWED(ROW, "rn", 'n', FE_TONEAREST) NARROWED(ROW, "rz", 'z', FE_TOWARDZERO) NARROWED(ROW, "rm", 'm', FE_DOWNWARD) NARROWED(ROW, "rp", 'p', FE_UPWARD) \
    ROW("cvt.sat.f32.f32 D, A", "ff", 0, FB(sat(F(a)))) ROW("cvt.sat.f64.f64 D, A", "gg", 0, GB(G(a) > 0 ? G(a) < 1 ? G(a) : 1 : 0)) ROW("cvt.sat.f16.f16 D, A", "bb", 0, half_of(sat((float)HV(a)), false)) ROW("cvt.ftz.f32.f32 D, A", "ff", 0, FB(flush(F(a)))) ROW("cvt.f64.f32 D, A", "gf", 0, GB((double)F(a))) ROW("cvt.rn.f32.u32 D, A", "fw", 0, FB((float)W(a))) ROW("cvt.rn.f32.u8 D, A", "fw", 0, FB((uint8_t)a)) ROW("cvt.rn.f32.s16 D, A", "fh", 0, FB(SH(a))) ROW("cvt.rn.sat.f32.s32 D, A", "fw", 0, FB(sat((float)SW(a)))) \
    ROW("cvt.f32.f16 D, A", "fb", 0, FB((float)HV(a))) ROW("cvt.f32.bf16 D, A", "fb", 0, FB((float)BV(a))) ROW("cvt.f64.f16 D, A", "gb", 0, GB(HV(a))) ROW("cvt.f64.bf16 D, A", "gb", 0, GB(BV(a))) ROW("cvt.sat.f32.f16 D, A", "fb", 0, FB(sat((float)HV(a)))) \
    ROW("cvt.rn.ftz.f32.s8 D, A", "fw", 0, FB((int8_t)a)) ROW("cvt.rn.f16.s8 D, A", "bw", 0, F16_OF((int8_t)a, 'n')) ROW("cvt.rn.f16.u16 D, A", "bh", 0, F16_OF(H(a), 'n')) ROW("cvt.rn.bf16.s8 D, A", "hw", 0, BF16_OF((int8_t)a, 'n')) \
    ROW("cvt.rn.bf16.s32 D, A", "hw", 0, BF16_OF(SW(a), 'n')) ROW("cvt.rn.bf16.u8 D, A", "hw", 0, BF16_OF((uint8_t)a, 'n')) ROW("cvt.rn.bf16.u16 D, A", "hh", 0, BF16_OF(H(a), 'n')) ROW("cvt.rn.bf16.u64 D, A", "hl", 0, BF16_OF(a, 'n')) \
    ROW("cvt.rn.ftz.f16.f32 D, A", "bf", 0, F16_OF(flush(F(a)), 'n')) ROW("cvt.rz.satfinite.f16.f32 D, A", "bf", 0, finite_of(F16_OF(F(a), 'z'), 5, 10)) ROW("cvt.ftz.f32.f16 D, A", "fb", 0, FB((float)HV(a))) \
    ROW("cvt.ftz.f64.f32 D, A", "gf", 0, GB(flush(F(a)))) ROW("cvt.sat.f64.f16 D, A", "gb", 0, GB(sat((float)HV(a)))) ROW("cvt.ftz.f32.bf16 D, A", "fe", 0, FB(flush((float)BV(a)))) \
    ROW("cvt.rn.satfinite.e4m3x2.bf16x2 D, A", "hv", 0, eight(BV(a >> 16), true) << 8 | eight(BV(a), true)) \
    ROW("cvt.rn.relu.f16.f32 D, A", "bf", 0, F16_OF(relu(F(a)), 'n')) ROW("cvt.rz.relu.satfinite.f16.f32 D, A", "bf", 0, finite_of(F16_OF(relu(F(a)), 'z'), 5, 10)) ROW("cvt.rn.satfinite.f16.f32 D, A", "bf", 0, finite_of(F16_OF(F(a), 'n'), 5, 10)) ROW("cvt.rn.satfinite.bf16.f32 D, A", "bf", 0, finite_of(BF16_OF(F(a), 'n'), 8, 7)) ROW("cvt.rz.relu.bf16.f32 D, A", "bf", 0, BF16_OF(relu(F(a)), 'z')) \
    ROW("cvt.rn.f16x2.f32 D, A, B", "wff", 0, X2(F16_OF(F(a), 'n'), F16_OF(F(b), 'n'))) ROW("cvt.rz.f16x2.f32 D, A, B", "wff", 0, X2(F16_OF(F(a), 'z'), F16_OF(F(b), 'z'))) ROW("cvt.rn.satfinite.f16x2.f32 D, A, B", "wff", 0, X2(finite_of(F16_OF(F(a), 'n'), 5, 10), finite_of(F16_OF(F(b), 'n'), 5, 10))) \
    ROW("cvt.rn.relu.bf16x2.f32 D, A, B", "wff", 0, X2(BF16_OF(relu(F(a)), 'n'), BF16_OF(relu(F(b)), 'n'))) ROW("cvt.rz.bf16x2.f32 D, A, B", "wff", 0, X2(BF16_OF(F(a), 'z'), BF16_OF(F(b), 'z'))) \
    ROW("cvt.rn.satfinite.e4m3x2.f32 D, A, B", "hff", 0, eight(F(a), true) << 8 | eight(F(b), true)) ROW("cvt.rn.satfinite.e5m2x2.f32 D, A, B", "hff", 0, eight(F(a), false) << 8 | eight(F(b), false)) ROW("cvt.rn.satfinite.relu.e4m3x2.f32 D, A, B", "hff", 0, eight(relu(F(a)), true) << 8 | eight(relu(F(b)), true)) \
    ROW("cvt.rn.satfinite.e4m3x2.f16x2 D, A", "hw", 0, eight(HV(a >> 16), true) << 8 | eight(HV(a), true)) ROW("cvt.rn.satfinite.relu.e5m2x2.f16x2 D, A", "hw", 0, eight(relu((float)HV(a >> 16)), false) << 8 | eight(relu((float)HV(a)), false)) \
    ROW("cvt.rn.f16x2.e4m3x2 D, A", "wh", 0, X2(half_of(eight_value(a >> 8 & 255, true), false), half_of(eight_value(a & 255, true), false))) ROW("cvt.rn.f16x2.e5m2x2 D, A", "wh", 0, X2(half_of(eight_value(a >> 8 & 255, false), false), half_of(eight_value(a & 255, false), false))) ROW("cvt.rn.relu.f16x2.e5m2x2 D, A", "wh", 0, X2(half_of(relu((float)eight_value(a >> 8 & 255, false)), false), half_of(relu((float)eight_value(a & 255, false)), false))) \
    ROW("cvt.rna.tf32.f32 D, A", "wf", 0, tf32_of(F(a), 'a', false)) ROW("cvt.rna.satfinite.tf32.f32 D, A", "wf", 0, tf32_of(F(a), 'a', true)) ROW("cvt.rn.tf32.f32 D, A", "wf", 0, tf32_of(F(a), 'n', false)) ROW("cvt.rz.tf32.f32 D, A", "wf", 0, tf32_of(F(a), 'z', false)) ROW("cvt.rn.satfinite.relu.tf32.f32 D, A", "wf", 0, tf32_of(relu(F(a)), 'n', true))


/* Within the errors that the ISA states (9.7.3), in the last place of a result or below; here far less. Each against double. */
#define APPROXIMATED(ROW, text, ulps, function) \
    ROW(text ".approx.f32 D, A", "ff", ulps, FB((float)function((double)F(a)))) ROW(text ".approx.ftz.f32 D, A", "ff", ulps, FB(flush((float)function((double)flush(F(a))))))
#define APPROXIMATIONS(ROW) \
    APPROXIMATED(ROW, "rcp", 1, reciprocal) APPROXIMATED(ROW, "sqrt", 1, sqrt) APPROXIMATED(ROW, "rsqrt", 1.1, rsqrt) APPROXIMATED(ROW, "ex2", 1.5, exp2) APPROXIMATED(ROW, "lg2", 1, log2) APPROXIMATED(ROW, "sin", 1, sin) APPROXIMATED(ROW, "cos", 1, cos) ROW("tanh.approx.f32 D, A", "ff", 2, FB((float)tanh((double)F(a)))) \
    ROW("div.approx.f32 D, A, B", "fff", 2, FB(quotient(F(a), F(b)))) ROW("div.approx.ftz.f32 D, A, B", "fff", 2, FB(flush(quotient(flush(F(a)), flush(F(b)))))) ROW("div.full.f32 D, A, B", "fff", 2, FB((float)((double)F(a) / (double)F(b)))) ROW("div.full.ftz.f32 D, A, B", "fff", 2, FB(flush((float)((double)flush(F(a)) / (double)flush(F(b)))))) \
    ROW("rsqrt.approx.f64 D, A", "gg", 2, GB((double)(1 / sqrtl(G(a))))) ROW("rsqrt.approx.ftz.f64 D, A", "gg", 2, GB((double)(1 / sqrtl(flush64(G(a)))))) ROW("rcp.approx.ftz.f64 D, A", "gg", 1, GB(flush64(1 / flush64(G(a))))) \
    ROW("ex2.approx.f16x2 %y0, A; mov.b32 {D, _}, %y0", "bu", 1, half_of(exp2(HV(a)), false)) ROW("ex2.approx.f16x2 %y0, A; mov.b32 {_, D}, %y0", "bu", 1, half_of(exp2(HV(a >> 16)), false)) \
    ROW("ex2.approx.ftz.bf16x2 %y0, A; mov.b32 {_, D}, %y0", "bv", 1, half_of(flush((float)exp2((double)flush((float)BV(a >> 16)))), true)) ROW("tanh.approx.f16x2 %y0, A; mov.b32 {_, D}, %y0", "bu", 1, half_of(tanh(HV(a >> 16)), false)) \
    ROW("tanh.approx.bf16x2 %y0, A; mov.b32 {_, D}, %y0", "bv", 1, half_of(tanh(BV(a >> 16)), true)) \
    ROW("ex2.approx.f16 D, A", "bb", 1, half_of(exp2(HV(a)), false)) ROW("ex2.approx.ftz.bf16 D, A", "bb", 1, half_of(flush((float)exp2((double)flush((float)BV(a)))), true)) ROW("tanh.approx.f16 D, A", "bb", 1, half_of(tanh(HV(a)), false)) ROW("tanh.approx.bf16 D, A", "bb", 1, half_of(tanh(BV(a)), true))

#define HALVES(ROW, type, value, bf) \
    ROW("add.rn." type " D, A, B", "bbb", 0, half_of((long double)value(a) + value(b), bf)) ROW("sub.rn." type " D, A, B", "bbb", 0, half_of((long double)value(a) - value(b), bf)) ROW("mul.rn." type " D, A, B", "bbb", 0, half_of((long double)value(a) * value(b), bf)) \
    ROW("fma.rn." type " D, A, B, C", "bbbb", 0, half_of(sum_of(value(a), value(b), value(c)), bf)) ROW("neg." type " D, A", "bb", 0, half_of(-value(a), bf)) ROW("abs." type " D, A", "bb", 0, half_of(fabs(value(a)), bf)) \
    ROW("min." type " D, A, B", "bbb", 0, half_of(min_((float)value(a), (float)value(b)), bf)) ROW("max.NaN." type " D, A, B", "bbb", 0, half_of(value(a) != value(a) || value(b) != value(b) ? NAN : max_((float)value(a), (float)value(b)), bf)) \
    ROW("setp.lt." type " D, A, B", "pbb", 0, value(a) < value(b)) ROW("setp.neu." type " D, A, B", "pbb", 0, value(a) != value(b))
#define SMALL(ROW) HALVES(ROW, "f16", HV, false) HALVES(ROW, "bf16", BV, true) \
    ROW("{ .reg .b32 t, u; mov.b32 t, {A, B}; mov.b32 u, {B, C}; add.rn.f16x2 t, t, u; mov.b32 {_, D}, t; }", "bbbb", 0, half_of((long double)HV(b) + HV(c), false)) ROW("{ .reg .b32 t, u; mov.b32 t, {A, B}; mov.b32 u, {B, C}; fma.rn.bf16x2 t, t, u, u; mov.b32 {D, _}, t; }", "bbbb", 0, half_of(sum_of(BV(a), BV(b), BV(b)), true))

ROWS(single_and_double_equal_c, SINGLE)
ROWS(approximations_keep_their_errors, APPROXIMATIONS)
ROWS(integers_of_floats_equal_c, OF_FLOATS)
ROWS(conversions_equal_the_right_neighbour, CONVERSIONS)
ROWS(halves_equal_the_nearest_number, SMALL)
// clang-format on

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(single_and_double_equal_c), cmocka_unit_test(approximations_keep_their_errors),
        cmocka_unit_test(integers_of_floats_equal_c), cmocka_unit_test(conversions_equal_the_right_neighbour),
        cmocka_unit_test(halves_equal_the_nearest_number)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
