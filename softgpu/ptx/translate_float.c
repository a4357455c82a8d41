/* translate_float.c: floating-point operations and conversions. */
#include <string.h>

#include "softgpu/ptx/translator.h"

/* An instruction in elements: of packed types an element is a half. */
typedef struct sg_ptx_packed {
    sg_ptx_type_t type; /* of an element */
    uint32_t bits;      /* of an element */
    uint32_t halves;    /* 1 or 2 */
} sg_ptx_packed_t;

static sg_ptx_packed_t packed_of(sg_ptx_type_t type)
{
    switch (type) {
    case SG_PTX_F16X2:
        return (sg_ptx_packed_t){SG_PTX_F16, 16, 2};
    case SG_PTX_BF16X2:
        return (sg_ptx_packed_t){SG_PTX_BF16, 16, 2};
    case SG_PTX_F32X2:
        return (sg_ptx_packed_t){SG_PTX_F32, 32, 2};
    default:
        return (sg_ptx_packed_t){type, sg_ptx_type_bits(type), 1};
    }
}

/* Half h of operand i. */
static const char *element(sg_ptx_translator_t *t, const sg_ptx_packed_t *p, uint32_t i, uint32_t h)
{
    const char *whole = sg_ptx_value(t, i, p->bits * p->halves);
    if (p->halves == 1)
        return whole;
    return h ? sg_ptx_text(t, "sg_high%u(%s)", p->bits, whole)
             : sg_ptx_text(t, "sg_u%u_of_u%u(%s)", p->bits, 2 * p->bits, whole);
}

static const char *flushed(sg_ptx_translator_t *t, const sg_ptx_packed_t *p, const char *text)
{
    if (!sg_ptx_has(t, SG_PTX_KIND_FTZ))
        return text;
    return sg_ptx_text(t, "sg_ftz_%s%u(%s)", p->type == SG_PTX_BF16 ? "bf" : "f", p->bits, text);
}

static const char *input(sg_ptx_translator_t *t, const sg_ptx_packed_t *p, uint32_t i, uint32_t h)
{
    return flushed(t, p, element(t, p, i, h));
}

/* What is done to a result: .ftz, .sat, .relu. */
static const char *finished(sg_ptx_translator_t *t, const sg_ptx_packed_t *p, const char *text)
{
    const char *type = sg_ptx_type_text(p->type);
    text = flushed(t, p, text);
    if (sg_ptx_has(t, SG_PTX_KIND_SAT))
        text = sg_ptx_text(t, "sg_sat_%s(%s)", type, text);
    if (sg_ptx_has(t, SG_PTX_KIND_RELU))
        text = sg_ptx_text(t, "sg_relu_%s(%s)", type, text);
    return text;
}

static void put(sg_ptx_translator_t *t, const sg_ptx_packed_t *p, const char *const *half)
{
    const char *text =
        p->halves == 1 ? half[0] : sg_ptx_text(t, "sg_pair%u(%s, %s)", p->bits, half[0], half[1]);
    sg_ptx_result(t, &t->insn->operands[0], p->bits * p->halves, false, text);
}

static const char *rounding(sg_ptx_translator_t *t)
{
    const sg_ptx_modifier_t round = sg_ptx_has(t, SG_PTX_KIND_ROUND);
    return round ? sg_ptx_modifier_text(round) : "rn";
}

/* add, sub, fma of f16 or bf16 into f32: all but the last operand are of the narrow type. */
static void mixed(sg_ptx_translator_t *t)
{
    const char *narrow = sg_ptx_type_text(t->insn->type[1]), *x[3];
    const uint32_t last = t->insn->operand_count - 1u;
    for (uint32_t i = 1; i < last; i++)
        x[i - 1] = sg_ptx_text(t, "sg_f32_of_%s(%s)", narrow, sg_ptx_value(t, i, 16));
    x[last - 1] = sg_ptx_value(t, last, 32);
    const char *d = sg_ptx_text(t, "sg_%s_%s_f32(%s, %s%s%s)", sg_ptx_opcode_text(t->insn->opcode),
                                rounding(t), x[0], x[1], last == 3 ? ", " : "", last == 3 ? x[2] : "");
    sg_ptx_result(t, &t->insn->operands[0], 32, false,
                  sg_ptx_has(t, SG_PTX_KIND_SAT) ? sg_ptx_text(t, "sg_sat_f32(%s)", d) : d);
}

/* add, sub, mul, div, fma, mad, rcp, sqrt: sg_<name>_<rounding>_<type>(operands). */
static void arithmetic(sg_ptx_translator_t *t)
{
    const sg_ptx_packed_t p = packed_of(t->insn->type[0]);
    const char *name = t->insn->opcode == SG_PTX_OP_MAD ? "fma" : sg_ptx_opcode_text(t->insn->opcode),
               *half[2];
    const sg_ptx_modifier_t approx = sg_ptx_has(t, SG_PTX_KIND_APPROX);
    const char *round = approx ? sg_ptx_modifier_text(approx) : rounding(t);
    const uint32_t count = t->insn->operand_count;
    for (uint32_t h = 0; h < p.halves; h++) {
        const char *a = input(t, &p, 1, h);
        const char *b = count > 2 ? sg_ptx_text(t, ", %s", input(t, &p, 2, h)) : "";
        const char *c = count > 3 ? sg_ptx_text(t, ", %s", input(t, &p, 3, h)) : "";
        half[h] = finished(
            t, &p, sg_ptx_text(t, "sg_%s_%s_%s(%s%s%s)", name, round, sg_ptx_type_text(p.type), a, b, c));
    }
    put(t, &p, half);
}

static void abs_or_neg(sg_ptx_translator_t *t)
{
    const sg_ptx_packed_t p = packed_of(t->insn->type[0]);
    const char *half[2];
    for (uint32_t h = 0; h < p.halves; h++)
        half[h] = sg_ptx_text(t, "sg_%s_%s(%s)", sg_ptx_opcode_text(t->insn->opcode),
                              sg_ptx_type_text(p.type), input(t, &p, 1, h));
    put(t, &p, half);
}

static void min_or_max(sg_ptx_translator_t *t)
{
    const sg_ptx_packed_t p = packed_of(t->insn->type[0]);
    const char *type = sg_ptx_type_text(p.type), *half[2];
    const char *function = sg_ptx_text(t, "sg_%s%s_%s", sg_ptx_opcode_text(t->insn->opcode),
                                       sg_ptx_has(t, SG_PTX_KIND_NAN) ? "_nan" : "", type);
    const bool by_sign = sg_ptx_has(t, SG_PTX_KIND_XORSIGN) != 0,
               magnitude = sg_ptx_has(t, SG_PTX_KIND_ABS) != 0;
    for (uint32_t h = 0; h < p.halves; h++) {
        const char *x[3] = {"", "", ""};
        const uint32_t count = t->insn->operand_count - 1u;
        for (uint32_t i = 0; i < count && i < 3; i++) {
            x[i] = input(t, &p, i + 1, h);
            if (magnitude)
                x[i] = sg_ptx_text(t, "sg_abs_%s(%s)", type, x[i]);
        }
        half[h] = sg_ptx_text(t, "%s(%s, %s)", function, x[0], x[1]);
        if (count > 2)
            half[h] = sg_ptx_text(t, "%s(%s, %s)", function, half[h], x[2]);
        half[h] = flushed(t, &p, half[h]);
        if (by_sign)
            half[h] = sg_ptx_text(t, "sg_xorsign%s(%s, %s, %s)", p.bits == 16 ? "16" : "", half[h],
                                  input(t, &p, 1, h), input(t, &p, 2, h));
    }
    put(t, &p, half);
}

static void testp(sg_ptx_translator_t *t)
{
    const sg_ptx_packed_t p = packed_of(t->insn->type[0]);
    sg_ptx_result_mask(t, &t->insn->operands[0],
                       sg_ptx_text(t, "sg_testp_%s_f%u(%s)",
                                   sg_ptx_modifier_text(sg_ptx_has(t, SG_PTX_KIND_TEST)), p.bits,
                                   element(t, &p, 1, 0)));
}

static void copysign_(sg_ptx_translator_t *t)
{
    const sg_ptx_packed_t p = packed_of(t->insn->type[0]);
    const char *half[2] = {
        sg_ptx_text(t, "sg_copysign_f%u(%s, %s)", p.bits, element(t, &p, 1, 0), element(t, &p, 2, 0))};
    put(t, &p, half);
}

sg_ptx_emit_t sg_ptx_emit_float(const sg_ptx_insn_t *insn)
{
    const sg_ptx_packed_t p = packed_of(insn->type[0]);
    if (!sg_ptx_is_float(p.type))
        return NULL;
    switch (insn->opcode) {
    case SG_PTX_OP_ADD:
    case SG_PTX_OP_SUB:
    case SG_PTX_OP_FMA:
        return insn->type_count > 1 ? mixed : arithmetic;
    case SG_PTX_OP_MUL:
    case SG_PTX_OP_MAD:
    case SG_PTX_OP_RCP:
    case SG_PTX_OP_SQRT:
    case SG_PTX_OP_RSQRT:
    case SG_PTX_OP_SIN:
    case SG_PTX_OP_COS:
    case SG_PTX_OP_LG2:
    case SG_PTX_OP_DIV:
    case SG_PTX_OP_EX2:
    case SG_PTX_OP_TANH:
        return arithmetic;
    case SG_PTX_OP_ABS:
    case SG_PTX_OP_NEG:
        return abs_or_neg;
    case SG_PTX_OP_MIN:
    case SG_PTX_OP_MAX:
        return min_or_max;
    case SG_PTX_OP_TESTP:
        return testp;
    case SG_PTX_OP_COPYSIGN:
        return copysign_;
    default:
        return NULL;
    }
}

/* ---- conversions ---- */
static bool is_integer(sg_ptx_type_t type)
{
    const char class = sg_ptx_type_class(type);
    return class == 'S' || class == 'U';
}

static const char *source(sg_ptx_translator_t *t)
{
    return sg_ptx_value(t, 1, sg_ptx_width(t->insn->type[1]));
}

static void put_as(sg_ptx_translator_t *t, sg_ptx_type_t type, const char *text)
{
    sg_ptx_result(t, &t->insn->operands[0], sg_ptx_width(type), sg_ptx_is_signed(type), text);
}

/* Of 64 bits, and within the type's range if it is wider. */
static void put_narrowed(sg_ptx_translator_t *t, sg_ptx_type_t to, const char *text)
{
    const uint32_t width = sg_ptx_width(to);
    if (width < 64)
        text = sg_ptx_text(t, "sg_u%u_of_u64(%s)", width, text);
    if (sg_ptx_type_bits(to) == 8)
        text = sg_ptx_text(t, "sg_%c8_to_16(%s)", sg_ptx_sign_letter(to), text);
    put_as(t, to, text);
}

static void int_to_int(sg_ptx_translator_t *t)
{
    const sg_ptx_type_t to = t->insn->type[0], from = t->insn->type[1];
    if (sg_ptx_has(t, SG_PTX_KIND_SAT)) {
        put_narrowed(t, to,
                     sg_ptx_text(t, "sg_sat_%s_%c64(%s)", sg_ptx_type_text(to), sg_ptx_sign_letter(from),
                                 sg_ptx_extend(t, source(t), from, 64)));
        return;
    }
    const char *text = sg_ptx_extend(t, source(t), from, sg_ptx_width(to));
    if (sg_ptx_type_bits(to) == 8)
        text = sg_ptx_text(t, "sg_%c8_to_16(%s)", sg_ptx_sign_letter(to), text);
    put_as(t, to, text);
}

/* A float as f32 or f64, exactly; .ftz holds for f32. */
static const char *widened(sg_ptx_translator_t *t, sg_ptx_type_t from, const char *text)
{
    if (from == SG_PTX_F16 || from == SG_PTX_BF16)
        return sg_ptx_text(t, "sg_f32_of_%s(%s)", sg_ptx_type_text(from), text);
    return from == SG_PTX_F32 && sg_ptx_has(t, SG_PTX_KIND_FTZ) ? sg_ptx_text(t, "sg_ftz_f32(%s)", text)
                                                                : text;
}

static void float_to_int(sg_ptx_translator_t *t)
{
    const sg_ptx_type_t to = t->insn->type[0], from = t->insn->type[1];
    const char *type = from == SG_PTX_F64 ? "f64" : "f32", sign = sg_ptx_sign_letter(to);
    const uint32_t bits = sg_ptx_type_bits(to);
    sg_ptx_line(t, "{");
    sg_ptx_line(t, "const sg_v%s x = %s;", type + 1, widened(t, from, source(t)));
    const char *d = sg_ptx_text(t, "sg_sat_%s_%c64(sg_%c64_of_%s_%s(x))", sg_ptx_type_text(to), sign, sign,
                                type, rounding(t));
    if (from == SG_PTX_F64 || bits == 64)
        d = sg_ptx_text(t, "sg_set64(sg_nan_%s(x, x), sg_all64(UINT64_C(1) << %u), %s)", type, bits - 1, d);
    put_narrowed(t, to, d);
    sg_ptx_line(t, "}");
}

static const char *saturated(sg_ptx_translator_t *t, sg_ptx_type_t type, const char *text)
{
    return sg_ptx_has(t, SG_PTX_KIND_SAT) ? sg_ptx_text(t, "sg_sat_%s(%s)", sg_ptx_type_text(type), text)
                                          : text;
}

static void int_to_float(sg_ptx_translator_t *t)
{
    const sg_ptx_type_t to = t->insn->type[0], from = t->insn->type[1];
    const char *round = rounding(t), *type = sg_ptx_type_text(to), sign = sg_ptx_sign_letter(from), *d;
    if (to == SG_PTX_F16 || to == SG_PTX_BF16)
        d = sg_ptx_text(t, "sg_%s_of_f64_%s(sg_odd_f64_of_%c64(%s))", type, round, sign,
                        sg_ptx_extend(t, source(t), from, 64));
    else if (sg_ptx_type_bits(from) <= 32 && !strcmp(round, "rn"))
        d = sg_ptx_text(t, "sg_%s_of_%c32_rn(%s)", type, sign, sg_ptx_extend(t, source(t), from, 32));
    else
        d = sg_ptx_text(t, "sg_%s_of_%c64_%s(%s)", type, sign, round, sg_ptx_extend(t, source(t), from, 64));
    put_as(t, to, saturated(t, to, d));
}

/* To an integer in the same type. */
static const char *to_whole(sg_ptx_translator_t *t, sg_ptx_type_t type, const char *text)
{
    const char *round = rounding(t);
    if (type == SG_PTX_F32 || type == SG_PTX_F64)
        return sg_ptx_text(t, "sg_%s_%s(%s)", round, sg_ptx_type_text(type), text);
    return sg_ptx_text(t, "sg_%s_of_f32_rn(sg_%s_f32(sg_f32_of_%s(%s)))", sg_ptx_type_text(type), round,
                       sg_ptx_type_text(type), text);
}

static const char *float_narrowed(sg_ptx_translator_t *t, sg_ptx_type_t to, const char *round,
                                  const char *f32)
{
    const char *d = to == SG_PTX_F16 ? sg_ptx_text(t, "sg_canonical_f16(sg_f16_of_f32_%s(%s))", round, f32)
                                     : sg_ptx_text(t, "sg_bf16_of_f32_%s(%s)", round, f32);
    if (sg_ptx_has(t, SG_PTX_KIND_SATFINITE))
        d = sg_ptx_text(t, "sg_finite16(%s, %s)", d, to == SG_PTX_F16 ? "0x7c00" : "0x7f80");
    if (sg_ptx_has(t, SG_PTX_KIND_RELU))
        d = sg_ptx_text(t, "sg_relu_%s(%s)", sg_ptx_type_text(to), d);
    return d;
}

static void float_to_float(sg_ptx_translator_t *t)
{
    const sg_ptx_type_t to = t->insn->type[0], from = t->insn->type[1];
    const char *x = source(t), *round = rounding(t), *d;
    const bool narrow = to == SG_PTX_F16 || to == SG_PTX_BF16;
    if (to == from) {
        const char *flat =
            to == SG_PTX_F32 && sg_ptx_has(t, SG_PTX_KIND_FTZ) ? sg_ptx_text(t, "sg_ftz_f32(%s)", x) : x;
        d = sg_ptx_has(t, SG_PTX_KIND_ROUND) ? to_whole(t, to, flat) : flat;
    } else if (narrow && from == SG_PTX_F64) {
        d = sg_ptx_text(t, "sg_%s_of_f64_%s(%s)", sg_ptx_type_text(to), round, x);
    } else if (narrow) {
        d = float_narrowed(t, to, round, widened(t, from, x));
    } else if (to == SG_PTX_F32) {
        d = from == SG_PTX_F64 ? sg_ptx_text(t, "sg_f32_of_f64_%s(%s)", round, x) : widened(t, from, x);
        if (sg_ptx_has(t, SG_PTX_KIND_FTZ))
            d = sg_ptx_text(t, "sg_ftz_f32(%s)", d);
    } else {
        d = sg_ptx_text(t, "sg_f64_of_f32(%s)", widened(t, from, x));
    }
    put_as(t, to, saturated(t, to, d));
}

/* d = {a: high, b: low} */
static void pair(sg_ptx_translator_t *t)
{
    const sg_ptx_type_t to = t->insn->type[0] == SG_PTX_F16X2 ? SG_PTX_F16 : SG_PTX_BF16;
    const char *round = rounding(t);
    sg_ptx_result(t, &t->insn->operands[0], 32, false,
                  sg_ptx_text(t, "sg_pair16(%s, %s)", float_narrowed(t, to, round, sg_ptx_value(t, 2, 32)),
                              float_narrowed(t, to, round, sg_ptx_value(t, 1, 32))));
}

static const char *relu(sg_ptx_translator_t *t, const char *f32)
{
    return sg_ptx_has(t, SG_PTX_KIND_RELU) ? sg_ptx_text(t, "sg_relu_f32(%s)", f32) : f32;
}

static void to_tf32(sg_ptx_translator_t *t)
{
    const char *d = relu(t, sg_ptx_text(t, "sg_tf32_of_f32_%s(%s)", rounding(t), sg_ptx_value(t, 1, 32)));
    if (sg_ptx_has(t, SG_PTX_KIND_SATFINITE))
        d = sg_ptx_text(t,
                        "sg_set32(sg_testp_infinite_f32(%s), sg_or_b32(sg_and_b32(%s, "
                        "sg_all32(0x80000000u)), sg_all32(0x7f7fe000u)), %s)",
                        d, d, d);
    sg_ptx_result(t, &t->insn->operands[0], 32, false, d);
}

static void to_eight(sg_ptx_translator_t *t)
{
    const char *type = sg_ptx_type_text(t->insn->type[0]);
    if (t->insn->type[1] == SG_PTX_F32) {
        sg_ptx_result(t, &t->insn->operands[0], 16, false,
                      sg_ptx_text(t, "sg_%s_of_f32(%s, %s)", type, relu(t, sg_ptx_value(t, 1, 32)),
                                  relu(t, sg_ptx_value(t, 2, 32))));
        return;
    }
    const char *from = t->insn->type[1] == SG_PTX_F16X2 ? "f16" : "bf16", *x = sg_ptx_value(t, 1, 32);
    const char *low = relu(t, sg_ptx_text(t, "sg_f32_of_%s(sg_u16_of_u32(%s))", from, x));
    const char *high = relu(t, sg_ptx_text(t, "sg_f32_of_%s(sg_high16(%s))", from, x));
    sg_ptx_result(t, &t->insn->operands[0], 16, false,
                  sg_ptx_text(t, "sg_%s_of_f32(%s, %s)", type, high, low));
}

static void of_eight(sg_ptx_translator_t *t)
{
    const char *d =
        sg_ptx_text(t, "sg_f16x2_of_%s(%s)", sg_ptx_type_text(t->insn->type[1]), sg_ptx_value(t, 1, 16));
    if (sg_ptx_has(t, SG_PTX_KIND_RELU))
        d = sg_ptx_text(t, "sg_pair16(sg_relu_f16(sg_u16_of_u32(%s)), sg_relu_f16(sg_high16(%s)))", d, d);
    sg_ptx_result(t, &t->insn->operands[0], 32, false, d);
}

/* a, b, and of 8 bits c: the pair goes below the half of c. */
static void cvt_pack(sg_ptx_translator_t *t)
{
    const sg_ptx_type_t to = t->insn->type[0];
    const char *c = sg_ptx_type_bits(to) == 8 ? sg_ptx_text(t, ", %s", sg_ptx_value(t, 3, 32)) : "";
    sg_ptx_result(t, &t->insn->operands[0], 32, false,
                  sg_ptx_text(t, "sg_pack_sat_%s(%s, %s%s)", sg_ptx_type_text(to), sg_ptx_value(t, 1, 32),
                              sg_ptx_value(t, 2, 32), c));
}

sg_ptx_emit_t sg_ptx_emit_convert(const sg_ptx_insn_t *insn)
{
    const sg_ptx_type_t to = insn->type[0], from = insn->type[1];
    if (insn->opcode == SG_PTX_OP_CVT_PACK)
        return cvt_pack;
    if (insn->opcode != SG_PTX_OP_CVT)
        return NULL;
    if (is_integer(to) && is_integer(from))
        return int_to_int;
    if (is_integer(to) && sg_ptx_is_float(from))
        return float_to_int;
    if (sg_ptx_is_float(to) && is_integer(from))
        return int_to_float;
    if (sg_ptx_is_float(to) && sg_ptx_is_float(from))
        return float_to_float;
    if (to == SG_PTX_F16X2 && from != SG_PTX_F32)
        return of_eight;
    if (to == SG_PTX_F16X2 || to == SG_PTX_BF16X2)
        return pair;
    return to == SG_PTX_TF32 ? to_tf32 : to_eight;
}
