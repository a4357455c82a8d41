/* translate_value.c: operands as C, and where results go. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "softgpu/ptx/translator.h"

bool sg_ptx_is_signed(sg_ptx_type_t type)
{
    return sg_ptx_type_class(type) == 'S';
}

bool sg_ptx_is_float(sg_ptx_type_t type)
{
    return type == SG_PTX_F16 || type == SG_PTX_BF16 || type == SG_PTX_F32 || type == SG_PTX_F64;
}

char sg_ptx_sign_letter(sg_ptx_type_t type)
{
    return sg_ptx_is_signed(type) ? 's' : 'u';
}

uint32_t sg_ptx_width(sg_ptx_type_t type)
{
    uint32_t bits = sg_ptx_type_bits(type);
    return bits == 8 ? 16 : bits;
}

const sg_ptx_placed_t *sg_ptx_place(sg_ptx_translator_t *t, const sg_ptx_variable_t *variable)
{
    for (uint32_t i = 0; i < t->global_count; i++)
        if (t->globals[i].variable == variable)
            return &t->globals[i];
    for (uint32_t i = 0; i < t->shared_count; i++)
        if (t->shared[i].variable == variable)
            return &t->shared[i];
    return NULL;
}

uint32_t sg_ptx_argument(const sg_ptx_function_t *function, const sg_ptx_variable_t *variable)
{
    const sg_ptx_prototype_t *prototype = &function->prototype;
    for (uint32_t i = 0; i < prototype->return_count; i++)
        if (prototype->returns[i] == variable)
            return i;
    for (uint32_t i = 0; i < prototype->parameter_count; i++)
        if (prototype->parameters[i] == variable)
            return prototype->return_count + i;
    return UINT32_MAX;
}

uint64_t sg_ptx_param_offset(const sg_ptx_function_t *entry, uint32_t parameter)
{
    uint64_t at = 0;
    for (uint32_t i = 0;; i++) {
        const sg_ptx_variable_t *p = entry->prototype.parameters[i];
        at = (at + p->align_bytes - 1) / p->align_bytes * p->align_bytes;
        if (i == parameter)
            return at;
        at += p->bytes;
    }
}

const char *sg_ptx_own(sg_ptx_translator_t *t, const sg_ptx_variable_t *variable)
{
    uint32_t argument = sg_ptx_argument(t->function, variable);
    if (argument != UINT32_MAX)
        return sg_ptx_text(t, "arguments[%u]", argument);
    for (uint32_t i = 0; i < t->function->variable_count; i++)
        if (t->function->variables[i] == variable)
            return sg_ptx_text(t, "v%u", i);
    sg_ptx_refuse(t, "'%s' is nowhere", variable->name);
}

/* The address of a variable as registers have it, for all lanes: 64 bits. */
static const char *variable_address(sg_ptx_translator_t *t, const sg_ptx_variable_t *variable, int64_t offset)
{
    const sg_ptx_placed_t *placed = sg_ptx_place(t, variable);
    if (placed != NULL && variable->space == SG_PTX_SPACE_SHARED)
        return sg_ptx_text(t, "sg_all64(UINT64_C(%" PRIu64 "))", placed->offset + (uint64_t)offset);
    if (placed != NULL)
        return sg_ptx_text(t, "sg_all64(sg_address(&variables.g%" PRIu64 ") + UINT64_C(%" PRIu64 "))",
                           placed->offset, (uint64_t)offset);
    uint32_t argument = sg_ptx_argument(t->function, variable);
    if (t->function->entry && argument != UINT32_MAX)
        return sg_ptx_text(t, "sg_all64(sg_address(w->params) + UINT64_C(%" PRIu64 "))",
                           sg_ptx_param_offset(t->function, argument) + (uint64_t)offset);
    if (variable->linkage == SG_PTX_EXTERN)
        sg_ptx_refuse(t, "'%s' is declared, but not here", variable->name);
    return sg_ptx_text(t, "sg_at(sg_own(%s, %" PRIu64 "), UINT64_C(%" PRIu64 "))", sg_ptx_own(t, variable),
                       variable->bytes, (uint64_t)offset);
}

static const char *special(sg_ptx_translator_t *t, uint32_t number)
{
    static const char *const names[][2] = {{"eq", ""}, {"le", ""}, {"lt", ""}, {"ge", ""}, {"gt", ""}};
    if (number <= SG_PTX_SPECIAL_TID_LAST)
        return sg_ptx_text(t, "w->tid[%u]", number - SG_PTX_SPECIAL_TID);
    if (number <= SG_PTX_SPECIAL_NTID_LAST)
        return sg_ptx_text(t, "sg_all32(w->launch->block[%u])", number - SG_PTX_SPECIAL_NTID);
    if (number <= SG_PTX_SPECIAL_CTAID_LAST)
        return sg_ptx_text(t, "sg_all32(w->block[%u])", number - SG_PTX_SPECIAL_CTAID);
    if (number <= SG_PTX_SPECIAL_NCTAID_LAST)
        return sg_ptx_text(t, "sg_all32(w->launch->grid[%u])", number - SG_PTX_SPECIAL_NCTAID);
    if (number >= SG_PTX_SPECIAL_CLUSTERID &&
        number <= SG_PTX_SPECIAL_CLUSTERID_LAST) /* a block is a cluster */
        return sg_ptx_text(t, "sg_all32(w->block[%u])", number - SG_PTX_SPECIAL_CLUSTERID);
    if (number >= SG_PTX_SPECIAL_NCLUSTERID && number <= SG_PTX_SPECIAL_NCLUSTERID_LAST)
        return sg_ptx_text(t, "sg_all32(w->launch->grid[%u])", number - SG_PTX_SPECIAL_NCLUSTERID);
    if (number >= SG_PTX_SPECIAL_CLUSTER_NCTAID && number <= SG_PTX_SPECIAL_CLUSTER_NCTAID_LAST)
        return "sg_all32(1)";
    if (number >= SG_PTX_SPECIAL_LANEMASK_EQ && number <= SG_PTX_SPECIAL_LANEMASK_GT)
        return sg_ptx_text(t, "sg_lanemask_%s()", names[number - SG_PTX_SPECIAL_LANEMASK_EQ][0]);
    switch (number) {
    case SG_PTX_SPECIAL_LANEID:
        return "sg_laneid()";
    case SG_PTX_SPECIAL_WARPID:
        return "sg_all32(w->number)";
    case SG_PTX_SPECIAL_NWARPID:
        return "sg_all32(w->warps)";
    case SG_PTX_SPECIAL_NSMID:
    case SG_PTX_SPECIAL_CLUSTER_NCTARANK:
        return "sg_all32(1)";
    case SG_PTX_SPECIAL_SMID:
    case SG_PTX_SPECIAL_CLUSTER_CTARANK:
        return "sg_all32(0)";
    case SG_PTX_SPECIAL_GRIDID:
    case SG_PTX_SPECIAL_CURRENT_GRAPH_EXEC:
        return "sg_all64(0)";
    case SG_PTX_SPECIAL_ENVREG1:
        return "sg_all32((uint32_t)(w->workspace >> 32))";
    case SG_PTX_SPECIAL_ENVREG2:
        return "sg_all32((uint32_t)w->workspace)";
    case SG_PTX_SPECIAL_IS_EXPLICIT_CLUSTER:
        return "0u";
    case SG_PTX_SPECIAL_CLOCK:
        return "sg_all32((uint32_t)sg_clock())";
    case SG_PTX_SPECIAL_CLOCK_HI:
        return "sg_all32((uint32_t)(sg_clock() >> 32))";
    case SG_PTX_SPECIAL_CLOCK64:
        return "sg_all64(sg_clock())";
    case SG_PTX_SPECIAL_GLOBALTIMER:
        return "sg_all64(sg_globaltimer())";
    case SG_PTX_SPECIAL_GLOBALTIMER_LO:
        return "sg_all32((uint32_t)sg_globaltimer())";
    case SG_PTX_SPECIAL_GLOBALTIMER_HI:
        return "sg_all32((uint32_t)(sg_globaltimer() >> 32))";
    case SG_PTX_SPECIAL_RESERVED_SMEM_BEGIN:
    case SG_PTX_SPECIAL_RESERVED_SMEM_0:
    case SG_PTX_SPECIAL_RESERVED_SMEM_1:
        return sg_ptx_text(t, "sg_all32(%" PRIu64 ")", t->reserved);
    case SG_PTX_SPECIAL_RESERVED_SMEM_END:
    case SG_PTX_SPECIAL_RESERVED_SMEM_CAP:
        return sg_ptx_text(t, "sg_all32(%" PRIu64 ")", t->dynamic);
    case SG_PTX_SPECIAL_DYNAMIC_SMEM_SIZE:
        return "sg_all32(w->launch->dynamic_shared_bytes)";
    case SG_PTX_SPECIAL_TOTAL_SMEM_SIZE:
    case SG_PTX_SPECIAL_AGGR_SMEM_SIZE:
        return "sg_all32(w->static_shared_bytes + w->launch->dynamic_shared_bytes)";
    default:
        if (number >= SG_PTX_SPECIAL_CLUSTER_CTAID && number <= SG_PTX_SPECIAL_CLUSTER_CTAID_LAST)
            return "sg_all32(0)";
        sg_ptx_refuse(t, "this special register is not there");
    }
}

static const char *immediate(sg_ptx_translator_t *t, uint64_t bits, uint32_t width)
{
    if (width == 1)
        return bits ? "SG_ALL" : "0u";
    if (width == 128)
        return sg_ptx_text(t, "sg_all128(UINT64_C(%" PRIu64 "))", bits);
    return sg_ptx_text(t, "sg_all%u(%s%" PRIu64 ")", width, width == 64 ? "(uint64_t)" : "",
                       width < 64 ? bits & ((UINT64_C(1) << width) - 1) : bits);
}

/* A value of `have` bits as one of `want`. */
static const char *cut(sg_ptx_translator_t *t, const char *text, uint32_t have, uint32_t want)
{
    if (have == want)
        return text;
    if (have == 1 || want == 1 || have < want)
        sg_ptx_refuse(t, "a register of %u bits where %u are wanted", have, want);
    return sg_ptx_text(t, "sg_u%u_of_u%u(%s)", want, have, text);
}

const char *sg_ptx_value_of(sg_ptx_translator_t *t, const sg_ptx_operand_t *operand, uint32_t bits)
{
    switch (operand->kind) {
    case SG_PTX_REGISTER: {
        const char *text = sg_ptx_text(t, "%sr%u", operand->negated ? "~" : "", operand->number);
        return cut(t, text, sg_ptx_width(operand->type), bits);
    }
    case SG_PTX_IMMEDIATE:
        return immediate(t, operand->bits, bits);
    case SG_PTX_SPECIAL_REGISTER:
        return cut(t, special(t, operand->number), sg_ptx_width(operand->type), bits);
    case SG_PTX_SYMBOL: {
        const sg_ptx_variable_t *variable = operand->variable;
        if (operand->function != NULL)
            return cut(t,
                       sg_ptx_text(t, "sg_all64((uint64_t)(uintptr_t)%s)",
                                   sg_ptx_function_name(t, operand->function)),
                       64, bits);
        if (bits < 64 && variable->space != SG_PTX_SPACE_SHARED)
            sg_ptx_refuse(t, "the address of '%s' in %u bits", variable->name, bits);
        return cut(t, variable_address(t, variable, operand->offset), 64, bits);
    }
    default:
        sg_ptx_refuse(t, "an operand of this kind");
    }
}

const char *sg_ptx_value(sg_ptx_translator_t *t, uint32_t i, uint32_t bits)
{
    return sg_ptx_value_of(t, &t->insn->operands[i], bits);
}

const char *sg_ptx_mask_of(sg_ptx_translator_t *t, uint32_t i)
{
    return sg_ptx_value(t, i, 1);
}

const char *sg_ptx_extend(sg_ptx_translator_t *t, const char *text, sg_ptx_type_t from, uint32_t bits)
{
    uint32_t have = sg_ptx_width(from);
    char sign = sg_ptx_sign_letter(from);
    if (sg_ptx_type_bits(from) == 8)
        text = sg_ptx_text(t, "sg_%c8_to_16(%s)", sign, text);
    return have == bits ? text
                        : sg_ptx_text(t, "sg_u%u_of_%c%u(%s)", bits, have < bits ? sign : 'u', have, text);
}

void sg_ptx_result(sg_ptx_translator_t *t, const sg_ptx_operand_t *operand, uint32_t bits, bool is_signed,
                   const char *text)
{
    if (operand->kind == SG_PTX_SINK || operand->kind == SG_PTX_NONE)
        return;
    uint32_t have = sg_ptx_width(operand->type);
    if (have > bits)
        text = have == 128 ? sg_ptx_text(t, "(sg_v128){%s, sg_all64(0)}", text)
                           : sg_ptx_text(t, "sg_u%u_of_%c%u(%s)", have, is_signed ? 's' : 'u', bits, text);
    else if (have < bits)
        sg_ptx_refuse(t, "a result of %u bits in a register of %u", bits, have);
    if (t->local[operand->number] && !t->insn->guarded)
        sg_ptx_line(t, "r%u = %s;", operand->number, text);
    else
        sg_ptx_line(t, "r%u = sg_set%u(%s, %s, r%u);", operand->number, have, t->mask, text, operand->number);
}

void sg_ptx_result_mask(sg_ptx_translator_t *t, const sg_ptx_operand_t *operand, const char *text)
{
    if (operand->kind == SG_PTX_SINK || operand->kind == SG_PTX_NONE)
        return;
    if (t->local[operand->number] && !t->insn->guarded)
        sg_ptx_line(t, "r%u = %s;", operand->number, text);
    else
        sg_ptx_line(t, "r%u = sg_set1(%s, %s, r%u);", operand->number, t->mask, text, operand->number);
}

static bool is_shared(sg_ptx_modifier_t space)
{
    return space == SG_PTX_SPACE_SHARED || space == SG_PTX_SPACE_SHARED_CTA ||
           space == SG_PTX_SPACE_SHARED_CLUSTER;
}

const char *sg_ptx_address(sg_ptx_translator_t *t, const sg_ptx_operand_t *operand, sg_ptx_modifier_t space)
{
    uint64_t offset = (uint64_t)operand->offset;
    const char *at;
    uint32_t bits = 64;
    if (operand->variable != NULL) {
        at = variable_address(t, operand->variable, operand->offset);
    } else if (operand->based) {
        bits = sg_ptx_type_bits(operand->type);
        at = sg_ptx_text(t, "r%u", operand->number);
        if (offset)
            at = sg_ptx_text(t, "sg_add_b%u(%s, sg_all%u((uint%u_t)UINT64_C(%" PRIu64 ")))", bits, at, bits,
                             bits, offset);
    } else {
        at = sg_ptx_text(t, "sg_all64(UINT64_C(%" PRIu64 "))", offset);
    }
    if (is_shared(space))
        return sg_ptx_text(t, "sg_shared%u(w, %s)", bits, at);
    if (bits != 64)
        sg_ptx_refuse(t, "an address of 32 bits outside shared memory");
    return at;
}
