
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ckpt/run/tracker/internal.h"

enum { MOST_DEPTH = 5, DIMENSIONS = 25, DIVIDER_BYTES = 12, MOST_OPERANDS = 8, MOST_ROWS = 8 };

/* Numbers that structures are made by: always the same, or as a kernel's name has them; 0: it has none. */
enum { ONE, THREE, MOST_DIMENSIONS, BLOCKS, ADDRESSES };
enum { INPUTS = ADDRESSES + 1, SHAPES, LISTS, TENSORS, STEPS, SCALAR, OPERANDS, NUMBERS };
static const uint32_t always[NUMBERS] = {1, 3, DIMENSIONS, 320, 400};

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

/* ---- numbers in a kernel's name, behind that of the structure ---- */

/* CatArrayBatchedCopy..I<type>jLi<dimensions>ELi<inputs>ELi<shapes>E.. */
static bool read_cat(const char *at, uint32_t *number)
{
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
    static const struct {
        const char *mangled;
        uint32_t bytes;
    } scalar[] = {{"N3c107complexIdEE", 16},
                  {"N3c107complexIfEE", 8},
                  {"d", 8},
                  {"l", 8},
                  {"f", 4},
                  {"i", 4},
                  {"s", 2},
                  {"a", 1},
                  {"h", 1},
                  {"b", 1}};
    for (size_t i = 0; i < sizeof scalar / sizeof *scalar; i++)
        if (!strncmp(mangled, scalar[i].mangled, strlen(scalar[i].mangled)))
            return scalar[i].bytes;
    return 0;
}

/* multi_tensor_apply_kernelI..<structure>I<scalar's type, or nothing>Li<lists>EE.. */
static bool read_lists(const char *at, uint32_t *number)
{
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
    return anonymous && anonymous - at <= 2 ? ebb_mangled_name_end(at) : at;
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
        const char *end = ebb_mangled_lambda_end(at, &parameters);
        if (end && !strncmp(end, "EEv", 3) && (end = ebb_mangled_type_end(end + 3)) &&
            ebb_mangled_type_end(end) == tail)
            return parameters + 1;
    }
    return 0;
}

static bool read_operands(const char *at, uint32_t *number)
{
    number[OPERANDS] = operands_of(at);
    return number[OPERANDS] <= MOST_OPERANDS;
}

/* ---- structures ---- */

/* By parts of a kernel's name, of which the second is the structure's; of its parameters any from the first to the last; and its arrays,
 * one behind the other: `times` arrays of `entries`, each of so many bytes times a number. */
static const struct structure {
    const char *kernel, *name;
    uint32_t first, last;
    bool (*read)(const char *at, uint32_t *number); /* NULL: it has none in its name */
    bool beginning;                                 /* of the parameter: there is more behind it */
    bool output_in_front;                           /* and behind it there are numbers only */
    struct row {
        uint8_t times, entries, bytes, unit;
        uint8_t meant, align;
        bool addresses, counts; /* counts: by what it holds the structure says how much of others is meant */
    } row[MOST_ROWS];
} known[] = {
    {"CatArrayBatchedCopy", "CatArrayBatchedCopy", 1, 1, read_cat, .output_in_front = true,
     .row = {{ONE, INPUTS, 8, ONE, EBB_MEANT_HEIGHT, .addresses = true},
             {THREE, INPUTS, 4, ONE, EBB_MEANT_HEIGHT},
             {ONE, INPUTS, 1, ONE, EBB_MEANT_HEIGHT},
             {ONE, SHAPES, 32, ONE, EBB_MEANT_ALL, .align = 4}}}, /* sizes and strides of four dimensions */
    {"25multi_tensor_apply_kernelI", "28TensorListScalarListMetadataI", 0, 0, read_lists,
     .row = {{LISTS, TENSORS, 8, ONE, EBB_MEANT_NAMED, .addresses = true},
             {ONE, TENSORS, 8, ONE, EBB_MEANT_NAMED},
             {ONE, TENSORS, 1, SCALAR, EBB_MEANT_NAMED},
             {ONE, BLOCKS, 1, ONE, EBB_MEANT_WIDTH, .counts = true},
             {ONE, BLOCKS, 4, ONE, EBB_MEANT_WIDTH}}},
    {"25multi_tensor_apply_kernelI", "32FusedOptimizerTensorListMetadataI", 0, 0, read_lists,
     .row = {{LISTS, TENSORS, 8, ONE, EBB_MEANT_NAMED, .addresses = true},
             {ONE, TENSORS, 8, ONE, EBB_MEANT_NAMED},
             {ONE, STEPS, 8, ONE, EBB_MEANT_NAMED, .addresses = true},
             {ONE, BLOCKS, 1, ONE, EBB_MEANT_WIDTH, .counts = true},
             {ONE, BLOCKS, 4, ONE, EBB_MEANT_WIDTH},
             {ONE, ONE, 4, ONE, EBB_MEANT_ALL}}}, /* the first tensor's number */
    {"25multi_tensor_apply_kernelI", "18TensorListMetadataI", 0, 0, read_lists,
     .row = {{LISTS, TENSORS, 8, ONE, EBB_MEANT_NAMED, .addresses = true},
             {ONE, TENSORS, 8, ONE, EBB_MEANT_NAMED},
             {ONE, BLOCKS, 1, ONE, EBB_MEANT_WIDTH, .counts = true},
             {ONE, BLOCKS, 4, ONE, EBB_MEANT_WIDTH},
             {ONE, ONE, 4, ONE, EBB_MEANT_ALL}}},
    {"_cleanupI", "19TensorListAddresses", 0, UINT32_MAX, NULL,
     .row = {{ONE, ADDRESSES, 8, ONE, EBB_MEANT_WIDTH, .addresses = true}}},
    {"18elementwise_kernelI", "18elementwise_kernelI", 1, 1, read_operands, .beginning = true,
     .row = {/* of a lambda; a functor is behind it */
             {ONE, ONE, 4, ONE, EBB_MEANT_ALL, .counts = true},
             {ONE, MOST_DIMENSIONS, DIVIDER_BYTES, ONE, EBB_MEANT_DIVIDED},
             {ONE, MOST_DIMENSIONS, 4, OPERANDS, EBB_MEANT_DIVIDED}, /* strides */
             {ONE, OPERANDS, 8, ONE, EBB_MEANT_ALL, .align = 8, .addresses = true}}}};

/* False: a number is missing, or the parameter has another size. */
static bool lay_out(const struct structure *k, ebb_layout_parameter_t p, const uint32_t *number,
                    ebb_layout_t *s)
{
    uint32_t at = p.offset_bytes;
    *s = (ebb_layout_t){.begin = at, .output_in_front = k->output_in_front};
    for (const struct row *r = k->row; r < k->row + MOST_ROWS && r->bytes; r++) {
        const uint32_t entries = number[r->entries], bytes = r->bytes * number[r->unit];
        if (!entries || !bytes)
            return false;
        at = up(at, r->align ? r->align : 1);
        s->count_at = r->counts ? at : s->count_at;
        for (uint32_t n = number[r->times]; n > 0; n--, at += entries * bytes)
            s->array[s->array_count++] =
                (struct ebb_layout_array){at, entries, bytes, r->addresses, r->meant};
    }
    s->end = up(at, 8);
    return (k->beginning ? s->end < p.offset_bytes + p.size_bytes
                         : s->end == p.offset_bytes + p.size_bytes) &&
           (!k->output_in_front || p.offset_bytes == 8);
}

void ebb_layout_make(const char *name, const ebb_layout_parameter_t *parameter, uint32_t count,
                     ebb_layout_t *out)
{
    out->array_count = 0;
    if (!strstr(name, "2at6native"))
        return;
    for (const struct structure *k = known; k < known + sizeof known / sizeof *known; k++) {
        uint32_t number[NUMBERS];
        memcpy(number, always, sizeof number);
        const char *at = strstr(name, k->kernel) ? behind(name, k->name) : NULL;
        const bool read = at && (!k->read || k->read(at, number));
        for (uint32_t i = k->first; read && i < count && i <= k->last; i++)
            if (lay_out(k, parameter[i], number, out))
                return;
    }
    out->array_count = 0;
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

/* How many entries are meant. False: what is there does not agree. */
static bool count(const ebb_layout_t *s, enum ebb_meant meant, const unsigned char *block,
                  const unsigned grid[3], uint32_t *out)
{
    switch (meant) {
    case EBB_MEANT_ALL:
        return true;
    case EBB_MEANT_WIDTH:
        *out = grid[0];
        return grid[1] == 1 && grid[2] == 1;
    case EBB_MEANT_HEIGHT:
        *out = grid[1];
        return grid[2] == 1;
    case EBB_MEANT_NAMED:
        for (uint32_t i = 0; i < grid[0] && i < always[BLOCKS]; i++)
            if (block[s->count_at + i] >= *out)
                *out = block[s->count_at + i] + 1u;
        return true;
    case EBB_MEANT_DIVIDED: /* without dimensions nothing says that the lambda has them first */
        return read_dimensions(block, s->count_at, out) && *out;
    case EBB_MEANT_KINDS:
        break;
    }
    return false;
}

static void set(uint8_t *role, uint32_t begin, uint32_t end, ebb_role_t to)
{
    if (begin < end)
        memset(role + begin, to, end - begin);
}

/* False: the launch does not agree. */
static bool add_roles(const ebb_layout_t *s, const unsigned char *block, const unsigned grid[3],
                      uint8_t *role)
{
    uint32_t meant[EBB_MEANT_KINDS] = {0};
    for (const struct ebb_layout_array *a = s->array; a < s->array + s->array_count; a++)
        if ((!meant[a->meant] && !count(s, a->meant, block, grid, &meant[a->meant])) ||
            meant[a->meant] > a->entries)
            return false;
    set(role, s->begin / 8, s->end / 8,
        EBB_ROLE_NUMBER); /* a word that begins in front of it is no address either */
    for (const struct ebb_layout_array *a = s->array; a < s->array + s->array_count; a++) {
        const uint32_t entries = a->meant == EBB_MEANT_ALL ? a->entries : meant[a->meant],
                       used = a->at + entries * a->entry_bytes, end = a->at + a->entries * a->entry_bytes;
        if (a->addresses)
            set(role, a->at / 8, used / 8, EBB_ROLE_OPERAND);
        set(role, up(used, 8) / 8, end / 8, EBB_ROLE_UNUSED);
    }
    return true;
}

void ebb_layout_roles(const ebb_layout_t *s, const unsigned char *block, size_t bytes, const unsigned grid[3],
                      uint8_t *role)
{
    memset(role, EBB_ROLE_UNKNOWN, bytes / 8);
    if (s->array_count && s->end <= bytes && add_roles(s, block, grid, role) && s->output_in_front)
        set(role, s->end / 8, (uint32_t)(bytes / 8), EBB_ROLE_NUMBER);
}
