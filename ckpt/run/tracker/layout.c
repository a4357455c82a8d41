/* layout.c: see tracker.h. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ckpt/run/tracker/internal.h"

enum {
    MOST_DEPTH = 5,
    DIMENSIONS = 25,
    DIVIDER_BYTES = 12,
    MOST_OPERANDS = 8,
    MOST_ROWS = 12,
    MOST_PLACES = 4
};

/* Numbers that structures are made by: always the same, or as a kernel's name or the parameter's size has them; 0: neither has. */
enum { ONE, TWO, THREE, MOST_DIMENSIONS, BLOCKS, ADDRESSES };
enum { INPUTS = ADDRESSES + 1, SHAPES, LISTS, TENSORS, STEPS, SCALAR, OPERANDS, INDEX, NUMBERS };
static const uint32_t always[NUMBERS] = {1, 2, 3, DIMENSIONS, 320, 400};

static uint32_t up(uint32_t bytes, uint32_t to)
{
    return (bytes + to - 1) / to * to;
}

static const char *behind(const char *name, const char *text)
{
    const char *at = strstr(name, text);
    return at ? at + strlen(text) : NULL;
}

/* "Li64E"; *at is then behind it. */
static bool read_number(const char **at, uint32_t *out)
{
    char *end;
    if (strncmp(*at, "Li", 2))
        return false;
    const unsigned long value = strtoul(*at + 2, &end, 10);
    if (end == *at + 2 || *end != 'E' || value > 1024)
        return false;
    *at = end + 1;
    *out = (uint32_t)value;
    return true;
}

/* ---- names of C++ functions ---- */

/* The little that is needed of them in their mangled form (Itanium C++ ABI, 5.1). Each returns where it ends, or NULL where something else begins
 * there, or a form that is not known. */

/* "4name" */
static const char *name_end(const char *p)
{
    char *end;
    const unsigned long length = strtoul(p, &end, 10);
    return length && length <= strlen(end) ? end + length : NULL;
}

/* Behind "S" or "T": "_", "1A_". */
static const char *substitution_end(const char *p)
{
    while (isdigit((unsigned char)*p) || isupper((unsigned char)*p))
        p++;
    return *p == '_' ? p + 1 : NULL;
}

static const char *type_end(const char *p);

/* Behind "I" and, of packs, "J": arguments; behind "N": `nested`, parts of a name. */
static const char *list_end(const char *p, bool nested)
{
    while (p && *p != 'E')
        p = nested && *p && strchr("LJ", *p) ? NULL : type_end(p);
    return p ? p + 1 : NULL;
}

/* A type, as "f", "N3c107complexIdEE", "PKS1_"; a literal of one, of a function or of an enumeration, as "Li4E"; a pack; or a part of a name. */
static const char *type_end(const char *p)
{
    p += strspn(p, "PROKV");
    if (*p == 'L') {
        p = type_end(p + 1);
        p = p ? p + strspn(p, "0123456789n") : NULL;
        return p && *p == 'E' ? p + 1 : NULL;
    }
    if (*p == 'N' || *p == 'J')
        return list_end(p + 1, *p == 'N');
    if (*p == 'D') /* decltype(nullptr), char8_t, ...; not decltype(expression) and vectors */
        return p[1] && strchr("nuisahdfe", p[1]) ? p + 2 : NULL;
    if (islower((unsigned char)*p))
        return strchr("pqurk", *p) ? NULL : p + 1;
    if (*p == 'S' && islower((unsigned char)p[1])) /* "St4name", "Sa" */
        p = p[1] == 't' ? name_end(p + 2) : p + 2;
    else if (*p == 'S' || *p == 'T') /* T: a parameter of the template around it */
        p = substitution_end(p + 1);
    else
        p = isdigit((unsigned char)*p) ? name_end(p) : NULL;
    return p && *p == 'I' ? list_end(p + 1, false) : p;
}

/* Behind a lambda's "Ul", as "ffE0_": also how many parameters it has. */
static const char *lambda_end(const char *p, uint32_t *parameters)
{
    *parameters = 0;
    if (!strncmp(p, "vE", 2))
        p++;
    for (; p && *p != 'E'; ++*parameters)
        p = type_end(p);
    if (!p)
        return NULL;
    p += 1 + strspn(p + 1, "0123456789");
    return *p == '_' ? p + 1 : NULL;
}

/* ---- numbers in a kernel's name, behind that of the structure, or that follow from the parameter's size ---- */

/* CatArrayBatchedCopy..I<type>jLi<dimensions>ELi<inputs>ELi<shapes>E.. */
static bool read_cat(const char *at, uint32_t bytes, uint32_t *number)
{
    (void)bytes;
    for (at = behind(at, "jLi"); at; at = behind(at, "jLi")) {
        uint32_t dimensions;
        const char *next = at - 2;
        if (read_number(&next, &dimensions) && read_number(&next, &number[INPUTS]) &&
            read_number(&next, &number[SHAPES]))
            return true;
    }
    return false;
}

/* Of the type that begins there; 0: it is none of scalars. */
static uint32_t scalar_bytes(const char *mangled)
{
    static const char types[] = "dlfisahb", bytes[] = {8, 8, 4, 4, 2, 1, 1, 1}, complex[] = "N3c107complexI";
    const bool is_complex = !strncmp(mangled, complex, strlen(complex));
    const char type = mangled[is_complex ? strlen(complex) : 0], *at = type ? strchr(types, type) : NULL;
    return at ? (uint32_t)bytes[at - types] * (is_complex ? 2 : 1) : 0;
}

/* multi_tensor_apply_kernelI..<structure>I<scalar's type, or nothing>Li<lists>EE.. */
static bool read_lists(const char *at, uint32_t bytes, uint32_t *number)
{
    (void)bytes;
    /* In a launch, by how many lists there are; with a list of scalars; and of complex doubles. */
    static const uint8_t tensors[3][MOST_DEPTH] = {
        {110, 64, 48, 36, 30}, {96, 64, 48, 36, 30}, {72, 60, 48, 36, 30}};
    const uint32_t scalar = scalar_bytes(at);
    if (!(at = strstr(at, "Li")) || !read_number(&at, &number[LISTS]) || !number[LISTS] ||
        number[LISTS] > MOST_DEPTH || strncmp(at, "EENS", 4)) /* a functor of PyTorch's own */
        return false;
    number[SCALAR] = scalar;
    number[TENSORS] = tensors[scalar == 16 ? 2 : scalar != 0][number[LISTS] - 1];
    number[STEPS] = tensors[1][number[LISTS] - 1];
    return true;
}

/* Of a type in a namespace that was named before ("NS0_"), and perhaps in one without a name: from its own name on. */
static const char *name_of(const char *type)
{
    const char *at = !strncmp(type, "NS", 2) ? strchr(type, '_') : NULL;
    const char *anonymous = at ? strstr(at, "_GLOBAL__N_") : NULL;
    if (!at)
        return "";
    at++;
    return anonymous && anonymous - at <= 2 ? name_end(at) : at;
}

/* Of an elementwise kernel: one for each parameter of the functor, and the output. 0: not known. */
static uint32_t operands_of(const char *kernel)
{
    static const struct {
        const char *functor;
        uint32_t operands;
    } known[] = {{"13AUnaryFunctorI", 2},
                 {"13BUnaryFunctorI", 2},
                 {"13BinaryFunctorI", 3},
                 {"11FillFunctorI", 1},
                 {"15CUDAFunctor_addI", 3},
                 {"21CUDAFunctorOnSelf_addI", 2},
                 {"22CUDAFunctorOnOther_addI", 2},
                 {"14CompareFunctorI", 3},
                 {"10AbsFunctorI", 2}};
    const char *functor = behind(kernel, "22gpu_kernel_impl_nocastI"), *tail = strstr(kernel, "EUliE_EEvi");
    functor = functor ? functor : behind(kernel, "15gpu_kernel_implI");
    if (!functor || !tail)
        return 0;
    if (*functor != 'Z') {
        for (size_t i = 0; i < sizeof known / sizeof *known; i++)
            if (!strncmp(name_of(functor), known[i].functor, strlen(known[i].functor)))
                return known[i].operands;
        return 0;
    }
    /* A lambda; behind it are the function's own two parameters, and then the lambda that the kernel is given. */
    for (const char *at = behind(functor, "EUl"); at && at < tail; at = behind(at, "EUl")) {
        uint32_t parameters;
        const char *end = lambda_end(at, &parameters);
        if (end && !strncmp(end, "EEv", 3) && (end = type_end(end + 3)) && type_end(end) == tail)
            return parameters + 1;
    }
    return 0;
}

static bool read_operands(const char *at, uint32_t bytes, uint32_t *number)
{
    (void)bytes;
    number[OPERANDS] = operands_of(at);
    return number[OPERANDS] <= MOST_OPERANDS;
}

/* Of several calculators in one name this one is of as many operands as its size says. */
static bool read_calculator(const char *at, uint32_t bytes, uint32_t *number)
{
    enum { CALCULATOR_BYTES = 4 + DIMENSIONS * DIVIDER_BYTES, OPERAND_BYTES = 4 * DIMENSIONS };
    char of[32];
    number[OPERANDS] = bytes > CALCULATOR_BYTES ? (bytes - CALCULATOR_BYTES) / OPERAND_BYTES : 0;
    snprintf(of, sizeof of, "ILi%uEjLb", number[OPERANDS]);
    return number[OPERANDS] <= MOST_OPERANDS && strstr(at, of);
}

static bool read_index(const char *at, uint32_t bytes, uint32_t *number)
{
    (void)at;
    for (number[INDEX] = 4; number[INDEX] <= 8; number[INDEX] += 4)
        if (bytes == up(8 + 2 * DIMENSIONS * number[INDEX] + 4, 8))
            return true;
    return false;
}

/* ---- structures ---- */

/* By parts of a kernel's name, of which the second is the structure's; of its parameters any from the first to the last; and its arrays,
 * one behind the other: `times` arrays of `entries`, each of so many bytes times a number. */
static const struct structure {
    const char *kernel, *name;
    uint32_t first, last;
    bool (*read)(const char *at, uint32_t bytes, uint32_t *number); /* NULL: there is none to be read */
    bool beginning;       /* of the parameter: there is more behind it */
    bool output_in_front; /* and behind it there are numbers only */
    uint16_t before_end
        [MOST_PLACES]; /* where it may begin, before the parameter's end; 0: it is the parameter, or its beginning */
    struct row {
        uint8_t times, entries, bytes, unit;
        uint8_t meant, by; /* by: the row that says how much of this one is meant */
        uint8_t align;
        bool addresses;
    } row[MOST_ROWS];
} known[] = {
    {"CatArrayBatchedCopy", "CatArrayBatchedCopy", 1, 1, read_cat, .output_in_front = true,
     .row = {{ONE, INPUTS, 8, ONE, EBB_MEANT_HEIGHT, .addresses = true},
             {THREE, INPUTS, 4, ONE, EBB_MEANT_HEIGHT},
             {ONE, INPUTS, 1, ONE, EBB_MEANT_HEIGHT},
             {ONE, SHAPES, 32, ONE, EBB_MEANT_ALL, .align = 4}}}, /* sizes and strides of four dimensions */
    {"25multi_tensor_apply_kernelI", "28TensorListScalarListMetadataI", 0, 0, read_lists,
     .row = {{LISTS, TENSORS, 8, ONE, EBB_MEANT_NAMED, 3, .addresses = true},
             {ONE, TENSORS, 8, ONE, EBB_MEANT_NAMED, 3},
             {ONE, TENSORS, 1, SCALAR, EBB_MEANT_NAMED, 3},
             {ONE, BLOCKS, 1, ONE, EBB_MEANT_WIDTH},
             {ONE, BLOCKS, 4, ONE, EBB_MEANT_WIDTH}}},
    {"25multi_tensor_apply_kernelI", "32FusedOptimizerTensorListMetadataI", 0, 0, read_lists,
     .row = {{LISTS, TENSORS, 8, ONE, EBB_MEANT_NAMED, 3, .addresses = true},
             {ONE, TENSORS, 8, ONE, EBB_MEANT_NAMED, 3},
             {ONE, STEPS, 8, ONE, EBB_MEANT_NAMED, 3, .addresses = true},
             {ONE, BLOCKS, 1, ONE, EBB_MEANT_WIDTH},
             {ONE, BLOCKS, 4, ONE, EBB_MEANT_WIDTH},
             {ONE, ONE, 4, ONE, EBB_MEANT_ALL}}}, /* the first tensor's number */
    {"25multi_tensor_apply_kernelI", "18TensorListMetadataI", 0, 0, read_lists,
     .row = {{LISTS, TENSORS, 8, ONE, EBB_MEANT_NAMED, 2, .addresses = true},
             {ONE, TENSORS, 8, ONE, EBB_MEANT_NAMED, 2},
             {ONE, BLOCKS, 1, ONE, EBB_MEANT_WIDTH},
             {ONE, BLOCKS, 4, ONE, EBB_MEANT_WIDTH},
             {ONE, ONE, 4, ONE, EBB_MEANT_ALL}}},
    {"_cleanupI", "19TensorListAddresses", 0, UINT32_MAX, NULL,
     .row = {{ONE, ADDRESSES, 8, ONE, EBB_MEANT_WIDTH, .addresses = true}}},
    {"18elementwise_kernelI", "18elementwise_kernelI", 1, 1, read_operands, .beginning = true,
     .row = {{ONE, ONE, 4, ONE, EBB_MEANT_ALL}, /* of a lambda; a functor is behind it */
             {ONE, MOST_DIMENSIONS, DIVIDER_BYTES, ONE, EBB_MEANT_SOME_DIVIDED, 0},
             {ONE, MOST_DIMENSIONS, 4, OPERANDS, EBB_MEANT_SOME_DIVIDED, 0}, /* strides */
             {ONE, OPERANDS, 8, ONE, EBB_MEANT_ALL, .align = 8, .addresses = true}}},
    {"24index_elementwise_kernelI", "16gpu_index_kernelI", 1, 1, NULL,
     .row = {{ONE, ONE, 4, ONE, EBB_MEANT_ALL},
             {ONE, MOST_DIMENSIONS, DIVIDER_BYTES, ONE, EBB_MEANT_DIVIDED, 0},
             {ONE, MOST_DIMENSIONS, 4, THREE, EBB_MEANT_DIVIDED, 0},
             {ONE, TWO, 8, ONE, EBB_MEANT_ALL, .align = 8, .addresses = true}, /* to and from where */
             {ONE, ONE, 4, ONE, EBB_MEANT_ALL},
             {ONE, MOST_DIMENSIONS, 8, ONE, EBB_MEANT_SAID, 4, .align = 8, .addresses = true}, /* indices, */
             {ONE, MOST_DIMENSIONS, 8, TWO, EBB_MEANT_ALL}, /* sizes and strides of what they go into */
             {ONE, ONE, 8, ONE, EBB_MEANT_ALL}}},           /* a functor without members */
    {"16OffsetCalculator", "16OffsetCalculator", 0, UINT32_MAX, read_calculator,
     .row = {{ONE, ONE, 4, ONE, EBB_MEANT_ALL},
             {ONE, MOST_DIMENSIONS, DIVIDER_BYTES, ONE, EBB_MEANT_DIVIDED, 0},
             {ONE, MOST_DIMENSIONS, 4, OPERANDS, EBB_MEANT_DIVIDED, 0}}},
    {"13reduce_kernelI", "8ReduceOpI", 0, 0, NULL, .before_end = {972, 976, 980, 984},
     .row = {{ONE, ONE, 4, ONE, EBB_MEANT_ALL}, /* what is in front of it varies, and its alignment */
             {ONE, MOST_DIMENSIONS, DIVIDER_BYTES, ONE, EBB_MEANT_SOME_DIVIDED, 0},
             {ONE, MOST_DIMENSIONS, 4, ONE, EBB_MEANT_SOME_DIVIDED, 0},
             {ONE, ONE, 4, ONE, EBB_MEANT_ALL},
             {ONE, MOST_DIMENSIONS, DIVIDER_BYTES, ONE, EBB_MEANT_DIVIDED, 3},
             {ONE, MOST_DIMENSIONS, 4, TWO, EBB_MEANT_DIVIDED, 3},
             {ONE, TWO, 8, ONE, EBB_MEANT_ALL, .align = 8,
              .addresses = true},                                          /* what is reduced, and to where */
             {ONE, ONE, 8, ONE, EBB_MEANT_FURTHER, 10, .addresses = true}, /* a second output */
             {ONE, THREE, 8, ONE, EBB_MEANT_ALL, .addresses = true},       /* between blocks */
             {ONE, THREE, 4, ONE, EBB_MEANT_ALL},
             {ONE, ONE, 4, ONE, EBB_MEANT_ALL}}}, /* how many outputs */
    {"10TensorInfoI", "10TensorInfoI", 0, UINT32_MAX, read_index,
     .row = {{ONE, ONE, 8, ONE, EBB_MEANT_ALL, .addresses = true},
             {ONE, MOST_DIMENSIONS, 1, INDEX, EBB_MEANT_SIZES, 3},
             {ONE, MOST_DIMENSIONS, 1, INDEX, EBB_MEANT_SAID, 3}, /* strides */
             {ONE, ONE, 4, ONE, EBB_MEANT_ALL}}}};

/* From `begin` on. False: a number is missing, or the parameter has another size. */
static bool lay_out(const struct structure *k, ebb_layout_parameter_t p, uint32_t begin,
                    const uint32_t *number, ebb_layout_structure_t *s)
{
    const uint32_t behind = p.offset_bytes + p.size_bytes;
    uint32_t at = begin, row_at[MOST_ROWS], align = 4;
    *s = (ebb_layout_structure_t){.begin = begin, .output_in_front = k->output_in_front};
    for (const struct row *r = k->row; r < k->row + MOST_ROWS && r->bytes; r++) {
        const uint32_t entries = number[r->entries], bytes = r->bytes * number[r->unit];
        if (!entries || !bytes)
            return false;
        at = up(at, r->align ? r->align : 1);
        row_at[r - k->row] = at;
        align = r->addresses ? 8 : align;
        for (uint32_t n = number[r->times]; n > 0; n--, at += entries * bytes)
            s->array[s->array_count++] =
                (struct ebb_layout_array){at, entries, bytes, r->by, r->addresses, r->meant};
    }
    for (uint32_t i = 0; i < s->array_count; i++)
        s->array[i].count_at = row_at[s->array[i].count_at];
    s->end = up(at, align);
    return (k->beginning       ? s->end < behind
            : k->before_end[0] ? s->end <= behind
                               : s->end == behind) &&
           (!k->output_in_front || p.offset_bytes == 8);
}

/* In each place of a parameter where it may be: a launch's contents say in which it is. */
static void add_places(const struct structure *k, ebb_layout_parameter_t p, const uint32_t *number,
                       ebb_layout_t *out)
{
    for (uint32_t i = 0; i < MOST_PLACES && (!i || k->before_end[i]) && out->count < EBB_LAYOUT_STRUCTURES;
         i++)
        if (k->before_end[i] <= p.size_bytes) {
            const uint32_t begin = p.offset_bytes + (k->before_end[i] ? p.size_bytes - k->before_end[i] : 0);
            out->count += lay_out(k, p, begin, number, &out->structure[out->count]);
        }
}

void ebb_layout_make(const char *name, const ebb_layout_parameter_t *parameter, uint32_t count,
                     ebb_layout_t *out)
{
    out->count = 0;
    if (!strstr(name, "2at6native"))
        return;
    for (const struct structure *k = known; k < known + sizeof known / sizeof *known; k++) {
        const char *at = strstr(name, k->kernel) ? behind(name, k->name) : NULL;
        for (uint32_t i = k->first; at && i < count && i <= k->last; i++) {
            uint32_t number[NUMBERS];
            memcpy(number, always, sizeof number);
            if (!k->read || k->read(at, parameter[i].size_bytes, number))
                add_places(k, parameter[i], number, out);
        }
    }
}

/* ---- what a launch says ---- */

static uint32_t half_at(const unsigned char *block, uint32_t at)
{
    uint32_t value;
    memcpy(&value, block + at, sizeof value);
    return value;
}

/* The numbers by which to divide: the power of two that is no smaller, and the factor that belongs to both. */
static bool is_divider(const unsigned char *block, uint32_t at)
{
    const uint64_t divisor = half_at(block, at);
    uint32_t shift = 0;
    while (shift < 32 && (uint64_t)1 << shift < divisor)
        shift++;
    return divisor && half_at(block, at + 8) == shift &&
           half_at(block, at + 4) ==
               (uint32_t)((((uint64_t)1 << 32) * (((uint64_t)1 << shift) - divisor)) / divisor + 1);
}

/* An OffsetCalculator with so many dimensions, and with dividers for them. */
static bool read_dimensions(const unsigned char *block, uint32_t at, uint32_t *out)
{
    *out = half_at(block, at);
    for (uint32_t i = 0; i < *out && *out <= DIMENSIONS; i++)
        if (!is_divider(block, at + 4 + DIVIDER_BYTES * i))
            return false;
    return *out <= DIMENSIONS;
}

/* As many tensors as the blocks name. */
static uint32_t named(const unsigned char *block, uint32_t at, uint32_t blocks)
{
    uint32_t most = 0;
    for (uint32_t i = 0; i < blocks && i < always[BLOCKS]; i++)
        most = block[at + i] >= most ? block[at + i] + 1u : most;
    return most;
}

/* So many sizes, none of them zero. */
static bool read_sizes(const unsigned char *block, const struct ebb_layout_array *a, uint32_t *out)
{
    *out = half_at(block, a->count_at);
    for (uint32_t i = 0; i < *out && i < a->entries; i++)
        if (!half_at(block, a->at + i * a->entry_bytes))
            return false;
    return *out > 0;
}

/* How many entries are meant. False: what is there does not agree. */
static bool count(const struct ebb_layout_array *a, const unsigned char *block, const unsigned grid[3],
                  uint32_t *out)
{
    switch (a->meant) {
    case EBB_MEANT_ALL:
        *out = a->entries;
        return true;
    case EBB_MEANT_WIDTH:
        *out = grid[0];
        return grid[1] == 1 && grid[2] == 1;
    case EBB_MEANT_HEIGHT:
        *out = grid[1];
        return grid[2] == 1;
    case EBB_MEANT_NAMED:
        *out = named(block, a->count_at, grid[0]);
        return true;
    case EBB_MEANT_DIVIDED:
        return read_dimensions(block, a->count_at, out);
    case EBB_MEANT_SOME_DIVIDED:
        return read_dimensions(block, a->count_at, out) && *out;
    case EBB_MEANT_SIZES:
        return read_sizes(block, a, out);
    case EBB_MEANT_SAID:
        *out = half_at(block, a->count_at);
        return true;
    case EBB_MEANT_FURTHER:
        *out = half_at(block, a->count_at) - 1;
        return true;
    }
    return false;
}

static void set(uint8_t *role, uint32_t begin, uint32_t end, ebb_role_t to)
{
    if (begin < end)
        memset(role + begin, to, end - begin);
}

/* False: the launch does not agree. */
static bool add_roles(const ebb_layout_structure_t *s, const unsigned char *block, const unsigned grid[3],
                      uint8_t *role)
{
    uint32_t meant[EBB_LAYOUT_ARRAYS];
    for (uint32_t i = 0; i < s->array_count; i++) {
        const struct ebb_layout_array *a = &s->array[i];
        if (i && a->meant == a[-1].meant && a->count_at == a[-1].count_at && a->meant != EBB_MEANT_ALL)
            meant[i] = meant[i - 1];
        else if (!count(a, block, grid, &meant[i]))
            return false;
        if (meant[i] > a->entries)
            return false;
    }
    set(role, s->begin / 8, s->end / 8,
        EBB_ROLE_NUMBER); /* a word that begins in front of it is no address either */
    for (uint32_t i = 0; i < s->array_count; i++) {
        const struct ebb_layout_array *a = &s->array[i];
        const uint32_t used = a->at + meant[i] * a->entry_bytes, end = a->at + a->entries * a->entry_bytes;
        if (a->addresses)
            set(role, a->at / 8, used / 8, EBB_ROLE_OPERAND);
        set(role, up(used, 8) / 8, end / 8, EBB_ROLE_UNUSED);
    }
    return true;
}

void ebb_layout_roles(const ebb_layout_t *l, const unsigned char *block, size_t bytes, const unsigned grid[3],
                      uint8_t *role)
{
    memset(role, EBB_ROLE_UNKNOWN, bytes / 8);
    for (const ebb_layout_structure_t *s = l->structure; s < l->structure + l->count; s++)
        if (s->end <= bytes && add_roles(s, block, grid, role) && s->output_in_front)
            set(role, s->end / 8, (uint32_t)(bytes / 8), EBB_ROLE_NUMBER);
}
