/* test_translate_choices.c: arithmetic, comparison, selection and moves, with each choice for each group of a form's modifiers (spell.h), of
 * random operands, against a reference that goes by the instruction's types and modifiers. What has a reference of its own (approximations,
 * conversions, bit fields, carries) has rows in test_translate_int.c and test_translate_float.c. */
#include "ptx_test.h"

#include "float_reference.h"
#include "run_library.h"

/* Of a row: the choice, and whether its result is the second one (setp's q). */
typedef struct instance {
    choice_t choice;
    bool second;
    char text[256], registers[8];
} instance_t;

static instance_t *instances;
static uint32_t instance_count;
static row_t *rows;

/* ---- the reference ---- */

static uint8_t has(const instance_t *i, sg_ptx_kind_t kind)
{
    return i->choice.expected.modifier[kind];
}

/* Of a pair's type, that of one of both. */
static sg_ptx_type_t one_of(sg_ptx_type_t type)
{
    return type == SG_PTX_F16X2    ? SG_PTX_F16
           : type == SG_PTX_BF16X2 ? SG_PTX_BF16
           : type == SG_PTX_F32X2  ? SG_PTX_F32
           : type == SG_PTX_S16X2  ? SG_PTX_S16
           : type == SG_PTX_U16X2  ? SG_PTX_U16
                                   : type;
}

static bool is_half(sg_ptx_type_t type)
{
    return type == SG_PTX_F16 || type == SG_PTX_BF16;
}

static bool is_float(sg_ptx_type_t type)
{
    return is_half(type) || type == SG_PTX_F32 || type == SG_PTX_F64;
}

static uint64_t cut(uint64_t x, uint32_t bits)
{
    return bits == 64 ? x : x & ((UINT64_C(1) << bits) - 1);
}

static int64_t integer(sg_ptx_type_t type, uint64_t x)
{
    const uint32_t bits = sg_ptx_type_bits(type);
    x = cut(x, bits);
    return sg_ptx_type_class(type) == 'S' && x >> (bits - 1) ? (int64_t)(x | ~cut(~UINT64_C(0), bits))
                                                             : (int64_t)x;
}

static double flushed(sg_ptx_type_t type, double x)
{
    const double least = type == SG_PTX_F16 ? 0x1p-14 : 0x1p-126;
    return fabs(x) < least ? copysign(0, x) : x;
}

static double real(const instance_t *i, sg_ptx_type_t type, uint64_t x)
{
    const double d = type == SG_PTX_F16    ? HV(x)
                     : type == SG_PTX_BF16 ? BV(x)
                     : type == SG_PTX_F32  ? F(x)
                                           : G(x);
    return has(i, SG_PTX_KIND_FTZ) ? flushed(type, d) : d;
}

/* Saturated, clamped to what is not negative, flushed. */
static uint64_t code(const instance_t *i, sg_ptx_type_t type, long double x)
{
    if (has(i, SG_PTX_KIND_SAT))
        x = x > 0 ? x < 1 ? x : 1 : 0;
    if (has(i, SG_PTX_KIND_RELU) && x <= 0)
        x = 0;
    if (type == SG_PTX_F64)
        return GB((double)x);
    const uint64_t bits = is_half(type) ? half_of(x, type == SG_PTX_BF16) : FB((float)x);
    return !has(i, SG_PTX_KIND_FTZ) ? bits
           : type == SG_PTX_F32     ? FB(flush(F(bits)))
           : (bits & 0x7c00) == 0   ? bits & 0x8000
                                    : bits;
}

static int mode_of(const instance_t *i)
{
    switch (has(i, SG_PTX_KIND_ROUND)) {
    case SG_PTX_ROUND_RZ:
        return FE_TOWARDZERO;
    case SG_PTX_ROUND_RM:
        return FE_DOWNWARD;
    case SG_PTX_ROUND_RP:
        return FE_UPWARD;
    default:
        return FE_TONEAREST;
    }
}

static double lesser(double x, double y, bool max)
{
    if (x != x || y != y)
        return x != x ? y : x;
    return (x < y || (x == y && signbit(x))) != max ? x : y;
}

static uint64_t of_floats(const instance_t *i, sg_ptx_opcode_t opcode, sg_ptx_type_t type, const double *x,
                          uint32_t count)
{
    const bool max = opcode == SG_PTX_OP_MAX;
    char operation = '+';
    switch (opcode) {
    case SG_PTX_OP_ABS:
        return code(i, type, fabs(x[0]));
    case SG_PTX_OP_NEG:
        return code(i, type, -x[0]);
    case SG_PTX_OP_COPYSIGN:
        return code(i, type, copysign(x[1], x[0]));
    case SG_PTX_OP_MOV:
        return code(i, type, x[0]);
    case SG_PTX_OP_MIN:
    case SG_PTX_OP_MAX: {
        double y[3], best = NAN;
        for (uint32_t k = 0; k < count; k++) {
            y[k] = has(i, SG_PTX_KIND_ABS) ? fabs(x[k]) : x[k];
            if (has(i, SG_PTX_KIND_NAN) && x[k] != x[k])
                return code(i, type, NAN);
            best = lesser(best, y[k], max);
        }
        return code(i, type,
                    has(i, SG_PTX_KIND_XORSIGN) && best == best
                        ? copysign(best, !signbit(x[0]) == !signbit(x[1]) ? 1 : -1)
                        : best);
    }
    case SG_PTX_OP_SUB:
        operation = '-';
        break;
    case SG_PTX_OP_MUL:
        operation = '*';
        break;
    case SG_PTX_OP_MAD:
    case SG_PTX_OP_FMA:
        operation = 'f';
        break;
    case SG_PTX_OP_DIV:
        operation = '/';
        break;
    case SG_PTX_OP_SQRT:
        operation = 'q';
        break;
    case SG_PTX_OP_RCP:
        return type == SG_PTX_F64 ? code(i, type, rounded64(mode_of(i), '/', 1, x[0], 0))
                                  : code(i, type, rounded(mode_of(i), '/', 1, (float)x[0], 0));
    default:
        break;
    }
    const double b = count > 1 ? x[1] : 0, c = count > 2 ? x[2] : 0;
    if (type == SG_PTX_F64)
        return code(i, type, rounded64(mode_of(i), operation, x[0], b, c));
    if (type == SG_PTX_F32)
        return code(i, type, rounded(mode_of(i), operation, (float)x[0], (float)b, (float)c));
    return code(i, type,
                operation == '+'   ? sum_of(x[0], 1, b)
                : operation == '-' ? sum_of(x[0], 1, -b)
                : operation == '*' ? (long double)x[0] * b
                                   : sum_of(x[0], b, c));
}

static bool compared(const instance_t *i, sg_ptx_type_t type, uint64_t a, uint64_t b)
{
    const uint8_t compare = has(i, SG_PTX_KIND_COMPARE);
    bool less, equal, unordered = false;
    if (is_float(type)) {
        const double x = real(i, type, a), y = real(i, type, b);
        less = x < y;
        equal = x == y;
        unordered = x != x || y != y;
    } else if (sg_ptx_type_class(type) == 'S') {
        less = integer(type, a) < integer(type, b);
        equal = integer(type, a) == integer(type, b);
    } else {
        less = cut(a, sg_ptx_type_bits(type)) < cut(b, sg_ptx_type_bits(type));
        equal = cut(a, sg_ptx_type_bits(type)) == cut(b, sg_ptx_type_bits(type));
    }
    const bool more = !less && !equal && !unordered;
    switch (compare) {
    case SG_PTX_CMP_EQ:
        return equal;
    case SG_PTX_CMP_NE:
        return less || more;
    case SG_PTX_CMP_LT:
    case SG_PTX_CMP_LO:
        return less;
    case SG_PTX_CMP_LE:
    case SG_PTX_CMP_LS:
        return less || equal;
    case SG_PTX_CMP_GT:
    case SG_PTX_CMP_HI:
        return more;
    case SG_PTX_CMP_GE:
    case SG_PTX_CMP_HS:
        return more || equal;
    case SG_PTX_CMP_EQU:
        return equal || unordered;
    case SG_PTX_CMP_NEU:
        return !equal;
    case SG_PTX_CMP_LTU:
        return less || unordered;
    case SG_PTX_CMP_LEU:
        return less || equal || unordered;
    case SG_PTX_CMP_GTU:
        return more || unordered;
    case SG_PTX_CMP_GEU:
        return more || equal || unordered;
    case SG_PTX_CMP_NUM:
        return !unordered;
    default:
        return unordered;
    }
}

static bool combined(const instance_t *i, bool compared, uint64_t c)
{
    const bool with = c & 1;
    switch (has(i, SG_PTX_KIND_BOOL)) {
    case SG_PTX_BOOL_AND:
        return compared && with;
    case SG_PTX_BOOL_OR:
        return compared || with;
    case SG_PTX_BOOL_XOR:
        return compared != with;
    default:
        return compared;
    }
}

static uint64_t of_integers(const instance_t *i, sg_ptx_opcode_t opcode, sg_ptx_type_t type, uint64_t a,
                            uint64_t b, uint64_t c)
{
    const uint32_t bits = sg_ptx_type_bits(type);
    const __int128 x = integer(type, a), y = integer(type, b);
    const bool is_signed = sg_ptx_type_class(type) == 'S', max = opcode == SG_PTX_OP_MAX;
    const unsigned __int128 ux = cut(a, bits), uy = cut(b, bits);
    const __int128 product = is_signed ? x * y : (__int128)(ux * uy),
                   low24 = is_signed ? (__int128)(((int64_t)((uint64_t)x << 40) >> 40) *
                                                  ((int64_t)((uint64_t)y << 40) >> 40))
                                     : (__int128)((ux & 0xffffff) * (uy & 0xffffff));
    const uint8_t width = has(i, SG_PTX_KIND_WIDTH);
    const bool less = is_signed ? x < y : ux < uy;
    __int128 exact;
    switch (opcode) {
    case SG_PTX_OP_ADD:
        exact = x + y;
        break;
    case SG_PTX_OP_SUB:
        exact = x - y;
        break;
    case SG_PTX_OP_MUL:
        exact = width == SG_PTX_WIDTH_HI ? product >> bits : product;
        return width == SG_PTX_WIDTH_WIDE ? cut((uint64_t)exact, 2 * bits) : cut((uint64_t)exact, bits);
    case SG_PTX_OP_MAD:
        if (width == SG_PTX_WIDTH_WIDE)
            return cut((uint64_t)product + c, 2 * bits);
        exact = (width == SG_PTX_WIDTH_HI ? product >> bits : product) + integer(type, c);
        break;
    case SG_PTX_OP_MUL24:
    case SG_PTX_OP_MAD24:
        exact = (width == SG_PTX_WIDTH_HI ? low24 >> 16 : low24) +
                (opcode == SG_PTX_OP_MAD24 ? integer(type, c) : 0);
        if (width == SG_PTX_WIDTH_HI) /* the upper 32 of 48 bits */
            exact =
                (__int128)(int32_t)(low24 >> 16) + (opcode == SG_PTX_OP_MAD24 ? integer(SG_PTX_S32, c) : 0);
        break;
    case SG_PTX_OP_SAD:
        exact = (less ? y - x : x - y) + (__int128)cut(c, bits);
        if (!is_signed)
            exact = (__int128)(less ? uy - ux : ux - uy) + (__int128)cut(c, bits);
        break;
    case SG_PTX_OP_DIV:
        if (uy == 0)
            return cut(~UINT64_C(0), bits);
        exact = is_signed ? x / y : (__int128)(ux / uy);
        break;
    case SG_PTX_OP_REM:
        exact = uy == 0 ? x : is_signed ? x % y : (__int128)(ux % uy);
        break;
    case SG_PTX_OP_ABS:
        exact = x < 0 ? -x : x;
        break;
    case SG_PTX_OP_NEG:
        exact = -x;
        break;
    case SG_PTX_OP_MIN:
    case SG_PTX_OP_MAX:
        exact = less != max ? x : y;
        if (has(i, SG_PTX_KIND_RELU) && exact < 0)
            exact = 0;
        break;
    case SG_PTX_OP_AND:
        exact = a & b;
        break;
    case SG_PTX_OP_OR:
        exact = a | b;
        break;
    case SG_PTX_OP_XOR:
        exact = a ^ b;
        break;
    case SG_PTX_OP_NOT:
        exact = ~a;
        break;
    case SG_PTX_OP_CNOT:
        exact = ux == 0;
        break;
    case SG_PTX_OP_SHR:
        exact = W(b) >= bits ? (is_signed && x < 0 ? -1 : 0) : is_signed ? x >> W(b) : (__int128)(ux >> W(b));
        break;
    case SG_PTX_OP_SHL:
        exact = W(b) >= bits ? 0 : (__int128)(ux << W(b));
        break;
    default: /* mov */
        exact = x;
        break;
    }
    if (has(i, SG_PTX_KIND_SAT) && type == SG_PTX_S32)
        exact = exact < INT32_MIN ? INT32_MIN : exact > INT32_MAX ? INT32_MAX : exact;
    return cut((uint64_t)exact, bits);
}

/* The k-th piece of an operand whose type may be a pair. */
static uint64_t piece(sg_ptx_type_t type, uint64_t x, uint32_t k)
{
    const uint32_t bits = sg_ptx_type_bits(one_of(type));
    return cut(x >> k * bits % 64, bits);
}

static uint64_t reference(uint32_t row, uint64_t a, uint64_t b, uint64_t c)
{
    const instance_t *i = &instances[row];
    const sg_ptx_form_t *form = i->choice.form;
    const sg_ptx_opcode_t opcode = form->opcode;
    const uint64_t in[3] = {a, b, c};
    const sg_ptx_type_t type = i->choice.expected.type[0],
                        from = i->choice.expected.type[i->choice.expected.type_count - 1];
    const sg_ptx_type_t one = one_of(type), one_from = one_of(from);
    const uint32_t bits = sg_ptx_type_bits(one), pieces = sg_ptx_type_bits(type) / bits;
    if (type == SG_PTX_PRED)
        return (opcode == SG_PTX_OP_AND   ? a & b
                : opcode == SG_PTX_OP_OR  ? a | b
                : opcode == SG_PTX_OP_XOR ? a ^ b
                : opcode == SG_PTX_OP_NOT ? ~a
                                          : a) &
               1;
    if (opcode == SG_PTX_OP_SETP) {
        const bool pair = one != type;
        const bool is =
            compared(i, one, piece(type, a, pair && i->second), piece(type, b, pair && i->second));
        return combined(i, i->second && !pair ? !is : is, c);
    }
    if (opcode == SG_PTX_OP_SET) {
        uint64_t d = 0;
        const bool pair = one_from != from;
        const uint32_t size = pair ? 16 : sg_ptx_type_bits(type);
        const uint64_t yes = type == SG_PTX_F32   ? 0x3f800000
                             : one == SG_PTX_F16  ? 0x3c00
                             : one == SG_PTX_BF16 ? 0x3f80
                                                  : cut(~UINT64_C(0), size);
        for (uint32_t k = 0; k < (pair ? 2u : 1u); k++)
            if (combined(i, compared(i, one_from, piece(from, a, k), piece(from, b, k)), c))
                d |= yes << k * size;
        return d;
    }
    if (opcode == SG_PTX_OP_SELP)
        return cut(c & 1 ? a : b, bits);
    if (opcode == SG_PTX_OP_SLCT)
        return cut((from == SG_PTX_F32 ? real(i, from, c) >= 0 : SW(c) >= 0) ? a : b, bits);
    uint64_t d = 0;
    for (uint32_t k = 0; k < pieces; k++) {
        uint64_t part;
        if (is_float(one)) {
            double x[3] = {0};
            uint32_t count = 0;
            for (uint32_t s = 1; s < form->slot_count; s++) {
                const sg_ptx_type_t of = spell_type(&i->choice, &form->slots[s]);
                x[count] = real(i, one_of(of), piece(of, in[count], k));
                count++;
            }
            part = of_floats(i, opcode, one, x, count);
        } else {
            part = of_integers(i, opcode, one, pieces > 1 ? piece(type, a, k) : a,
                               pieces > 1 ? piece(type, b, k) : b, pieces > 1 ? piece(type, c, k) : c);
        }
        d |= pieces > 1 ? part << k * bits : part;
    }
    return d;
}

/* ---- the rows ---- */

static char letter(sg_ptx_type_t type)
{
    switch (type) {
    case SG_PTX_F16:
        return 'b';
    case SG_PTX_BF16:
        return 'e';
    case SG_PTX_F16X2:
        return 'u';
    case SG_PTX_BF16X2:
        return 'v';
    case SG_PTX_F32:
        return 'f';
    case SG_PTX_F64:
        return 'g';
    case SG_PTX_F32X2:
        return 'm';
    case SG_PTX_PRED:
        return 'p';
    default:
        return sg_ptx_type_bits(type) == 16 ? 'h' : sg_ptx_type_bits(type) == 32 ? 'w' : 'l';
    }
}

static void add_row(const choice_t *choice, bool second)
{
    const sg_ptx_form_t *form = choice->form;
    instances = realloc(instances, (instance_count + 1) * sizeof *instances);
    assert_non_null(instances);
    instance_t *i = &instances[instance_count++];
    memset(i, 0, sizeof *i);
    i->choice = *choice;
    i->second = second;
    const bool two = form->slots[1].second;
    size_t n = (size_t)snprintf(i->text, sizeof i->text, "%s%s %s", sg_ptx_opcode_text(form->opcode),
                                choice->modifiers,
                                !two     ? "D"
                                : second ? "%p8|D"
                                         : "D|%p8");
    uint32_t registers = 0;
    i->registers[registers++] = letter(spell_type(choice, &form->slots[0]));
    for (uint32_t s = two ? 2 : 1; s < form->slot_count; s++) {
        if (form->slots[s].only_with && !choice->expected.modifier[form->slots[s].only_with])
            continue;
        assert_in_range(registers, 1, 3);
        n += (size_t)snprintf(i->text + n, sizeof i->text - n, ", %c", "DABC"[registers]);
        i->registers[registers++] = letter(spell_type(choice, &form->slots[s]));
    }
    for (uint32_t k = 0; k + 1 < instance_count; k++)
        if (!strcmp(instances[k].text, i->text)) { /* the first choice of every group is the same */
            instance_count--;
            return;
        }
}

/* With that choice for the group, the first of the others with which it is read and translated. */
static void add_choice(const sg_ptx_form_t *form, uint32_t group, uint32_t number)
{
    choice_t c;
    spell_first(&c, form);
    do {
        char line[512];
        if (c.number[group] != number || ptx_refusal(&c, line, sizeof line) != NULL)
            continue;
        add_row(&c, false);
        if (form->slots[1].second)
            add_row(&c, true);
        return;
    } while (spell_next(&c));
}

/* Carries go from one instruction to the next, approximations are not exact: not here. */
static bool is_here(const sg_ptx_form_t *form)
{
    for (uint32_t g = 0; g < form->group_count; g++)
        if (form->groups[g].kind == SG_PTX_KIND_CARRY || form->groups[g].kind == SG_PTX_KIND_APPROX)
            return false;
    for (uint32_t s = 0; s < form->slot_count; s++)
        if (form->slots[s].kind != SG_PTX_SLOT_VALUE)
            return false;
    return true;
}

static void choices_equal_the_reference(const sg_ptx_opcode_t *opcodes, uint32_t count)
{
    instance_count = 0;
    for (uint32_t o = 0; o < count; o++) {
        uint32_t first, forms;
        sg_ptx_forms_of(opcodes[o], &first, &forms);
        for (uint32_t f = first; f < first + forms; f++) {
            const sg_ptx_form_t *form = &sg_ptx_forms(NULL)[f];
            for (uint32_t g = 0; g < form->group_count && is_here(form); g++)
                for (uint32_t n = form->groups[g].optional ? 0 : 1; n <= spell_values(&form->groups[g]); n++)
                    add_choice(form, g, n);
        }
    }
    rows = calloc(instance_count, sizeof *rows);
    assert_non_null(rows);
    for (uint32_t i = 0; i < instance_count; i++)
        rows[i] = (row_t){instances[i].text, instances[i].registers, 0};
    rows_run(rows, instance_count, reference);
    print_message("%u instructions\n", instance_count);
    free(rows);
}

static void arithmetic_equals_the_reference(void **state)
{
    static const sg_ptx_opcode_t opcodes[] = {
        SG_PTX_OP_ADD, SG_PTX_OP_SUB, SG_PTX_OP_MUL, SG_PTX_OP_MUL24, SG_PTX_OP_MAD,     SG_PTX_OP_MAD24,
        SG_PTX_OP_SAD, SG_PTX_OP_DIV, SG_PTX_OP_REM, SG_PTX_OP_ABS,   SG_PTX_OP_NEG,     SG_PTX_OP_MIN,
        SG_PTX_OP_MAX, SG_PTX_OP_FMA, SG_PTX_OP_RCP, SG_PTX_OP_SQRT,  SG_PTX_OP_COPYSIGN};
    (void)state;
    choices_equal_the_reference(opcodes, sizeof opcodes / sizeof *opcodes);
}

static void comparisons_equal_the_reference(void **state)
{
    static const sg_ptx_opcode_t opcodes[] = {SG_PTX_OP_SETP, SG_PTX_OP_SET, SG_PTX_OP_SELP, SG_PTX_OP_SLCT};
    (void)state;
    choices_equal_the_reference(opcodes, sizeof opcodes / sizeof *opcodes);
}

static void bits_and_moves_equal_the_reference(void **state)
{
    static const sg_ptx_opcode_t opcodes[] = {SG_PTX_OP_AND,  SG_PTX_OP_OR,  SG_PTX_OP_XOR, SG_PTX_OP_NOT,
                                              SG_PTX_OP_CNOT, SG_PTX_OP_SHL, SG_PTX_OP_SHR, SG_PTX_OP_MOV};
    (void)state;
    choices_equal_the_reference(opcodes, sizeof opcodes / sizeof *opcodes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(arithmetic_equals_the_reference),
                                       cmocka_unit_test(comparisons_equal_the_reference),
                                       cmocka_unit_test(bits_and_moves_equal_the_reference)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
