/* cli.h: what the commands of `ebb` share. Every command parses its own words with argp: argv[0] is "ebb COMMAND".
 *
 * Exit codes: 0 good, 1 the answer is no, 2 the command line or a file is wrong; `ebb run` ends as its program does.
 */
#ifndef EBB_CLI_H
#define EBB_CLI_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>

int ebb_run_command(int argc, char **argv);
int ebb_doctor_command(int argc, char **argv);
int ebb_top_command(int argc, char **argv);
int ebb_trace_command(int argc, char **argv);
int ebb_plan_command(int argc, char **argv);
int ebb_check_command(int argc, char **argv);
int ebb_report_command(int argc, char **argv);
int ebb_options_command(int argc, char **argv);
int ebb_version_command(int argc, char **argv);

/* One line on stderr; always 2. */
int ebb_cli_fail(const char *what, const char *detail);

/* The library beside this program: ../lib/libebb.so (build tree and installation alike), else where the loader looks.
 * False: it was not found beside. */
bool ebb_cli_find_library(char out[PATH_MAX]);

/* What this library says of its version (ebb_version), when a process has it preloaded. False: it cannot be preloaded, or has none. */
bool ebb_cli_library_version(const char *library, char *out, size_t size);

/* Reads a file by one of the readers; NULL after a complaint. */
typedef struct ebb_trace ebb_trace_t;
typedef struct ebb_plan ebb_plan_t;
ebb_trace_t *ebb_cli_read_trace(const char *path);
ebb_plan_t *ebb_cli_read_plan(const char *path);

#endif
