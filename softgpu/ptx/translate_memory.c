/* translate_memory.c: loads, stores, atomic operations. */
#include <inttypes.h>
#include <string.h>

#include "softgpu/ptx/translator.h"

static const sg_ptx_operand_t *part(const sg_ptx_operand_t *operand, uint32_t i)
{
    return operand->kind == SG_PTX_VECTOR ? &operand->elements[i] : operand;
}

/* What was loaded, of `bits`, into a register by the type. */
static void put(sg_ptx_translator_t *t, const sg_ptx_operand_t *to, sg_ptx_type_t type, const char *text)
{
    if (type == SG_PTX_S8)
        text = sg_ptx_text(t, "sg_s8_to_16(%s)", text);
    sg_ptx_result(t, to, sg_ptx_width(type), sg_ptx_is_signed(type), text);
}

/* Others may see it while it happens. */
static bool ordered(const sg_ptx_translator_t *t)
{
    const sg_ptx_modifier_t semantics = sg_ptx_has(t, SG_PTX_KIND_SEMANTICS);
    return semantics != SG_PTX_ABSENT && semantics != SG_PTX_SEM_WEAK;
}

/* Whether it is a parameter by its name: of the kernel, of the function, or of a call. */
static bool names_parameter(const sg_ptx_operand_t *address)
{
    return address->variable != NULL && address->variable->space == SG_PTX_SPACE_PARAM;
}

static void load_parameter(sg_ptx_translator_t *t, sg_ptx_type_t type, uint32_t count)
{
    const sg_ptx_operand_t *from = &t->insn->operands[1];
    const uint32_t bits = sg_ptx_type_bits(type), argument = sg_ptx_argument(t->function, from->variable);
    if (bits == 128)
        sg_ptx_refuse(t, "a parameter of 128 bits");
    for (uint32_t i = 0; i < count; i++) {
        const uint64_t offset = (uint64_t)from->offset + i * bits / 8;
        const char *text = t->function->entry && argument != UINT32_MAX
                               ? sg_ptx_text(t, "sg_param%u(w, %" PRIu64 ")", bits,
                                             sg_ptx_param_offset(t->function, argument) + offset)
                               : sg_ptx_text(t, "sg_own_load%u(%s + %" PRIu64 ", %" PRIu64 ")", bits,
                                             sg_ptx_own(t, from->variable), offset, from->variable->bytes);
        put(t, part(&t->insn->operands[0], i), type, text);
    }
}

static void load(sg_ptx_translator_t *t)
{
    const sg_ptx_type_t type = t->insn->type[0];
    const uint32_t bits = sg_ptx_type_bits(type), count = sg_ptx_vector_elements(t->insn);
    const sg_ptx_operand_t *to = &t->insn->operands[0];
    if (names_parameter(&t->insn->operands[1])) {
        load_parameter(t, type, count);
        return;
    }
    const char *at = sg_ptx_address(t, &t->insn->operands[1], sg_ptx_has(t, SG_PTX_KIND_SPACE));
    sg_ptx_line(t, "{");
    sg_ptx_line(t, "const sg_v64 at = %s;", at);
    if (bits == 128) {
        if (count > 1 || ordered(t))
            sg_ptx_refuse(t, "128 bits in this form");
        sg_ptx_line(t, "sg_v64 q[2]; sg_load_vector64(w, %s, at, 2, q);", t->mask);
        sg_ptx_result(t, to, 128, false, "((sg_v128){q[0], q[1]})");
    } else if (ordered(t)) {
        sg_ptx_line(t, "sg_v%u q[%u];", sg_ptx_width(type), count);
        if (count > 1)
            sg_ptx_line(t, "sg_aligned(w, %s, at, %u);", t->mask, count * bits / 8);
        for (uint32_t i = 0; i < count; i++)
            sg_ptx_line(t, "q[%u] = sg_load_atomic%u(w, %s, sg_at(at, %u));", i, bits, t->mask, i * bits / 8);
        for (uint32_t i = 0; i < count; i++)
            put(t, part(to, i), type, sg_ptx_text(t, "q[%u]", i));
    } else if (count > 1) {
        sg_ptx_line(t, "sg_v%u q[%u]; sg_load_vector%u(w, %s, at, %u, q);", sg_ptx_width(type), count, bits,
                    t->mask, count);
        for (uint32_t i = 0; i < count; i++)
            put(t, part(to, i), type, sg_ptx_text(t, "q[%u]", i));
    } else {
        put(t, to, type, sg_ptx_text(t, "sg_load%u(w, %s, at)", bits, t->mask));
    }
    sg_ptx_line(t, "}");
}

static void store_parameter(sg_ptx_translator_t *t, sg_ptx_type_t type, uint32_t count)
{
    const sg_ptx_operand_t *to = &t->insn->operands[0];
    const uint32_t bits = sg_ptx_type_bits(type);
    if (bits == 128 || (t->function->entry && sg_ptx_argument(t->function, to->variable) != UINT32_MAX))
        sg_ptx_refuse(t, "this parameter");
    for (uint32_t i = 0; i < count; i++)
        sg_ptx_line(t, "sg_own_store%u(%s, %s + %" PRIu64 ", %" PRIu64 ", %s);", bits, t->mask,
                    sg_ptx_own(t, to->variable), (uint64_t)to->offset + i * bits / 8, to->variable->bytes,
                    sg_ptx_value_of(t, part(&t->insn->operands[1], i), sg_ptx_width(type)));
}

static void store(sg_ptx_translator_t *t)
{
    const sg_ptx_type_t type = t->insn->type[0];
    const uint32_t bits = sg_ptx_type_bits(type), count = sg_ptx_vector_elements(t->insn);
    const sg_ptx_operand_t *from = &t->insn->operands[1];
    if (names_parameter(&t->insn->operands[0])) {
        store_parameter(t, type, count);
        return;
    }
    const char *at = sg_ptx_address(t, &t->insn->operands[0], sg_ptx_has(t, SG_PTX_KIND_SPACE));
    sg_ptx_line(t, "{");
    sg_ptx_line(t, "const sg_v64 at = %s;", at);
    if (bits == 128) {
        if (count > 1 || ordered(t))
            sg_ptx_refuse(t, "128 bits in this form");
        sg_ptx_line(t, "const sg_v128 x = %s;", sg_ptx_value_of(t, from, 128));
        sg_ptx_line(t, "const sg_v64 q[2] = {x.low, x.high}; sg_store_vector64(w, %s, at, 2, q);", t->mask);
    } else if (count > 1) {
        sg_ptx_line(t, "const sg_v%u q[] = {", sg_ptx_width(type));
        for (uint32_t i = 0; i < count; i++)
            sg_ptx_line(t, "%s,", sg_ptx_value_of(t, part(from, i), sg_ptx_width(type)));
        sg_ptx_line(t, "};");
        if (ordered(t)) {
            sg_ptx_line(t, "sg_aligned(w, %s, at, %u);", t->mask, count * bits / 8);
            for (uint32_t i = 0; i < count; i++)
                sg_ptx_line(t, "sg_store_atomic%u(w, %s, sg_at(at, %u), q[%u]);", bits, t->mask, i * bits / 8,
                            i);
        } else {
            sg_ptx_line(t, "sg_store_vector%u(w, %s, at, %u, q);", bits, t->mask, count);
        }
    } else {
        sg_ptx_line(t, "sg_store%s%u(w, %s, at, %s);", ordered(t) ? "_atomic" : "", bits, t->mask,
                    sg_ptx_value_of(t, from, sg_ptx_width(type)));
    }
    sg_ptx_line(t, "}");
}

static void nothing(sg_ptx_translator_t *t)
{
    sg_ptx_line(t, ";");
}

static void policy(sg_ptx_translator_t *t)
{
    sg_ptx_result(t, &t->insn->operands[0], 64, false, "sg_all64(0)");
}

/* ---- memory taken while the function runs ---- */
bool sg_ptx_has_stack(const sg_ptx_function_t *f)
{
    for (uint32_t i = 0; i < f->insn_count; i++)
        if (f->insns[i].opcode == SG_PTX_OP_ALLOCA || f->insns[i].opcode == SG_PTX_OP_STACKSAVE ||
            f->insns[i].opcode == SG_PTX_OP_STACKRESTORE)
            return true;
    return false;
}

static void need_wide_addresses(sg_ptx_translator_t *t)
{
    if (t->insn->type[0] != SG_PTX_U64)
        sg_ptx_refuse(t, "addresses of 32 bits");
}

static void take_stack(sg_ptx_translator_t *t)
{
    enum { ALIGN = 16 }; /* at least; Clang 19 writes 0 */
    const sg_ptx_operand_t *align = &t->insn->operands[2];
    const uint64_t bytes = align->kind == SG_PTX_IMMEDIATE && align->bits > ALIGN ? align->bits : ALIGN;
    need_wide_addresses(t);
    if (bytes & (bytes - 1) || bytes > 4096)
        sg_ptx_refuse(t, "an alignment of %" PRIu64, bytes);
    sg_ptx_result(t, &t->insn->operands[0], 64, false,
                  sg_ptx_text(t, "SG_ALLOCA(%s, %s, %" PRIu64 ")", t->mask, sg_ptx_value(t, 1, 64), bytes));
}

static void save_stack(sg_ptx_translator_t *t)
{
    need_wide_addresses(t);
    sg_ptx_result(t, &t->insn->operands[0], 64, false, "sg_all64(stack.marks)");
}

static void restore_stack(sg_ptx_translator_t *t)
{
    need_wide_addresses(t);
    sg_ptx_line(t, "sg_stack_restore(&stack, %s, %s);", t->mask, sg_ptx_value(t, 0, 64));
}

/* ---- atomic operations ---- */
/* The name of sg_atom_<name>. */
static const char *atomic_name(sg_ptx_translator_t *t, sg_ptx_type_t type)
{
    const sg_ptx_modifier_t op = sg_ptx_has(t, SG_PTX_KIND_OP);
    const char class = sg_ptx_type_class(type);
    if (class == 'F' || class == 'P') {
        if (op != SG_PTX_DO_ADD)
            sg_ptx_refuse(t, "this operation on floats");
        return sg_ptx_text(t, "add_%s", sg_ptx_type_text(type));
    }
    const bool by_sign = op == SG_PTX_DO_MIN || op == SG_PTX_DO_MAX,
               by_type = op == SG_PTX_DO_INC || op == SG_PTX_DO_DEC;
    return sg_ptx_text(t, "%s_%c%u", sg_ptx_modifier_text(op),
                       by_sign   ? sg_ptx_sign_letter(type)
                       : by_type ? 'u'
                                 : 'b',
                       sg_ptx_type_bits(type));
}

static void atomic(sg_ptx_translator_t *t)
{
    const sg_ptx_type_t type = t->insn->type[0];
    const bool old = t->insn->opcode == SG_PTX_OP_ATOM;
    const uint32_t bits = sg_ptx_type_bits(type), count = sg_ptx_vector_elements(t->insn), at = old ? 1 : 0;
    const bool cas = sg_ptx_has(t, SG_PTX_KIND_OP) == SG_PTX_DO_CAS;
    const sg_ptx_operand_t *value = &t->insn->operands[at + 1];
    if (bits == 128)
        sg_ptx_refuse(t, "128 bits");
    const char *name = atomic_name(t, type);
    sg_ptx_line(t, "{");
    sg_ptx_line(t, "const sg_v64 at = %s;",
                sg_ptx_address(t, &t->insn->operands[at], sg_ptx_has(t, SG_PTX_KIND_SPACE)));
    sg_ptx_line(t, "sg_v%u q[%u];", bits, count);
    for (uint32_t i = 0; i < count; i++)
        sg_ptx_line(t, "q[%u] = sg_atom_%s(w, %s, sg_at(at, %u), %s%s%s);", i, name, t->mask, i * bits / 8,
                    sg_ptx_value_of(t, part(value, i), bits), cas ? ", " : "",
                    cas ? sg_ptx_value(t, at + 2, bits) : "");
    sg_ptx_line(t, "(void)q;");
    for (uint32_t i = 0; old && i < count; i++)
        sg_ptx_result(t, part(&t->insn->operands[0], i), bits, false, sg_ptx_text(t, "q[%u]", i));
    sg_ptx_line(t, "}");
}

sg_ptx_emit_t sg_ptx_emit_memory(const sg_ptx_insn_t *insn)
{
    switch (insn->opcode) {
    case SG_PTX_OP_LD:
    case SG_PTX_OP_LDU:
        return load;
    case SG_PTX_OP_ST:
        return store;
    case SG_PTX_OP_PREFETCH:
    case SG_PTX_OP_PREFETCHU:
        return nothing;
    case SG_PTX_OP_CREATEPOLICY_FRACTIONAL:
        return policy;
    case SG_PTX_OP_ALLOCA:
        return take_stack;
    case SG_PTX_OP_STACKSAVE:
        return save_stack;
    case SG_PTX_OP_STACKRESTORE:
        return restore_stack;
    case SG_PTX_OP_ATOM:
    case SG_PTX_OP_RED:
        return atomic;
    default:
        return NULL;
    }
}
