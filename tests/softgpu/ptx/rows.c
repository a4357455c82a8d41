/* rows.c: see rows.h. */
#include "ptx_test.h"

#include <math.h>
#include <time.h>

#include "rows.h"
#include "run_library.h"

/* So many rows are a kernel: it is what compiling takes its time for. */
enum { LANES = 2000, OLD = 0x5a, BATCH = 8 };

static uint64_t state;

void rows_seed(void)
{
    const char *given = getenv("PTX_SEED");
    const uint64_t seed = given ? strtoull(given, NULL, 10) : getenv("TEST_LONG") ? (uint64_t)time(NULL) : 1;
    print_message("PTX_SEED=%llu\n", (unsigned long long)seed);
    state = seed * 2654435761u + 1;
}

uint64_t rows_draw(void)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state * UINT64_C(0x2545f4914f6cdd1d);
}

static uint64_t draw_value(char kind)
{
    static const uint64_t edges[] = {0,
                                     1,
                                     2,
                                     3,
                                     7,
                                     8,
                                     15,
                                     16,
                                     31,
                                     32,
                                     33,
                                     63,
                                     64,
                                     127,
                                     128,
                                     255,
                                     256,
                                     0x7fff,
                                     0x8000,
                                     0xffff,
                                     0x7fffffff,
                                     0x80000000,
                                     0x80000001,
                                     0xffffffff,
                                     0xfffffffe,
                                     0x100000000,
                                     0x7fffffffffffffff,
                                     0x8000000000000000,
                                     0xffffffffffffffff,
                                     0xfffffffffffffffe};
    static const float floats[] = {0.0f,
                                   -0.0f,
                                   1.0f,
                                   -1.0f,
                                   0.5f,
                                   1.5f,
                                   2.5f,
                                   -2.5f,
                                   3.0f,
                                   1e-45f,
                                   -1e-45f,
                                   1.17549421e-38f,
                                   1.17549435e-38f,
                                   3.4e38f,
                                   -3.4e38f,
                                   INFINITY,
                                   -INFINITY,
                                   NAN,
                                   127.5f,
                                   255.5f,
                                   65504.0f,
                                   65520.0f,
                                   6e-8f,
                                   2147483648.0f,
                                   -2147483648.0f,
                                   4294967296.0f,
                                   9223372036854775808.0f,
                                   0.1f,
                                   100.0f,
                                   -87.0f};
    const uint64_t x = rows_draw();
    if (kind == 'f')
        return x % 4 == 0   ? FB(floats[x / 4 % (sizeof floats / sizeof *floats)])
               : x % 4 == 1 ? W(x >> 32)
                            : FB((float)((double)(int64_t)rows_draw() / 9.2e18 * (x & 8 ? 100 : 1)));
    if (kind == 'g')
        return x % 4 == 0   ? GB(floats[x / 4 % (sizeof floats / sizeof *floats)])
               : x % 4 == 1 ? rows_draw()
                            : GB((double)(int64_t)rows_draw() / 9.2e18 * (x & 8 ? 1e10 : 1));
    return x % 3 == 0   ? edges[x / 3 % (sizeof edges / sizeof *edges)]
           : x % 3 == 1 ? x >> (x >> 8 & 63)
                        : rows_draw();
}

static const char *size_of(char kind)
{
    return strchr("hbe", kind) ? "16" : strchr("wfuv", kind) ? "32" : "64";
}

static void replace(char *out, size_t bytes, const row_t *row)
{
    size_t n = 0;
    for (const char *at = row->text; *at; at++) {
        static const char names[] = "DABC";
        const char *which = strchr(names, *at);
        if (which)
            n += (size_t)snprintf(out + n, bytes - n, "%%%c%c", row->registers[which - names], *at);
        else
            out[n++] = *at;
        out[n] = '\0';
    }
}

static void begin_kernel(FILE *out, uint32_t number)
{
    static const char kinds[] = "hbewuvlmfg";
    fprintf(out,
            ".visible .entry k%u(.param .u64 from, .param .u64 to, .param .u32 n)\n{\n.reg .pred %%q, "
            "%%p<9>, %%pD, %%pA, %%pB, %%pC;\n"
            ".reg .b32 %%r<9>, %%y<8>; .reg .b64 %%a<9>, %%z<8>; .reg .b16 %%x<8>;\n",
            number);
    for (const char *k = kinds; *k; k++)
        fprintf(out, ".reg .%s%s %%%cD, %%%cA, %%%cB, %%%cC;\n", *k == 'f' || *k == 'g' ? "f" : "b",
                size_of(*k), *k, *k, *k, *k);
    fprintf(out,
            "mov.u32 %%r0, %%ctaid.x; mov.u32 %%r1, %%ntid.x; mov.u32 %%r2, %%tid.x; mad.lo.u32 %%r3, %%r0, "
            "%%r1, %%r2;\n"
            "ld.param.u32 %%r4, [n]; setp.ge.u32 %%p0, %%r3, %%r4; @%%p0 ret;\n"
            "ld.param.u64 %%a0, [from]; ld.param.u64 %%a1, [to]; mul.wide.u32 %%a2, %%r3, 32; add.u64 %%a3, "
            "%%a0, %%a2;\n"
            "mul.wide.u32 %%a4, %%r3, 8; add.u64 %%a5, %%a1, %%a4;\n"
            "and.b32 %%r5, %%r3, 3; setp.ne.u32 %%q, %%r5, 0;\n");
}

/* The row of that place in its kernel. */
static void write_row(FILE *out, const row_t *row, uint32_t place, bool guarded)
{
    char line[512];
    const char d = row->registers[0];
    const uint32_t from = place * LANES * 32, to = place * LANES * 8;
    fprintf(out, "{\n");
    for (int i = 1; row->registers[i]; i++) {
        const char kind = row->registers[i], name = "DABC"[i];
        const uint32_t at = from + (uint32_t)(i - 1) * 8;
        if (kind == 'p')
            fprintf(out,
                    "ld.global.u32 %%r6, [%%a3+%u]; and.b32 %%r6, %%r6, 1; setp.ne.u32 %%p%c, %%r6, 0;\n", at,
                    name);
        else
            fprintf(out, "ld.global.b%s %%%c%c, [%%a3+%u];\n", size_of(kind), kind, name, at);
    }
    if (d == 'p')
        fprintf(out, "setp.ne.u32 %%pD, 0, 0;\n");
    else if (d == 'f' || d == 'g')
        fprintf(out, "mov.b%s %%%cD, %s;\n", size_of(d), d, d == 'f' ? "0f0000005a" : "0d000000000000005a");
    else
        fprintf(out, "mov.b%s %%%cD, %d;\n", size_of(d), d, OLD);
    replace(line, sizeof line, row);
    /* Several instructions: the guard is a jump. */
    if (guarded)
        fprintf(out, "@!%%q bra past;\n%s;\npast:\n", line);
    else
        fprintf(out, "%s;\n", line);
    if (d == 'p')
        fprintf(out, "selp.u64 %%a6, 1, 0, %%pD;\n");
    else if (d == 'l' || d == 'g' || d == 'm')
        fprintf(out, "mov.b64 %%a6, %%%cD;\n", d);
    else if (strchr("wfuv", d))
        fprintf(out, "mov.b32 %%r7, %%%cD; cvt.u64.u32 %%a6, %%r7;\n", d);
    else
        fprintf(out, "cvt.u64.u16 %%a6, %%%cD;\n", d);
    fprintf(out, "st.global.u64 [%%a5+%u], %%a6;\n}\n", to);
}

/* The same bits, or both NaN, of each of so many numbers; `infinity`: its bits without the sign. */
static bool same_numbers(uint64_t is, uint64_t want, uint32_t count, uint32_t bits, uint64_t infinity)
{
    const uint64_t all = (UINT64_C(1) << bits) - 1;
    for (uint32_t i = 0; i < count; i++, is >>= bits, want >>= bits)
        if ((is & all) != (want & all) && ((is & all >> 1) <= infinity || (want & all >> 1) <= infinity))
            return false;
    return true;
}

static bool agree(const row_t *row, uint64_t is, uint64_t want)
{
    switch (row->registers[0]) {
    case 'e':
    case 'v':
        return same_numbers(is, want, 2, 16, 0x7f80);
    case 'u':
        return same_numbers(is, want, 2, 16, 0x7c00);
    case 'm':
        return same_numbers(is, want, 2, 32, 0x7f800000);
    default:
        break;
    }
    if (row->registers[0] == 'f') {
        const float x = F(is), y = F(want);
        if (x != x || y != y)
            return (x != x) == (y != y);
        if (is == want || row->ulps == 0)
            return is == want;
        return fabs((double)x - (double)y) <= row->ulps * fmax(fabs((double)y) * 0x1p-23, 0x1p-149);
    }
    if (row->registers[0] == 'g') {
        const double x = G(is), y = G(want);
        if (x != x || y != y)
            return (x != x) == (y != y);
        return is == want || (row->ulps > 0 && fabs(x - y) <= row->ulps * fabs(y) * 0x1p-52);
    }
    if (row->registers[0] == 'b' && (is & 0x7fff) > 0x7c00)
        return (want & 0x7fff) > 0x7c00;
    if (row->registers[0] == 'b' && row->ulps > 0)
        return fabs((double)is - (double)want) <= row->ulps;
    return is == want;
}

static uint64_t draw_operand(const row_t *row, size_t number)
{
    return draw_value(number < strlen(row->registers) ? row->registers[number] : 'l');
}

static void check_row(const row_t *row, uint32_t number, const uint64_t *from, const uint64_t *to,
                      uint64_t (*reference)(uint32_t, uint64_t, uint64_t, uint64_t))
{
    for (uint32_t k = 0; k < LANES; k++) {
        const uint64_t *in = from + k * 4;
        const bool off = number % 2 && k % 4 == 0;
        const uint64_t want = !off                       ? reference(number, in[0], in[1], in[2])
                              : row->registers[0] == 'p' ? 0
                                                         : OLD;
        if (off ? to[k] != want : !agree(row, to[k], want))
            fail_msg("%s of 0x%llx, 0x%llx, 0x%llx%s: 0x%llx is wanted, it is 0x%llx", row->text,
                     (unsigned long long)in[0], (unsigned long long)in[1], (unsigned long long)in[2],
                     off ? " (not to be executed)" : "", (unsigned long long)want, (unsigned long long)to[k]);
    }
}

void rows_run(const row_t *rows, uint32_t count,
              uint64_t (*reference)(uint32_t, uint64_t, uint64_t, uint64_t))
{
    char *text;
    size_t bytes;
    rows_seed();
    FILE *out = open_memstream(&text, &bytes);
    fprintf(out, "%s", PTX_HEAD);
    for (uint32_t i = 0; i < count; i++) {
        if (i % BATCH == 0)
            begin_kernel(out, i / BATCH);
        write_row(out, &rows[i], i % BATCH, i % 2);
        if (i % BATCH == BATCH - 1 || i == count - 1)
            fprintf(out, "ret;\n}\n");
    }
    fclose(out);
    const softgpu_kernel_table_t *table = ptx_build(text);
    uint64_t *from = calloc(BATCH * LANES * 4, 8), *to = calloc(BATCH * LANES, 8);
    for (uint32_t first = 0; first < count; first += BATCH) {
        char name[16];
        const uint32_t rest = count - first < BATCH ? count - first : BATCH;
        snprintf(name, sizeof name, "k%u", first / BATCH);
        for (uint32_t k = 0; k < rest * LANES; k++)
            for (size_t r = 1; r < 4; r++)
                from[k * 4 + r - 1] = draw_operand(&rows[first + k / LANES], r);
        memset(to, 0, BATCH * LANES * 8);
        struct {
            uint64_t from, to;
            uint32_t n;
        } params = {(uint64_t)(uintptr_t)from, (uint64_t)(uintptr_t)to, LANES};
        ptx_run_t run = {.grid = {(LANES + 99) / 100, 1, 1}, .block = {100, 1, 1}, .params = &params};
        if (!ptx_run(ptx_kernel(table, name), &run))
            fail_msg("%s and the next %u: %s", rows[first].text, rest - 1, run.why);
        for (uint32_t i = 0; i < rest; i++)
            check_row(&rows[first + i], first + i, from + i * LANES * 4, to + i * LANES, reference);
    }
    free(from);
    free(to);
    free(text);
}
