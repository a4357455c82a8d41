/* variable.c: variables and parameters: type, size, and what they begin with. */
#include <string.h>

#include "softgpu/ptx/internal.h"

#define IMAGE_MOST      (1ull << 28) /* bytes of one initialiser */
#define DIMENSIONS_MOST 8

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
        if (sg_ptx_take_dotted(reader, "align")) {
            variable->align_bytes = read_align(reader);
        } else if (sg_ptx_take_dotted(reader, "attribute")) {
            for (sg_ptx_expect(reader, '('); !sg_ptx_take(reader, ')'); sg_ptx_next(reader)) {
                variable->managed |= sg_ptx_is_dotted(reader, "managed");
                if (reader->token.kind == SG_PTX_END)
                    sg_ptx_fail(reader, "')' is expected");
            }
        } else if (sg_ptx_take_dotted(reader, "v2")) {
            *width = 2;
        } else if (sg_ptx_take_dotted(reader, "v4")) {
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
    char *image = filling->image.items;
    if (image != NULL) /* always: `count` is not 0 */
        memcpy(image + at, bytes, count);
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
    if (sg_ptx_text_is(text, "generic") && sg_ptx_is_mark(reader, '(')) {
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
    bool minus = sg_ptx_is_mark(reader, '-');
    if (minus || sg_ptx_is_mark(reader, '+')) {
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
        if (sg_ptx_take_dotted(reader, "align")) {
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
            if (!sg_ptx_take_dotted(reader, "param"))
                sg_ptx_fail(reader, "parameters are in .param here");
            read_type(reader, variable, &width);
            if (sg_ptx_take_dotted(reader, "ptr"))
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
