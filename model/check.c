#include "check.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool rehearsing;

static bool line_open;

void message_line_open(bool open)
{
    line_open = open;
}

static void say(const char *format, va_list arguments)
{
    fflush(stdout);
    fputs(line_open ? "\nebb-train: " : "ebb-train: ", stderr);
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

/* The call's name, without its arguments, and the source file without its folder. */
static _Noreturn void fatal_call(const char *call, const char *file, int line, const char *why)
{
    const char *base = strrchr(file, '/');
    fatal("%.*s failed at %s:%d: %s", (int)strcspn(call, "("), call, base ? base + 1 : file, line, why);
}

void check_cuda(cudaError_t error, const char *call, const char *file, int line)
{
    if (error == cudaSuccess)
        return;
    char why[512];
    snprintf(why, sizeof why, "%s (%s)", cudaGetErrorString(error), cudaGetErrorName(error));
    fatal_call(call, file, line, why);
}

void check_blas(cublasStatus_t status, const char *call, const char *file, int line)
{
    if (status != CUBLAS_STATUS_SUCCESS)
        fatal_call(call, file, line, cublasGetStatusString(status));
}
