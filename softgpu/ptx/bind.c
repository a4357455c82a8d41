/* bind.c: which form an instruction is of, and what its operands are. Types agree as chapter 9.3 and 9.4 of the PTX ISA say. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "softgpu/ptx/internal.h"

/* An instruction under one form: what converts its operands needs all of it. */
typedef struct sg_ptx_binding {
    sg_ptx_reader_t *reader;
    sg_ptx_insn_t *insn;
    const sg_ptx_form_t *form;
    uint32_t tried; /* operands; UINT32_MAX: they fit */
    char why[256];  /* it does not fit */
} sg_ptx_binding_t;

__attribute__((format(printf, 2, 3))) static bool no(sg_ptx_binding_t *b, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(b->why, sizeof b->why, format, arguments);
    va_end(arguments);
    return false;
}

static sg_ptx_type_t twice_as_wide(sg_ptx_type_t type)
{
    static const uint8_t wide[SG_PTX_TYPE_COUNT] = {[SG_PTX_U16] = SG_PTX_U32,
                                                    [SG_PTX_S16] = SG_PTX_S32,
                                                    [SG_PTX_U32] = SG_PTX_U64,
                                                    [SG_PTX_S32] = SG_PTX_S64};
    return wide[type];
}

static sg_ptx_type_t slot_type(const sg_ptx_binding_t *b, const sg_ptx_slot_t *slot)
{
    if (slot->type != SG_PTX_NO_TYPE)
        return slot->type;
    sg_ptx_type_t type = b->insn->type[slot->type_group];
    return slot->twice ? twice_as_wide(type) : type;
}

/* 0: a scalar. */
static uint32_t slot_elements(const sg_ptx_binding_t *b, const sg_ptx_slot_t *slot)
{
    switch (slot->count) {
    case SG_PTX_COUNT_VEC:
        return sg_ptx_vector_elements(b->insn);
    case SG_PTX_COUNT_NUM:
        return 1u << (b->insn->modifier[SG_PTX_KIND_NUMBER] - SG_PTX_X1);
    case SG_PTX_COUNT_HALF_N:
        return b->insn->shape[1] / 2u;
    case SG_PTX_COUNT_QUARTER_N:
        return b->insn->shape[1] / 4u;
    default:
        return slot->count;
    }
}

/* ---- registers ---- */
static bool register_fits(sg_ptx_binding_t *b, sg_ptx_type_t reg, sg_ptx_type_t type, bool wider)
{
    uint32_t have = sg_ptx_type_bits(reg), want = sg_ptx_type_bits(type);
    char from = sg_ptx_type_class(reg), to = sg_ptx_type_class(type);
    bool agree = have == want || (wider && have > want && !(to == 'F' && from == 'F') && from != '!');
    switch (to) {
    case '!':
        agree = from == '!';
        break;
    case 'B':
        agree = agree && from != '!';
        break;
    case 'S':
    case 'U':
        agree = agree && (from == 'B' || from == 'S' || from == 'U');
        break;
    case 'F':
        agree = agree && (from == 'B' || reg == type);
        break;
    default: /* packed and narrow: no register is declared with such a type */
        agree = agree && from == 'B';
    }
    return agree ||
           no(b, "a register of type .%s where .%s is wanted", sg_ptx_type_text(reg), sg_ptx_type_text(type));
}

/* ---- immediates ---- */
static bool immediate_float(sg_ptx_binding_t *b, const sg_ptx_raw_t *raw, sg_ptx_type_t type, uint64_t *bits)
{
    uint32_t width = sg_ptx_type_bits(type);
    double value;
    float single;
    *bits = raw->bits;
    if (sg_ptx_type_class(type) == 'B' && width == (raw->single ? 32u : 64u))
        return true;
    if (type == SG_PTX_F32 && !raw->single) {
        memcpy(&value, &raw->bits, sizeof value);
        single = (float)value;
        uint32_t low;
        memcpy(&low, &single, sizeof low);
        *bits = low;
        return true;
    }
    if (type == SG_PTX_F64 && raw->single) {
        uint32_t low = (uint32_t)raw->bits;
        memcpy(&single, &low, sizeof single);
        value = single;
        memcpy(bits, &value, sizeof value);
        return true;
    }
    return type == SG_PTX_F32 || type == SG_PTX_F64 ||
           no(b, "a float constant where .%s is wanted", sg_ptx_type_text(type));
}

static bool immediate(sg_ptx_binding_t *b, const sg_ptx_raw_t *raw, sg_ptx_type_t type, sg_ptx_operand_t *out)
{
    char class = sg_ptx_type_class(type);
    uint32_t width = sg_ptx_type_bits(type);
    out->kind = SG_PTX_IMMEDIATE;
    out->type = (uint8_t)type;
    if (raw->kind == SG_PTX_RAW_FLOAT)
        return immediate_float(b, raw, type, &out->bits);
    if (class == 'F' || class == 'P' || width > 64)
        return no(b, "an integer constant where .%s is wanted", sg_ptx_type_text(type));
    if (class == '!')
        out->bits = raw->bits != 0;
    else
        out->bits = width == 64 ? raw->bits : raw->bits & ((1ull << width) - 1);
    return true;
}

/* ---- values ---- */
static bool symbol(sg_ptx_binding_t *b, const sg_ptx_raw_t *raw, sg_ptx_type_t type, sg_ptx_operand_t *out)
{
    uint32_t bits = sg_ptx_type_bits(type);
    char class = sg_ptx_type_class(type);
    if ((bits != 32 && bits != 64) || class == 'F' || class == 'P')
        return no(b, "an address where .%s is wanted", sg_ptx_type_text(type));
    out->kind = SG_PTX_SYMBOL;
    out->type = (uint8_t)type;
    out->offset = raw->offset;
    if (raw->name->kind == SG_PTX_NAME_VARIABLE)
        out->variable = raw->name->thing;
    else
        out->function = raw->name->thing;
    return true;
}

static bool special(sg_ptx_binding_t *b, const sg_ptx_raw_t *raw, sg_ptx_type_t type, bool wider,
                    sg_ptx_operand_t *out)
{
    if (b->insn->opcode != SG_PTX_OP_MOV && b->insn->opcode != SG_PTX_OP_CVT)
        return no(b, "special registers are read by mov and cvt only");
    out->kind = SG_PTX_SPECIAL_REGISTER;
    out->type = (uint8_t)raw->name->type;
    out->number = raw->number;
    return register_fits(b, raw->name->type, type, wider);
}

static bool named(sg_ptx_binding_t *b, const sg_ptx_slot_t *slot, const sg_ptx_raw_t *raw, sg_ptx_type_t type,
                  sg_ptx_operand_t *out)
{
    if (raw->name == NULL)
        return no(b, "'%.*s' is not declared", (int)raw->text.length, raw->text.at);
    if (raw->name->kind == SG_PTX_NAME_REGISTER && !raw->offset_given) {
        out->kind = SG_PTX_REGISTER;
        out->type = (uint8_t)raw->name->type;
        out->number = raw->number;
        return register_fits(b, raw->name->type, type, slot->wider);
    }
    if (slot->symbol && raw->name->kind == SG_PTX_NAME_SPECIAL && !raw->offset_given)
        return special(b, raw, type, slot->wider, out);
    if (slot->symbol && (raw->name->kind == SG_PTX_NAME_VARIABLE || raw->name->kind == SG_PTX_NAME_FUNCTION))
        return symbol(b, raw, type, out);
    return no(b, "'%.*s' cannot stand here", (int)raw->text.length, raw->text.at);
}

static bool scalar(sg_ptx_binding_t *b, const sg_ptx_slot_t *slot, const sg_ptx_raw_t *raw,
                   sg_ptx_type_t type, bool sink, sg_ptx_operand_t *out)
{
    if (raw->negated && (!slot->negatable || raw->kind != SG_PTX_RAW_NAME))
        return no(b, "nothing can be negated here");
    out->negated = raw->negated;
    if (raw->kind == SG_PTX_RAW_NAME && sg_ptx_text_is(raw->text, "_")) {
        out->kind = SG_PTX_SINK;
        out->type = (uint8_t)type;
        return sink || no(b, "'_' cannot stand here");
    }
    if (raw->kind == SG_PTX_RAW_NAME && !slot->immediate_only)
        return named(b, slot, raw, type, out);
    if ((raw->kind == SG_PTX_RAW_INTEGER || raw->kind == SG_PTX_RAW_FLOAT) && !slot->written)
        return immediate(b, raw, type, out);
    return no(b, slot->immediate_only ? "a constant is wanted"
                 : slot->written      ? "a register is wanted"
                                      : "a value is wanted");
}

static bool vector(sg_ptx_binding_t *b, const sg_ptx_slot_t *slot, const sg_ptx_raw_t *raw,
                   sg_ptx_type_t type, sg_ptx_operand_t *out)
{
    uint32_t count = slot_elements(b, slot);
    if (count == 1 && raw->kind != SG_PTX_RAW_VECTOR)
        return scalar(b, slot, raw, type, slot->sink, out);
    if (raw->kind != SG_PTX_RAW_VECTOR || raw->count != count)
        return no(b, "a vector of %u is wanted", count);
    if (count == 1)
        return scalar(b, slot, raw->elements, type, slot->sink, out);
    sg_ptx_operand_t *elements = sg_ptx_alloc(b->reader, count * sizeof *elements);
    for (uint32_t i = 0; i < count; i++)
        if (!scalar(b, slot, &raw->elements[i], type, slot->written, &elements[i]))
            return false;
    *out = (sg_ptx_operand_t){
        .kind = SG_PTX_VECTOR, .type = (uint8_t)type, .count = (uint16_t)count, .elements = elements};
    return true;
}

/* mov.b64 {a, b}, c: registers that have c's size together. */
static bool pack(sg_ptx_binding_t *b, const sg_ptx_slot_t *slot, const sg_ptx_raw_t *raw,
                 sg_ptx_operand_t *out)
{
    uint32_t bits = sg_ptx_type_bits(b->insn->type[0]);
    if (raw->kind != SG_PTX_RAW_VECTOR || (raw->count != 2 && raw->count != 4 && raw->count != 8))
        return no(b, "a vector of 2, 4 or 8 is wanted");
    sg_ptx_type_t type = bits / raw->count == 8    ? SG_PTX_B8
                         : bits / raw->count == 16 ? SG_PTX_B16
                         : bits / raw->count == 32 ? SG_PTX_B32
                         : bits / raw->count == 64 ? SG_PTX_B64
                                                   : SG_PTX_NO_TYPE;
    if (type == SG_PTX_NO_TYPE)
        return no(b, "%u elements are too many for .%s", raw->count, sg_ptx_type_text(b->insn->type[0]));
    sg_ptx_slot_t as_vector = {.count = (uint8_t)raw->count, .written = slot->written};
    return vector(b, &as_vector, raw, type, out);
}

/* ---- addresses ---- */
static bool is_pointer(sg_ptx_type_t type)
{
    uint32_t bits = sg_ptx_type_bits(type);
    char class = sg_ptx_type_class(type);
    return (bits == 32 || bits == 64) && (class == 'B' || class == 'S' || class == 'U');
}

static bool space_fits(sg_ptx_modifier_t variable, sg_ptx_modifier_t access)
{
    switch (access) {
    case SG_PTX_SPACE_SHARED_CTA:
    case SG_PTX_SPACE_SHARED_CLUSTER:
        return variable == SG_PTX_SPACE_SHARED;
    case SG_PTX_SPACE_PARAM_ENTRY:
    case SG_PTX_SPACE_PARAM_FUNC:
        return variable == SG_PTX_SPACE_PARAM;
    default:
        return variable == access;
    }
}

/* What runs past a parameter is another one's, or no memory at all. */
static bool in_parameter(sg_ptx_binding_t *b, const sg_ptx_operand_t *address)
{
    static const sg_ptx_slot_t vec = {.count = SG_PTX_COUNT_VEC};
    const sg_ptx_variable_t *variable = address->variable;
    if (variable->space != SG_PTX_SPACE_PARAM || variable->bytes == 0)
        return true;
    uint32_t bytes = sg_ptx_type_bits(b->insn->type[0]) / 8 * slot_elements(b, &vec);
    uint64_t at = (uint64_t)address->offset;
    return (at < variable->bytes && bytes <= variable->bytes - at) ||
           no(b, "%u bytes at %lld of '%s', which has %llu", bytes, (long long)address->offset,
              variable->name, (unsigned long long)variable->bytes);
}

static bool memory(sg_ptx_binding_t *b, uint32_t place, const sg_ptx_raw_t *raw, sg_ptx_operand_t *out)
{
    if (raw->kind != SG_PTX_RAW_ADDRESS)
        return no(b, "an address in [ ] is wanted");
    const bool tensor = b->insn->opcode == SG_PTX_OP_CP_ASYNC_BULK_TENSOR &&
                        place + 1u < b->form->slot_count && b->form->slots[place + 1].count;
    if (tensor != (raw->count != 0))
        return no(b, tensor ? "coordinates are wanted in [ ]" : "coordinates are of tensors");
    *out = (sg_ptx_operand_t){.kind = SG_PTX_ADDRESS, .offset = raw->offset};
    if (raw->text.length == 0)
        return true;
    if (raw->name == NULL)
        return no(b, "'%.*s' is not declared", (int)raw->text.length, raw->text.at);
    if (raw->name->kind == SG_PTX_NAME_REGISTER) {
        out->based = true;
        out->number = raw->number;
        out->type = (uint8_t)raw->name->type;
        return is_pointer(raw->name->type) ||
               no(b, "a register of type .%s is no address", sg_ptx_type_text(raw->name->type));
    }
    if (raw->name->kind != SG_PTX_NAME_VARIABLE)
        return no(b, "'%.*s' is no memory", (int)raw->text.length, raw->text.at);
    out->variable = raw->name->thing;
    /* The second address of a copy is the one that it comes from. */
    sg_ptx_kind_t kind = (place == 1 || place == 2) && b->insn->modifier[SG_PTX_KIND_FROM]
                             ? SG_PTX_KIND_FROM
                             : SG_PTX_KIND_SPACE;
    sg_ptx_modifier_t access = b->insn->modifier[kind];
    if (access == SG_PTX_FROM_GLOBAL)
        access = SG_PTX_SPACE_GLOBAL;
    if (access == SG_PTX_FROM_SHARED_CTA || place == 3) /* 3: the barrier of a copy */
        access = SG_PTX_SPACE_SHARED_CTA;
    if (b->insn->opcode == SG_PTX_OP_LD && b->insn->modifier[SG_PTX_KIND_NC])
        access = SG_PTX_SPACE_GLOBAL;
    if (!space_fits(out->variable->space, access))
        return no(b, "'%s' is in .%s, the instruction accesses %s%s", out->variable->name,
                  sg_ptx_modifier_text(out->variable->space), access ? "." : "generic addresses",
                  sg_ptx_modifier_text(access));
    return in_parameter(b, out);
}

static bool pointer(sg_ptx_binding_t *b, const sg_ptx_slot_t *slot, const sg_ptx_raw_t *raw,
                    sg_ptx_operand_t *out)
{
    sg_ptx_slot_t as_value = *slot;
    as_value.symbol = true;
    sg_ptx_type_t type = SG_PTX_B64;
    if (raw->name != NULL && raw->name->kind == SG_PTX_NAME_REGISTER) {
        type = raw->name->type;
        if (!is_pointer(type))
            return no(b, "a register of type .%s is no address", sg_ptx_type_text(type));
    }
    return raw->kind == SG_PTX_RAW_NAME ? scalar(b, &as_value, raw, type, false, out)
                                        : no(b, "an address is wanted");
}

static bool label(sg_ptx_binding_t *b, const sg_ptx_raw_t *raw, sg_ptx_operand_t *out)
{
    if (raw->kind != SG_PTX_RAW_NAME || raw->offset_given || raw->negated)
        return no(b, "a label is wanted");
    sg_ptx_reader_t *reader = b->reader;
    out->kind = SG_PTX_LABEL;
    *(sg_ptx_pending_t *)sg_ptx_add(reader, &reader->pending, sizeof(sg_ptx_pending_t)) =
        (sg_ptx_pending_t){.text = raw->text, .operand = out, .line = b->insn->line, .depth = reader->depth};
    return true;
}

static bool table(sg_ptx_binding_t *b, const sg_ptx_raw_t *raw, sg_ptx_operand_t *out)
{
    if (raw->kind != SG_PTX_RAW_NAME || raw->name == NULL || raw->name->kind != SG_PTX_NAME_TABLE)
        return no(b, "the name of .branchtargets is wanted");
    *out = (sg_ptx_operand_t){
        .kind = SG_PTX_JUMP_TABLE, .count = (uint16_t)raw->name->number, .elements = raw->name->thing};
    return true;
}

/* ---- the whole instruction ---- */
static bool convert(sg_ptx_binding_t *b, uint32_t place, const sg_ptx_raw_t *raw, sg_ptx_operand_t *out)
{
    const sg_ptx_slot_t *slot = &b->form->slots[place];
    if (raw->second != slot->second)
        return no(b, slot->second ? "a second destination, behind '|', is wanted"
                                  : "there is no second destination");
    switch (slot->kind) {
    case SG_PTX_SLOT_MEMORY:
        return memory(b, place, raw, out);
    case SG_PTX_SLOT_POINTER:
        return pointer(b, slot, raw, out);
    case SG_PTX_SLOT_PACK:
        return pack(b, slot, raw, out);
    case SG_PTX_SLOT_LABEL:
        return label(b, raw, out);
    case SG_PTX_SLOT_TABLE:
        return table(b, raw, out);
    default:
        return slot->count ? vector(b, slot, raw, slot_type(b, slot), out)
                           : scalar(b, slot, raw, slot_type(b, slot), slot->sink, out);
    }
}

static bool is_there(const sg_ptx_binding_t *b, const sg_ptx_slot_t *slot)
{
    return slot->only_with == 0 || b->insn->modifier[slot->only_with] != SG_PTX_ABSENT;
}

static bool operands(sg_ptx_binding_t *b, const sg_ptx_raw_t *raws, uint32_t count)
{
    const sg_ptx_form_t *form = b->form;
    uint32_t must = 0, taken = 0;
    for (uint32_t i = 0; i < form->slot_count; i++)
        must += is_there(b, &form->slots[i]) && !form->slots[i].optional;
    sg_ptx_operand_t *out = sg_ptx_alloc(b->reader, SG_PTX_SLOTS_MOST * sizeof *out);
    for (uint32_t i = 0; i < form->slot_count; i++) {
        const sg_ptx_slot_t *slot = &form->slots[i];
        if (!is_there(b, slot))
            continue;
        if (slot->optional && (count - taken <= must || raws[taken].second != slot->second))
            continue;
        if (taken == count)
            return no(b, "too few operands");
        b->tried = taken + 1;
        if (!convert(b, i, &raws[taken++], &out[i]))
            return false;
        must -= !slot->optional;
    }
    if (taken < count)
        return no(b, raws[taken].second ? "there is no second destination" : "too many operands");
    b->insn->operands = out;
    b->insn->operand_count = form->slot_count;
    b->tried = UINT32_MAX;
    return true;
}

/* ---- what no row can say ---- */
/* Of ld, st, atom and red. */
static bool memory_rules(sg_ptx_binding_t *b)
{
    static const sg_ptx_slot_t vec = {.count = SG_PTX_COUNT_VEC};
    const uint8_t *modifier = b->insn->modifier;
    uint32_t bits = sg_ptx_type_bits(b->insn->type[0]), all = bits * slot_elements(b, &vec);
    bool cached =
        modifier[SG_PTX_KIND_SPACE] == SG_PTX_SPACE_GLOBAL || modifier[SG_PTX_KIND_SPACE] == SG_PTX_ABSENT;
    bool eviction = modifier[SG_PTX_KIND_EVICT_L1] || modifier[SG_PTX_KIND_EVICT_L2];
    if ((eviction || modifier[SG_PTX_KIND_HINT] || modifier[SG_PTX_KIND_PREFETCH]) && !cached)
        return no(b, "hints for caches are for .global and generic addresses");
    if (eviction && modifier[SG_PTX_KIND_CACHE])
        return no(b, "a cache operator and an eviction priority");
    if (modifier[SG_PTX_KIND_EVICT_L2] && all != 256)
        return no(b, "an eviction priority of L2 is for vectors of 256 bits");
    bool wide = all == 256 && (bits == 32 || bits == 64) && b->insn->opcode != SG_PTX_OP_LDU;
    return all <= 128 || (wide && cached) || no(b, "a vector of %u bits", all);
}

/* .sat between integers is for destinations that do not hold every value of the source. */
static bool holds_all(sg_ptx_type_t to, sg_ptx_type_t from)
{
    uint32_t bits = sg_ptx_type_bits(to);
    if (sg_ptx_type_class(from) == 'U')
        return sg_ptx_type_class(to) == 'U' ? bits >= sg_ptx_type_bits(from) : bits > sg_ptx_type_bits(from);
    return sg_ptx_type_class(to) == 'S' && bits >= sg_ptx_type_bits(from);
}

static bool conversion_rules(sg_ptx_binding_t *b)
{
    sg_ptx_type_t to = b->insn->type[0], from = b->insn->type[1];
    bool integers =
        sg_ptx_type_class(to) != 'F' && sg_ptx_type_class(from) != 'F' && sg_ptx_type_class(to) != 'P';
    if (b->insn->modifier[SG_PTX_KIND_FTZ] && to != SG_PTX_F32 && from != SG_PTX_F32)
        return no(b, ".ftz is for conversions of .f32");
    return !integers || !b->insn->modifier[SG_PTX_KIND_SAT] || !holds_all(to, from) ||
           no(b, ".sat where .%s holds every .%s", sg_ptx_type_text(to), sg_ptx_type_text(from));
}

static bool barrier_rules(sg_ptx_binding_t *b)
{
    const uint8_t *modifier = b->insn->modifier;
    if ((modifier[SG_PTX_KIND_SEMANTICS] != 0) != (modifier[SG_PTX_KIND_SCOPE] != 0))
        return no(b, "semantics and scope are given together");
    return modifier[SG_PTX_KIND_SPACE] != SG_PTX_SPACE_SHARED_CLUSTER ||
           b->insn->operands[0].kind != SG_PTX_REGISTER ||
           no(b, "there is no state of a barrier in .shared::cluster: '_' is wanted");
}

static bool rules(sg_ptx_binding_t *b)
{
    const sg_ptx_insn_t *insn = b->insn;
    switch (insn->opcode) {
    case SG_PTX_OP_LD:
    case SG_PTX_OP_LDU:
    case SG_PTX_OP_ST:
    case SG_PTX_OP_ATOM:
    case SG_PTX_OP_RED:
        return memory_rules(b);
    case SG_PTX_OP_CVT:
        return conversion_rules(b);
    case SG_PTX_OP_CP_ASYNC: {
        uint64_t bytes = insn->operands[2].bits;
        bool all_caches = insn->modifier[SG_PTX_KIND_CACHE] == SG_PTX_CACHE_CA;
        return bytes == 16 || (all_caches && (bytes == 4 || bytes == 8)) ||
               no(b, "copies of 16 bytes, by .ca also of 4 and 8");
    }
    case SG_PTX_OP_WGMMA_MMA_ASYNC:
        return insn->type[0] != SG_PTX_S32 || insn->shape[1] <= 32 || insn->shape[1] % 16 == 0 ||
               no(b, "of integers, n is 8, 16, 24, 32, and from there on a multiple of 16");
    default:
        return insn->opcode < SG_PTX_OP_MBARRIER_EXPECT_TX ||
               insn->opcode > SG_PTX_OP_MBARRIER_TRY_WAIT_PARITY || barrier_rules(b);
    }
}

/* No form has these modifiers. */
static _Noreturn void refuse(sg_ptx_reader_t *reader, const sg_ptx_insn_t *insn, sg_ptx_opcode_t opcode,
                             sg_ptx_text_t text)
{
    char forms[192] = "";
    uint32_t first, count;
    size_t length = 0;
    sg_ptx_forms_of(opcode, &first, &count);
    for (uint32_t i = first; i < first + count && length < sizeof forms; i++)
        length += (size_t)snprintf(forms + length, sizeof forms - length, "%s%s", i > first ? "; " : "",
                                   sg_ptx_forms(NULL)[i].modifiers);
    sg_ptx_fail_at(reader, insn->line, "no such form of %s: %.*s (there are: %s%s)",
                   sg_ptx_opcode_text(opcode), (int)(text.length > 120 ? 120 : text.length), text.at, forms,
                   length >= sizeof forms ? "..." : "");
}

void sg_ptx_bind(sg_ptx_reader_t *reader, sg_ptx_insn_t *insn, sg_ptx_opcode_t opcode,
                 const sg_ptx_text_t *modifiers, uint32_t modifier_count, const sg_ptx_raw_t *raws,
                 uint32_t raw_count, sg_ptx_text_t text)
{
    uint32_t first, count, tried = 0;
    char why[256] = ""; /* of the form that fits furthest */
    sg_ptx_forms_of(opcode, &first, &count);
    for (uint32_t i = first; i < first + count; i++) {
        sg_ptx_binding_t b = {.reader = reader, .insn = insn, .form = &sg_ptx_forms(NULL)[i]};
        if (!sg_ptx_form_match(b.form, modifiers, modifier_count, insn))
            continue;
        insn->opcode = (uint16_t)opcode;
        insn->form = (uint16_t)i;
        if (b.form->slot_count && b.form->slots[0].kind == SG_PTX_SLOT_CALL)
            return; /* body.c reads the rest */
        if (operands(&b, raws, raw_count) && rules(&b))
            return;
        if (b.tried >= tried)
            memcpy(why, b.why, sizeof why);
        tried = b.tried > tried ? b.tried : tried;
    }
    if (*why == '\0')
        refuse(reader, insn, opcode, text);
    sg_ptx_fail_at(reader, insn->line, "%s: %.*s", why, (int)text.length, text.at);
}
