/* test_fuzz.c: ptx_fuzz FILE...: texts that are damaged at random, of the files and of a kernel of our own. Each is refused with a
 * line, or read; then all invariants hold and it can be written and read again. Always under the address and undefined sanitizers.
 * PTX_FUZZ_SEED and PTX_FUZZ_COUNT (mutations) choose; what failed is in ptx_fuzz_<seed>.ptx. */
#include <time.h>

#include "check.h"
#include "ptx_test.h"

#define TEXT_MOST (1u << 16)

typedef struct sample {
    char *text;
    size_t bytes;
} sample_t;

static sample_t samples[256];
static uint32_t sample_count;
static uint64_t random_state;

static const char own[] =
    PTX_KERNEL "@%pred_0 bra there;\nld.global.v4.b32 {%b32_0, %b32_1, %b32_2, %b32_3}, "
               "[%b64_0+16];\nmad.wide.s32 %b64_1, %b32_0, 4, %b64_2;\n"
               "setp.lt.and.s32 %pred_0|%pred_1, %b32_0, 7, !%pred_2;\nshfl.sync.bfly.b32 %b32_0|%pred_0, "
               "%b32_1, 16, 31, -1;\n"
               "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%f32_0, %f32_1, %f32_2, %f32_3}, "
               "{%b32_0, %b32_1, %b32_2, %b32_3}, {%b32_4, %b32_5}, {%f32_0, %f32_1, %f32_2, %f32_3};\n"
               "brx.idx %b32_0, table;\n{ .reg .b32 x<3>; mov.b64 {x0, x1}, %b64_0; L: @!%pred_1 bra L; "
               ".param .b64 p; st.param.b64 [p], %b64_0; call (back_param), %b64_1, (p), prototype; }\n"
               "atom.global.gpu.acq_rel.add.f32 %f32_0, [in_global+4], "
               "0f3F800000;\ncp.async.cg.shared.global [%b32_0], [%b64_0], 16, %b32_1;\n"
               "call.uni (back_param), callee, (out_param);\nmov.u32 %b32_0, %tid.x;\nmov.b64 %b64_0, "
               "in_shared+4;\nret;\n}\n"
               ".global .u64 p[2] = {in_global, generic(in_const)+4};\n.global .b8 b[4] = {0xFF(p), "
               "0xFF00(generic(p)+8), 1, -2};\n"
               ".const .f32 g[2][2] = {{1.5, 0f3F800000}, {2e3}};\n.weak .func (.param .align 8 .b8 r[16]) "
               "f(.param .u32 .ptr .global .align 4 a) .noreturn { exit; }\n";

static uint32_t next_random(uint32_t below)
{
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return below ? (uint32_t)(random_state >> 33) % below : 0;
}

/* A piece of some sample: a few lines, a word or some bytes. */
static size_t piece(char *out, size_t room)
{
    const sample_t *from = &samples[next_random(sample_count)];
    size_t begin = next_random((uint32_t)from->bytes), length = 1 + next_random(next_random(4) ? 12 : 200);
    if (next_random(2))
        while (begin > 0 && from->text[begin - 1] != '\n')
            begin--;
    length = length > from->bytes - begin ? from->bytes - begin : length;
    length = length > room ? room : length;
    memcpy(out, from->text + begin, length);
    return length;
}

static void replace(char *text, size_t *bytes, size_t at, size_t gone, const char *with, size_t count)
{
    gone = gone > *bytes - at ? *bytes - at : gone;
    if (*bytes - gone + count >= TEXT_MOST)
        return;
    memmove(text + at + count, text + at + gone, *bytes - at - gone);
    memcpy(text + at, with, count);
    *bytes = *bytes - gone + count;
}

static void damage(char *text, size_t *bytes)
{
    static const char *const words[] = {
        "{",          "}",       "[",         "]",         "(",        ")",
        "<",          ">",       ";",         ":",         ",",        "|",
        "!",          "@",       "_",         "%",         "0x",       "-",
        "+",          "\"",      "/*",        "//",        "0f",       "0d",
        ".reg ",      ".param ", ".b128 ",    ".pred ",    ".v4",      "18446744073709551615",
        "4294967296", "99999",   "%tid.x",    "bra ",      "call ",    ".branchtargets ",
        ".f32",       ".b64",    ".noreturn", ".align 8 ", "generic(", "ret;",
        "\n",         "\0"};
    char with[256];
    size_t at = next_random((uint32_t)*bytes + 1), count;
    switch (next_random(6)) {
    case 0: /* a byte */
        if (at < *bytes)
            text[at] = (char)next_random(256);
        return;
    case 1: /* without some */
        replace(text, bytes, at, 1 + next_random(next_random(3) ? 8 : 300), "", 0);
        return;
    case 2: { /* a word */
        const char *word = words[next_random(sizeof words / sizeof *words)];
        replace(text, bytes, at, next_random(4), word, strlen(word));
        return;
    }
    case 3: /* other digits */
        while (at < *bytes && (text[at] < '0' || text[at] > '9'))
            at++;
        if (at < *bytes)
            text[at] = (char)('0' + next_random(10));
        return;
    default: /* a piece of another */
        count = piece(with, sizeof with);
        replace(text, bytes, at, next_random(2) ? count : 0, with, count);
    }
}

static void keep(const char *text, size_t bytes, uint64_t seed)
{
    char path[64];
    snprintf(path, sizeof path, "ptx_fuzz_%llu.ptx", (unsigned long long)seed);
    FILE *file = fopen(path, "w");
    if (file == NULL)
        return;
    fwrite(text, 1, bytes, file);
    fclose(file);
}

/* Returns whether it was read. */
static bool try_text(const char *text, size_t bytes, uint64_t seed)
{
    sg_ptx_module_t *module;
    sg_ptx_error_t error;
    /* Exactly as long as it is: one byte further is an error of the sanitizer's. */
    char *copy = malloc(bytes ? bytes : 1);
    assert_non_null(copy);
    memcpy(copy, text, bytes);
    bool read = sg_ptx_read(copy, bytes, &module, &error);
    (void)sg_ptx_is_of_nvidia(copy, bytes, NULL);
    free(copy); /* the module keeps nothing of it */
    if (!read) {
        if (module != NULL || *error.text == '\0') {
            keep(text, bytes, seed);
            fail_msg("seed %llu: refused without a word", (unsigned long long)seed);
        }
        return false;
    }
    const char *wrong = ptx_check_module(module);
    if (wrong == NULL)
        wrong = ptx_check_written(module);
    sg_ptx_free(module);
    if (wrong != NULL) {
        keep(text, bytes, seed);
        fail_msg("seed %llu: %s", (unsigned long long)seed, wrong);
    }
    return true;
}

static uint64_t option(const char *name, uint64_t otherwise)
{
    const char *text = getenv(name);
    return text != NULL ? strtoull(text, NULL, 10) : otherwise;
}

static void damaged_texts_are_refused_or_read(void **state)
{
    (void)state;
    static char text[TEXT_MOST];
    uint64_t first = option("PTX_FUZZ_SEED", 1), count = option("PTX_FUZZ_COUNT", 20000), read = 0;
    struct timespec begin, end;
    clock_gettime(CLOCK_MONOTONIC, &begin);
    for (uint64_t seed = first; seed < first + count; seed++) {
        random_state = seed * 0x9E3779B97F4A7C15u;
        const sample_t *from =
            &samples[next_random(2) ? 0 : next_random(sample_count)]; /* our own is short */
        size_t bytes = from->bytes;
        memcpy(text, from->text, bytes);
        for (uint32_t n = next_random(4) ? 1 : 1 + next_random(8); n; n--)
            damage(text, &bytes);
        read += try_text(text, bytes, seed);
    }
    clock_gettime(CLOCK_MONOTONIC, &end);
    double seconds = (double)(end.tv_sec - begin.tv_sec) + 1e-9 * (double)(end.tv_nsec - begin.tv_nsec);
    print_message("seeds %llu to %llu of %u samples: %llu were read, %.0f a second\n",
                  (unsigned long long)first, (unsigned long long)(first + count - 1), sample_count,
                  (unsigned long long)read, (double)count / seconds);
}

static void add_sample(const char *text, size_t bytes)
{
    if (sample_count == sizeof samples / sizeof *samples || bytes == 0 || bytes >= TEXT_MOST / 2)
        return;
    samples[sample_count].text = malloc(bytes);
    if (samples[sample_count].text == NULL)
        exit(1);
    memcpy(samples[sample_count].text, text, bytes);
    samples[sample_count++].bytes = bytes;
}

static void add_file(const char *path)
{
    static char text[1u << 20];
    FILE *file = fopen(path, "r");
    if (file == NULL)
        exit(1);
    size_t bytes = fread(text, 1, sizeof text, file);
    fclose(file);
    add_sample(text, bytes);
}

static void samples_are_read(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < sample_count; i++)
        assert_true(try_text(samples[i].text, samples[i].bytes, 0));
}

int main(int count, char **arguments)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(samples_are_read),
                                       cmocka_unit_test(damaged_texts_are_refused_or_read)};
    add_sample(own, sizeof own - 1);
    for (int i = 1; i < count; i++)
        add_file(arguments[i]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
