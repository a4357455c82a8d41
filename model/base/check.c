#include "model/base/check.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool rehearsing;

bool checks_held;

static check_text_t first_failed;
static bool line_open;

void message_line_open(bool open)
{
    line_open = open;
}

static void say(const char *format, va_list arguments)
{
    if (line_open)
        putchar('\n');
    fflush(stdout);
    fputs("ebb-train: ", stderr);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
}

void usage_error(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    say(format, arguments);
    va_end(arguments);
    exit(EXIT_USAGE);
}

void fatal(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    say(format, arguments);
    va_end(arguments);
    exit(EXIT_FATAL);
}

void checks_hold(void)
{
    checks_held = true;
    first_failed[0] = '\0';
}

void checks_release(check_text_t text)
{
    checks_held = false;
    memcpy(text, first_failed, sizeof first_failed);
}

/* The call's name, without its arguments, and the source file without its folder. */
static void fail_call(const char *call, const char *file, int line, const char *why)
{
    const char *base = strrchr(file, '/');
    if (checks_held && first_failed[0] == '\0')
        snprintf(first_failed, sizeof first_failed, "%.*s: %s", (int)strcspn(call, "("), call, why);
    if (checks_held)
        return;
    fatal("%.*s failed at %s:%d: %s", (int)strcspn(call, "("), call, base ? base + 1 : file, line, why);
}

void check_cuda(cudaError_t error, const char *call, const char *file, int line)
{
    if (error == cudaSuccess)
        return;
    char why[512];
    snprintf(why, sizeof why, "%s (%s)", cudaGetErrorString(error), cudaGetErrorName(error));
    fail_call(call, file, line, why);
}

void check_blas(cublasStatus_t status, const char *call, const char *file, int line)
{
    if (status != CUBLAS_STATUS_SUCCESS)
        fail_call(call, file, line, cublasGetStatusString(status));
}
