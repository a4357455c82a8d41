/* internal.h: how the reader is made. lex.c cuts the text into tokens; read.c reads what stands in a module, variable.c its
 * variables, body.c what stands in a function; form.c is isa.def, compiled once; bind.c gives an instruction its form and types its operands; flow.c makes blocks.
 *
 * Errors leave by longjmp (sg_ptx_fail): all memory is in the module's arena, which sg_ptx_read() frees then. */
#ifndef SG_PTX_INTERNAL_H
#define SG_PTX_INTERNAL_H

#include <setjmp.h>

#include "softgpu/ptx/ptx.h"

/* ---- arena.c: memory that lives as long as the module ---- */
typedef struct sg_ptx_arena {
    struct sg_ptx_chunk *chunks;
} sg_ptx_arena_t;

/* An array that grows: `items` moves. */
typedef struct sg_ptx_list {
    void *items;
    uint32_t count, room;
} sg_ptx_list_t;

/* ---- form.c ---- */
#define SG_PTX_GROUPS_MOST 10
#define SG_PTX_SLOTS_MOST  8

typedef struct sg_ptx_group {
    uint8_t kind;
    bool optional, any_order;
    uint64_t values;    /* bit v - first of the kind; of types, bit v */
    const char *shapes; /* of a shape: alternatives, to the next space */
} sg_ptx_group_t;

typedef enum sg_ptx_slot_kind {
    SG_PTX_SLOT_VALUE,
    SG_PTX_SLOT_POINTER, /* `addr` */
    SG_PTX_SLOT_MEMORY,
    SG_PTX_SLOT_PACK,
    SG_PTX_SLOT_LABEL,
    SG_PTX_SLOT_TABLE,
    SG_PTX_SLOT_CALL
} sg_ptx_slot_kind_t;

enum { SG_PTX_COUNT_VEC = 100, SG_PTX_COUNT_NUM, SG_PTX_COUNT_HALF_N, SG_PTX_COUNT_QUARTER_N };

typedef struct sg_ptx_slot {
    uint8_t kind;
    uint8_t type;       /* fixed; or SG_PTX_NO_TYPE: */
    uint8_t type_group; /* T 0, U 1, V 2, W 3 */
    bool twice;         /* D */
    uint8_t count;      /* 0: a scalar; elements, or SG_PTX_COUNT_... */
    uint8_t only_with;  /* kind, 0 (types): unconditional */
    bool written, second, sink, negatable, wider, symbol, immediate_only, optional;
} sg_ptx_slot_t;

typedef struct sg_ptx_form {
    uint16_t opcode;
    uint8_t group_count, slot_count;
    sg_ptx_group_t groups[SG_PTX_GROUPS_MOST];
    sg_ptx_slot_t slots[SG_PTX_SLOTS_MOST];
    const char *modifiers, *operands;
} sg_ptx_form_t;

typedef struct sg_ptx_text { /* a piece of the text, without an end mark */
    const char *at;
    uint32_t length;
} sg_ptx_text_t;

/* All forms, an opcode's after one another; compiled by the first call. */
const sg_ptx_form_t *sg_ptx_forms(uint32_t *count);
void sg_ptx_forms_of(sg_ptx_opcode_t opcode, uint32_t *first, uint32_t *count);
/* SG_PTX_OPCODE_COUNT: no such opcode. */
sg_ptx_opcode_t sg_ptx_opcode_find(const char *text);
bool sg_ptx_text_is(sg_ptx_text_t text, const char *word);
sg_ptx_type_t sg_ptx_type_find(sg_ptx_text_t text);
sg_ptx_modifier_t sg_ptx_modifier_find(sg_ptx_kind_t kind, sg_ptx_text_t text);
uint32_t sg_ptx_kind_first(sg_ptx_kind_t kind); /* modifier */
char sg_ptx_type_class(sg_ptx_type_t type);     /* 'B', 'S', 'U', 'F', 'P'; predicates '!' */
/* Sets the instruction's modifiers if they are the form's. */
bool sg_ptx_form_match(const sg_ptx_form_t *form, const sg_ptx_text_t *modifiers, uint32_t count,
                       sg_ptx_insn_t *insn);

/* ---- lex.c ---- */
typedef enum sg_ptx_token_kind {
    SG_PTX_END,
    SG_PTX_NAME,
    SG_PTX_DOTTED, /* a directive or modifier; `text` is without the dot */
    SG_PTX_INTEGER,
    SG_PTX_FLOAT, /* `bits` of it as .f32 if single, else as .f64 */
    SG_PTX_STRING,
    SG_PTX_MARK /* one character: *text.at */
} sg_ptx_token_kind_t;

typedef struct sg_ptx_token {
    sg_ptx_token_kind_t kind;
    sg_ptx_text_t text;
    uint32_t line;
    uint64_t bits;
    bool single;
} sg_ptx_token_t;

typedef enum sg_ptx_name_kind {
    SG_PTX_NAME_REGISTER,
    SG_PTX_NAME_RANGE, /* under its name with `<` behind it */
    SG_PTX_NAME_SPECIAL,
    SG_PTX_NAME_VARIABLE,
    SG_PTX_NAME_FUNCTION,
    SG_PTX_NAME_LABEL,
    SG_PTX_NAME_TABLE, /* .branchtargets */
    SG_PTX_NAME_PROTOTYPE,
    SG_PTX_NAME_TARGETS /* .calltargets */
} sg_ptx_name_kind_t;

typedef struct sg_ptx_name {
    sg_ptx_text_t text;
    sg_ptx_name_kind_t kind;
    uint32_t
        number; /* RANGE: index of the range; LABEL: instruction; TABLE, TARGETS: count; REGISTER, SPECIAL */
    sg_ptx_type_t type;
    void *thing;
    uint32_t depth;
    struct sg_ptx_name *next, *declared_before;
} sg_ptx_name_t;

/* An operand as written, before it is known what it has to be. */
typedef enum sg_ptx_raw_kind {
    SG_PTX_RAW_NAME, /* + offset */
    SG_PTX_RAW_INTEGER,
    SG_PTX_RAW_FLOAT,
    SG_PTX_RAW_ADDRESS, /* [name or nothing + offset]; with `count`: coordinates stood inside, and are the next operand */
    SG_PTX_RAW_VECTOR
} sg_ptx_raw_kind_t;

typedef struct sg_ptx_raw {
    sg_ptx_raw_kind_t kind;
    bool negated, second, single, offset_given;
    sg_ptx_text_t text;
    const sg_ptx_name_t *name; /* NULL: not declared, or no name */
    uint32_t number;           /* of a register or special register */
    uint64_t bits;
    int64_t offset;
    const struct sg_ptx_raw *elements;
    uint32_t count;
} sg_ptx_raw_t;

#define SG_PTX_RAW_MOST    24
#define SG_PTX_DOTTED_MOST 20

/* A jump's operand whose label has not been found yet. */
typedef struct sg_ptx_pending {
    sg_ptx_text_t text;
    sg_ptx_operand_t *operand; /* of the instruction or in a jump table */
    uint32_t line, depth;
} sg_ptx_pending_t;

#define SG_PTX_BUCKETS 1024

typedef struct sg_ptx_reader {
    sg_ptx_arena_t *arena;
    sg_ptx_module_t *module;
    sg_ptx_error_t *error;
    jmp_buf failed;
    const char *at, *end;
    uint32_t line;
    sg_ptx_token_t token; /* the current one */
    sg_ptx_name_t *buckets[SG_PTX_BUCKETS], *declared;
    uint32_t depth; /* 0: the module, 1: the parameters and body of a function, 2...: { } in it */
    sg_ptx_list_t variables, functions, files; /* of the module */
    sg_ptx_function_t *function;               /* the one that is read */
    sg_ptx_list_t insns, ranges, locals, pending;
    uint32_t register_count, source_file, source_line;
    uint32_t nesting; /* of vectors and initialisers */
} sg_ptx_reader_t;

/* ---- arena.c ---- */
void *sg_ptx_alloc(sg_ptx_reader_t *reader, size_t bytes); /* zeroed */
char *sg_ptx_copy_text(sg_ptx_reader_t *reader, sg_ptx_text_t text);
/* The next item, zeroed; good until the list grows again. */
void *sg_ptx_add(sg_ptx_reader_t *reader, sg_ptx_list_t *list, size_t item_bytes);
_Noreturn void sg_ptx_fail_at(sg_ptx_reader_t *reader, uint32_t line, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
#define sg_ptx_fail(reader, ...) sg_ptx_fail_at(reader, (reader)->token.line, __VA_ARGS__)

/* ---- lex.c ---- */
void sg_ptx_next(sg_ptx_reader_t *reader);
void sg_ptx_skip_line(sg_ptx_reader_t *reader);      /* what is left of the current token's line */
void sg_ptx_skip_statement(sg_ptx_reader_t *reader); /* to behind the semicolon */
bool sg_ptx_is_mark(const sg_ptx_reader_t *reader, char mark);
bool sg_ptx_is_dotted(const sg_ptx_reader_t *reader, const char *word);
bool sg_ptx_take(sg_ptx_reader_t *reader, char mark); /* if it is the current token */
bool sg_ptx_take_dotted(sg_ptx_reader_t *reader, const char *word);
void sg_ptx_expect(sg_ptx_reader_t *reader, char mark);
sg_ptx_text_t sg_ptx_expect_name(sg_ptx_reader_t *reader, const char *what);
uint32_t sg_ptx_expect_count(sg_ptx_reader_t *reader, uint32_t most, const char *what);

/* Declares a name in the current scope; it must be new there. */
sg_ptx_name_t *sg_ptx_declare(sg_ptx_reader_t *reader, sg_ptx_text_t text, sg_ptx_name_kind_t kind,
                              void *thing);
const sg_ptx_name_t *sg_ptx_lookup(const sg_ptx_reader_t *reader, sg_ptx_text_t text);
void sg_ptx_leave_scope(sg_ptx_reader_t *reader);

/* ---- read.c ---- */
void sg_ptx_read_module(sg_ptx_reader_t *reader);

/* ---- variable.c ---- */
/* From the state space's directive, the current token, to the semicolon. */
void sg_ptx_read_variables(sg_ptx_reader_t *reader, sg_ptx_linkage_t linkage);
/* ( .param ... , ... ), the first parenthesis being the current token. */
sg_ptx_variable_t **sg_ptx_read_parameters(sg_ptx_reader_t *reader, uint32_t *count);

/* ---- body.c ---- */
void sg_ptx_read_body(sg_ptx_reader_t *reader); /* of reader->function, from the brace */

/* ---- bind.c ---- */
/* Gives the instruction form, modifiers and operands, or fails. `text`: the instruction, for the error. */
void sg_ptx_bind(sg_ptx_reader_t *reader, sg_ptx_insn_t *insn, sg_ptx_opcode_t opcode,
                 const sg_ptx_text_t *modifiers, uint32_t modifier_count, const sg_ptx_raw_t *raws,
                 uint32_t raw_count, sg_ptx_text_t text);

/* ---- flow.c ---- */
void sg_ptx_make_blocks(sg_ptx_reader_t *reader, sg_ptx_function_t *function);

#endif
