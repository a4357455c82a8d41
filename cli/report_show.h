/* report_show.h: reports into files (report.h), for the commands that write any. */
#ifndef EBB_CLI_REPORT_SHOW_H
#define EBB_CLI_REPORT_SHOW_H

#include "cli/report/report.h"

typedef enum ebb_report_form {
    EBB_FORM_BY_NAME, /* .perfetto, .perfetto.json, .trace.json: Perfetto; .json: JSON; everything else: HTML */
    EBB_FORM_JSON,
    EBB_FORM_PERFETTO
} ebb_report_form_t;

/* Writes it in place of an older one at once; path NULL: to stdout. An exit code, after a complaint if it is not 0. */
int ebb_cli_write_report(const ebb_report_t *report, const char *path, ebb_report_form_t form);

/* What statistics (with the step and the plan that they name) or a trace say, into one file. `trace`, `plan`: files instead of
 * those that statistics name, or NULL. An exit code. */
typedef struct ebb_report_files {
    const char *source, *trace, *plan;
    const char *title,
        *command; /* the program, and what runs it again; NULL: the source's name, and unknown */
    int kind;     /* of step; below 0: the one of which there were most */
    double out_bytes_per_ns, in_bytes_per_ns; /* of the link; 0: as measured, else 25 GB/s */
    const char *output[8];
    unsigned output_count;
    ebb_report_form_t form;
} ebb_report_files_t;
int ebb_cli_report(const ebb_report_files_t *files);

#endif
