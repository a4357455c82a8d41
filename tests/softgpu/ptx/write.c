/* write.c: a module as PTX again. Inside a function, registers and variables get names of their own: scopes are gone. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "softgpu/ptx/internal.h"

typedef struct sg_ptx_writer {
    FILE *out;
    const sg_ptx_module_t *module;
    const sg_ptx_function_t *function;
    uint32_t next_table;
    uint32_t source_file, source_line; /* of the last .loc */
} sg_ptx_writer_t;

static const char *const linkages[] = {"", ".visible ", ".extern ", ".weak ", ".common "};

/* Variables of the module and parameters keep their names; those of scopes may share one. */
static void write_variable_name(const sg_ptx_writer_t *w, const sg_ptx_variable_t *variable)
{
    for (uint32_t i = 0; w->function != NULL && i < w->function->variable_count; i++)
        if (w->function->variables[i] == variable) {
            fprintf(w->out, "$V%u", i);
            return;
        }
    fputs(variable->name, w->out);
}

static void write_register(const sg_ptx_writer_t *w, uint32_t number)
{
    const sg_ptx_range_t *range = sg_ptx_register(w->function, number);
    fprintf(w->out, "%%v%u_%u", (unsigned)(range - w->function->ranges), number - range->first);
}

/* Its space, type, name and size; as a parameter, its hint. */
static void write_variable(const sg_ptx_writer_t *w, const sg_ptx_variable_t *variable)
{
    uint32_t each = sg_ptx_type_bits(variable->type) / 8;
    fprintf(w->out, ".%s .align %u%s .%s", sg_ptx_modifier_text(variable->space), variable->align_bytes,
            variable->managed ? " .attribute(.managed)" : "", sg_ptx_type_text(variable->type));
    if (variable->pointer) {
        fputs(" .ptr", w->out);
        if (variable->pointer_space != SG_PTX_ABSENT)
            fprintf(w->out, " .%s", sg_ptx_modifier_text(variable->pointer_space));
        fprintf(w->out, " .align %u", variable->pointer_align_bytes);
    }
    fputc(' ', w->out);
    write_variable_name(w, variable);
    if (variable->array && variable->bytes == 0)
        fputs("[]", w->out);
    else if (variable->array || variable->bytes != each)
        fprintf(w->out, "[%llu]", (unsigned long long)(variable->bytes / each));
}

static void write_relocation(const sg_ptx_writer_t *w, const sg_ptx_relocation_t *relocation, uint32_t each)
{
    bool masked = relocation->bytes < each || relocation->bytes == 1;
    const char *name = relocation->variable != NULL ? relocation->variable->name : relocation->function->name;
    if (masked)
        fprintf(w->out, "0x%llx(", 0xFFull << relocation->shift_bits);
    fprintf(w->out, relocation->generic ? "generic(%s)+%lld" : "%s+%lld", name,
            (long long)relocation->addend);
    if (masked)
        fputc(')', w->out);
}

static void write_image(const sg_ptx_writer_t *w, const sg_ptx_variable_t *variable)
{
    uint32_t each = sg_ptx_type_bits(variable->type) / 8, next = 0;
    bool real = sg_ptx_type_class(variable->type) == 'F';
    fputs(variable->array || variable->bytes != each ? " = {" : " = ", w->out);
    for (uint64_t at = 0; at + each <= variable->image_bytes; at += each) {
        uint64_t bits = 0;
        fputs(at ? ", " : "", w->out);
        memcpy(&bits, variable->image + at, each < 8 ? each : 8);
        if (next < variable->relocation_count && variable->relocations[next].offset_bytes == at)
            write_relocation(w, &variable->relocations[next++], each);
        else
            fprintf(w->out, real ? each == 4 ? "0f%08llx" : "0d%016llx" : "%llu", (unsigned long long)bits);
    }
    fputs(variable->array || variable->bytes != each ? "}" : "", w->out);
}

static void write_parameters(const sg_ptx_writer_t *w, sg_ptx_variable_t *const *parameters, uint32_t count)
{
    fputc('(', w->out);
    for (uint32_t i = 0; i < count; i++) {
        fputs(i ? ", " : "", w->out);
        write_variable(w, parameters[i]);
    }
    fputc(')', w->out);
}

static void write_dimensions(const sg_ptx_writer_t *w, const char *word, const uint32_t size[3])
{
    if (size[0])
        fprintf(w->out, " .%s %u, %u, %u", word, size[0], size[1], size[2]);
}

static void write_head(const sg_ptx_writer_t *w, const sg_ptx_function_t *function)
{
    fprintf(w->out, "%s%s ", linkages[function->linkage], function->entry ? ".entry" : ".func");
    if (function->prototype.return_count)
        write_parameters(w, function->prototype.returns, function->prototype.return_count);
    fprintf(w->out, " %s", function->name);
    write_parameters(w, function->prototype.parameters, function->prototype.parameter_count);
    write_dimensions(w, "maxntid", function->max_threads);
    write_dimensions(w, "reqntid", function->required_threads);
    write_dimensions(w, "reqnctapercluster", function->required_cluster);
    if (function->min_blocks)
        fprintf(w->out, " .minnctapersm %u", function->min_blocks);
    if (function->max_registers)
        fprintf(w->out, " .maxnreg %u", function->max_registers);
    fputs(function->prototype.noreturn ? " .noreturn" : "", w->out);
}

/* ---- instructions ---- */
static void write_special(const sg_ptx_writer_t *w, uint32_t number)
{
    static const struct {
        const char *text;
        uint32_t first, width;
    } specials[] = {
#define SPECIAL(id, text, type, width) {text, SG_PTX_SPECIAL_##id, width},
        SG_PTX_SPECIALS(SPECIAL)
#undef SPECIAL
    };
    for (size_t i = 0; i < sizeof specials / sizeof *specials; i++)
        if (number - specials[i].first < specials[i].width) {
            fputs(specials[i].text, w->out);
            if (specials[i].width > 1)
                fprintf(w->out, ".%c", (char)('x' + number - specials[i].first));
        }
}

static void write_offset(const sg_ptx_writer_t *w, const sg_ptx_operand_t *operand, bool always)
{
    if (operand->offset || always)
        fprintf(w->out, "+%lld", (long long)operand->offset);
}

/* But for the closing bracket. */
static void write_address(const sg_ptx_writer_t *w, const sg_ptx_operand_t *operand)
{
    fputc('[', w->out);
    if (operand->based)
        write_register(w, operand->number);
    else if (operand->variable != NULL)
        write_variable_name(w, operand->variable);
    if (operand->based || operand->variable != NULL)
        write_offset(w, operand, false);
    else
        fprintf(w->out, "%lld", (long long)operand->offset);
}

static void write_operand(const sg_ptx_writer_t *w, const sg_ptx_operand_t *operand)
{
    fputs(operand->negated ? "!" : "", w->out);
    switch (operand->kind) {
    case SG_PTX_REGISTER:
        write_register(w, operand->number);
        break;
    case SG_PTX_IMMEDIATE:
        if (operand->type == SG_PTX_F32)
            fprintf(w->out, "0f%08llx", (unsigned long long)operand->bits);
        else if (operand->type == SG_PTX_F64)
            fprintf(w->out, "0d%016llx", (unsigned long long)operand->bits);
        else
            fprintf(w->out, "%llu", (unsigned long long)operand->bits);
        break;
    case SG_PTX_SPECIAL_REGISTER:
        write_special(w, operand->number);
        break;
    case SG_PTX_SYMBOL:
        if (operand->variable != NULL)
            write_variable_name(w, operand->variable);
        else
            fputs(operand->function->name, w->out);
        write_offset(w, operand, false);
        break;
    case SG_PTX_ADDRESS:
        write_address(w, operand);
        fputc(']', w->out);
        break;
    case SG_PTX_VECTOR:
        for (uint32_t i = 0; i < operand->count; i++) {
            fputs(i ? ", " : "{", w->out);
            write_operand(w, &operand->elements[i]);
        }
        fputc('}', w->out);
        break;
    case SG_PTX_SINK:
        fputc('_', w->out);
        break;
    case SG_PTX_LABEL:
        fprintf(w->out, "$B%u", operand->number);
        break;
    case SG_PTX_JUMP_TABLE:
        fprintf(w->out, "$T%u", w->next_table);
        break;
    default:
        break;
    }
}

static void write_modifiers(const sg_ptx_writer_t *w, const sg_ptx_insn_t *insn)
{
    const sg_ptx_form_t *form = &sg_ptx_forms(NULL)[insn->form];
    uint32_t type = 0;
    for (uint32_t g = 0; g < form->group_count; g++) {
        uint8_t kind = form->groups[g].kind;
        if (kind == SG_PTX_KIND_TYPE)
            fprintf(w->out, ".%s", sg_ptx_type_text(insn->type[type++]));
        else if (kind == SG_PTX_KIND_SHAPE)
            fprintf(w->out, ".m%un%uk%u", insn->shape[0], insn->shape[1], insn->shape[2]);
        else if (insn->modifier[kind] != SG_PTX_ABSENT)
            fprintf(w->out, ".%s", sg_ptx_modifier_text(insn->modifier[kind]));
    }
}

static void write_list(const sg_ptx_writer_t *w, const sg_ptx_operand_t *operands, uint32_t count)
{
    fputc('(', w->out);
    for (uint32_t i = 0; i < count; i++) {
        fputs(i ? ", " : "", w->out);
        write_operand(w, &operands[i]);
    }
    fputc(')', w->out);
}

static void write_call(const sg_ptx_writer_t *w, const sg_ptx_call_t *call)
{
    fputc(' ', w->out);
    if (call->return_count) {
        write_list(w, call->returns, call->return_count);
        fputs(", ", w->out);
    }
    if (call->callee != NULL)
        fputs(call->callee->name, w->out);
    else
        write_operand(w, &call->pointer);
    fputs(", ", w->out);
    write_list(w, call->arguments, call->argument_count);
    if (call->callee == NULL)
        fprintf(w->out, ", $T%u", w->next_table);
}

/* What an instruction refers to by a label of its own: jump table, prototype, callees. */
static void write_label_of(const sg_ptx_writer_t *w, const sg_ptx_insn_t *insn)
{
    if (insn->opcode == SG_PTX_OP_BRX_IDX) {
        fprintf(w->out, "$T%u: .branchtargets", w->next_table);
        for (uint32_t i = 0; i < insn->operands[1].count; i++)
            fprintf(w->out, "%s $B%u", i ? "," : "", insn->operands[1].elements[i].number);
        fputs(";\n", w->out);
    } else if (insn->call != NULL && insn->call->callee == NULL && insn->call->target_count) {
        fprintf(w->out, "$T%u: .calltargets", w->next_table);
        for (uint32_t i = 0; i < insn->call->target_count; i++)
            fprintf(w->out, "%s %s", i ? "," : "", insn->call->targets[i]->name);
        fputs(";\n", w->out);
    } else if (insn->call != NULL && insn->call->callee == NULL) {
        const sg_ptx_prototype_t *prototype = insn->call->prototype;
        fprintf(w->out, "$T%u: .callprototype ", w->next_table);
        write_parameters(w, prototype->returns, prototype->return_count);
        fputs(" _ ", w->out);
        write_parameters(w, prototype->parameters, prototype->parameter_count);
        fprintf(w->out, "%s;\n", prototype->noreturn ? " .noreturn" : "");
    }
}

static void write_insn(sg_ptx_writer_t *w, const sg_ptx_insn_t *insn)
{
    if (insn->source_file != w->source_file || insn->source_line != w->source_line)
        fprintf(w->out, ".loc %u %u 0\n", insn->source_file, insn->source_line);
    w->source_file = insn->source_file;
    w->source_line = insn->source_line;
    write_label_of(w, insn);
    if (insn->guarded) {
        fputs(insn->guard_negated ? "@!" : "@", w->out);
        write_register(w, insn->guard);
        fputc(' ', w->out);
    }
    fputs(sg_ptx_opcode_text(insn->opcode), w->out);
    write_modifiers(w, insn);
    bool first = true;
    for (uint32_t i = 0; i < insn->operand_count; i++) {
        const sg_ptx_slot_t *slot = &sg_ptx_forms(NULL)[insn->form].slots[i];
        if (insn->operands[i].kind == SG_PTX_NONE)
            continue;
        /* Coordinates of a tensor are inside the brackets of the address before them. */
        const bool tensor = insn->opcode == SG_PTX_OP_CP_ASYNC_BULK_TENSOR;
        fputs(first ? " " : slot->second ? "|" : ", ", w->out);
        if (tensor && i + 1 < insn->operand_count && slot[1].count)
            write_address(w, &insn->operands[i]);
        else
            write_operand(w, &insn->operands[i]);
        if (tensor && slot->count)
            fputc(']', w->out);
        first = false;
    }
    if (insn->call != NULL)
        write_call(w, insn->call);
    fputs(";\n", w->out);
    w->next_table++;
}

static void write_body(sg_ptx_writer_t *w, const sg_ptx_function_t *function)
{
    w->function = function;
    w->source_file = w->source_line = 0;
    fputs("{\n", w->out);
    for (uint32_t i = 0; i < function->range_count; i++)
        fprintf(w->out, ".reg .%s %%v%u_<%u>;\n", sg_ptx_type_text(function->ranges[i].type), i,
                function->ranges[i].count);
    for (uint32_t i = 0; i < function->variable_count; i++) {
        write_variable(w, function->variables[i]);
        if (function->variables[i]->image != NULL)
            write_image(w, function->variables[i]);
        fputs(";\n", w->out);
    }
    for (uint32_t b = 0; b < function->block_count; b++) {
        fprintf(w->out, "$B%u:\n", b);
        for (uint32_t i = 0; i < function->blocks[b].count; i++)
            write_insn(w, &function->insns[function->blocks[b].first + i]);
    }
    fputs("}\n", w->out);
    w->function = NULL;
}

static void write_module(sg_ptx_writer_t *w)
{
    const sg_ptx_module_t *module = w->module;
    fprintf(w->out, ".version %u.%u\n.target sm_%u", module->version[0], module->version[1], module->target);
    if (module->target_suffix)
        fputc(module->target_suffix, w->out);
    fprintf(w->out, "\n.address_size %u\n", module->address_bits);
    for (uint32_t i = 0; i < module->file_count; i++)
        if (module->files[i] != NULL)
            fprintf(w->out, ".file %u \"%s\"\n", i, module->files[i]);
    /* Functions are declared first: variables may begin with their addresses. */
    for (uint32_t i = 0; i < module->function_count; i++) {
        write_head(w, module->functions[i]);
        fputs(";\n", w->out);
    }
    for (uint32_t i = 0; i < module->variable_count; i++) {
        fputs(linkages[module->variables[i]->linkage], w->out);
        write_variable(w, module->variables[i]);
        if (module->variables[i]->image != NULL)
            write_image(w, module->variables[i]);
        fputs(";\n", w->out);
    }
    for (uint32_t i = 0; i < module->function_count; i++) {
        const sg_ptx_function_t *function = module->functions[i];
        if (function->defined) {
            write_head(w, function);
            write_body(w, function);
        }
        if (function->alias_of != NULL)
            fprintf(w->out, ".alias %s, %s;\n", function->name, function->alias_of->name);
    }
}

char *ptx_write(const sg_ptx_module_t *module)
{
    char *text = NULL;
    size_t bytes = 0;
    sg_ptx_writer_t writer = {.out = open_memstream(&text, &bytes), .module = module};
    if (writer.out == NULL)
        return NULL;
    write_module(&writer);
    if (fclose(writer.out) != 0) {
        free(text);
        return NULL;
    }
    return text;
}
