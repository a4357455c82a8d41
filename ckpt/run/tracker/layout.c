
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ckpt/run/tracker/internal.h"

enum {
    CAT_NUMBERS = 3,
    CAT_SHAPE_BYTES = 32, /* sizes and strides of four dimensions */
    BLOCKS = 320,
    CLEANUP_ADDRESSES = 400,
    MOST_DEPTH = 5,
    DIMENSIONS = 25,
    DIVIDER_BYTES = 12,
    OFFSETS_BYTES = 4 + DIMENSIONS * DIVIDER_BYTES, /* the strides of each operand follow */
    STRIDES_BYTES = DIMENSIONS * 4,
    MOST_OPERANDS = 8
};

/* Which of a structure's counts says how many entries of an array are meant. */
enum { ALL, FIRST, SECOND, THIRD, COUNTS };

/* Tensors in a launch, by how many lists there are; with a list of scalars; and of complex doubles. */
static const uint32_t tensors_of[3][MOST_DEPTH] = {
    {110, 64, 48, 36, 30}, {96, 64, 48, 36, 30}, {72, 60, 48, 36, 30}};

static uint32_t up(uint32_t bytes, uint32_t to)
{
    return (bytes + to - 1) / to * to;
}

/* Where the next begins. */
static uint32_t add(ebb_layout_structure_t *s, uint32_t at, uint32_t entries, uint32_t entry_bytes,
                    bool addresses, int by)
{
    s->array[s->array_count++] = (struct ebb_layout_array){at, entries, entry_bytes, addresses, (uint8_t)by};
    return at + entries * entry_bytes;
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

/* ---- structures by a kernel's name ---- */

/* CatArrayBatchedCopy..I<type>jLi<dimensions>ELi<inputs>ELi<shapes>E.. */
static bool make_cat(const char *name, ebb_layout_parameter_t p, uint32_t place, ebb_layout_structure_t *s)
{
    (void)place;
    if (p.offset_bytes != 8) /* the output is in front of it */
        return false;
    uint32_t dimensions, inputs = 0, shapes = 0;
    bool read = false;
    for (const char *at = behind(name, "jLi"); at && !read; at = behind(at, "jLi")) {
        const char *next = at - 2;
        read = read_number(&next, &dimensions) && read_number(&next, &inputs) && read_number(&next, &shapes);
    }
    s->kind = EBB_CAT;
    uint32_t at = add(s, p.offset_bytes, inputs, 8, true, FIRST);
    for (unsigned i = 0; i < CAT_NUMBERS; i++)
        at = add(s, at, inputs, 4, false, FIRST);
    at = add(s, at, inputs, 1, false, FIRST);
    return read && up(up(at, 4) + shapes * CAT_SHAPE_BYTES, 8) == s->end;
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
static bool make_multi_tensor(const char *name, ebb_layout_parameter_t p, uint32_t place,
                              ebb_layout_structure_t *s)
{
    (void)place;
    const char *scalars = behind(name, "28TensorListScalarListMetadataI"),
               *fused = behind(name, "32FusedOptimizerTensorListMetadataI"),
               *at = scalars ? strstr(scalars, "Li")
                     : fused ? fused
                             : behind(name, "18TensorListMetadataI");
    const uint32_t scalar = scalars ? scalar_bytes(scalars) : 0;
    uint32_t lists, next = p.offset_bytes;
    if (!at || (scalars && !scalar) || !read_number(&at, &lists) || !lists || lists > MOST_DEPTH ||
        strncmp(at, "EENS", 4)) /* a functor of PyTorch's own */
        return false;
    const uint32_t tensors = tensors_of[scalar == 16 ? 2 : scalars != NULL][lists - 1];
    s->kind = EBB_MULTI_TENSOR;
    for (uint32_t i = 0; i < lists; i++)
        next = add(s, next, tensors, 8, true, FIRST);
    next = add(s, next, tensors, 8, false, FIRST);
    if (scalars)
        next = add(s, next, tensors, scalar, false, FIRST);
    if (fused)
        next = add(s, next, tensors_of[1][lists - 1], 8, true, FIRST);
    s->count_at = next;
    next = add(s, next, BLOCKS, 1, false, SECOND);
    next = add(s, next, BLOCKS, 4, false, SECOND);
    return up(next + (scalars ? 0 : 4), 8) == s->end; /* without: the first tensor's number */
}

static bool make_addresses(const char *name, ebb_layout_parameter_t p, uint32_t place,
                           ebb_layout_structure_t *s)
{
    (void)name;
    (void)p;
    (void)place;
    s->kind = EBB_ADDRESSES;
    return add(s, s->begin, CLEANUP_ADDRESSES, 8, true, FIRST) == s->end;
}

/* An OffsetCalculator of so many operands; its first member is the number of dimensions. */
static uint32_t add_offsets(ebb_layout_structure_t *s, uint32_t at, uint32_t operands, int by)
{
    at = add(s, at + 4, DIMENSIONS, DIVIDER_BYTES, false, by);
    return add(s, at, DIMENSIONS, 4 * operands, false, by);
}

/* By itself, of as many operands as the name says of one and the size of this one. */
static bool make_offsets(const char *name, ebb_layout_parameter_t p, uint32_t place,
                         ebb_layout_structure_t *s)
{
    (void)place;
    char of[32];
    const uint32_t operands = (p.size_bytes - OFFSETS_BYTES) / STRIDES_BYTES;
    if (p.size_bytes <= OFFSETS_BYTES || p.size_bytes != OFFSETS_BYTES + operands * STRIDES_BYTES ||
        operands > MOST_OPERANDS)
        return false;
    snprintf(of, sizeof of, "ILi%uEjLb", operands);
    if (!strstr(name, of))
        return false;
    s->kind = EBB_OFFSETS;
    s->count_at = s->begin;
    add_offsets(s, s->begin, operands, FIRST);
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
static uint32_t operands_of(const char *name)
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
    const char *functor = behind(name, "22gpu_kernel_impl_nocastI"), *tail = strstr(name, "EUliE_EEvi");
    functor = functor ? functor : behind(name, "15gpu_kernel_implI");
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

/* The first member of the lambda, with the operands' addresses behind it, and a functor. */
static bool make_lambda(const char *name, ebb_layout_parameter_t p, uint32_t place, ebb_layout_structure_t *s)
{
    (void)place;
    if (!strstr(name, "gpu_kernel_impl"))
        return false;
    const uint32_t operands = operands_of(name),
                   needs = up(OFFSETS_BYTES + operands * STRIDES_BYTES, 8) + 8 * operands;
    if (!operands || operands > MOST_OPERANDS || p.size_bytes <= needs)
        return false;
    s->kind = EBB_LAMBDA;
    s->end = s->begin + needs;
    s->count_at = s->begin;
    add(s, up(add_offsets(s, s->begin, operands, FIRST), 8), operands, 8, true, ALL);
    return true;
}

/* What is in front of it in a ReduceOp varies, and with its alignment what is behind, and between: a launch's contents say which it is. */
static bool make_reduction(const char *name, ebb_layout_parameter_t p, uint32_t place,
                           ebb_layout_structure_t *s)
{
    const uint32_t behind = place / 2 * 8, between = place % 2 * 4;
    (void)name;
    enum {
        ADDRESSES = 6,
        NUMBERS_BYTES = 16,
        BYTES = 2 * OFFSETS_BYTES + 3 * STRIDES_BYTES + 8 * ADDRESSES + NUMBERS_BYTES
    };
    if (p.size_bytes < BYTES + behind + between)
        return false;
    s->kind = EBB_REDUCTION;
    s->end -= behind;
    s->count_at = s->begin = s->end - BYTES - between;
    const uint32_t next = add_offsets(s, add_offsets(s, s->begin, 1, FIRST), 2, SECOND) + between;
    add(s, next, 2, 8, true, ALL);        /* what is reduced, and to where */
    add(s, next + 16, 1, 8, true, THIRD); /* a second output */
    add(s, next + 24, 3, 8, true, ALL);   /* buffers and counters between blocks */
    return true;
}

static bool make_tensor_info(const char *name, ebb_layout_parameter_t p, uint32_t place,
                             ebb_layout_structure_t *s)
{
    (void)name;
    (void)place;
    for (uint32_t index = 4; index <= 8; index += 4) {
        if (p.size_bytes != up(8 + 2 * DIMENSIONS * index + 4, 8))
            continue;
        s->kind = EBB_TENSOR_INFO;
        uint32_t at = add(s, s->begin, 1, 8, true, ALL);
        at = add(s, at, DIMENSIONS, index, false, FIRST);
        s->count_at = add(s, at, DIMENSIONS, index, false, FIRST);
        return true;
    }
    return false;
}

/* Kernels by a part of their names; which of their parameters the structure is; in how many places of it that may be. */
static const struct {
    const char *kernel;
    uint32_t first, last, places;
    bool (*make)(const char *name, ebb_layout_parameter_t p, uint32_t place, ebb_layout_structure_t *s);
} known[] = {{"CatArrayBatchedCopy", 1, 1, 1, make_cat},
             {"25multi_tensor_apply_kernelI", 0, 0, 1, make_multi_tensor},
             {"14lpnorm_cleanupI", 0, UINT32_MAX, 1, make_addresses},
             {"13lpmax_cleanupI", 0, UINT32_MAX, 1, make_addresses},
             {"16OffsetCalculatorI", 0, UINT32_MAX, 1, make_offsets},
             {"18elementwise_kernelI", 1, 1, 1, make_lambda},
             {"13reduce_kernelI", 0, 0, 4, make_reduction},
             {"10TensorInfoI", 0, UINT32_MAX, 1, make_tensor_info}};

void ebb_layout_make(const char *name, const ebb_layout_parameter_t *parameter, uint32_t count,
                     ebb_layout_t *out)
{
    out->count = 0;
    if (!strstr(name, "2at6native"))
        return;
    for (size_t k = 0; k < sizeof known / sizeof *known; k++)
        for (uint32_t i = known[k].first; strstr(name, known[k].kernel) && i < count && i <= known[k].last;
             i++)
            for (uint32_t place = 0; place < known[k].places && out->count < EBB_LAYOUT_STRUCTURES; place++) {
                const ebb_layout_parameter_t p = parameter[i];
                ebb_layout_structure_t *s = &out->structure[out->count];
                *s = (ebb_layout_structure_t){.begin = p.offset_bytes, .end = p.offset_bytes + p.size_bytes};
                out->count += known[k].make(name, p, place, s);
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

/* The structure's counts. False: what is there does not agree. */
static bool count(const ebb_layout_structure_t *s, const unsigned char *block, const unsigned grid[3],
                  uint32_t meant[COUNTS])
{
    const bool row = grid[1] == 1 && grid[2] == 1;
    switch (s->kind) {
    case EBB_CAT:
        meant[FIRST] = grid[1];
        return grid[2] == 1;
    case EBB_MULTI_TENSOR:
        meant[SECOND] = grid[0];
        for (uint32_t i = 0; i < grid[0] && i < BLOCKS; i++)
            if (block[s->count_at + i] >= meant[FIRST])
                meant[FIRST] = block[s->count_at + i] + 1u;
        return row;
    case EBB_ADDRESSES:
        meant[FIRST] = grid[0];
        return row;
    case EBB_OFFSETS:
        return read_dimensions(block, s->count_at, &meant[FIRST]);
    case EBB_LAMBDA: /* without dimensions nothing says that the lambda has them first */
        return read_dimensions(block, s->count_at, &meant[FIRST]) && meant[FIRST];
    case EBB_REDUCTION:
        meant[THIRD] = half_at(block, s->end - 4) - 1;
        return read_dimensions(block, s->count_at, &meant[FIRST]) && meant[FIRST] &&
               read_dimensions(block, s->count_at + OFFSETS_BYTES + STRIDES_BYTES, &meant[SECOND]);
    case EBB_TENSOR_INFO:
        meant[FIRST] = half_at(block, s->count_at);
        for (uint32_t i = 0; i < meant[FIRST] && i < DIMENSIONS; i++)
            if (!half_at(block, s->array[1].at + i * s->array[1].entry_bytes))
                return false;
        return meant[FIRST] > 0;
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
    uint32_t meant[COUNTS] = {0};
    if (!count(s, block, grid, meant))
        return false;
    for (uint32_t i = 0; i < s->array_count; i++)
        if (meant[s->array[i].by] > s->array[i].entries)
            return false;
    set(role, s->begin / 8, s->end / 8,
        EBB_ROLE_NUMBER); /* a word that begins in front of it is no address either */
    for (uint32_t i = 0; i < s->array_count; i++) {
        const struct ebb_layout_array *a = &s->array[i];
        const uint32_t entries = a->by == ALL ? a->entries : meant[a->by],
                       used = a->at + entries * a->entry_bytes, end = a->at + a->entries * a->entry_bytes;
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
    for (uint32_t i = 0; i < l->count; i++) {
        const ebb_layout_structure_t *s = &l->structure[i];
        if (s->end <= bytes && add_roles(s, block, grid, role) && s->kind == EBB_CAT)
            set(role, s->end / 8, (uint32_t)(bytes / 8), EBB_ROLE_NUMBER); /* the output is in front of it */
    }
}
