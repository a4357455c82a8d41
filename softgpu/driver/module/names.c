/* names.c: names of kernels and variables, as nvcc and a program write them. What is local to a file carries a hash that
 * depends on how the file was compiled:
 *     _ZN35_GLOBAL__N__c2de202b_4_a_cu_counter4anonEPi          (anonymous namespace)::anon(int *)
 *     _ZN33_INTERNAL_c2de202b_4_a_cu_counter35_GLOBAL__N__c2de202b_4_a_cu_counter7anonvarE
 * Clang, and g++, mark it by an L instead, which nvcc leaves out: _ZL4kernPi, _ZN5spaceL4kernEPi; a variable is _ZL3var, of nvcc var.
 */
#include "softgpu/driver/module/module.h"

#include <stdlib.h>
#include <string.h>

/* The length that stands before a component at `at`: digits, of which the first may end another identifier. */
static size_t length_before(const char *name, const char *at, size_t *digits)
{
    size_t count = 0;
    while (at - count > name && at[-1 - (ptrdiff_t)count] >= '0' && at[-1 - (ptrdiff_t)count] <= '9')
        count++;
    for (; count; count--) {
        const size_t length = strtoul(at - count, NULL, 10);
        if (length <= strlen(at) && at[-(ptrdiff_t)count] != '0') {
            *digits = count;
            return length;
        }
    }
    return 0;
}

static bool is_local_mark(const char *at)
{
    return at[0] == 'L' && at[1] >= '1' && at[1] <= '9';
}

/* "_Z3var": the name alone. */
static void drop_mangling_of_variable(char *name)
{
    char *end;
    const size_t length = strncmp(name, "_Z", 2) ? 0 : strtoul(name + 2, &end, 10);
    if (length && strlen(end) == length)
        memmove(name, end, length + 1);
}

static bool is_plain(const char *name)
{
    while (*name && !is_local_mark(name))
        name++;
    return !*name;
}

void sg_name_plain(const char *name, char *out, size_t bytes)
{
    static const char *const marks[] = {"_INTERNAL_", "_GLOBAL__N__"}, *const instead[] = {"",
                                                                                           "12_GLOBAL__N_1"};
    size_t used = 0;
    for (const char *at = name; *at && used + 16 < bytes;) {
        bool replaced = false;
        for (int i = 0; i < 2 && !replaced; i++) {
            size_t digits = 0;
            const size_t mark = strlen(marks[i]);
            const size_t length = !strncmp(at, marks[i], mark) ? length_before(name, at, &digits) : 0;
            if (length <= mark || digits > used)
                continue;
            used -= digits;
            memcpy(out + used, instead[i], strlen(instead[i]));
            used += strlen(instead[i]);
            at += length;
            replaced = true;
        }
        if (!replaced && is_local_mark(at))
            at++;
        else if (!replaced)
            out[used++] = *at++;
    }
    out[used] = 0;
    drop_mangling_of_variable(out);
}

bool sg_names_match(const char *a, const char *b)
{
    char plain_a[2048], plain_b[2048];
    if (!strcmp(a, b))
        return true;
    if (!strstr(a, "_GLOBAL__N_") && !strstr(a, "_INTERNAL_") && is_plain(a) && is_plain(b))
        return false;
    sg_name_plain(a, plain_a, sizeof plain_a);
    sg_name_plain(b, plain_b, sizeof plain_b);
    return !strcmp(plain_a, plain_b);
}
