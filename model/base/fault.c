#include "model/base/fault.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static void put(fault_t *fault, size_t at, const char *format, va_list arguments)
{
    vsnprintf(fault->text + at, sizeof fault->text - at, format, arguments);
    for (char *c = fault->text; *c != '\0'; c++) /* a file's name may hold anything, a message is one line */
        if (*c == '\n' || *c == '\r')
            *c = ' ';
}

void fault_write(fault_t *fault, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    put(fault, 0, format, arguments);
    va_end(arguments);
}

void fault_append(fault_t *fault, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    put(fault, strlen(fault->text), format, arguments);
    va_end(arguments);
}
