/* read.c: what stands in a module: version and target, functions with their attributes, and all that is skipped. */
#include <string.h>

#include "softgpu/ptx/internal.h"

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
        if (sg_ptx_take_dotted(reader, "maxntid")) {
            read_dimensions3(reader, function->max_threads);
        } else if (sg_ptx_take_dotted(reader, "reqntid")) {
            read_dimensions3(reader, function->required_threads);
        } else if (sg_ptx_take_dotted(reader, "reqnctapercluster")) {
            read_dimensions3(reader, function->required_cluster);
        } else if (sg_ptx_take_dotted(reader, "minnctapersm") || sg_ptx_take_dotted(reader, "maxnctapersm")) {
            function->min_blocks = sg_ptx_expect_count(reader, UINT32_MAX, "a number of blocks");
        } else if (sg_ptx_take_dotted(reader, "maxnreg")) {
            function->max_registers = sg_ptx_expect_count(reader, UINT32_MAX, "a number of registers");
        } else if (sg_ptx_take_dotted(reader, "maxclusterrank")) {
            sg_ptx_expect_count(reader, UINT32_MAX, "a number of blocks");
        } else if (sg_ptx_take_dotted(reader, "noreturn")) {
            function->prototype.noreturn = true;
        } else if (sg_ptx_take_dotted(reader, "pragma")) {
            sg_ptx_skip_statement(reader);
        } else if (!sg_ptx_take_dotted(reader, "explicitcluster") &&
                   !sg_ptx_take_dotted(reader, "blocksareclusters")) {
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
    while (sg_ptx_take_dotted(reader, "attribute"))
        while (reader->token.kind != SG_PTX_END && !sg_ptx_take(reader, ')'))
            sg_ptx_next(reader);
    if (!entry && sg_ptx_is_mark(reader, '('))
        now.prototype.returns = sg_ptx_read_parameters(reader, &now.prototype.return_count);
    sg_ptx_text_t text = sg_ptx_expect_name(reader, "a function's name");
    if (sg_ptx_is_mark(reader, '('))
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
        /* Calls that were read have ways back. */
        if (now.prototype.noreturn && !function->prototype.noreturn)
            sg_ptx_fail(reader, "'%s' was declared without .noreturn", function->name);
    }
    bool body = sg_ptx_is_mark(reader, '{');
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
        if (sg_ptx_take_dotted(reader, words[i]))
            return (sg_ptx_linkage_t)i;
    return SG_PTX_INTERNAL;
}

static void read_item(sg_ptx_reader_t *reader)
{
    if (sg_ptx_is_dotted(reader, "file"))
        return read_file(reader);
    if (sg_ptx_is_dotted(reader, "section"))
        return skip_section(reader);
    if (sg_ptx_take_dotted(reader, "alias"))
        return read_alias(reader);
    if (sg_ptx_take_dotted(reader, "pragma")) {
        sg_ptx_skip_statement(reader);
        return;
    }
    sg_ptx_linkage_t linkage = read_linkage(reader);
    if (sg_ptx_take_dotted(reader, "entry"))
        return read_function(reader, linkage, true);
    if (sg_ptx_take_dotted(reader, "func"))
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
    if (!sg_ptx_take_dotted(reader, "version"))
        sg_ptx_fail(reader, "PTX begins with .version");
    read_version(reader);
    if (!sg_ptx_take_dotted(reader, "target"))
        sg_ptx_fail(reader, ".target is expected behind .version");
    read_target(reader);
    if (sg_ptx_take_dotted(reader, "address_size"))
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
