/* options_show.c: `ebb options`. */
#include <stdio.h>

#include "cli/command.h"

static void take(const ebb_command_t *c, int key, const char *value, void *request)
{
    (void)c, (void)value;
    *(bool *)request = key == 'm';
}

static int run(int argc, char **argv)
{
    bool markdown = false;
    ebb_command_parse(&ebb_options_command, argc, argv, take, &markdown);
    (markdown ? ebb_options_print_markdown : ebb_options_print)(stdout);
    return 0;
}

static const ebb_flag_t flags[] = {{NULL, "markdown", 'm', NULL, "as a table in Markdown"}, {0}};
const ebb_command_t ebb_options_command = {.name = "options",
                                           .summary = "list all EBB_* variables with their defaults",
                                           .usage = "",
                                           .about = "Each variable is a flag of 'ebb run' as well.",
                                           .example = {"", "--markdown"},
                                           .flags = flags,
                                           .run = run};
