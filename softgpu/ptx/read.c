/* read.c: what stands in a module: version and target, variables with what they begin with, functions with their parameters. */
#include <string.h>

#include "softgpu/ptx/internal.h"

#define IMAGE_MOST      (1ull << 28) /* bytes of one initialiser */
#define DIMENSIONS_MOST 8

static bool is_mark(const sg_ptx_reader_t *reader, char mark)
{
    return reader->token.kind == SG_PTX_MARK && *reader->token.text.at == mark;
}

static bool take_dotted(sg_ptx_reader_t *reader, const char *word)
{
    if (!sg_ptx_is_dotted(reader, word))
        return false;
    sg_ptx_next(reader);
    return true;
}

/* ---- types ---- */
static uint32_t read_align(sg_ptx_reader_t *reader)
{
    uint32_t align = sg_ptx_expect_count(reader, 1u << 20, "an alignment");
    if (align == 0 || (align & (align - 1)))
        sg_ptx_fail(reader, "an alignment of %u is no power of two", align);
    return align;
}

/* .align 8 .v2 .f32, and .attribute(.managed): what stands in front of a variable's name. */
static void read_type(sg_ptx_reader_t *reader, sg_ptx_variable_t *variable, uint32_t *width)
{
    *width = 1;
    for (;;) {
        if (take_dotted(reader, "align")) {
            variable->align_bytes = read_align(reader);
        } else if (take_dotted(reader, "attribute")) {
            for (sg_ptx_expect(reader, '('); !sg_ptx_take(reader, ')'); sg_ptx_next(reader)) {
                variable->managed |= sg_ptx_is_dotted(reader, "managed");
                if (reader->token.kind == SG_PTX_END)
                    sg_ptx_fail(reader, "')' is expected");
            }
        } else if (take_dotted(reader, "v2")) {
            *width = 2;
        } else if (take_dotted(reader, "v4")) {
            *width = 4;
        } else {
            break;
        }
    }
    variable->type =
        reader->token.kind == SG_PTX_DOTTED ? sg_ptx_type_find(reader->token.text) : SG_PTX_NO_TYPE;
    char class = sg_ptx_type_class(variable->type);
    if (variable->type == SG_PTX_NO_TYPE || class == 'P' || class == '!')
        sg_ptx_fail(reader, "no variables of this type here: '%.*s'", (int)reader->token.text.length,
                    reader->token.text.at);
    uint32_t natural = sg_ptx_type_bits(variable->type) / 8 * *width;
    if (variable->align_bytes == 0)
        variable->align_bytes = natural;
    variable->bytes = natural;
    sg_ptx_next(reader);
}

typedef struct sg_ptx_dimensions {
    uint64_t size[DIMENSIONS_MOST]; /* the first may be 0: as many as the initialiser has */
    uint32_t count;
} sg_ptx_dimensions_t;

static void read_dimensions(sg_ptx_reader_t *reader, sg_ptx_variable_t *variable,
                            sg_ptx_dimensions_t *dimensions)
{
    while (sg_ptx_take(reader, '[')) {
        if (dimensions->count == DIMENSIONS_MOST)
            sg_ptx_fail(reader, "more than %d dimensions", DIMENSIONS_MOST);
        uint64_t size = 0;
        if (reader->token.kind == SG_PTX_INTEGER) {
            size = reader->token.bits;
            sg_ptx_next(reader);
        }
        if (size == 0 && dimensions->count)
            sg_ptx_fail(reader, "only the first dimension may be left out");
        dimensions->size[dimensions->count++] = size;
        variable->array = true;
        if (__builtin_mul_overflow(variable->bytes, size, &variable->bytes) || variable->bytes > INT64_MAX)
            sg_ptx_fail(reader, "an array of more than 64 bits of size");
        sg_ptx_expect(reader, ']');
    }
}

/* ---- initialisers ---- */
typedef struct sg_ptx_filling {
    sg_ptx_variable_t *variable;
    const sg_ptx_dimensions_t *dimensions;
    sg_ptx_list_t image, relocations;
    uint32_t element_bytes;
} sg_ptx_filling_t;

static void put(sg_ptx_reader_t *reader, sg_ptx_filling_t *filling, uint64_t at, const void *bytes,
                uint32_t count)
{
    const sg_ptx_variable_t *variable = filling->variable;
    if (at + count > IMAGE_MOST || (variable->bytes && at + count > variable->bytes))
        sg_ptx_fail(reader, "more values than '%s' has room for", variable->name);
    while (filling->image.count < at + count)
        sg_ptx_add(reader, &filling->image, 1);
    memcpy((char *)filling->image.items + at, bytes, count);
}

static void put_integer(sg_ptx_reader_t *reader, sg_ptx_filling_t *filling, uint64_t at, uint64_t bits)
{
    if (sg_ptx_type_class(filling->variable->type) == 'F')
        sg_ptx_fail(reader, "an integer for a variable of type .%s",
                    sg_ptx_type_text(filling->variable->type));
    uint64_t wide[2] = {bits, 0};
    put(reader, filling, at, wide, filling->element_bytes);
}

static void put_float(sg_ptx_reader_t *reader, sg_ptx_filling_t *filling, uint64_t at, uint64_t bits,
                      bool single)
{
    sg_ptx_type_t type = filling->variable->type;
    double value;
    float narrow;
    uint32_t low = (uint32_t)bits;
    if (single)
        memcpy(&narrow, &low, sizeof narrow);
    else
        memcpy(&value, &bits, sizeof value);
    if (type == SG_PTX_F64) {
        if (single)
            value = narrow;
        put(reader, filling, at, &value, sizeof value);
    } else if (type == SG_PTX_F32) {
        if (!single)
            narrow = (float)value;
        put(reader, filling, at, single ? (void *)&low : (void *)&narrow, sizeof narrow);
    } else if (sg_ptx_type_class(type) == 'B' && filling->element_bytes == (single ? 4 : 8)) {
        put(reader, filling, at, &bits, filling->element_bytes);
    } else {
        sg_ptx_fail(reader, "a float for a variable of type .%s", sg_ptx_type_text(type));
    }
}

/* symbol, symbol+4, generic(symbol)+4; mask: 0xFF00 of mask(...), else 0. */
static void put_address(sg_ptx_reader_t *reader, sg_ptx_filling_t *filling, uint64_t at, uint64_t mask)
{
    sg_ptx_relocation_t relocation = {.offset_bytes = at, .bytes = (uint8_t)filling->element_bytes};
    sg_ptx_text_t text = sg_ptx_expect_name(reader, "a symbol");
    if (sg_ptx_text_is(text, "generic") && is_mark(reader, '(')) {
        relocation.generic = true;
        sg_ptx_next(reader);
        text = sg_ptx_expect_name(reader, "a symbol");
        sg_ptx_expect(reader, ')');
    }
    const sg_ptx_name_t *name = sg_ptx_lookup(reader, text);
    if (name != NULL && name->kind == SG_PTX_NAME_VARIABLE)
        relocation.variable = name->thing;
    else if (name != NULL && name->kind == SG_PTX_NAME_FUNCTION)
        relocation.function = name->thing;
    else
        sg_ptx_fail(reader, "no such symbol: '%.*s'", (int)text.length, text.at);
    bool minus = is_mark(reader, '-');
    if (minus || is_mark(reader, '+')) {
        sg_ptx_next(reader);
        minus ^= sg_ptx_take(reader, '-');
        if (reader->token.kind != SG_PTX_INTEGER)
            sg_ptx_fail(reader, "a number of bytes is expected");
        relocation.addend = (int64_t)(minus ? 0 - reader->token.bits : reader->token.bits);
        sg_ptx_next(reader);
    }
    if (mask) {
        while (mask >> relocation.shift_bits != 0xFF) {
            relocation.shift_bits = (uint8_t)(relocation.shift_bits + 8);
            if (relocation.shift_bits > 56)
                sg_ptx_fail(reader, "a mask has eight bits, those of one byte");
        }
        if (mask != 0xFFull << relocation.shift_bits)
            sg_ptx_fail(reader, "a mask has eight bits, those of one byte");
        relocation.bytes = 1;
    }
    if (sg_ptx_type_class(filling->variable->type) == 'F' ||
        (!mask && relocation.bytes != 4 && relocation.bytes != 8) ||
        relocation.bytes > filling->element_bytes)
        sg_ptx_fail(reader, "an address for a variable of type .%s",
                    sg_ptx_type_text(filling->variable->type));
    put(reader, filling, at, &(uint64_t[2]){0}, filling->element_bytes);
    *(sg_ptx_relocation_t *)sg_ptx_add(reader, &filling->relocations, sizeof relocation) = relocation;
}

static void put_value(sg_ptx_reader_t *reader, sg_ptx_filling_t *filling, uint64_t at)
{
    bool minus = sg_ptx_take(reader, '-');
    sg_ptx_token_t token = reader->token;
    if (token.kind == SG_PTX_NAME && !minus)
        return put_address(reader, filling, at, 0);
    if (token.kind == SG_PTX_INTEGER) {
        sg_ptx_next(reader);
        if (!minus && token.bits && sg_ptx_take(reader, '(')) {
            put_address(reader, filling, at, token.bits);
            sg_ptx_expect(reader, ')');
        } else {
            put_integer(reader, filling, at, minus ? 0 - token.bits : token.bits);
        }
    } else if (token.kind == SG_PTX_FLOAT) {
        uint64_t sign = !minus ? 0 : token.single ? 1ull << 31 : 1ull << 63;
        sg_ptx_next(reader);
        put_float(reader, filling, at, token.bits ^ sign, token.single);
    } else {
        sg_ptx_fail(reader, "a value is expected, not '%.*s'", (int)token.text.length, token.text.at);
    }
}

/* { ... } of one dimension, which may hold those of the next. Returns how many elements it has. */
static uint64_t put_values(sg_ptx_reader_t *reader, sg_ptx_filling_t *filling, uint32_t dimension,
                           uint64_t at)
{
    uint64_t stride = filling->element_bytes, count = 0;
    for (uint32_t i = dimension + 1; i < filling->dimensions->count; i++)
        stride *= filling->dimensions->size[i];
    if (sg_ptx_take(reader, '}'))
        return 0;
    do {
        uint64_t most = dimension < filling->dimensions->count ? filling->dimensions->size[dimension] : 1;
        if ((most && count == most) || at + count * stride > IMAGE_MOST)
            sg_ptx_fail(reader, "more values than '%s' has room for", filling->variable->name);
        if (sg_ptx_take(reader, '{')) {
            if (dimension + 1 >= filling->dimensions->count)
                sg_ptx_fail(reader, "'%s' has fewer dimensions", filling->variable->name);
            put_values(reader, filling, dimension + 1, at + count * stride);
        } else {
            put_value(reader, filling, at + count * stride);
        }
        count++;
    } while (sg_ptx_take(reader, ','));
    sg_ptx_expect(reader, '}');
    return count;
}

static void read_initialiser(sg_ptx_reader_t *reader, sg_ptx_variable_t *variable,
                             const sg_ptx_dimensions_t *dimensions, uint32_t width)
{
    sg_ptx_dimensions_t with_vector = *dimensions;
    if (width > 1 && with_vector.count < DIMENSIONS_MOST)
        with_vector.size[with_vector.count++] = width;
    sg_ptx_filling_t filling = {.variable = variable,
                                .dimensions = &with_vector,
                                .element_bytes = sg_ptx_type_bits(variable->type) / 8};
    if (variable->space != SG_PTX_SPACE_GLOBAL && variable->space != SG_PTX_SPACE_CONST)
        sg_ptx_fail(reader, "variables in .%s begin with nothing", sg_ptx_modifier_text(variable->space));
    if (sg_ptx_take(reader, '{')) {
        uint64_t count = put_values(reader, &filling, 0, 0);
        if (dimensions->count && dimensions->size[0] == 0) {
            uint64_t each = filling.element_bytes;
            for (uint32_t i = 1; i < with_vector.count; i++)
                each *= with_vector.size[i];
            variable->bytes = count * each;
        }
    } else {
        put_value(reader, &filling, 0);
    }
    variable->image = filling.image.items;
    variable->image_bytes = filling.image.count;
    variable->relocations = filling.relocations.items;
    variable->relocation_count = filling.relocations.count;
}

/* ---- variables ---- */
/* A name of the module that is there already: an .extern one may be declared again, and then be defined. */
static sg_ptx_variable_t *earlier_variable(const sg_ptx_reader_t *reader, sg_ptx_text_t text,
                                           sg_ptx_linkage_t linkage)
{
    const sg_ptx_name_t *name = reader->depth == 0 ? sg_ptx_lookup(reader, text) : NULL;
    if (name == NULL || name->kind != SG_PTX_NAME_VARIABLE)
        return NULL;
    sg_ptx_variable_t *variable = name->thing;
    return variable->linkage == SG_PTX_EXTERN || linkage == SG_PTX_EXTERN ? variable : NULL;
}

static sg_ptx_variable_t *add_variable(sg_ptx_reader_t *reader, const sg_ptx_variable_t *like,
                                       sg_ptx_text_t text)
{
    sg_ptx_variable_t *variable = earlier_variable(reader, text, like->linkage);
    if (variable != NULL) {
        if (variable->space != like->space)
            sg_ptx_fail(reader, "'%s' is declared in another state space", variable->name);
        if (like->linkage == SG_PTX_EXTERN) { /* what is known already stays */
            sg_ptx_variable_t *ignored = sg_ptx_alloc(reader, sizeof *ignored);
            *ignored = *like;
            ignored->name = variable->name;
            return ignored;
        }
        const char *name = variable->name;
        *variable = *like;
        variable->name = name;
        return variable;
    }
    variable = sg_ptx_alloc(reader, sizeof *variable);
    *variable = *like;
    variable->name = sg_ptx_copy_text(reader, text);
    sg_ptx_declare(reader, text, SG_PTX_NAME_VARIABLE, variable);
    sg_ptx_list_t *list = reader->depth ? &reader->locals : &reader->variables;
    *(sg_ptx_variable_t **)sg_ptx_add(reader, list, sizeof variable) = variable;
    return variable;
}

/* .param .b8 name<4>; is four variables name0 to name3. */
static void add_numbered(sg_ptx_reader_t *reader, const sg_ptx_variable_t *like, sg_ptx_text_t text)
{
    uint32_t count = sg_ptx_expect_count(reader, 4096, "a number of variables");
    sg_ptx_expect(reader, '>');
    for (uint32_t i = 0; i < count; i++) {
        char *name = sg_ptx_alloc(reader, (size_t)text.length + 8);
        uint32_t length = text.length, unit = 1;
        memcpy(name, text.at, text.length);
        while (i / unit >= 10)
            unit *= 10;
        for (; unit; unit /= 10)
            name[length++] = (char)('0' + i / unit % 10);
        add_variable(reader, like, (sg_ptx_text_t){name, length});
    }
}

void sg_ptx_read_variables(sg_ptx_reader_t *reader, sg_ptx_linkage_t linkage)
{
    uint32_t width;
    sg_ptx_variable_t like = {.linkage = linkage, .line = reader->token.line};
    like.space = sg_ptx_modifier_find(SG_PTX_KIND_SPACE, reader->token.text);
    sg_ptx_next(reader);
    read_type(reader, &like, &width);
    do {
        sg_ptx_text_t text = sg_ptx_expect_name(reader, "a variable's name");
        if (sg_ptx_take(reader, '<')) {
            add_numbered(reader, &like, text);
            continue;
        }
        sg_ptx_variable_t one = like;
        sg_ptx_dimensions_t dimensions = {0};
        read_dimensions(reader, &one, &dimensions);
        sg_ptx_variable_t *variable = add_variable(reader, &one, text);
        if (sg_ptx_take(reader, '='))
            read_initialiser(reader, variable, &dimensions, width);
    } while (sg_ptx_take(reader, ','));
    sg_ptx_expect(reader, ';');
}

/* ---- parameters ---- */
/* .ptr .global .align 16 */
static void read_pointer_hint(sg_ptx_reader_t *reader, sg_ptx_variable_t *variable)
{
    variable->pointer = true;
    variable->pointer_align_bytes = 4; /* as the ISA says, where none is given */
    while (reader->token.kind == SG_PTX_DOTTED) {
        sg_ptx_modifier_t space = sg_ptx_modifier_find(SG_PTX_KIND_SPACE, reader->token.text);
        if (take_dotted(reader, "align")) {
            variable->pointer_align_bytes = read_align(reader);
        } else if (space != SG_PTX_ABSENT) {
            variable->pointer_space = space;
            sg_ptx_next(reader);
        } else {
            sg_ptx_fail(reader, "no such hint: .%.*s", (int)reader->token.text.length, reader->token.text.at);
        }
    }
}

sg_ptx_variable_t **sg_ptx_read_parameters(sg_ptx_reader_t *reader, uint32_t *count)
{
    sg_ptx_list_t list = {0};
    sg_ptx_expect(reader, '(');
    if (!sg_ptx_take(reader, ')')) {
        do {
            uint32_t width;
            sg_ptx_dimensions_t dimensions = {0};
            sg_ptx_variable_t *variable = sg_ptx_alloc(reader, sizeof *variable);
            *variable = (sg_ptx_variable_t){.space = SG_PTX_SPACE_PARAM, .line = reader->token.line};
            if (!take_dotted(reader, "param"))
                sg_ptx_fail(reader, "parameters are in .param here");
            read_type(reader, variable, &width);
            if (take_dotted(reader, "ptr"))
                read_pointer_hint(reader, variable);
            sg_ptx_text_t text = sg_ptx_expect_name(reader, "a parameter's name");
            read_dimensions(reader, variable, &dimensions);
            variable->name = sg_ptx_copy_text(reader, text);
            *(sg_ptx_variable_t **)sg_ptx_add(reader, &list, sizeof variable) = variable;
        } while (sg_ptx_take(reader, ','));
        sg_ptx_expect(reader, ')');
    }
    *count = list.count;
    return list.items;
}

/* ---- functions ---- */
static void read_dimensions3(sg_ptx_reader_t *reader, uint32_t out[3])
{
    out[0] = out[1] = out[2] = 1;
    for (uint32_t i = 0; i < 3; i++) {
        out[i] = sg_ptx_expect_count(reader, UINT32_MAX, "a number");
        if (i < 2 && !sg_ptx_take(reader, ','))
            break;
    }
}

/* .maxntid 256, 1, 1 and its like, between the parameters and the body. */
static void read_attributes(sg_ptx_reader_t *reader, sg_ptx_function_t *function)
{
    while (reader->token.kind == SG_PTX_DOTTED) {
        if (take_dotted(reader, "maxntid")) {
            read_dimensions3(reader, function->max_threads);
        } else if (take_dotted(reader, "reqntid")) {
            read_dimensions3(reader, function->required_threads);
        } else if (take_dotted(reader, "reqnctapercluster")) {
            read_dimensions3(reader, function->required_cluster);
        } else if (take_dotted(reader, "minnctapersm") || take_dotted(reader, "maxnctapersm")) {
            function->min_blocks = sg_ptx_expect_count(reader, UINT32_MAX, "a number of blocks");
        } else if (take_dotted(reader, "maxnreg")) {
            function->max_registers = sg_ptx_expect_count(reader, UINT32_MAX, "a number of registers");
        } else if (take_dotted(reader, "maxclusterrank")) {
            sg_ptx_expect_count(reader, UINT32_MAX, "a number of blocks");
        } else if (take_dotted(reader, "noreturn")) {
            function->prototype.noreturn = true;
        } else if (take_dotted(reader, "pragma")) {
            while (reader->token.kind != SG_PTX_END && !sg_ptx_take(reader, ';'))
                sg_ptx_next(reader);
        } else if (!take_dotted(reader, "explicitcluster") && !take_dotted(reader, "blocksareclusters")) {
            sg_ptx_fail(reader, "no such directive for a function: .%.*s", (int)reader->token.text.length,
                        reader->token.text.at);
        }
    }
}

static void check_same_parameters(sg_ptx_reader_t *reader, const char *name, sg_ptx_variable_t *const *a,
                                  uint32_t a_count, sg_ptx_variable_t *const *b, uint32_t b_count)
{
    bool same = a_count == b_count;
    for (uint32_t i = 0; i < a_count && same; i++)
        same = a[i]->bytes == b[i]->bytes;
    if (!same)
        sg_ptx_fail(reader, "'%s' was declared with other parameters", name);
}

/* The function under this name, which may have been declared before. */
static sg_ptx_function_t *find_function(sg_ptx_reader_t *reader, sg_ptx_text_t text)
{
    const sg_ptx_name_t *name = sg_ptx_lookup(reader, text);
    if (name != NULL && name->kind == SG_PTX_NAME_FUNCTION)
        return name->thing;
    sg_ptx_function_t *function = sg_ptx_alloc(reader, sizeof *function);
    function->name = sg_ptx_copy_text(reader, text);
    sg_ptx_declare(reader, text, SG_PTX_NAME_FUNCTION, function);
    *(sg_ptx_function_t **)sg_ptx_add(reader, &reader->functions, sizeof function) = function;
    return function;
}

static void declare_parameters(sg_ptx_reader_t *reader, sg_ptx_variable_t *const *parameters, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        sg_ptx_text_t text = {parameters[i]->name, (uint32_t)strlen(parameters[i]->name)};
        if (!sg_ptx_text_is(text, "_"))
            sg_ptx_declare(reader, text, SG_PTX_NAME_VARIABLE, parameters[i]);
    }
}

/* .entry name (parameters) and .func (results) name (parameters): from behind the word. */
static void read_function(sg_ptx_reader_t *reader, sg_ptx_linkage_t linkage, bool entry)
{
    sg_ptx_function_t now = {.linkage = linkage, .entry = entry, .line = reader->token.line};
    while (take_dotted(reader, "attribute"))
        while (reader->token.kind != SG_PTX_END && !sg_ptx_take(reader, ')'))
            sg_ptx_next(reader);
    if (!entry && is_mark(reader, '('))
        now.prototype.returns = sg_ptx_read_parameters(reader, &now.prototype.return_count);
    sg_ptx_text_t text = sg_ptx_expect_name(reader, "a function's name");
    if (is_mark(reader, '('))
        now.prototype.parameters = sg_ptx_read_parameters(reader, &now.prototype.parameter_count);
    read_attributes(reader, &now);
    sg_ptx_function_t *function = find_function(reader, text);
    if (function->line) { /* declared before */
        check_same_parameters(reader, function->name, function->prototype.parameters,
                              function->prototype.parameter_count, now.prototype.parameters,
                              now.prototype.parameter_count);
        check_same_parameters(reader, function->name, function->prototype.returns,
                              function->prototype.return_count, now.prototype.returns,
                              now.prototype.return_count);
    }
    bool body = is_mark(reader, '{');
    if (body && function->defined)
        sg_ptx_fail(reader, "'%s' is defined twice", function->name);
    if (!function->defined) {
        now.name = function->name;
        now.prototype.noreturn |= function->prototype.noreturn;
        *function = now;
    }
    reader->function = function;
    reader->depth = 1;
    declare_parameters(reader, now.prototype.returns, now.prototype.return_count);
    declare_parameters(reader, now.prototype.parameters, now.prototype.parameter_count);
    if (body)
        sg_ptx_read_body(reader);
    else
        sg_ptx_expect(reader, ';');
    sg_ptx_leave_scope(reader);
}

/* .alias name, aliasee; */
static void read_alias(sg_ptx_reader_t *reader)
{
    const sg_ptx_name_t *names[2];
    for (int i = 0; i < 2; i++) {
        sg_ptx_text_t text = sg_ptx_expect_name(reader, "a function");
        names[i] = sg_ptx_lookup(reader, text);
        if (names[i] == NULL || names[i]->kind != SG_PTX_NAME_FUNCTION)
            sg_ptx_fail(reader, "no such function: '%.*s'", (int)text.length, text.at);
        sg_ptx_expect(reader, i ? ';' : ',');
    }
    sg_ptx_function_t *alias = names[0]->thing;
    if (alias->defined || alias == names[1]->thing || alias->alias_of != NULL)
        sg_ptx_fail(reader, "'%s' is no name for another function", alias->name);
    alias->alias_of = names[1]->thing;
}

/* ---- the module ---- */
static void read_version(sg_ptx_reader_t *reader) /* 8.4 */
{
    if (reader->token.kind != SG_PTX_FLOAT)
        sg_ptx_fail(reader, "a version is expected, such as 8.4");
    uint32_t part = 0;
    for (uint32_t i = 0; i < reader->token.text.length; i++) {
        char c = reader->token.text.at[i];
        if (c == '.' && part == 0)
            part = 1;
        else if (c >= '0' && c <= '9' && reader->module->version[part] < 1000)
            reader->module->version[part] = reader->module->version[part] * 10 + (uint32_t)(c - '0');
        else
            sg_ptx_fail(reader, "a version is expected, such as 8.4");
    }
    sg_ptx_next(reader);
}

static void read_target(sg_ptx_reader_t *reader) /* sm_90a, debug */
{
    sg_ptx_module_t *module = reader->module;
    uint32_t line = reader->token.line;
    do {
        sg_ptx_text_t text = sg_ptx_expect_name(reader, "a target");
        if (text.length < 5 || memcmp(text.at, "sm_", 3) != 0)
            continue;
        for (uint32_t i = 3; i < text.length; i++) {
            if (text.at[i] >= '0' && text.at[i] <= '9' && module->target < 10000 && !module->target_suffix)
                module->target = module->target * 10 + (uint32_t)(text.at[i] - '0');
            else if ((text.at[i] == 'a' || text.at[i] == 'f') && !module->target_suffix)
                module->target_suffix = text.at[i];
            else
                sg_ptx_fail(reader, "no such target: '%.*s'", (int)text.length, text.at);
        }
    } while (sg_ptx_take(reader, ','));
    if (module->target == 0)
        sg_ptx_fail_at(reader, line, "a target is expected, such as sm_90");
}

static void read_file(sg_ptx_reader_t *reader) /* .file 1 "name", time, size */
{
    uint32_t line = reader->token.line;
    sg_ptx_next(reader);
    uint32_t number = sg_ptx_expect_count(reader, 100000, "a file's number");
    while (reader->files.count <= number)
        sg_ptx_add(reader, &reader->files, sizeof(char *));
    if (reader->token.kind != SG_PTX_STRING)
        sg_ptx_fail(reader, "a file's name is expected");
    ((const char **)reader->files.items)[number] = sg_ptx_copy_text(reader, reader->token.text);
    if (reader->token.line == line)
        sg_ptx_skip_line(reader);
    else
        sg_ptx_next(reader);
}

static void skip_section(sg_ptx_reader_t *reader) /* .section name { ... } */
{
    uint32_t line = reader->token.line;
    while (!sg_ptx_take(reader, '{')) {
        if (reader->token.kind == SG_PTX_END)
            sg_ptx_fail_at(reader, line, "this section has no body");
        sg_ptx_next(reader);
    }
    while (!sg_ptx_take(reader, '}')) {
        if (reader->token.kind == SG_PTX_END)
            sg_ptx_fail_at(reader, line, "this section does not end");
        sg_ptx_next(reader);
    }
}

static sg_ptx_linkage_t read_linkage(sg_ptx_reader_t *reader)
{
    static const char *const words[] = {[SG_PTX_VISIBLE] = "visible",
                                        [SG_PTX_EXTERN] = "extern",
                                        [SG_PTX_WEAK] = "weak",
                                        [SG_PTX_COMMON] = "common"};
    for (int i = SG_PTX_VISIBLE; i <= SG_PTX_COMMON; i++)
        if (take_dotted(reader, words[i]))
            return (sg_ptx_linkage_t)i;
    return SG_PTX_INTERNAL;
}

static void read_item(sg_ptx_reader_t *reader)
{
    if (sg_ptx_is_dotted(reader, "file"))
        return read_file(reader);
    if (sg_ptx_is_dotted(reader, "section"))
        return skip_section(reader);
    if (take_dotted(reader, "alias"))
        return read_alias(reader);
    if (take_dotted(reader, "pragma")) {
        while (reader->token.kind != SG_PTX_END && !sg_ptx_take(reader, ';'))
            sg_ptx_next(reader);
        return;
    }
    sg_ptx_linkage_t linkage = read_linkage(reader);
    if (take_dotted(reader, "entry"))
        return read_function(reader, linkage, true);
    if (take_dotted(reader, "func"))
        return read_function(reader, linkage, false);
    static const char *const spaces[] = {"global", "const", "shared", "local"};
    for (size_t i = 0; i < sizeof spaces / sizeof *spaces; i++)
        if (sg_ptx_is_dotted(reader, spaces[i]))
            return sg_ptx_read_variables(reader, linkage);
    sg_ptx_fail(reader, "no such directive here: '%.*s'", (int)reader->token.text.length,
                reader->token.text.at);
}

static void declare_specials(sg_ptx_reader_t *reader)
{
    static const struct {
        const char *text;
        sg_ptx_type_t type;
        uint32_t width, number;
    } specials[] = {
#define SPECIAL(id, text, type, width) {text, SG_PTX_##type, width, SG_PTX_SPECIAL_##id},
        SG_PTX_SPECIALS(SPECIAL)
#undef SPECIAL
    };
    static char wide; /* marks those of three */
    for (size_t i = 0; i < sizeof specials / sizeof *specials; i++) {
        sg_ptx_text_t text = {specials[i].text, (uint32_t)strlen(specials[i].text)};
        sg_ptx_name_t *name =
            sg_ptx_declare(reader, text, SG_PTX_NAME_SPECIAL, specials[i].width > 1 ? &wide : NULL);
        name->type = specials[i].type;
        name->number = specials[i].number;
    }
}

void sg_ptx_read_module(sg_ptx_reader_t *reader)
{
    sg_ptx_module_t *module = reader->module;
    declare_specials(reader);
    module->address_bits = 32; /* where nothing is said */
    sg_ptx_next(reader);
    if (!take_dotted(reader, "version"))
        sg_ptx_fail(reader, "PTX begins with .version");
    read_version(reader);
    if (!take_dotted(reader, "target"))
        sg_ptx_fail(reader, ".target is expected behind .version");
    read_target(reader);
    if (take_dotted(reader, "address_size"))
        module->address_bits = sg_ptx_expect_count(reader, 64, "an address's size");
    if (module->address_bits != 64)
        sg_ptx_fail(reader, "addresses of 64 bits only");
    while (reader->token.kind != SG_PTX_END)
        read_item(reader);
    module->variables = reader->variables.items;
    module->variable_count = reader->variables.count;
    module->functions = reader->functions.items;
    module->function_count = reader->functions.count;
    module->files = reader->files.items;
    module->file_count = reader->files.count;
}

/* ---- NVIDIA's compiler ---- */
static bool contains(const char *text, size_t bytes, const char *words)
{
    return memmem(text, bytes, words, strlen(words)) != NULL;
}

bool sg_ptx_is_of_nvidia(const char *text, size_t bytes, const char **why)
{
    /* The head: comments in front of .version. */
    const char *nul = memchr(text, 0, bytes);
    if (nul != NULL)
        bytes = (size_t)(nul - text);
    const char *version = memmem(text, bytes, ".version", strlen(".version"));
    if (version != NULL)
        bytes = (size_t)(version - text);
    bool of_nvidia = contains(text, bytes, "NVIDIA NVVM") ||
                     contains(text, bytes, "Cuda compilation tools") ||
                     contains(text, bytes, "Compiler Build ID");
    if (of_nvidia && why != NULL)
        *why = "this PTX is the output of NVIDIA's compiler, whose licence forbids to translate it for other "
               "devices: build with "
               "Clang instead (clang++ -x cuda --cuda-gpu-arch=sm_90)";
    return of_nvidia;
}
