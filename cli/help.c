/* help.c: `ebb help`, and every command's --help. */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "cli/command.h"

enum { LEAST = 40, MOST = 100, INDENT = 26 };

unsigned ebb_cli_columns(void)
{
    struct winsize size;
    const char *given = getenv("COLUMNS");
    const int columns = given ? atoi(given) : 0;
    if (columns >= LEAST)
        return (unsigned)columns;
    return ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) || size.ws_col < LEAST ? 80 : size.ws_col;
}

/* A paragraph, whose first line begins at column `at`, and the others at `indent`. */
static void print_paragraph(const char *text, unsigned at, unsigned indent)
{
    const unsigned columns = ebb_cli_columns() < MOST ? ebb_cli_columns() : MOST;
    for (bool first = true; *text; first = false) {
        const size_t n = strcspn(text, " ");
        if (!first && at + 1 + n > columns) {
            printf("\n%*s", (int)indent, "");
            at = indent;
        } else if (!first) {
            putchar(' ');
            at++;
        }
        for (size_t i = 0; i < n; i++)
            putchar(text[i] == '`' ? '\'' : text[i]); /* documents quote by `, a terminal by ' */
        at += (unsigned)n;
        text += n;
        text += strspn(text, " ");
    }
    putchar('\n');
}

static void print_flag(const ebb_flag_t *f)
{
    char left[64], letter[5] = "    ";
    if (f->key < 128)
        snprintf(letter, sizeof letter, "-%c, ", f->key);
    const bool optional = f->value && *f->value == '[';
    const int n = snprintf(left, sizeof left, "  %s--%s%s%.*s%s", letter, f->name,
                           optional   ? "[="
                           : f->value ? " "
                                      : "",
                           f->value ? (int)strcspn(f->value + optional, "]") : 0,
                           f->value ? f->value + optional : "", optional ? "]" : "");
    printf("%-*s", INDENT, left);
    if (n >= INDENT - 1)
        printf("\n%*s", INDENT, "");
    print_paragraph(f->help, INDENT, INDENT);
}

void ebb_help_print(const ebb_command_t *c)
{
    static const ebb_flag_t help = {NULL, "help", 'h', NULL, "show this"},
                            version = {NULL, "version", 'V', NULL, "show the version"};
    printf("ebb %s: %s\n\n", c->name, c->summary);
    for (unsigned i = 0; i < 3 && c->example[i]; i++)
        printf("%s  ebb %s%s%s\n", i ? "" : "Examples:\n", c->name, *c->example[i] ? " " : "", c->example[i]);
    const ebb_flag_t *const flags = ebb_command_flags(c);
    printf("\nUsage: ebb %s%s%s%s\n", c->name, flags->name ? " [FLAG...]" : "", *c->usage ? " " : "",
           c->usage);
    if (c->about) {
        putchar('\n');
        print_paragraph(c->about, 0, 0);
    }
    for (const ebb_flag_t *f = flags; f->name; f++) {
        if (f->group || f == flags)
            printf("\n%s:\n", f->group ? f->group : "Flags");
        print_flag(f);
    }
    puts("\nCommon:");
    print_flag(&help);
    print_flag(&version);
}

void ebb_help_print_all(void)
{
    puts("ebb: run unmodified CUDA programs inside a GPU memory budget\n\n"
         "Examples:\n"
         "  ebb doctor -- python3             what ebb finds on this machine\n"
         "  ebb run -b 16GiB -- python3 train.py\n"
         "  ebb top                           what runs under ebb now\n\n"
         "Usage: ebb COMMAND [FLAG...] [WORD...]\n\n"
         "Commands:");
    for (unsigned i = 0; i < ebb_command_count; i++) {
        printf("  %-10s ", ebb_commands[i]->name);
        print_paragraph(ebb_commands[i]->summary, 13, 13);
    }
    puts("\n'ebb help COMMAND' tells more; so does 'man ebb'.");
}

static int run(int argc, char **argv)
{
    char **word = ebb_command_parse(&ebb_help_command, argc, argv, NULL, NULL);
    if (*word)
        ebb_help_print(ebb_command_find(*word));
    else
        ebb_help_print_all();
    return 0;
}

const ebb_command_t ebb_help_command = {.name = "help",
                                        .summary = "show this, or what a command does",
                                        .usage = "[COMMAND]",
                                        .example = {"", "run"},
                                        .words = EBB_TAKES_COMMAND,
                                        .most = 1,
                                        .run = run};
