/* test_translate_matrix.c: mma of every shape and type, random elements: integers against exact sums, floats against sums in long double
 * within what the order and the rounding of f32 or f16 sums allow (the ISA leaves both open), infinities and NaNs among them. Where an
 * element lies is the ISA's, 9.7.15.5, form by form. */
#include "ptx_test.h"

#include <math.h>

#include "rows.h"
#include "run_library.h"

typedef enum type { F16, BF16, TF32, E4M3, E5M2, U8, S8, F64, F32, S32 } type_t;
static const struct {
    const char *name;
    int bits, exponent, mantissa;
} types[] = {{"f16", 16, 5, 10}, {"bf16", 16, 8, 7}, {"tf32", 32, 8, 10}, {"e4m3", 8, 4, 3},
             {"e5m2", 8, 5, 2},  {"u8", 8, 0, 0},    {"s8", 8, 0, 0},     {"f64", 64, 0, 0},
             {"f32", 32, 0, 0},  {"s32", 32, 0, 0}};

typedef struct form {
    uint32_t m, k;
    type_t d, a, b;
    bool saturates;
} form_t;
static const form_t forms[] = {
    {16, 8, F16, F16, F16, false},    {16, 8, F32, F16, F16, false},    {16, 16, F16, F16, F16, false},
    {16, 16, F32, F16, F16, false},   {16, 8, F32, BF16, BF16, false},  {16, 16, F32, BF16, BF16, false},
    {16, 4, F32, TF32, TF32, false},  {16, 8, F32, TF32, TF32, false},  {8, 4, F64, F64, F64, false},
    {16, 4, F64, F64, F64, false},    {16, 8, F64, F64, F64, false},    {16, 16, F64, F64, F64, false},
    {8, 16, S32, S8, S8, false},      {8, 16, S32, U8, S8, true},       {16, 16, S32, U8, U8, false},
    {16, 16, S32, S8, U8, true},      {16, 32, S32, S8, S8, false},     {16, 32, S32, U8, U8, true},
    {16, 32, S32, S8, U8, false},     {16, 32, F32, E4M3, E4M3, false}, {16, 32, F32, E5M2, E4M3, false},
    {16, 32, F16, E4M3, E5M2, false}, {16, 32, F16, E5M2, E5M2, false}, {16, 16, F32, E4M3, E5M2, false},
    {16, 16, F16, E5M2, E4M3, false}, {8, 16, S32, S8, U8, false},      {16, 16, S32, S8, S8, false},
    {16, 32, F32, E4M3, E5M2, false}, {16, 32, F16, E4M3, E4M3, false}, {16, 16, F32, E5M2, E4M3, false},
    {16, 16, F32, E4M3, E4M3, false}, {16, 16, F16, E4M3, E4M3, false}, {16, 16, F16, E4M3, E5M2, false}};
enum { FORMS = sizeof forms / sizeof *forms, N = 8, ROUNDS = 40, A = 0, B = 64, C = 96, LANE_BYTES = 128 };

static uint8_t from[32][LANE_BYTES], to[32][32];

/* ---- where elements are ---- */

typedef struct place {
    uint32_t lane, index; /* of the lane's elements */
} place_t;

/* Row r, column c of a: lane (r % 8) * 4 + thread in group; elements in the order of the ISA's tables. */
static place_t place_a(const form_t *f, uint32_t r, uint32_t c)
{
    const uint32_t group = r % 8, low = r / 8;
    switch (types[f->a].bits) {
    case 8: /* four in a row; k = 32: the two halves of k */
        return (place_t){group * 4 + c % 16 / 4, c % 4 + (f->m == 16 ? 4 * low : 0) + 8 * (c / 16)};
    case 16: /* two in a row */
        return (place_t){group * 4 + c % 8 / 2, c % 2 + 2 * low + 4 * (c / 8)};
    default: /* one */
        return (place_t){group * 4 + c % 4, f->m == 16 ? low + 2 * (c / 4) : c / 4};
    }
}

/* Row r (of k), column c (of n) of b. */
static place_t place_b(const form_t *f, uint32_t r, uint32_t c)
{
    switch (types[f->b].bits) {
    case 8:
        return (place_t){c * 4 + r % 16 / 4, r % 4 + 4 * (r / 16)};
    case 16:
        return (place_t){c * 4 + r % 8 / 2, r % 2 + 2 * (r / 8)};
    default:
        return (place_t){c * 4 + r % 4, r / 4};
    }
}

static place_t place_c(uint32_t r, uint32_t c)
{
    return (place_t){r % 8 * 4 + c / 2, c % 2 + 2 * (r / 8)};
}

static uint64_t element(const uint8_t *at, uint32_t index, type_t type)
{
    const size_t bytes = (size_t)types[type].bits / 8;
    uint64_t x = 0;
    memcpy(&x, at + index * bytes, bytes);
    return x;
}

/* ---- values ---- */

static long double value(uint64_t x, type_t type)
{
    switch (type) {
    case U8:
        return (long double)x;
    case S8:
        return (int8_t)x;
    case S32:
        return (int32_t)x;
    case F32:
        return F(x);
    case F64:
        return G(x);
    case TF32:
        x >>= 13;
        break;
    default:
        break;
    }
    const int mantissa = types[type].mantissa, bias = (1 << (types[type].exponent - 1)) - 1;
    const int top = (1 << types[type].exponent) - 1, e = (int)(x >> mantissa) & top,
              m = (int)(x & ((1u << mantissa) - 1));
    const long double magnitude = type == E4M3 && e == top && m == 7 ? (long double)NAN
                                  : type != E4M3 && e == top
                                      ? m ? (long double)NAN : (long double)INFINITY
                                      : ldexpl(e ? m + (1 << mantissa) : m, (e ? e : 1) - bias - mantissa);
    return x >> (mantissa + types[type].exponent) & 1 ? -magnitude : magnitude;
}

/* Of middling size, or 0, or subnormal; with `edges` now and then an infinity or a NaN. */
static uint64_t draw(type_t type, bool edges)
{
    const uint64_t x = rows_draw();
    const bool edge = edges && x % 64 == 0;
    if (type == U8 || type == S8)
        return x >> 8 & 255;
    if (type == S32)
        return x >> 60       ? W(SW(x >> 8) >> 12)
               : x >> 59 & 1 ? INT32_MAX - (x >> 8 & 255)
                             : W(INT32_MIN + (int)(x >> 8 & 255));
    if (type == F32 || type == F64) {
        const double g = edge ? (x >> 8 & 1   ? INFINITY
                                 : x >> 9 & 1 ? -INFINITY
                                              : NAN)
                              : ldexp((double)(int64_t)x, -63 + (int)(x >> 8 & 7));
        return type == F32 ? FB((float)g) : GB(g);
    }
    const uint32_t mantissa = (uint32_t)types[type].mantissa, top = (1u << types[type].exponent) - 1,
                   bias = top / 2, span = top / 4 > 6 ? 6 : top / 4;
    const uint32_t exponent = edge ? top : x >> 8 & 15 ? bias - span + (uint32_t)(x >> 16) % (2 * span) : 0;
    const uint32_t code = (uint32_t)(x >> 63) << (mantissa + (uint32_t)types[type].exponent) |
                          exponent << mantissa |
                          (edge && x >> 13 & 1 ? 0 : (uint32_t)(x >> 40) & ((1u << mantissa) - 1));
    return type == TF32 ? (uint64_t)code << 13 : code;
}

static void fill(const form_t *f, bool edges)
{
    for (uint32_t lane = 0; lane < 32; lane++) {
        const struct {
            type_t type;
            size_t at, end;
        } parts[] = {{f->a, A, B}, {f->b, B, C}, {f->d, C, LANE_BYTES}};
        for (size_t p = 0; p < 3; p++)
            for (size_t at = parts[p].at; at < parts[p].end; at += (size_t)types[parts[p].type].bits / 8) {
                const uint64_t x = draw(parts[p].type, edges);
                memcpy(&from[lane][at], &x, (size_t)types[parts[p].type].bits / 8);
            }
    }
}

static void compare(const form_t *f, const char *name, uint32_t r, uint32_t c)
{
    const place_t at = place_c(r, c);
    long double sum = value(element(&from[at.lane][C], at.index, f->d), f->d), sizes = fabsl(sum);
    for (uint32_t j = 0; j < f->k; j++) {
        const place_t a = place_a(f, r, j), b = place_b(f, j, c);
        const long double product = value(element(&from[a.lane][A], a.index, f->a), f->a) *
                                    value(element(&from[b.lane][B], b.index, f->b), f->b);
        sum += product;
        sizes += fabsl(product);
    }
    const uint64_t bits = element(to[at.lane], at.index, f->d);
    const long double is = value(bits, f->d);
    bool good;
    if (f->d == S32) {
        const int64_t whole = (int64_t)sum;
        good = (int32_t)is == (f->saturates ? whole > INT32_MAX   ? INT32_MAX
                                              : whole < INT32_MIN ? INT32_MIN
                                                                  : (int32_t)whole
                                            : (int32_t)(uint32_t)(uint64_t)whole);
    } else if (!isfinite(sum)) {
        good = isnan(sum) ? isnan(is) : is == sum;
    } else {
        const long double sums = f->d == F64 ? 0x1p-52L : 0x1p-23L, result = f->d == F16 ? 0x1p-11L : 0;
        good = fabsl(is - sum) <=
                   (f->k + 1) * sums * sizes + result * fabsl(sum) + (f->d == F16 ? 0x1p-25L : 0) ||
               (f->d == F16 && fabsl(sum) >= 65504 && fabsl(is) >= 65504 && signbit(is) == signbit(sum));
    }
    if (!good)
        fail_msg("%s: row %u, column %u: %.12Lg is wanted, it is %.12Lg", name, r, c, sum, is);
}

/* ---- the kernels ---- */

static uint32_t registers(uint32_t elements, type_t type)
{
    return type == F64 ? elements / 32 : elements * (uint32_t)types[type].bits / 32 / 32;
}

static const char *list(char out[160], char kind, char name, uint32_t count)
{
    size_t n = 0;
    for (uint32_t i = 0; i < count; i++)
        n += (size_t)snprintf(out + n, 160 - n, "%s%%%c%c%u", i ? ", " : "{", kind, name, i);
    snprintf(out + n, 160 - n, "}");
    return out;
}

static char kind_of(type_t type)
{
    return type == F64 ? 'g' : type == F32 ? 'f' : 'w';
}

static void write_moves(FILE *out, const char *what, type_t type, char name, uint32_t count, uint32_t at)
{
    for (uint32_t i = 0; i < count; i++) {
        char place[32], text[32];
        snprintf(place, sizeof place, "[%%a1+%u]", at + i * (type == F64 ? 8 : 4));
        snprintf(text, sizeof text, "%%%c%c%u", kind_of(type), name, i);
        fprintf(out, "%s.global.b%d %s, %s;\n", what, type == F64 ? 64 : 32, *what == 'l' ? text : place,
                *what == 'l' ? place : text);
    }
}

static void write_kernel(FILE *out, uint32_t number)
{
    const form_t *f = &forms[number];
    char texts[4][160];
    const uint32_t a = registers(f->m * f->k, f->a), b = registers(N * f->k, f->b),
                   d = registers(f->m * N, f->d);
    fprintf(out,
            ".visible .entry k%u(.param .u64 from, .param .u64 to)\n{\n.reg .b64 %%a<4>; .reg .b32 %%r<2>;\n"
            ".reg .b32 %%wa<9>, %%wb<9>, %%wc<9>, %%wd<9>; .reg .f32 %%fc<9>, %%fd<9>; .reg .f64 %%ga<9>, "
            "%%gb<9>, "
            "%%gc<9>, %%gd<9>;\nmov.u32 %%r0, %%tid.x; ld.param.u64 %%a0, [from]; mad.wide.u32 %%a1, %%r0, "
            "%d, %%a0;\n",
            number, LANE_BYTES);
    write_moves(out, "ld", f->a, 'a', a, A);
    write_moves(out, "ld", f->b, 'b', b, B);
    write_moves(out, "ld", f->d, 'c', d, C);
    fprintf(out, "mma.sync.aligned.m%un8k%u.row.col%s.%s.%s.%s.%s %s, %s, %s, %s;\n", f->m, f->k,
            f->saturates ? ".satfinite" : "", types[f->d].name, types[f->a].name, types[f->b].name,
            types[f->d].name, list(texts[0], kind_of(f->d), 'd', d), list(texts[1], kind_of(f->a), 'a', a),
            list(texts[2], kind_of(f->b), 'b', b), list(texts[3], kind_of(f->d), 'c', d));
    fprintf(out, "ld.param.u64 %%a0, [to]; mad.wide.u32 %%a1, %%r0, 32, %%a0;\n");
    write_moves(out, "st", f->d, 'd', d, 0);
    fprintf(out, "ret;\n}\n");
}

static void products_of_every_form_equal_sums(void **state)
{
    char *text;
    size_t bytes;
    (void)state;
    rows_seed();
    FILE *out = open_memstream(&text, &bytes);
    fprintf(out, "%s", PTX_HEAD);
    for (uint32_t i = 0; i < FORMS; i++)
        write_kernel(out, i);
    fclose(out);
    const softgpu_kernel_table_t *table = ptx_build(text);
    for (uint32_t i = 0; i < FORMS; i++) {
        const form_t *f = &forms[i];
        char kernel[16], name[64];
        snprintf(kernel, sizeof kernel, "k%u", i);
        snprintf(name, sizeof name, "m%un8k%u %s = %s * %s", f->m, f->k, types[f->d].name, types[f->a].name,
                 types[f->b].name);
        for (int round = 0; round < ROUNDS; round++) {
            struct {
                uint64_t from, to;
            } params = {(uint64_t)(uintptr_t)from, (uint64_t)(uintptr_t)to};
            ptx_run_t run = {.grid = {1, 1, 1}, .block = {32, 1, 1}, .params = &params};
            fill(f, round % 2);
            if (!ptx_run(ptx_kernel(table, kernel), &run))
                fail_msg("%s: %s", name, run.why);
            for (uint32_t r = 0; r < f->m; r++)
                for (uint32_t c = 0; c < N; c++)
                    compare(f, name, r, c);
        }
    }
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(products_of_every_form_equal_sums)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
