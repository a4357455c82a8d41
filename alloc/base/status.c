#include "alloc/base/status.h"

#include <stdatomic.h>
#include <stdio.h>

#include "alloc/base/driver.h"
#include "alloc/base/thread.h"

ebb_status_t ebb_fail(ebb_status_t code, const char *operation, size_t bytes)
{
    ebb_this_thread.failure.code = code;
    ebb_this_thread.failure.operation = operation;
    ebb_this_thread.failure.bytes = bytes;
    return code;
}

void ebb_forget_failure(void)
{
    ebb_this_thread.failure.code = 0;
}

const char *ebb_last_failure(void)
{
    const ebb_status_t code = ebb_this_thread.failure.code;
    const char *operation = ebb_this_thread.failure.operation, *name = NULL;
    const size_t bytes = ebb_this_thread.failure.bytes;
    char *text = ebb_this_thread.failure.text;
    if (!code)
        return "no host memory";
    if (!ebb_driver.cuGetErrorName || ebb_driver.cuGetErrorName((CUresult)code, &name) || !name)
        name = "unknown error";
    if (bytes)
        snprintf(text, sizeof ebb_this_thread.failure.text, "%s of %zu bytes: %s", operation, bytes, name);
    else
        snprintf(text, sizeof ebb_this_thread.failure.text, "%s: %s", operation, name);
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
