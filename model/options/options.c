#include "model/options/options.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/base/check.h"
#include "model/kernels/dtype.h"
#include "model/kernels/kernels.h"
#include "model/options/flags.h"
#include "model/options/help.h"
#include "model/options/presets.h"

static double parse_number(const flag_t *flag, const char *text)
{
    char *end;
    errno = 0;
    double value = strtod(text, &end);
    bool whole = flag->type != FLAG_COUNT || floor(value) == value;
    if (end == text || *end != '\0' || !isfinite(value) || !whole)
        usage_error("--%s %s: not a %snumber", flag->name, text, flag->type == FLAG_COUNT ? "whole " : "");
    if (value < flag->least || value > flag->most)
        usage_error("--%s %s: must be between %g and %.10g", flag->name, text, flag->least, flag->most);
    return value;
}

static uint64_t parse_seed(const flag_t *flag, const char *text)
{
    char *end;
    errno = 0;
    unsigned long long value = strtoull(text, &end, 0);
    if (end == text || *end != '\0' || errno == ERANGE || strchr(text, '-') != NULL)
        usage_error("--%s %s: not a whole number between 0 and 2^64 - 1", flag->name, text);
    return value;
}

static void set_flag(options_t *options, const flag_t *flag, const char *text)
{
    char *field = (char *)options + flag->field;
    switch (flag->type) {
    case FLAG_TEXT:
    case FLAG_OPTIONAL:
        *(const char **)field = text;
        break;
    case FLAG_COUNT:
        *(int *)field = (int)parse_number(flag, text);
        break;
    case FLAG_REAL:
        *(double *)field = parse_number(flag, text);
        break;
    case FLAG_SEED:
        *(uint64_t *)field = parse_seed(flag, text);
        break;
    case FLAG_CHOICE:
        *(int *)field = flag_choice(flag->unit, text);
        if (*(int *)field < 0)
            usage_error("--%s %s: must be one of %s", flag->name, text, flag->unit);
        break;
    case FLAG_SWITCH:
        *(int *)field = text[0] == '1';
        break;
    }
}

/* "ebb-train" and "ebb-train generate": whose --help lists a command's flags. */
static const char *program_of(command_t command)
{
    return command == COMMAND_GENERATE ? "ebb-train generate" : "ebb-train";
}

/* The flag that `argument` ("--name" or "--name=value") names; *value is what follows '=', or NULL. */
static const flag_t *find_flag(command_t command, const char *argument, const char **value)
{
    if (strcmp(argument, "-h") == 0)
        argument = "--help";
    if (strncmp(argument, "--", 2) != 0)
        usage_error("%s: %sflags start with --; see %s --help", argument,
                    command == COMMAND_TRAIN ? "commands are generate and help, " : "", program_of(command));
    char name[64];
    size_t length = strcspn(argument + 2, "=");
    snprintf(name, sizeof name, "%.*s", (int)(length < sizeof name ? length : sizeof name - 1), argument + 2);
    *value = argument[2 + length] == '=' ? argument + 2 + length + 1 : NULL;
    const flag_t *flag = flag_find(command, name);
    if (flag != NULL)
        return flag;
    if (command == COMMAND_GENERATE && flag_find(COMMAND_TRAIN, name) != NULL)
        usage_error("--%s is a flag of a training: ebb-train generate --help lists those of generate", name);
    const char *nearest = options_nearest(command, name);
    if (nearest != NULL)
        usage_error("unknown flag --%s: did you mean --%s? (%s --help lists all)", name, nearest,
                    program_of(command));
    usage_error("unknown flag --%s: %s --help lists all", name, program_of(command));
}

void options_check_shape(const options_t *o)
{
    if (o->width % o->heads != 0)
        usage_error("--width %d is not a multiple of --heads %d: each head needs width / heads channels",
                    o->width, o->heads);
    if (o->width % 4 != 0)
        usage_error("--width %d is not a multiple of 4", o->width);
    if (o->width / o->heads > ATTENTION_HEAD_MAX)
        usage_error(
            "--width %d over --heads %d makes heads of %d channels: at most %d are possible, use more heads",
            o->width, o->heads, o->width / o->heads, ATTENTION_HEAD_MAX);
    int kv_heads = o->kv_heads > 0 ? o->kv_heads : o->heads;
    if (o->heads % kv_heads != 0)
        usage_error("--heads %d is not a multiple of --kv-heads %d", o->heads, kv_heads);
    if (o->width / o->heads % 2 != 0 && (o->family == FAMILY_LLAMA || kv_heads != o->heads))
        usage_error(
            "--width %d over --heads %d makes heads of %d channels: rotary positions and shared keys need an "
            "even number",
            o->width, o->heads, o->width / o->heads);
    if (o->hidden % 4 != 0)
        usage_error("--hidden %d is not a multiple of 4", o->hidden);
    if (o->dtype == DTYPE_BF16 && (o->width / o->heads % 8 != 0 || o->hidden % 8 != 0))
        usage_error(
            "--dtype bf16 needs heads (--width %d over --heads %d) and a --hidden %d that are multiples of 8",
            o->width, o->heads, o->hidden);
    if ((int64_t)o->batch * o->context > INT_MAX / 4 || (int64_t)o->batch * o->heads > INT_MAX / 4)
        usage_error("--batch %d x --context %d is too large: use a smaller batch and --accumulate", o->batch,
                    o->context);
}

static void check_data(const options_t *o)
{
    if (!o->pack && o->graph)
        usage_error("--graph: a step that is captured has one size, with --pack no it has many");
    if (o->pack && o->document_end >= 0)
        usage_error("--document-end %d: for --pack no", o->document_end);
}

static void check_ranks(const options_t *o)
{
    if (o->compress && o->zero > 0)
        usage_error("--compress: without shards only, --zero %d has them", o->zero);
    if (o->compress && o->skip_outliers > 0)
        usage_error(
            "--compress: what is left of a step that --skip-outliers skips would be sent with the next ones");
}

static void check_adapters(const options_t *o)
{
    int length;
    const char *bad = o->lora_targets != NULL ? layout_bad_target(o->family, o->lora_targets, &length) : NULL;
    if (bad != NULL)
        usage_error("--lora-targets: \"%.*s\" is no matrix of a %s block", length, bad,
                    o->family == FAMILY_LLAMA ? "Llama" : "GPT-2");
    if (o->lora != NULL && (o->lora_rank > 0 || o->lora_alpha > 0 || o->lora_targets != NULL))
        usage_error("--lora %s: it says itself what rank, alpha and targets are", o->lora);
    if (o->lora == NULL && o->lora_rank == 0 && (o->lora_alpha > 0 || o->lora_targets != NULL))
        usage_error("--lora-rank N is missing: without it there are no adapters");
    if ((o->lora != NULL || o->lora_rank > 0) && o->compress)
        usage_error("--compress: adapters' gradients are small already");
}

static void check_checkpoints(const options_t *o)
{
    if (o->checkpoint == NULL && o->checkpoint_every > 0)
        usage_error("--checkpoint-every %d: --checkpoint FOLDER must say where", o->checkpoint_every);
    if (o->checkpoint == NULL && o->resume != NULL && o->resume[0] == '\0')
        usage_error("--resume: give it a folder, or give --checkpoint FOLDER");
}

/* The last --model on the command line counts, wherever it stands; flags of their own beat it. */
static void parse_flags(options_t *options, int count, char **words, bool only_model)
{
    for (int i = 0; i < count; i++) {
        const char *value;
        const flag_t *flag = find_flag(options->command, words[i], &value);
        bool more = i + 1 < count && strncmp(words[i + 1], "--", 2) != 0;
        if (flag->type == FLAG_SWITCH)
            value = value != NULL ? value : "1";
        else if (flag->type == FLAG_OPTIONAL && value == NULL)
            value = more ? words[++i] : "";
        else if (value == NULL && i + 1 < count)
            value = words[++i];
        if (value == NULL)
            usage_error("--%s needs a value: %s", flag->name, flag->help);
        if ((flag->field == offsetof(options_t, model)) == only_model)
            set_flag(options, flag, value);
    }
}

/* Takes the words `help` and `generate` from the front of argv; how many words these and the program's name are. */
static int parse_command(options_t *options, int argc, char **argv)
{
    int taken = 1;
    if (argc > taken && strcmp(argv[taken], "help") == 0) {
        options->help = 1;
        taken++;
    }
    if (argc > taken && strcmp(argv[taken], "generate") == 0) {
        options->command = COMMAND_GENERATE;
        taken++;
    }
    return taken;
}

static void check(const options_t *options)
{
    if (options->command == COMMAND_GENERATE) {
        if (options->checkpoint == NULL)
            usage_error(
                "generate needs --checkpoint FOLDER: the model to sample from (ebb-train generate --help "
                "lists all flags)");
        return; /* the shape is the checkpoint's */
    }
    if (options->data == NULL && !options->dry_run)
        usage_error(
            "--data FILES is missing: a text or token shards to train on (ebb-train --help lists all flags)");
    options_check_shape(options);
    check_adapters(options);
    check_checkpoints(options);
    check_data(options);
    check_ranks(options);
}

void options_parse(options_t *options, int argc, char **argv)
{
    *options = (options_t){0};
    for (size_t i = 0; i < flag_count; i++)
        if (flag_table[i].initial != NULL)
            set_flag(options, &flag_table[i], flag_table[i].initial);
    int taken = parse_command(options, argc, argv);
    parse_flags(options, argc - taken, argv + taken, true);
    preset_apply(options, options->model);
    parse_flags(options, argc - taken, argv + taken, false);
    if (options->help) {
        help_print(options->command);
        exit(0);
    }
    if (options->version) {
        puts("ebb-train " EBB_VERSION);
        exit(0);
    }
    check(options);
}

void options_set_shape(options_t *options, const shape_t *shape)
{
    options->family = shape->family;
    options->layers = shape->layers;
    options->width = shape->width;
    options->heads = shape->heads;
    options->kv_heads = shape->kv_heads;
    options->hidden = shape->hidden;
    options->context = shape->context;
    options->vocab = shape->vocab;
    options->tied = shape->tied;
    options->norm_eps = shape->norm_eps;
    options->rope_theta = shape->rope_theta;
    options->rope_factor = shape->rope_factor;
}

shape_t options_shape(const options_t *o)
{
    return (shape_t){.family = o->family,
                     .layers = o->layers,
                     .width = o->width,
                     .heads = o->heads,
                     .kv_heads = o->kv_heads > 0 ? o->kv_heads : o->heads,
                     .hidden = o->hidden > 0 ? o->hidden : 4 * o->width,
                     .context = o->context,
                     .vocab = o->vocab,
                     .tied = o->tied,
                     .norm_eps = o->norm_eps,
                     .rope_theta = o->rope_theta,
                     .rope_factor = o->rope_factor};
}

lora_t options_lora(const options_t *o)
{
    return (lora_t){.rank = o->lora_rank,
                    .alpha = o->lora_alpha > 0 ? o->lora_alpha : 2.0 * o->lora_rank,
                    .targets = o->lora_targets};
}
