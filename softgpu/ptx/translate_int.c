/* translate_int.c: integers, bits, comparisons, selection, moves. */
#include <string.h>

#include "softgpu/ptx/translator.h"

static sg_ptx_type_t type_of(const sg_ptx_translator_t *t)
{
    return t->insn->type[0];
}

static uint32_t bits_of(const sg_ptx_translator_t *t)
{
    return sg_ptx_type_bits(type_of(t));
}

static const char *value(sg_ptx_translator_t *t, uint32_t i)
{
    return sg_ptx_value(t, i, bits_of(t));
}

static void put(sg_ptx_translator_t *t, const char *text)
{
    sg_ptx_result(t, &t->insn->operands[0], bits_of(t), sg_ptx_is_signed(type_of(t)), text);
}

static bool is_pair(sg_ptx_type_t type)
{
    return type == SG_PTX_S16X2 || type == SG_PTX_U16X2;
}

/* ---- of two operands ---- */
/* In halves of 16 bits. */
static const char *paired(sg_ptx_translator_t *t, const char *function, const char *a, const char *b)
{
    return sg_ptx_text(
        t, "sg_pair16(%s(sg_u16_of_u32(%s), sg_u16_of_u32(%s)), %s(sg_high16(%s), sg_high16(%s)))", function,
        a, b, function, a, b);
}

/* The sum or difference, with the carry that the condition code has if `with`; `out`: it gets the new one. */
static void put_carried(sg_ptx_translator_t *t, const char *name, const char *a, const char *b, bool with,
                        bool out)
{
    const uint32_t bits = bits_of(t);
    sg_ptx_line(t, "{");
    sg_ptx_line(t, "const sg_v%u x = %s, y = %s;", bits, a, b);
    sg_ptx_line(t, "const uint32_t in = %s;", with ? "cc" : "0");
    if (out)
        sg_ptx_line(t, "cc = sg_set1(%s, sg_carry_%s_b%u(x, y, in), cc);", t->mask, name, bits);
    put(t, sg_ptx_text(t, "sg_%s_b%u(sg_%s_b%u(x, y), sg_bit_b%u(in))", name, bits, name, bits, bits));
    sg_ptx_line(t, "}");
}

static void add_or_sub(sg_ptx_translator_t *t)
{
    const uint16_t op = t->insn->opcode;
    const char *name = op == SG_PTX_OP_ADD || op == SG_PTX_OP_ADDC ? "add" : "sub";
    const bool with = op == SG_PTX_OP_ADDC || op == SG_PTX_OP_SUBC,
               out = sg_ptx_has(t, SG_PTX_KIND_CARRY) != 0;
    const char *a = value(t, 1), *b = value(t, 2);
    if (with || out)
        put_carried(t, name, a, b, with, out);
    else if (is_pair(type_of(t)))
        put(t, paired(t, sg_ptx_text(t, "sg_%s_b16", name), a, b));
    else if (sg_ptx_has(t, SG_PTX_KIND_SAT))
        put(t, sg_ptx_text(t, "sg_%s_sat_s32(%s, %s)", name, a, b));
    else
        put(t, sg_ptx_text(t, "sg_%s_b%u(%s, %s)", name, bits_of(t), a, b));
}

static const char *product(sg_ptx_translator_t *t)
{
    const char *a = value(t, 1), *b = value(t, 2);
    const char sign = sg_ptx_sign_letter(type_of(t));
    switch (sg_ptx_has(t, SG_PTX_KIND_WIDTH)) {
    case SG_PTX_WIDTH_LO:
        return sg_ptx_text(t, "sg_mul_lo_b%u(%s, %s)", bits_of(t), a, b);
    case SG_PTX_WIDTH_HI:
        return sg_ptx_text(t, "sg_mul_hi_%c%u(%s, %s)", sign, bits_of(t), a, b);
    default:
        return sg_ptx_text(t, "sg_mul_wide_%c%u(%s, %s)", sign, bits_of(t), a, b);
    }
}

static void mul(sg_ptx_translator_t *t)
{
    const uint32_t bits = bits_of(t) * (sg_ptx_has(t, SG_PTX_KIND_WIDTH) == SG_PTX_WIDTH_WIDE ? 2 : 1);
    sg_ptx_result(t, &t->insn->operands[0], bits, sg_ptx_is_signed(type_of(t)), product(t));
}

static void mad(sg_ptx_translator_t *t)
{
    const uint32_t bits = bits_of(t) * (sg_ptx_has(t, SG_PTX_KIND_WIDTH) == SG_PTX_WIDTH_WIDE ? 2 : 1);
    const bool with = t->insn->opcode == SG_PTX_OP_MADC, out = sg_ptx_has(t, SG_PTX_KIND_CARRY) != 0;
    const char *c = sg_ptx_value(t, 3, bits);
    if (with || out)
        put_carried(t, "add", product(t), c, with, out);
    else
        sg_ptx_result(
            t, &t->insn->operands[0], bits, sg_ptx_is_signed(type_of(t)),
            sg_ptx_text(t, sg_ptx_has(t, SG_PTX_KIND_SAT) ? "sg_add_sat_s%u(%s, %s)" : "sg_add_b%u(%s, %s)",
                        bits, product(t), c));
}

static const char *product24(sg_ptx_translator_t *t)
{
    return sg_ptx_text(t, "sg_mul24_%s_%c32(%s, %s)",
                       sg_ptx_has(t, SG_PTX_KIND_WIDTH) == SG_PTX_WIDTH_LO ? "lo" : "hi",
                       sg_ptx_sign_letter(type_of(t)), value(t, 1), value(t, 2));
}

static void mul24(sg_ptx_translator_t *t)
{
    put(t, product24(t));
}

static void mad24(sg_ptx_translator_t *t)
{
    put(t, sg_ptx_text(t, sg_ptx_has(t, SG_PTX_KIND_SAT) ? "sg_add_sat_s32(%s, %s)" : "sg_add_b32(%s, %s)",
                       product24(t), value(t, 3)));
}

static const char *lower_opcode(const sg_ptx_translator_t *t)
{
    return sg_ptx_opcode_text(t->insn->opcode);
}

/* div, rem: d, a, b by the type's sign. */
static void by_sign(sg_ptx_translator_t *t)
{
    put(t, sg_ptx_text(t, "sg_%s_%c%u(%s, %s)", lower_opcode(t), sg_ptx_sign_letter(type_of(t)), bits_of(t),
                       value(t, 1), value(t, 2)));
}

static void sad(sg_ptx_translator_t *t)
{
    put(t, sg_ptx_text(t, "sg_sad_%c%u(%s, %s, %s)", sg_ptx_sign_letter(type_of(t)), bits_of(t), value(t, 1),
                       value(t, 2), value(t, 3)));
}

static void min_or_max(sg_ptx_translator_t *t)
{
    const bool pair = is_pair(type_of(t));
    const bool is_signed = sg_ptx_is_signed(type_of(t)) || type_of(t) == SG_PTX_S16X2;
    const uint32_t bits = pair ? 16 : bits_of(t);
    const char *function = sg_ptx_text(t, "sg_%s_%c%u", lower_opcode(t), is_signed ? 's' : 'u', bits);
    const char *a = value(t, 1), *b = value(t, 2);
    const bool relu = sg_ptx_has(t, SG_PTX_KIND_RELU) != 0;
    const char *d = pair ? paired(t, function, a, b) : sg_ptx_text(t, "%s(%s, %s)", function, a, b);
    if (relu)
        d = pair ? paired(t, "sg_max_s16", d, "sg_all32(0)")
                 : sg_ptx_text(t, "sg_max_s32(%s, sg_all32(0))", d);
    put(t, d);
}

static void abs_or_neg(sg_ptx_translator_t *t)
{
    put(t, sg_ptx_text(t, "sg_%s_s%u(%s)", lower_opcode(t), bits_of(t), value(t, 1)));
}

/* ---- bits ---- */
/* popc, clz: 32 bits of any. */
static void count(sg_ptx_translator_t *t)
{
    sg_ptx_result(t, &t->insn->operands[0], 32, false,
                  sg_ptx_text(t, "sg_%s_b%u(%s)", lower_opcode(t), bits_of(t), value(t, 1)));
}

static void bfind(sg_ptx_translator_t *t)
{
    sg_ptx_result(t, &t->insn->operands[0], 32, false,
                  sg_ptx_text(t, "sg_bfind_%s%c%u(%s)",
                              sg_ptx_has(t, SG_PTX_KIND_SHIFTAMT) ? "shiftamt_" : "",
                              sg_ptx_sign_letter(type_of(t)), bits_of(t), value(t, 1)));
}

static void brev(sg_ptx_translator_t *t)
{
    put(t, sg_ptx_text(t, "sg_brev_b%u(%s)", bits_of(t), value(t, 1)));
}

static void bfe(sg_ptx_translator_t *t)
{
    put(t, sg_ptx_text(t, "sg_bfe_%c%u(%s, %s, %s)", sg_ptx_sign_letter(type_of(t)), bits_of(t), value(t, 1),
                       sg_ptx_value(t, 2, 32), sg_ptx_value(t, 3, 32)));
}

static void bfi(sg_ptx_translator_t *t)
{
    put(t, sg_ptx_text(t, "sg_bfi_b%u(%s, %s, %s, %s)", bits_of(t), value(t, 1), value(t, 2),
                       sg_ptx_value(t, 3, 32), sg_ptx_value(t, 4, 32)));
}

static const char *beyond(const sg_ptx_translator_t *t)
{
    return sg_ptx_has(t, SG_PTX_KIND_BEYOND) == SG_PTX_CLAMP ? "clamp" : "wrap";
}

static void bmsk(sg_ptx_translator_t *t)
{
    put(t, sg_ptx_text(t, "sg_bmsk_%s(%s, %s)", beyond(t), value(t, 1), value(t, 2)));
}

static void szext(sg_ptx_translator_t *t)
{
    put(t, sg_ptx_text(t, "sg_szext_%s_%c32(%s, %s)", beyond(t), sg_ptx_sign_letter(type_of(t)), value(t, 1),
                       value(t, 2)));
}

static void fns(sg_ptx_translator_t *t)
{
    put(t, sg_ptx_text(t, "sg_fns(%s, %s, %s)", value(t, 1), value(t, 2), value(t, 3)));
}

static void dot(sg_ptx_translator_t *t)
{
    const char *half = t->insn->opcode == SG_PTX_OP_DP4A                     ? "dp4a"
                       : sg_ptx_has(t, SG_PTX_KIND_WIDTH) == SG_PTX_WIDTH_LO ? "dp2a_lo"
                                                                             : "dp2a_hi";
    put(t, sg_ptx_text(t, "sg_%s_%s_%s(%s, %s, %s)", half, sg_ptx_type_text(t->insn->type[0]),
                       sg_ptx_type_text(t->insn->type[1]), value(t, 1), value(t, 2), value(t, 3)));
}

static void logic(sg_ptx_translator_t *t)
{
    const char *a = value(t, 1), *b = value(t, 2);
    if (type_of(t) != SG_PTX_PRED) {
        put(t, sg_ptx_text(t, "sg_%s_b%u(%s, %s)", lower_opcode(t), bits_of(t), a, b));
        return;
    }
    const char mark = t->insn->opcode == SG_PTX_OP_AND ? '&' : t->insn->opcode == SG_PTX_OP_OR ? '|' : '^';
    sg_ptx_result_mask(t, &t->insn->operands[0], sg_ptx_text(t, "%s %c %s", a, mark, b));
}

static void not_or_cnot(sg_ptx_translator_t *t)
{
    if (type_of(t) == SG_PTX_PRED)
        sg_ptx_result_mask(t, &t->insn->operands[0], sg_ptx_text(t, "~%s", value(t, 1)));
    else
        put(t, sg_ptx_text(t, "sg_%s_b%u(%s)", lower_opcode(t), bits_of(t), value(t, 1)));
}

/* d, a, b, c, table; or d|p, a, b, c, table, q */
static void lop3(sg_ptx_translator_t *t)
{
    const bool with = sg_ptx_has(t, SG_PTX_KIND_BOOL) != 0;
    const uint32_t at = with ? 2 : 1;
    sg_ptx_line(t, "{");
    sg_ptx_line(t, "const sg_v32 x = sg_lop3(%s, %s, %s, %uu);", value(t, at), value(t, at + 1),
                value(t, at + 2), (unsigned)(t->insn->operands[at + 3].bits & 255));
    if (with)
        sg_ptx_line(t, "const uint32_t q = %s;", sg_ptx_mask_of(t, at + 4));
    put(t, "x");
    if (with)
        sg_ptx_result_mask(t, &t->insn->operands[1],
                           sg_ptx_text(t, "sg_ne_u32(x, sg_all32(0)) %c q",
                                       sg_ptx_has(t, SG_PTX_KIND_BOOL) == SG_PTX_BOOL_AND ? '&' : '|'));
    sg_ptx_line(t, "}");
}

static void shift(sg_ptx_translator_t *t)
{
    const char *name = t->insn->opcode == SG_PTX_OP_SHL ? "shl"
                       : sg_ptx_is_signed(type_of(t))   ? "shr_s"
                                                        : "shr_u";
    put(t, sg_ptx_text(t, "sg_%s%u(%s, %s)", name, bits_of(t), value(t, 1), sg_ptx_value(t, 2, 32)));
}

static void shf(sg_ptx_translator_t *t)
{
    put(t, sg_ptx_text(t, "sg_shf_%s_%s(%s, %s, %s)",
                       sg_ptx_has(t, SG_PTX_KIND_DIRECTION) == SG_PTX_LEFT ? "l" : "r", beyond(t),
                       value(t, 1), value(t, 2), value(t, 3)));
}

static void prmt(sg_ptx_translator_t *t)
{
    const sg_ptx_modifier_t mode = sg_ptx_has(t, SG_PTX_KIND_PERMUTE);
    put(t, sg_ptx_text(t, "sg_prmt%s%s(%s, %s, %s)", mode ? "_" : "", mode ? sg_ptx_modifier_text(mode) : "",
                       value(t, 1), value(t, 2), value(t, 3)));
}

/* ---- comparisons ---- */
/* a and b as masks of lanes, by names of functions of one element. */
static const char *compared(sg_ptx_translator_t *t, sg_ptx_type_t type, const char *a, const char *b)
{
    const sg_ptx_modifier_t how = sg_ptx_has(t, SG_PTX_KIND_COMPARE);
    const bool is_float = sg_ptx_is_float(type);
    const bool is_unsigned =
        how == SG_PTX_CMP_LO || how == SG_PTX_CMP_LS || how == SG_PTX_CMP_HI || how == SG_PTX_CMP_HS;
    const char *suffix = is_float ? sg_ptx_type_text(type)
                                  : sg_ptx_text(t, "%c%u", is_unsigned ? 'u' : sg_ptx_sign_letter(type),
                                                sg_ptx_type_bits(type));
    const char *nan = is_float ? sg_ptx_text(t, "sg_nan_%s(%s, %s)", suffix, a, b) : NULL;
    switch (how) {
    case SG_PTX_CMP_EQ:
        return sg_ptx_text(t, "sg_eq_%s(%s, %s)", suffix, a, b);
    case SG_PTX_CMP_NE:
        return is_float ? sg_ptx_text(t, "(sg_ne_%s(%s, %s) & ~%s)", suffix, a, b, nan)
                        : sg_ptx_text(t, "sg_ne_%s(%s, %s)", suffix, a, b);
    case SG_PTX_CMP_LT:
    case SG_PTX_CMP_LO:
        return sg_ptx_text(t, "sg_lt_%s(%s, %s)", suffix, a, b);
    case SG_PTX_CMP_LE:
    case SG_PTX_CMP_LS:
        return sg_ptx_text(t, "sg_le_%s(%s, %s)", suffix, a, b);
    case SG_PTX_CMP_GT:
    case SG_PTX_CMP_HI:
        return sg_ptx_text(t, "sg_lt_%s(%s, %s)", suffix, b, a);
    case SG_PTX_CMP_GE:
    case SG_PTX_CMP_HS:
        return sg_ptx_text(t, "sg_le_%s(%s, %s)", suffix, b, a);
    case SG_PTX_CMP_EQU:
        return sg_ptx_text(t, "(sg_eq_%s(%s, %s) | %s)", suffix, a, b, nan);
    case SG_PTX_CMP_NEU:
        return sg_ptx_text(t, "sg_ne_%s(%s, %s)", suffix, a, b);
    case SG_PTX_CMP_LTU:
        return sg_ptx_text(t, "~sg_le_%s(%s, %s)", suffix, b, a);
    case SG_PTX_CMP_LEU:
        return sg_ptx_text(t, "~sg_lt_%s(%s, %s)", suffix, b, a);
    case SG_PTX_CMP_GTU:
        return sg_ptx_text(t, "~sg_le_%s(%s, %s)", suffix, a, b);
    case SG_PTX_CMP_GEU:
        return sg_ptx_text(t, "~sg_lt_%s(%s, %s)", suffix, a, b);
    case SG_PTX_CMP_NUM:
        return sg_ptx_text(t, "~%s", nan);
    case SG_PTX_CMP_NAN:
        return nan;
    default:
        sg_ptx_refuse(t, "this comparison");
    }
}

static const char *flushed(sg_ptx_translator_t *t, sg_ptx_type_t type, const char *text)
{
    return sg_ptx_has(t, SG_PTX_KIND_FTZ)
               ? sg_ptx_text(t, "sg_ftz_%s(%s)", type == SG_PTX_F32 ? "f32" : "f16", text)
               : text;
}

/* `x` joined with the predicate operand, if there is a bool modifier. */
static const char *joined(sg_ptx_translator_t *t, const char *x, const char *with)
{
    switch (sg_ptx_has(t, SG_PTX_KIND_BOOL)) {
    case SG_PTX_BOOL_AND:
        return sg_ptx_text(t, "(%s) & %s", x, with);
    case SG_PTX_BOOL_OR:
        return sg_ptx_text(t, "(%s) | %s", x, with);
    case SG_PTX_BOOL_XOR:
        return sg_ptx_text(t, "(%s) ^ %s", x, with);
    default:
        return x;
    }
}

/* p|q, a, b, c; of halves alone p, a, b, c */
static void setp(sg_ptx_translator_t *t)
{
    const sg_ptx_type_t type = type_of(t);
    const uint32_t at = t->form->slots[1].second ? 2 : 1;
    const bool pair = type == SG_PTX_F16X2 || type == SG_PTX_BF16X2;
    const char *a = value(t, at), *b = value(t, at + 1);
    sg_ptx_line(t, "{");
    if (pair) {
        const sg_ptx_type_t one = type == SG_PTX_F16X2 ? SG_PTX_F16 : SG_PTX_BF16;
        sg_ptx_line(t, "const uint32_t p = %s;",
                    compared(t, one, flushed(t, one, sg_ptx_text(t, "sg_u16_of_u32(%s)", a)),
                             flushed(t, one, sg_ptx_text(t, "sg_u16_of_u32(%s)", b))));
        sg_ptx_line(t, "const uint32_t q = %s;",
                    compared(t, one, flushed(t, one, sg_ptx_text(t, "sg_high16(%s)", a)),
                             flushed(t, one, sg_ptx_text(t, "sg_high16(%s)", b))));
    } else {
        sg_ptx_line(t, "const uint32_t p = %s, q = ~p;",
                    compared(t, type, flushed(t, type, a), flushed(t, type, b)));
    }
    const bool with = sg_ptx_has(t, SG_PTX_KIND_BOOL) != 0;
    sg_ptx_line(t, "const uint32_t c = %s; (void)q; (void)c;", with ? sg_ptx_mask_of(t, at + 2) : "0");
    sg_ptx_result_mask(t, &t->insn->operands[0], joined(t, "p", "c"));
    if (at == 2)
        sg_ptx_result_mask(t, &t->insn->operands[1], joined(t, "q", "c"));
    sg_ptx_line(t, "}");
}

/* What a comparison gives that holds, in a type: 1.0, or all ones. */
static const char *truth(sg_ptx_type_t type)
{
    switch (type) {
    case SG_PTX_F32:
        return "sg_all32(0x3f800000)";
    case SG_PTX_F16:
    case SG_PTX_F16X2:
        return "sg_all16(0x3c00)";
    case SG_PTX_BF16:
    case SG_PTX_BF16X2:
        return "sg_all16(0x3f80)";
    default:
        return sg_ptx_type_bits(type) == 16 ? "sg_all16(0xffff)" : "sg_all32(SG_ALL)";
    }
}

static void set(sg_ptx_translator_t *t)
{
    const sg_ptx_type_t type = t->insn->type[1], to = type_of(t);
    const uint32_t bits = sg_ptx_type_bits(type);
    const char *a = sg_ptx_value(t, 1, bits), *b = sg_ptx_value(t, 2, bits);
    const char *c = sg_ptx_has(t, SG_PTX_KIND_BOOL) ? sg_ptx_mask_of(t, 3) : NULL;
    if (type == SG_PTX_F16X2 || type == SG_PTX_BF16X2) {
        const sg_ptx_type_t one = type == SG_PTX_F16X2 ? SG_PTX_F16 : SG_PTX_BF16;
        const char *yes = to == type ? truth(to) : "sg_all16(0xffff)", *half[2];
        for (int h = 0; h < 2; h++) {
            const char *part = h ? "sg_high16" : "sg_u16_of_u32";
            half[h] = joined(t,
                             compared(t, one, flushed(t, one, sg_ptx_text(t, "%s(%s)", part, a)),
                                      flushed(t, one, sg_ptx_text(t, "%s(%s)", part, b))),
                             c);
        }
        put(t, sg_ptx_text(t, "sg_pair16(sg_set16(%s, %s, sg_all16(0)), sg_set16(%s, %s, sg_all16(0)))",
                           half[0], yes, half[1], yes));
        return;
    }
    const char *p = joined(t, compared(t, type, flushed(t, type, a), flushed(t, type, b)), c);
    put(t, sg_ptx_text(t, "sg_set%u(%s, %s, sg_all%u(0))", sg_ptx_width(to), p, truth(to), sg_ptx_width(to)));
}

static void selp(sg_ptx_translator_t *t)
{
    put(t,
        sg_ptx_text(t, "sg_set%u(%s, %s, %s)", bits_of(t), sg_ptx_mask_of(t, 3), value(t, 1), value(t, 2)));
}

static void slct(sg_ptx_translator_t *t)
{
    const bool is_float = t->insn->type[1] == SG_PTX_F32;
    const char *c = sg_ptx_value(t, 3, 32);
    if (is_float)
        c = flushed(t, SG_PTX_F32, c);
    put(t, sg_ptx_text(t, "sg_set%u(sg_le_%s(sg_all32(0), %s), %s, %s)", bits_of(t), is_float ? "f32" : "s32",
                       c, value(t, 1), value(t, 2)));
}

/* ---- moves ---- */
static void pack(sg_ptx_translator_t *t)
{
    const sg_ptx_operand_t *from = &t->insn->operands[1];
    const uint32_t bits = bits_of(t), part = bits / from->count;
    const char *e[4];
    if (part < 16)
        sg_ptx_refuse(t, "elements of %u bits", part);
    for (uint32_t i = 0; i < from->count && i < 4; i++)
        e[i] = sg_ptx_value_of(t, &from->elements[i], part);
    if (from->count == 2)
        put(t, bits == 128 ? sg_ptx_text(t, "(sg_v128){%s, %s}", e[0], e[1])
                           : sg_ptx_text(t, "sg_pair%u(%s, %s)", part, e[0], e[1]));
    else if (from->count == 4 && bits == 64)
        put(t, sg_ptx_text(t, "sg_pair32(sg_pair16(%s, %s), sg_pair16(%s, %s))", e[0], e[1], e[2], e[3]));
    else if (from->count == 4 && bits == 128)
        put(t, sg_ptx_text(t, "(sg_v128){sg_pair32(%s, %s), sg_pair32(%s, %s)}", e[0], e[1], e[2], e[3]));
    else
        sg_ptx_refuse(t, "%u elements", from->count);
}

static void unpack(sg_ptx_translator_t *t)
{
    const sg_ptx_operand_t *to = &t->insn->operands[0];
    const uint32_t bits = bits_of(t), part = bits / to->count;
    if (part < 16 || to->count > 4)
        sg_ptx_refuse(t, "elements of %u bits", part);
    sg_ptx_line(t, "{");
    sg_ptx_line(t, "const sg_v%u x = %s;", bits, value(t, 1));
    for (uint32_t i = 0; i < to->count; i++) {
        const char *from = "x";
        uint32_t have = bits;
        uint32_t at = i * part;
        for (; have > part; have /= 2) {
            const bool high = at >= have / 2;
            if (have == 128)
                from = sg_ptx_text(t, "x.%s", high ? "high" : "low");
            else
                from = high ? sg_ptx_text(t, "sg_high%u(%s)", have / 2, from)
                            : sg_ptx_text(t, "sg_u%u_of_u%u(%s)", have / 2, have, from);
            at -= high ? have / 2 : 0;
        }
        sg_ptx_result(t, &to->elements[i], part, false, from);
    }
    sg_ptx_line(t, "}");
}

static void mov(sg_ptx_translator_t *t)
{
    if (t->insn->operands[1].kind == SG_PTX_VECTOR)
        pack(t);
    else if (t->insn->operands[0].kind == SG_PTX_VECTOR)
        unpack(t);
    else if (type_of(t) == SG_PTX_PRED)
        sg_ptx_result_mask(t, &t->insn->operands[0], sg_ptx_mask_of(t, 1));
    else
        put(t, value(t, 1));
}

static bool in_shared(const sg_ptx_translator_t *t)
{
    const sg_ptx_modifier_t space = sg_ptx_has(t, SG_PTX_KIND_SPACE);
    return space == SG_PTX_SPACE_SHARED || space == SG_PTX_SPACE_SHARED_CTA ||
           space == SG_PTX_SPACE_SHARED_CLUSTER;
}

/* Addresses in other spaces are generic ones. */
static void cvta(sg_ptx_translator_t *t)
{
    if (bits_of(t) != 64)
        sg_ptx_refuse(t, "generic addresses of 32 bits");
    const char *from = value(t, 1);
    if (in_shared(t))
        from = sg_ptx_has(t, SG_PTX_KIND_TO)
                   ? sg_ptx_text(t, "sg_sub_b64(%s, sg_all64(sg_address(w->shared)))", from)
                   : sg_ptx_text(t, "sg_shared64(w, %s)", from);
    put(t, from);
}

static void isspacep(sg_ptx_translator_t *t)
{
    const char *at = sg_ptx_value(t, 1, 64), *d = NULL;
    const char *shared =
        sg_ptx_text(t, "sg_between(%s, sg_address(w->shared), %llu + (uint64_t)SOFTGPU_DYNAMIC_SHARED_BYTES)",
                    at, (unsigned long long)t->dynamic);
    const char *constant = "0u";
    for (uint32_t i = 0; i < t->global_count; i++)
        if (t->globals[i].variable->space == SG_PTX_SPACE_CONST)
            constant = sg_ptx_text(t, "%s | sg_between(%s, sg_address(&variables.g%u), sizeof variables.g%u)",
                                   constant, at, i, i);
    const char *parameter = sg_ptx_text(t, "sg_between(%s, sg_address(w->params), 4096)", at);
    switch (sg_ptx_has(t, SG_PTX_KIND_SPACE)) {
    case SG_PTX_SPACE_LOCAL:
        d = sg_ptx_text(t, "sg_is_local(w, %s)", at);
        break;
    case SG_PTX_SPACE_CONST:
        d = constant;
        break;
    case SG_PTX_SPACE_PARAM:
    case SG_PTX_SPACE_PARAM_ENTRY:
        d = parameter;
        break;
    case SG_PTX_SPACE_GLOBAL:
        d = sg_ptx_text(t, "~(%s | sg_is_local(w, %s) | %s)", shared, at, constant);
        break;
    default:
        d = shared;
    }
    sg_ptx_result_mask(t, &t->insn->operands[0], d);
}

sg_ptx_emit_t sg_ptx_emit_int(const sg_ptx_insn_t *insn)
{
    const sg_ptx_type_t type = insn->type[0];
    const char class = type ? sg_ptx_type_class(type) : ' ';
    const bool integer = class == 'S' || class == 'U' || is_pair(type);
    switch (insn->opcode) {
    case SG_PTX_OP_ADD:
    case SG_PTX_OP_SUB:
    case SG_PTX_OP_ADDC:
    case SG_PTX_OP_SUBC:
        return integer ? add_or_sub : NULL;
    case SG_PTX_OP_MUL:
        return integer ? mul : NULL;
    case SG_PTX_OP_MAD:
        return integer ? mad : NULL;
    case SG_PTX_OP_MADC:
        return mad;
    case SG_PTX_OP_MUL24:
        return mul24;
    case SG_PTX_OP_MAD24:
        return mad24;
    case SG_PTX_OP_SAD:
        return sad;
    case SG_PTX_OP_DIV:
    case SG_PTX_OP_REM:
        return integer ? by_sign : NULL;
    case SG_PTX_OP_ABS:
    case SG_PTX_OP_NEG:
        return integer ? abs_or_neg : NULL;
    case SG_PTX_OP_MIN:
    case SG_PTX_OP_MAX:
        return integer ? min_or_max : NULL;
    case SG_PTX_OP_POPC:
    case SG_PTX_OP_CLZ:
        return count;
    case SG_PTX_OP_BFIND:
        return bfind;
    case SG_PTX_OP_FNS:
        return fns;
    case SG_PTX_OP_BREV:
        return brev;
    case SG_PTX_OP_BFE:
        return bfe;
    case SG_PTX_OP_BFI:
        return bfi;
    case SG_PTX_OP_BMSK:
        return bmsk;
    case SG_PTX_OP_SZEXT:
        return szext;
    case SG_PTX_OP_DP4A:
    case SG_PTX_OP_DP2A:
        return dot;
    case SG_PTX_OP_AND:
    case SG_PTX_OP_OR:
    case SG_PTX_OP_XOR:
        return logic;
    case SG_PTX_OP_NOT:
    case SG_PTX_OP_CNOT:
        return not_or_cnot;
    case SG_PTX_OP_LOP3:
        return lop3;
    case SG_PTX_OP_SHL:
    case SG_PTX_OP_SHR:
        return shift;
    case SG_PTX_OP_SHF:
        return shf;
    case SG_PTX_OP_PRMT:
        return prmt;
    case SG_PTX_OP_SETP:
        return setp;
    case SG_PTX_OP_SET:
        return set;
    case SG_PTX_OP_SELP:
        return selp;
    case SG_PTX_OP_SLCT:
        return slct;
    case SG_PTX_OP_MOV:
        return mov;
    case SG_PTX_OP_CVTA:
        return cvta;
    case SG_PTX_OP_ISSPACEP:
        return isspacep;
    default:
        return NULL;
    }
}
