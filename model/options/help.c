#include <stdio.h>
#include <string.h>

#include "model/options/help.h"
#include "model/options/flags.h"

enum { LEFT = 26 /* columns of a flag and its unit */ };

static void print_flag(const flag_t *flag)
{
    char left[64];
    int length = snprintf(left, sizeof left, "--%s %s", flag->name, flag->unit);
    printf("  %-*s", LEFT, left);
    if (length > LEFT)
        printf("\n  %*s", LEFT, "");
    printf(" %s", flag->help);
    if (flag->type != FLAG_SWITCH)
        printf(" (default %s%s)",
               flag->initial == NULL      ? "none"
               : flag->initial[0] == '\0' ? "empty"
                                          : flag->initial,
               flag->use == OF_PRESET ? ", or the preset's" : "");
    putchar('\n');
}

static void print_flags(command_t command)
{
    const char *group = "";
    for (size_t i = 0; i < flag_count; i++) {
        const flag_t *flag = &flag_table[i];
        if (!flag_is_of(flag, command))
            continue;
        if (strcmp(flag->group, group) != 0)
            printf("\n%s\n", flag->group);
        group = flag->group;
        print_flag(flag);
    }
}

void help_print(command_t command)
{
    if (command == COMMAND_GENERATE)
        puts("ebb-train generate: samples text from a checkpoint, without data. Only the text goes to "
             "stdout.\n\n"
             "usage: ebb-train generate --checkpoint FOLDER [--flag VALUE | --flag=VALUE]...");
    else
        puts("ebb-train: trains a transformer, GPT-2 or Llama, on text or tokens, on a CUDA device.\n\n"
             "usage: ebb-train --data FILES [--flag VALUE | --flag=VALUE]...\n"
             "       ebb-train generate --checkpoint FOLDER ...     sample text from what was trained\n"
             "       ebb-train help generate                        its flags");
    print_flags(command);
    puts("\nExit codes: 0 done, 1 the device or the training failed, 2 bad flags or bad input.");
    if (command == COMMAND_TRAIN)
        puts("Ctrl-C ends the training after the current step, SIGTERM too: the state is saved "
             "(--checkpoint). "
             "After Ctrl-C\n"
             "evaluation and sample still follow.");
}
