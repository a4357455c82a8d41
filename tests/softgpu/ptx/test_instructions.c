/* test_instructions.c: what lines of PTX are, by hand, at least one of each opcode; and lines that are refused. */
#include "ptx_test.h"

/* Operands by a letter each: register r, negated !, constant i, memory m, vector v, sink _, symbol y, special register s, label l,
 * jump table t, left out -. */
typedef struct expected {
    const char *line;
    sg_ptx_opcode_t opcode;
    const char *operands;
    uint8_t types[SG_PTX_TYPES_MOST];
    uint8_t modifiers[8];
} expected_t;

#define T(...)                                                                                               \
    {                                                                                                        \
        __VA_ARGS__                                                                                          \
    }
#define M(...)                                                                                               \
    {                                                                                                        \
        __VA_ARGS__                                                                                          \
    }

// clang-format off
static const expected_t lines[] = {
    {"add.sat.s32 %s32_0, %b32_1, -5;", SG_PTX_OP_ADD, "rri", T(SG_PTX_S32), M(SG_PTX_SAT)},
    {"add.rz.ftz.f32 %f32_0, %f32_1, 0f3F800000;", SG_PTX_OP_ADD, "rri", T(SG_PTX_F32), M(SG_PTX_ROUND_RZ, SG_PTX_FTZ)},
    {"add.cc.u32 %u32_0, %u32_1, %u32_2;", SG_PTX_OP_ADD, "rrr", T(SG_PTX_U32), M(SG_PTX_CC)},
    {"add.bf16x2 %b32_0, %b32_1, %b32_2;", SG_PTX_OP_ADD, "rrr", T(SG_PTX_BF16X2), M(0)},
    {"add.f64 %f64_0, %f64_1, 1.5;", SG_PTX_OP_ADD, "rri", T(SG_PTX_F64), M(0)},
    {"addc.cc.u32 %u32_0, %u32_1, 0;", SG_PTX_OP_ADDC, "rri", T(SG_PTX_U32), M(SG_PTX_CC)},
    {"sub.f16x2 %b32_0, %f16x2_1, %b32_2;", SG_PTX_OP_SUB, "rrr", T(SG_PTX_F16X2), M(0)},
    {"subc.s64 %b64_0, %s64_1, 0;", SG_PTX_OP_SUBC, "rri", T(SG_PTX_S64), M(0)},
    {"mul.lo.s32 %b32_0, %s32_1, %u32_2;", SG_PTX_OP_MUL, "rrr", T(SG_PTX_S32), M(SG_PTX_WIDTH_LO)},
    {"mul.wide.u16 %u32_0, %u16_1, %b16_2;", SG_PTX_OP_MUL, "rrr", T(SG_PTX_U16), M(SG_PTX_WIDTH_WIDE)},
    {"mul24.hi.u32 %u32_0, %u32_1, %u32_2;", SG_PTX_OP_MUL24, "rrr", T(SG_PTX_U32), M(SG_PTX_WIDTH_HI)},
    {"mad.wide.s32 %b64_0, %b32_1, 4, %b64_2;", SG_PTX_OP_MAD, "rrir", T(SG_PTX_S32), M(SG_PTX_WIDTH_WIDE)},
    {"mad.lo.cc.u32 %u32_0, %u32_1, %u32_2, %u32_3;", SG_PTX_OP_MAD, "rrrr", T(SG_PTX_U32), M(SG_PTX_WIDTH_LO, SG_PTX_CC)},
    {"madc.hi.u32 %u32_0, %u32_1, %u32_2, 0;", SG_PTX_OP_MADC, "rrri", T(SG_PTX_U32), M(SG_PTX_WIDTH_HI)},
    {"mad24.hi.sat.s32 %s32_0, %s32_1, %s32_2, %s32_3;", SG_PTX_OP_MAD24, "rrrr", T(SG_PTX_S32), M(SG_PTX_WIDTH_HI, SG_PTX_SAT)},
    {"sad.u16 %u16_0, %u16_1, %u16_2, %u16_3;", SG_PTX_OP_SAD, "rrrr", T(SG_PTX_U16), M(0)},
    {"div.full.f32 %f32_0, %f32_1, %b32_2;", SG_PTX_OP_DIV, "rrr", T(SG_PTX_F32), M(SG_PTX_FULL)},
    {"div.rn.f64 %f64_0, %f64_1, %f64_2;", SG_PTX_OP_DIV, "rrr", T(SG_PTX_F64), M(SG_PTX_ROUND_RN)},
    {"rem.u64 %u64_0, %u64_1, 10;", SG_PTX_OP_REM, "rri", T(SG_PTX_U64), M(0)},
    {"abs.ftz.f32 %f32_0, %f32_1;", SG_PTX_OP_ABS, "rr", T(SG_PTX_F32), M(SG_PTX_FTZ)},
    {"neg.bf16 %b16_0, %b16_1;", SG_PTX_OP_NEG, "rr", T(SG_PTX_BF16), M(0)},
    {"min.NaN.xorsign.abs.f32 %f32_0, %f32_1, %f32_2;", SG_PTX_OP_MIN, "rrr", T(SG_PTX_F32), M(SG_PTX_NAN, SG_PTX_XORSIGN, SG_PTX_ABS)},
    {"min.u32 %u32_0, %u32_1, 7;", SG_PTX_OP_MIN, "rri", T(SG_PTX_U32), M(0)},
    {"max.relu.s16x2 %b32_0, %b32_1, %b32_2;", SG_PTX_OP_MAX, "rrr", T(SG_PTX_S16X2), M(SG_PTX_RELU)},
    {"popc.b64 %u32_0, %b64_1;", SG_PTX_OP_POPC, "rr", T(SG_PTX_B64), M(0)},
    {"clz.b32 %b32_0, %u32_1;", SG_PTX_OP_CLZ, "rr", T(SG_PTX_B32), M(0)},
    {"bfind.shiftamt.s64 %u32_0, %s64_1;", SG_PTX_OP_BFIND, "rr", T(SG_PTX_S64), M(SG_PTX_SHIFTAMT)},
    {"fns.b32 %b32_0, 0xaaaaaaaa, 3, 1;", SG_PTX_OP_FNS, "riii", T(SG_PTX_B32), M(0)},
    {"brev.b32 %b32_0, %b32_1;", SG_PTX_OP_BREV, "rr", T(SG_PTX_B32), M(0)},
    {"bfe.u32 %b32_0, %b32_1, 8, 4;", SG_PTX_OP_BFE, "rrii", T(SG_PTX_U32), M(0)},
    {"bfi.b64 %b64_0, %b64_1, %b64_2, 8, %b32_3;", SG_PTX_OP_BFI, "rrrir", T(SG_PTX_B64), M(0)},
    {"bmsk.clamp.b32 %b32_0, %b32_1, 5;", SG_PTX_OP_BMSK, "rri", T(SG_PTX_B32), M(SG_PTX_CLAMP)},
    {"szext.wrap.s32 %s32_0, %s32_1, 5;", SG_PTX_OP_SZEXT, "rri", T(SG_PTX_S32), M(SG_PTX_WRAP)},
    {"dp4a.u32.s32 %b32_0, %b32_1, %b32_2, %b32_3;", SG_PTX_OP_DP4A, "rrrr", T(SG_PTX_U32, SG_PTX_S32), M(0)},
    {"dp2a.hi.s32.u32 %b32_0, %b32_1, %b32_2, %b32_3;", SG_PTX_OP_DP2A, "rrrr", T(SG_PTX_S32, SG_PTX_U32), M(SG_PTX_WIDTH_HI)},
    {"fma.rn.ftz.f32 %f32_0, %f32_1, %f32_2, 0fBF800000;", SG_PTX_OP_FMA, "rrri", T(SG_PTX_F32), M(SG_PTX_ROUND_RN, SG_PTX_FTZ)},
    {"fma.rn.relu.bf16x2 %b32_0, %b32_1, %b32_2, %b32_3;", SG_PTX_OP_FMA, "rrrr", T(SG_PTX_BF16X2), M(SG_PTX_ROUND_RN, SG_PTX_RELU)},
    {"rcp.approx.ftz.f64 %f64_0, %f64_1;", SG_PTX_OP_RCP, "rr", T(SG_PTX_F64), M(SG_PTX_APPROX, SG_PTX_FTZ)},
    {"sqrt.rp.f64 %f64_0, %f64_1;", SG_PTX_OP_SQRT, "rr", T(SG_PTX_F64), M(SG_PTX_ROUND_RP)},
    {"rsqrt.approx.f64 %f64_0, %f64_1;", SG_PTX_OP_RSQRT, "rr", T(SG_PTX_F64), M(SG_PTX_APPROX)},
    {"sin.approx.f32 %f32_0, %f32_1;", SG_PTX_OP_SIN, "rr", T(SG_PTX_F32), M(SG_PTX_APPROX)},
    {"cos.approx.ftz.f32 %f32_0, %f32_1;", SG_PTX_OP_COS, "rr", T(SG_PTX_F32), M(SG_PTX_APPROX, SG_PTX_FTZ)},
    {"lg2.approx.f32 %f32_0, %f32_1;", SG_PTX_OP_LG2, "rr", T(SG_PTX_F32), M(SG_PTX_APPROX)},
    {"ex2.approx.ftz.bf16x2 %b32_0, %b32_1;", SG_PTX_OP_EX2, "rr", T(SG_PTX_BF16X2), M(SG_PTX_APPROX, SG_PTX_FTZ)},
    {"tanh.approx.f16 %f16_0, %b16_1;", SG_PTX_OP_TANH, "rr", T(SG_PTX_F16), M(SG_PTX_APPROX)},
    {"testp.subnormal.f32 %pred_0, %f32_1;", SG_PTX_OP_TESTP, "rr", T(SG_PTX_F32), M(SG_PTX_TEST_SUBNORMAL)},
    {"copysign.f64 %f64_0, %f64_1, %f64_2;", SG_PTX_OP_COPYSIGN, "rrr", T(SG_PTX_F64), M(0)},
    {"setp.lt.s32 %pred_0, %b32_1, 0;", SG_PTX_OP_SETP, "r-ri-", T(SG_PTX_S32), M(SG_PTX_CMP_LT)},
    {"setp.hi.and.u32 %pred_0|%pred_1, %b32_1, %b32_2, !%pred_3;", SG_PTX_OP_SETP, "rrrr!", T(SG_PTX_U32), M(SG_PTX_CMP_HI, SG_PTX_BOOL_AND)},
    {"setp.neu.ftz.f16x2 %pred_0|%pred_1, %b32_1, %b32_2;", SG_PTX_OP_SETP, "rrrr-", T(SG_PTX_F16X2), M(SG_PTX_CMP_NEU, SG_PTX_FTZ)},
    {"set.eq.or.u32.f32 %b32_0, %f32_1, %f32_2, %pred_3;", SG_PTX_OP_SET, "rrrr", T(SG_PTX_U32, SG_PTX_F32), M(SG_PTX_CMP_EQ, SG_PTX_BOOL_OR)},
    {"set.nan.f16x2.f16x2 %b32_0, %b32_1, %f16x2_2;", SG_PTX_OP_SET, "rrr-", T(SG_PTX_F16X2, SG_PTX_F16X2), M(SG_PTX_CMP_NAN)},
    {"add.rn.f32.bf16 %f32_0, %b16_1, %f32_2;", SG_PTX_OP_ADD, "rrr", T(SG_PTX_F32, SG_PTX_BF16), M(SG_PTX_ROUND_RN)},
    {"selp.b16 %b16_0, %b16_1, 0x3C00, %pred_2;", SG_PTX_OP_SELP, "rrir", T(SG_PTX_B16), M(0)},
    {"slct.ftz.u32.f32 %u32_0, %u32_1, %u32_2, %f32_3;", SG_PTX_OP_SLCT, "rrrr", T(SG_PTX_U32, SG_PTX_F32), M(SG_PTX_FTZ)},
    {"and.pred %pred_0, %pred_1, %pred_2;", SG_PTX_OP_AND, "rrr", T(SG_PTX_PRED), M(0)},
    {"or.b64 %b64_0, %f64_1, 0d3ff0000000000000;", SG_PTX_OP_OR, "rri", T(SG_PTX_B64), M(0)},
    {"xor.b32 %b32_0, %f32_1, 0x80000000;", SG_PTX_OP_XOR, "rri", T(SG_PTX_B32), M(0)},
    {"not.b16 %b16_0, %s16_1;", SG_PTX_OP_NOT, "rr", T(SG_PTX_B16), M(0)},
    {"cnot.b32 %b32_0, %b32_1;", SG_PTX_OP_CNOT, "rr", T(SG_PTX_B32), M(0)},
    {"lop3.b32 %b32_0, %b32_1, %b32_2, %b32_3, 0x96;", SG_PTX_OP_LOP3, "rrrri", T(SG_PTX_B32), M(0)},
    {"lop3.or.b32 _|%pred_0, %b32_1, %b32_2, %b32_3, 0x96, %pred_4;", SG_PTX_OP_LOP3, "_rrrrir", T(SG_PTX_B32), M(SG_PTX_BOOL_OR)},
    {"shl.b64 %b64_0, %b64_1, %b32_2;", SG_PTX_OP_SHL, "rrr", T(SG_PTX_B64), M(0)},
    {"shr.s16 %s16_0, %b16_1, 3;", SG_PTX_OP_SHR, "rri", T(SG_PTX_S16), M(0)},
    {"shf.l.wrap.b32 %b32_0, %b32_1, %b32_2, 13;", SG_PTX_OP_SHF, "rrri", T(SG_PTX_B32), M(SG_PTX_LEFT, SG_PTX_WRAP)},
    {"prmt.b32.f4e %b32_0, %b32_1, %b32_2, 1;", SG_PTX_OP_PRMT, "rrri", T(SG_PTX_B32), M(SG_PTX_PERMUTE_F4E)},
    {"prmt.b32 %b32_0, %b32_1, %b32_2, 0x5410;", SG_PTX_OP_PRMT, "rrri", T(SG_PTX_B32), M(0)},
    {"mov.u32 %b32_0, %ctaid.y;", SG_PTX_OP_MOV, "rs", T(SG_PTX_U32), M(0)},
    {"mov.u64 %b64_0, %clock64;", SG_PTX_OP_MOV, "rs", T(SG_PTX_U64), M(0)},
    {"mov.b64 %b64_0, in_global+8;", SG_PTX_OP_MOV, "ry", T(SG_PTX_B64), M(0)},
    {"mov.b64 %b64_0, callee;", SG_PTX_OP_MOV, "ry", T(SG_PTX_B64), M(0)},
    {"mov.f32 %f32_0, 0f7F800000;", SG_PTX_OP_MOV, "ri", T(SG_PTX_F32), M(0)},
    {"mov.pred %pred_0, 1;", SG_PTX_OP_MOV, "ri", T(SG_PTX_PRED), M(0)},
    {"mov.b32 %b32_0, {%b16_1, %f16_2};", SG_PTX_OP_MOV, "rv", T(SG_PTX_B32), M(0)},
    {"mov.b64 {%b32_0, _}, %f64_1;", SG_PTX_OP_MOV, "vr", T(SG_PTX_B64), M(0)},
    {"mov.b128 %b128_0, {%b64_1, %b64_2};", SG_PTX_OP_MOV, "rv", T(SG_PTX_B128), M(0)},
    {"cvta.to.global.u64 %b64_0, %b64_1;", SG_PTX_OP_CVTA, "rr", T(SG_PTX_U64), M(SG_PTX_TO, SG_PTX_SPACE_GLOBAL)},
    {"cvta.shared.u64 %b64_0, in_shared;", SG_PTX_OP_CVTA, "ry", T(SG_PTX_U64), M(SG_PTX_SPACE_SHARED)},
    {"isspacep.shared::cta %pred_0, %b64_1;", SG_PTX_OP_ISSPACEP, "rr", T(0), M(SG_PTX_SPACE_SHARED_CTA)},
    {"cvt.rn.f32.s64 %f32_0, %b64_1;", SG_PTX_OP_CVT, "rr", T(SG_PTX_F32, SG_PTX_S64), M(SG_PTX_ROUND_RN)},
    {"cvt.rzi.ftz.sat.u8.f32 %b32_0, %f32_1;", SG_PTX_OP_CVT, "rr", T(SG_PTX_U8, SG_PTX_F32), M(SG_PTX_ROUND_RZI, SG_PTX_FTZ, SG_PTX_SAT)},
    {"cvt.sat.u8.s32 %b16_0, %s32_1;", SG_PTX_OP_CVT, "rr", T(SG_PTX_U8, SG_PTX_S32), M(SG_PTX_SAT)},
    {"ld.v4.b64 {%b64_0, %b64_1, %b64_2, %b64_3}, [%b64_4];", SG_PTX_OP_LD, "vm-", T(SG_PTX_B64), M(SG_PTX_V4)},
    {"cvt.s32.s8 %s32_0, %s64_1;", SG_PTX_OP_CVT, "rr", T(SG_PTX_S32, SG_PTX_S8), M(0)},
    {"cvt.u64.u32 %b64_0, %laneid;", SG_PTX_OP_CVT, "rs", T(SG_PTX_U64, SG_PTX_U32), M(0)},
    {"cvt.rn.bf16x2.f32 %b32_0, %f32_1, %f32_2;", SG_PTX_OP_CVT, "rrr", T(SG_PTX_BF16X2, SG_PTX_F32), M(SG_PTX_ROUND_RN)},
    {"cvt.rna.tf32.f32 %b32_0, %f32_1;", SG_PTX_OP_CVT, "rr", T(SG_PTX_TF32, SG_PTX_F32), M(SG_PTX_ROUND_RNA)},
    {"cvt.rn.satfinite.e4m3x2.f32 %b16_0, %f32_1, %f32_2;", SG_PTX_OP_CVT, "rrr", T(SG_PTX_E4M3X2, SG_PTX_F32), M(SG_PTX_ROUND_RN, SG_PTX_SATFINITE)},
    {"cvt.f32.bf16 %f32_0, %b16_1;", SG_PTX_OP_CVT, "rr", T(SG_PTX_F32, SG_PTX_BF16), M(0)},
    {"cvt.pack.sat.u8.s32.b32 %b32_0, %s32_1, %s32_2, %b32_3;", SG_PTX_OP_CVT_PACK, "rrrr", T(SG_PTX_U8, SG_PTX_S32, SG_PTX_B32), M(SG_PTX_SAT)},
    {"ld.global.v4.b32 {%b32_0, %f32_1, _, %s32_3}, [%b64_4+-16];", SG_PTX_OP_LD, "vm-", T(SG_PTX_B32), M(SG_PTX_SPACE_GLOBAL, SG_PTX_V4)},
    {"ld.global.b32 { %b32_0 }, [ %b64_1 + 0 ];", SG_PTX_OP_LD, "rm-", T(SG_PTX_B32), M(SG_PTX_SPACE_GLOBAL)},
    {"ld.param.u64 %b64_0, [in_param];", SG_PTX_OP_LD, "rm-", T(SG_PTX_U64), M(SG_PTX_SPACE_PARAM)},
    {"ld.global.L1::evict_first.L2::cache_hint.b32 %b32_0, [%b64_1], %b64_2;", SG_PTX_OP_LD, "rmr", T(SG_PTX_B32), M(SG_PTX_SPACE_GLOBAL, SG_PTX_EVICT_L1_FIRST, SG_PTX_CACHE_HINT)},
    {"ld.relaxed.gpu.global.u8 %b32_0, [%b64_1];", SG_PTX_OP_LD, "rm-", T(SG_PTX_U8), M(SG_PTX_SEM_RELAXED, SG_PTX_SCOPE_GPU, SG_PTX_SPACE_GLOBAL)},
    {"ld.global.acquire.sys.u64 %b64_0, [%b64_1];", SG_PTX_OP_LD, "rm-", T(SG_PTX_U64), M(SG_PTX_SEM_ACQUIRE, SG_PTX_SCOPE_SYS, SG_PTX_SPACE_GLOBAL)},
    {"ld.volatile.shared.f32 %f32_0, [in_shared+4];", SG_PTX_OP_LD, "rm", T(SG_PTX_F32), M(SG_PTX_SEM_VOLATILE, SG_PTX_SPACE_SHARED)},
    {"ld.global.nc.v2.f64 {%f64_0, %f64_1}, [in_global];", SG_PTX_OP_LD, "vm-", T(SG_PTX_F64), M(SG_PTX_SPACE_GLOBAL, SG_PTX_NC, SG_PTX_V2)},
    {"ld.b16 %b16_0, [%b64_1+2];", SG_PTX_OP_LD, "rm-", T(SG_PTX_B16), M(0)},
    {"ldu.global.f32 %f32_0, [%b64_1];", SG_PTX_OP_LDU, "rm", T(SG_PTX_F32), M(SG_PTX_SPACE_GLOBAL)},
    {"st.local.v2.b32 [in_local+8], {%b32_0, 7};", SG_PTX_OP_ST, "mv-", T(SG_PTX_B32), M(SG_PTX_SPACE_LOCAL, SG_PTX_V2)},
    {"st.param.b64 [out_param], %b64_0;", SG_PTX_OP_ST, "mr-", T(SG_PTX_B64), M(SG_PTX_SPACE_PARAM)},
    {"st.release.sys.global.u32 [%b64_0], %u32_1;", SG_PTX_OP_ST, "mr-", T(SG_PTX_U32), M(SG_PTX_SEM_RELEASE, SG_PTX_SCOPE_SYS, SG_PTX_SPACE_GLOBAL)},
    {"st.global.cs.b64 [%b64_0], 1;", SG_PTX_OP_ST, "mi-", T(SG_PTX_B64), M(SG_PTX_SPACE_GLOBAL, SG_PTX_CACHE_CS)},
    {"prefetch.global.L2 [%b64_0];", SG_PTX_OP_PREFETCH, "m", T(0), M(SG_PTX_SPACE_GLOBAL, SG_PTX_LEVEL_L2)},
    {"prefetchu.L1 [%b64_0];", SG_PTX_OP_PREFETCHU, "m", T(0), M(SG_PTX_LEVEL_L1)},
    {"createpolicy.fractional.L2::evict_first.b64 %b64_0, 1.0;", SG_PTX_OP_CREATEPOLICY_FRACTIONAL, "ri", T(SG_PTX_B64), M(SG_PTX_EVICT_L2_FIRST)},
    {"alloca.u64 %b64_0, %b64_1, 16;", SG_PTX_OP_ALLOCA, "rri", T(SG_PTX_U64), M(0)},
    {"stacksave.u64 %b64_0;", SG_PTX_OP_STACKSAVE, "r", T(SG_PTX_U64), M(0)},
    {"stackrestore.u64 %b64_0;", SG_PTX_OP_STACKRESTORE, "r", T(SG_PTX_U64), M(0)},
    {"atom.global.gpu.acq_rel.add.f32 %f32_0, [%b64_1+0], %f32_2;", SG_PTX_OP_ATOM, "rmr-", T(SG_PTX_F32), M(SG_PTX_SEM_ACQ_REL, SG_PTX_SCOPE_GPU, SG_PTX_SPACE_GLOBAL, SG_PTX_DO_ADD)},
    {"atom.relaxed.gpu.global.cas.b32 %b32_0, [%b64_1], %b32_2, 4;", SG_PTX_OP_ATOM, "rmri", T(SG_PTX_B32), M(SG_PTX_SEM_RELAXED, SG_PTX_SCOPE_GPU, SG_PTX_SPACE_GLOBAL, SG_PTX_DO_CAS)},
    {"atom.shared.inc.u32 %u32_0, [in_shared], 9;", SG_PTX_OP_ATOM, "rmi-", T(SG_PTX_U32), M(SG_PTX_SPACE_SHARED, SG_PTX_DO_INC)},
    {"atom.global.add.noftz.bf16x2 %b32_0, [%b64_1], %b32_2;", SG_PTX_OP_ATOM, "rmr-", T(SG_PTX_BF16X2), M(SG_PTX_SPACE_GLOBAL, SG_PTX_DO_ADD, SG_PTX_NOFTZ)},
    {"red.global.add.v4.f32 [%b64_0], {%f32_1, %f32_2, %f32_3, %f32_4};", SG_PTX_OP_RED, "mv-", T(SG_PTX_F32), M(SG_PTX_SPACE_GLOBAL, SG_PTX_DO_ADD, SG_PTX_V4)},
    {"red.release.sys.global.max.s64 [%b64_0], %b64_1;", SG_PTX_OP_RED, "mr-", T(SG_PTX_S64), M(SG_PTX_SEM_RELEASE, SG_PTX_SCOPE_SYS, SG_PTX_SPACE_GLOBAL, SG_PTX_DO_MAX)},
    {"bar.sync 0;", SG_PTX_OP_BAR_SYNC, "i-", T(0), M(0)},
    {"bar.sync %b32_0, 64;", SG_PTX_OP_BAR_SYNC, "ri", T(0), M(0)},
    {"bar.cta.sync 1, 64;", SG_PTX_OP_BAR_CTA_SYNC, "ii", T(0), M(0)},
    {"bar.arrive 1, 64;", SG_PTX_OP_BAR_ARRIVE, "ii", T(0), M(0)},
    {"bar.cta.arrive 1, %b32_0;", SG_PTX_OP_BAR_CTA_ARRIVE, "ir", T(0), M(0)},
    {"bar.red.popc.u32 %b32_0, 0, !%pred_1;", SG_PTX_OP_BAR_RED, "ri!", T(SG_PTX_U32), M(SG_PTX_DO_POPC)},
    {"bar.red.and.pred %pred_0, 0, 64, %pred_1;", SG_PTX_OP_BAR_RED, "riir", T(SG_PTX_PRED), M(SG_PTX_DO_AND)},
    {"bar.cta.red.or.pred %pred_0, 0, %pred_1;", SG_PTX_OP_BAR_CTA_RED, "rir", T(SG_PTX_PRED), M(SG_PTX_DO_OR)},
    {"barrier.sync.aligned 0;", SG_PTX_OP_BARRIER_SYNC, "i-", T(0), M(SG_PTX_ALIGNED)},
    {"barrier.cta.sync.aligned 0, 64;", SG_PTX_OP_BARRIER_CTA_SYNC, "ii", T(0), M(SG_PTX_ALIGNED)},
    {"barrier.arrive 2, 64;", SG_PTX_OP_BARRIER_ARRIVE, "ii", T(0), M(0)},
    {"barrier.cta.arrive.aligned 2, 64;", SG_PTX_OP_BARRIER_CTA_ARRIVE, "ii", T(0), M(SG_PTX_ALIGNED)},
    {"barrier.red.popc.aligned.u32 %b32_0, 0, %pred_0;", SG_PTX_OP_BARRIER_RED, "rir", T(SG_PTX_U32), M(SG_PTX_DO_POPC, SG_PTX_ALIGNED)},
    {"barrier.cta.red.and.pred %pred_1, 0, %pred_0;", SG_PTX_OP_BARRIER_CTA_RED, "rir", T(SG_PTX_PRED), M(SG_PTX_DO_AND)},
    {"bar.warp.sync 0xffffffff;", SG_PTX_OP_BAR_WARP_SYNC, "i", T(0), M(0)},
    {"membar.gl;", SG_PTX_OP_MEMBAR, "", T(0), M(SG_PTX_SCOPE_GL)},
    {"fence.acq_rel.gpu;", SG_PTX_OP_FENCE, "", T(0), M(SG_PTX_SEM_ACQ_REL, SG_PTX_SCOPE_GPU)},
    {"fence.proxy.async.shared::cta;", SG_PTX_OP_FENCE_PROXY, "", T(0), M(SG_PTX_PROXY_ASYNC, SG_PTX_SPACE_SHARED_CTA)},
    {"fence.mbarrier_init.release.cluster;", SG_PTX_OP_FENCE_MBARRIER_INIT, "", T(0), M(SG_PTX_SEM_RELEASE, SG_PTX_SCOPE_CLUSTER)},
    {"mbarrier.init.shared::cta.b64 [%b32_0], 1;", SG_PTX_OP_MBARRIER_INIT, "mi", T(SG_PTX_B64), M(SG_PTX_SPACE_SHARED_CTA)},
    {"mbarrier.inval.shared.b64 [in_shared];", SG_PTX_OP_MBARRIER_INVAL, "m", T(SG_PTX_B64), M(SG_PTX_SPACE_SHARED)},
    {"mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%b32_0], 64;", SG_PTX_OP_MBARRIER_EXPECT_TX, "mi", T(SG_PTX_B64), M(SG_PTX_SEM_RELAXED, SG_PTX_SCOPE_CTA, SG_PTX_SPACE_SHARED_CTA)},
    {"mbarrier.complete_tx.b64 [%b64_0], 64;", SG_PTX_OP_MBARRIER_COMPLETE_TX, "mi", T(SG_PTX_B64), M(0)},
    {"mbarrier.arrive.shared::cta.b64 _, [%b32_0];", SG_PTX_OP_MBARRIER_ARRIVE, "_m-", T(SG_PTX_B64), M(SG_PTX_SPACE_SHARED_CTA)},
    {"mbarrier.arrive.expect_tx.shared.b64 %b64_0, [%b32_0], %b32_1;", SG_PTX_OP_MBARRIER_ARRIVE_EXPECT_TX, "rmr", T(SG_PTX_B64), M(SG_PTX_SPACE_SHARED)},
    {"mbarrier.arrive.noComplete.b64 %b64_0, [%b64_1], 2;", SG_PTX_OP_MBARRIER_ARRIVE_NOCOMPLETE, "rmi", T(SG_PTX_B64), M(0)},
    {"mbarrier.arrive_drop.b64 %b64_0, [%b64_1], 2;", SG_PTX_OP_MBARRIER_ARRIVE_DROP, "rmi", T(SG_PTX_B64), M(0)},
    {"mbarrier.arrive_drop.expect_tx.b64 %b64_0, [%b64_1], 2;", SG_PTX_OP_MBARRIER_ARRIVE_DROP_EXPECT_TX, "rmi", T(SG_PTX_B64), M(0)},
    {"mbarrier.arrive_drop.noComplete.b64 %b64_0, [%b64_1], 2;", SG_PTX_OP_MBARRIER_ARRIVE_DROP_NOCOMPLETE, "rmi", T(SG_PTX_B64), M(0)},
    {"mbarrier.test_wait.shared.b64 %pred_0, [%b32_0], %b64_0;", SG_PTX_OP_MBARRIER_TEST_WAIT, "rmr", T(SG_PTX_B64), M(SG_PTX_SPACE_SHARED)},
    {"mbarrier.test_wait.parity.b64 %pred_0, [%b64_0], 1;", SG_PTX_OP_MBARRIER_TEST_WAIT_PARITY, "rmi", T(SG_PTX_B64), M(0)},
    {"mbarrier.try_wait.b64 %pred_0, [%b64_0], %b64_1, 100;", SG_PTX_OP_MBARRIER_TRY_WAIT, "rmri", T(SG_PTX_B64), M(0)},
    {"mbarrier.try_wait.parity.shared::cta.b64 %pred_0, [%b32_0], %b32_1;", SG_PTX_OP_MBARRIER_TRY_WAIT_PARITY, "rmr-", T(SG_PTX_B64), M(SG_PTX_SPACE_SHARED_CTA)},
    {"mbarrier.pending_count.b64 %b32_0, %b64_0;", SG_PTX_OP_MBARRIER_PENDING_COUNT, "rr", T(SG_PTX_B64), M(0)},
    {"griddepcontrol.wait;", SG_PTX_OP_GRIDDEPCONTROL_WAIT, "", T(0), M(0)},
    {"griddepcontrol.launch_dependents;", SG_PTX_OP_GRIDDEPCONTROL_LAUNCH_DEPENDENTS, "", T(0), M(0)},
    {"shfl.sync.bfly.b32 %b32_0, %b32_1, 16, 31, -1;", SG_PTX_OP_SHFL_SYNC, "r-riii", T(SG_PTX_B32), M(SG_PTX_SHUFFLE_BFLY)},
    {"shfl.sync.up.b32 %f32_0|%pred_0, %f32_1, 1, 0, %b32_2;", SG_PTX_OP_SHFL_SYNC, "rrriir", T(SG_PTX_B32), M(SG_PTX_SHUFFLE_UP)},
    {"vote.sync.ballot.b32 %b32_0, !%pred_0, -1;", SG_PTX_OP_VOTE_SYNC, "r!i", T(SG_PTX_B32), M(SG_PTX_VOTE_BALLOT)},
    {"vote.ballot.sync.b32 %b32_0, %pred_0, -1;", SG_PTX_OP_VOTE_BALLOT_SYNC, "rri", T(SG_PTX_B32), M(0)},
    {"match.any.sync.b64 %b32_0, %b64_0, -1;", SG_PTX_OP_MATCH_ANY_SYNC, "rri", T(SG_PTX_B64), M(0)},
    {"match.all.sync.b32 %b32_0|%pred_0, %b32_1, -1;", SG_PTX_OP_MATCH_ALL_SYNC, "rrri", T(SG_PTX_B32), M(0)},
    {"activemask.b32 %b32_0;", SG_PTX_OP_ACTIVEMASK, "r", T(SG_PTX_B32), M(0)},
    {"redux.sync.min.s32 %b32_0, %b32_1, -1;", SG_PTX_OP_REDUX_SYNC, "rri", T(SG_PTX_S32), M(SG_PTX_DO_MIN)},
    {"elect.sync _|%pred_0, -1;", SG_PTX_OP_ELECT_SYNC, "_ri", T(0), M(0)},
    {"ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%b32_0, %b32_1, %b32_2, %b32_3}, [%b32_4];", SG_PTX_OP_LDMATRIX, "vm", T(SG_PTX_B16), M(SG_PTX_TILE_M8N8, SG_PTX_X4, SG_PTX_TRANSPOSED, SG_PTX_SPACE_SHARED)},
    {"ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%b32_0}, [%b32_4+16];", SG_PTX_OP_LDMATRIX, "rm", T(SG_PTX_B16), M(SG_PTX_TILE_M8N8, SG_PTX_X1, SG_PTX_SPACE_SHARED)},
    {"stmatrix.sync.aligned.m8n8.x2.shared.b16 [%b32_4], {%b32_0, %b32_1};", SG_PTX_OP_STMATRIX, "mv", T(SG_PTX_B16), M(SG_PTX_TILE_M8N8, SG_PTX_X2, SG_PTX_SPACE_SHARED)},
    {"movmatrix.sync.aligned.m8n8.trans.b16 %b32_0, %b32_1;", SG_PTX_OP_MOVMATRIX, "rr", T(SG_PTX_B16), M(SG_PTX_TILE_M8N8, SG_PTX_TRANSPOSED)},
    {"mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%f32_0, %f32_1, %f32_2, %f32_3}, {%b32_0, %b32_1, %b32_2, %b32_3}, {%b32_4, %b32_5}, {%f32_0, %f32_1, %f32_2, %f32_3};",
     SG_PTX_OP_MMA, "vvvv", T(SG_PTX_F32, SG_PTX_BF16, SG_PTX_BF16, SG_PTX_F32), M(SG_PTX_LAYOUT_A_ROW, SG_PTX_LAYOUT_B_COLUMN)},
    {"mma.sync.aligned.m16n8k32.row.col.satfinite.s32.s8.u8.s32 {%b32_0, %b32_1, %b32_2, %b32_3}, {%b32_0, %b32_1, %b32_2, %b32_3}, {%b32_4, %b32_5}, {%b32_0, %b32_1, %b32_2, %b32_3};",
     SG_PTX_OP_MMA, "vvvv", T(SG_PTX_S32, SG_PTX_S8, SG_PTX_U8, SG_PTX_S32), M(SG_PTX_LAYOUT_A_ROW, SG_PTX_LAYOUT_B_COLUMN, SG_PTX_SATFINITE)},
    {"wgmma.fence.sync.aligned;", SG_PTX_OP_WGMMA_FENCE, "", T(0), M(0)},
    {"wgmma.commit_group.sync.aligned;", SG_PTX_OP_WGMMA_COMMIT_GROUP, "", T(0), M(0)},
    {"wgmma.wait_group.sync.aligned 1;", SG_PTX_OP_WGMMA_WAIT_GROUP, "i", T(0), M(0)},
    {"wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%b32_0, %b32_1, %b32_2, %b32_3}, %b64_0, %b64_1, %pred_0, 1, -1, 0, 1;",
     SG_PTX_OP_WGMMA_MMA_ASYNC, "vrrriiii", T(SG_PTX_F32, SG_PTX_F16, SG_PTX_F16), M(0)},
    {"cp.async.cg.shared.global.L2::128B [%b32_0], [%b64_0], 16, %b32_1;", SG_PTX_OP_CP_ASYNC, "mmir-", T(0), M(SG_PTX_CACHE_CG, SG_PTX_SPACE_SHARED, SG_PTX_FROM_GLOBAL, SG_PTX_AHEAD_128)},
    {"cp.async.ca.shared::cta.global [in_shared], [in_global], 4;", SG_PTX_OP_CP_ASYNC, "mmi-", T(0), M(SG_PTX_CACHE_CA, SG_PTX_SPACE_SHARED_CTA, SG_PTX_FROM_GLOBAL)},
    {"cp.async.commit_group;", SG_PTX_OP_CP_ASYNC_COMMIT_GROUP, "", T(0), M(0)},
    {"cp.async.wait_group 2;", SG_PTX_OP_CP_ASYNC_WAIT_GROUP, "i", T(0), M(0)},
    {"cp.async.wait_all;", SG_PTX_OP_CP_ASYNC_WAIT_ALL, "", T(0), M(0)},
    {"cp.async.mbarrier.arrive.noinc.shared.b64 [%b32_0];", SG_PTX_OP_CP_ASYNC_MBARRIER_ARRIVE, "m", T(SG_PTX_B64), M(SG_PTX_NOINC, SG_PTX_SPACE_SHARED)},
    {"cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%b32_0], [%b64_0], %b32_1, [%b32_2];", SG_PTX_OP_CP_ASYNC_BULK, "mmrm-", T(0), M(SG_PTX_SPACE_SHARED_CLUSTER, SG_PTX_FROM_GLOBAL, SG_PTX_COMPLETE_TX)},
    {"cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [in_shared], [in_shared], 16, [in_shared];", SG_PTX_OP_CP_ASYNC_BULK, "mmim", T(0), M(SG_PTX_SPACE_SHARED_CLUSTER, SG_PTX_FROM_SHARED_CTA, SG_PTX_COMPLETE_TX)},
    {"cp.async.bulk.global.shared::cta.bulk_group.L2::cache_hint [in_global], [in_shared], 32, %b64_0;", SG_PTX_OP_CP_ASYNC_BULK, "mmir", T(0), M(SG_PTX_SPACE_GLOBAL, SG_PTX_FROM_SHARED_CTA, SG_PTX_BULK_GROUP, SG_PTX_CACHE_HINT)},
    {"cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%b32_0], [%b64_0+128, {%b32_1, 7}], [in_shared];", SG_PTX_OP_CP_ASYNC_BULK_TENSOR, "mmvm-", T(0), M(SG_PTX_DIMS_2D, SG_PTX_SPACE_SHARED_CLUSTER, SG_PTX_FROM_GLOBAL, SG_PTX_COMPLETE_TX)},
    {"cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%b64_0, {%b32_1, %b32_2}], [in_shared];", SG_PTX_OP_CP_ASYNC_BULK_TENSOR, "mvm-", T(0), M(SG_PTX_DIMS_2D, SG_PTX_SPACE_GLOBAL, SG_PTX_FROM_SHARED_CTA, SG_PTX_BULK_GROUP)},
    {"cp.async.bulk.commit_group;", SG_PTX_OP_CP_ASYNC_BULK_COMMIT_GROUP, "", T(0), M(0)},
    {"cp.async.bulk.wait_group.read 2;", SG_PTX_OP_CP_ASYNC_BULK_WAIT_GROUP, "i", T(0), M(SG_PTX_READ)},
    {"cp.async.bulk.prefetch.L2.global [%b64_0], 64;", SG_PTX_OP_CP_ASYNC_BULK_PREFETCH, "mi-", T(0), M(SG_PTX_LEVEL_L2, SG_PTX_SPACE_GLOBAL)},
    {"bra.uni here;", SG_PTX_OP_BRA, "l", T(0), M(SG_PTX_UNIFORM)},
    {"brx.idx %b32_0, table;", SG_PTX_OP_BRX_IDX, "rt", T(0), M(0)},
    {"call.uni (back_param), callee, (out_param);", SG_PTX_OP_CALL, "", T(0), M(SG_PTX_UNIFORM)},
    {"ret;", SG_PTX_OP_RET, "", T(0), M(0)},
    {"exit;", SG_PTX_OP_EXIT, "", T(0), M(0)},
    {"trap;", SG_PTX_OP_TRAP, "", T(0), M(0)},
    {"brkpt;", SG_PTX_OP_BRKPT, "", T(0), M(0)},
    {"nanosleep.u32 %b32_0;", SG_PTX_OP_NANOSLEEP, "r", T(SG_PTX_U32), M(0)},
    {"pmevent 7;", SG_PTX_OP_PMEVENT, "i", T(0), M(0)},
    {"setmaxnreg.inc.sync.aligned.u32 232;", SG_PTX_OP_SETMAXNREG_INC, "i", T(SG_PTX_U32), M(0)},
    {"setmaxnreg.dec.sync.aligned.u32 40;", SG_PTX_OP_SETMAXNREG_DEC, "i", T(SG_PTX_U32), M(0)},
};

static const struct { const char *line, *why; } refused[] = {
    {"cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%b64_0], {%b32_1, %b32_2}, [in_shared];", "coordinates are wanted in [ ]"},
    {"ld.global.u32 %b32_0, [%b64_0, {%b32_1, %b32_2}];", "coordinates are of tensors"},
    {"tcgen05.mma.cta_group::1.kind::f16 [%b32_0], %b64_0, %b64_1, %b32_1, %pred_0;", "line 22: no such instruction here: tcgen05.mma.cta_group::1"},
    {"tex.2d.v4.f32.f32 {%f32_0, %f32_1, %f32_2, %f32_3}, [in_global, {%f32_0, %f32_1}];", "no such instruction here: tex.2d"},
    {"add.sat.u32 %b32_0, %b32_1, %b32_2;", "no such form of add: add.sat.u32"},
    {"add.s32.sat %b32_0, %b32_1, %b32_2;", "no such form of add"},
    {"mul.s32 %b32_0, %b32_1, %b32_2;", "no such form of mul"},
    {"fma.f32 %f32_0, %f32_1, %f32_2, %f32_3;", "no such form of fma"},
    {"cvt.f32.s32 %f32_0, %b32_0;", "no such form of cvt"},
    {"cvt.rn.s32.s16 %b32_0, %b16_0;", "no such form of cvt"},
    {"cvt.f16.f32 %b16_0, %f32_0;", "no such form of cvt"},
    {"cvt.rn.f64.f32 %f64_0, %f32_0;", "no such form of cvt"},
    {"setp.lo.s32 %pred_0, %b32_0, 1;", "no such form of setp"},
    {"setp.lt.b32 %pred_0, %b32_0, 1;", "no such form of setp"},
    {"and.s32 %b32_0, %b32_1, 1;", "no such form of and"},
    {"ld.acquire.global.b32 %b32_0, [%b64_0];", "no such form of ld"},
    {"ld.global.wb.b32 %b32_0, [%b64_0];", "no such form of ld"},
    {"ld.global.cg.ca.b32 %b32_0, [%b64_0];", "no such form of ld"},
    {"st.const.b32 [in_const], %b32_0;", "no such form of st"},
    {"atom.add.s64 %b64_0, [%b64_1], 1;", "no such form of atom"},
    {"mma.sync.aligned.m16n8k16.col.row.f32.f16.f16.f32 %b32_0;", "no such form of mma.sync.aligned"},
    {"wgmma.mma_async.sync.aligned.m64n12k16.f32.f16.f16 {%b32_0, %b32_1, %b32_2, %b32_3, %b32_4, %b32_5}, %b64_0, %b64_1, 1, 1, 1, 0, 0;", "no such form of wgmma.mma_async"},
    {"add.s32 %b32_0, %b32_1;", "too few operands"},
    {"add.s32 %b32_0, %b32_1, %b32_2, %b32_3;", "too many operands"},
    {"add.s32 %b32_0, %b64_1, %b32_2;", "a register of type .b64 where .s32 is wanted"},
    {"add.s32 %b16_0, %b32_1, %b32_2;", "a register of type .b16 where .s32 is wanted"},
    {"add.s32 %f32_0, %b32_1, %b32_2;", "a register of type .f32 where .s32 is wanted"},
    {"add.f32 %f32_0, %s32_1, %f32_2;", "a register of type .s32 where .f32 is wanted"},
    {"add.f32 %f32_0, %f32_1, 1;", "an integer constant where .f32 is wanted"},
    {"add.s32 %b32_0, %b32_1, 0f3F800000;", "a float constant where .s32 is wanted"},
    {"add.s32 5, %b32_1, %b32_2;", "a register is wanted"},
    {"add.s32 %b32_0, %b32_1, %nowhere;", "'%nowhere' is not declared"},
    {"add.s32 %b32_0, %b32_1, %b32_300;", "'%b32_300' is not declared"},
    {"add.s32 %b32_0, %b32_1, %b32_01;", "'%b32_01' is not declared"},
    {"add.u32 %b32_0, %b32_1, %tid.x;", "'%tid' cannot stand here"},
    {"cvta.global.u64 %b64_0, %clock64;", "special registers are read by mov and cvt"},
    {"mov.u32 %b32_0, %tid;", "has .x, .y and .z"},
    {"mov.u64 %b64_0, %tid.x;", "a register of type .u32 where .u64 is wanted"},
    {"add.f16 %f16_0, %f16_1, 0f3F800000;", "a float constant where .f16 is wanted"},
    {"add.s32 %b32_0, %pred_1, 1;", "a register of type .pred where .s32 is wanted"},
    {"selp.b32 %b32_0, %b32_1, %b32_2, %b32_3;", "a register of type .b32 where .pred is wanted"},
    {"selp.b32 %b32_0, %b32_1, %b32_2, !%pred_3;", "nothing can be negated here"},
    {"@%b32_0 add.s32 %b32_0, %b32_1, 1;", "'%b32_0' is no predicate"},
    {"ld.global.b32 %b16_0, [%b64_0];", "a register of type .b16 where .b32 is wanted"},
    {"ld.global.f32 %f64_0, [%b64_0];", "a register of type .f64 where .f32 is wanted"},
    {"ld.global.s32 %f32_0, [%b64_0];", "a register of type .f32 where .s32 is wanted"},
    {"ld.global.b32 %b32_0, [%f64_0];", "is no address"},
    {"ld.global.b32 %b32_0, [%b16_0];", "is no address"},
    {"ld.global.b32 %b32_0, %b64_0;", "an address in [ ] is wanted"},
    {"ld.global.b32 %b32_0, [in_shared];", "'in_shared' is in .shared, the instruction accesses .global"},
    {"ld.b32 %b32_0, [in_shared];", "generic addresses"},
    {"ld.global.b32 %b32_0, [nothing];", "'nothing' is not declared"},
    {"ld.global.b32 %b32_0, [callee];", "'callee' is no memory"},
    {"ld.global.v2.b32 {%b32_0, %b32_1, %b32_2}, [%b64_0];", "a vector of 2 is wanted"},
    {"ld.global.v2.b32 %b32_0, [%b64_0];", "a vector of 2 is wanted"},
    {"ld.shared.v4.b64 {%b64_0, %b64_1, %b64_2, %b64_3}, [%b64_4];", "a vector of 256 bits"},
    {"ld.global.v2.b128 {%b128_0, %b128_1}, [%b64_4];", "a vector of 256 bits"},
    {"ldu.global.v4.b64 {%b64_0, %b64_1, %b64_2, %b64_3}, [%b64_4];", "a vector of 256 bits"},
    {"ld.volatile.const.b32 %b32_0, [in_const];", "no such form of ld"},
    {"ld.global.L2::cache_hint.b32 %b32_0, [%b64_0];", "too few operands"},
    {"ld.global.b32 %b32_0, [%b64_0], %b64_1;", "too many operands"},
    {"mov.b64 %b64_0, {%b32_0, %b16_1};", "a register of type .b16 where .b32 is wanted"},
    {"ld.param.u64 %b64_0, [in_param+4];", "8 bytes at 4 of 'in_param', which has 8"},
    {"ld.param.v2.u64 {%b64_0, %b64_1}, [in_param];", "16 bytes at 0 of 'in_param', which has 8"},
    {"st.param.b8 [out_param-1], %b32_0;", "1 bytes at -1 of 'out_param', which has 8"},
    {"ld.shared.L2::cache_hint.b32 %b32_0, [%b32_1], %b64_0;", "hints for caches are for .global and generic addresses"},
    {"ld.local.L2::128B.b32 %b32_0, [%b64_1];", "hints for caches are for .global and generic addresses"},
    {"ld.global.cg.L1::evict_first.b32 %b32_0, [%b64_1];", "a cache operator and an eviction priority"},
    {"ld.global.L2::evict_last.v4.b32 {%b32_0, %b32_1, %b32_2, %b32_3}, [%b64_0];", "for vectors of 256 bits"},
    {"red.shared.add.L2::cache_hint.u32 [%b32_0], 1, %b64_0;", "hints for caches are for .global and generic addresses"},
    {"cvt.rn.ftz.f64.s32 %f64_0, %b32_0;", ".ftz is for conversions of .f32"},
    {"cvt.sat.s64.u32 %b64_0, %b32_0;", ".sat where .s64 holds every .u32"},
    {"cvt.sat.u32.u32 %b32_0, %b32_1;", ".sat where .u32 holds every .u32"},
    {"mbarrier.arrive.release.b64 _, [%b64_0];", "semantics and scope are given together"},
    {"mbarrier.arrive.shared::cluster.b64 %b64_0, [%b64_1];", "'_' is wanted"},
    {"setp.lt.f16 %pred_0|%pred_1, %b16_0, %b16_1;", "there is no second destination"},
    {"wgmma.mma_async.sync.aligned.m64n40k32.s32.s8.s8 {%b32_0, %b32_1, %b32_2, %b32_3, %b32_4, %b32_5, %b32_6, %b32_7, %b32_8, %b32_9, %b32_10, %b32_11, %b32_12, %b32_13, %b32_14, %b32_15, %b32_16, %b32_17, %b32_18, %b32_19}, %b64_0, %b64_1, 1;", "of integers, n is 8"},
    {"cp.async.cg.shared.global [%b32_0], [%b64_0], 8;", "copies of 16 bytes"},
    {"shfl.sync.bfly.b32 %b32_0, %b32_1, 16, 31;", "too few operands"},
    {"vote.sync.any.pred %pred_0|%pred_1, %pred_2, -1;", "there is no second destination"},
    {"elect.sync %b32_0, -1;", "a second destination, behind '|', is wanted"},
    {"bra nowhere;", "line 22: no such label: 'nowhere'"},
    {"bra kernel;", "no such label"},
    {"brx.idx %b32_0, here;", "the name of .branchtargets is wanted"},
    {"call (back_param), nothing, (out_param);", "no such function: 'nothing'"},
    {"call (back_param), callee;", "this call has 0 arguments, the function 1"},
    {"call (back_param), callee, (back_param);", "arguments 1 of this call: 4 bytes, the function has 8"},
    {"call (back_param), %b64_0, (out_param);", "an indirect call names a prototype"},
    {"call (back_param), %b64_0, (out_param), table;", "no such prototype: 'table'"},
    {"here: ret;", "'here' is declared twice"},
    {".reg .b32 %b32_<4>;", "is declared twice"},
    {".reg .bf16 %x;", "no registers of this type here"},
    {".reg .b32 %many<16777217>;", "is 16777216 at most"},
    {".reg .v4 .f32 %v;", "no registers of this type here"},
    {".nonsense;", "no such directive in a function: .nonsense"},
    {"add.s32 %b32_0, %b32_1, 0x10000000000000000;", "more than 64 bits"},
    {"add.f32 %f32_0, %f32_1, 0f3F80;", "has 8 hexadecimal digits"},
    {"add.s32 %b32_0, %b32_1, 12abc;", "not a number"},
    {"add.s32 %b32_0, %b32_1, 1", "';' is expected, not '}'"},
    {"add.s32 %b32_0, , 1;", "an operand is expected, not ','"},
    {"/* open", "line 22: this comment does not end"},
};
// clang-format on

static char letter_of(const sg_ptx_operand_t *operand)
{
    static const char letters[] = {[SG_PTX_NONE] = '-',      [SG_PTX_REGISTER] = 'r',
                                   [SG_PTX_IMMEDIATE] = 'i', [SG_PTX_SPECIAL_REGISTER] = 's',
                                   [SG_PTX_SYMBOL] = 'y',    [SG_PTX_ADDRESS] = 'm',
                                   [SG_PTX_VECTOR] = 'v',    [SG_PTX_SINK] = '_',
                                   [SG_PTX_LABEL] = 'l',     [SG_PTX_JUMP_TABLE] = 't'};
    return operand->negated ? '!' : letters[operand->kind];
}

static bool has_modifier(const sg_ptx_insn_t *insn, uint8_t modifier)
{
    for (int kind = 0; kind < SG_PTX_KIND_COUNT; kind++)
        if (insn->modifier[kind] == modifier)
            return true;
    return false;
}

static void check_line(const expected_t *expected)
{
    sg_ptx_module_t *module;
    sg_ptx_error_t error;
    char operands[16] = "";
    uint32_t given = 0, wanted = 0;
    if (!ptx_read_line(expected->line, &module, &error))
        fail_msg("%s: %s", expected->line, error.text);
    const sg_ptx_insn_t *insn = &ptx_function(module, "kernel")->insns[0];
    assert_int_equal(insn->line, PTX_FIRST_LINE);
    for (uint32_t i = 0; i < insn->operand_count; i++)
        operands[i] = letter_of(&insn->operands[i]);
    for (int kind = 0; kind < SG_PTX_KIND_COUNT; kind++)
        given += insn->modifier[kind] != SG_PTX_ABSENT;
    for (size_t i = 0; i < sizeof expected->modifiers && expected->modifiers[i]; i++, wanted++)
        if (!has_modifier(insn, expected->modifiers[i]))
            fail_msg("%s: without .%s", expected->line, sg_ptx_modifier_text(expected->modifiers[i]));
    if (insn->opcode != expected->opcode || strcmp(operands, expected->operands) != 0 || given != wanted ||
        memcmp(insn->type, expected->types, sizeof insn->type) != 0)
        fail_msg("%s: %s, operands %s, %u modifiers, types %s %s", expected->line,
                 sg_ptx_opcode_text(insn->opcode), operands, given, sg_ptx_type_text(insn->type[0]),
                 sg_ptx_type_text(insn->type[1]));
    sg_ptx_free(module);
}

static void instructions_of_every_opcode_are_read(void **state)
{
    (void)state;
    bool seen[SG_PTX_OPCODE_COUNT] = {false};
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        seen[lines[i].opcode] = true;
        check_line(&lines[i]);
    }
    for (int opcode = 0; opcode < SG_PTX_OPCODE_COUNT; opcode++)
        if (!seen[opcode])
            fail_msg("no line has %s", sg_ptx_opcode_text(opcode));
}

static void instructions_that_are_wrong_are_refused_with_their_line(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        sg_ptx_module_t *module;
        sg_ptx_error_t error;
        if (ptx_read_line(refused[i].line, &module, &error))
            fail_msg("read, though wrong: %s", refused[i].line);
        if (strstr(error.text, refused[i].why) == NULL)
            fail_msg("%s: \"%s\" instead of \"%s\"", refused[i].line, error.text, refused[i].why);
        assert_in_range(error.line, PTX_FIRST_LINE, PTX_FIRST_LINE + 1);
    }
}

/* One line's operands, for the tests below. */
static const sg_ptx_operand_t *operands_of(const char *line, sg_ptx_module_t **module)
{
    sg_ptx_error_t error;
    if (!ptx_read_line(line, module, &error))
        fail_msg("%s: %s", line, error.text);
    return ptx_function(*module, "kernel")->insns[0].operands;
}

static void immediates_take_the_operand_s_type(void **state)
{
    (void)state;
    static const struct {
        const char *line;
        uint64_t bits;
        sg_ptx_type_t type;
    } cases[] = {
        {"mov.u32 %b32_0, 0x1234U;", 0x1234, SG_PTX_U32},
        {"mov.u32 %b32_0, 0b1011;", 11, SG_PTX_U32},
        {"mov.u32 %b32_0, 0777;", 511, SG_PTX_U32},
        {"mov.u32 %b32_0, 0;", 0, SG_PTX_U32},
        {"mov.u32 %b32_0, WARP_SZ;", 32, SG_PTX_U32},
        {"mov.s32 %b32_0, -1;", 0xffffffff, SG_PTX_S32},
        {"mov.s64 %b64_0, -1;", UINT64_MAX, SG_PTX_S64},
        {"mov.u64 %b64_0, 18446744073709551615;", UINT64_MAX, SG_PTX_U64},
        {"mov.b16 %b16_0, 0x13C00;", 0x3C00, SG_PTX_B16},
        {"mov.f32 %f32_0, 1.5;", 0x3fc00000, SG_PTX_F32},
        {"mov.f32 %f32_0, -0f3FC00000;", 0xbfc00000, SG_PTX_F32},
        {"mov.f32 %f32_0, 0d3ff8000000000000;", 0x3fc00000, SG_PTX_F32},
        {"mov.f64 %f64_0, 0f3FC00000;", 0x3ff8000000000000, SG_PTX_F64},
        {"mov.f64 %f64_0, 1e-3;", 0x3f50624dd2f1a9fc, SG_PTX_F64},
        {"mov.b32 %b32_0, 0f3FC00000;", 0x3fc00000, SG_PTX_B32},
        {"mov.pred %pred_0, 2;", 1, SG_PTX_PRED},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        sg_ptx_module_t *module;
        const sg_ptx_operand_t *operand = &operands_of(cases[i].line, &module)[1];
        if (operand->kind != SG_PTX_IMMEDIATE || operand->bits != cases[i].bits ||
            operand->type != cases[i].type)
            fail_msg("%s: 0x%llx .%s", cases[i].line, (unsigned long long)operand->bits,
                     sg_ptx_type_text(operand->type));
        sg_ptx_free(module);
    }
}

static void operands_name_registers_symbols_and_offsets(void **state)
{
    (void)state;
    sg_ptx_module_t *module;
    const sg_ptx_operand_t *o = operands_of("ld.global.v2.f32 {%f32_7, _}, [%b64_12-8];", &module);
    const sg_ptx_function_t *kernel = ptx_function(module, "kernel");
    const sg_ptx_range_t *range = sg_ptx_register(kernel, o[0].elements[0].number);
    assert_string_equal(range->name, "%f32_");
    assert_int_equal(o[0].elements[0].number - range->first, 7);
    assert_int_equal(o[0].elements[1].kind, SG_PTX_SINK);
    range = sg_ptx_register(kernel, o[1].number);
    assert_string_equal(range->name, "%b64_");
    assert_int_equal(o[1].number - range->first, 12);
    assert_true(o[1].based);
    assert_int_equal(o[1].offset, -8);
    assert_null(sg_ptx_register(kernel, kernel->register_count));
    sg_ptx_free(module);

    o = operands_of("st.shared.u32 [in_shared+12], 1;", &module);
    assert_string_equal(o[0].variable->name, "in_shared");
    assert_int_equal(o[0].offset, 12);
    assert_false(o[0].based);
    sg_ptx_free(module);

    o = operands_of("ld.const.u32 %b32_0, [0x40];", &module);
    assert_null(o[1].variable);
    assert_int_equal(o[1].offset, 0x40);
    sg_ptx_free(module);

    o = operands_of("mov.u32 %b32_0, %nctaid.z;", &module);
    assert_int_equal(o[1].number, SG_PTX_SPECIAL_NCTAID + 2);
    sg_ptx_free(module);

    o = operands_of("wgmma.mma_async.sync.aligned.m64n8k8.f32.tf32.tf32 {%b32_0, %b32_1, %b32_2, %b32_3}, "
                    "%b64_0, %b64_1, 0, 1, 1;",
                    &module);
    const uint16_t *shape = ptx_function(module, "kernel")->insns[0].shape;
    assert_true(shape[0] == 64 && shape[1] == 8 && shape[2] == 8);
    assert_int_equal(o[0].count, 4);
    sg_ptx_free(module);
}

static void guards_and_calls_are_resolved(void **state)
{
    (void)state;
    sg_ptx_module_t *module;
    operands_of("@!%pred_9 call (back_param), %b64_3, (out_param), prototype;", &module);
    const sg_ptx_function_t *kernel = ptx_function(module, "kernel");
    const sg_ptx_insn_t *insn = &kernel->insns[0];
    assert_true(insn->guarded && insn->guard_negated);
    assert_int_equal(insn->guard, sg_ptx_register(kernel, insn->guard)->first + 9);
    assert_null(insn->call->callee);
    assert_int_equal(insn->call->pointer.type, SG_PTX_B64);
    assert_int_equal(insn->call->prototype->parameter_count, 1);
    assert_int_equal(insn->call->argument_count, 1);
    assert_string_equal(insn->call->arguments[0].variable->name, "out_param");
    assert_string_equal(insn->call->returns[0].variable->name, "back_param");
    sg_ptx_free(module);

    operands_of("call (%b32_5), callee, (%b64_6);", &module);
    insn = &ptx_function(module, "kernel")->insns[0];
    assert_ptr_equal(insn->call->callee, ptx_function(module, "callee"));
    assert_int_equal(insn->call->arguments[0].kind, SG_PTX_REGISTER);
    sg_ptx_free(module);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(instructions_of_every_opcode_are_read),
        cmocka_unit_test(instructions_that_are_wrong_are_refused_with_their_line),
        cmocka_unit_test(immediates_take_the_operand_s_type),
        cmocka_unit_test(operands_name_registers_symbols_and_offsets),
        cmocka_unit_test(guards_and_calls_are_resolved),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
