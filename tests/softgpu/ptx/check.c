/* check.c: invariants of modules, and comparing them. */
#include <stdlib.h>
#include <string.h>

#include "check.h"

#define REQUIRE(condition)                                                                                   \
    do                                                                                                       \
        if (!(condition))                                                                                    \
            return #condition;                                                                               \
    while (0)
#define CHECK(expression)                                                                                    \
    do {                                                                                                     \
        const char *wrong_ = expression;                                                                     \
        if (wrong_ != NULL)                                                                                  \
            return wrong_;                                                                                   \
    } while (0)

/* ---- invariants ---- */
static const char *check_operand(const sg_ptx_function_t *f, const sg_ptx_operand_t *o)
{
    const sg_ptx_range_t *range = NULL;
    REQUIRE(o->type < SG_PTX_TYPE_COUNT);
    switch (o->kind) {
    case SG_PTX_REGISTER:
        range = sg_ptx_register(f, o->number);
        REQUIRE(range != NULL && range->type == o->type);
        REQUIRE(o->number >= range->first && o->number - range->first < range->count);
        return NULL;
    case SG_PTX_IMMEDIATE:
        REQUIRE(sg_ptx_type_bits(o->type) <= 64);
        REQUIRE(sg_ptx_type_bits(o->type) == 64 || o->bits >> sg_ptx_type_bits(o->type) == 0);
        return NULL;
    case SG_PTX_SPECIAL_REGISTER:
        REQUIRE(o->number < SG_PTX_SPECIAL_COUNT);
        return NULL;
    case SG_PTX_SYMBOL:
        REQUIRE((o->variable != NULL) != (o->function != NULL));
        return NULL;
    case SG_PTX_ADDRESS:
        REQUIRE(!o->based || (o->variable == NULL && sg_ptx_register(f, o->number) != NULL));
        return NULL;
    case SG_PTX_VECTOR:
        REQUIRE(o->count >= 2);
        for (uint32_t i = 0; i < o->count; i++) {
            REQUIRE(o->elements[i].kind != SG_PTX_VECTOR);
            CHECK(check_operand(f, &o->elements[i]));
        }
        return NULL;
    case SG_PTX_LABEL:
        REQUIRE(o->number < f->block_count);
        return NULL;
    case SG_PTX_JUMP_TABLE:
        for (uint32_t i = 0; i < o->count; i++)
            REQUIRE(o->elements[i].kind == SG_PTX_LABEL && o->elements[i].number < f->block_count);
        return NULL;
    default:
        REQUIRE(o->kind == SG_PTX_NONE || o->kind == SG_PTX_SINK);
        return NULL;
    }
}

static const char *check_call(const sg_ptx_function_t *f, const sg_ptx_call_t *call)
{
    REQUIRE(call->prototype != NULL);
    REQUIRE(call->argument_count == call->prototype->parameter_count &&
            call->return_count == call->prototype->return_count);
    REQUIRE((call->callee != NULL) == (call->pointer.kind == SG_PTX_NONE));
    CHECK(check_operand(f, &call->pointer));
    for (uint32_t i = 0; i < call->argument_count; i++)
        CHECK(check_operand(f, &call->arguments[i]));
    for (uint32_t i = 0; i < call->return_count; i++)
        CHECK(check_operand(f, &call->returns[i]));
    return NULL;
}

static const char *check_insn(const sg_ptx_function_t *f, const sg_ptx_insn_t *insn)
{
    char form[512];
    const char *name = sg_ptx_opcode_text(insn->opcode);
    REQUIRE(insn->opcode < SG_PTX_OPCODE_COUNT && insn->line > 0);
    REQUIRE(strncmp(sg_ptx_form_text(insn->form, form, sizeof form), name, strlen(name)) == 0);
    REQUIRE(!insn->guarded || (sg_ptx_register(f, insn->guard) != NULL &&
                               sg_ptx_register(f, insn->guard)->type == SG_PTX_PRED));
    REQUIRE((insn->opcode == SG_PTX_OP_CALL) == (insn->call != NULL));
    for (uint32_t i = 0; i < SG_PTX_TYPES_MOST; i++)
        REQUIRE((insn->type[i] != SG_PTX_NO_TYPE) == (i < insn->type_count));
    for (uint32_t i = 0; i < insn->operand_count; i++)
        CHECK(check_operand(f, &insn->operands[i]));
    return insn->call != NULL ? check_call(f, insn->call) : NULL;
}

static const char *check_blocks(const sg_ptx_function_t *f)
{
    uint32_t next = 0;
    for (uint32_t b = 0; b < f->block_count; b++) {
        const sg_ptx_block_t *block = &f->blocks[b];
        REQUIRE(block->first == next && block->count > 0);
        REQUIRE(block->successor_count > 0);
        REQUIRE(block->join == SG_PTX_EXIT || (block->join < f->block_count && block->join != b));
        for (uint32_t i = 0; i < block->successor_count; i++)
            REQUIRE(block->successors[i] == SG_PTX_EXIT || block->successors[i] < f->block_count);
        next += block->count;
    }
    REQUIRE(next == f->insn_count);
    return NULL;
}

static const char *check_function(const sg_ptx_function_t *f)
{
    uint32_t registers = 0;
    REQUIRE(f->name != NULL && *f->name);
    REQUIRE(f->defined == (f->block_count > 0));
    for (uint32_t i = 0; i < f->range_count; i++) {
        REQUIRE(f->ranges[i].first == registers);
        registers += f->ranges[i].count;
    }
    REQUIRE(registers == f->register_count);
    for (uint32_t i = 0; i < f->insn_count; i++)
        CHECK(check_insn(f, &f->insns[i]));
    return check_blocks(f);
}

const char *ptx_check_module(const sg_ptx_module_t *module)
{
    for (uint32_t i = 0; i < module->variable_count; i++) {
        const sg_ptx_variable_t *v = module->variables[i];
        REQUIRE(v->align_bytes && (v->align_bytes & (v->align_bytes - 1)) == 0);
        REQUIRE(v->image_bytes <= v->bytes && (v->image != NULL) == (v->image_bytes > 0));
        for (uint32_t r = 0; r < v->relocation_count; r++)
            REQUIRE(v->relocations[r].offset_bytes + v->relocations[r].bytes <= v->image_bytes);
    }
    for (uint32_t i = 0; i < module->function_count; i++)
        CHECK(check_function(module->functions[i]));
    return NULL;
}

/* ---- the same ---- */
static const char *same_operand(const sg_ptx_operand_t *a, const sg_ptx_operand_t *b)
{
    REQUIRE(a->kind == b->kind && a->type == b->type && a->negated == b->negated && a->count == b->count);
    REQUIRE(a->number == b->number && a->based == b->based);
    REQUIRE((a->variable == NULL) == (b->variable == NULL) && (a->function == NULL) == (b->function == NULL));
    if (a->variable != NULL)
        REQUIRE(a->variable->space == b->variable->space && a->variable->bytes == b->variable->bytes);
    if (a->function != NULL)
        REQUIRE(strcmp(a->function->name, b->function->name) == 0);
    if (a->kind != SG_PTX_VECTOR && a->kind != SG_PTX_JUMP_TABLE) {
        REQUIRE(a->bits == b->bits);
        return NULL;
    }
    for (uint32_t i = 0; i < a->count; i++)
        CHECK(same_operand(&a->elements[i], &b->elements[i]));
    return NULL;
}

static const char *same_insn(const sg_ptx_insn_t *a, const sg_ptx_insn_t *b)
{
    REQUIRE(a->opcode == b->opcode && a->form == b->form && a->operand_count == b->operand_count);
    REQUIRE(a->source_line == b->source_line && a->source_file == b->source_file);
    REQUIRE(a->guarded == b->guarded && a->guard_negated == b->guard_negated && a->guard == b->guard);
    REQUIRE(memcmp(a->modifier, b->modifier, sizeof a->modifier) == 0 &&
            memcmp(a->type, b->type, sizeof a->type) == 0);
    REQUIRE(memcmp(a->shape, b->shape, sizeof a->shape) == 0);
    for (uint32_t i = 0; i < a->operand_count; i++)
        CHECK(same_operand(&a->operands[i], &b->operands[i]));
    if (a->call == NULL)
        return NULL;
    REQUIRE((a->call->callee == NULL) == (b->call->callee == NULL) &&
            a->call->target_count == b->call->target_count);
    REQUIRE(a->call->argument_count == b->call->argument_count &&
            a->call->return_count == b->call->return_count);
    for (uint32_t i = 0; i < a->call->argument_count; i++)
        CHECK(same_operand(&a->call->arguments[i], &b->call->arguments[i]));
    for (uint32_t i = 0; i < a->call->return_count; i++)
        CHECK(same_operand(&a->call->returns[i], &b->call->returns[i]));
    return same_operand(&a->call->pointer, &b->call->pointer);
}

static const char *same_variable(const sg_ptx_variable_t *a, const sg_ptx_variable_t *b)
{
    REQUIRE(a->space == b->space && a->type == b->type && a->align_bytes == b->align_bytes);
    REQUIRE(a->bytes == b->bytes && a->managed == b->managed && a->linkage == b->linkage);
    REQUIRE(a->pointer == b->pointer && a->pointer_space == b->pointer_space &&
            a->pointer_align_bytes == b->pointer_align_bytes);
    REQUIRE(a->image_bytes == b->image_bytes && a->relocation_count == b->relocation_count);
    REQUIRE(a->image_bytes == 0 || memcmp(a->image, b->image, a->image_bytes) == 0);
    for (uint32_t i = 0; i < a->relocation_count; i++) {
        const sg_ptx_relocation_t *r = &a->relocations[i], *s = &b->relocations[i];
        REQUIRE(r->offset_bytes == s->offset_bytes && r->addend == s->addend &&
                r->shift_bits == s->shift_bits);
        REQUIRE(r->bytes == s->bytes && r->generic == s->generic);
    }
    return NULL;
}

static const char *same_variables(sg_ptx_variable_t *const *a, uint32_t a_count, sg_ptx_variable_t *const *b,
                                  uint32_t b_count)
{
    REQUIRE(a_count == b_count);
    for (uint32_t i = 0; i < a_count; i++)
        CHECK(same_variable(a[i], b[i]));
    return NULL;
}

static const char *same_function(const sg_ptx_function_t *a, const sg_ptx_function_t *b)
{
    REQUIRE(strcmp(a->name, b->name) == 0 && a->linkage == b->linkage && a->entry == b->entry &&
            a->defined == b->defined);
    REQUIRE(a->prototype.noreturn == b->prototype.noreturn && a->min_blocks == b->min_blocks &&
            a->max_registers == b->max_registers);
    REQUIRE(memcmp(a->max_threads, b->max_threads, sizeof a->max_threads) == 0);
    REQUIRE(memcmp(a->required_threads, b->required_threads, sizeof a->required_threads) == 0);
    REQUIRE(memcmp(a->required_cluster, b->required_cluster, sizeof a->required_cluster) == 0);
    REQUIRE((a->alias_of == NULL) == (b->alias_of == NULL) && a->range_count == b->range_count);
    REQUIRE(a->insn_count == b->insn_count && a->block_count == b->block_count);
    CHECK(same_variables(a->prototype.parameters, a->prototype.parameter_count, b->prototype.parameters,
                         b->prototype.parameter_count));
    CHECK(same_variables(a->prototype.returns, a->prototype.return_count, b->prototype.returns,
                         b->prototype.return_count));
    CHECK(same_variables(a->variables, a->variable_count, b->variables, b->variable_count));
    for (uint32_t i = 0; i < a->range_count; i++)
        REQUIRE(a->ranges[i].type == b->ranges[i].type && a->ranges[i].count == b->ranges[i].count);
    for (uint32_t i = 0; i < a->insn_count; i++)
        CHECK(same_insn(&a->insns[i], &b->insns[i]));
    for (uint32_t i = 0; i < a->block_count; i++)
        REQUIRE(a->blocks[i].count == b->blocks[i].count && a->blocks[i].join == b->blocks[i].join);
    return NULL;
}

const char *ptx_check_same(const sg_ptx_module_t *a, const sg_ptx_module_t *b)
{
    REQUIRE(a->version[0] == b->version[0] && a->version[1] == b->version[1]);
    REQUIRE(a->target == b->target && a->target_suffix == b->target_suffix && a->file_count == b->file_count);
    REQUIRE(a->function_count == b->function_count);
    CHECK(same_variables(a->variables, a->variable_count, b->variables, b->variable_count));
    for (uint32_t i = 0; i < a->function_count; i++)
        CHECK(same_function(a->functions[i], b->functions[i]));
    return NULL;
}

const char *ptx_check_written(const sg_ptx_module_t *module)
{
    static sg_ptx_error_t error;
    const char *wrong;
    sg_ptx_module_t *again;
    char *text = ptx_write(module), *twice = NULL;
    if (text == NULL)
        return "no memory";
    if (!sg_ptx_read(text, strlen(text), &again, &error)) {
        free(text);
        return error.text;
    }
    wrong = ptx_check_same(module, again);
    if (wrong == NULL && ((twice = ptx_write(again)) == NULL || strcmp(text, twice) != 0))
        wrong = "written again, it is another text";
    sg_ptx_free(again);
    free(twice);
    free(text);
    return wrong;
}
