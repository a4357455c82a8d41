/* test_forms.c: every form of isa.def is read from lines of PTX with the choices of its modifiers (of thousands, a part), and comes
 * back as what was chosen; with a wrong operand in any place it is refused. What the forms should be is not tested here but in test_instructions.c. */
#include "ptx_test.h"

#include "spell.h"

/* Rules beside the table may refuse some choices of these; not the first, which has nothing that may be left out. */
static bool has_rules(sg_ptx_opcode_t opcode)
{
    return opcode == SG_PTX_OP_LD || opcode == SG_PTX_OP_LDU || opcode == SG_PTX_OP_ST ||
           opcode == SG_PTX_OP_ATOM || opcode == SG_PTX_OP_RED || opcode == SG_PTX_OP_CVT ||
           opcode == SG_PTX_OP_WGMMA_MMA_ASYNC ||
           (opcode >= SG_PTX_OP_MBARRIER_EXPECT_TX && opcode <= SG_PTX_OP_MBARRIER_TRY_WAIT_PARITY);
}

/* Returns whether it was read. */
static bool try_choice(choice_t *c, bool first, bool wrong_too)
{
    char line[8192];
    sg_ptx_module_t *module;
    sg_ptx_error_t error;
    spell_modifiers(c);
    spell_line(c, UINT32_MAX, line, sizeof line);
    if (!ptx_read_line(line, &module, &error)) {
        if (first || !has_rules(c->form->opcode) || strstr(error.text, "no such form"))
            fail_msg("%s: %s", line, error.text);
        return false;
    }
    const sg_ptx_function_t *kernel = ptx_function(module, "kernel");
    const sg_ptx_insn_t *insn = &kernel->insns[0];
    bool same = insn->opcode == c->form->opcode && insn->type_count == c->expected.type_count &&
                memcmp(insn->type, c->expected.type, sizeof insn->type) == 0 &&
                memcmp(insn->modifier, c->expected.modifier, sizeof insn->modifier) == 0 &&
                memcmp(insn->shape, c->expected.shape, sizeof insn->shape) == 0 &&
                insn->line == PTX_FIRST_LINE;
    if (!same)
        fail_msg("%s: came back as something else", line);
    sg_ptx_free(module);
    for (uint32_t i = 0; wrong_too && i < c->form->slot_count; i++) {
        if (c->form->slots[i].only_with && !c->expected.modifier[c->form->slots[i].only_with])
            continue;
        spell_line(c, i, line, sizeof line);
        if (ptx_read_line(line, &module, &error)) { /* another form may take it */
            if (&sg_ptx_forms(NULL)[ptx_function(module, "kernel")->insns[0].form] == c->form)
                fail_msg("read, though operand %u is wrong: %s", i, line);
            sg_ptx_free(module);
        } else {
            assert_int_equal(error.line, PTX_FIRST_LINE);
        }
    }
    return true;
}

static void forms_come_back_as_written(void **state)
{
    (void)state;
    uint32_t count, choices = 0, tried = 0;
    const sg_ptx_form_t *forms = sg_ptx_forms(&count);
    for (uint32_t f = 0; f < count; f++) {
        choice_t c;
        uint32_t of_form = 0;
        spell_first(&c, &forms[f]);
        do {
            /* Of what has thousands of choices, one in so many, and each of the first. */
            if (of_form < 500 || of_form % 97 == 0) {
                tried += try_choice(&c, of_form == 0, of_form < 20);
            }
            of_form++;
        } while (spell_next(&c));
        choices += of_form;
    }
    print_message("%u opcodes, %u forms, %u of %u choices of modifiers were read\n", SG_PTX_OPCODE_COUNT,
                  count, tried, choices);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(forms_come_back_as_written)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
