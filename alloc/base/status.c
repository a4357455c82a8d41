#include "alloc/base/status.h"

#include <stdatomic.h>
#include <stdio.h>

#include "alloc/base/driver.h"

static _Thread_local struct {
    ebb_status_t code;
    const char *operation;
    size_t bytes;
} last;

ebb_status_t ebb_fail(ebb_status_t code, const char *operation, size_t bytes)
{
    last.code = code;
    last.operation = operation;
    last.bytes = bytes;
    return code;
}

void ebb_forget_failure(void)
{
    last.code = 0;
}

const char *ebb_last_failure(void)
{
    static _Thread_local char text[160];
    const char *name = NULL;
    if (!last.code)
        return "no host memory";
    if (!ebb_driver.cuGetErrorName || ebb_driver.cuGetErrorName((CUresult)last.code, &name) || !name)
        name = "unknown error";
    if (last.bytes)
        snprintf(text, sizeof text, "%s of %zu bytes: %s", last.operation, last.bytes, name);
    else
        snprintf(text, sizeof text, "%s: %s", last.operation, name);
    return text;
}

static atomic_uint broken;

void ebb_broken(const char *condition, const char *file, int line)
{
    if (!atomic_fetch_add(&broken, 1))
        ebb_log(EBB_WARN,
                "a condition of ebb's own does not hold (%s, %s:%d); please report this. ebb makes no plans "
                "from now on",
                condition, file, line);
}

unsigned ebb_broken_count(void)
{
    return atomic_load(&broken);
}
