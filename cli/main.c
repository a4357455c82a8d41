/* ebb: the command. Which command it is; each has a file of its own. */
#include <argp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "alloc/base/options.h"
#include "cli/cli.h"

const char *argp_program_version = "ebb " EBB_VERSION;

static const struct command {
    const char *name, *help;
    int (*run)(int argc, char **argv);
} commands[] = {
    {"run", "start a program inside a memory budget", ebb_run_command},
    {"top", "show a running program's memory", ebb_top_command},
    {"doctor", "look at device, driver, link, host memory, and at a program", ebb_doctor_command},
    {"options", "list all EBB_* variables with their defaults", ebb_options_command},
    {"trace", "show the step that EBB_TRACE=FILE has recorded", ebb_trace_command},
    {"plan", "plan that step for a budget, and prove the plan", ebb_plan_command},
    {"check", "prove a plan for a step and a budget", ebb_check_command},
    {"version", "of this command, and of the library if it is preloaded", ebb_version_command},
    {"report", "show what became of a step's memory and time, and why", ebb_report_command},
};
enum { COMMANDS = sizeof commands / sizeof commands[0] };

int ebb_cli_fail(const char *what, const char *detail)
{
    fprintf(stderr, "ebb: %s%s%s\n", what, detail ? ": " : "", detail ? detail : "");
    return 2;
}

/* ---- ebb options ---- */

static error_t parse_options_word(int key, char *word, struct argp_state *state)
{
    (void)word;
    if (key != 'm')
        return ARGP_ERR_UNKNOWN;
    *(bool *)state->input = true;
    return 0;
}

int ebb_options_command(int argc, char **argv)
{
    static const struct argp_option flags[] = {{"markdown", 'm', NULL, 0, "As a table in Markdown", 0}, {0}};
    static const struct argp parser = {flags, parse_options_word,
                                       NULL,  "List all EBB_* variables: name, type, default, meaning.",
                                       NULL,  NULL,
                                       NULL};
    bool markdown = false;
    argp_parse(&parser, argc, argv, 0, NULL, &markdown);
    (markdown ? ebb_options_print_markdown : ebb_options_print)(stdout);
    return 0;
}

/* ---- */

typedef struct choice {
    const struct command *command;
    int at; /* of its name among the words */
} choice_t;

static error_t parse_command(int key, char *word, struct argp_state *state)
{
    choice_t *choice = state->input;
    if (key == ARGP_KEY_NO_ARGS)
        argp_error(state, "no command");
    if (key != ARGP_KEY_ARG)
        return ARGP_ERR_UNKNOWN;
    for (int i = 0; i < COMMANDS; i++)
        if (!strcmp(word, commands[i].name))
            choice->command = &commands[i];
    if (!choice->command)
        argp_error(state, "unknown command: %s", word);
    choice->at = state->next - 1;
    state->next = state->argc; /* the rest is the command's */
    return 0;
}

/* The list of commands, for the help. */
static char *list_commands(int key, const char *text, void *input)
{
    (void)input;
    if (key != ARGP_KEY_HELP_POST_DOC)
        return (char *)(uintptr_t)text;
    char *list = NULL;
    size_t bytes = 0;
    FILE *f = open_memstream(&list, &bytes);
    if (!f)
        return NULL;
    fputs("Commands:\n", f);
    for (int i = 0; i < COMMANDS; i++)
        fprintf(f, "  %-8s %s\n", commands[i].name, commands[i].help);
    fputs("\n'ebb COMMAND --help' tells more; so does 'man ebb'.\n", f);
    fclose(f);
    return list;
}

int main(int argc, char **argv)
{
    static const struct argp parser = {NULL,
                                       parse_command,
                                       "COMMAND [ARGUMENTS...]",
                                       "A GPU memory layer for unmodified CUDA programs.\v",
                                       NULL,
                                       list_commands,
                                       NULL};
    choice_t choice = {.at = 0};
    char name[64];
    argp_err_exit_status = 2;
    argp_parse(&parser, argc, argv, ARGP_IN_ORDER, NULL, &choice);
    snprintf(name, sizeof name, "ebb %s", choice.command->name);
    argv[choice.at] = name;
    return choice.command->run(argc - choice.at, argv + choice.at);
}
