/* softgpu/ptx/warp.h: what generated C is made of (translate.h): a warp of 32 threads as vectors.
 *
 * Glossary
 *   lane     a thread of the warp; a bit in masks
 *   chunk    64 bytes of a vector: what the widest machines hold in one register. A value of 32 lanes is a structure of 1 (16
 *            bits), 2 (32) or 4 (64), so that the compiler keeps it in registers
 *   mask     the lanes that run now. Predicates are masks, too
 *   flow     where lanes of a function wait while others run (warp_flow.h)
 *
 * Registers have no types but a size. A function is named after what it does and the type as which it takes them: sg_add_b32,
 * sg_min_s32, sg_add_f32. Nothing here but memory operations depends on a mask: a result is blended by sg_set32().
 *
 * By subject: this file (types, integers, comparisons), warp_flow.h, warp_float.h, warp_memory.h, warp_sync.h, warp_mbarrier.h. */
#ifndef SG_PTX_WARP_H
#define SG_PTX_WARP_H

/* Without two passes whose time grows with the square of a function's length: a sum of PyTorch's takes 5 s of GCC 12 instead of 38, and runs
 * as fast. */
#if defined __GNUC__ && !defined __clang__
#pragma GCC optimize("no-tree-pta,no-tree-sra")
#endif

#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#ifdef __AVX512BW__
#include <immintrin.h>
#endif

#include "softgpu/kernel_abi.h"

/* `inline`, so that without optimization too only what is used is compiled. Then nothing is inlined: kernels that are to be compiled quickly
 * take a sixth of the time (SOFTGPU_CC="cc -O0"), and run no slower. */
#define SG_SLOW static inline __attribute__((noinline, unused))
#ifdef __OPTIMIZE__
#define SG_INLINE static inline __attribute__((always_inline, unused))
#else
#define SG_INLINE SG_SLOW
#pragma GCC diagnostic ignored "-Wpsabi"
#endif
#define SG_WARP   32
#define SG_ALL    0xffffffffu

// clang-format off
typedef uint16_t sg_c16 __attribute__((vector_size(64)));
typedef uint32_t sg_c32 __attribute__((vector_size(64)));
typedef uint64_t sg_c64 __attribute__((vector_size(64)));
typedef int16_t sg_i16 __attribute__((vector_size(64)));
typedef int32_t sg_i32 __attribute__((vector_size(64)));
typedef int64_t sg_i64 __attribute__((vector_size(64)));
typedef float sg_cf32 __attribute__((vector_size(64)));
typedef double sg_cf64 __attribute__((vector_size(64)));

typedef struct sg_v16 { sg_c16 c[1]; } sg_v16;
typedef struct sg_v32 { sg_c32 c[2]; } sg_v32;
typedef struct sg_v64 { sg_c64 c[4]; } sg_v64;
typedef struct sg_v128 { sg_v64 low, high; } sg_v128;

/* By lane. */
typedef union sg_l16 { sg_v16 v; uint16_t u[SG_WARP]; int16_t s[SG_WARP]; } sg_l16;
typedef union sg_l32 { sg_v32 v; uint32_t u[SG_WARP]; int32_t s[SG_WARP]; float f[SG_WARP]; } sg_l32;
typedef union sg_l64 { sg_v64 v; uint64_t u[SG_WARP]; int64_t s[SG_WARP]; double f[SG_WARP]; } sg_l64;

#define SG_MAP1_16(F, C, S) {{F(C, S, a.c[0])}}
#define SG_MAP1_32(F, C, S) {{F(C, S, a.c[0]), F(C, S, a.c[1])}}
#define SG_MAP1_64(F, C, S) {{F(C, S, a.c[0]), F(C, S, a.c[1]), F(C, S, a.c[2]), F(C, S, a.c[3])}}
#define SG_MAP2_16(F, C, S) {{F(C, S, a.c[0], b.c[0])}}
#define SG_MAP2_32(F, C, S) {{F(C, S, a.c[0], b.c[0]), F(C, S, a.c[1], b.c[1])}}
#define SG_MAP2_64(F, C, S) {{F(C, S, a.c[0], b.c[0]), F(C, S, a.c[1], b.c[1]), F(C, S, a.c[2], b.c[2]), F(C, S, a.c[3], b.c[3])}}
#define SG_UNARY(bits, name, F) SG_INLINE sg_v##bits sg_##name##bits(sg_v##bits a) { return (sg_v##bits)SG_MAP1_##bits(F, sg_c##bits, sg_i##bits); }
#define SG_BINARY(bits, name, F) SG_INLINE sg_v##bits sg_##name##bits(sg_v##bits a, sg_v##bits b) { return (sg_v##bits)SG_MAP2_##bits(F, sg_c##bits, sg_i##bits); }
#define SG_UNARIES(name, F) SG_UNARY(16, name, F) SG_UNARY(32, name, F) SG_UNARY(64, name, F)
#define SG_BINARIES(name, F) SG_BINARY(16, name, F) SG_BINARY(32, name, F) SG_BINARY(64, name, F)

/* Lane by lane: an expression of i and of the operands a, b, c as unions. The compiler makes vectors of most. */
#define SG_LANES1(R, A, name, expression) \
    SG_INLINE sg_v##R name(sg_v##A x) { sg_l##R d; sg_l##A a = {x}; for (int i = 0; i < SG_WARP; i++) { expression; } return d.v; }
#define SG_LANES2(R, A, B, name, expression) \
    SG_INLINE sg_v##R name(sg_v##A x, sg_v##B y) { sg_l##R d; sg_l##A a = {x}; sg_l##B b = {y}; for (int i = 0; i < SG_WARP; i++) { expression; } return d.v; }
#define SG_LANES3(R, A, B, C, name, expression) \
    SG_INLINE sg_v##R name(sg_v##A x, sg_v##B y, sg_v##C z) \
    { sg_l##R d; sg_l##A a = {x}; sg_l##B b = {y}; sg_l##C c = {z}; for (int i = 0; i < SG_WARP; i++) { expression; } return d.v; }
#define SG_LANES4(R, A, B, C, E, name, expression) \
    SG_INLINE sg_v##R name(sg_v##A x, sg_v##B y, sg_v##C z, sg_v##E w) \
    { sg_l##R d; sg_l##A a = {x}; sg_l##B b = {y}; sg_l##C c = {z}; sg_l##E e = {w}; for (int i = 0; i < SG_WARP; i++) { expression; } return d.v; }
// clang-format on

/* ---- the same in all lanes; one lane ---- */
SG_INLINE sg_v16 sg_all16(uint16_t x)
{
    return (sg_v16){{(sg_c16){0} + x}};
}
SG_INLINE sg_v32 sg_all32(uint32_t x)
{
    sg_c32 c = (sg_c32){0} + x;
    return (sg_v32){{c, c}};
}
SG_INLINE sg_v64 sg_all64(uint64_t x)
{
    sg_c64 c = (sg_c64){0} + x;
    return (sg_v64){{c, c, c, c}};
}
SG_INLINE sg_v128 sg_all128(uint64_t x)
{
    return (sg_v128){sg_all64(x), sg_all64(0)};
}
SG_INLINE uint32_t sg_lane32(sg_v32 a, uint32_t lane)
{
    sg_l32 x = {a};
    return x.u[lane & 31];
}
SG_INLINE uint64_t sg_lane64(sg_v64 a, uint32_t lane)
{
    sg_l64 x = {a};
    return x.u[lane & 31];
}
SG_INLINE uint32_t sg_first(uint32_t mask)
{
    return (uint32_t)__builtin_ctz(mask);
}
#define SG_FOR_LANES(i, mask)                                                                                \
    for (uint32_t rest_ = (mask), i; rest_ && (i = sg_first(rest_), true); rest_ &= rest_ - 1)

/* ---- masks: `yes` where the mask has a bit, else `no` ---- */
#ifdef __AVX512BW__
SG_INLINE sg_v16 sg_set16(uint32_t mask, sg_v16 yes, sg_v16 no)
{
    return (sg_v16){{(sg_c16)_mm512_mask_blend_epi16(mask, (__m512i)no.c[0], (__m512i)yes.c[0])}};
}
SG_INLINE sg_v32 sg_set32(uint32_t mask, sg_v32 yes, sg_v32 no)
{
    return (sg_v32){
        {(sg_c32)_mm512_mask_blend_epi32((__mmask16)mask, (__m512i)no.c[0], (__m512i)yes.c[0]),
         (sg_c32)_mm512_mask_blend_epi32((__mmask16)(mask >> 16), (__m512i)no.c[1], (__m512i)yes.c[1])}};
}
#define SG_SET64(k)                                                                                          \
    (sg_c64) _mm512_mask_blend_epi64((__mmask8)(mask >> 8 * k), (__m512i)no.c[k], (__m512i)yes.c[k])
SG_INLINE sg_v64 sg_set64(uint32_t mask, sg_v64 yes, sg_v64 no)
{
    return (sg_v64){{SG_SET64(0), SG_SET64(1), SG_SET64(2), SG_SET64(3)}};
}
#else
// clang-format off
#define SG_SET(bits) \
    SG_INLINE sg_v##bits sg_set##bits(uint32_t mask, sg_v##bits yes, sg_v##bits no) \
    { sg_l##bits d = {no}, a = {yes}; for (int i = 0; i < SG_WARP; i++) d.u[i] = mask >> i & 1 ? a.u[i] : d.u[i]; return d.v; }
SG_SET(16) SG_SET(32) SG_SET(64)
// clang-format on
#endif
SG_INLINE sg_v128 sg_set128(uint32_t mask, sg_v128 yes, sg_v128 no)
{
    return (sg_v128){sg_set64(mask, yes.low, no.low), sg_set64(mask, yes.high, no.high)};
}
SG_INLINE uint32_t sg_set1(uint32_t mask, uint32_t yes, uint32_t no)
{
    return (yes & mask) | (no & ~mask);
}

/* ---- comparisons: a mask of lanes ---- */
// clang-format off
#ifdef __AVX512BW__
/* A part of a mask, widened in a general register. GCC 12 does that in a mask register, and where it has none left, stores 16 bits of
 * it and loads 32: or.pred and isspacep were wrong where it tunes for Intel's processors. */
SG_INLINE uint32_t sg_bits8(__mmask8 part) { __asm__("" : "+r"(part)); return part; }
SG_INLINE uint32_t sg_bits16(__mmask16 part) { __asm__("" : "+r"(part)); return part; }
#define SG_COMPARE(type, name, how, symbol) SG_COMPARE_##type(name, how)
#define SG_COMPARE_u16(name, how) SG_INLINE uint32_t sg_##name##_u16(sg_v16 a, sg_v16 b) { return _mm512_cmp_epu16_mask((__m512i)a.c[0], (__m512i)b.c[0], how); }
#define SG_COMPARE_s16(name, how) SG_INLINE uint32_t sg_##name##_s16(sg_v16 a, sg_v16 b) { return _mm512_cmp_epi16_mask((__m512i)a.c[0], (__m512i)b.c[0], how); }
#define SG_COMPARE_2(name, type, F, M, how) \
    SG_INLINE uint32_t sg_##name##_##type(sg_v32 a, sg_v32 b) { return sg_bits16(F((M)a.c[0], (M)b.c[0], how)) | sg_bits16(F((M)a.c[1], (M)b.c[1], how)) << 16; }
#define SG_COMPARE_4(name, type, F, M, how) \
    SG_INLINE uint32_t sg_##name##_##type(sg_v64 a, sg_v64 b) \
    { return sg_bits8(F((M)a.c[0], (M)b.c[0], how)) | sg_bits8(F((M)a.c[1], (M)b.c[1], how)) << 8 | sg_bits8(F((M)a.c[2], (M)b.c[2], how)) << 16 | sg_bits8(F((M)a.c[3], (M)b.c[3], how)) << 24; }
#define SG_COMPARE_u32(name, how) SG_COMPARE_2(name, u32, _mm512_cmp_epu32_mask, __m512i, how)
#define SG_COMPARE_s32(name, how) SG_COMPARE_2(name, s32, _mm512_cmp_epi32_mask, __m512i, how)
#define SG_COMPARE_f32(name, how) SG_COMPARE_2(name, f32, _mm512_cmp_ps_mask, __m512, how)
#define SG_COMPARE_u64(name, how) SG_COMPARE_4(name, u64, _mm512_cmp_epu64_mask, __m512i, how)
#define SG_COMPARE_s64(name, how) SG_COMPARE_4(name, s64, _mm512_cmp_epi64_mask, __m512i, how)
#define SG_COMPARE_f64(name, how) SG_COMPARE_4(name, f64, _mm512_cmp_pd_mask, __m512d, how)
#define SG_EQ 0
#define SG_NE 4
#define SG_LT 1
#define SG_LE 2
#else
#define SG_COMPARE_AT(bits, type, field, name, symbol) \
    SG_INLINE uint32_t sg_##name##_##type(sg_v##bits x, sg_v##bits y) \
    { sg_l##bits a = {x}, b = {y}; uint32_t d = 0; for (int i = 0; i < SG_WARP; i++) d |= (uint32_t)(a.field[i] symbol b.field[i]) << i; return d; }
#define SG_COMPARE(type, name, how, symbol) SG_COMPARE_##type(name, symbol)
#define SG_COMPARE_u16(name, symbol) SG_COMPARE_AT(16, u16, u, name, symbol)
#define SG_COMPARE_s16(name, symbol) SG_COMPARE_AT(16, s16, s, name, symbol)
#define SG_COMPARE_u32(name, symbol) SG_COMPARE_AT(32, u32, u, name, symbol)
#define SG_COMPARE_s32(name, symbol) SG_COMPARE_AT(32, s32, s, name, symbol)
#define SG_COMPARE_f32(name, symbol) SG_COMPARE_AT(32, f32, f, name, symbol)
#define SG_COMPARE_u64(name, symbol) SG_COMPARE_AT(64, u64, u, name, symbol)
#define SG_COMPARE_s64(name, symbol) SG_COMPARE_AT(64, s64, s, name, symbol)
#define SG_COMPARE_f64(name, symbol) SG_COMPARE_AT(64, f64, f, name, symbol)
#endif
/* Of floats: eq, lt, le are false with a NaN, ne is true. */
#define SG_COMPARES(type) SG_COMPARE(type, eq, SG_EQ, ==) SG_COMPARE(type, ne, SG_NE, !=) SG_COMPARE(type, lt, SG_LT, <) SG_COMPARE(type, le, SG_LE, <=)
SG_COMPARES(u16) SG_COMPARES(s16) SG_COMPARES(u32) SG_COMPARES(s32) SG_COMPARES(u64) SG_COMPARES(s64) SG_COMPARES(f32) SG_COMPARES(f64)

SG_INLINE float sg_float(uint32_t x) { float f; memcpy(&f, &x, sizeof f); return f; }
SG_INLINE uint32_t sg_bits_of(float f) { uint32_t x; memcpy(&x, &f, sizeof x); return x; }
SG_INLINE double sg_double(uint64_t x) { double f; memcpy(&f, &x, sizeof f); return f; }
SG_INLINE uint64_t sg_bits_of64(double f) { uint64_t x; memcpy(&x, &f, sizeof x); return x; }

/* ---- sizes ---- */
SG_LANES1(32, 16, sg_u32_of_u16, d.u[i] = a.u[i])
SG_LANES1(32, 16, sg_u32_of_s16, d.s[i] = a.s[i])
SG_LANES1(16, 32, sg_u16_of_u32, d.u[i] = (uint16_t)a.u[i])
#if __has_builtin(__builtin_shufflevector)
typedef uint32_t sg_h32 __attribute__((vector_size(32)));
typedef int32_t sg_hi32 __attribute__((vector_size(32)));
#define SG_LOW8(c)  __builtin_shufflevector(c, c, 0, 1, 2, 3, 4, 5, 6, 7)
#define SG_HIGH8(c) __builtin_shufflevector(c, c, 8, 9, 10, 11, 12, 13, 14, 15)
#define SG_WIDEN(c, H) (sg_c64)__builtin_convertvector((H)c, sg_i64)
#define SG_WIDENU(c) __builtin_convertvector((sg_h32)c, sg_c64)
SG_INLINE sg_v64 sg_u64_of_u32(sg_v32 a)
{ return (sg_v64){{SG_WIDENU(SG_LOW8(a.c[0])), SG_WIDENU(SG_HIGH8(a.c[0])), SG_WIDENU(SG_LOW8(a.c[1])), SG_WIDENU(SG_HIGH8(a.c[1]))}}; }
SG_INLINE sg_v64 sg_u64_of_s32(sg_v32 a)
{ return (sg_v64){{SG_WIDEN(SG_LOW8(a.c[0]), sg_hi32), SG_WIDEN(SG_HIGH8(a.c[0]), sg_hi32), SG_WIDEN(SG_LOW8(a.c[1]), sg_hi32), SG_WIDEN(SG_HIGH8(a.c[1]), sg_hi32)}}; }
#define SG_NARROW(x, y) __builtin_shufflevector(__builtin_convertvector(x, sg_h32), __builtin_convertvector(y, sg_h32), 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15)
SG_INLINE sg_v32 sg_u32_of_u64(sg_v64 a) { return (sg_v32){{SG_NARROW(a.c[0], a.c[1]), SG_NARROW(a.c[2], a.c[3])}}; }
#else
SG_LANES1(64, 32, sg_u64_of_u32, d.u[i] = a.u[i])
SG_LANES1(64, 32, sg_u64_of_s32, d.s[i] = a.s[i])
SG_LANES1(32, 64, sg_u32_of_u64, d.u[i] = (uint32_t)a.u[i])
#endif
SG_LANES1(64, 16, sg_u64_of_u16, d.u[i] = a.u[i])
SG_LANES1(64, 16, sg_u64_of_s16, d.s[i] = a.s[i])
SG_LANES1(16, 64, sg_u16_of_u64, d.u[i] = (uint16_t)a.u[i])
SG_LANES1(16, 32, sg_high16, d.u[i] = (uint16_t)(a.u[i] >> 16))
SG_LANES2(32, 16, 16, sg_pair16, d.u[i] = a.u[i] | (uint32_t)b.u[i] << 16)
SG_LANES1(32, 64, sg_high32, d.u[i] = (uint32_t)(a.u[i] >> 32))
SG_LANES2(64, 32, 32, sg_pair32, d.u[i] = a.u[i] | (uint64_t)b.u[i] << 32)
/* From the low byte. */
#define SG_F_U8(C, S, a) ((a) & 0xff)
#define SG_F_S8(C, S, a) ((C)((S)((a) << (sizeof(a[0]) * 8 - 8)) >> (sizeof(a[0]) * 8 - 8)))
SG_UNARIES(u8_to_, SG_F_U8) SG_UNARIES(s8_to_, SG_F_S8)

/* ---- integers ---- */
#define SG_PICK(C, m, x, y) (((C)(m) & (x)) | (~(C)(m) & (y)))
#define SG_F_ADD(C, S, a, b)   ((a) + (b))
#define SG_F_SUB(C, S, a, b)   ((a) - (b))
#define SG_F_MUL(C, S, a, b)   ((a) * (b))
#define SG_F_AND(C, S, a, b)   ((a) & (b))
#define SG_F_OR(C, S, a, b)    ((a) | (b))
#define SG_F_XOR(C, S, a, b)   ((a) ^ (b))
#define SG_F_NOT(C, S, a)      (~(a))
#define SG_F_NEG(C, S, a)      (-(a))
#define SG_F_CNOT(C, S, a)     ((C)((a) == 0) & 1)
#define SG_F_ABS(C, S, a)      SG_PICK(C, (S)(a) < 0, -(a), a)
#define SG_F_MIN_U(C, S, a, b) SG_PICK(C, (a) < (b), a, b)
#define SG_F_MAX_U(C, S, a, b) SG_PICK(C, (a) > (b), a, b)
#define SG_F_MIN_S(C, S, a, b) SG_PICK(C, (S)(a) < (S)(b), a, b)
#define SG_F_MAX_S(C, S, a, b) SG_PICK(C, (S)(a) > (S)(b), a, b)
SG_BINARIES(add_b, SG_F_ADD) SG_BINARIES(sub_b, SG_F_SUB) SG_BINARIES(mul_lo_b, SG_F_MUL)
SG_BINARIES(and_b, SG_F_AND) SG_BINARIES(or_b, SG_F_OR) SG_BINARIES(xor_b, SG_F_XOR)
SG_UNARIES(not_b, SG_F_NOT) SG_UNARIES(neg_s, SG_F_NEG) SG_UNARIES(cnot_b, SG_F_CNOT) SG_UNARIES(abs_s, SG_F_ABS)
SG_BINARIES(min_u, SG_F_MIN_U) SG_BINARIES(max_u, SG_F_MAX_U) SG_BINARIES(min_s, SG_F_MIN_S) SG_BINARIES(max_s, SG_F_MAX_S)
/* By an amount in 32 bits: what is shifted by its size or more is gone. */
#define SG_F_SHL(C, S, a, b)   ((C)((b) < sizeof((a)[0]) * 8) & ((a) << ((b) & (sizeof((a)[0]) * 8 - 1))))
#define SG_F_SHR_U(C, S, a, b) ((C)((b) < sizeof((a)[0]) * 8) & ((a) >> ((b) & (sizeof((a)[0]) * 8 - 1))))
#define SG_F_SHR_S(C, S, a, b) ((C)((S)(a) >> (S)SG_F_MIN_U(C, S, b, (C){0} + (sizeof((a)[0]) * 8 - 1))))
SG_BINARIES(shl_by, SG_F_SHL) SG_BINARIES(shr_u_by, SG_F_SHR_U) SG_BINARIES(shr_s_by, SG_F_SHR_S)
SG_LANES1(16, 32, sg_shift16, d.u[i] = (uint16_t)(a.u[i] > 16 ? 16 : a.u[i]))
#define SG_SHIFT(name) \
    SG_INLINE sg_v16 sg_##name##16(sg_v16 a, sg_v32 b) { return sg_##name##_by16(a, sg_shift16(b)); } \
    SG_INLINE sg_v32 sg_##name##32(sg_v32 a, sg_v32 b) { return sg_##name##_by32(a, b); } \
    SG_INLINE sg_v64 sg_##name##64(sg_v64 a, sg_v32 b) { return sg_##name##_by64(a, sg_u64_of_u32(b)); }
SG_SHIFT(shl) SG_SHIFT(shr_u) SG_SHIFT(shr_s)

SG_LANES2(16, 16, 16, sg_mul_hi_u16, d.u[i] = (uint16_t)((uint32_t)a.u[i] * b.u[i] >> 16))
SG_LANES2(16, 16, 16, sg_mul_hi_s16, d.u[i] = (uint16_t)((int32_t)a.s[i] * b.s[i] >> 16))
SG_LANES2(32, 32, 32, sg_mul_hi_u32, d.u[i] = (uint32_t)((uint64_t)a.u[i] * b.u[i] >> 32))
SG_LANES2(32, 32, 32, sg_mul_hi_s32, d.u[i] = (uint32_t)((int64_t)a.s[i] * b.s[i] >> 32))
SG_LANES2(64, 64, 64, sg_mul_hi_u64, d.u[i] = (uint64_t)((unsigned __int128)a.u[i] * b.u[i] >> 64))
SG_LANES2(64, 64, 64, sg_mul_hi_s64, d.u[i] = (uint64_t)((__int128)a.s[i] * b.s[i] >> 64))
SG_LANES2(32, 16, 16, sg_mul_wide_u16, d.u[i] = (uint32_t)a.u[i] * b.u[i])
SG_LANES2(32, 16, 16, sg_mul_wide_s16, d.s[i] = (int32_t)a.s[i] * b.s[i])
SG_INLINE sg_v64 sg_mul_wide_u32(sg_v32 a, sg_v32 b) { return sg_mul_lo_b64(sg_u64_of_u32(a), sg_u64_of_u32(b)); }
SG_INLINE sg_v64 sg_mul_wide_s32(sg_v32 a, sg_v32 b) { return sg_mul_lo_b64(sg_u64_of_s32(a), sg_u64_of_s32(b)); }
SG_LANES2(32, 32, 32, sg_mul24_lo_u32, d.u[i] = (a.u[i] & 0xffffff) * (b.u[i] & 0xffffff))
SG_LANES2(32, 32, 32, sg_mul24_hi_u32, d.u[i] = (uint32_t)((uint64_t)(a.u[i] & 0xffffff) * (b.u[i] & 0xffffff) >> 16))
SG_LANES2(32, 32, 32, sg_mul24_lo_s32, d.u[i] = (uint32_t)((int32_t)(a.u[i] << 8) >> 8) * (uint32_t)((int32_t)(b.u[i] << 8) >> 8))
SG_LANES2(32, 32, 32, sg_mul24_hi_s32, d.u[i] = (uint32_t)((int64_t)((int32_t)(a.u[i] << 8) >> 8) * ((int32_t)(b.u[i] << 8) >> 8) >> 16))

/* Of a divisor 0: all ones; the remainder is the dividend. The most negative number by -1 is itself. */
#define SG_DIVIDE(bits) \
    SG_LANES2(bits, bits, bits, sg_div_u##bits, d.u[i] = b.u[i] ? (uint##bits##_t)(a.u[i] / b.u[i]) : (uint##bits##_t)-1) \
    SG_LANES2(bits, bits, bits, sg_rem_u##bits, d.u[i] = b.u[i] ? (uint##bits##_t)(a.u[i] % b.u[i]) : a.u[i]) \
    SG_LANES2(bits, bits, bits, sg_div_s##bits, d.s[i] = b.s[i] == 0 ? (int##bits##_t)-1 : b.s[i] == -1 ? (int##bits##_t)(uint##bits##_t)(0 - a.u[i]) : (int##bits##_t)(a.s[i] / b.s[i])) \
    SG_LANES2(bits, bits, bits, sg_rem_s##bits, d.s[i] = b.s[i] == 0 ? a.s[i] : b.s[i] == -1 ? (int##bits##_t)0 : (int##bits##_t)(a.s[i] % b.s[i]))
SG_DIVIDE(16) SG_DIVIDE(32) SG_DIVIDE(64)
#define SG_SAD(bits) \
    SG_LANES3(bits, bits, bits, bits, sg_sad_u##bits, d.u[i] = (uint##bits##_t)(c.u[i] + (a.u[i] < b.u[i] ? b.u[i] - a.u[i] : a.u[i] - b.u[i]))) \
    SG_LANES3(bits, bits, bits, bits, sg_sad_s##bits, d.u[i] = (uint##bits##_t)(c.u[i] + (a.s[i] < b.s[i] ? b.u[i] - a.u[i] : a.u[i] - b.u[i])))
SG_SAD(16) SG_SAD(32) SG_SAD(64)

#define SG_CLAMP_S32(x) ((int32_t)((x) < INT32_MIN ? INT32_MIN : (x) > INT32_MAX ? INT32_MAX : (x)))
SG_LANES2(32, 32, 32, sg_add_sat_s32, d.s[i] = SG_CLAMP_S32((int64_t)a.s[i] + b.s[i]))
SG_LANES2(32, 32, 32, sg_sub_sat_s32, d.s[i] = SG_CLAMP_S32((int64_t)a.s[i] - b.s[i]))
/* Carries, as masks: out of a + b + c, and borrows out of a - b - c. */
#define SG_CARRY(bits) \
    SG_INLINE uint32_t sg_carry_add_b##bits(sg_v##bits x, sg_v##bits y, uint32_t carry) \
    { sg_l##bits a = {x}, b = {y}; uint32_t d = 0; for (int i = 0; i < SG_WARP; i++) { uint##bits##_t s; d |= (uint32_t)(__builtin_add_overflow(a.u[i], b.u[i], &s) | __builtin_add_overflow(s, (uint##bits##_t)(carry >> i & 1), &s)) << i; } return d; } \
    SG_INLINE uint32_t sg_carry_sub_b##bits(sg_v##bits x, sg_v##bits y, uint32_t carry) \
    { sg_l##bits a = {x}, b = {y}; uint32_t d = 0; for (int i = 0; i < SG_WARP; i++) { uint##bits##_t s; d |= (uint32_t)(__builtin_sub_overflow(a.u[i], b.u[i], &s) | __builtin_sub_overflow(s, (uint##bits##_t)(carry >> i & 1), &s)) << i; } return d; } \
    SG_INLINE sg_v##bits sg_bit_b##bits(uint32_t mask) { sg_l##bits d; for (int i = 0; i < SG_WARP; i++) d.u[i] = mask >> i & 1; return d.v; }
SG_CARRY(32) SG_CARRY(64)

/* ---- bits ---- */
SG_LANES1(32, 32, sg_popc_b32, d.u[i] = (uint32_t)__builtin_popcount(a.u[i]))
SG_LANES1(32, 64, sg_popc_b64, d.u[i] = (uint32_t)__builtin_popcountll(a.u[i]))
SG_LANES1(32, 32, sg_clz_b32, d.u[i] = a.u[i] ? (uint32_t)__builtin_clz(a.u[i]) : 32)
SG_LANES1(32, 64, sg_clz_b64, d.u[i] = a.u[i] ? (uint32_t)__builtin_clzll(a.u[i]) : 64)
SG_INLINE uint32_t sg_reverse32(uint32_t x)
{
    x = (x & 0x55555555) << 1 | (x >> 1 & 0x55555555);
    x = (x & 0x33333333) << 2 | (x >> 2 & 0x33333333);
    x = (x & 0x0f0f0f0f) << 4 | (x >> 4 & 0x0f0f0f0f);
    return __builtin_bswap32(x);
}
SG_LANES1(32, 32, sg_brev_b32, d.u[i] = sg_reverse32(a.u[i]))
SG_LANES1(64, 64, sg_brev_b64, d.u[i] = (uint64_t)sg_reverse32((uint32_t)a.u[i]) << 32 | sg_reverse32((uint32_t)(a.u[i] >> 32)))
/* The highest bit that is not the sign's; -1: none. */
#define SG_BFIND(bits, clz) \
    SG_INLINE uint32_t sg_highest_u##bits(uint##bits##_t x) { return x ? bits - 1 - (uint32_t)clz(x) : (uint32_t)-1; } \
    SG_LANES1(32, bits, sg_bfind_u##bits, d.u[i] = sg_highest_u##bits(a.u[i])) \
    SG_LANES1(32, bits, sg_bfind_s##bits, d.u[i] = sg_highest_u##bits(a.s[i] < 0 ? (uint##bits##_t)~a.u[i] : a.u[i])) \
    SG_LANES1(32, bits, sg_bfind_shiftamt_u##bits, d.u[i] = sg_highest_u##bits(a.u[i]); d.u[i] = d.u[i] == (uint32_t)-1 ? d.u[i] : bits - 1 - d.u[i]) \
    SG_LANES1(32, bits, sg_bfind_shiftamt_s##bits, d.u[i] = sg_highest_u##bits(a.s[i] < 0 ? (uint##bits##_t)~a.u[i] : a.u[i]); d.u[i] = d.u[i] == (uint32_t)-1 ? d.u[i] : bits - 1 - d.u[i])
SG_BFIND(32, __builtin_clz) SG_BFIND(64, __builtin_clzll)
/* Position and length are bytes. As in the ISA's pseudo-code: beyond the top, the sign. */
#define SG_FIELDS(bits) \
    SG_INLINE uint##bits##_t sg_extract_u##bits(uint##bits##_t a, uint32_t pos, uint32_t len) \
    { pos &= 255; len &= 255; uint##bits##_t x = pos < bits ? a >> pos : 0; return len >= bits ? x : x & (uint##bits##_t)(((uint##bits##_t)1 << len) - 1); } \
    SG_INLINE uint##bits##_t sg_extract_s##bits(uint##bits##_t a, uint32_t pos, uint32_t len) \
    { \
        pos &= 255; len &= 255; \
        if (!len) return 0; \
        uint32_t top = pos + len - 1 < bits - 1 ? pos + len - 1 : bits - 1; \
        uint##bits##_t sign = a >> top & 1 ? (uint##bits##_t)-1 : 0, x = pos < bits ? a >> pos : sign; \
        uint32_t have = pos < bits ? top - pos + 1 : 0; \
        return have >= bits ? x : have ? (x & (uint##bits##_t)(((uint##bits##_t)1 << have) - 1)) | sign << have : sign; \
    } \
    SG_INLINE uint##bits##_t sg_insert##bits(uint##bits##_t a, uint##bits##_t b, uint32_t pos, uint32_t len) \
    { \
        pos &= 255; len &= 255; \
        if (pos >= bits || !len) return b; \
        uint##bits##_t m = (len >= bits ? (uint##bits##_t)-1 : (uint##bits##_t)(((uint##bits##_t)1 << len) - 1)) << pos; \
        return (b & ~m) | (a << pos & m); \
    } \
    SG_LANES3(bits, bits, 32, 32, sg_bfe_u##bits, d.u[i] = sg_extract_u##bits(a.u[i], b.u[i], c.u[i])) \
    SG_LANES3(bits, bits, 32, 32, sg_bfe_s##bits, d.u[i] = sg_extract_s##bits(a.u[i], b.u[i], c.u[i])) \
    SG_LANES4(bits, bits, bits, 32, 32, sg_bfi_b##bits, d.u[i] = sg_insert##bits(a.u[i], b.u[i], c.u[i], e.u[i]))
SG_FIELDS(32) SG_FIELDS(64)
SG_INLINE uint32_t sg_field_mask(uint32_t pos, uint32_t len, bool clamp)
{
    if (!clamp)
        return (len & 31 ? (1u << (len & 31)) - 1 : 0) << (pos & 31);
    return pos >= 32 ? 0 : (len >= 32 ? SG_ALL : (1u << len) - 1) << pos;
}
SG_LANES2(32, 32, 32, sg_bmsk_clamp, d.u[i] = sg_field_mask(a.u[i], b.u[i], true))
SG_LANES2(32, 32, 32, sg_bmsk_wrap, d.u[i] = sg_field_mask(a.u[i], b.u[i], false))
#define SG_F_SZEXT_U(a, n) ((n) >= 32 ? (a) : (n) ? (a) & ((1u << (n)) - 1) : 0)
#define SG_F_SZEXT_S(a, n) ((n) >= 32 ? (a) : (n) ? (uint32_t)((int32_t)((a) << (32 - (n))) >> (32 - (n))) : 0)
SG_LANES2(32, 32, 32, sg_szext_clamp_u32, d.u[i] = SG_F_SZEXT_U(a.u[i], b.u[i]))
SG_LANES2(32, 32, 32, sg_szext_clamp_s32, d.u[i] = SG_F_SZEXT_S(a.u[i], b.u[i]))
SG_LANES2(32, 32, 32, sg_szext_wrap_u32, d.u[i] = SG_F_SZEXT_U(a.u[i], b.u[i] & 31))
SG_LANES2(32, 32, 32, sg_szext_wrap_s32, d.u[i] = SG_F_SZEXT_S(a.u[i], b.u[i] & 31))
/* Funnel shifts of b:a. */
#define SG_FUNNEL_L(n) (uint32_t)((((uint64_t)b.u[i] << 32 | a.u[i]) << (n)) >> 32)
#define SG_FUNNEL_R(n) (uint32_t)(((uint64_t)b.u[i] << 32 | a.u[i]) >> (n))
SG_LANES3(32, 32, 32, 32, sg_shf_l_clamp, d.u[i] = SG_FUNNEL_L(c.u[i] > 32 ? 32 : c.u[i]))
SG_LANES3(32, 32, 32, 32, sg_shf_l_wrap, d.u[i] = SG_FUNNEL_L(c.u[i] & 31))
SG_LANES3(32, 32, 32, 32, sg_shf_r_clamp, d.u[i] = SG_FUNNEL_R(c.u[i] > 32 ? 32 : c.u[i]))
SG_LANES3(32, 32, 32, 32, sg_shf_r_wrap, d.u[i] = SG_FUNNEL_R(c.u[i] & 31))
/* Byte k of the result: byte (selector & 7) of b:a, or its sign. */
SG_INLINE uint32_t sg_permute(uint32_t a, uint32_t b, uint32_t selectors)
{
    const uint64_t bytes = (uint64_t)b << 32 | a;
    uint32_t d = 0;
    for (int k = 0; k < 4; k++) {
        const uint32_t s = selectors >> 4 * k & 15;
        uint32_t x = (uint32_t)(bytes >> 8 * (s & 7)) & 255;
        x = s & 8 ? (x & 128 ? 255 : 0) : x;
        d |= x << 8 * k;
    }
    return d;
}
/* The special modes as selectors. */
SG_INLINE uint32_t sg_permute_mode(int mode, uint32_t c)
{
    static const uint16_t selectors[6][4] = {{0x3210, 0x4321, 0x5432, 0x6543}, {0x5670, 0x6701, 0x7012, 0x0123}, {0x0000, 0x1111, 0x2222, 0x3333},
                                             {0x3210, 0x3211, 0x3222, 0x3333}, {0x0000, 0x1110, 0x2210, 0x3210}, {0x1010, 0x3232, 0x1010, 0x3232}};
    return selectors[mode][c & 3];
}
SG_LANES3(32, 32, 32, 32, sg_prmt, d.u[i] = sg_permute(a.u[i], b.u[i], c.u[i]))
#define SG_PRMT(name, mode) SG_LANES3(32, 32, 32, 32, sg_prmt_##name, d.u[i] = sg_permute(a.u[i], b.u[i], sg_permute_mode(mode, c.u[i])))
SG_PRMT(f4e, 0) SG_PRMT(b4e, 1) SG_PRMT(rc8, 2) SG_PRMT(ecl, 3) SG_PRMT(ecr, 4) SG_PRMT(rc16, 5)
SG_INLINE sg_v32 sg_lop3(sg_v32 a, sg_v32 b, sg_v32 c, uint32_t table)
{
    sg_v32 d = {{{0}, {0}}};
    for (int h = 0; h < 2; h++)
        for (int k = 0; k < 8; k++)
            if (table >> k & 1)
                d.c[h] |= (k & 4 ? a.c[h] : ~a.c[h]) & (k & 2 ? b.c[h] : ~b.c[h]) & (k & 1 ? c.c[h] : ~c.c[h]);
    return d;
}
/* The offset-th bit that is set, from `base` upward or downward. */
SG_INLINE uint32_t sg_find_nth(uint32_t mask, uint32_t base, int32_t offset)
{
    int32_t count = offset < 0 ? -offset : offset, step = offset < 0 ? -1 : 1;
    if (offset == 0)
        return base < 32 && mask >> base & 1 ? base : SG_ALL;
    for (int64_t at = base; at >= 0 && at < 32; at += step)
        if (mask >> at & 1 && --count == 0)
            return (uint32_t)at;
    return SG_ALL;
}
SG_LANES3(32, 32, 32, 32, sg_fns, d.u[i] = sg_find_nth(a.u[i], b.u[i], c.s[i]))
#define SG_BYTE_u(x, k) (int64_t)((x) >> 8 * (k) & 255)
#define SG_BYTE_s(x, k) (int64_t)(int8_t)((x) >> 8 * (k))
#define SG_HALF_u(x, k) (int64_t)((x) >> 16 * (k) & 0xffff)
#define SG_HALF_s(x, k) (int64_t)(int16_t)((x) >> 16 * (k))
#define SG_DOT(A, B) \
    SG_LANES3(32, 32, 32, 32, sg_dp4a_##A##32_##B##32, uint32_t s = c.u[i]; for (int k = 0; k < 4; k++) s += (uint32_t)(SG_BYTE_##A(a.u[i], k) * SG_BYTE_##B(b.u[i], k)); d.u[i] = s) \
    SG_LANES3(32, 32, 32, 32, sg_dp2a_lo_##A##32_##B##32, uint32_t s = c.u[i]; for (int k = 0; k < 2; k++) s += (uint32_t)(SG_HALF_##A(a.u[i], k) * SG_BYTE_##B(b.u[i], k)); d.u[i] = s) \
    SG_LANES3(32, 32, 32, 32, sg_dp2a_hi_##A##32_##B##32, uint32_t s = c.u[i]; for (int k = 0; k < 2; k++) s += (uint32_t)(SG_HALF_##A(a.u[i], k) * SG_BYTE_##B(b.u[i], k + 2)); d.u[i] = s)
SG_DOT(u, u) SG_DOT(u, s) SG_DOT(s, u) SG_DOT(s, s)
/* Clamped to a type; of 32 bits the numbers are 64 wide. */
SG_INLINE int64_t sg_clamp(int64_t x, int64_t low, int64_t high) { return x < low ? low : x > high ? high : x; }
SG_LANES1(64, 64, sg_sat_u8_s64, d.s[i] = sg_clamp(a.s[i], 0, 255))
SG_LANES1(64, 64, sg_sat_s8_s64, d.s[i] = sg_clamp(a.s[i], -128, 127))
SG_LANES1(64, 64, sg_sat_u16_s64, d.s[i] = sg_clamp(a.s[i], 0, 65535))
SG_LANES1(64, 64, sg_sat_s16_s64, d.s[i] = sg_clamp(a.s[i], -32768, 32767))
SG_LANES1(64, 64, sg_sat_u32_s64, d.s[i] = sg_clamp(a.s[i], 0, UINT32_MAX))
SG_LANES1(64, 64, sg_sat_s32_s64, d.s[i] = sg_clamp(a.s[i], INT32_MIN, INT32_MAX))
SG_LANES1(64, 64, sg_sat_u64_s64, d.s[i] = a.s[i] < 0 ? 0 : a.s[i])
SG_LANES1(64, 64, sg_sat_s64_s64, d.s[i] = a.s[i])
SG_LANES1(64, 64, sg_sat_u8_u64, d.u[i] = a.u[i] > 255 ? 255 : a.u[i])
SG_LANES1(64, 64, sg_sat_s8_u64, d.u[i] = a.u[i] > 127 ? 127 : a.u[i])
SG_LANES1(64, 64, sg_sat_u16_u64, d.u[i] = a.u[i] > 65535 ? 65535 : a.u[i])
SG_LANES1(64, 64, sg_sat_s16_u64, d.u[i] = a.u[i] > 32767 ? 32767 : a.u[i])
SG_LANES1(64, 64, sg_sat_u32_u64, d.u[i] = a.u[i] > UINT32_MAX ? UINT32_MAX : a.u[i])
SG_LANES1(64, 64, sg_sat_s32_u64, d.u[i] = a.u[i] > INT32_MAX ? INT32_MAX : a.u[i])
SG_LANES1(64, 64, sg_sat_u64_u64, d.u[i] = a.u[i])
SG_LANES1(64, 64, sg_sat_s64_u64, d.u[i] = a.u[i] > INT64_MAX ? INT64_MAX : a.u[i])
// clang-format on

#include "warp_flow.h"
#include "warp_float.h"
#include "warp_memory.h"
#include "warp_sync.h"
#include "warp_mbarrier.h"

#endif
