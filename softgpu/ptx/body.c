/* body.c: what stands between the braces of a function: registers, variables, labels, instructions, scopes. */
#include <stdio.h>
#include <string.h>

#include "softgpu/ptx/internal.h"

#define REGISTERS_MOST (1u << 24)
#define VECTOR_MOST    256

/* ---- registers ---- */
static void read_register(sg_ptx_reader_t *reader, sg_ptx_type_t type)
{
    sg_ptx_text_t text = sg_ptx_expect_name(reader, "a register's name");
    uint32_t count = 1;
    bool numbered = sg_ptx_take(reader, '<');
    sg_ptx_range_t *range = sg_ptx_add(reader, &reader->ranges, sizeof *range);
    *range = (sg_ptx_range_t){
        .name = sg_ptx_copy_text(reader, text), .type = type, .first = reader->register_count};
    sg_ptx_text_t key = text;
    if (numbered) {
        count = sg_ptx_expect_count(reader, REGISTERS_MOST, "a number of registers");
        char *marked = sg_ptx_alloc(reader, (size_t)text.length + 2);
        memcpy(marked, text.at, text.length);
        marked[text.length] = '<';
        key = (sg_ptx_text_t){marked, text.length + 1};
    }
    sg_ptx_name_t *name =
        sg_ptx_declare(reader, key, numbered ? SG_PTX_NAME_RANGE : SG_PTX_NAME_REGISTER, NULL);
    name->type = type;
    name->number = numbered ? reader->ranges.count - 1 : reader->register_count;
    if (numbered)
        sg_ptx_expect(reader, '>');
    range->count = count;
    range->numbered = numbered;
    reader->register_count += count;
    if (reader->register_count > REGISTERS_MOST)
        sg_ptx_fail(reader, "more than %u registers", REGISTERS_MOST);
}

/* .reg .b32 %r<5>, %a; */
static void read_registers(sg_ptx_reader_t *reader)
{
    sg_ptx_next(reader);
    sg_ptx_type_t type =
        reader->token.kind == SG_PTX_DOTTED ? sg_ptx_type_find(reader->token.text) : SG_PTX_NO_TYPE;
    char class = sg_ptx_type_class(type);
    if (type == SG_PTX_NO_TYPE || class == 'P')
        sg_ptx_fail(reader, "no registers of this type here: '%.*s'", (int)reader->token.text.length,
                    reader->token.text.at);
    sg_ptx_next(reader);
    do
        read_register(reader, type);
    while (sg_ptx_take(reader, ','));
    sg_ptx_expect(reader, ';');
}

/* %r12, of a range %r<20>. */
static const sg_ptx_name_t *find_numbered(const sg_ptx_reader_t *reader, sg_ptx_text_t text, uint32_t *number)
{
    char key[256];
    const sg_ptx_range_t *ranges = reader->ranges.items;
    uint64_t index = 0, unit = 1;
    for (uint32_t length = text.length; length > 1 && text.length - length < 9; unit *= 10) {
        char digit = text.at[--length];
        if (digit < '0' || digit > '9')
            break;
        index += (uint64_t)(digit - '0') * unit;
        if ((digit == '0' && text.length - length > 1) || length + 1 > sizeof key)
            continue;
        memcpy(key, text.at, length);
        key[length] = '<';
        const sg_ptx_name_t *name = sg_ptx_lookup(reader, (sg_ptx_text_t){key, length + 1});
        if (name != NULL && index < ranges[name->number].count) {
            *number = ranges[name->number].first + (uint32_t)index;
            return name;
        }
    }
    return NULL;
}

const sg_ptx_range_t *sg_ptx_register(const sg_ptx_function_t *function, uint32_t number)
{
    uint32_t low = 0, high = function->range_count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        const sg_ptx_range_t *range = &function->ranges[middle];
        if (number < range->first)
            high = middle;
        else if (number - range->first >= range->count)
            low = middle + 1;
        else
            return range;
    }
    return NULL;
}

/* ---- operands as written ---- */
static void find_name(sg_ptx_reader_t *reader, sg_ptx_raw_t *raw)
{
    static const sg_ptx_name_t a_register[SG_PTX_TYPE_COUNT] = {
#define TYPE(id, text, class, bits) [SG_PTX_##id] = {.kind = SG_PTX_NAME_REGISTER, .type = SG_PTX_##id},
        SG_PTX_TYPES(TYPE)
#undef TYPE
    };
    raw->name = sg_ptx_lookup(reader, raw->text);
    if (raw->name != NULL) {
        raw->number = raw->name->number;
    } else if ((raw->name = find_numbered(reader, raw->text, &raw->number)) != NULL) {
        raw->name = &a_register[raw->name->type];
    }
    if (raw->name == NULL || raw->name->kind != SG_PTX_NAME_SPECIAL || raw->name->thing == NULL)
        return;
    /* One of three: %tid.x. */
    if (reader->token.kind != SG_PTX_DOTTED || reader->token.text.length != 1 ||
        *reader->token.text.at < 'x' || *reader->token.text.at > 'z')
        sg_ptx_fail(reader, "'%.*s' has .x, .y and .z", (int)raw->text.length, raw->text.at);
    raw->number += (uint32_t)(*reader->token.text.at - 'x');
    sg_ptx_next(reader);
}

static int64_t read_offset(sg_ptx_reader_t *reader, bool negative)
{
    negative ^= sg_ptx_take(reader, '-');
    if (reader->token.kind != SG_PTX_INTEGER)
        sg_ptx_fail(reader, "a number of bytes is expected");
    uint64_t bits = negative ? 0 - reader->token.bits : reader->token.bits;
    sg_ptx_next(reader);
    return (int64_t)bits;
}

/* Behind a name: + or - and a number. */
static void read_offset_if(sg_ptx_reader_t *reader, sg_ptx_raw_t *raw)
{
    if (sg_ptx_take(reader, '+')) {
        raw->offset = read_offset(reader, false);
        raw->offset_given = true;
    } else if (sg_ptx_take(reader, '-')) {
        raw->offset = read_offset(reader, true);
        raw->offset_given = true;
    }
}

static void read_vector(sg_ptx_reader_t *reader, sg_ptx_raw_t *raw);

static void read_address(sg_ptx_reader_t *reader, sg_ptx_raw_t *raw)
{
    raw->kind = SG_PTX_RAW_ADDRESS;
    if (reader->token.kind == SG_PTX_NAME) {
        raw->text = sg_ptx_expect_name(reader, "a name");
        find_name(reader, raw);
        read_offset_if(reader, raw);
    } else {
        raw->offset = read_offset(reader, false);
    }
    if (sg_ptx_take(reader, ',')) {
        sg_ptx_raw_t inside = {0};
        sg_ptx_expect(reader, '{');
        read_vector(reader, &inside);
        raw->elements = inside.elements;
        raw->count = inside.count;
    }
    sg_ptx_expect(reader, ']');
}

static void read_raw(sg_ptx_reader_t *reader, sg_ptx_raw_t *raw);

static void read_vector(sg_ptx_reader_t *reader, sg_ptx_raw_t *raw)
{
    sg_ptx_raw_t elements[VECTOR_MOST];
    raw->kind = SG_PTX_RAW_VECTOR;
    if (reader->nesting++)
        sg_ptx_fail(reader, "a vector in a vector");
    do {
        if (raw->count == VECTOR_MOST)
            sg_ptx_fail(reader, "a vector of more than %u", VECTOR_MOST);
        memset(&elements[raw->count], 0, sizeof *elements);
        read_raw(reader, &elements[raw->count++]);
    } while (sg_ptx_take(reader, ','));
    sg_ptx_expect(reader, '}');
    reader->nesting--;
    sg_ptx_raw_t *copy = sg_ptx_alloc(reader, raw->count * sizeof *copy);
    memcpy(copy, elements, raw->count * sizeof *copy);
    raw->elements = copy;
}

static void read_raw(sg_ptx_reader_t *reader, sg_ptx_raw_t *raw)
{
    if (sg_ptx_take(reader, '['))
        return read_address(reader, raw);
    if (sg_ptx_take(reader, '{'))
        return read_vector(reader, raw);
    raw->negated = sg_ptx_take(reader, '!');
    bool minus = sg_ptx_take(reader, '-');
    sg_ptx_token_t token = reader->token;
    raw->text = token.text;
    if (token.kind == SG_PTX_INTEGER) {
        raw->kind = SG_PTX_RAW_INTEGER;
        raw->bits = minus ? 0 - token.bits : token.bits;
        sg_ptx_next(reader);
    } else if (token.kind == SG_PTX_FLOAT) {
        raw->kind = SG_PTX_RAW_FLOAT;
        raw->single = token.single;
        raw->bits = minus ? token.bits ^ (token.single ? 1ull << 31 : 1ull << 63) : token.bits;
        sg_ptx_next(reader);
    } else if (token.kind == SG_PTX_NAME && !minus) {
        sg_ptx_next(reader);
        if (sg_ptx_text_is(raw->text, "WARP_SZ")) {
            raw->kind = SG_PTX_RAW_INTEGER;
            raw->bits = 32;
            return;
        }
        raw->kind = SG_PTX_RAW_NAME;
        find_name(reader, raw);
        read_offset_if(reader, raw);
    } else {
        sg_ptx_fail(reader, "an operand is expected, not '%.*s'", (int)token.text.length, token.text.at);
    }
}

/* ---- calls ---- */
static const sg_ptx_operand_t *read_call_operands(sg_ptx_reader_t *reader, uint32_t *count, bool written)
{
    sg_ptx_list_t list = {0};
    if (!sg_ptx_take(reader, ')')) {
        do {
            sg_ptx_raw_t raw = {0};
            read_raw(reader, &raw);
            sg_ptx_operand_t *out = sg_ptx_add(reader, &list, sizeof *out);
            bool named = raw.kind == SG_PTX_RAW_NAME && raw.name != NULL && !raw.offset_given && !raw.negated;
            if (named && raw.name->kind == SG_PTX_NAME_REGISTER) {
                *out = (sg_ptx_operand_t){
                    .kind = SG_PTX_REGISTER, .type = (uint8_t)raw.name->type, .number = raw.number};
            } else if (named && raw.name->kind == SG_PTX_NAME_VARIABLE &&
                       ((const sg_ptx_variable_t *)raw.name->thing)->space == SG_PTX_SPACE_PARAM) {
                *out = (sg_ptx_operand_t){.kind = SG_PTX_SYMBOL, .variable = raw.name->thing};
            } else if (raw.kind == SG_PTX_RAW_INTEGER && !written) {
                *out = (sg_ptx_operand_t){.kind = SG_PTX_IMMEDIATE, .type = SG_PTX_B64, .bits = raw.bits};
            } else if (raw.kind == SG_PTX_RAW_FLOAT && !written) {
                *out = (sg_ptx_operand_t){
                    .kind = SG_PTX_IMMEDIATE, .type = raw.single ? SG_PTX_F32 : SG_PTX_F64, .bits = raw.bits};
            } else {
                sg_ptx_fail(reader, "a call takes registers, constants and variables in .param, not '%.*s'",
                            (int)raw.text.length, raw.text.at != NULL ? raw.text.at : "");
            }
        } while (sg_ptx_take(reader, ','));
        sg_ptx_expect(reader, ')');
    }
    *count = list.count;
    return list.items;
}

static void check_call_operands(sg_ptx_reader_t *reader, uint32_t line, const char *what,
                                const sg_ptx_operand_t *given, uint32_t given_count,
                                sg_ptx_variable_t *const *wanted, uint32_t wanted_count)
{
    if (given_count != wanted_count)
        sg_ptx_fail_at(reader, line, "this call has %u %s, the function %u", given_count, what, wanted_count);
    for (uint32_t i = 0; i < given_count; i++) {
        uint64_t bytes =
            given[i].kind == SG_PTX_SYMBOL ? given[i].variable->bytes : sg_ptx_type_bits(given[i].type) / 8;
        if (given[i].kind == SG_PTX_IMMEDIATE && given[i].type == SG_PTX_B64)
            continue; /* an integer, as wide as is needed */
        if (wanted[i]->bytes && bytes != wanted[i]->bytes)
            sg_ptx_fail_at(reader, line, "%s %u of this call: %llu bytes, the function has %llu", what, i + 1,
                           (unsigned long long)bytes, (unsigned long long)wanted[i]->bytes);
    }
}

/* call (returns), callee, (arguments), prototype or targets: from behind the opcode. */
static void read_call(sg_ptx_reader_t *reader, sg_ptx_insn_t *insn)
{
    sg_ptx_call_t *call = sg_ptx_alloc(reader, sizeof *call);
    insn->call = call;
    if (sg_ptx_take(reader, '(')) {
        call->returns = read_call_operands(reader, &call->return_count, true);
        sg_ptx_expect(reader, ',');
    }
    sg_ptx_raw_t callee = {0};
    callee.text = sg_ptx_expect_name(reader, "a function");
    find_name(reader, &callee);
    if (callee.name != NULL && callee.name->kind == SG_PTX_NAME_FUNCTION) {
        call->callee = callee.name->thing;
        call->prototype = &call->callee->prototype;
    } else if (callee.name != NULL && callee.name->kind == SG_PTX_NAME_REGISTER &&
               sg_ptx_type_bits(callee.name->type) >= 32 && sg_ptx_type_class(callee.name->type) != 'F') {
        call->pointer = (sg_ptx_operand_t){
            .kind = SG_PTX_REGISTER, .type = (uint8_t)callee.name->type, .number = callee.number};
    } else {
        sg_ptx_fail(reader, "no such function: '%.*s'", (int)callee.text.length, callee.text.at);
    }
    bool more = sg_ptx_take(reader, ',');
    if (more && sg_ptx_take(reader, '(')) {
        call->arguments = read_call_operands(reader, &call->argument_count, false);
        more = sg_ptx_take(reader, ',');
    }
    if (more) {
        sg_ptx_text_t text = sg_ptx_expect_name(reader, "a prototype");
        const sg_ptx_name_t *name = sg_ptx_lookup(reader, text);
        if (name != NULL && name->kind == SG_PTX_NAME_PROTOTYPE && call->callee == NULL) {
            call->prototype = name->thing;
        } else if (name != NULL && name->kind == SG_PTX_NAME_TARGETS && call->callee == NULL) {
            call->targets = name->thing;
            call->target_count = name->number;
            call->prototype = &call->targets[0]->prototype;
        } else {
            sg_ptx_fail(reader, "no such prototype: '%.*s'", (int)text.length, text.at);
        }
    }
    if (call->prototype == NULL)
        sg_ptx_fail(reader, "an indirect call names a prototype");
    const sg_ptx_prototype_t *prototype = call->prototype;
    check_call_operands(reader, insn->line, "results", call->returns, call->return_count, prototype->returns,
                        prototype->return_count);
    check_call_operands(reader, insn->line, "arguments", call->arguments, call->argument_count,
                        prototype->parameters, prototype->parameter_count);
}

/* ---- instructions ---- */
/* The opcode: as many of the words as make a known one. Returns how many modifiers it takes. */
static uint32_t find_opcode(sg_ptx_text_t first, const sg_ptx_text_t *dotted, uint32_t count,
                            sg_ptx_opcode_t *opcode)
{
    char text[64];
    uint32_t length = 0, taken = 0;
    *opcode = SG_PTX_OPCODE_COUNT;
    for (uint32_t i = 0; i <= count && i <= 3; i++) {
        sg_ptx_text_t word = i ? dotted[i - 1] : first;
        if (length + word.length + 2 > sizeof text)
            break;
        length += (uint32_t)snprintf(text + length, sizeof text - length, "%s%.*s", i ? "." : "",
                                     (int)word.length, word.at);
        sg_ptx_opcode_t found = sg_ptx_opcode_find(text);
        if (found != SG_PTX_OPCODE_COUNT) {
            *opcode = found;
            taken = i;
        }
    }
    return taken;
}

static void read_guard(sg_ptx_reader_t *reader, sg_ptx_insn_t *insn)
{
    sg_ptx_raw_t raw = {0};
    insn->guarded = true;
    insn->guard_negated = sg_ptx_take(reader, '!');
    raw.text = sg_ptx_expect_name(reader, "a predicate");
    find_name(reader, &raw);
    if (raw.name == NULL || raw.name->kind != SG_PTX_NAME_REGISTER || raw.name->type != SG_PTX_PRED)
        sg_ptx_fail(reader, "'%.*s' is no predicate", (int)raw.text.length, raw.text.at);
    insn->guard = raw.number;
}

/* An instruction as it is quoted: to its semicolon or the line's end. */
static sg_ptx_text_t rest_of(const sg_ptx_reader_t *reader, const char *begin)
{
    const char *end = begin;
    while (end < reader->end && *end != ';' && *end != '\n' && end - begin < 200)
        end++;
    return (sg_ptx_text_t){begin, (uint32_t)(end - begin)};
}

static void read_operands(sg_ptx_reader_t *reader, sg_ptx_raw_t *raws, uint32_t *count)
{
    bool second = false;
    if (sg_ptx_is_mark(reader, ';'))
        return;
    do {
        if (*count == SG_PTX_RAW_MOST)
            sg_ptx_fail(reader, "too many operands");
        raws[*count].second = second;
        sg_ptx_raw_t *raw = &raws[(*count)++];
        read_raw(reader, raw);
        if (raw->kind == SG_PTX_RAW_ADDRESS && raw->count && *count < SG_PTX_RAW_MOST)
            raws[(*count)++] =
                (sg_ptx_raw_t){.kind = SG_PTX_RAW_VECTOR, .elements = raw->elements, .count = raw->count};
        second = sg_ptx_take(reader, '|');
    } while (second || sg_ptx_take(reader, ','));
}

/* From behind its first word. */
static void read_instruction(sg_ptx_reader_t *reader, sg_ptx_insn_t *insn, sg_ptx_text_t first)
{
    sg_ptx_text_t dotted[SG_PTX_DOTTED_MOST];
    sg_ptx_raw_t raws[SG_PTX_RAW_MOST] = {0};
    sg_ptx_text_t text = rest_of(reader, first.at);
    uint32_t count = 0, raw_count = 0;
    sg_ptx_opcode_t opcode;
    for (; reader->token.kind == SG_PTX_DOTTED; sg_ptx_next(reader)) {
        if (count == SG_PTX_DOTTED_MOST)
            sg_ptx_fail(reader, "too many modifiers");
        dotted[count++] = reader->token.text;
    }
    uint32_t taken = find_opcode(first, dotted, count, &opcode);
    if (opcode == SG_PTX_OPCODE_COUNT)
        sg_ptx_fail_at(reader, insn->line, "no such instruction here: %.*s", (int)text.length, text.at);
    if (opcode != SG_PTX_OP_CALL)
        read_operands(reader, raws, &raw_count);
    sg_ptx_bind(reader, insn, opcode, dotted + taken, count - taken, raws, raw_count, text);
    if (opcode == SG_PTX_OP_CALL)
        read_call(reader, insn);
    sg_ptx_expect(reader, ';');
    insn->source_file = reader->source_file;
    insn->source_line = reader->source_line;
    *(sg_ptx_insn_t *)sg_ptx_add(reader, &reader->insns, sizeof *insn) = *insn;
}

/* ---- labels and what stands behind them ---- */
static void read_branch_targets(sg_ptx_reader_t *reader, sg_ptx_text_t text)
{
    sg_ptx_text_t names[1024];
    uint32_t count = 0, line = reader->token.line;
    do {
        if (count == sizeof names / sizeof *names)
            sg_ptx_fail(reader, "more than %u targets", count);
        names[count++] = sg_ptx_expect_name(reader, "a label");
    } while (sg_ptx_take(reader, ','));
    sg_ptx_operand_t *targets = sg_ptx_alloc(reader, count * sizeof *targets);
    for (uint32_t i = 0; i < count; i++) {
        targets[i].kind = SG_PTX_LABEL;
        *(sg_ptx_pending_t *)sg_ptx_add(reader, &reader->pending, sizeof(sg_ptx_pending_t)) =
            (sg_ptx_pending_t){
                .text = names[i], .operand = &targets[i], .line = line, .depth = reader->depth};
    }
    sg_ptx_declare(reader, text, SG_PTX_NAME_TABLE, targets)->number = count;
}

static void read_call_targets(sg_ptx_reader_t *reader, sg_ptx_text_t text)
{
    sg_ptx_list_t list = {0};
    do {
        sg_ptx_text_t callee = sg_ptx_expect_name(reader, "a function");
        const sg_ptx_name_t *name = sg_ptx_lookup(reader, callee);
        if (name == NULL || name->kind != SG_PTX_NAME_FUNCTION)
            sg_ptx_fail(reader, "no such function: '%.*s'", (int)callee.length, callee.at);
        *(sg_ptx_function_t **)sg_ptx_add(reader, &list, sizeof(sg_ptx_function_t *)) = name->thing;
    } while (sg_ptx_take(reader, ','));
    sg_ptx_declare(reader, text, SG_PTX_NAME_TARGETS, list.items)->number = list.count;
}

/* .callprototype (returns) _ (parameters) .noreturn */
static void read_call_prototype(sg_ptx_reader_t *reader, sg_ptx_text_t text)
{
    sg_ptx_prototype_t *prototype = sg_ptx_alloc(reader, sizeof *prototype);
    if (reader->token.kind == SG_PTX_MARK)
        prototype->returns = sg_ptx_read_parameters(reader, &prototype->return_count);
    sg_ptx_expect_name(reader, "'_'");
    if (sg_ptx_is_mark(reader, '('))
        prototype->parameters = sg_ptx_read_parameters(reader, &prototype->parameter_count);
    if (sg_ptx_is_dotted(reader, "noreturn")) {
        prototype->noreturn = true;
        sg_ptx_next(reader);
    }
    sg_ptx_declare(reader, text, SG_PTX_NAME_PROTOTYPE, prototype);
}

/* Behind the colon. */
static void read_label(sg_ptx_reader_t *reader, sg_ptx_text_t text)
{
    static const struct {
        const char *word;
        void (*read)(sg_ptx_reader_t *reader, sg_ptx_text_t text);
    } directives[] = {{"branchtargets", read_branch_targets},
                      {"calltargets", read_call_targets},
                      {"callprototype", read_call_prototype}};
    for (size_t i = 0; i < sizeof directives / sizeof *directives; i++)
        if (sg_ptx_is_dotted(reader, directives[i].word)) {
            sg_ptx_next(reader);
            directives[i].read(reader, text);
            sg_ptx_expect(reader, ';');
            return;
        }
    sg_ptx_declare(reader, text, SG_PTX_NAME_LABEL, NULL)->number = reader->insns.count;
}

/* Jumps of the scope that ends: to its labels, or to those further out. */
static void resolve_labels(sg_ptx_reader_t *reader, uint32_t first)
{
    sg_ptx_pending_t *pending = reader->pending.items;
    for (uint32_t i = first; i < reader->pending.count; i++) {
        if (pending[i].depth != reader->depth)
            continue;
        const sg_ptx_name_t *name = sg_ptx_lookup(reader, pending[i].text);
        if (name != NULL && name->kind == SG_PTX_NAME_LABEL) {
            pending[i].operand->number = name->number;
            pending[i].depth = 0;
        } else if (reader->depth > 1) {
            pending[i].depth--;
        } else {
            sg_ptx_fail_at(reader, pending[i].line, "no such label: '%.*s'", (int)pending[i].text.length,
                           pending[i].text.at);
        }
    }
}

/* ---- statements ---- */
static void read_location(sg_ptx_reader_t *reader) /* .loc file line column ... */
{
    uint32_t line = reader->token.line;
    sg_ptx_next(reader);
    reader->source_file = sg_ptx_expect_count(reader, UINT32_MAX, "a file's number");
    reader->source_line = sg_ptx_expect_count(reader, UINT32_MAX, "a line's number");
    if (reader->token.line == line)
        sg_ptx_skip_line(reader);
}

static void read_directive(sg_ptx_reader_t *reader)
{
    static const char *const spaces[] = {"local", "shared", "param", "global", "const"};
    for (size_t i = 0; i < sizeof spaces / sizeof *spaces; i++)
        if (sg_ptx_is_dotted(reader, spaces[i]))
            return sg_ptx_read_variables(reader, SG_PTX_INTERNAL);
    if (sg_ptx_is_dotted(reader, "reg"))
        return read_registers(reader);
    if (sg_ptx_is_dotted(reader, "loc"))
        return read_location(reader);
    if (sg_ptx_is_dotted(reader, "pragma")) {
        sg_ptx_skip_statement(reader);
        return;
    }
    sg_ptx_fail(reader, "no such directive in a function: .%.*s", (int)reader->token.text.length,
                reader->token.text.at);
}

static void read_statement(sg_ptx_reader_t *reader)
{
    if (sg_ptx_take(reader, ';'))
        return;
    if (reader->token.kind == SG_PTX_DOTTED)
        return read_directive(reader);
    sg_ptx_insn_t insn = {0};
    if (sg_ptx_take(reader, '@'))
        read_guard(reader, &insn);
    insn.line = reader->token.line;
    sg_ptx_text_t text = sg_ptx_expect_name(reader, "a statement");
    if (!insn.guarded && sg_ptx_take(reader, ':'))
        read_label(reader, text);
    else
        read_instruction(reader, &insn, text);
}

void sg_ptx_read_body(sg_ptx_reader_t *reader)
{
    enum { DEPTH_MOST = 64 };
    uint32_t first[DEPTH_MOST] = {0}; /* pending jumps when a scope began */
    sg_ptx_function_t *function = reader->function;
    uint32_t outside = reader->depth, line = reader->token.line;
    reader->insns = reader->ranges = reader->locals = reader->pending = (sg_ptx_list_t){0};
    reader->register_count = reader->source_line = reader->source_file = 0;
    sg_ptx_expect(reader, '{');
    for (;;) {
        if (reader->token.kind == SG_PTX_END)
            sg_ptx_fail_at(reader, line, "this body does not end");
        if (sg_ptx_take(reader, '{')) {
            if (++reader->depth == DEPTH_MOST)
                sg_ptx_fail(reader, "more than %d scopes", DEPTH_MOST);
            first[reader->depth] = reader->pending.count;
        } else if (sg_ptx_take(reader, '}')) {
            resolve_labels(reader, first[reader->depth]);
            if (reader->depth == outside)
                break;
            sg_ptx_leave_scope(reader);
        } else {
            read_statement(reader);
        }
    }
    sg_ptx_make_blocks(reader, function);
    function->ranges = reader->ranges.items;
    function->range_count = reader->ranges.count;
    function->register_count = reader->register_count;
    function->variables = reader->locals.items;
    function->variable_count = reader->locals.count;
    function->defined = true;
}
