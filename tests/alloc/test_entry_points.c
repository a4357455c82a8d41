/* The table of entry points against the driver's header: no function and no form of one is forgotten, none is
 * there twice, and names, versions and variants are right. (Argument lists: entry_points_check.c.) */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "hook/lookup.h"
#include "passed.h"

enum { PASSED = sizeof passed / sizeof passed[0] };

/* One form of a function: a line of cudaTypedefs.h. */
typedef struct form {
    char name[128], suffix[8], parameters[1024];
    int version;
} form_t;

static form_t forms[2048];
static size_t form_count;

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

static int read_header(void **state)
{
    (void)state;
    FILE *in = fopen(CUDA_TYPEDEFS, "r");
    char line[4096];
    if (!in)
        return -1;
    while (fgets(line, sizeof line, in))
        read_form(line);
    fclose(in);
    return form_count > 500 ? 0 : -1;
}

static bool is_in_table(const form_t *f)
{
    for (const ebb_entry_t *e = ebb_entries; e->name; e++) {
        if (strcmp(e->name, f->name))
            continue;
        if (*f->suffix ? e->per_thread && e->per_thread_version == f->version && !strcmp(e->suffix, f->suffix)
                       : e->version == f->version)
            return true;
    }
    return false;
}

static bool matches(const char *pattern, size_t length, const char *name)
{
    return pattern[length - 1] == '*' ? !strncmp(pattern, name, length - 1)
                                      : strlen(name) == length && !strncmp(pattern, name, length);
}

static bool is_listed(const char *names, const char *name)
{
    for (const char *at = names; *at; at += strspn(at, " ")) {
        size_t length = strcspn(at, " ");
        if (matches(at, length, name))
            return true;
        at += length;
    }
    return false;
}

static bool is_passed(const char *name)
{
    for (size_t i = 0; i < PASSED; i++)
        if (is_listed(passed[i].names, name))
            return true;
    return false;
}

/* An old form of what is intercepted. */
static bool is_of_32_bits(const form_t *f)
{
    const ebb_entry_t *e = ebb_entries;
    while (e->name && strcmp(e->name, f->name))
        e++;
    return e->name && f->version <= 3000 && !*f->suffix &&
           (strstr(f->parameters, "CUdeviceptr_v1") || strstr(f->parameters, "DESCRIPTOR_v1") ||
            strstr(f->parameters, "CUDA_MEMCPY") || strstr(f->parameters, "unsigned int"));
}

static void every_function_of_the_header_is_intercepted_or_has_a_reason(void **state)
{
    (void)state;
    unsigned missing = 0;
    for (size_t i = 0; i < form_count; i++) {
        const form_t *f = &forms[i];
        if (is_in_table(f) || is_passed(f->name) || is_of_32_bits(f))
            continue;
        fprintf(stderr, "neither intercepted nor listed in passed.h: %s of %d%s (%s)\n", f->name, f->version,
                f->suffix, f->parameters);
        missing++;
    }
    if (missing && CUDA_VERSION > 13000) {
        fprintf(stderr, "this header is newer than the table\n");
        skip();
    }
    assert_int_equal(missing, 0);
}

static void every_entry_is_a_form_of_the_header(void **state)
{
    (void)state;
    for (const ebb_entry_t *e = ebb_entries; e->name; e++) {
        bool plain = false, per_thread = !e->per_thread;
        for (size_t i = 0; i < form_count; i++) {
            const form_t *f = &forms[i];
            if (strcmp(f->name, e->name))
                continue;
            plain |= !*f->suffix && f->version == e->version;
            per_thread |= e->suffix && !strcmp(f->suffix, e->suffix) && f->version == e->per_thread_version;
        }
        if (!plain || !per_thread)
            fail_msg("%s of %d is none of the header's", e->symbol, e->version);
    }
}

/* Also: none is answered for although the list says that it passes. */
static void lists_do_not_overlap_and_name_what_exists(void **state)
{
    (void)state;
    for (const ebb_entry_t *e = ebb_entries; e->name; e++) {
        if (is_passed(e->name))
            fail_msg("%s is intercepted and listed in passed.h", e->name);
        for (const ebb_entry_t *o = e + 1; o->name; o++)
            if (!strcmp(e->symbol, o->symbol))
                fail_msg("%s is there twice", e->symbol);
    }
    for (size_t i = 0; i < PASSED; i++)
        for (const char *at = passed[i].names; *at; at += strspn(at, " ")) {
            size_t length = strcspn(at, " "), k = 0;
            while (k < form_count && !matches(at, length, forms[k].name))
                k++;
            if (k == form_count)
                fail_msg("passed.h lists %.*s, which the header does not know", (int)length, at);
            at += length;
        }
}

static void each_form_is_found_by_name_version_and_flags(void **state)
{
    (void)state;
    for (const ebb_entry_t *e = ebb_entries; e->name; e++) {
        assert_ptr_equal(ebb_entry_by_name(e->name, e->version, 0), e);
        assert_ptr_equal(ebb_hook_by_symbol(e->symbol), e->plain);
        if (!e->per_thread)
            continue;
        char symbol[128];
        snprintf(symbol, sizeof symbol, "%s%s", e->symbol, e->suffix);
        unsigned long long flags = CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM;
        assert_ptr_equal(ebb_entry_by_name(e->name, e->per_thread_version, flags), e);
        assert_ptr_equal(ebb_hook_of(e, flags), e->per_thread);
        assert_ptr_equal(ebb_hook_by_symbol(symbol), e->per_thread);
        assert_ptr_not_equal(e->plain, e->per_thread);
    }
    assert_null(ebb_entry_by_name("cuMemAlloc", 3010, 0));
    assert_null(ebb_entry_by_name("cuEventQuery", 13000, 0));
    assert_string_equal(ebb_entry_by_name("cuMemcpyBatchAsync", 12090, 0)->symbol, "cuMemcpyBatchAsync");
    assert_string_equal(ebb_entry_by_name("cuMemcpyBatchAsync", 99000, 0)->symbol, "cuMemcpyBatchAsync_v2");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_function_of_the_header_is_intercepted_or_has_a_reason),
        cmocka_unit_test(every_entry_is_a_form_of_the_header),
        cmocka_unit_test(lists_do_not_overlap_and_name_what_exists),
        cmocka_unit_test(each_form_is_found_by_name_version_and_flags),
    };
    return cmocka_run_group_tests(tests, read_header, NULL);
}
