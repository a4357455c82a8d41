/* completion.c: `ebb completion SHELL`: a shell's completions, from the table of commands. */
#include <stdio.h>
#include <string.h>

#include "cli/command.h"

#define PROCESSES "ebb top 2>/dev/null | sed 1d | cut -c1-8"

/* Inside single quotes of all three shells; `special` are letters that need a backslash beside. */
static void print_quoted(const char *text, const char *special)
{
    for (; *text; text++)
        if (*text == '\'')
            fputs("'\\''", stdout);
        else
            printf("%s%c", strchr(special, *text) ? "\\" : "", *text);
}

static bool is_file(const ebb_flag_t *f)
{
    return f->value && strstr(f->value, "FILE");
}

static void print_commands(void)
{
    for (unsigned i = 0; i < ebb_command_count; i++)
        printf("%s ", ebb_commands[i]->name);
}

/* ---- bash ---- */

typedef bool chosen_t(const ebb_flag_t *f);

static bool is_any(const ebb_flag_t *f)
{
    return f->name;
}

static bool has_value(const ebb_flag_t *f)
{
    return f->value && *f->value != '[';
}

static void print_flags(const char *list, const ebb_command_t *c, chosen_t *chosen)
{
    printf(" %s=' ", list);
    for (const ebb_flag_t *f = ebb_command_flags(c); f->name; f++) {
        if (chosen(f))
            printf("--%s ", f->name);
        if (chosen(f) && f->key < 128)
            printf("-%c ", f->key);
    }
    putchar('\'');
}

static void print_bash(void)
{
    static const char *const words[] = {
        [EBB_TAKES_NONE] = "-W ''",          [EBB_TAKES_FILES] = "-f",
        [EBB_TAKES_PROGRAM] = "-c",          [EBB_TAKES_PID] = ("-W \"$(" PROCESSES ")\""),
        [EBB_TAKES_COMMAND] = "-W \"$all\"", [EBB_TAKES_SHELL] = "-W 'bash zsh fish'"};
    fputs("# Completions of ebb for bash, made by 'ebb completion bash'.\n"
          "_ebb() {\n"
          "    local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]} flags= values= files= "
          "i all='",
          stdout);
    print_commands();
    fputs("'\n"
          "    local -a words=(-W '')\n"
          "    if ((COMP_CWORD == 1)); then\n"
          "        COMPREPLY=($(compgen -W \"$all --help --version\" -- \"$word\"))\n"
          "        return\n"
          "    fi\n"
          "    case ${COMP_WORDS[1]} in\n",
          stdout);
    for (unsigned i = 0; i < ebb_command_count; i++) {
        const ebb_command_t *c = ebb_commands[i];
        printf("    %s)", c->name);
        print_flags("flags", c, is_any);
        print_flags("values", c, has_value);
        print_flags("files", c, is_file);
        printf(" words=(%s) ;;\n", words[c->words]);
    }
    fputs("    esac\n"
          "    for ((i = 2; i < COMP_CWORD; i++)); do # a program's own words\n"
          "        if [[ ${COMP_WORDS[i]} == -- ]] && declare -F _command_offset >/dev/null; then\n"
          "            _command_offset $((i + 1))\n"
          "            return\n"
          "        fi\n"
          "    done\n"
          "    if [[ $word == '=' ]]; then # bash takes it for a word\n"
          "        word=\n"
          "    elif [[ $before == '=' ]]; then\n"
          "        before=${COMP_WORDS[COMP_CWORD-2]}\n"
          "    fi\n"
          "    if [[ $files == *\" $before \"* ]]; then\n"
          "        words=(-f)\n"
          "    elif [[ $values == *\" $before \"* ]]; then\n"
          "        words=(-W '')\n"
          "    elif [[ $word == -* ]]; then\n"
          "        words=(-W \"$flags --help --version\")\n"
          "    fi\n"
          "    COMPREPLY=($(compgen \"${words[@]}\" -- \"$word\"))\n"
          "}\n"
          "complete -o bashdefault -o default -F _ebb ebb\n",
          stdout);
}

/* ---- zsh ---- */

static void print_zsh_flag(const ebb_flag_t *f)
{
    const bool optional = f->value && *f->value == '[';
    const char *const equals = !f->value ? "" : optional ? "=-" : "=";
    fputs(" \\\n        ", stdout);
    if (f->key < 128)
        printf("'(-%c --%s)'{-%c%s,--%s%s}'[", f->key, f->name, f->key, f->value ? "+" : "", f->name, equals);
    else
        printf("'--%s%s[", f->name, equals);
    print_quoted(f->help, "[]:\\");
    putchar(']');
    if (f->value)
        printf("%s%.*s:%s", optional ? "::" : ":", (int)strcspn(f->value + optional, "]"),
               f->value + optional, is_file(f) ? "_files" : "");
    putchar('\'');
}

static void print_zsh(void)
{
    static const char *const words[] = {[EBB_TAKES_NONE] = "",
                                        [EBB_TAKES_FILES] = " '*:file:_files'",
                                        [EBB_TAKES_PROGRAM] =
                                            " '(-)1:program: _command_names -e' '*::argument: _normal'",
                                        [EBB_TAKES_PID] = (" \"1:process:($(" PROCESSES "))\""),
                                        [EBB_TAKES_COMMAND] = " \"1:command:($all)\"",
                                        [EBB_TAKES_SHELL] = " '1:shell:(bash zsh fish)'"};
    static const ebb_flag_t help = {NULL, "help", 'h', NULL, "show help"},
                            version = {NULL, "version", 'V', NULL, "show the version"};
    puts("#compdef ebb\n# Completions of ebb for zsh, made by 'ebb completion zsh'.\n_ebb() {\n    local -a "
         "ebb_commands=(");
    for (unsigned i = 0; i < ebb_command_count; i++) {
        printf("        '%s:", ebb_commands[i]->name);
        print_quoted(ebb_commands[i]->summary, ":\\");
        puts("'");
    }
    fputs("    )\n    local all='", stdout);
    print_commands();
    puts("' command=$words[2]\n"
         "    if ((CURRENT == 2)); then\n"
         "        _describe -t commands command ebb_commands\n"
         "        return\n"
         "    fi\n"
         "    shift words\n"
         "    ((CURRENT--))\n"
         "    case $command in");
    for (unsigned i = 0; i < ebb_command_count; i++) {
        const ebb_command_t *c = ebb_commands[i];
        printf("    %s)\n        _arguments -S%s", c->name, words[c->words]);
        for (const ebb_flag_t *f = ebb_command_flags(c); f->name; f++)
            print_zsh_flag(f);
        print_zsh_flag(&help);
        print_zsh_flag(&version);
        puts("\n        ;;");
    }
    puts("    esac\n}\n_ebb \"$@\"");
}

/* ---- fish ---- */

static void print_fish(void)
{
    static const char *const words[] = {[EBB_TAKES_NONE] = NULL,
                                        [EBB_TAKES_FILES] = "-F",
                                        [EBB_TAKES_PROGRAM] =
                                            "-a '(__fish_complete_subcommand --fcs-skip=2)'",
                                        [EBB_TAKES_PID] = ("-a \"(" PROCESSES ")\""),
                                        [EBB_TAKES_COMMAND] = NULL,
                                        [EBB_TAKES_SHELL] = "-a 'bash zsh fish'"};
    puts(
        "# Completions of ebb for fish, made by 'ebb completion fish'.\ncomplete -c ebb -f\n"
        "complete -c ebb -s h -l help -d 'show help'\ncomplete -c ebb -s V -l version -d 'show the version'");
    for (unsigned i = 0; i < ebb_command_count; i++) {
        const ebb_command_t *c = ebb_commands[i];
        printf("complete -c ebb -n '__fish_use_subcommand; or __fish_seen_subcommand_from help' -a %s -d '",
               c->name);
        print_quoted(c->summary, "\\");
        puts("'");
        if (words[c->words])
            printf("complete -c ebb -n '__fish_seen_subcommand_from %s' %s\n", c->name, words[c->words]);
        for (const ebb_flag_t *f = ebb_command_flags(c); f->name; f++) {
            printf("complete -c ebb -n '__fish_seen_subcommand_from %s' -l %s", c->name, f->name);
            if (f->key < 128)
                printf(" -s %c", f->key);
            fputs(is_file(f) ? " -r -F -d '" : f->value ? " -x -d '" : " -d '", stdout);
            print_quoted(f->help, "\\");
            puts("'");
        }
    }
}

/* ---- the command ---- */

static int run(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*print)(void);
    } shells[] = {{"bash", print_bash}, {"zsh", print_zsh}, {"fish", print_fish}};
    char **word = ebb_command_parse(&ebb_completion_command, argc, argv, NULL, NULL);
    for (size_t i = 0; i < sizeof shells / sizeof shells[0]; i++)
        if (!strcmp(*word, shells[i].name)) {
            shells[i].print();
            return 0;
        }
    ebb_command_refuse(&ebb_completion_command, "%s: not bash, zsh or fish", *word);
}

const ebb_command_t ebb_completion_command = {.name = "completion",
                                              .summary = "print a shell's completions",
                                              .usage = "SHELL",
                                              .example = {"bash", "zsh", "fish"},
                                              .words = EBB_TAKES_SHELL,
                                              .least = 1,
                                              .most = 1,
                                              .run = run};
