/* spell.c: see spell.h. */
#include "ptx_test.h"

#include "spell.h"

uint32_t spell_values(const sg_ptx_group_t *group)
{
    if (group->kind == SG_PTX_KIND_SHAPE)
        return strstr(group->shapes, "n*") ? 32 : 1;
    if (group->kind == SG_PTX_KIND_TYPE)
        return (uint32_t)__builtin_popcountll(group->values);
    uint32_t all = sg_ptx_kind_first(group->kind + 1) - sg_ptx_kind_first(group->kind);
    return (uint32_t)__builtin_popcountll(group->values & ((1ull << all) - 1));
}

static uint32_t nth_bit(uint64_t mask, uint32_t n)
{
    while (--n)
        mask &= mask - 1;
    return (uint32_t)__builtin_ctzll(mask);
}

void spell_modifiers(choice_t *c)
{
    memset(&c->expected, 0, sizeof c->expected);
    *c->modifiers = '\0';
    for (uint32_t g = 0; g < c->form->group_count; g++) {
        const sg_ptx_group_t *group = &c->form->groups[g];
        char *end = c->modifiers + strlen(c->modifiers);
        size_t room = sizeof c->modifiers - strlen(c->modifiers);
        if (c->number[g] == 0)
            continue;
        if (group->kind == SG_PTX_KIND_SHAPE) {
            unsigned m, n = 8 * c->number[g], k;
            if (sscanf(group->shapes, "m%un%uk%u", &m, &n, &k) != 3)
                assert_int_equal(sscanf(group->shapes, "m%un*k%u", &m, &k), 2);
            snprintf(end, room, ".m%un%uk%u", m, n, k);
            c->expected.shape[0] = (uint16_t)m;
            c->expected.shape[1] = (uint16_t)n;
            c->expected.shape[2] = (uint16_t)k;
        } else if (group->kind == SG_PTX_KIND_TYPE) {
            uint32_t type = nth_bit(group->values, c->number[g]);
            snprintf(end, room, ".%s", sg_ptx_type_text(type));
            c->expected.type[c->expected.type_count++] = (uint8_t)type;
        } else {
            uint32_t modifier = sg_ptx_kind_first(group->kind) + nth_bit(group->values, c->number[g]);
            snprintf(end, room, ".%s", sg_ptx_modifier_text(modifier));
            c->expected.modifier[group->kind] = (uint8_t)modifier;
        }
    }
}

static const char *register_type(sg_ptx_type_t type)
{
    switch (sg_ptx_type_class(type)) {
    case 'P':
        return sg_ptx_type_bits(type) == 8    ? "b8"
               : sg_ptx_type_bits(type) == 16 ? "b16"
               : sg_ptx_type_bits(type) == 32 ? "b32"
                                              : "b64";
    case 'S':
    case 'U':
        return sg_ptx_type_bits(type) == 8 ? "b8" : sg_ptx_type_text(type);
    default:
        return sg_ptx_type_text(type);
    }
}

static uint32_t elements(const choice_t *c, const sg_ptx_slot_t *slot)
{
    static const uint32_t of_vector[] = {2, 4, 8}, of_number[] = {1, 2, 4};
    uint8_t vector = c->expected.modifier[SG_PTX_KIND_VECTOR],
            number = c->expected.modifier[SG_PTX_KIND_NUMBER];
    switch (slot->count) {
    case SG_PTX_COUNT_VEC:
        return vector ? of_vector[vector - SG_PTX_V2] : 0;
    case SG_PTX_COUNT_NUM:
        return of_number[number - SG_PTX_X1];
    case SG_PTX_COUNT_HALF_N:
        return c->expected.shape[1] / 2u;
    case SG_PTX_COUNT_QUARTER_N:
        return c->expected.shape[1] / 4u;
    default:
        return slot->count;
    }
}

sg_ptx_type_t spell_type(const choice_t *c, const sg_ptx_slot_t *slot)
{
    if (slot->type != SG_PTX_NO_TYPE)
        return slot->type;
    sg_ptx_type_t type = c->expected.type[slot->type_group];
    if (!slot->twice)
        return type;
    return type == SG_PTX_U16   ? SG_PTX_U32
           : type == SG_PTX_S16 ? SG_PTX_S32
           : type == SG_PTX_U32 ? SG_PTX_U64
                                : SG_PTX_S64;
}

/* Writes a slot's operand; with `wrong`, one that cannot be there. */
static void spell_slot(const choice_t *c, const sg_ptx_slot_t *slot, uint32_t place, bool wrong, char *out,
                       size_t bytes)
{
    sg_ptx_type_t type = spell_type(c, slot);
    const char *name = register_type(type);
    uint32_t count = elements(c, slot);
    switch (slot->kind) {
    case SG_PTX_SLOT_MEMORY:
        snprintf(out, bytes, wrong ? "%%b64_%u" : "[%%b64_%u+16]", place);
        return;
    case SG_PTX_SLOT_POINTER:
        snprintf(out, bytes, wrong ? "%%f64_%u" : "%%b64_%u", place);
        return;
    case SG_PTX_SLOT_PACK:
        name = sg_ptx_type_bits(type = c->expected.type[0]) == 16 ? "b8"
               : sg_ptx_type_bits(type) == 32                     ? "b16"
               : sg_ptx_type_bits(type) == 64                     ? "b32"
                                                                  : "b64";
        snprintf(out, bytes, "{%%%s_1, %%%s_2%s}", name, name, wrong ? ", 3" : "");
        return;
    case SG_PTX_SLOT_LABEL:
        snprintf(out, bytes, wrong ? "nowhere" : "here");
        return;
    case SG_PTX_SLOT_TABLE:
        snprintf(out, bytes, wrong ? "here" : "table");
        return;
    case SG_PTX_SLOT_CALL:
        snprintf(out, bytes,
                 wrong ? "(back_param), callee, (back_param)" : "(back_param), callee, (out_param)");
        return;
    default:
        break;
    }
    if (slot->immediate_only) {
        if (type == SG_PTX_F32)
            snprintf(out, bytes, wrong ? "1" : "0f3f800000");
        else
            snprintf(out, bytes, wrong ? "%%b32_1" : "16");
        return;
    }
    if (wrong)
        name = type == SG_PTX_PRED ? "b32" : "pred";
    if (count == 0) {
        snprintf(out, bytes, "%%%s_%u", name, place);
        return;
    }
    size_t length = 0;
    for (uint32_t i = 0; i < count; i++)
        length += (size_t)snprintf(out + length, bytes - length, "%s%%%s_%u", i ? ", " : "{", name, i);
    snprintf(out + length, bytes - length, "}");
    return;
}

void spell_line(const choice_t *c, uint32_t wrong, char *line, size_t bytes)
{
    char operand[4096];
    bool first = true;
    size_t length = (size_t)snprintf(line, bytes, "%s%s", sg_ptx_opcode_text(c->form->opcode), c->modifiers);
    for (uint32_t i = 0; i < c->form->slot_count; i++) {
        const sg_ptx_slot_t *slot = &c->form->slots[i];
        if (slot->only_with && !c->expected.modifier[slot->only_with])
            continue;
        spell_slot(c, slot, i, i == wrong, operand, sizeof operand);
        if (c->form->opcode == SG_PTX_OP_CP_ASYNC_BULK_TENSOR && slot->count && line[length - 1] == ']') {
            length--; /* coordinates are inside the brackets */
            length += (size_t)snprintf(line + length, bytes - length, ", %s]", operand);
            continue;
        }
        length += (size_t)snprintf(line + length, bytes - length, "%s%s",
                                   first          ? " "
                                   : slot->second ? "|"
                                                  : ", ",
                                   operand);
        first = false;
    }
    snprintf(line + length, bytes - length, ";");
}

uint32_t spell_number(const sg_ptx_form_t *form, uint32_t group, const sg_ptx_insn_t *insn)
{
    const sg_ptx_group_t *of = &form->groups[group];
    uint32_t bit, types = 0;
    if (of->kind == SG_PTX_KIND_SHAPE)
        return spell_values(of) > 1 ? insn->shape[1] / 8u : 1;
    for (uint32_t g = 0; g < group; g++)
        types += form->groups[g].kind == SG_PTX_KIND_TYPE;
    if (of->kind == SG_PTX_KIND_TYPE)
        bit = insn->type[types];
    else if (insn->modifier[of->kind])
        bit = insn->modifier[of->kind] - sg_ptx_kind_first(of->kind);
    else
        return 0;
    return (uint32_t)__builtin_popcountll(of->values & ((2ull << bit) - 1));
}

void spell_first(choice_t *c, const sg_ptx_form_t *form)
{
    c->form = form;
    for (uint32_t g = 0; g < form->group_count; g++)
        c->number[g] = form->groups[g].optional ? 0 : 1;
}

bool spell_next(choice_t *c)
{
    for (uint32_t g = 0; g < c->form->group_count; g++) {
        if (c->number[g]++ < spell_values(&c->form->groups[g]))
            return true;
        c->number[g] = c->form->groups[g].optional ? 0 : 1;
    }
    return false;
}

bool spell_is_hint(uint32_t kind)
{
    return kind == SG_PTX_KIND_CACHE || kind == SG_PTX_KIND_EVICT_L1 || kind == SG_PTX_KIND_EVICT_L2 ||
           kind == SG_PTX_KIND_EVICT_L2_ELSE || kind == SG_PTX_KIND_HINT || kind == SG_PTX_KIND_PREFETCH ||
           kind == SG_PTX_KIND_LEVEL || kind == SG_PTX_KIND_SEMANTICS || kind == SG_PTX_KIND_SCOPE ||
           kind == SG_PTX_KIND_MMIO || kind == SG_PTX_KIND_NC || kind == SG_PTX_KIND_UNIFORM ||
           kind == SG_PTX_KIND_ALIGNED;
}
