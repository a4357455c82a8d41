/* files.c: opening and reading what a command is given, and complaining about it. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "ckpt/plan/plan.h"
#include "ckpt/trace/trace.h"
#include "cli/cli.h"

typedef void *(*reader_t)(FILE *in, char *error, size_t error_size);

static void *read_with(reader_t reader, const char *path)
{
    char error[256];
    FILE *f = fopen(path, "r");
    void *read = f ? reader(f, error, sizeof error) : NULL;
    if (!read)
        ebb_cli_fail(path, f ? error : strerror(errno));
    if (f)
        fclose(f);
    return read;
}

static void *read_a_trace(FILE *in, char *error, size_t error_size)
{
    return ebb_trace_read(in, error, error_size);
}

static void *read_a_plan(FILE *in, char *error, size_t error_size)
{
    return ebb_plan_read(in, error, error_size);
}

ebb_trace_t *ebb_cli_read_trace(const char *path)
{
    return read_with(read_a_trace, path);
}

ebb_plan_t *ebb_cli_read_plan(const char *path)
{
    return read_with(read_a_plan, path);
}
