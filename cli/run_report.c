/* run_report.c: see run_report.h. */
#include "cli/run_report.h"

#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "alloc/base/options.h"
#include "cli/cli.h"
#include "cli/process.h"
#include "cli/report_show.h"

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

static void write_report(char **program, pid_t pid, const char *report, const char *command)
{
    char statistics[EBB_FILE_NAME_ROOM];
    const char *given = getenv("EBB_STATS");
    ebb_options.rank = ebb_process_rank(environ); /* the program's, too */
    if (!ebb_file_name(given ? given : "", pid, statistics) || access(statistics, R_OK)) {
        ebb_cli_fail(
            report,
            "there is nothing to report: the program has left no statistics (has it used the device?)");
        return;
    }
    char *title = ebb_process_title(program);
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

int ebb_run_report(char **program, const char *report, const char *command)
{
    char folder[EBB_FOLDER_ROOM], statistics[PATH_MAX], trace[PATH_MAX];
    pid_t pid;
    if (!ebb_process_folder(folder))
        return 2;
    name("EBB_STATS", folder, "stats.json", statistics);
    name("EBB_TRACE", folder, "step.trace", trace);
    const int result = ebb_process_run(program, &pid, NULL, NULL);
    write_report(program, pid, report, command);
    if (*statistics)
        unlink(statistics);
    if (*trace)
        ebb_process_remove_traces(trace);
    rmdir(folder);
    return result;
}
