/* softgpu/ptx/ptx.h: reads PTX, NVIDIA's documented assembly for GPUs, as LLVM's NVPTX back end writes it (Clang, Triton).
 *
 * A pure library: text in, a checked module out. It knows no driver, prints nothing, and generates no code. Reference:
 * "PTX ISA", NVIDIA's documentation, to version 9.0. Every instruction in a module is one of the forms of isa.def; what
 * is not there is refused when the module is read, with its line.
 *
 * Glossary
 *   opcode     what an instruction does: `add`, `ld`, `bar.sync`. Its name is the longest one of isa.def that the text begins with
 *   modifier   what follows the opcode behind dots, of a kind: `.rn` is a rounding, `.gpu` a scope. A type is one too
 *   form       an opcode with the modifiers it takes, in order, and its operands: a row of isa.def
 *   slot       a place for an operand in a form
 *   register   a number in its function. Registers are declared in ranges: `.reg .b32 %r<10>` is one of ten
 *   variable   memory with a name: in a state space, of the module, or of a function (parameters, .local, .shared)
 *   block      instructions that run one after the other: entered at the first, left behind the last
 *   guard      the predicate in front of an instruction: `@!%p1`
 *
 * Invariants of a module that was read
 *   operand_count == the form's slots, in their order; an optional one that is not given has kind SG_PTX_NONE
 *   every operand has the size and class that its slot asks for: register, immediate (truncated to the type), symbol
 *   insns == concatenation of the blocks; a jump goes to a block's first instruction
 *   a block's `join` is its immediate post-dominator
 *
 * Memory: a module owns all that its pointers lead to; it is read-only, and lives until sg_ptx_free(). It keeps nothing of
 * the text. Threads: functions may be called by several at once; a module may be looked at by several.
 * Errors: false, and the first error's line and text; the module is then NULL. */
#ifndef SG_PTX_H
#define SG_PTX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "softgpu/ptx/isa.def"

// clang-format off
typedef enum sg_ptx_opcode {
#define OPCODE(id, text) SG_PTX_OP_##id,
#define FORM(modifiers, operands)
    SG_PTX_FORMS(OPCODE, FORM)
#undef OPCODE
#undef FORM
    SG_PTX_OPCODE_COUNT
} sg_ptx_opcode_t;

typedef enum sg_ptx_kind { /* of modifiers */
#define KIND(id, text) SG_PTX_KIND_##id,
#define VALUE(id, text)
    SG_PTX_MODIFIERS(KIND, VALUE)
#undef KIND
#undef VALUE
    SG_PTX_KIND_COUNT
} sg_ptx_kind_t;

typedef enum sg_ptx_modifier {
    SG_PTX_ABSENT = 0,
#define KIND(id, text)
#define VALUE(id, text) SG_PTX_##id,
    SG_PTX_MODIFIERS(KIND, VALUE)
#undef KIND
#undef VALUE
    SG_PTX_MODIFIER_COUNT
} sg_ptx_modifier_t;

typedef enum sg_ptx_type {
    SG_PTX_NO_TYPE = 0,
#define TYPE(id, text, class, bits) SG_PTX_##id,
    SG_PTX_TYPES(TYPE)
#undef TYPE
    SG_PTX_TYPE_COUNT
} sg_ptx_type_t;

typedef enum sg_ptx_special { /* special registers; of the vectors, x: y and z are the next two */
#define SPECIAL(id, text, type, width) SG_PTX_SPECIAL_##id, SG_PTX_SPECIAL_##id##_LAST = SG_PTX_SPECIAL_##id + (width) - 1,
    SG_PTX_SPECIALS(SPECIAL)
#undef SPECIAL
    SG_PTX_SPECIAL_COUNT
} sg_ptx_special_t;
// clang-format on

typedef enum sg_ptx_linkage {
    SG_PTX_INTERNAL,
    SG_PTX_VISIBLE,
    SG_PTX_EXTERN,
    SG_PTX_WEAK,
    SG_PTX_COMMON
} sg_ptx_linkage_t;

typedef struct sg_ptx_function sg_ptx_function_t;
typedef struct sg_ptx_variable sg_ptx_variable_t;

/* An address in an initialiser, at `offset_bytes` of it: (address of the symbol + addend), `shift_bits` shifted right, the low `bytes`. */
typedef struct sg_ptx_relocation {
    uint64_t offset_bytes;
    const sg_ptx_variable_t *variable; /* or NULL: */
    const sg_ptx_function_t *function;
    int64_t addend;
    uint8_t shift_bits, bytes;
    bool generic; /* the generic address, not the one in the symbol's state space */
} sg_ptx_relocation_t;

struct sg_ptx_variable {
    const char *name;
    sg_ptx_modifier_t space; /* SG_PTX_SPACE_... */
    sg_ptx_linkage_t linkage;
    sg_ptx_type_t type; /* of an element */
    uint32_t line;
    uint32_t align_bytes; /* the type's, unless declared otherwise */
    uint64_t bytes;       /* 0: an array without a size (dynamic shared memory, or declared elsewhere) */
    bool array;
    bool managed;         /* .attribute(.managed) */
    const uint8_t *image; /* [image_bytes], what follows is 0; NULL: not initialised */
    uint64_t image_bytes;
    const sg_ptx_relocation_t *relocations;
    uint32_t relocation_count;
    /* A parameter with a .ptr hint: the space that it points to (SG_PTX_ABSENT: generic) and the alignment there. */
    bool pointer;
    sg_ptx_modifier_t pointer_space;
    uint32_t pointer_align_bytes;
};

typedef enum sg_ptx_operand_kind {
    SG_PTX_NONE, /* an optional operand that is not given */
    SG_PTX_REGISTER,
    SG_PTX_IMMEDIATE,
    SG_PTX_SPECIAL_REGISTER,
    SG_PTX_SYMBOL,  /* the address of a variable or function, + offset */
    SG_PTX_ADDRESS, /* memory there: register, variable or nothing, + offset */
    SG_PTX_VECTOR,  /* of registers, immediates, sinks */
    SG_PTX_SINK,    /* `_` */
    SG_PTX_LABEL,   /* a block of the function */
    SG_PTX_JUMP_TABLE
} sg_ptx_operand_kind_t;

typedef struct sg_ptx_operand {
    uint8_t kind;    /* sg_ptx_operand_kind_t */
    uint8_t type;    /* sg_ptx_type_t: as declared (register, special register), as converted (immediate) */
    bool negated;    /* `!` in front of a predicate */
    uint16_t count;  /* VECTOR: elements; JUMP_TABLE: targets */
    uint32_t number; /* REGISTER; ADDRESS with `based`; SPECIAL_REGISTER; LABEL */
    bool based;      /* ADDRESS: the register `number` is its base */
    const sg_ptx_variable_t *variable; /* SYMBOL, ADDRESS; or NULL */
    const sg_ptx_function_t *function; /* SYMBOL; or NULL */
    union {
        uint64_t bits;                         /* IMMEDIATE: in the type's size, the rest 0 */
        int64_t offset;                        /* SYMBOL, ADDRESS */
        const struct sg_ptx_operand *elements; /* VECTOR, JUMP_TABLE: [count] */
    };
} sg_ptx_operand_t;

/* Parameters and results of a call, and what an indirect one calls. */
typedef struct sg_ptx_prototype {
    sg_ptx_variable_t *const *returns, *const *parameters;
    uint32_t return_count, parameter_count;
    bool noreturn;
} sg_ptx_prototype_t;

typedef struct sg_ptx_call {
    const sg_ptx_function_t *callee;     /* NULL: indirect */
    sg_ptx_operand_t pointer;            /* then: the register */
    const sg_ptx_prototype_t *prototype; /* of what is called; NULL: indirect, by a list of callees */
    const sg_ptx_function_t *const *targets;
    uint32_t target_count;
    const sg_ptx_operand_t *returns, *arguments; /* registers, immediates, or .param variables as SYMBOL */
    uint32_t return_count, argument_count;
} sg_ptx_call_t;

#define SG_PTX_TYPES_MOST 4

typedef struct sg_ptx_insn {
    uint16_t opcode;                   /* sg_ptx_opcode_t */
    uint16_t form;                     /* row of isa.def: sg_ptx_form_text() */
    uint32_t line;                     /* in the PTX */
    uint32_t source_line, source_file; /* by .loc: module->files[source_file]; line 0: unknown */
    bool guarded, guard_negated;
    uint32_t guard;                      /* register */
    uint8_t modifier[SG_PTX_KIND_COUNT]; /* by kind: sg_ptx_modifier_t; of types, see `type` */
    uint8_t type[SG_PTX_TYPES_MOST];     /* in the text's order; cvt.rn.f32.s64: f32, s64 */
    uint8_t type_count;
    uint8_t operand_count;
    uint16_t shape[3];                /* .m16n8k8: 16, 8, 8 */
    const sg_ptx_operand_t *operands; /* [operand_count], in the form's order */
    const sg_ptx_call_t *call;        /* of `call`, else NULL */
} sg_ptx_insn_t;

#define SG_PTX_EXIT UINT32_MAX /* in the place of a block: the function's end */

typedef struct sg_ptx_block {
    uint32_t first, count;      /* instructions */
    const uint32_t *successors; /* blocks, or SG_PTX_EXIT; of a guarded branch, the target first */
    uint32_t successor_count;
    uint32_t
        join; /* immediate post-dominator: where lanes that have parted here meet again; or SG_PTX_EXIT */
} sg_ptx_block_t;

typedef struct sg_ptx_range {
    const char *name; /* of a register, or what a number follows */
    sg_ptx_type_t type;
    uint32_t first, count;
    bool numbered; /* declared as name<count> */
} sg_ptx_range_t;

struct sg_ptx_function {
    const char *name;
    sg_ptx_linkage_t linkage;
    bool entry;   /* a kernel */
    bool defined; /* has a body */
    uint32_t line;
    sg_ptx_prototype_t prototype;
    const sg_ptx_function_t *alias_of;   /* by .alias; or NULL */
    uint32_t max_threads[3];             /* .maxntid; 0, 0, 0: not given */
    uint32_t required_threads[3];        /* .reqntid */
    uint32_t required_cluster[3];        /* .reqnctapercluster */
    uint32_t min_blocks, max_registers;  /* .minnctapersm, .maxnreg */
    sg_ptx_variable_t *const *variables; /* declared in the body, at any depth */
    uint32_t variable_count;
    const sg_ptx_range_t *ranges; /* by register number */
    uint32_t range_count, register_count;
    const sg_ptx_insn_t *insns;
    uint32_t insn_count;
    const sg_ptx_block_t *blocks; /* [0] is the entry; none: an empty body */
    uint32_t block_count;
};

typedef struct sg_ptx_module {
    uint32_t version[2];
    uint32_t target; /* sm_90a: 90 */
    char target_suffix;
    uint32_t address_bits;
    sg_ptx_variable_t *const *variables;
    uint32_t variable_count;
    sg_ptx_function_t *const *functions; /* declared and defined, each name once */
    uint32_t function_count;
    const char *const *files; /* by number; NULL: none */
    uint32_t file_count;
} sg_ptx_module_t;

typedef struct sg_ptx_error {
    uint32_t line;  /* from 1; 0: of the whole text */
    char text[512]; /* one line; begins with "line N: " if there is one */
} sg_ptx_error_t;

/* Reads `bytes` of text, or as far as its NUL. The caller owns *out. */
bool sg_ptx_read(const char *text, size_t bytes, sg_ptx_module_t **out, sg_ptx_error_t *error);
void sg_ptx_free(sg_ptx_module_t *module); /* NULL: nothing */

/* True if the text's head names NVIDIA's compiler: *why (a constant, NULL allowed) then says in one line why it is not
 * run here, and what to do instead. The reader itself does not ask. */
bool sg_ptx_is_of_nvidia(const char *text, size_t bytes, const char **why);

const char *sg_ptx_opcode_text(sg_ptx_opcode_t opcode);       /* "bar.sync" */
const char *sg_ptx_modifier_text(sg_ptx_modifier_t modifier); /* "rn", without the dot */
const char *sg_ptx_type_text(sg_ptx_type_t type);             /* "f32" */
uint32_t sg_ptx_type_bits(sg_ptx_type_t type);                /* of .pred: 1 */
uint32_t sg_ptx_vector_elements(const sg_ptx_insn_t *insn);   /* of .v4: 4; 1: none is given */
/* The range that a register is in. */
const sg_ptx_range_t *sg_ptx_register(const sg_ptx_function_t *function, uint32_t number);
/* A form as in isa.def: "add sat? type:s32, =T T T". Returns `out`. */
const char *sg_ptx_form_text(uint32_t form, char *out, size_t bytes);

#endif
