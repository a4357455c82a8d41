#include "trace_file.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

ebb_trace_t *trace_file_read(const char *path)
{
    char error[256] = "";
    FILE *f = fopen(path, "r");
    assert_non_null(f);
    ebb_trace_t *t = ebb_trace_read(f, error, sizeof error);
    fclose(f);
    if (!t)
        fail_msg("%s", error);
    return t;
}
