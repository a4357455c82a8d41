#include "fault.h"

#include <stdarg.h>
#include <stdio.h>

void fault_write(fault_t *fault, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(fault->text, sizeof fault->text, format, arguments);
    va_end(arguments);
    for (char *c = fault->text; *c != '\0'; c++) /* a file's name may hold anything, a message is one line */
        if (*c == '\n' || *c == '\r')
            *c = ' ';
}
