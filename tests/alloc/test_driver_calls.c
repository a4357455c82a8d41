/* The table of driver calls (alloc/base/driver_calls.h) against NVIDIA's headers: no function and no form of one is missing, none is
 * there twice, and names, symbols, versions, per-thread forms and argument lists are right; and against docs/driver-calls.md, which
 * `test_alloc_driver_calls --page` prints. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <cuda.h>
#include <cudaTypedefs.h>

#include "hook/hook.h"

/* Never read: what ebb defines has the type that NVIDIA's header gives to its form, or this does not compile. */
#define TYPED(type, symbol)                                                                                  \
    extern const type typed_##symbol;                                                                        \
    const type typed_##symbol = symbol;
#define TYPED_PLAIN(type, symbol)                TYPED(type, symbol)
#define TYPED_SYNC(type, symbol)                 TYPED(type, symbol) TYPED(type, symbol##_ptds)
#define TYPED_ASYNC(type, symbol)                TYPED(type, symbol) TYPED(type, symbol##_ptsz)
#define HOOKED(name, symbol, version, form, use) TYPED_##form(PFN_##name##_v##version, symbol)
#include "alloc/base/driver_calls.h"

typedef enum kind { IS_SECTION, IS_SERVED, IS_WATCHED, IS_PASSED, IS_CALLED } kind_t;

typedef struct row {
    kind_t kind;
    const char *name;   /* a SECTION's title, a PASSED's reason */
    const char *symbol; /* a PASSED's names */
    int version;
    const char *suffix; /* of the form for the per-thread default stream; "": none */
} row_t;

#define SUFFIX_PLAIN                              ""
#define SUFFIX_SYNC                               "_ptds"
#define SUFFIX_ASYNC                              "_ptsz"
#define SECTION(title)                            {IS_SECTION, title, "", 0, ""},
#define SERVED(name, symbol, version, form, use)  {IS_SERVED, #name, #symbol, version, SUFFIX_##form},
#define WATCHED(name, symbol, version, form, use) {IS_WATCHED, #name, #symbol, version, SUFFIX_##form},
#define PASSED(reason, names)                     {IS_PASSED, reason, names, 0, ""},
#define CALLED(name, symbol, version, form, use)  {IS_CALLED, #name, #symbol, version, SUFFIX_##form},
static const row_t rows[] = {
#include "alloc/base/driver_calls.h"
};
enum { ROWS = sizeof rows / sizeof rows[0] };

static bool is_hooked(const row_t *r)
{
    return r->kind == IS_SERVED || r->kind == IS_WATCHED;
}

static bool is_function(const row_t *r)
{
    return is_hooked(r) || r->kind == IS_CALLED;
}

/* ---- NVIDIA's headers ---- */

/* One form of a function: a line of cudaTypedefs.h. */
typedef struct form {
    char name[128], suffix[8], parameters[1024];
    int version;
} form_t;

static form_t forms[2048];
static size_t form_count;
static char symbols[2048][128]; /* that cuda.h and cudaProfiler.h declare */
static size_t symbol_count;

/* typedef CUresult (CUDAAPI *PFN_cuMemcpy_v7000_ptds)(CUdeviceptr_v2 dst, ...); */
static void read_form(const char *line)
{
    const char *at = strstr(line, "(CUDAAPI *PFN_");
    char full[128];
    form_t *f = &forms[form_count];
    if (!at || sscanf(at, "(CUDAAPI *PFN_%127[^)])(%1023[^)])", full, f->parameters) != 2)
        return;
    char *version = strstr(full, "_v");
    while (version && strstr(version + 1, "_v"))
        version = strstr(version + 1, "_v");
    assert_non_null(version);
    *version = 0;
    char *suffix = strchr(version + 2, '_');
    snprintf(f->suffix, sizeof f->suffix, "%s", suffix ? suffix : "");
    snprintf(f->name, sizeof f->name, "%s", full);
    f->version = atoi(version + 2);
    assert_true(++form_count < sizeof forms / sizeof forms[0]);
}

static bool read_forms(const char *header)
{
    char path[1024], line[4096];
    snprintf(path, sizeof path, "%s/%s", CUDA_HEADERS, header);
    FILE *in = fopen(path, "r");
    while (in && fgets(line, sizeof line, in))
        read_form(line);
    return in && !fclose(in);
}

static int read_headers(void **state)
{
    (void)state;
    FILE *names = fopen(DRIVER_NAMES, "r");
    if (!names || !read_forms("cudaTypedefs.h") || !read_forms("cudaGLTypedefs.h") ||
        !read_forms("cudaVDPAUTypedefs.h") || !read_forms("cudaEGLTypedefs.h"))
        return -1;
    while (symbol_count < sizeof symbols / sizeof symbols[0] &&
           fscanf(names, "%127s", symbols[symbol_count]) == 1)
        symbol_count++;
    fclose(names);
    return form_count > 500 && symbol_count > 500 ? 0 : -1;
}

static bool is_declared(const char *symbol)
{
    size_t i = 0;
    while (i < symbol_count && strcmp(symbols[i], symbol))
        i++;
    return i < symbol_count;
}

/* ---- lists of names ---- */

/* The next name of a list, NULL at its end. */
static const char *next_name(const char **list, size_t *length)
{
    const char *name = *list + strspn(*list, " ");
    *length = strcspn(name, " ");
    *list = name + *length;
    return *length ? name : NULL;
}

static bool matches(const char *pattern, size_t length, const char *name)
{
    return pattern[length - 1] == '*' ? !strncmp(pattern, name, length - 1)
                                      : strlen(name) == length && !strncmp(pattern, name, length);
}

static const row_t *find_hooked(const char *name)
{
    const row_t *r = rows;
    while (r < rows + ROWS && !(is_hooked(r) && !strcmp(r->name, name)))
        r++;
    return r < rows + ROWS ? r : NULL;
}

/* ---- the tests ---- */

/* The version from which on the form for the per-thread default stream is there. */
static int per_thread_version(const row_t *r)
{
    return r->version < 7000 ? 7000 : r->version;
}

static bool is_form(const row_t *r, const form_t *f)
{
    return is_function(r) && !strcmp(r->name, f->name) &&
           (*f->suffix ? !strcmp(r->suffix, f->suffix) && per_thread_version(r) == f->version
                       : r->version == f->version);
}

static bool is_hooked_form(const form_t *f)
{
    const row_t *r = rows;
    while (r < rows + ROWS && !(is_hooked(r) && is_form(r, f)))
        r++;
    return r < rows + ROWS;
}

/* An old form of what ebb serves or watches. */
static bool is_of_32_bits(const form_t *f)
{
    return find_hooked(f->name) && f->version <= 3000 && !*f->suffix &&
           (strstr(f->parameters, "CUdeviceptr_v1") || strstr(f->parameters, "DESCRIPTOR_v1") ||
            strstr(f->parameters, "CUDA_MEMCPY") || strstr(f->parameters, "unsigned int"));
}

static void every_form_of_the_headers_has_a_row_or_a_reason(void **state)
{
    (void)state;
    unsigned missing = 0;
    for (const form_t *f = forms; f < forms + form_count; f++) {
        if (is_hooked_form(f) || ebb_is_passed(f->name) || is_of_32_bits(f))
            continue;
        fprintf(stderr, "not in driver_calls.h: %s of %d%s (%s)\n", f->name, f->version, f->suffix,
                f->parameters);
        missing++;
    }
    for (size_t i = 0; i < symbol_count; i++) { /* cuMemAlloc_v2_ptsz -> cuMemAlloc */
        char name[128];
        snprintf(name, sizeof name, "%s", symbols[i]);
        char *end = strstr(name, "_pt");
        if (end)
            *end = 0;
        end = strstr(name, "_v");
        if (end)
            *end = 0;
        if (find_hooked(name) || ebb_is_passed(symbols[i]))
            continue;
        fprintf(stderr, "not in driver_calls.h: %s\n", symbols[i]);
        missing++;
    }
    assert_int_equal(missing, 0);
}

static void every_row_is_a_form_of_the_headers(void **state)
{
    (void)state;
    for (const row_t *r = rows; r < rows + ROWS; r++) {
        bool plain = false, per_thread = false;
        for (const form_t *f = forms; f < forms + form_count; f++) {
            plain |= !*f->suffix && is_form(r, f);
            per_thread |= *f->suffix && !strcmp(f->name, r->name) && f->version == per_thread_version(r);
        }
        if (is_function(r) && (!plain || per_thread != (*r->suffix != 0) || !is_declared(r->symbol)))
            fail_msg("%s of %d (%s%s) is none of the headers'", r->name, r->version, r->symbol, r->suffix);
        for (const form_t *f = forms; per_thread && f < forms + form_count; f++)
            if (*f->suffix && !strcmp(f->name, r->name) && f->version == per_thread_version(r))
                assert_string_equal(f->suffix, r->suffix);
    }
}

static void check_passed(const row_t *r)
{
    const char *list = r->symbol, *name;
    size_t length;
    while ((name = next_name(&list, &length))) {
        size_t i = 0, k = 0;
        while (i < symbol_count && !matches(name, length, symbols[i]))
            i++;
        while (k < form_count && !matches(name, length, forms[k].name))
            k++;
        if (i == symbol_count && k == form_count)
            fail_msg("%.*s, which is passed, is none of the headers'", (int)length, name);
        for (const row_t *o = rows; o < rows + ROWS; o++)
            if (is_function(o) && matches(name, length, o->name) && (is_hooked(o) || name[length - 1] != '*'))
                fail_msg("%s has a row, and is passed as %.*s", o->name, (int)length, name);
    }
}

static void every_function_is_there_once(void **state)
{
    (void)state;
    for (const row_t *r = rows; r < rows + ROWS; r++) {
        for (const row_t *o = r + 1; is_function(r) && o < rows + ROWS; o++)
            if (is_function(o) && (!strcmp(r->symbol, o->symbol) ||
                                   (!strcmp(r->name, o->name) && is_hooked(r) != is_hooked(o))))
                fail_msg("%s is there twice", r->symbol);
        if (r->kind == IS_PASSED)
            check_passed(r);
    }
}

static void each_form_is_found_by_name_version_and_flags(void **state)
{
    (void)state;
    const unsigned long long flags = CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM;
    for (const ebb_entry_t *e = ebb_entries; e->name; e++) {
        assert_ptr_equal(ebb_entry_by_name(e->name, e->version, 0), e);
        assert_ptr_equal(ebb_hook_by_symbol(e->symbol), e->plain);
        if (!e->per_thread)
            continue;
        char symbol[128];
        snprintf(symbol, sizeof symbol, "%s%s", e->symbol, e->suffix);
        assert_ptr_equal(ebb_entry_by_name(e->name, e->version < 7000 ? 7000 : e->version, flags), e);
        assert_ptr_equal(ebb_hook_of(e, flags), e->per_thread);
        assert_ptr_equal(ebb_hook_by_symbol(symbol), e->per_thread);
        assert_ptr_not_equal(e->plain, e->per_thread);
    }
    assert_null(ebb_entry_by_name("cuMemAlloc", 3010, 0));
    assert_null(ebb_entry_by_name("cuLaunchKernel", 6050, flags));
    assert_null(ebb_entry_by_name("cuEventCreate", 13000, 0));
    assert_string_equal(ebb_entry_by_name("cuMemcpyBatchAsync", 12090, 0)->symbol, "cuMemcpyBatchAsync");
    assert_string_equal(ebb_entry_by_name("cuMemcpyBatchAsync", 99000, 0)->symbol, "cuMemcpyBatchAsync_v2");
}

static void what_is_passed_is_told_from_what_is_unknown(void **state)
{
    (void)state;
    for (const row_t *r = rows; r < rows + ROWS; r++)
        if (is_function(r))
            assert_int_equal(ebb_is_passed(r->symbol), r->kind == IS_CALLED);
    assert_true(ebb_is_passed("cuCtxGetDevice_v2"));
    assert_true(ebb_is_passed("cuStreamGetPriority_ptsz"));
    assert_true(ebb_is_passed("cuFuncGetParamCount")); /* of CUDA 13.2 */
    assert_false(ebb_is_passed("cuMemcpyWithAttributesAsync"));
    assert_false(ebb_is_passed("cuDeviceGetPCI"));
    assert_false(ebb_is_passed("cu"));
}

/* ---- the page ---- */

/* The functions of one kind that stand between a SECTION or PASSED row and the next one, forms of one name once. */
static void print_functions(FILE *f, const row_t *head, kind_t kind)
{
    const char *last = "", *separator = "";
    for (const row_t *r = head + 1; r < rows + ROWS && is_function(r); r++) {
        if (r->kind != kind || !strcmp(r->name, last))
            continue;
        fprintf(f, "%s`%s`", separator, r->name);
        separator = " ";
        last = r->name;
    }
}

static void print_page(FILE *f)
{
    fputs("# What ebb does with each call of the driver\n"
          "Printed by `test_alloc_driver_calls --page` from the table in `alloc/base/driver_calls.h`, which "
          "says what the words mean. "
          "Functions are named\nas `cuGetProcAddress` names them; a name that ends in `*` stands for all "
          "others that begin so.\n\n"
          "## Served and watched\n"
          "Served: ebb answers where the memory is its own, the driver otherwise. Watched: the driver does "
          "it; before or after, ebb "
          "makes memory\nresident, counts it or records the operation.\n\n"
          "| subject | served | watched |\n| --- | --- | --- |\n",
          f);
    for (const row_t *r = rows; r < rows + ROWS; r++) {
        if (r->kind != IS_SECTION)
            continue;
        fprintf(f, "| %s | ", r->name);
        print_functions(f, r, IS_SERVED);
        fputs(" | ", f);
        print_functions(f, r, IS_WATCHED);
        fputs(" |\n", f);
    }
    fputs("\n## Passed\nThe program reaches the driver directly. The last column: those that ebb calls, "
          "too.\n\n"
          "| why | functions | called by ebb |\n| --- | --- | --- |\n",
          f);
    for (const row_t *r = rows; r < rows + ROWS; r++) {
        const char *list = r->symbol, *name, *separator = "";
        size_t length;
        if (r->kind != IS_PASSED)
            continue;
        fprintf(f, "| %s | ", r->name);
        for (; (name = next_name(&list, &length)); separator = " ")
            fprintf(f, "%s`%.*s`", separator, (int)length, name);
        fputs(" | ", f);
        print_functions(f, r, IS_CALLED);
        fputs(" |\n", f);
    }
}

static void page_is_up_to_date(void **state)
{
    static char page[1 << 17];
    char *text = NULL;
    size_t length = 0;
    (void)state;
    FILE *f = open_memstream(&text, &length), *file = fopen(PAGE, "r");
    assert_non_null(f);
    assert_non_null(file);
    print_page(f);
    fclose(f);
    page[fread(page, 1, sizeof page - 1, file)] = 0;
    fclose(file);
    if (strcmp(page, text))
        fail_msg("docs/driver-calls.md is not what `test_alloc_driver_calls --page` prints");
    free(text);
}

int main(int argc, char **argv)
{
    if (argc == 2 && !strcmp(argv[1], "--page")) {
        print_page(stdout);
        return 0;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_form_of_the_headers_has_a_row_or_a_reason),
        cmocka_unit_test(every_row_is_a_form_of_the_headers),
        cmocka_unit_test(every_function_is_there_once),
        cmocka_unit_test(each_form_is_found_by_name_version_and_flags),
        cmocka_unit_test(what_is_passed_is_told_from_what_is_unknown),
        cmocka_unit_test(page_is_up_to_date),
    };
    return cmocka_run_group_tests(tests, read_headers, NULL);
}
