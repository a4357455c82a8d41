/* program.h: running a program as a shell would, with what it says, and reading one number from the JSON that it has left, such
 * as the file of EBB_STATS. Functions of CMocka tests: what cannot be done fails the test.
 */
#ifndef EBB_TESTS_PROGRAM_H
#define EBB_TESTS_PROGRAM_H

#include <stdbool.h>

/* TEST_LONG is set (tests/run.sh --full): every case, not only what guards behaviour of its own. */
bool test_is_long(void);

/* How many cases a test draws: TEST_CASES if that is set; else `all` of them in the long form, or `usual`. */
unsigned test_cases(unsigned usual, unsigned all);

typedef struct program_run {
    int status;                     /* as of waitpid() */
    char output[16384], log[65536]; /* the beginning of its stdout and stderr */
} program_run_t;

/* Runs a command of the shell: one program, its environment before it ("A=1 B=2 program argument"). What ebb asks
 * to be told of (a broken invariant, a plan that does not pass its check) fails the test. */
void program_run(const char *command, program_run_t *out);

/* The number that a text has at a key; the first one. */
double program_number(const char *text, const char *key);
/* The same from the first line of a file, behind `after` if that is not NULL. */
double program_statistic(const char *path, const char *after, const char *key);

#endif
