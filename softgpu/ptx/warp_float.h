/* softgpu/ptx/warp_float.h: floating-point operations of a warp; see warp.h.
 *
 * Rounding to nearest is the machine's. The other roundings (rz, rm, rp) are the C library's, lane by lane, in functions that set
 * and restore the processor's mode. The types of 16 and 8 bits are computed in wider ones:
 *   f16, bf16   add, sub, mul in f32 and rounded again: exact, since 24 >= 2 * 11 + 2 bits (Figueroa, "When is double rounding
 *               innocuous?", 1995). fma in f64, rounded to odd, then once (sg_pack_float): exact
 * Approximations (rcp, rsqrt, sqrt, ex2, lg2, sin, cos, tanh) are those of the C library or better than it: the ISA allows more error.
 * A NaN that an operation makes is 0x7fffffff, as the ISA says of f32. */
#ifndef SG_PTX_WARP_FLOAT_H
#define SG_PTX_WARP_FLOAT_H

#include <fenv.h>
#include <math.h>

// clang-format off
#define SG_NAN32 0x7fffffffu
#define SG_ABS32 0x7fffffffu
#define SG_ABS64 UINT64_C(0x7fffffffffffffff)

#define SG_F_ADD32(C, S, a, b) ((C)((sg_cf32)(a) + (sg_cf32)(b)))
#define SG_F_SUB32(C, S, a, b) ((C)((sg_cf32)(a) - (sg_cf32)(b)))
#define SG_F_MUL32(C, S, a, b) ((C)((sg_cf32)(a) * (sg_cf32)(b)))
#define SG_F_DIV32(C, S, a, b) ((C)((sg_cf32)(a) / (sg_cf32)(b)))
#define SG_F_ADD64(C, S, a, b) ((C)((sg_cf64)(a) + (sg_cf64)(b)))
#define SG_F_SUB64(C, S, a, b) ((C)((sg_cf64)(a) - (sg_cf64)(b)))
#define SG_F_MUL64(C, S, a, b) ((C)((sg_cf64)(a) * (sg_cf64)(b)))
#define SG_F_DIV64(C, S, a, b) ((C)((sg_cf64)(a) / (sg_cf64)(b)))
SG_BINARY(32, add_rn_f, SG_F_ADD32) SG_BINARY(32, sub_rn_f, SG_F_SUB32) SG_BINARY(32, mul_rn_f, SG_F_MUL32) SG_BINARY(32, div_rn_f, SG_F_DIV32)
SG_BINARY(64, add_rn_f, SG_F_ADD64) SG_BINARY(64, sub_rn_f, SG_F_SUB64) SG_BINARY(64, mul_rn_f, SG_F_MUL64) SG_BINARY(64, div_rn_f, SG_F_DIV64)
#ifdef __AVX512F__
SG_INLINE sg_v32 sg_fma_rn_f32(sg_v32 a, sg_v32 b, sg_v32 c)
{ return (sg_v32){{(sg_c32)_mm512_fmadd_ps((__m512)a.c[0], (__m512)b.c[0], (__m512)c.c[0]), (sg_c32)_mm512_fmadd_ps((__m512)a.c[1], (__m512)b.c[1], (__m512)c.c[1])}}; }
#define SG_FMA64(k) (sg_c64)_mm512_fmadd_pd((__m512d)a.c[k], (__m512d)b.c[k], (__m512d)c.c[k])
SG_INLINE sg_v64 sg_fma_rn_f64(sg_v64 a, sg_v64 b, sg_v64 c) { return (sg_v64){{SG_FMA64(0), SG_FMA64(1), SG_FMA64(2), SG_FMA64(3)}}; }
#else
SG_LANES3(32, 32, 32, 32, sg_fma_rn_f32, d.f[i] = fmaf(a.f[i], b.f[i], c.f[i]))
SG_LANES3(64, 64, 64, 64, sg_fma_rn_f64, d.f[i] = fma(a.f[i], b.f[i], c.f[i]))
#endif
SG_LANES1(32, 32, sg_sqrt_rn_f32, d.f[i] = sqrtf(a.f[i]))
SG_LANES1(64, 64, sg_sqrt_rn_f64, d.f[i] = sqrt(a.f[i]))
SG_INLINE sg_v32 sg_rcp_rn_f32(sg_v32 a) { return sg_div_rn_f32(sg_all32(0x3f800000), a); }
SG_INLINE sg_v64 sg_rcp_rn_f64(sg_v64 a) { return sg_div_rn_f64(sg_all64(UINT64_C(0x3ff0000000000000)), a); }

/* The mode is the thread's, so nothing else may be computed while it is set: operands and result are volatile. */
#define SG_ROUNDED(bits, type, name, mode, expression) \
    SG_SLOW sg_v##bits sg_##name(sg_v##bits x, sg_v##bits y, sg_v##bits z) \
    { \
        sg_l##bits a_ = {x}, b_ = {y}, c_ = {z}, d_; \
        fesetround(mode); \
        for (int i = 0; i < SG_WARP; i++) { \
            volatile type a = a_.f[i], b = b_.f[i], c = c_.f[i]; \
            (void)b; (void)c; \
            volatile type d = expression; \
            d_.f[i] = d; \
        } \
        fesetround(FE_TONEAREST); \
        return d_.v; \
    }
#define SG_ROUNDED_ALL(bits, type, mode, name, root, multiply_add) \
    SG_ROUNDED(bits, type, add3_##name##_f##bits, mode, a + b) SG_ROUNDED(bits, type, sub3_##name##_f##bits, mode, a - b) \
    SG_ROUNDED(bits, type, mul3_##name##_f##bits, mode, a * b) SG_ROUNDED(bits, type, div3_##name##_f##bits, mode, a / b) \
    SG_ROUNDED(bits, type, sqrt3_##name##_f##bits, mode, root(a)) SG_ROUNDED(bits, type, fma_##name##_f##bits, mode, multiply_add(a, b, c)) \
    SG_INLINE sg_v##bits sg_add_##name##_f##bits(sg_v##bits a, sg_v##bits b) { return sg_add3_##name##_f##bits(a, b, a); } \
    SG_INLINE sg_v##bits sg_sub_##name##_f##bits(sg_v##bits a, sg_v##bits b) { return sg_sub3_##name##_f##bits(a, b, a); } \
    SG_INLINE sg_v##bits sg_mul_##name##_f##bits(sg_v##bits a, sg_v##bits b) { return sg_mul3_##name##_f##bits(a, b, a); } \
    SG_INLINE sg_v##bits sg_div_##name##_f##bits(sg_v##bits a, sg_v##bits b) { return sg_div3_##name##_f##bits(a, b, a); } \
    SG_INLINE sg_v##bits sg_sqrt_##name##_f##bits(sg_v##bits a) { return sg_sqrt3_##name##_f##bits(a, a, a); }
SG_ROUNDED_ALL(32, float, FE_TOWARDZERO, rz, sqrtf, fmaf) SG_ROUNDED_ALL(32, float, FE_DOWNWARD, rm, sqrtf, fmaf) SG_ROUNDED_ALL(32, float, FE_UPWARD, rp, sqrtf, fmaf)
SG_ROUNDED_ALL(64, double, FE_TOWARDZERO, rz, sqrt, fma) SG_ROUNDED_ALL(64, double, FE_DOWNWARD, rm, sqrt, fma) SG_ROUNDED_ALL(64, double, FE_UPWARD, rp, sqrt, fma)
#define SG_RCP(name) \
    SG_INLINE sg_v32 sg_rcp_##name##_f32(sg_v32 a) { return sg_div_##name##_f32(sg_all32(0x3f800000), a); } \
    SG_INLINE sg_v64 sg_rcp_##name##_f64(sg_v64 a) { return sg_div_##name##_f64(sg_all64(UINT64_C(0x3ff0000000000000)), a); }
SG_RCP(rz) SG_RCP(rm) SG_RCP(rp)

/* ---- .ftz, .sat, .relu, signs ---- */
#define SG_F_FTZ32(C, S, a) ((a) & ((C)(((a) & 0x7f800000u) != 0) | 0x80000000u))
SG_UNARY(32, ftz_f, SG_F_FTZ32)
#define SG_F_FTZ16(C, S, a) ((a) & ((C)(((a) & 0x7c00) != 0) | 0x8000))
SG_UNARY(16, ftz_f, SG_F_FTZ16)
#define SG_BF_FTZ16(C, S, a) ((a) & ((C)(((a) & 0x7f80) != 0) | 0x8000))
SG_UNARY(16, ftz_bf, SG_BF_FTZ16)
#define SG_F_FTZ64(C, S, a) ((a) & ((C)(((a) & UINT64_C(0x7ff0000000000000)) != 0) | UINT64_C(0x8000000000000000)))
SG_UNARY(64, ftz_f, SG_F_FTZ64)
/* To [0, 1], a NaN to 0. */
SG_LANES1(32, 32, sg_sat_f32, d.f[i] = a.f[i] > 0 ? (a.f[i] < 1 ? a.f[i] : 1.0f) : 0.0f)
SG_LANES1(64, 64, sg_sat_f64, d.f[i] = a.f[i] > 0 ? (a.f[i] < 1 ? a.f[i] : 1.0) : 0.0)
#define SG_F_ABS32(C, S, a) ((a) & SG_ABS32)
#define SG_F_ABS64(C, S, a) ((a) & SG_ABS64)
#define SG_F_ABS16(C, S, a) ((a) & 0x7fff)
#define SG_F_NEG32(C, S, a) ((a) ^ 0x80000000u)
#define SG_F_NEG64(C, S, a) ((a) ^ UINT64_C(0x8000000000000000))
#define SG_F_NEG16(C, S, a) ((a) ^ 0x8000)
SG_UNARY(32, abs_f, SG_F_ABS32) SG_UNARY(64, abs_f, SG_F_ABS64) SG_UNARY(16, abs_f, SG_F_ABS16)
SG_UNARY(32, neg_f, SG_F_NEG32) SG_UNARY(64, neg_f, SG_F_NEG64) SG_UNARY(16, neg_f, SG_F_NEG16)
/* copysign d, a, b: b with a's sign. */
#define SG_F_SIGN32(C, S, a, b) (((a) & 0x80000000u) | ((b) & SG_ABS32))
#define SG_F_SIGN64(C, S, a, b) (((a) & UINT64_C(0x8000000000000000)) | ((b) & SG_ABS64))
SG_BINARY(32, copysign_f, SG_F_SIGN32) SG_BINARY(64, copysign_f, SG_F_SIGN64)

/* ---- comparisons that a type needs ---- */
SG_INLINE uint32_t sg_nan_f32(sg_v32 a, sg_v32 b) { return sg_ne_f32(a, a) | sg_ne_f32(b, b); }
SG_INLINE uint32_t sg_nan_f64(sg_v64 a, sg_v64 b) { return sg_ne_f64(a, a) | sg_ne_f64(b, b); }

/* ---- minimum and maximum: of a NaN and a number the number, with .NaN a NaN; -0 is below +0 ---- */
#define SG_MIN_MAX(bits, type, name, pick, nan) \
    SG_LANES2(bits, bits, bits, sg_##name##_f##bits, d.u[i] = a.f[i] != a.f[i] ? (b.f[i] != b.f[i] ? nan : b.u[i]) : b.f[i] != b.f[i] ? a.u[i] : pick) \
    SG_LANES2(bits, bits, bits, sg_##name##_nan_f##bits, d.u[i] = a.f[i] != a.f[i] || b.f[i] != b.f[i] ? nan : pick)
#define SG_NAN64 UINT64_C(0x7fffffffffffffff)
SG_MIN_MAX(32, float, min, (a.f[i] < b.f[i] || (a.f[i] == b.f[i] && a.s[i] < 0) ? a.u[i] : b.u[i]), SG_NAN32)
SG_MIN_MAX(32, float, max, (a.f[i] > b.f[i] || (a.f[i] == b.f[i] && a.s[i] >= 0) ? a.u[i] : b.u[i]), SG_NAN32)
SG_MIN_MAX(64, double, min, (a.f[i] < b.f[i] || (a.f[i] == b.f[i] && a.s[i] < 0) ? a.u[i] : b.u[i]), SG_NAN64)
SG_MIN_MAX(64, double, max, (a.f[i] > b.f[i] || (a.f[i] == b.f[i] && a.s[i] >= 0) ? a.u[i] : b.u[i]), SG_NAN64)
SG_INLINE sg_v32 sg_xorsign(sg_v32 d, sg_v32 a, sg_v32 b) { return sg_or_b32(sg_abs_f32(d), sg_and_b32(sg_xor_b32(a, b), sg_all32(0x80000000u))); }

/* ---- approximations ---- */
SG_INLINE sg_v32 sg_rcp_approx_f32(sg_v32 a) { return sg_rcp_rn_f32(a); }
SG_INLINE sg_v32 sg_sqrt_approx_f32(sg_v32 a) { return sg_sqrt_rn_f32(a); }
SG_INLINE sg_v32 sg_div_full_f32(sg_v32 a, sg_v32 b) { return sg_div_rn_f32(a, b); }
/* The ISA: by a number above 2^126 the quotient is 0, of an infinity NaN. */
SG_INLINE sg_v32 sg_div_approx_f32(sg_v32 a, sg_v32 b)
{ return sg_div_rn_f32(a, sg_set32(sg_lt_f32(sg_all32(0x7e800000), sg_abs_f32(b)), sg_copysign_f32(b, sg_all32(0x7f800000)), b)); }
SG_LANES1(32, 32, sg_rsqrt_approx_f32, d.f[i] = 1.0f / sqrtf(a.f[i]))
SG_LANES1(64, 64, sg_rsqrt_approx_f64, d.f[i] = 1.0 / sqrt(a.f[i]))
SG_INLINE sg_v64 sg_rcp_approx_f64(sg_v64 a) { return sg_rcp_rn_f64(a); }
/* 2^a = 2^n * 2^f, |f| <= 1/2, by a polynomial with a relative error below 2^-23 (ISA: 2^-22.5). */
SG_INLINE float sg_ex2(float x)
{
    const float clamped = x > 130.0f ? 130.0f : x < -155.0f ? -155.0f : x;
    const float whole = __builtin_rintf(clamped), f = clamped - whole;
    float p = 1.535336188e-4f;
    p = p * f + 1.339887440e-3f; p = p * f + 9.618437357e-3f; p = p * f + 5.550332471e-2f; p = p * f + 2.402264791e-1f; p = p * f + 6.931472028e-1f; p = p * f + 1.0f;
    const int32_t n = (int32_t)whole, half = n >> 1;
    const float y = p * sg_float((uint32_t)(half + 127) << 23) * sg_float((uint32_t)(n - half + 127) << 23);
    return x != x ? x : y;
}
SG_LANES1(32, 32, sg_ex2_approx_f32, d.f[i] = sg_ex2(a.f[i]))
SG_SLOW sg_v32 sg_lg2_approx_f32(sg_v32 x) { sg_l32 a = {x}; for (int i = 0; i < SG_WARP; i++) a.f[i] = log2f(a.f[i]); return a.v; }
SG_SLOW sg_v32 sg_sin_approx_f32(sg_v32 x) { sg_l32 a = {x}; for (int i = 0; i < SG_WARP; i++) a.f[i] = sinf(a.f[i]); return a.v; }
SG_SLOW sg_v32 sg_cos_approx_f32(sg_v32 x) { sg_l32 a = {x}; for (int i = 0; i < SG_WARP; i++) a.f[i] = cosf(a.f[i]); return a.v; }
SG_SLOW sg_v32 sg_tanh_approx_f32(sg_v32 x) { sg_l32 a = {x}; for (int i = 0; i < SG_WARP; i++) a.f[i] = tanhf(a.f[i]); return a.v; }

/* ---- testp ---- */
#define SG_TESTP(bits, exponent, mantissa) \
    SG_INLINE uint32_t sg_testp_finite_f##bits(sg_v##bits a) { return sg_lt_u##bits(sg_abs_f##bits(a), sg_all##bits(exponent)); } \
    SG_INLINE uint32_t sg_testp_infinite_f##bits(sg_v##bits a) { return sg_eq_u##bits(sg_abs_f##bits(a), sg_all##bits(exponent)); } \
    SG_INLINE uint32_t sg_testp_number_f##bits(sg_v##bits a) { return sg_le_u##bits(sg_abs_f##bits(a), sg_all##bits(exponent)); } \
    SG_INLINE uint32_t sg_testp_notanumber_f##bits(sg_v##bits a) { return ~sg_testp_number_f##bits(a); } \
    SG_INLINE uint32_t sg_testp_normal_f##bits(sg_v##bits a) { return sg_testp_finite_f##bits(a) & sg_lt_u##bits(sg_all##bits(mantissa), sg_abs_f##bits(a)); } \
    SG_INLINE uint32_t sg_testp_subnormal_f##bits(sg_v##bits a) { return sg_le_u##bits(sg_abs_f##bits(a), sg_all##bits(mantissa)); }
SG_TESTP(32, 0x7f800000u, 0x7fffffu) SG_TESTP(64, UINT64_C(0x7ff0000000000000), UINT64_C(0xfffffffffffff))
    // clang-format on

    /* ---- numbers of few bits ---- */
    typedef enum sg_round {
        SG_RN,
        SG_RZ,
        SG_RM,
        SG_RP,
        SG_RNA
    } sg_round_t;

/* A format: bits of the exponent and of the mantissa (without the leading one); the code of infinity and of a NaN, and of the
 * largest number. e4m3 has no infinity. */
typedef struct sg_format {
    int exponent, mantissa;
    uint32_t infinity, nan, largest;
} sg_format_t;
static const sg_format_t sg_format_f16 = {5, 10, 0x7c00, 0x7fff, 0x7bff};
static const sg_format_t sg_format_bf16 = {8, 7, 0x7f80, 0x7fff, 0x7f7f};
static const sg_format_t sg_format_tf32 = {8, 10, 0x3fc00, 0x3ffff, 0x3fbff};
static const sg_format_t sg_format_e4m3 = {4, 3, 0x7f, 0x7f, 0x7e};
static const sg_format_t sg_format_e5m2 = {5, 2, 0x7c, 0x7f, 0x7b};

/* x in that format, rounded once. `below`: x stands for a number a little nearer to or farther from 0 than it is (its last bit
 * was set for that: rounded to odd), so an exact hit is none. */
SG_SLOW uint32_t sg_pack_float(const sg_format_t *format, double x, sg_round_t round)
{
    const uint64_t bits = sg_bits_of64(x);
    const uint32_t sign = (uint32_t)(bits >> 63) << (format->exponent + format->mantissa);
    const int bias = (1 << (format->exponent - 1)) - 1;
    if (x != x)
        return format->nan;
    if ((bits & SG_ABS64) == 0)
        return sign;
    if (bits << 1 >> 53 == 2047)
        return sign | format->infinity;
    int exponent = (int)(bits << 1 >> 53) - 1023;
    uint64_t m = (bits & UINT64_C(0xfffffffffffff)) | UINT64_C(1) << 52;
    int drop = 52 - format->mantissa;
    if (exponent < 1 - bias) /* subnormal there; of the subnormal doubles nothing is left in any case */
        drop += 1 - bias - exponent;
    uint64_t kept, rest, half;
    if (drop > 60) {
        kept = 0;
        rest = 1;
        half = 2;
    } else {
        kept = m >> drop;
        rest = m & ((UINT64_C(1) << drop) - 1);
        half = UINT64_C(1) << (drop - 1);
    }
    switch (round) {
    case SG_RN:
        kept += rest > half || (rest == half && (kept & 1));
        break;
    case SG_RNA:
        kept += rest >= half;
        break;
    case SG_RM:
        kept += rest && sign;
        break;
    case SG_RP:
        kept += rest && !sign;
        break;
    case SG_RZ:
        break;
    }
    /* The mantissa's carry runs into the exponent. */
    uint64_t code = exponent < 1 - bias ? kept : ((uint64_t)(exponent + bias - 1) << format->mantissa) + kept;
    if (code > format->largest) {
        const bool away =
            round == SG_RN || round == SG_RNA || (round == SG_RM && sign) || (round == SG_RP && !sign);
        code = away ? format->infinity : format->largest;
    }
    return sign | (uint32_t)code;
}

SG_INLINE double sg_unpack_float(const sg_format_t *format, uint32_t code)
{
    const uint32_t magnitude = code & ((1u << (format->exponent + format->mantissa)) - 1);
    const bool negative = code >> (format->exponent + format->mantissa) & 1;
    const int bias = (1 << (format->exponent - 1)) - 1, exponent = (int)(magnitude >> format->mantissa);
    const uint32_t m = magnitude & ((1u << format->mantissa) - 1);
    double x;
    if (magnitude > format->largest)
        x = magnitude == format->infinity && format->infinity != format->nan ? (double)INFINITY : (double)NAN;
    else if (exponent == 0)
        x = (double)m * sg_double((uint64_t)(1023 + 1 - bias - format->mantissa) << 52);
    else
        x = (double)(m | 1u << format->mantissa) *
            sg_double((uint64_t)(1023 + exponent - bias - format->mantissa) << 52);
    return negative ? -x : x;
}

/* a * b + c, rounded to odd: what follows may round once more. a * b is exact. */
SG_INLINE double sg_fma_odd(double a, double b, double c)
{
    const double p = a * b, s = p + c;
    if (!(fabs(s) <= 0x1.fffffffffffffp1023) || p == 0 || c == 0)
        return s;
    const double t = s - p, e = (p - (s - t)) + (c - t);
    if (e == 0 || (sg_bits_of64(s) & 1))
        return s;
    /* The last bit is 0: one step towards what was lost, unless that leads to another even neighbour, which it never does. */
    return sg_double(sg_bits_of64(s) + ((e > 0) == (s > 0) ? 1 : (uint64_t)-1));
}

// clang-format off
/* ---- f16 and bf16 ---- */
#ifdef __AVX512F__
SG_INLINE sg_v32 sg_f32_of_f16(sg_v16 a)
{ return (sg_v32){{(sg_c32)_mm512_cvtph_ps(_mm512_extracti64x4_epi64((__m512i)a.c[0], 0)), (sg_c32)_mm512_cvtph_ps(_mm512_extracti64x4_epi64((__m512i)a.c[0], 1))}}; }
#define SG_F16_OF(name, round) \
    SG_INLINE sg_v16 sg_f16_of_f32_##name(sg_v32 a) \
    { return (sg_v16){{(sg_c16)_mm512_inserti64x4(_mm512_castsi256_si512(_mm512_cvtps_ph((__m512)a.c[0], round)), _mm512_cvtps_ph((__m512)a.c[1], round), 1)}}; }
SG_F16_OF(rn, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC) SG_F16_OF(rz, _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC)
SG_F16_OF(rm, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC) SG_F16_OF(rp, _MM_FROUND_TO_POS_INF | _MM_FROUND_NO_EXC)
#else
SG_LANES1(32, 16, sg_f32_of_f16, d.f[i] = (float)sg_unpack_float(&sg_format_f16, a.u[i]))
SG_LANES1(16, 32, sg_f16_of_f32_rn, d.u[i] = (uint16_t)sg_pack_float(&sg_format_f16, a.f[i], SG_RN)) SG_LANES1(16, 32, sg_f16_of_f32_rz, d.u[i] = (uint16_t)sg_pack_float(&sg_format_f16, a.f[i], SG_RZ))
SG_LANES1(16, 32, sg_f16_of_f32_rm, d.u[i] = (uint16_t)sg_pack_float(&sg_format_f16, a.f[i], SG_RM)) SG_LANES1(16, 32, sg_f16_of_f32_rp, d.u[i] = (uint16_t)sg_pack_float(&sg_format_f16, a.f[i], SG_RP))
#endif
SG_LANES1(32, 16, sg_f32_of_bf16, d.u[i] = (uint32_t)a.u[i] << 16)
SG_LANES1(16, 32, sg_bf16_of_f32_rn, d.u[i] = (uint16_t)(a.f[i] != a.f[i] ? 0x7fff : (a.u[i] + 0x7fff + (a.u[i] >> 16 & 1)) >> 16))
SG_LANES1(16, 32, sg_bf16_of_f32_rz, d.u[i] = (uint16_t)(a.f[i] != a.f[i] ? 0x7fff : a.u[i] >> 16))
SG_LANES1(16, 32, sg_bf16_of_f32_rm, d.u[i] = (uint16_t)sg_pack_float(&sg_format_bf16, a.f[i], SG_RM))
SG_LANES1(16, 32, sg_bf16_of_f32_rp, d.u[i] = (uint16_t)sg_pack_float(&sg_format_bf16, a.f[i], SG_RP))
#define SG_PACKED(R, A, name, format, round) SG_LANES1(R, A, name, d.u[i] = (uint##R##_t)sg_pack_float(&sg_format_##format, a.f[i], round))
#define SG_PACKED_OF_F64(format) \
    SG_PACKED(16, 64, sg_##format##_of_f64_rn, format, SG_RN) SG_PACKED(16, 64, sg_##format##_of_f64_rz, format, SG_RZ) \
    SG_PACKED(16, 64, sg_##format##_of_f64_rm, format, SG_RM) SG_PACKED(16, 64, sg_##format##_of_f64_rp, format, SG_RP)
SG_PACKED_OF_F64(f16) SG_PACKED_OF_F64(bf16)
/* A canonical NaN: what the machine converts keeps its payload. */
#define SG_F_NAN16(C, S, a) SG_PICK(C, ((a) & 0x7fff) > 0x7c00, (C){0} + 0x7fff, a)
SG_UNARY(16, canonical_f, SG_F_NAN16)
#define SG_SMALL(type) \
    SG_INLINE sg_v16 sg_add_rn_##type(sg_v16 a, sg_v16 b) { return sg_round_##type(sg_add_rn_f32(sg_f32_of_##type(a), sg_f32_of_##type(b))); } \
    SG_INLINE sg_v16 sg_sub_rn_##type(sg_v16 a, sg_v16 b) { return sg_round_##type(sg_sub_rn_f32(sg_f32_of_##type(a), sg_f32_of_##type(b))); } \
    SG_INLINE sg_v16 sg_mul_rn_##type(sg_v16 a, sg_v16 b) { return sg_round_##type(sg_mul_rn_f32(sg_f32_of_##type(a), sg_f32_of_##type(b))); } \
    SG_LANES3(16, 16, 16, 16, sg_fma_rn_##type, d.u[i] = (uint16_t)sg_pack_float(&sg_format_##type, sg_fma_odd(sg_unpack_float(&sg_format_##type, a.u[i]), sg_unpack_float(&sg_format_##type, b.u[i]), sg_unpack_float(&sg_format_##type, c.u[i])), SG_RN)) \
    SG_INLINE sg_v16 sg_min_##type(sg_v16 a, sg_v16 b) { return sg_round_##type(sg_min_f32(sg_f32_of_##type(a), sg_f32_of_##type(b))); } \
    SG_INLINE sg_v16 sg_max_##type(sg_v16 a, sg_v16 b) { return sg_round_##type(sg_max_f32(sg_f32_of_##type(a), sg_f32_of_##type(b))); } \
    SG_INLINE sg_v16 sg_min_nan_##type(sg_v16 a, sg_v16 b) { return sg_round_##type(sg_min_nan_f32(sg_f32_of_##type(a), sg_f32_of_##type(b))); } \
    SG_INLINE sg_v16 sg_max_nan_##type(sg_v16 a, sg_v16 b) { return sg_round_##type(sg_max_nan_f32(sg_f32_of_##type(a), sg_f32_of_##type(b))); } \
    SG_INLINE sg_v16 sg_sat_##type(sg_v16 a) { return sg_round_##type(sg_sat_f32(sg_f32_of_##type(a))); } \
    SG_INLINE sg_v16 sg_ex2_approx_##type(sg_v16 a) { return sg_round_##type(sg_ex2_approx_f32(sg_f32_of_##type(a))); } \
    SG_INLINE sg_v16 sg_tanh_approx_##type(sg_v16 a) { return sg_round_##type(sg_tanh_approx_f32(sg_f32_of_##type(a))); } \
    SG_INLINE sg_v16 sg_relu_##type(sg_v16 a) { return sg_max_nan_##type(a, sg_all16(0)); } \
    SG_INLINE uint32_t sg_eq_##type(sg_v16 a, sg_v16 b) { return sg_eq_f32(sg_f32_of_##type(a), sg_f32_of_##type(b)); } \
    SG_INLINE uint32_t sg_ne_##type(sg_v16 a, sg_v16 b) { return sg_ne_f32(sg_f32_of_##type(a), sg_f32_of_##type(b)); } \
    SG_INLINE uint32_t sg_lt_##type(sg_v16 a, sg_v16 b) { return sg_lt_f32(sg_f32_of_##type(a), sg_f32_of_##type(b)); } \
    SG_INLINE uint32_t sg_le_##type(sg_v16 a, sg_v16 b) { return sg_le_f32(sg_f32_of_##type(a), sg_f32_of_##type(b)); } \
    SG_INLINE uint32_t sg_nan_##type(sg_v16 a, sg_v16 b) { return sg_nan_f32(sg_f32_of_##type(a), sg_f32_of_##type(b)); } \
    SG_INLINE uint32_t sg_add_one_##type(uint32_t a, uint32_t b) { return sg_pack_float(&sg_format_##type, sg_unpack_float(&sg_format_##type, a) + sg_unpack_float(&sg_format_##type, b), SG_RN); }
SG_INLINE sg_v16 sg_round_f16(sg_v32 a) { return sg_canonical_f16(sg_f16_of_f32_rn(a)); }
SG_INLINE sg_v16 sg_round_bf16(sg_v32 a) { return sg_bf16_of_f32_rn(a); }
SG_INLINE sg_v16 sg_abs_bf16(sg_v16 a) { return sg_abs_f16(a); }
SG_INLINE sg_v16 sg_neg_bf16(sg_v16 a) { return sg_neg_f16(a); }
SG_SMALL(f16) SG_SMALL(bf16)
SG_INLINE sg_v16 sg_xorsign16(sg_v16 d, sg_v16 a, sg_v16 b) { return sg_or_b16(sg_abs_f16(d), sg_and_b16(sg_xor_b16(a, b), sg_all16(0x8000))); }
/* Overflow to the largest number instead of infinity; NaNs stay. */
SG_INLINE sg_v16 sg_finite16(sg_v16 a, uint16_t infinity) { return sg_set16(sg_eq_u16(sg_abs_f16(a), sg_all16(infinity)), sg_sub_b16(a, sg_all16(1)), a); }

/* ---- conversions: with integers ---- */
#define SG_TO_INT(T, bits, name, function, low, high, low_int, high_int, I) \
    SG_LANES1(64, bits, sg_##I##64_of_##T##_##name, d.I[i] = a.f[i] != a.f[i] ? 0 : function(a.f[i]) <= low ? low_int : function(a.f[i]) >= high ? high_int : (__typeof__(d.I[0]))function(a.f[i]))
#define SG_TO_INTS(T, bits, suffix) \
    SG_TO_INT(T, bits, rni, rint##suffix, -0x1p63, 0x1p63, INT64_MIN, INT64_MAX, s) SG_TO_INT(T, bits, rzi, trunc##suffix, -0x1p63, 0x1p63, INT64_MIN, INT64_MAX, s) \
    SG_TO_INT(T, bits, rmi, floor##suffix, -0x1p63, 0x1p63, INT64_MIN, INT64_MAX, s) SG_TO_INT(T, bits, rpi, ceil##suffix, -0x1p63, 0x1p63, INT64_MIN, INT64_MAX, s) \
    SG_TO_INT(T, bits, rni, rint##suffix, 0, 0x1p64, 0, UINT64_MAX, u) SG_TO_INT(T, bits, rzi, trunc##suffix, 0, 0x1p64, 0, UINT64_MAX, u) \
    SG_TO_INT(T, bits, rmi, floor##suffix, 0, 0x1p64, 0, UINT64_MAX, u) SG_TO_INT(T, bits, rpi, ceil##suffix, 0, 0x1p64, 0, UINT64_MAX, u)
SG_TO_INTS(f32, 32, f) SG_TO_INTS(f64, 64, )
/* The ISA: a NaN becomes 0, for a result of 64 bits from f32 or f64 the most negative number (unsigned: 2^63). */
SG_INLINE sg_v64 sg_nan_to_int(uint32_t nan, sg_v64 x) { return sg_set64(nan, sg_all64(UINT64_C(1) << 63), x); }
#define SG_INT_ROUND(bits, name, function) SG_LANES1(bits, bits, sg_##name##_f##bits, d.f[i] = function(a.f[i]))
SG_INT_ROUND(32, rni, rintf) SG_INT_ROUND(32, rzi, truncf) SG_INT_ROUND(32, rmi, floorf) SG_INT_ROUND(32, rpi, ceilf)
SG_INT_ROUND(64, rni, rint) SG_INT_ROUND(64, rzi, trunc) SG_INT_ROUND(64, rmi, floor) SG_INT_ROUND(64, rpi, ceil)

SG_LANES1(32, 64, sg_f32_of_f64_rn, d.f[i] = (float)a.f[i])
SG_LANES1(64, 32, sg_f64_of_f32, d.f[i] = (double)a.f[i])
SG_LANES1(32, 64, sg_f32_of_u64_rn, d.f[i] = (float)a.u[i]) SG_LANES1(32, 64, sg_f32_of_s64_rn, d.f[i] = (float)a.s[i])
SG_LANES1(64, 64, sg_f64_of_u64_rn, d.f[i] = (double)a.u[i]) SG_LANES1(64, 64, sg_f64_of_s64_rn, d.f[i] = (double)a.s[i])
SG_LANES1(32, 32, sg_f32_of_u32_rn, d.f[i] = (float)a.u[i]) SG_LANES1(32, 32, sg_f32_of_s32_rn, d.f[i] = (float)a.s[i])
SG_LANES1(64, 32, sg_f64_of_u32_rn, d.f[i] = (double)a.u[i]) SG_LANES1(64, 32, sg_f64_of_s32_rn, d.f[i] = (double)a.s[i])
#define SG_NARROWED(R, name, mode, field, type, result) \
    SG_SLOW sg_v##R sg_##name(sg_v64 x) \
    { sg_l64 a = {x}; sg_l##R d; fesetround(mode); for (int i = 0; i < SG_WARP; i++) { volatile type from = a.field[i]; volatile result to = (result)from; d.f[i] = to; } fesetround(FE_TONEAREST); return d.v; }
#define SG_NARROWED_ALL(name, mode) \
    SG_NARROWED(32, f32_of_f64_##name, mode, f, double, float) SG_NARROWED(32, f32_of_u64_##name, mode, u, uint64_t, float) SG_NARROWED(32, f32_of_s64_##name, mode, s, int64_t, float) \
    SG_NARROWED(64, f64_of_u64_##name, mode, u, uint64_t, double) SG_NARROWED(64, f64_of_s64_##name, mode, s, int64_t, double)
SG_NARROWED_ALL(rz, FE_TOWARDZERO) SG_NARROWED_ALL(rm, FE_DOWNWARD) SG_NARROWED_ALL(rp, FE_UPWARD)
/* 64-bit integers rounded to odd as f64, which f16 and bf16 then round once. */
SG_INLINE double sg_odd_of_u64(uint64_t x) { int drop = x >> 53 ? 11 - __builtin_clzll(x) : 0; uint64_t m = x >> drop; m |= (x & ((UINT64_C(1) << drop) - 1)) != 0; return (double)m * sg_double((uint64_t)(1023 + drop) << 52); }
SG_LANES1(64, 64, sg_odd_f64_of_u64, d.f[i] = sg_odd_of_u64(a.u[i]))
SG_LANES1(64, 64, sg_odd_f64_of_s64, d.f[i] = a.s[i] < 0 ? -sg_odd_of_u64(0 - a.u[i]) : sg_odd_of_u64(a.u[i]))

/* ---- conversions: tf32 and numbers of 8 bits ---- */
#define SG_TF32(name, round) SG_LANES1(32, 32, sg_tf32_of_f32_##name, d.u[i] = a.f[i] != a.f[i] ? SG_NAN32 : sg_pack_float(&sg_format_tf32, a.f[i], round) << 13)
SG_TF32(rn, SG_RN) SG_TF32(rz, SG_RZ) SG_TF32(rna, SG_RNA)
SG_INLINE uint32_t sg_pack8(const sg_format_t *format, double x) { return x == x && fabs(x) > sg_unpack_float(format, format->largest) ? format->largest | (x < 0 ? 0x80u : 0) : sg_pack_float(format, x, SG_RN); }
#define SG_EIGHT(type) \
    SG_LANES2(16, 32, 32, sg_##type##x2_of_f32, d.u[i] = (uint16_t)(sg_pack8(&sg_format_##type, a.f[i]) << 8 | sg_pack8(&sg_format_##type, b.f[i]))) \
    SG_LANES1(32, 16, sg_f16x2_of_##type##x2, d.u[i] = sg_pack_float(&sg_format_f16, sg_unpack_float(&sg_format_##type, a.u[i] >> 8), SG_RN) << 16 | sg_pack_float(&sg_format_f16, sg_unpack_float(&sg_format_##type, a.u[i] & 0xff), SG_RN))
SG_EIGHT(e4m3) SG_EIGHT(e5m2)
SG_INLINE sg_v32 sg_relu_f32(sg_v32 a) { return sg_max_nan_f32(a, sg_all32(0)); }
SG_LANES2(32, 32, 32, sg_pack_sat_u16, d.u[i] = (uint32_t)sg_clamp(a.s[i], 0, 65535) << 16 | (uint32_t)sg_clamp(b.s[i], 0, 65535))
SG_LANES2(32, 32, 32, sg_pack_sat_s16, d.u[i] = (uint32_t)sg_clamp(a.s[i], -32768, 32767) << 16 | ((uint32_t)sg_clamp(b.s[i], -32768, 32767) & 0xffff))
SG_LANES3(32, 32, 32, 32, sg_pack_sat_u8, d.u[i] = c.u[i] << 16 | (uint32_t)sg_clamp(a.s[i], 0, 255) << 8 | (uint32_t)sg_clamp(b.s[i], 0, 255))
SG_LANES3(32, 32, 32, 32, sg_pack_sat_s8, d.u[i] = c.u[i] << 16 | ((uint32_t)sg_clamp(a.s[i], -128, 127) & 0xff) << 8 | ((uint32_t)sg_clamp(b.s[i], -128, 127) & 0xff))
// clang-format on

#endif
