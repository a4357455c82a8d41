#include "options.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "dtype.h"
#include "kernels.h"

typedef struct preset {
    const char *name;
    shape_t shape;
    int batch;
    double rate;
} preset_t;

#define GPT2(L, C, H, T, V)                                                                                  \
    {                                                                                                        \
        .family = FAMILY_GPT2, .layers = L, .width = C, .heads = H, .context = T, .vocab = V, .tied = true,  \
        .norm_eps = 1e-5, .rope_theta = 1e4, .rope_factor = 1                                                \
    }
#define LLAMA(L, C, H, KV, F, T, V, TIED, THETA, FACTOR)                                                     \
    {                                                                                                        \
        .family = FAMILY_LLAMA, .layers = L, .width = C, .heads = H, .kv_heads = KV, .hidden = F,            \
        .context = T, .vocab = V, .tied = TIED, .norm_eps = 1e-5, .rope_theta = THETA, .rope_factor = FACTOR \
    }

/* tiny, the default, comes first.
 *
 * GPT-2's shapes: Radford et al., "Language models are unsupervised multitask learners", 2019; their rates: Brown et al.,
 * arXiv:2005.14165, table 2.1. Llama's shapes and rates: 7B is Llama 2's (Touvron et al., arXiv:2307.09288), 8B
 * Llama 3.1's (Grattafiori et al., arXiv:2407.21783), 1B Llama 3.2's (the published configuration; its rate is 8B's);
 * contexts are those of the pre-training. */
static const preset_t presets[] = {
    {"tiny", GPT2(3, 128, 4, 64, 256), 16, 4e-3},
    {"gpt2:124M", GPT2(12, 768, 12, 1024, 50257), 4, 6e-4},
    {"gpt2:355M", GPT2(24, 1024, 16, 1024, 50257), 4, 3e-4},
    {"gpt2:774M", GPT2(36, 1280, 20, 1024, 50257), 4, 2.5e-4},
    {"gpt2:1558M", GPT2(48, 1600, 25, 1024, 50257), 4, 2e-4},
    {"llama:tiny", LLAMA(3, 128, 4, 2, 352, 64, 256, false, 1e4, 1), 16, 4e-3},
    {"llama:1B", LLAMA(16, 2048, 32, 8, 8192, 8192, 128256, true, 5e5, 32), 1, 3e-4},
    {"llama:7B", LLAMA(32, 4096, 32, 32, 11008, 4096, 32000, false, 1e4, 1), 1, 3e-4},
    {"llama:8B", LLAMA(32, 4096, 32, 8, 14336, 8192, 128256, false, 5e5, 8), 1, 3e-4},
};
#define PRESET_COUNT (sizeof presets / sizeof *presets)
#define PRESETS      "tiny, gpt2:124M, gpt2:355M, gpt2:774M, gpt2:1558M, llama:tiny, llama:1B, llama:7B, llama:8B"

typedef enum flag_type {
    FLAG_COUNT,
    FLAG_REAL,
    FLAG_SEED,
    FLAG_TEXT,
    FLAG_OPTIONAL,
    FLAG_CHOICE,
    FLAG_SWITCH
} flag_type_t;

typedef struct flag {
    const char *group, *name;
    flag_type_t type;
    size_t field;
    const char *initial; /* default, as text; NULL: none */
    double least, most;  /* of numbers */
    const char *unit;    /* what the value is, for --help; of a choice: the words, separated by '|' */
    const char *help;
    bool from_preset; /* --model sets it too */
} flag_t;

#define FIELD(name) offsetof(options_t, name)

static const flag_t flags[] = {
    {"Data", "data", FLAG_TEXT, FIELD(data), NULL, 0, 0, "FILES",
     "a text to train on, or token shards, by name or quoted pattern", false},
    {"Data", "data-kind", FLAG_CHOICE, FIELD(data_kind), "auto", 0, 0, "auto|text|tokens",
     "what they are; auto looks at their beginning", false},
    {"Data", "eval-data", FLAG_TEXT, FIELD(eval_data), NULL, 0, 0, "FILES",
     "held-out data; without it the last 5% of --data are", false},
    {"Data", "tokenizer", FLAG_TEXT, FIELD(tokenizer), NULL, 0, 0, "FILE",
     "tokens' texts, for samples after training on shards", false},
    {"Data", "seed", FLAG_SEED, FIELD(seed), "1", 0, 0, "N", "of weights, batches, dropout and samples",
     false},

    {"Model", "model", FLAG_TEXT, FIELD(model), "tiny", 0, 0, "NAME", "preset: " PRESETS, false},
    {"Model", "layers", FLAG_COUNT, FIELD(layers), "3", 1, 10000, "N", "transformer blocks", true},
    {"Model", "width", FLAG_COUNT, FIELD(width), "128", 4, 1 << 20, "N",
     "channels, a multiple of 4 and of --heads", true},
    {"Model", "heads", FLAG_COUNT, FIELD(heads), "4", 1, 1 << 16, "N", "attention heads", true},
    {"Model", "kv-heads", FLAG_COUNT, FIELD(kv_heads), "0", 0, 1 << 16, "N",
     "heads of keys and values, which divide --heads; 0: as many", true},
    {"Model", "hidden", FLAG_COUNT, FIELD(hidden), "0", 0, 1 << 22, "N",
     "channels inside the MLP, a multiple of 4; 0: four times --width", true},
    {"Model", "context", FLAG_COUNT, FIELD(context), "64", 1, 1 << 20, "TOKENS",
     "tokens that the model sees at once", true},
    {"Model", "vocab", FLAG_COUNT, FIELD(vocab), "256", 2, 1 << 24, "CLASSES", "of tokens, 256 for a text",
     true},
    {"Model", "tied", FLAG_CHOICE, FIELD(tied), "yes", 0, 0, "no|yes",
     "the head is the token embedding's matrix", true},
    {"Model", "norm-eps", FLAG_REAL, FIELD(norm_eps), "1e-5", 1e-12, 1, "X", "added to a row's variance",
     true},
    {"Model", "rope-theta", FLAG_REAL, FIELD(rope_theta), "10000", 1, 1e12, "X",
     "Llama: base of the rotary positions", true},
    {"Model", "rope-factor", FLAG_REAL, FIELD(rope_factor), "1", 1, 1e6, "X",
     "Llama: how much longer the long waves are, as in Llama 3.1; 1: not at all", true},
    {"Model", "dtype", FLAG_CHOICE, FIELD(dtype), "fp32", 0, 0, "fp32|bf16",
     "of activations and of the weights computed with; masters are fp32", false},
    {"Model", "rounding", FLAG_CHOICE, FIELD(rounding), "nearest", 0, 0, "nearest|stochastic",
     "of the masters to bf16 weights; stochastic: by --seed", false},
    {"Model", "attention", FLAG_CHOICE, FIELD(attention), "flash", 0, 0, "flash|naive",
     "flash never stores context x context, naive does", false},
    {"Model", "save", FLAG_CHOICE, FIELD(save), "full", 0, 0, "full|lean",
     "for the backward pass; lean makes norms, queries, keys, values and GELU again", false},
    {"Model", "dropout", FLAG_REAL, FIELD(dropout), "0", 0, 0.95, "RATE",
     "share of embeddings, attention weights and block outputs dropped", false},

    {"Training", "steps", FLAG_COUNT, FIELD(steps), "2300", 0, INT_MAX, "STEPS", "optimizer steps", false},
    {"Training", "batch", FLAG_COUNT, FIELD(batch), "16", 1, 1 << 20, "SEQUENCES",
     "sequences in a micro-batch", true},
    {"Training", "accumulate", FLAG_COUNT, FIELD(accumulate), "1", 1, 1 << 16, "N", "micro-batches in a step",
     false},
    {"Training", "lr", FLAG_REAL, FIELD(rate), "0.004", 0, 1e3, "RATE", "learning rate at its highest", true},
    {"Training", "warmup", FLAG_REAL, FIELD(warmup), "0.04", 0, 1, "SHARE",
     "of the steps, with the rate rising", false},
    {"Training", "lr-final", FLAG_REAL, FIELD(final_rate), "0.05", 0, 1, "SHARE",
     "of --lr that the schedule ends at", false},
    {"Training", "schedule", FLAG_CHOICE, FIELD(schedule), "cosine", 0, 0, "cosine|constant|linear|wsd",
     "of the rate after the warm-up; wsd stays, then falls in the cooldown", false},
    {"Training", "cooldown", FLAG_REAL, FIELD(cooldown), "0.2", 0, 1, "SHARE", "of the steps, wsd's fall",
     false},
    {"Training", "beta1", FLAG_REAL, FIELD(beta1), "0.9", 0, 0.9999999, "X",
     "AdamW: decay of the first moment", false},
    {"Training", "beta2", FLAG_REAL, FIELD(beta2), "0.95", 0, 0.9999999, "X",
     "AdamW: decay of the second moment", false},
    {"Training", "eps", FLAG_REAL, FIELD(eps), "1e-8", 1e-30, 1, "X",
     "AdamW: added to the root of the second moment", false},
    {"Training", "decay", FLAG_REAL, FIELD(decay), "0.1", 0, 1e3, "X", "AdamW: weight decay of the matrices",
     false},
    {"Training", "decay-embeddings", FLAG_REAL, FIELD(decay_embeddings), "-1", -1, 1e3, "X",
     "of embeddings, positions and head, -1: as --decay", false},
    {"Training", "clip", FLAG_REAL, FIELD(clip), "1", 0, 1e30, "NORM", "longest gradient, 0: no limit",
     false},
    {"Training", "skip-outliers", FLAG_REAL, FIELD(skip_outliers), "0", 0, 1e3, "DEVIATIONS",
     "skip steps whose loss or gradient norm is so far above the last 128's mean; 0: none", false},

    {"Evaluation and samples", "eval-every", FLAG_COUNT, FIELD(eval_every), "0", 0, INT_MAX, "STEPS",
     "held-out loss every so many steps, 0: only at the end", false},
    {"Evaluation and samples", "eval-batches", FLAG_COUNT, FIELD(eval_batches), "20", 1, INT_MAX, "N",
     "batches of such an evaluation; the one at the end takes all", false},
    {"Evaluation and samples", "choices", FLAG_TEXT, FIELD(choices), NULL, 0, 0, "FILE",
     "multiple-choice questions (HellaSwag) to answer at the end", false},
    {"Evaluation and samples", "choices-most", FLAG_COUNT, FIELD(choices_most), "0", 0, INT_MAX, "N",
     "of them, from the first on; 0: all", false},
    {"Evaluation and samples", "sample", FLAG_COUNT, FIELD(sample), "300", 0, 1 << 24, "TOKENS",
     "text generated at the end; of a text's tokens, bytes", false},
    {"Evaluation and samples", "temperature", FLAG_REAL, FIELD(temperature), "0.8", 0, 1e3, "X",
     "of the sample, 0: always the likeliest token", false},
    {"Evaluation and samples", "top-k", FLAG_COUNT, FIELD(top_k), "0", 0, 1 << 24, "N",
     "sample among the N likeliest tokens, 0: among all", false},
    {"Evaluation and samples", "prompt", FLAG_TEXT, FIELD(prompt), "", 0, 0, "TEXT",
     "that the sample continues (if empty: a new line, or the end of a text)", false},

    {"Checkpoints", "checkpoint", FLAG_TEXT, FIELD(checkpoint), NULL, 0, 0, "FOLDER",
     "keep the training's state there, at the end and when it is interrupted", false},
    {"Checkpoints", "checkpoint-every", FLAG_COUNT, FIELD(checkpoint_every), "0", 0, INT_MAX, "STEPS",
     "and every so many steps, 0: not", false},
    {"Checkpoints", "keep", FLAG_COUNT, FIELD(keep), "2", 0, INT_MAX, "N", "of them, the latest; 0: all",
     false},
    {"Checkpoints", "resume", FLAG_OPTIONAL, FIELD(resume), NULL, 0, 0, "[FOLDER]",
     "go on from this checkpoint, or the newest in this folder, or in --checkpoint's, if any", false},
    {"Checkpoints", "init", FLAG_TEXT, FIELD(init), NULL, 0, 0, "FILE",
     "start with these weights: safetensors, or a folder with them", false},

    {"Output and device", "log", FLAG_TEXT, FIELD(log), NULL, 0, 0, "FILE",
     "JSON lines: options, steps, evaluations", false},
    {"Output and device", "dump", FLAG_TEXT, FIELD(dump), NULL, 0, 0, "FILE",
     "weights and moments at the end, raw (parameters.h)", false},
    {"Output and device", "device", FLAG_COUNT, FIELD(device), "0", 0, 1 << 16, "N",
     "number of the CUDA device", false},
    {"Output and device", "help", FLAG_SWITCH, FIELD(help), "0", 0, 0, "", "this text", false},
};
#define FLAG_TOTAL (sizeof flags / sizeof *flags)

static const char *const *text_of(const flag_t *flag, const options_t *options)
{
    return (const char *const *)((const char *)options + flag->field);
}

static int int_of(const flag_t *flag, const options_t *options)
{
    return *(const int *)((const char *)options + flag->field);
}

static double real_of(const flag_t *flag, const options_t *options)
{
    return *(const double *)((const char *)options + flag->field);
}

static uint64_t seed_of(const flag_t *flag, const options_t *options)
{
    return *(const uint64_t *)((const char *)options + flag->field);
}

static int smallest(int a, int b)
{
    return a < b ? a : b;
}

/* Insertions, deletions and substitutions that turn a into b (Wagner, Fischer, 1974). */
static int edit_distance(const char *a, const char *b)
{
    int row[64];
    int length = smallest((int)strlen(b), 63);
    for (int j = 0; j <= length; j++)
        row[j] = j;
    for (int i = 1; a[i - 1]; i++) {
        int diagonal = row[0];
        row[0] = i;
        for (int j = 1; j <= length; j++) {
            int replaced = diagonal + (a[i - 1] != b[j - 1]);
            diagonal = row[j];
            row[j] = smallest(replaced, smallest(row[j], row[j - 1]) + 1);
        }
    }
    return row[length];
}

const char *options_nearest(const char *name)
{
    const char *nearest = NULL;
    int limit = (int)strlen(name) / 2 + 1; /* more than half of it wrong: no resemblance */
    for (size_t i = 0; i < FLAG_TOTAL; i++) {
        int distance = edit_distance(name, flags[i].name);
        if (distance < limit) {
            limit = distance;
            nearest = flags[i].name;
        }
    }
    return nearest;
}

/* The place of `word` among `words`, separated by '|', or -1. */
static int choice_index(const char *words, const char *word)
{
    size_t length = strlen(word);
    for (int index = 0;; index++) {
        size_t next = strcspn(words, "|");
        if (next == length && strncmp(words, word, length) == 0)
            return index;
        if (words[next] == '\0')
            return -1;
        words += next + 1;
    }
}

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
        *(int *)field = choice_index(flag->unit, text);
        if (*(int *)field < 0)
            usage_error("--%s %s: must be one of %s", flag->name, text, flag->unit);
        break;
    case FLAG_SWITCH:
        *(int *)field = text[0] == '1';
        break;
    }
}

static const preset_t *find_preset(const char *name)
{
    for (size_t i = 0; i < PRESET_COUNT; i++)
        if (strcmp(presets[i].name, name) == 0)
            return &presets[i];
    usage_error("--model %s: no such preset; there are " PRESETS, name);
}

static void apply_preset(options_t *options, const preset_t *preset)
{
    options->family = preset->shape.family;
    options->kv_heads = preset->shape.kv_heads;
    options->hidden = preset->shape.hidden;
    options->tied = preset->shape.tied;
    options->norm_eps = preset->shape.norm_eps;
    options->rope_theta = preset->shape.rope_theta;
    options->rope_factor = preset->shape.rope_factor;
    options->layers = preset->shape.layers;
    options->width = preset->shape.width;
    options->heads = preset->shape.heads;
    options->context = preset->shape.context;
    options->vocab = preset->shape.vocab;
    options->batch = preset->batch;
    options->rate = preset->rate;
}

/* The flag that `argument` ("--name" or "--name=value") names; *value is what follows '=', or NULL. */
static const flag_t *find_flag(const char *argument, const char **value)
{
    if (strcmp(argument, "-h") == 0)
        argument = "--help";
    if (strncmp(argument, "--", 2) != 0)
        usage_error("%s: flags start with --; see ebb-train --help", argument);
    char name[64];
    size_t length = strcspn(argument + 2, "=");
    snprintf(name, sizeof name, "%.*s", (int)(length < sizeof name ? length : sizeof name - 1), argument + 2);
    *value = argument[2 + length] == '=' ? argument + 2 + length + 1 : NULL;
    for (size_t i = 0; i < FLAG_TOTAL; i++)
        if (strcmp(flags[i].name, name) == 0)
            return &flags[i];
    const char *nearest = options_nearest(name);
    if (nearest != NULL)
        usage_error("unknown flag --%s: did you mean --%s? (ebb-train --help lists all)", name, nearest);
    usage_error("unknown flag --%s: ebb-train --help lists all", name);
}

static void print_help(void)
{
    puts("ebb-train: trains a transformer, GPT-2 or Llama, on text or tokens, on a CUDA device.\n\n"
         "usage: ebb-train --data FILES [--flag VALUE | --flag=VALUE]...");
    for (size_t i = 0; i < FLAG_TOTAL; i++) {
        const flag_t *flag = &flags[i];
        if (i == 0 || strcmp(flag->group, flags[i - 1].group) != 0)
            printf("\n%s\n", flag->group);
        char left[64];
        snprintf(left, sizeof left, "--%s %s", flag->name, flag->unit);
        printf("  %-26s %s", left, flag->help);
        if (flag->initial != NULL && flag->initial[0] != '\0' && flag->type != FLAG_SWITCH)
            printf(" (default %s%s)", flag->initial, flag->from_preset ? ", or the preset's" : "");
        putchar('\n');
    }
    puts("\nExit codes: 0 done, 1 the device or the training failed, 2 bad flags or bad input.\n"
         "Ctrl-C ends the training after the current step, SIGTERM too: the state is saved (--checkpoint). "
         "After Ctrl-C\n"
         "evaluation and sample still follow.");
}

static void check_shape(const options_t *o)
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

static void check_checkpoints(const options_t *o)
{
    if (o->checkpoint == NULL && o->checkpoint_every > 0)
        usage_error("--checkpoint-every %d: --checkpoint FOLDER must say where", o->checkpoint_every);
    if (o->checkpoint == NULL && o->resume != NULL && o->resume[0] == '\0')
        usage_error("--resume: give it a folder, or give --checkpoint FOLDER");
}

/* The last --model on the command line counts, wherever it stands; flags of their own beat it. */
static void parse_arguments(options_t *options, int argc, char **argv, bool only_model)
{
    for (int i = 1; i < argc; i++) {
        const char *value;
        const flag_t *flag = find_flag(argv[i], &value);
        bool more = i + 1 < argc && strncmp(argv[i + 1], "--", 2) != 0;
        if (flag->type == FLAG_SWITCH)
            value = value != NULL ? value : "1";
        else if (flag->type == FLAG_OPTIONAL && value == NULL)
            value = more ? argv[++i] : "";
        else if (value == NULL && i + 1 < argc)
            value = argv[++i];
        if (value == NULL)
            usage_error("--%s needs a value: %s", flag->name, flag->help);
        if ((flag->field == FIELD(model)) == only_model)
            set_flag(options, flag, value);
    }
}

void options_parse(options_t *options, int argc, char **argv)
{
    *options = (options_t){0};
    for (size_t i = 0; i < FLAG_TOTAL; i++)
        if (flags[i].initial != NULL)
            set_flag(options, &flags[i], flags[i].initial);
    parse_arguments(options, argc, argv, true);
    apply_preset(options, find_preset(options->model));
    parse_arguments(options, argc, argv, false);
    if (options->help) {
        print_help();
        exit(0);
    }
    if (options->data == NULL)
        usage_error(
            "--data FILES is missing: a text or token shards to train on (ebb-train --help lists all flags)");
    check_shape(options);
    check_checkpoints(options);
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

void options_each(const options_t *options, options_visit_fn visit, void *context)
{
    for (size_t i = 0; i < FLAG_TOTAL; i++) {
        const flag_t *flag = &flags[i];
        char text[64];
        const char *word = flag->unit;
        switch (flag->type) {
        case FLAG_TEXT:
        case FLAG_OPTIONAL:
            visit(context, flag->name, *text_of(flag, options), false);
            break;
        case FLAG_COUNT:
            snprintf(text, sizeof text, "%d", int_of(flag, options));
            visit(context, flag->name, text, true);
            break;
        case FLAG_REAL:
            snprintf(text, sizeof text, "%.12g", real_of(flag, options));
            visit(context, flag->name, text, true);
            break;
        case FLAG_SEED:
            snprintf(text, sizeof text, "%llu", (unsigned long long)seed_of(flag, options));
            visit(context, flag->name, text, true);
            break;
        case FLAG_CHOICE:
            for (int skip = int_of(flag, options); skip > 0; skip--)
                word += strcspn(word, "|") + 1;
            snprintf(text, sizeof text, "%.*s", (int)strcspn(word, "|"), word);
            visit(context, flag->name, text, false);
            break;
        case FLAG_SWITCH:
            break;
        }
    }
}
