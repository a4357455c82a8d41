/* command.h: the commands of `ebb` as a table. Parsers, `--help`, nearest names and shell completions follow from its rows: one row
 * more is all that a flag or a command takes.
 *
 * Mistakes in a command line are one line on stderr and exit code 2.
 */
#ifndef EBB_CLI_COMMAND_H
#define EBB_CLI_COMMAND_H

#include <stdbool.h>
#include <stdint.h>

#include "alloc/base/options.h"

typedef struct ebb_flag {
    const char *group; /* heading of this flag and of those behind it in the help; NULL: none of its own */
    const char *name;  /* without hyphens; NULL ends the list */
    int key;           /* a letter: the short flag, too; from 1000: none */
    const char *
        value; /* what it takes, "BYTES"; in brackets, "[FILE]": may be left out; NULL: nothing. FILE is completed */
    const char *help;
} ebb_flag_t;

/* What stands behind a command's flags. */
typedef enum ebb_words {
    EBB_TAKES_NONE,
    EBB_TAKES_FILES,
    EBB_TAKES_PROGRAM,
    EBB_TAKES_PID,
    EBB_TAKES_COMMAND,
    EBB_TAKES_SHELL
} ebb_words_t;

typedef struct ebb_command {
    const char *name, *summary, *usage; /* usage: its words, "TRACE PLAN" */
    const char *about;
    const char *example[3]; /* without "ebb NAME " */
    const ebb_flag_t *flags;
    const ebb_flag_t *(*make_flags)(void); /* instead of `flags`; NULL: there are none */
    ebb_words_t words;
    unsigned least, most;              /* words; those of a program are not counted */
    int (*run)(int argc, char **argv); /* argv[0] is the command's name */
} ebb_command_t;

extern const ebb_command_t ebb_run_command, ebb_top_command, ebb_doctor_command, ebb_options_command,
    ebb_trace_command, ebb_plan_command, ebb_check_command, ebb_report_command, ebb_estimate_command,
    ebb_version_command, ebb_help_command, ebb_completion_command;
extern const ebb_command_t *const ebb_commands[];
extern const unsigned ebb_command_count;

/* Refused, with the nearest name, if there is none of that name. */
const ebb_command_t *ebb_command_find(const char *name);
const ebb_flag_t *ebb_command_flags(const ebb_command_t *command);

/* Gives every flag to `take`, which may refuse its value (NULL: there are none). The words, ended by NULL; --help and --version do not return. */
typedef void ebb_take_flag_t(const ebb_command_t *command, int key, const char *value, void *request);
char **ebb_command_parse(const ebb_command_t *command, int argc, char **argv, ebb_take_flag_t *take,
                         void *request);

/* "ebb NAME: ..." on stderr, then exit code 2. command NULL: "ebb: ...". */
_Noreturn void ebb_command_refuse(const ebb_command_t *command, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* The same for a name that does not exist: with the nearest one, if one is near. */
_Noreturn void ebb_command_refuse_name(const ebb_command_t *command, const char *what, const char *name,
                                       const char *nearest);

/* The size that a flag was given; refused if it is none. */
ebb_size_t ebb_command_size(const ebb_command_t *command, const char *flag, const char *value);
/* The same where only bytes mean anything. */
int64_t ebb_command_bytes(const ebb_command_t *command, const char *flag, const char *value);
/* Rates of the link, above 0. */
ebb_link_rates_t ebb_command_rates(const ebb_command_t *command, const char *flag, const char *value);

/* Help: of a command, or of all together. */
void ebb_help_print(const ebb_command_t *command);
void ebb_help_print_all(void);

/* Columns of the terminal, else of COLUMNS, else 80. */
unsigned ebb_cli_columns(void);

#endif
