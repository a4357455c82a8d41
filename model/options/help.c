#include <stdio.h>
#include <string.h>

#include "model/options/help.h"
#include "model/options/flags.h"

enum { LEFT = 26 /* columns of a flag and its unit */ };

void help_print(void)
{
    puts("ebb-train: trains a transformer, GPT-2 or Llama, on text or tokens, on a CUDA device.\n\n"
         "usage: ebb-train --data FILES [--flag VALUE | --flag=VALUE]...");
    for (size_t i = 0; i < flag_count; i++) {
        const flag_t *flag = &flag_table[i];
        if (i == 0 || strcmp(flag->group, flag_table[i - 1].group) != 0)
            printf("\n%s\n", flag->group);
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
                   flag->from_preset ? ", or the preset's" : "");
        putchar('\n');
    }
    puts("\nExit codes: 0 done, 1 the device or the training failed, 2 bad flags or bad input.\n"
         "Ctrl-C ends the training after the current step, SIGTERM too: the state is saved (--checkpoint). "
         "After Ctrl-C\n"
         "evaluation and sample still follow.");
}
