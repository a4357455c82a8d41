/* man.c: prints the manual page ebb-train(1) in man(7)'s language, its options from the table of flags. Runs when the
 * trainer is built. */
#include <stdio.h>
#include <string.h>

#include "model/options/flags.h"

/* Text in roff: hyphens that can be copied, no control lines, no escapes. */
static void put(const char *text)
{
    if (*text == '.' || *text == '\'')
        fputs("\\&", stdout);
    for (; *text != '\0'; text++)
        if (*text == '-')
            fputs("\\-", stdout);
        else if (*text == '\\')
            fputs("\\e", stdout);
        else
            putchar(*text);
}

static void put_flag(const flag_t *flag)
{
    fputs(".TP\n.B ", stdout);
    put("--");
    put(flag->name);
    if (flag->unit[0] != '\0') {
        fputs(" \\fI", stdout);
        put(flag->unit);
        fputs("\\fR", stdout);
    }
    putchar('\n');
    put(flag->help);
    puts(".");
    if (flag->type == FLAG_COUNT || flag->type == FLAG_REAL)
        printf("From %g to %.10g.\n", flag->least, flag->most);
    if (flag->initial != NULL && flag->initial[0] != '\0' && flag->type != FLAG_SWITCH) {
        fputs("Default: ", stdout);
        put(flag->initial);
        puts(flag->use == OF_PRESET ? ", or the preset's." : ".");
    }
}

static void put_flags(command_t command)
{
    const char *group = "";
    for (size_t i = 0; i < flag_count; i++) {
        if (!flag_is_of(&flag_table[i], command))
            continue;
        if (strcmp(flag_table[i].group, group) != 0)
            printf(".SS %s\n", flag_table[i].group);
        group = flag_table[i].group;
        put_flag(&flag_table[i]);
    }
}

int main(void)
{
    puts(
        ".TH EBB\\-TRAIN 1 \"\" \"ebb\" \"User Commands\"\n"
        ".SH NAME\nebb\\-train \\- trains a transformer on a CUDA device\n"
        ".SH SYNOPSIS\n.B ebb\\-train\n\\fB\\-\\-data\\fR \\fIFILES\\fR [\\fB\\-\\-flag\\fR "
        "\\fIVALUE\\fR]...\n.br\n"
        ".B ebb\\-train\n\\fB\\-\\-dry\\-run\\fR [\\fB\\-\\-flag\\fR \\fIVALUE\\fR]...\n.br\n"
        ".B ebb\\-train generate\n\\fB\\-\\-checkpoint\\fR \\fIFOLDER\\fR [\\fB\\-\\-flag\\fR "
        "\\fIVALUE\\fR]...\n"
        ".SH DESCRIPTION\nTrains a model of the GPT\\-2 or the Llama family on a text, byte by byte, or on "
        "token shards in "
        "llm.c's format.\nTwo runs with the same flags compute the same bits.\n"
        "A step's loss, gradient norm, learning rate, time, the share of the device's peak rate that it "
        "makes "
        "use of (on devices whose rate is known), tokens per second, memory and the time left are shown as "
        "it "
        "goes, and logged.\n"
        "A terminal has one line, rewritten in place, and as many of these as fit. Elsewhere each step has a "
        "line.\n"
        ".PP\n.B generate\nsamples text from a checkpoint, without data.\nThe shape is that of its "
        "config.json, "
        "its type that of the weights there: bf16, or else fp32.\nOnly the text goes to standard output.");
    puts(".SH OPTIONS\nA flag takes its value from the next argument, or from behind an equals sign.");
    put_flags(COMMAND_TRAIN);
    puts(".SH OPTIONS OF GENERATE");
    put_flags(COMMAND_GENERATE);
    puts(".SH SIGNALS\nSIGINT and SIGTERM end the training after the current step; the state is saved "
         "(\\fB\\-\\-checkpoint\\fR).\nAfter SIGINT evaluation and sample still follow; a second one ends "
         "the program at "
         "once.\n"
         ".SH EXIT STATUS\n0: done.\n1: the device or the training failed.\n2: bad flags or bad input.\n"
         ".SH EXAMPLES\n.nf\n"
         "ebb\\-train \\-\\-data my.txt \\-\\-layers 6 \\-\\-width 256 \\-\\-heads 8 \\-\\-plot run.svg\n"
         "ebb\\-train \\-\\-data \\(aqshards/*.bin\\(aq \\-\\-model gpt2:124M \\-\\-dtype bf16 "
         "\\-\\-checkpoint run1 "
         "\\-\\-resume\n"
         "ebb\\-train \\-\\-dry\\-run \\-\\-model llama:8B \\-\\-dtype bf16 \\-\\-save lean\n"
         "ebb\\-train generate \\-\\-checkpoint run1 \\-\\-prompt \\(aqIn the beginning\\(aq \\-\\-sample "
         "500\n"
         ".fi\n.SH SEE ALSO\n.BR ebb (1)");
    return ferror(stdout) != 0;
}
