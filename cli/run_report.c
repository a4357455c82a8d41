/* run_report.c: see run_report.h. */
#include "cli/run_report.h"

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/report_show.h"

static volatile pid_t running;

static void pass_on(int signal_number)
{
    if (running > 0)
        kill(running, signal_number);
}

/* What a terminal sends reaches the program as well; what is sent to this process is passed on. */
static void pass_signals_on(void)
{
    const struct sigaction forward = {.sa_handler = pass_on, .sa_flags = SA_RESTART},
                           ignore = {.sa_handler = SIG_IGN};
    sigaction(SIGTERM, &forward, NULL);
    sigaction(SIGHUP, &forward, NULL);
    sigaction(SIGUSR1, &forward, NULL);
    sigaction(SIGUSR2, &forward, NULL);
    sigaction(SIGINT, &ignore, NULL);
    sigaction(SIGQUIT, &ignore, NULL);
}

/* The program's end, as an exit code. */
static int run(char **program)
{
    sigset_t all, before;
    int status = 0;
    sigfillset(&all);
    sigprocmask(SIG_BLOCK, &all, &before); /* until it is known whom they are for */
    running = fork();
    if (!running) {
        sigprocmask(SIG_SETMASK, &before, NULL);
        execvp(program[0], program);
        fprintf(stderr, "ebb: %s: %s\n", program[0], strerror(errno));
        _exit(errno == ENOENT ? 127 : 126);
    }
    if (running > 0)
        pass_signals_on();
    sigprocmask(SIG_SETMASK, &before, NULL);
    if (running < 0)
        return ebb_cli_fail("fork", strerror(errno));
    while (waitpid(running, &status, 0) < 0)
        if (errno != EINTR)
            return ebb_cli_fail("waitpid", strerror(errno));
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

/* A file in the folder for what is not named; `path` owns the name while it is temporary. */
static void name(const char *variable, const char *folder, const char *file, char path[PATH_MAX])
{
    const char *given = getenv(variable);
    *path = 0;
    if (given && *given)
        return;
    snprintf(path, PATH_MAX, "%s/%s", folder, file);
    setenv(variable, path, 1);
}

/* %p in a name is the program's process. */
static void find_statistics(char out[PATH_MAX])
{
    const char *set = getenv("EBB_STATS"), *given = set ? set : "", *process = strstr(given, "%p");
    if (process)
        snprintf(out, PATH_MAX, "%.*s%d%s", (int)(process - given), given, (int)running, process + 2);
    else
        snprintf(out, PATH_MAX, "%s", given);
}

/* Where the program has never been short of memory, that is the answer. */
static void tell(const char *report, const char *statistics)
{
    char error[256];
    FILE *f = fopen(statistics, "r");
    ebb_measured_t *m = f ? ebb_measured_read(f, -1, error, sizeof error) : NULL;
    if (f)
        fclose(f);
    if (m && ebb_measured_has_fitted(m))
        fprintf(stderr, "ebb: everything fitted (%.0f of %.0f MiB): nothing to do\n",
                ebb_cli_mib(m->statistics.peak_bytes), ebb_cli_mib(m->statistics.budget_bytes));
    fprintf(stderr, "ebb: the report is in %s\n", report);
    ebb_measured_delete(m);
}

/* "train --steps 3" of a program in any folder; the caller's, to be freed. */
static char *title_of(char **program)
{
    char *title = NULL;
    size_t bytes;
    FILE *f = open_memstream(&title, &bytes);
    const char *slash = strrchr(program[0], '/');
    for (char **word = program; f && *word; word++)
        fprintf(f, word == program ? "%s" : " %s", word == program && slash ? slash + 1 : *word);
    return f && !fclose(f) ? title : NULL;
}

static void write_report(char **program, const char *report, const char *command)
{
    char statistics[PATH_MAX];
    find_statistics(statistics);
    if (access(statistics, R_OK)) {
        ebb_cli_fail(
            report,
            "there is nothing to report: the program has left no statistics (has it used the device?)");
        return;
    }
    char *title = title_of(program);
    const ebb_report_files_t files = {.source = statistics,
                                      .title = title,
                                      .command = command,
                                      .kind = -1,
                                      .output = {report},
                                      .output_count = 1};
    if (!ebb_cli_report(&files))
        tell(report, statistics);
    free(title);
}

/* Traces of further kinds of step have the name with a number behind it. */
static void remove_traces(const char *path)
{
    char more[PATH_MAX + 16];
    unlink(path);
    for (unsigned i = 0; i < 8; i++) {
        snprintf(more, sizeof more, "%s.%u", path, i);
        unlink(more);
    }
}

int ebb_run_report(char **program, const char *report, const char *command)
{
    char folder[PATH_MAX - 64], statistics[PATH_MAX], trace[PATH_MAX];
    const char *place = getenv("TMPDIR");
    snprintf(folder, sizeof folder, "%s/ebb-XXXXXX", place && *place ? place : "/tmp");
    if (!mkdtemp(folder))
        return ebb_cli_fail(folder, strerror(errno));
    name("EBB_STATS", folder, "stats.json", statistics);
    name("EBB_TRACE", folder, "step.trace", trace);
    const int result = run(program);
    write_report(program, report, command);
    if (*statistics)
        unlink(statistics);
    if (*trace)
        remove_traces(trace);
    rmdir(folder);
    return result;
}
