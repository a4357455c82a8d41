/* ebb: the command. Which command it is; each has a file of its own. */
#include <stdio.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/command.h"

int ebb_cli_fail(const char *what, const char *detail)
{
    fprintf(stderr, "ebb: %s%s%s\n", what, detail ? ": " : "", detail ? detail : "");
    return 2;
}

const char *ebb_cli_size(uint64_t bytes, char out[EBB_SIZE_ROOM])
{
    const bool large = bytes >= (uint64_t)10 << 30;
    snprintf(out, EBB_SIZE_ROOM, "%.1f %s", ebb_cli_mib(bytes) / (large ? 1024 : 1), large ? "GiB" : "MiB");
    return out;
}

static bool is_either(const char *word, const char *letter, const char *name)
{
    return !strcmp(word, letter) || !strcmp(word, name);
}

int main(int argc, char **argv)
{
    if (argc < 2)
        ebb_command_refuse(NULL, "a command is missing; 'ebb help' lists them");
    if (is_either(argv[1], "-h", "--help"))
        ebb_help_print_all();
    else if (is_either(argv[1], "-V", "--version"))
        puts("ebb " EBB_VERSION);
    else if (*argv[1] == '-')
        ebb_command_refuse_name(NULL, "flag", argv[1], argv[1][2] == 'v' ? "--version" : "--help");
    else
        return ebb_command_find(argv[1])->run(argc - 1, argv + 1);
    return 0;
}
