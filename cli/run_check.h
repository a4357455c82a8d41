/* run_check.h: what comes before a program that is started under ebb. */
#ifndef EBB_CLI_RUN_CHECK_H
#define EBB_CLI_RUN_CHECK_H

#include "cli/command.h"

/* The environment becomes that of a program under ebb: the library is preloaded, and PyTorch's allocator chosen unless that is to be kept.
 * Refused with one line are: an EBB_* variable that is no option, or whose value is none of that option's; files that the program's ebb, or
 * the report (NULL: none), cannot write, and a plan that cannot be read. Warns of a program into which nothing can be preloaded. The options
 * are in ebb_options. False after a complaint: no memory. */
bool ebb_run_prepare(const ebb_command_t *command, const char *program, const char *report,
                     bool keep_allocator);

#endif
