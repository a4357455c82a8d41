/* run.c: `ebb run`: sets the variables and LD_PRELOAD, and becomes the program, or waits for it (--report). */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/command.h"
#include "cli/process.h"
#include "cli/run_check.h"
#include "cli/run_report.h"

enum { KEEP_ALLOCATOR = 1000, SET, REPORT, FIRST_OPTION = 2000, MOST_OPTIONS = 64 };

typedef struct request {
    const char *report; /* NULL: none */
    bool keep_allocator;
} request_t;

static void set_variable(const ebb_command_t *c, const char *assignment)
{
    char name[64] = "EBB_";
    const char *equals = strchr(assignment, '=');
    size_t length = equals ? (size_t)(equals - assignment) : 0;
    if (!equals || !length || length >= sizeof name - 4)
        ebb_command_refuse(c, "--set %s: not NAME=VALUE", assignment);
    size_t skip = strncasecmp(assignment, "EBB_", 4) ? 0 : 4;
    for (size_t i = skip; i < length; i++)
        name[4 + i - skip] =
            (char)(assignment[i] >= 'a' && assignment[i] <= 'z' ? assignment[i] - 32 : assignment[i]);
    name[4 + length - skip] = 0;
    setenv(name, equals + 1, 1);
}

static void take(const ebb_command_t *c, int key, const char *value, void *request)
{
    request_t *r = request;
    ebb_option_row_t row;
    if (key >= FIRST_OPTION && ebb_option_row((unsigned)(key - FIRST_OPTION), &row))
        setenv(row.name, value, 1);
    else if (key == 'b')
        setenv("EBB_BUDGET", value, 1);
    else if (key == SET)
        set_variable(c, value);
    else if (key == REPORT)
        r->report = value;
    else
        r->keep_allocator = true;
}

/* Headings of the help, each in front of an option of the table. */
static const char *group_before(const char *option)
{
    static const struct {
        const char *option, *group;
    } groups[] = {{"EBB_BUDGET", "Memory"},
                  {"EBB_POLICY", "What a plan may do"},
                  {"EBB_VERIFY", "Checking"},
                  {"EBB_TRACE", "Files and messages"}};
    for (size_t i = 0; i < sizeof groups / sizeof groups[0]; i++)
        if (!strcmp(groups[i].option, option))
            return groups[i].group;
    return NULL;
}

static const char *value_of(const ebb_option_row_t *row)
{
    static const struct {
        const char *type, *value;
    } values[] = {{"size", "SIZE"}, {"number", "NUMBER"}, {"word", "WORD"}, {"text", "TEXT"}};
    if (!strncmp(row->help, "file ", 5))
        return "FILE";
    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++)
        if (!strcmp(values[i].type, row->type))
            return values[i].value;
    return row->type;
}

/* --min-buffer for EBB_MIN_BUFFER, and so on for every row of the table of options. */
static const ebb_flag_t *make_flags(void)
{
    static char name[MOST_OPTIONS][32];
    static ebb_flag_t flags[MOST_OPTIONS + 4];
    ebb_option_row_t row;
    unsigned n = 0;
    for (; n < MOST_OPTIONS && ebb_option_row(n, &row); n++) {
        size_t i = 0;
        for (const char *c = row.name + 4; *c && i < sizeof name[n] - 1; c++)
            name[n][i++] = (char)(*c == '_' ? '-' : *c - 'A' + 'a');
        name[n][i] = 0;
        flags[n] =
            (ebb_flag_t){group_before(row.name), name[n], FIRST_OPTION + (int)n, value_of(&row), row.help};
        if (!strcmp(row.name, "EBB_BUDGET"))
            flags[n].key = 'b';
    }
    flags[n++] = (ebb_flag_t){"The run", "report", REPORT, "FILE",
                              "at the end, write what became of a step; 'ebb help report' tells more"};
    flags[n++] = (ebb_flag_t){NULL, "set", SET, "NAME=VALUE", "any option by its variable's name"};
    flags[n] = (ebb_flag_t){NULL, "keep-allocator", KEEP_ALLOCATOR, NULL,
                            "leave PyTorch's choice of an allocator as it is"};
    return flags;
}

static int run(int argc, char **argv)
{
    request_t r = {.report = NULL};
    char *const command = ebb_process_command(argv);
    char **program = ebb_command_parse(&ebb_run_command, argc, argv, take, &r);
    /* A bad value is told here, before anything starts; the program's own ebb would only warn. */
    if (!ebb_run_prepare(&ebb_run_command, program[0], r.report, r.keep_allocator))
        return 2;
    const int result = r.report ? ebb_run_report(program, r.report, command) : 0;
    free(command);
    if (r.report)
        return result;
    execvp(program[0], program);
    fprintf(stderr, "ebb: %s: %s\n", program[0], strerror(errno));
    return errno == ENOENT ? 127 : 126;
}

const ebb_command_t ebb_run_command = {
    .name = "run",
    .summary = "start a program inside a memory budget",
    .usage = "[--] PROGRAM [ARGUMENT...]",
    .about =
        "Starts PROGRAM with libebb.so preloaded. Its results do not change by one bit. Every EBB_* variable "
        "is a flag. For PyTorch, PYTORCH_ALLOC_CONF and PYTORCH_CUDA_ALLOC_CONF get "
        "backend:cudaMallocAsync, so that each tensor is an allocation of its own.",
    .example = {"--budget 16GiB -- python3 train.py", "-b 60% --log info -- ./train",
                "-b 60% --report report.html -- python3 train.py"},
    .make_flags = make_flags,
    .words = EBB_TAKES_PROGRAM,
    .least = 1,
    .run = run};
