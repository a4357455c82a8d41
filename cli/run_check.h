/* run_check.h: what a command can tell before a program starts. Errors end the command: one line, exit code 2. */
#ifndef EBB_CLI_RUN_CHECK_H
#define EBB_CLI_RUN_CHECK_H

#include "cli/command.h"

/* Every EBB_* variable is an option, and its value one of that option's. Reads them into ebb_options. */
void ebb_run_check_options(const ebb_command_t *command, char *const *environment);
/* The files that the program's ebb, and the report (NULL: none), will write can be written, and the plan can be read. */
void ebb_run_check_files(const ebb_command_t *command, const char *report);
/* Warns of a program into which nothing can be preloaded. */
void ebb_run_check_program(const ebb_command_t *command, const char *program);

#endif
