/* test_translate_access.c: loads, stores and atomic operations with each choice for each group of their modifiers (spell.h): every type, width
 * and state space. A thread has 64 bytes of its own, which are brought to the space and back; all of them are compared. */
#include "ptx_test.h"

#include "float_reference.h"
#include "run_library.h"

enum { THREADS = 32, SLOT = 64, RESULT = 128 };

/* Of a thread, in from: what memory holds, in with: operands, in to: what registers held behind it. */
static _Alignas(64) uint8_t from[THREADS * SLOT], before[THREADS * SLOT], with[THREADS * RESULT],
    to[THREADS * RESULT];
static choice_t *choices;
static uint32_t choice_count;

static uint8_t has(const choice_t *c, sg_ptx_kind_t kind)
{
    return c->expected.modifier[kind];
}

static bool is_atomic(const choice_t *c)
{
    return c->form->opcode == SG_PTX_OP_ATOM || c->form->opcode == SG_PTX_OP_RED;
}

static uint32_t elements_of(const choice_t *c)
{
    return has(c, SG_PTX_KIND_VECTOR) ? 2u << (has(c, SG_PTX_KIND_VECTOR) - SG_PTX_V2) : 1;
}

/* The registers for an element, by their first letter; loads and stores may have wider ones. */
static char letter(const choice_t *c)
{
    const sg_ptx_type_t type = c->expected.type[0];
    const uint32_t bits = sg_ptx_type_bits(type);
    return type == SG_PTX_F32           ? 'f'
           : type == SG_PTX_F64         ? 'g'
           : bits == 128                ? 'q'
           : bits == 64                 ? 'l'
           : bits == 16 && is_atomic(c) ? 'h'
                                        : 'r';
}

static uint32_t register_bytes(char letter)
{
    return letter == 'q' ? 16 : strchr("gl", letter) ? 8 : letter == 'h' ? 2 : 4;
}

/* ---- kernels ---- */

static void print_vector(FILE *out, const choice_t *c, uint32_t first)
{
    const uint32_t count = elements_of(c);
    for (uint32_t e = 0; e < count; e++)
        fprintf(out, "%s%%%c%u", e ? ", " : count > 1 ? "{" : "", letter(c), first + e);
    fprintf(out, count > 1 ? "}" : "");
}

/* Elements in registers from `first` on, and in memory from there. */
static void move_operands(FILE *out, const choice_t *c, bool load, const char *place, uint32_t at,
                          uint32_t first)
{
    for (uint32_t e = 0; e < elements_of(c); e++) {
        const uint32_t bytes = register_bytes(letter(c));
        if (load)
            fprintf(out, "ld.global.b%u %%%c%u, [%s+%u];\n", 8 * bytes, letter(c), first + e, place,
                    at + e * bytes);
        else
            fprintf(out, "st.global.b%u [%s+%u], %%%c%u;\n", 8 * bytes, place, at + e * bytes, letter(c),
                    first + e);
    }
}

/* The thread's bytes between global memory and another space. */
static void stage(FILE *out, const char *space, const char *place, bool back)
{
    for (uint32_t k = 0; k < SLOT; k += 8)
        if (back)
            fprintf(out, "ld.%s.b64 %%a9, [%s+%u]; st.global.b64 [%%a4+%u], %%a9;\n", space, place, k, k);
        else
            fprintf(out, "ld.global.b64 %%a9, [%%a4+%u]; st.%s.b64 [%s+%u], %%a9;\n", k, space, place, k);
}

static void write_kernel(FILE *out, const choice_t *c, uint32_t number)
{
    const sg_ptx_opcode_t opcode = c->form->opcode;
    const char *space = NULL, *place = "%a4";
    fprintf(out,
            ".visible .entry k%u(.param .u64 from, .param .u64 with, .param .u64 to, .param .align 16 .b8 "
            "p[64])\n{\n"
            ".reg .b32 %%r<40>; .reg .b64 %%a<10>, %%l<40>; .reg .b16 %%h<40>; .reg .f32 %%f<40>; .reg .f64 "
            "%%g<40>; .reg .b128 %%q<40>;\n"
            ".shared .align 64 .b8 s[2048]; .local .align 16 .b8 l[64]; .param .align 16 .b8 q[64];\n"
            "ld.param.u64 %%a0, [from]; ld.param.u64 %%a1, [with]; ld.param.u64 %%a2, [to]; mov.u32 %%r0, "
            "%%tid.x;\n"
            "mul.wide.u32 %%a3, %%r0, 64; add.u64 %%a4, %%a0, %%a3; mul.wide.u32 %%a5, %%r0, 128; add.u64 "
            "%%a6, %%a1, %%a5; add.u64 %%a7, %%a2, %%a5;\n",
            number);
    switch (has(c, SG_PTX_KIND_SPACE)) {
    case SG_PTX_SPACE_SHARED:
    case SG_PTX_SPACE_SHARED_CTA:
    case SG_PTX_SPACE_SHARED_CLUSTER:
        fprintf(out, "mov.u64 %%a8, s; add.u64 %%a8, %%a8, %%a3;\n");
        space = "shared", place = "%a8";
        break;
    case SG_PTX_SPACE_LOCAL:
        fprintf(out, "mov.u64 %%a8, l;\n");
        space = "local", place = "%a8";
        break;
    case SG_PTX_SPACE_CONST:
        fprintf(out, "mov.u64 %%a8, c; add.u64 %%a8, %%a8, %%a3;\n");
        place = "%a8";
        break;
    case SG_PTX_SPACE_PARAM_FUNC:
        space = "param", place = "q";
        break;
    case SG_PTX_SPACE_PARAM:
        place = opcode == SG_PTX_OP_LD ? "p" : "q";
        space = opcode == SG_PTX_OP_LD ? NULL : "param";
        break;
    case SG_PTX_SPACE_PARAM_ENTRY:
        place = "p";
        break;
    default:
        break;
    }
    if (space)
        stage(out, space, place, false);
    if (opcode == SG_PTX_OP_LD || opcode == SG_PTX_OP_LDU) {
        fprintf(out, "%s%s ", sg_ptx_opcode_text(opcode), c->modifiers);
        print_vector(out, c, 10);
        fprintf(out, ", [%s];\n", place);
    } else {
        const bool swaps = has(c, SG_PTX_KIND_OP) == SG_PTX_DO_CAS;
        move_operands(out, c, true, "%a6", 0, 20);
        if (swaps)
            move_operands(out, c, true, "%a6", 64, 30);
        fprintf(out, "%s%s ", sg_ptx_opcode_text(opcode), c->modifiers);
        if (opcode == SG_PTX_OP_ATOM) {
            print_vector(out, c, 10);
            fprintf(out, ", ");
        }
        fprintf(out, "[%s], ", place);
        print_vector(out, c, 20);
        if (swaps) {
            fprintf(out, ", ");
            print_vector(out, c, 30);
        }
        fprintf(out, ";\n");
    }
    if (opcode != SG_PTX_OP_ST && opcode != SG_PTX_OP_RED)
        move_operands(out, c, false, "%a7", 0, 10);
    if (space)
        stage(out, space, place, true);
    fprintf(out, "ret;\n}\n");
}

/* ---- the reference ---- */

static uint64_t bits_at(const uint8_t *at, uint32_t bytes)
{
    uint64_t x = 0;
    memcpy(&x, at, bytes);
    return x;
}

static int64_t extended(sg_ptx_type_t type, uint64_t x)
{
    const uint32_t gone = 64 - sg_ptx_type_bits(type);
    return sg_ptx_type_class(type) == 'S' ? (int64_t)(x << gone) >> gone : (int64_t)x;
}

static uint32_t half_result(uint8_t op, uint32_t a, uint32_t b, bool bf)
{
    const double x = half_value(a, bf), y = half_value(b, bf);
    return half_of(op == SG_PTX_DO_ADD   ? x + y
                   : op == SG_PTX_DO_MIN ? min_((float)x, (float)y)
                                         : max_((float)x, (float)y),
                   bf);
}

/* What the operation makes of an element of up to 64 bits. */
static uint64_t result(const choice_t *c, uint64_t a, uint64_t b, uint64_t other)
{
    const sg_ptx_type_t type = c->expected.type[0];
    const uint8_t op = has(c, SG_PTX_KIND_OP);
    const bool less = sg_ptx_type_class(type) == 'S' ? extended(type, a) < extended(type, b) : a < b;
    if (type == SG_PTX_F16 || type == SG_PTX_BF16)
        return half_result(op, H(a), H(b), type == SG_PTX_BF16);
    if (type == SG_PTX_F16X2 || type == SG_PTX_BF16X2)
        return half_result(op, H(a), H(b), type == SG_PTX_BF16X2) |
               (uint64_t)half_result(op, H(a >> 16), H(b >> 16), type == SG_PTX_BF16X2) << 16;
    if (type == SG_PTX_F32)
        return FB(F(a) + F(b));
    if (type == SG_PTX_F64)
        return GB(G(a) + G(b));
    switch (op) {
    case SG_PTX_DO_AND:
        return a & b;
    case SG_PTX_DO_OR:
        return a | b;
    case SG_PTX_DO_XOR:
        return a ^ b;
    case SG_PTX_DO_ADD:
        return a + b;
    case SG_PTX_DO_INC:
        return a >= b ? 0 : a + 1;
    case SG_PTX_DO_DEC:
        return a == 0 || a > b ? b : a - 1;
    case SG_PTX_DO_MIN:
        return less ? a : b;
    case SG_PTX_DO_MAX:
        return less ? b : a;
    case SG_PTX_DO_CAS:
        return a == b ? other : a;
    default: /* exch */
        return b;
    }
}

/* Small numbers of the type, of which every fourth operand is what memory holds; or any bytes. */
static void fill(const choice_t *c)
{
    const sg_ptx_type_t type = c->expected.type[0];
    const uint32_t bytes = sg_ptx_type_bits(type) / 8;
    const bool constant = has(c, SG_PTX_KIND_SPACE) == SG_PTX_SPACE_CONST;
    for (uint32_t i = 0; i < sizeof from; i++)
        from[i] = constant ? (uint8_t)(i * 7 + i / 64) : (uint8_t)rows_draw();
    for (uint32_t i = 0; i < sizeof with; i++)
        with[i] = (uint8_t)rows_draw();
    for (uint32_t i = 0; is_atomic(c) && i < THREADS; i++)
        for (uint32_t e = 0; e < 8; e++)
            for (uint32_t operand = 0; operand < 2; operand++) {
                uint8_t *at = operand ? with + i * RESULT + e * bytes : from + i * SLOT + e * bytes;
                const float x = (float)((int)(rows_draw() % 128) - 64) / 4;
                const uint64_t half = type == SG_PTX_BF16 || type == SG_PTX_BF16X2 ? half_of(x, true)
                                                                                   : half_of(x, false),
                               other = half_of(x + 1, type == SG_PTX_BF16X2),
                               code = type == SG_PTX_F32   ? FB(x)
                                      : type == SG_PTX_F64 ? GB(x)
                                      : bytes == 4         ? half | other << 16
                                                           : half;
                if (e * bytes < SLOT && (sg_ptx_type_class(type) == 'F' || sg_ptx_type_class(type) == 'P'))
                    memcpy(at, &code, bytes);
            }
    for (uint32_t i = 0; is_atomic(c) && i < THREADS; i += 4)
        memcpy(with + i * RESULT, from + i * SLOT, bytes > 8 ? 16 : bytes);
    memcpy(before, from, sizeof before);
    memset(to, 0xee, sizeof to);
}

static void check_thread(const choice_t *c, uint32_t i)
{
    const sg_ptx_opcode_t opcode = c->form->opcode;
    const uint8_t space = has(c, SG_PTX_KIND_SPACE);
    const uint32_t bytes = sg_ptx_type_bits(c->expected.type[0]) / 8, size = register_bytes(letter(c));
    const bool of_parameter =
        space == SG_PTX_SPACE_PARAM_ENTRY || (space == SG_PTX_SPACE_PARAM && opcode == SG_PTX_OP_LD);
    const uint8_t *memory = before + (of_parameter ? 0 : i * SLOT), *operands = with + i * RESULT;
    uint8_t wanted[SLOT], registers[RESULT];
    memcpy(wanted, before + i * SLOT, SLOT);
    memset(registers, 0xee, sizeof registers);
    for (uint32_t e = 0; e < elements_of(c); e++) {
        if (opcode == SG_PTX_OP_ST) {
            memcpy(wanted + e * bytes, operands + e * size, bytes);
            continue;
        }
        const int64_t is = extended(c->expected.type[0], bits_at(memory + e * bytes, bytes > 8 ? 8 : bytes));
        if (opcode != SG_PTX_OP_RED)
            memcpy(registers + e * size, bytes > 8 ? (const void *)(memory + e * bytes) : &is, size);
        if (!is_atomic(c))
            continue;
        if (bytes > 8) { /* exchanged; or swapped, if the same */
            const bool swaps = has(c, SG_PTX_KIND_OP) == SG_PTX_DO_CAS;
            if (!swaps || !memcmp(memory, operands, bytes))
                memcpy(wanted, operands + (swaps ? 64 : 0), bytes);
        } else {
            const uint64_t now =
                result(c, bits_at(memory + e * bytes, bytes), bits_at(operands + e * size, bytes),
                       bits_at(operands + 64 + e * size, bytes));
            memcpy(wanted + e * bytes, &now, bytes);
        }
    }
    if (memcmp(wanted, from + i * SLOT, SLOT))
        fail_msg("%s%s: the memory of thread %u is wrong", sg_ptx_opcode_text(opcode), c->modifiers, i);
    if (memcmp(registers, to + i * RESULT, RESULT))
        fail_msg("%s%s: the registers of thread %u are wrong", sg_ptx_opcode_text(opcode), c->modifiers, i);
}

/* ---- which ---- */

static void add_choice(const sg_ptx_form_t *form, uint32_t group, uint32_t number)
{
    choice_t c;
    char line[512];
    spell_first(&c, form);
    do {
        if (c.number[group] != number || ptx_refusal(&c, line, sizeof line) != NULL)
            continue;
        for (uint32_t k = 0; k < choice_count; k++)
            if (choices[k].form == form && !strcmp(choices[k].modifiers, c.modifiers))
                return;
        choices = realloc(choices, (choice_count + 1) * sizeof *choices);
        assert_non_null(choices);
        choices[choice_count++] = c;
        return;
    } while (spell_next(&c));
}

static void choices_equal_the_reference(const sg_ptx_opcode_t *opcodes, uint32_t count)
{
    char *text, name[16];
    size_t bytes;
    FILE *out = open_memstream(&text, &bytes);
    choice_count = 0;
    rows_seed();
    fprintf(out, PTX_HEAD ".const .align 16 .b8 c[2048] = {0");
    for (uint32_t i = 1; i < 2048; i++)
        fprintf(out, ", %u", (i * 7 + i / 64) & 255);
    fprintf(out, "};\n");
    for (uint32_t o = 0; o < count; o++) {
        uint32_t first, forms;
        sg_ptx_forms_of(opcodes[o], &first, &forms);
        for (uint32_t f = first; f < first + forms; f++) {
            const sg_ptx_form_t *form = &sg_ptx_forms(NULL)[f];
            for (uint32_t g = 0; g < form->group_count; g++)
                for (uint32_t n = form->groups[g].optional ? 0 : 1;
                     n <= spell_values(&form->groups[g]) && !spell_is_hint(form->groups[g].kind); n++)
                    add_choice(form, g, n);
        }
    }
    for (uint32_t i = 0; i < choice_count; i++)
        write_kernel(out, &choices[i], i);
    fclose(out);
    const softgpu_kernel_table_t *table = ptx_build(text);
    for (uint32_t i = 0; i < choice_count; i++) {
        struct {
            const void *from, *with, *to;
            _Alignas(16) uint8_t p[SLOT];
        } params = {from, with, to, {0}};
        ptx_run_t run = {.grid = {1, 1, 1}, .block = {THREADS, 1, 1}, .params = &params};
        fill(&choices[i]);
        memcpy(params.p, from, SLOT);
        snprintf(name, sizeof name, "k%u", i);
        if (!ptx_run(ptx_kernel(table, name), &run))
            fail_msg("%s%s: %s", sg_ptx_opcode_text(choices[i].form->opcode), choices[i].modifiers, run.why);
        for (uint32_t t = 0; t < THREADS; t++)
            check_thread(&choices[i], t);
    }
    print_message("%u instructions\n", choice_count);
    free(text);
}

static void loads_and_stores_equal_the_reference(void **state)
{
    static const sg_ptx_opcode_t opcodes[] = {SG_PTX_OP_LD, SG_PTX_OP_LDU, SG_PTX_OP_ST};
    (void)state;
    choices_equal_the_reference(opcodes, sizeof opcodes / sizeof *opcodes);
}

static void atomic_operations_equal_the_reference(void **state)
{
    static const sg_ptx_opcode_t opcodes[] = {SG_PTX_OP_ATOM, SG_PTX_OP_RED};
    (void)state;
    choices_equal_the_reference(opcodes, sizeof opcodes / sizeof *opcodes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(loads_and_stores_equal_the_reference),
                                       cmocka_unit_test(atomic_operations_equal_the_reference)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
