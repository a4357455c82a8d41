/* ebb: the command. `ebb run` starts a program under the library, `ebb trace` shows a recorded step, `ebb
 * plan` plans it, `ebb check` proves a plan, `ebb options` lists what can be set. */
#include <errno.h>
#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "options.h"
#include "plan_show.h"
#include "trace_show.h"

extern char **environ;

static const char usage[] =
    "usage: ebb run [--budget B] [--stats FILE] [--log LEVEL] [--set NAME=VALUE]... [--] PROGRAM "
    "[ARGUMENTS]\n"
    "       ebb trace FILE\n"
    "       ebb plan TRACE --budget B [--offload 0|1] [--recompute 0|1] [--link RATE] [-o FILE]\n"
    "       ebb check TRACE PLAN --budget B\n"
    "       ebb options\n"
    "\n"
    "run       start PROGRAM with libebb.so preloaded\n"
    "  -b, --budget B      device bytes it may hold: 24GiB, or 60% of the device  (EBB_BUDGET)\n"
    "      --stats FILE    write statistics there when it ends                    (EBB_STATS)\n"
    "      --log LEVEL     quiet, warn, info, debug                               (EBB_LOG)\n"
    "      --set NAME=V    any other option: --set min_buffer=4MiB                (EBB_NAME)\n"
    "trace     show the step that EBB_TRACE=FILE has recorded\n"
    "plan      plan that step for a budget, prove the plan and tell what it costs\n"
    "  -b, --budget B      device bytes, or percent of what keeping everything takes\n"
    "      --offload 0|1, --recompute 0|1   what it may do                        (both)\n"
    "      --link RATE     bytes a second each way                                (25G)\n"
    "      --host B        pinned bytes; --min-buffer B: keep what is smaller\n"
    "  -o FILE             write the plan\n"
    "check     prove a plan for a step and a budget\n"
    "options   list all EBB_* variables with their defaults\n";

static int fail(const char *what, const char *detail)
{
    fprintf(stderr, "ebb: %s%s%s\n", what, detail ? ": " : "", detail ? detail : "");
    fprintf(stderr, "Try 'ebb --help'.\n");
    return 2;
}

/* The library beside this program: ../lib/libebb.so (build tree and installation alike), else where the
 * loader looks. */
static void find_library(char out[PATH_MAX])
{
    char self[PATH_MAX], path[PATH_MAX + 32];
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    if (n > 0) {
        self[n] = 0;
        snprintf(path, sizeof path, "%s/../lib/libebb.so", dirname(self));
        if (realpath(path, out))
            return;
    }
    snprintf(out, PATH_MAX, "libebb.so");
}

/* What was preloaded stays, behind ebb. */
static void preload(void)
{
    char library[PATH_MAX];
    const char *others = getenv("LD_PRELOAD");
    find_library(library);
    size_t size = strlen(library) + (others ? strlen(others) : 0) + 2;
    char *value = malloc(size);
    if (!value)
        exit(fail("out of memory", NULL));
    snprintf(value, size, "%s%s%s", library, others && *others ? ":" : "", others ? others : "");
    setenv("LD_PRELOAD", value, 1);
    free(value);
}

static int set_variable(const char *assignment)
{
    char name[64] = "EBB_";
    const char *equals = strchr(assignment, '=');
    size_t length = equals ? (size_t)(equals - assignment) : 0;
    if (!length || length >= sizeof name - 4)
        return fail("--set wants NAME=VALUE", assignment);
    size_t skip = strncasecmp(assignment, "EBB_", 4) ? 0 : 4;
    for (size_t i = skip; i < length; i++)
        name[4 + i - skip] =
            (char)(assignment[i] >= 'a' && assignment[i] <= 'z' ? assignment[i] - 32 : assignment[i]);
    name[4 + length - skip] = 0;
    setenv(name, equals + 1, 1);
    return 0;
}

static const struct flag {
    const char *flag, *variable;
} flags[] = {
    {"--budget", "EBB_BUDGET"}, {"-b", "EBB_BUDGET"}, {"--stats", "EBB_STATS"}, {"--log", "EBB_LOG"}};

/* Consumes one flag and its value; 0, an exit code, or -1 at the first word that is no flag. */
static int take_flag(char **argv, int *at)
{
    const char *word = argv[*at], *equals = strchr(word, '=');
    size_t length = equals ? (size_t)(equals - word) : strlen(word);
    if (word[0] != '-')
        return -1;
    const char *value = equals ? equals + 1 : argv[*at + 1];
    *at += equals ? 1 : 2;
    if (!value)
        return fail("a value is missing after", word);
    if (length == 5 && !strncmp(word, "--set", 5))
        return set_variable(value);
    for (size_t i = 0; i < sizeof flags / sizeof flags[0]; i++)
        if (strlen(flags[i].flag) == length && !strncmp(word, flags[i].flag, length)) {
            setenv(flags[i].variable, value, 1);
            return 0;
        }
    return fail("unknown option", word);
}

static int run(int argc, char **argv)
{
    int at = 0, result = 0;
    while (at < argc && strcmp(argv[at], "--") && !(result = take_flag(argv, &at)))
        ;
    if (result > 0)
        return result;
    if (at < argc && !strcmp(argv[at], "--"))
        at++;
    if (at >= argc)
        return fail("which program?", NULL);
    /* A bad value is told here, before anything starts; the program's own ebb would only warn. */
    if (!ebb_options_read(environ))
        return fail("not started", argv[at]);
    preload();
    execvp(argv[at], argv + at);
    fprintf(stderr, "ebb: %s: %s\n", argv[at], strerror(errno));
    return errno == ENOENT ? 127 : 126;
}

static int show_trace(const char *path)
{
    char error[256];
    FILE *f = fopen(path, "r");
    if (!f)
        return fail(path, strerror(errno));
    ebb_trace_t *t = ebb_trace_read(f, error, sizeof error);
    fclose(f);
    if (!t)
        return fail(path, error);
    bool good = ebb_trace_show(t, stdout);
    ebb_trace_delete(t);
    return good ? 0 : fail("out of memory", NULL);
}

int main(int argc, char **argv)
{
    if (argc >= 2 && (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h"))) {
        fputs(usage, stdout);
        return 0;
    }
    if (argc >= 2 && !strcmp(argv[1], "run"))
        return run(argc - 2, argv + 2);
    if (argc == 3 && !strcmp(argv[1], "trace"))
        return show_trace(argv[2]);
    if (argc >= 2 && !strcmp(argv[1], "plan"))
        return ebb_plan_command(argc - 2, argv + 2);
    if (argc >= 2 && !strcmp(argv[1], "check"))
        return ebb_check_command(argc - 2, argv + 2);
    if (argc == 2 && !strcmp(argv[1], "options")) {
        ebb_options_print(stdout);
        return 0;
    }
    return fail(argc < 2 ? "no command" : "unknown command", argc < 2 ? NULL : argv[1]);
}
