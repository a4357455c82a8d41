#include "program.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

bool test_is_long(void)
{
    const char *set = getenv("TEST_LONG");
    return set && strcmp(set, "0");
}

unsigned test_cases(unsigned usual, unsigned all)
{
    const char *set = getenv("TEST_CASES");
    return set ? (unsigned)atoi(set) : test_is_long() ? all : usual;
}

/* To the end, so that nobody writes into a closed pipe. */
static void read_all(FILE *f, char *text, size_t size)
{
    char beyond[4096];
    text[fread(text, 1, size - 1, f)] = 0;
    while (fread(beyond, 1, sizeof beyond, f))
        ;
}

void program_run(const char *command, program_run_t *out)
{
    char all[2048], path[] = "/tmp/ebb-program-XXXXXX";
    const int log = mkstemp(path);
    assert_true(log >= 0);
    assert_true((size_t)snprintf(all, sizeof all, "%s 2>%s", command, path) < sizeof all);
    FILE *f = popen(all, "r");
    assert_non_null(f);
    read_all(f, out->output, sizeof out->output);
    out->status = pclose(f);
    f = fdopen(log, "r");
    assert_non_null(f);
    read_all(f, out->log, sizeof out->log);
    fclose(f);
    remove(path);
    /* A broken invariant, or a plan that is refused: ebb would go on all the same (alloc/base/status.h); but for tests of just that. */
    const char *report = strstr(command, "TEST_BREAK=") ? NULL : strstr(out->log, "please report this");
    while (report && report > out->log && report[-1] != '\n')
        report--;
    if (report)
        fail_msg("%s: %.300s", command, report);
}

double program_number(const char *text, const char *key)
{
    char quoted[64];
    snprintf(quoted, sizeof quoted, "\"%s\": ", key);
    const char *at = strstr(text, quoted);
    if (!at)
        fail_msg("no %s in %s", key, text);
    return strtod(at + strlen(quoted), NULL);
}

double program_statistic(const char *path, const char *after, const char *key)
{
    char line[16384] = "";
    FILE *f = fopen(path, "r");
    assert_non_null(f);
    assert_non_null(fgets(line, sizeof line, f));
    fclose(f);
    const char *from = after ? strstr(line, after) : line;
    if (!from)
        fail_msg("no %s in %s", after, line);
    return program_number(from, key);
}
