/* cli.h: what the commands of `ebb` share; their table is in command.h.
 *
 * Exit codes: 0 good, 1 the answer is no, 2 the command line or a file is wrong; `ebb run` ends as its program does.
 */
#ifndef EBB_CLI_H
#define EBB_CLI_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* One line on stderr; always 2. */
int ebb_cli_fail(const char *what, const char *detail);

/* The library beside this program: ../lib/libebb.so (build tree and installation alike), else where the loader looks.
 * False: it was not found beside. */
bool ebb_cli_find_library(char out[PATH_MAX]);

/* From now on programs that this process starts have the library preloaded; what was preloaded stays, behind it, and so does another tool
 * for NVTX's ranges. False: no memory. */
bool ebb_cli_preload(void);

/* What this library says of its version (ebb_version), when a process has it preloaded. False: it cannot be preloaded, or has none. */
bool ebb_cli_library_version(const char *library, char *out, size_t size);

static inline double ebb_cli_mib(uint64_t bytes)
{
    return (double)bytes / (1 << 20);
}

/* "512.0 MiB", from 10 GiB on "80.0 GiB". `out`. */
enum { EBB_SIZE_ROOM = 32 };
const char *ebb_cli_size(uint64_t bytes, char out[EBB_SIZE_ROOM]);

/* Reads a file by one of the readers; NULL after a complaint. */
typedef struct ebb_trace ebb_trace_t;
typedef struct ebb_plan ebb_plan_t;
ebb_trace_t *ebb_cli_read_trace(const char *path);
ebb_plan_t *ebb_cli_read_plan(const char *path);

#endif
