/* form.c: isa.def as tables. Its rows are texts; they are compiled once, and constant from there on. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "softgpu/ptx/internal.h"

// clang-format off
#define OPCODE(id, text) text,
#define FORM(modifiers, operands)
static const char *const opcode_texts[] = {SG_PTX_FORMS(OPCODE, FORM)};
#undef OPCODE
#undef FORM

enum {
#define OPCODE(id, text)
#define FORM(modifiers, operands) + 1
    FORM_COUNT = 0 SG_PTX_FORMS(OPCODE, FORM)
#undef OPCODE
#undef FORM
};

/* In order; an opcode's row has no modifiers. */
static const struct row { int opcode; const char *modifiers, *operands; } rows[] = {
#define OPCODE(id, text) {SG_PTX_OP_##id, NULL, NULL},
#define FORM(modifiers, operands) {0, modifiers, operands},
    SG_PTX_FORMS(OPCODE, FORM)
#undef OPCODE
#undef FORM
};

static const char *const kind_texts[] = {
#define KIND(id, text) text,
#define VALUE(id, text)
    SG_PTX_MODIFIERS(KIND, VALUE)
#undef KIND
#undef VALUE
};

static const char *const modifier_texts[] = {
    "",
#define KIND(id, text)
#define VALUE(id, text) text,
    SG_PTX_MODIFIERS(KIND, VALUE)
#undef KIND
#undef VALUE
};

/* Kinds and their values in one row: where a kind's values begin, minus the kinds before it. */
enum {
#define KIND(id, text) AT_KIND_##id,
#define VALUE(id, text) AT_##id,
    SG_PTX_MODIFIERS(KIND, VALUE)
#undef KIND
#undef VALUE
    AT_END
};

static const int kind_places[] = {
#define KIND(id, text) AT_KIND_##id,
#define VALUE(id, text)
    SG_PTX_MODIFIERS(KIND, VALUE)
#undef KIND
#undef VALUE
    AT_END
};

static const struct type { const char *text; char class; uint8_t bits; } types[] = {
    {"", ' ', 0},
#define CLASS_B    'B'
#define CLASS_S    'S'
#define CLASS_U    'U'
#define CLASS_F    'F'
#define CLASS_P    'P'
#define CLASS_PRED '!'
#define TYPE(id, text, class, bits) {text, CLASS_##class, bits},
    SG_PTX_TYPES(TYPE)
#undef TYPE
};
// clang-format on

_Static_assert(SG_PTX_MODIFIER_COUNT < 256 && SG_PTX_TYPE_COUNT < 64,
               "they are kept in bytes, and types in a mask");

static sg_ptx_form_t forms[FORM_COUNT];
static uint32_t first_form[SG_PTX_OPCODE_COUNT + 1];
static uint16_t by_name[SG_PTX_OPCODE_COUNT]; /* opcodes, sorted */

/* ---- names of things ---- */
const char *sg_ptx_opcode_text(sg_ptx_opcode_t opcode)
{
    return opcode < SG_PTX_OPCODE_COUNT ? opcode_texts[opcode] : "?";
}

const char *sg_ptx_modifier_text(sg_ptx_modifier_t modifier)
{
    return modifier < SG_PTX_MODIFIER_COUNT ? modifier_texts[modifier] : "?";
}

const char *sg_ptx_type_text(sg_ptx_type_t type)
{
    return type < SG_PTX_TYPE_COUNT ? types[type].text : "?";
}

uint32_t sg_ptx_type_bits(sg_ptx_type_t type)
{
    return types[type].bits;
}

char sg_ptx_type_class(sg_ptx_type_t type)
{
    return types[type].class;
}

bool sg_ptx_text_is(sg_ptx_text_t text, const char *word)
{
    return strncmp(text.at, word, text.length) == 0 && word[text.length] == '\0';
}

sg_ptx_type_t sg_ptx_type_find(sg_ptx_text_t text)
{
    for (int i = 1; i < SG_PTX_TYPE_COUNT; i++)
        if (sg_ptx_text_is(text, types[i].text))
            return (sg_ptx_type_t)i;
    return SG_PTX_NO_TYPE;
}

uint32_t sg_ptx_kind_first(sg_ptx_kind_t kind)
{
    return (uint32_t)(kind_places[kind] - (int)kind + 1);
}

sg_ptx_modifier_t sg_ptx_modifier_find(sg_ptx_kind_t kind, sg_ptx_text_t text)
{
    for (uint32_t i = sg_ptx_kind_first(kind); i < sg_ptx_kind_first(kind + 1); i++)
        if (sg_ptx_text_is(text, modifier_texts[i]))
            return (sg_ptx_modifier_t)i;
    return SG_PTX_ABSENT;
}

/* ---- compiling ---- */
/* The table is wrong: only its author can meet this, in the first test. */
static _Noreturn void wrong_table(const char *row, const char *what)
{
    fprintf(stderr, "softgpu: isa.def: \"%s\": %s\n", row, what);
    abort();
}

static sg_ptx_text_t next_word(const char **at)
{
    while (**at == ' ')
        (*at)++;
    sg_ptx_text_t word = {*at, 0};
    while (**at && **at != ' ')
        (*at)++;
    word.length = (uint32_t)(*at - word.at);
    return word;
}

/* Up to the mark or the end; the word then begins behind it. */
static sg_ptx_text_t split(sg_ptx_text_t *word, char mark)
{
    const char *found = memchr(word->at, mark, word->length);
    sg_ptx_text_t part = {word->at, found != NULL ? (uint32_t)(found - word->at) : word->length};
    uint32_t taken = part.length + (found != NULL);
    *word = (sg_ptx_text_t){word->at + taken, word->length - taken};
    return part;
}

static sg_ptx_kind_t kind_find(sg_ptx_text_t text, const char *row)
{
    for (int i = 0; i < SG_PTX_KIND_COUNT; i++)
        if (sg_ptx_text_is(text, kind_texts[i]))
            return (sg_ptx_kind_t)i;
    wrong_table(row, "no such kind");
}

static void compile_group(sg_ptx_group_t *group, sg_ptx_text_t word, const char *row)
{
    sg_ptx_text_t kind = word;
    const char *colon = memchr(word.at, ':', word.length);
    sg_ptx_text_t values = {word.at + word.length, 0};
    if (colon != NULL) {
        kind.length = (uint32_t)(colon - word.at);
        values = (sg_ptx_text_t){colon + 1, word.length - kind.length - 1};
    }
    if (kind.at[kind.length - 1] == '?') {
        group->optional = true;
        kind.length--;
    }
    group->kind = (uint8_t)kind_find(kind, row);
    group->shapes = values.at;
    if (group->kind == SG_PTX_KIND_SHAPE)
        return;
    if (values.length == 0)
        group->values = UINT64_MAX;
    while (values.length) {
        sg_ptx_text_t value = split(&values, '|');
        uint32_t bit = group->kind == SG_PTX_KIND_TYPE
                           ? sg_ptx_type_find(value)
                           : sg_ptx_modifier_find(group->kind, value) + 1 - sg_ptx_kind_first(group->kind);
        if (bit == 0 || bit > 63)
            wrong_table(row, "no such value");
        group->values |= 1ull << (group->kind == SG_PTX_KIND_TYPE ? bit : bit - 1);
    }
}

static void compile_modifiers(sg_ptx_form_t *form)
{
    bool any_order = false;
    const char *at = form->modifiers;
    for (sg_ptx_text_t word; (word = next_word(&at)).length;) {
        if (sg_ptx_text_is(word, "(") || sg_ptx_text_is(word, ")")) {
            any_order = *word.at == '(';
            continue;
        }
        if (form->group_count == SG_PTX_GROUPS_MOST)
            wrong_table(form->modifiers, "too many groups");
        sg_ptx_group_t *group = &form->groups[form->group_count++];
        group->any_order = any_order;
        compile_group(group, word, form->modifiers);
    }
}

static void compile_slot(sg_ptx_slot_t *slot, sg_ptx_text_t word, const char *row)
{
    if (memchr(word.at, ':', word.length) != NULL)
        slot->only_with = (uint8_t)kind_find(split(&word, ':'), row);
    if (word.at[word.length - 1] == '?') {
        slot->optional = true;
        word.length--;
    }
    for (;; word.at++, word.length--) {
        if (*word.at == '=')
            slot->written = true;
        else if (*word.at == '|')
            slot->written = slot->second = true;
        else if (*word.at == '_')
            slot->sink = true;
        else if (*word.at == '!')
            slot->negatable = true;
        else if (*word.at == '&')
            slot->wider = true;
        else if (*word.at == '@')
            slot->symbol = true;
        else if (*word.at == '#')
            slot->immediate_only = true;
        else
            break;
    }
    if (memchr(word.at, '*', word.length) != NULL) {
        sg_ptx_text_t count = split(&word, '*');
        if (sg_ptx_text_is(count, "vec"))
            slot->count = SG_PTX_COUNT_VEC;
        else if (sg_ptx_text_is(count, "num"))
            slot->count = SG_PTX_COUNT_NUM;
        else if (sg_ptx_text_is(count, "n/2"))
            slot->count = SG_PTX_COUNT_HALF_N;
        else if (sg_ptx_text_is(count, "n/4"))
            slot->count = SG_PTX_COUNT_QUARTER_N;
        else
            slot->count = (uint8_t)(*count.at - '0');
    }
    static const char *const words[] = {
        [SG_PTX_SLOT_VALUE] = "D",   [SG_PTX_SLOT_POINTER] = "addr", [SG_PTX_SLOT_MEMORY] = "m",
        [SG_PTX_SLOT_PACK] = "pack", [SG_PTX_SLOT_LABEL] = "label",  [SG_PTX_SLOT_TABLE] = "table",
        [SG_PTX_SLOT_CALL] = "call"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (sg_ptx_text_is(word, words[i])) {
            slot->kind = (uint8_t)i;
            slot->twice = i == SG_PTX_SLOT_VALUE;
            return;
        }
    const char *group = word.length == 1 ? strchr("TUVW", *word.at) : NULL;
    slot->type_group = group != NULL ? (uint8_t)(*group - 'T') : 0;
    slot->type = (uint8_t)(group != NULL ? SG_PTX_NO_TYPE : sg_ptx_type_find(word));
    if (group == NULL && slot->type == SG_PTX_NO_TYPE)
        wrong_table(row, "no such operand");
}

static void compile_operands(sg_ptx_form_t *form)
{
    const char *at = form->operands;
    for (sg_ptx_text_t word; (word = next_word(&at)).length;) {
        if (form->slot_count == SG_PTX_SLOTS_MOST)
            wrong_table(form->operands, "too many operands");
        compile_slot(&form->slots[form->slot_count++], word, form->operands);
    }
}

static int by_text(const void *a, const void *b)
{
    return strcmp(opcode_texts[*(const uint16_t *)a], opcode_texts[*(const uint16_t *)b]);
}

static void compile(void)
{
    uint32_t count = 0;
    int opcode = 0;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (rows[i].modifiers == NULL) {
            opcode = rows[i].opcode;
            first_form[opcode] = count;
            continue;
        }
        sg_ptx_form_t *form = &forms[count++];
        form->opcode = (uint16_t)opcode;
        form->modifiers = rows[i].modifiers;
        form->operands = rows[i].operands;
        compile_modifiers(form);
        compile_operands(form);
    }
    first_form[SG_PTX_OPCODE_COUNT] = count;
    for (int i = 0; i < SG_PTX_OPCODE_COUNT; i++)
        by_name[i] = (uint16_t)i;
    qsort(by_name, SG_PTX_OPCODE_COUNT, sizeof *by_name, by_text);
}

const sg_ptx_form_t *sg_ptx_forms(uint32_t *count)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, compile);
    if (count != NULL)
        *count = FORM_COUNT;
    return forms;
}

void sg_ptx_forms_of(sg_ptx_opcode_t opcode, uint32_t *first, uint32_t *count)
{
    sg_ptx_forms(NULL);
    *first = first_form[opcode];
    *count = first_form[opcode + 1] - *first;
}

static int name_against_text(const void *text, const void *opcode)
{
    return strcmp(text, opcode_texts[*(const uint16_t *)opcode]);
}

sg_ptx_opcode_t sg_ptx_opcode_find(const char *text)
{
    sg_ptx_forms(NULL);
    const uint16_t *found = bsearch(text, by_name, SG_PTX_OPCODE_COUNT, sizeof *by_name, name_against_text);
    return found != NULL ? (sg_ptx_opcode_t)*found : SG_PTX_OPCODE_COUNT;
}

const char *sg_ptx_form_text(uint32_t form, char *out, size_t bytes)
{
    const sg_ptx_form_t *f = &sg_ptx_forms(NULL)[form];
    snprintf(out, bytes, "%s%s%s%s%s", opcode_texts[f->opcode], *f->modifiers ? " " : "", f->modifiers,
             *f->operands ? ", " : "", f->operands);
    return out;
}

/* ---- matching ---- */
static bool read_shape(sg_ptx_text_t text, uint16_t shape[3])
{
    char copy[24];
    unsigned m, n, k = 0;
    int end = 0;
    if (text.length >= sizeof copy)
        return false;
    memcpy(copy, text.at, text.length);
    copy[text.length] = '\0';
    if (sscanf(copy, "m%4un%4uk%4u%n", &m, &n, &k, &end) != 3 || copy[end] != '\0' || copy[1] == '0')
        return false;
    shape[0] = (uint16_t)m;
    shape[1] = (uint16_t)n;
    shape[2] = (uint16_t)k;
    char again[48];
    snprintf(again, sizeof again, "m%un%uk%u", m, n, k); /* no zeros in front, no signs */
    return strcmp(again, copy) == 0;
}

static bool shape_fits(sg_ptx_text_t text, const char *shapes, uint16_t shape[3])
{
    sg_ptx_text_t list = next_word(&shapes), wanted;
    if (!read_shape(text, shape))
        return false;
    while ((wanted = split(&list, '|')).length) {
        const char *any = memchr(wanted.at, '*', wanted.length);
        if (any == NULL) {
            if (wanted.length == text.length && memcmp(wanted.at, text.at, text.length) == 0)
                return true;
            continue;
        }
        char filled[24];
        snprintf(filled, sizeof filled, "%.*s%u%.*s", (int)(any - wanted.at), wanted.at, shape[1],
                 (int)(wanted.at + wanted.length - any - 1), any + 1);
        if (shape[1] % 8 == 0 && shape[1] > 0 && shape[1] <= 256 && sg_ptx_text_is(text, filled))
            return true;
    }
    return false;
}

static bool group_takes(const sg_ptx_group_t *group, sg_ptx_text_t text, sg_ptx_insn_t *insn)
{
    if (group->kind == SG_PTX_KIND_SHAPE)
        return shape_fits(text, group->shapes, insn->shape);
    if (group->kind == SG_PTX_KIND_TYPE) {
        sg_ptx_type_t type = sg_ptx_type_find(text);
        if (type == SG_PTX_NO_TYPE || !(group->values >> type & 1))
            return false;
        insn->type[insn->type_count++] = (uint8_t)type;
        return true;
    }
    sg_ptx_modifier_t value = sg_ptx_modifier_find(group->kind, text);
    if (value == SG_PTX_ABSENT || !(group->values >> (value - sg_ptx_kind_first(group->kind)) & 1))
        return false;
    insn->modifier[group->kind] = (uint8_t)value;
    return true;
}

bool sg_ptx_form_match(const sg_ptx_form_t *form, const sg_ptx_text_t *modifiers, uint32_t count,
                       sg_ptx_insn_t *insn)
{
    memset(insn->modifier, 0, sizeof insn->modifier);
    memset(insn->type, 0, sizeof insn->type);
    memset(insn->shape, 0, sizeof insn->shape);
    insn->type_count = 0;
    uint32_t used = 0, taken = 0; /* groups, as bits; modifiers */
    for (uint32_t g = 0; g < form->group_count; g++) {
        const sg_ptx_group_t *group = &form->groups[g];
        if (used >> g & 1)
            continue;
        if (!group->any_order) {
            if (taken < count && group_takes(group, modifiers[taken], insn))
                taken++;
            else if (!group->optional)
                return false;
            continue;
        }
        /* All that any group up to the `)` takes. */
        uint32_t end = g;
        while (end < form->group_count && form->groups[end].any_order)
            end++;
        for (bool more = true; more && taken < count;) {
            more = false;
            for (uint32_t i = g; i < end && !more; i++)
                if (!(used >> i & 1) && group_takes(&form->groups[i], modifiers[taken], insn)) {
                    used |= 1u << i;
                    more = true;
                }
            taken += more;
        }
        for (uint32_t i = g; i < end; i++)
            if (!(used >> i & 1) && !form->groups[i].optional)
                return false;
        used |= (1u << end) - 1;
    }
    return taken == count;
}

uint32_t sg_ptx_vector_elements(const sg_ptx_insn_t *insn)
{
    const uint8_t vector = insn->modifier[SG_PTX_KIND_VECTOR];
    return vector == SG_PTX_V2 ? 2 : vector == SG_PTX_V4 ? 4 : vector == SG_PTX_V8 ? 8 : 1;
}
