/* softgpu/ptx/translator.h: how the translator is made; translate.h is what others see.
 *
 * translate.c writes the module: variables, prototypes, the table of kernels. translate_flow.c writes a function's body: its pieces in
 * order, jumps, calls. translate_value.c has operands and results, which translate_int.c, translate_float.c, translate_memory.c,
 * translate_warp.c and translate_mbarrier.c join to instructions.
 *
 * Glossary
 *   text    a piece of C, in the translator's pool, which is emptied after each instruction
 *   piece   instructions of a block: a block ends a piece, and one begins before each operation of the warp, where lanes wait
 *           for each other, and behind each call in which they may wait
 *   waits   of an instruction: lanes may wait there; of a function: in one of its instructions
 *   local   a register that is in one piece only and written there first, by all lanes: its writes need no mask
 *
 * Errors leave by longjmp (sg_ptx_refuse). */
#ifndef SG_PTX_TRANSLATOR_H
#define SG_PTX_TRANSLATOR_H

#include <setjmp.h>
#include <stdio.h>

#include "softgpu/ptx/internal.h"
#include "softgpu/ptx/translate.h"

#define SG_PTX_POOL_BYTES ((size_t)1 << 18)

typedef struct sg_ptx_placed { /* where a variable is */
    const sg_ptx_variable_t *variable;
    uint64_t offset; /* .shared: in the window; else its number */
} sg_ptx_placed_t;

typedef struct sg_ptx_piece {
    uint32_t first, count; /* instructions */
    bool meets;            /* the first one is an operation of the warp */
    bool calls;            /* the last one is a call that waits; the next piece begins with */
    bool returns;          /* its results */
    uint32_t order;        /* its place among the pieces, and its label */
    uint32_t *successors, successor_count;
} sg_ptx_piece_t;

typedef struct sg_ptx_room { /* memory until the translation ends */
    struct sg_ptx_room *next;
    _Alignas(16) char bytes[];
} sg_ptx_room_t;

typedef struct sg_ptx_translator {
    const sg_ptx_module_t *module;
    uint32_t part; /* of the module: sg_ptx_translate() */
    const sg_ptx_layout_t *layout;
    FILE *out;
    sg_ptx_error_t *error;
    jmp_buf failed;
    sg_ptx_room_t *rooms; /* owned */
    char *pool;           /* owned: SG_PTX_POOL_BYTES */
    size_t pool_used;

    sg_ptx_placed_t *globals, *shared;
    uint32_t global_count, shared_count;
    uint64_t barriers, reserved, dynamic, window_bytes; /* of the window of shared memory: offsets, size */
    bool has_dynamic;
    bool *written; /* [function]: it is in this part */

    const sg_ptx_function_t *function;
    const sg_ptx_insn_t *insn;
    const sg_ptx_form_t *form;
    const char *mask; /* text: the lanes that the instruction is for */
    sg_ptx_piece_t *pieces;
    uint32_t piece_count;
    uint32_t *piece_of; /* [block]: its first piece */
    bool *local;        /* [register] */
    bool *waits;        /* [function of the module] */
    uint32_t piece;     /* that is written */
} sg_ptx_translator_t;

/* ---- translate.c ---- */
_Noreturn void sg_ptx_refuse(sg_ptx_translator_t *t, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
const char *sg_ptx_text(sg_ptx_translator_t *t, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void sg_ptx_line(sg_ptx_translator_t *t, const char *format, ...) __attribute__((format(printf, 2, 3)));
void *sg_ptx_room(sg_ptx_translator_t *t, size_t count, size_t bytes); /* zeros */
/* A function's name in C. */
const char *sg_ptx_function_name(sg_ptx_translator_t *t, const sg_ptx_function_t *function);

/* A function's number in the module. */
uint32_t sg_ptx_function_number(sg_ptx_translator_t *t, const sg_ptx_function_t *function);

/* The source's place, or the PTX's, its file for a text in C. */
uint32_t sg_ptx_source_line(sg_ptx_translator_t *t, const sg_ptx_insn_t *insn, const char **file);
/* The same as a softgpu_place_t. */
const char *sg_ptx_place_text(sg_ptx_translator_t *t);

/* ---- translate_flow.c ---- */
void sg_ptx_find_waits(sg_ptx_translator_t *t); /* of all functions */
void sg_ptx_write_body(sg_ptx_translator_t *t);

/* ---- translate_value.c ---- */
static inline sg_ptx_modifier_t sg_ptx_has(const sg_ptx_translator_t *t, sg_ptx_kind_t kind)
{
    return (sg_ptx_modifier_t)t->insn->modifier[kind];
}
bool sg_ptx_is_signed(sg_ptx_type_t type);
bool sg_ptx_is_float(sg_ptx_type_t type);    /* f16, bf16, f32, f64 */
uint32_t sg_ptx_width(sg_ptx_type_t type);   /* bits of a value of that type: 16 and up */
char sg_ptx_sign_letter(sg_ptx_type_t type); /* 's' or 'u' */
/* Operand i as a value of that size; a predicate as a mask. */
const char *sg_ptx_value(sg_ptx_translator_t *t, uint32_t i, uint32_t bits);
const char *sg_ptx_value_of(sg_ptx_translator_t *t, const sg_ptx_operand_t *operand, uint32_t bits);
const char *sg_ptx_mask_of(sg_ptx_translator_t *t, uint32_t i);
/* Writes a register: a value of `bits`, extended if the register is wider. */
void sg_ptx_result(sg_ptx_translator_t *t, const sg_ptx_operand_t *operand, uint32_t bits, bool is_signed,
                   const char *text);
void sg_ptx_result_mask(sg_ptx_translator_t *t, const sg_ptx_operand_t *operand, const char *text);
/* A value of the type as one of that many bits: cut, or extended by its sign. */
const char *sg_ptx_extend(sg_ptx_translator_t *t, const char *text, sg_ptx_type_t from, uint32_t bits);
/* Where a parameter of an entry or a variable of all lanes is: text of a uint64_t. */
const sg_ptx_placed_t *sg_ptx_place(sg_ptx_translator_t *t, const sg_ptx_variable_t *variable);
/* Number of a parameter or result among the function's; UINT32_MAX: it is another variable. */
uint32_t sg_ptx_argument(const sg_ptx_function_t *function, const sg_ptx_variable_t *variable);
uint64_t sg_ptx_param_offset(const sg_ptx_function_t *entry, uint32_t parameter);
/* Each lane's own memory of a variable of the function: text of its array. */
const char *sg_ptx_own(sg_ptx_translator_t *t, const sg_ptx_variable_t *variable);
/* Operand i, [ ], as host addresses. */
const char *sg_ptx_address(sg_ptx_translator_t *t, const sg_ptx_operand_t *operand, sg_ptx_modifier_t space);

/* ---- instructions: write the one that t->insn is ---- */
typedef void (*sg_ptx_emit_t)(sg_ptx_translator_t *t);
/* NULL: not one of theirs. */
sg_ptx_emit_t sg_ptx_emit_int(const sg_ptx_insn_t *insn);
sg_ptx_emit_t sg_ptx_emit_float(const sg_ptx_insn_t *insn);
sg_ptx_emit_t sg_ptx_emit_convert(const sg_ptx_insn_t *insn);
sg_ptx_emit_t sg_ptx_emit_memory(const sg_ptx_insn_t *insn);
bool sg_ptx_has_stack(const sg_ptx_function_t *f); /* alloca and its like: warp_stack.h */
sg_ptx_emit_t sg_ptx_emit_warp(const sg_ptx_insn_t *insn);
sg_ptx_emit_t sg_ptx_emit_mbarrier(const sg_ptx_insn_t *insn);
/* Whether lanes meet at it. */
bool sg_ptx_meets(const sg_ptx_insn_t *insn);
/* They do: `mask` becomes those that can go on. */
void sg_ptx_write_meeting(sg_ptx_translator_t *t, uint32_t order);

#endif
