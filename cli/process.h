/* process.h: a program that a command starts and waits for. */
#ifndef EBB_CLI_PROCESS_H
#define EBB_CLI_PROCESS_H

#include <limits.h>
#include <stdbool.h>
#include <sys/types.h>

/* What was typed, for a shell, with the variables that it was typed under; "train --steps 3" of a program in any folder. The caller's, to be
 * freed. NULL: no memory. */
char *ebb_process_command(char **argv);
char *ebb_process_title(char **program);

/* Runs a program, as the environment is, and waits for it; signals that would end this process go to the program. With `enough`, which is
 * asked ten times a second, the program has a process group of its own, and that is ended (SIGTERM) when enough(context) is true. The
 * program's exit code, 128 and the signal's number if one has ended it, 126 or 127 if it could not be started. `pid`: whose that was. */
int ebb_process_run(char **program, pid_t *pid, bool (*enough)(const void *context), const void *context);

/* A fresh folder for what a run leaves behind. False after a complaint. */
enum { EBB_FOLDER_ROOM = PATH_MAX - 64 };
bool ebb_process_folder(char out[EBB_FOLDER_ROOM]);
/* The trace's file, and those of further kinds of step. */
void ebb_process_remove_traces(const char *path);

#endif
