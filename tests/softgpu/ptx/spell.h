/* spell.h: lines of PTX from the forms of isa.def: a form, and one choice for each group of its modifiers. */
#ifndef PTX_SPELL_H
#define PTX_SPELL_H

#include "softgpu/ptx/internal.h"

/* 0 is left out, n the n-th of its values. */
typedef struct choice {
    const sg_ptx_form_t *form;
    uint32_t number[SG_PTX_GROUPS_MOST];
    sg_ptx_insn_t expected;
    char modifiers[512];
} choice_t;

/* How many choices the group has, without that of leaving it out. */
uint32_t spell_values(const sg_ptx_group_t *group);
/* The first choice of a form: nothing that may be left out. */
void spell_first(choice_t *c, const sg_ptx_form_t *form);
/* The next one, as a number whose digits are the groups; false: there is none. */
bool spell_next(choice_t *c);
/* Writes the modifiers, and what they ought to come back as. */
void spell_modifiers(choice_t *c);
/* The line, after spell_modifiers(), with a wrong operand in that slot if there is one. */
void spell_line(const choice_t *c, uint32_t wrong, char *line, size_t bytes);
/* Modifiers of that kind change when or how fast something happens, never what is computed. */
bool spell_is_hint(uint32_t kind);
/* The type of a slot's value. */
sg_ptx_type_t spell_type(const choice_t *c, const sg_ptx_slot_t *slot);
/* The choice for a group that an instruction of that form has. */
uint32_t spell_number(const sg_ptx_form_t *form, uint32_t group, const sg_ptx_insn_t *insn);

#endif
