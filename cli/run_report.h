/* run_report.h: `ebb run --report`. */
#ifndef EBB_CLI_RUN_REPORT_H
#define EBB_CLI_RUN_REPORT_H

/* Runs a program, as the environment is, waits for it, and writes the report of its steps into a file. Signals that would end
 * this process go to the program. Statistics and trace go where EBB_STATS and EBB_TRACE say; what they do not name is
 * temporary. The program's exit code, 128 and the signal's number if one has ended it, 126 or 127 if it could not be started;
 * `command`, which runs it again, goes into the report; a report that cannot be made is complained about and changes nothing in that. */
int ebb_run_report(char **program, const char *report, const char *command);

#endif
