/* run.c: `ebb run`: sets the variables and LD_PRELOAD, and becomes the program, or waits for it (--report). */
#include <argp.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "alloc/base/options.h"
#include "cli/cli.h"
#include "cli/pytorch.h"
#include "cli/run_report.h"

extern char **environ;

enum { KEEP_ALLOCATOR = 1000, SET, REPORT, FIRST_OPTION = 2000, MOST_OPTIONS = 64 };

typedef struct request {
    char **program;     /* and its arguments */
    const char *report; /* NULL: none */
    bool keep_allocator;
} request_t;

static void set_variable(struct argp_state *state, const char *assignment)
{
    char name[64] = "EBB_";
    const char *equals = strchr(assignment, '=');
    size_t length = equals ? (size_t)(equals - assignment) : 0;
    if (!equals || !length || length >= sizeof name - 4) {
        argp_error(state, "--set wants NAME=VALUE: %s", assignment);
        return;
    }
    size_t skip = strncasecmp(assignment, "EBB_", 4) ? 0 : 4;
    for (size_t i = skip; i < length; i++)
        name[4 + i - skip] =
            (char)(assignment[i] >= 'a' && assignment[i] <= 'z' ? assignment[i] - 32 : assignment[i]);
    name[4 + length - skip] = 0;
    setenv(name, equals + 1, 1);
}

static error_t parse(int key, char *word, struct argp_state *state)
{
    request_t *r = state->input;
    ebb_option_row_t row;
    if (key >= FIRST_OPTION && ebb_option_row((unsigned)(key - FIRST_OPTION), &row)) {
        setenv(row.name, word, 1);
        return 0;
    }
    switch (key) {
    case 'b':
        setenv("EBB_BUDGET", word, 1);
        return 0;
    case SET:
        set_variable(state, word);
        return 0;
    case REPORT:
        r->report = word;
        return 0;
    case KEEP_ALLOCATOR:
        r->keep_allocator = true;
        return 0;
    case ARGP_KEY_ARG:
        r->program = state->argv + state->next - 1;
        state->next = state->argc; /* the rest is the program's */
        return 0;
    case ARGP_KEY_NO_ARGS:
        argp_error(state, "which program?");
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

/* --min-buffer for EBB_MIN_BUFFER, and so on for every row of the table. */
static void list_flags(struct argp_option *flags)
{
    static char name[MOST_OPTIONS][32];
    ebb_option_row_t row;
    unsigned n = 0;
    for (; n < MOST_OPTIONS && ebb_option_row(n, &row); n++) {
        size_t i = 0;
        for (const char *c = row.name + 4; *c && i < sizeof name[n] - 1; c++)
            name[n][i++] = (char)(*c == '_' ? '-' : *c - 'A' + 'a');
        flags[n] = (struct argp_option){name[n], FIRST_OPTION + (int)n, row.type, 0, row.help, 0};
        if (!strcmp(row.name, "EBB_BUDGET"))
            flags[n].key = 'b';
    }
    flags[n++] = (struct argp_option){"set", SET, "NAME=VALUE", 0, "Any of them by its variable's name", 1};
    flags[n++] = (struct argp_option){
        "report", REPORT, "FILE", 0, "At the end, write what became of a step: see 'ebb report'", 1};
    flags[n] = (struct argp_option){
        "keep-allocator", KEEP_ALLOCATOR, NULL, 0, "Leave PyTorch's choice of an allocator as it is", 1};
}

/* What was preloaded stays, behind ebb; so does another tool for NVTX's ranges. */
static bool preload(void)
{
    char library[PATH_MAX], *value = NULL;
    const char *others = getenv("LD_PRELOAD");
    ebb_cli_find_library(library);
    if (asprintf(&value, "%s%s%s", library, others && *others ? ":" : "", others ? others : "") < 0)
        return false;
    setenv("LD_PRELOAD", value, 1);
    setenv("NVTX_INJECTION64_PATH", library, 0);
    free(value);
    return true;
}

int ebb_run_command(int argc, char **argv)
{
    static struct argp_option flags[MOST_OPTIONS + 4];
    static const struct argp parser = {flags,
                                       parse,
                                       "[--] PROGRAM [ARGUMENTS...]",
                                       "Start PROGRAM with libebb.so preloaded. Every EBB_* variable has its "
                                       "flag; 'ebb options' lists them with their "
                                       "defaults.\vFor PyTorch, PYTORCH_ALLOC_CONF and "
                                       "PYTORCH_CUDA_ALLOC_CONF get backend:cudaMallocAsync, so that "
                                       "each tensor is an allocation of its own; what else they say stays.",
                                       NULL,
                                       NULL,
                                       NULL};
    request_t r = {.program = NULL};
    list_flags(flags);
    argp_parse(&parser, argc, argv, ARGP_IN_ORDER, NULL, &r);
    /* A bad value is told here, before anything starts; the program's own ebb would only warn. */
    if (!ebb_options_read(environ))
        return ebb_cli_fail("not started", r.program[0]);
    if (!r.keep_allocator)
        ebb_pytorch_configure();
    if (!preload())
        return ebb_cli_fail("out of memory", NULL);
    if (r.report)
        return ebb_run_report(r.program, r.report);
    execvp(r.program[0], r.program);
    fprintf(stderr, "ebb: %s: %s\n", r.program[0], strerror(errno));
    return errno == ENOENT ? 127 : 126;
}
