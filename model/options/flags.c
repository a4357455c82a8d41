#include "model/options/flags.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "model/options/presets.h"

#define FIELD(name) offsetof(options_t, name)

const flag_t flag_table[] = {
    {"Data", "data", FLAG_TEXT, FIELD(data), NULL, 0, 0, "FILES",
     "a text to train on, or token shards, by name or quoted pattern", OF_TRAINING},
    {"Data", "data-kind", FLAG_CHOICE, FIELD(data_kind), "auto", 0, 0, "auto|text|tokens",
     "what they are; auto looks at their beginning", OF_TRAINING},
    {"Data", "pack", FLAG_CHOICE, FIELD(pack), "yes", 0, 0, "no|yes",
     "train on sequences of --context tokens, whatever ends in them; no: on documents, padded to the longest "
     "in "
     "the micro-batch",
     OF_TRAINING},
    {"Data", "document-end", FLAG_COUNT, FIELD(document_end), "-1", -1, 1 << 24, "TOKEN",
     "that ends a document; -1: a new line in a text, else GPT-2's, 50256", OF_TRAINING},
    {"Data", "eval-data", FLAG_TEXT, FIELD(eval_data), NULL, 0, 0, "FILES",
     "held-out data; without it the last 5% of --data are", OF_TRAINING},
    {"Data", "tokenizer", FLAG_TEXT, FIELD(tokenizer), NULL, 0, 0, "FILE",
     "tokens' texts, for samples of models of shards' tokens", OF_BOTH},
    {"Data", "seed", FLAG_SEED, FIELD(seed), "1", 0, 0, "N", "of weights, batches, dropout and samples",
     OF_BOTH},

    {"Model", "model", FLAG_TEXT, FIELD(model), "tiny", 0, 0, "NAME", "preset: " PRESETS, OF_TRAINING},
    {"Model", "layers", FLAG_COUNT, FIELD(layers), "3", 1, 10000, "N", "transformer blocks", OF_PRESET},
    {"Model", "width", FLAG_COUNT, FIELD(width), "128", 4, 1 << 20, "N",
     "channels, a multiple of 4 and of --heads", OF_PRESET},
    {"Model", "heads", FLAG_COUNT, FIELD(heads), "4", 1, 1 << 16, "N", "attention heads", OF_PRESET},
    {"Model", "kv-heads", FLAG_COUNT, FIELD(kv_heads), "0", 0, 1 << 16, "N",
     "heads of keys and values, which divide --heads; 0: as many", OF_PRESET},
    {"Model", "hidden", FLAG_COUNT, FIELD(hidden), "0", 0, 1 << 22, "N",
     "channels inside the MLP, a multiple of 4; 0: four times --width", OF_PRESET},
    {"Model", "context", FLAG_COUNT, FIELD(context), "64", 1, 1 << 20, "TOKENS",
     "tokens that the model sees at once", OF_PRESET},
    {"Model", "vocab", FLAG_COUNT, FIELD(vocab), "256", 2, 1 << 24, "CLASSES", "of tokens, 256 for a text",
     OF_PRESET},
    {"Model", "tied", FLAG_CHOICE, FIELD(tied), "yes", 0, 0, "no|yes",
     "the head is the token embedding's matrix", OF_PRESET},
    {"Model", "norm-eps", FLAG_REAL, FIELD(norm_eps), "1e-5", 1e-12, 1, "X", "added to a row's variance",
     OF_PRESET},
    {"Model", "rope-theta", FLAG_REAL, FIELD(rope_theta), "10000", 1, 1e12, "X",
     "Llama: base of the rotary positions", OF_PRESET},
    {"Model", "rope-factor", FLAG_REAL, FIELD(rope_factor), "1", 1, 1e6, "X",
     "Llama: how much longer the long waves are, as in Llama 3.1; 1: not at all", OF_PRESET},
    {"Model", "dtype", FLAG_CHOICE, FIELD(dtype), "fp32", 0, 0, "fp32|bf16",
     "of activations and of the weights computed with; masters are fp32", OF_TRAINING},
    {"Model", "rounding", FLAG_CHOICE, FIELD(rounding), "nearest", 0, 0, "nearest|stochastic",
     "of the masters to bf16 weights; stochastic: by --seed", OF_TRAINING},
    {"Model", "attention", FLAG_CHOICE, FIELD(attention), "auto", 0, 0, "auto|flash|tensor|naive",
     "tensor: on tensor cores, in bf16, heads of 64 or 128 channels; auto: tensor where possible, else "
     "flash; naive stores context x context",
     OF_TRAINING},
    {"Model", "save", FLAG_CHOICE, FIELD(save), "full", 0, 0, "full|lean",
     "for the backward pass; lean makes norms, queries, keys, values and GELU again", OF_TRAINING},
    {"Model", "dropout", FLAG_REAL, FIELD(dropout), "0", 0, 0.95, "RATE",
     "share of embeddings, attention weights and block outputs dropped", OF_TRAINING},

    {"Adapters", "lora-rank", FLAG_COUNT, FIELD(lora_rank), "0", 0, 1 << 16, "N",
     "train low-rank adapters of this rank, and nothing else; 0: all weights", OF_TRAINING},
    {"Adapters", "lora-alpha", FLAG_REAL, FIELD(lora_alpha), "0", 0, 1e6, "X",
     "what adapters make is scaled by this over the rank; 0: twice the rank", OF_TRAINING},
    {"Adapters", "lora-targets", FLAG_TEXT, FIELD(lora_targets), NULL, 0, 0, "NAMES",
     "matrices that get adapters, by Hugging Face's names, between commas, or all-linear; without it q_proj "
     "and v_proj, or c_attn",
     OF_TRAINING},
    {"Adapters", "lora", FLAG_TEXT, FIELD(lora), NULL, 0, 0, "FOLDER",
     "adapters to begin or to generate with: a folder of PEFT's, or a checkpoint; it says rank, alpha and "
     "targets",
     OF_BOTH},

    {"Training", "steps", FLAG_COUNT, FIELD(steps), "2300", 0, INT_MAX, "STEPS", "optimizer steps",
     OF_TRAINING},
    {"Training", "batch", FLAG_COUNT, FIELD(batch), "16", 1, 1 << 20, "SEQUENCES",
     "sequences in a micro-batch", OF_PRESET},
    {"Training", "accumulate", FLAG_COUNT, FIELD(accumulate), "1", 1, 1 << 16, "N", "micro-batches in a step",
     OF_TRAINING},
    {"Training", "lr", FLAG_REAL, FIELD(rate), "0.004", 0, 1e3, "RATE", "learning rate at its highest",
     OF_PRESET},
    {"Training", "warmup", FLAG_REAL, FIELD(warmup), "0.04", 0, 1, "SHARE",
     "of the steps, with the rate rising", OF_TRAINING},
    {"Training", "lr-final", FLAG_REAL, FIELD(final_rate), "0.05", 0, 1, "SHARE",
     "of --lr that the schedule ends at", OF_TRAINING},
    {"Training", "schedule", FLAG_CHOICE, FIELD(schedule), "cosine", 0, 0, "cosine|constant|linear|wsd",
     "of the rate after the warm-up; wsd stays, then falls in the cooldown", OF_TRAINING},
    {"Training", "cooldown", FLAG_REAL, FIELD(cooldown), "0.2", 0, 1, "SHARE", "of the steps, wsd's fall",
     OF_TRAINING},
    {"Training", "beta1", FLAG_REAL, FIELD(beta1), "0.9", 0, 0.9999999, "X",
     "AdamW: decay of the first moment", OF_TRAINING},
    {"Training", "beta2", FLAG_REAL, FIELD(beta2), "0.95", 0, 0.9999999, "X",
     "AdamW: decay of the second moment", OF_TRAINING},
    {"Training", "eps", FLAG_REAL, FIELD(eps), "1e-8", 1e-30, 1, "X",
     "AdamW: added to the root of the second moment", OF_TRAINING},
    {"Training", "decay", FLAG_REAL, FIELD(decay), "0.1", 0, 1e3, "X", "AdamW: weight decay of the matrices",
     OF_TRAINING},
    {"Training", "decay-embeddings", FLAG_REAL, FIELD(decay_embeddings), "-1", -1, 1e3, "X",
     "of embeddings, positions and head, -1: as --decay", OF_TRAINING},
    {"Training", "clip", FLAG_REAL, FIELD(clip), "1", 0, 1e30, "NORM", "longest gradient, 0: no limit",
     OF_TRAINING},
    {"Training", "skip-outliers", FLAG_REAL, FIELD(skip_outliers), "0", 0, 1e3, "DEVIATIONS",
     "skip steps whose loss or gradient norm is so far above the last 128's mean, or not finite (10 such in "
     "a row end the training); 0: none",
     OF_TRAINING},

    {"Evaluation and samples", "eval-every", FLAG_COUNT, FIELD(eval_every), "0", 0, INT_MAX, "STEPS",
     "held-out loss every so many steps, 0: only at the end", OF_TRAINING},
    {"Evaluation and samples", "eval-batches", FLAG_COUNT, FIELD(eval_batches), "20", 1, INT_MAX, "N",
     "batches of such an evaluation; the one at the end takes all", OF_TRAINING},
    {"Evaluation and samples", "choices", FLAG_TEXT, FIELD(choices), NULL, 0, 0, "FILE",
     "multiple-choice questions (HellaSwag) to answer at the end", OF_TRAINING},
    {"Evaluation and samples", "choices-most", FLAG_COUNT, FIELD(choices_most), "0", 0, INT_MAX, "N",
     "of them, from the first on; 0: all", OF_TRAINING},
    {"Evaluation and samples", "sample", FLAG_COUNT, FIELD(sample), "300", 0, 1 << 24, "TOKENS",
     "generated at a training's end, or by generate; of a model of bytes, bytes", OF_BOTH},
    {"Evaluation and samples", "temperature", FLAG_REAL, FIELD(temperature), "0.8", 0, 1e3, "X",
     "of the sample, 0: always the likeliest token", OF_BOTH},
    {"Evaluation and samples", "top-k", FLAG_COUNT, FIELD(top_k), "0", 0, 1 << 24, "N",
     "sample among the N likeliest tokens, 0: among all", OF_BOTH},
    {"Evaluation and samples", "prompt", FLAG_TEXT, FIELD(prompt), "", 0, 0, "TEXT",
     "that the sample continues (if empty: a new line, or the end of a text)", OF_BOTH},

    {"Checkpoints", "checkpoint", FLAG_TEXT, FIELD(checkpoint), NULL, 0, 0, "FOLDER",
     "keep the training's state there, at the end and when it is interrupted", OF_TRAINING},
    {"Checkpoints", "checkpoint", FLAG_TEXT, FIELD(checkpoint), NULL, 0, 0, "FOLDER",
     "of a training: the newest in it is taken; or safetensors, file or folder, with a config.json",
     OF_GENERATE},
    {"Checkpoints", "checkpoint-every", FLAG_COUNT, FIELD(checkpoint_every), "0", 0, INT_MAX, "STEPS",
     "and every so many steps, 0: not", OF_TRAINING},
    {"Checkpoints", "keep", FLAG_COUNT, FIELD(keep), "2", 0, INT_MAX, "N", "of them, the latest; 0: all",
     OF_TRAINING},
    {"Checkpoints", "resume", FLAG_OPTIONAL, FIELD(resume), NULL, 0, 0, "[FOLDER]",
     "go on from this checkpoint, or the newest in this folder, or in --checkpoint's, if any", OF_TRAINING},
    {"Checkpoints", "init", FLAG_TEXT, FIELD(init), NULL, 0, 0, "FILE",
     "start with these weights: safetensors, or a folder with them", OF_TRAINING},

    {"Output and device", "log", FLAG_TEXT, FIELD(log), NULL, 0, 0, "FILE",
     "JSON lines: options, steps, evaluations", OF_TRAINING},
    {"Output and device", "plot", FLAG_TEXT, FIELD(plot), NULL, 0, 0, "FILE",
     "the curves of loss and memory as a picture (SVG)", OF_TRAINING},
    {"Output and device", "dump", FLAG_TEXT, FIELD(dump), NULL, 0, 0, "FILE",
     "weights and moments at the end, raw (parameters.h)", OF_TRAINING},
    {"Output and device", "device", FLAG_COUNT, FIELD(device), "0", 0, 1 << 16, "N",
     "number of the CUDA device", OF_BOTH},
    {"Output and device", "gpus", FLAG_COUNT, FIELD(gpus), "1", 1, 64, "N",
     "train on so many of this machine, by a process each; torchrun, mpirun and srun start them, too",
     OF_TRAINING},
    {"Output and device", "zero", FLAG_COUNT, FIELD(zero), "0", 0, 3, "LEVEL",
     "of several GPUs each keeps only its shard of 1: optimizer state; 2: and gradients, if --accumulate is "
     "1; "
     "3: and weights",
     OF_TRAINING},
    {"Output and device", "compress", FLAG_CHOICE, FIELD(compress), "none", 0, 0, "none|powersgd|top",
     "send gradients in fewer bytes, and what that loses with the next ones: matrices as products of two "
     "thin "
     "ones, or their largest numbers; for slow links, with --zero 0",
     OF_TRAINING},
    {"Output and device", "compress-rank", FLAG_COUNT, FIELD(compress_rank), "4", 1, 64, "N",
     "columns of each thin matrix", OF_TRAINING},
    {"Output and device", "compress-share", FLAG_REAL, FIELD(compress_share), "0.01", 1e-6, 1, "X",
     "so many of the numbers", OF_TRAINING},
    {"Output and device", "graph", FLAG_SWITCH, FIELD(graph), "0", 0, 0, "",
     "capture the step once, and launch it as CUDA graphs", OF_TRAINING},
    {"Output and device", "dry-run", FLAG_SWITCH, FIELD(dry_run), "0", 0, 0, "",
     "only print what the run would need: parameters, arithmetic, memory; needs no device and no data",
     OF_TRAINING},
    {"Output and device", "help", FLAG_SWITCH, FIELD(help), "0", 0, 0, "", "this text", OF_BOTH},
    {"Output and device", "version", FLAG_SWITCH, FIELD(version), "0", 0, 0, "", "the version, as ebb's",
     OF_BOTH},
};
const size_t flag_count = sizeof flag_table / sizeof *flag_table;

bool flag_is_of(const flag_t *flag, command_t command)
{
    return command == COMMAND_GENERATE ? flag->use >= OF_BOTH : flag->use <= OF_BOTH;
}

const flag_t *flag_find(command_t command, const char *name)
{
    for (size_t i = 0; i < flag_count; i++)
        if (flag_is_of(&flag_table[i], command) && strcmp(flag_table[i].name, name) == 0)
            return &flag_table[i];
    return NULL;
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

const char *options_nearest(command_t command, const char *name)
{
    const char *nearest = NULL;
    int limit = (int)strlen(name) / 2 + 1; /* more than half of it wrong: no resemblance */
    for (size_t i = 0; i < flag_count; i++) {
        int distance = edit_distance(name, flag_table[i].name);
        if (flag_is_of(&flag_table[i], command) && distance < limit) {
            limit = distance;
            nearest = flag_table[i].name;
        }
    }
    return nearest;
}

int flag_choice(const char *words, const char *word)
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

void options_each(const options_t *options, options_visit_fn visit, void *context)
{
    for (size_t i = 0; i < flag_count; i++) {
        const flag_t *flag = &flag_table[i];
        char text[64];
        const char *word = flag->unit;
        if (!flag_is_of(flag, COMMAND_TRAIN))
            continue;
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
            if (flag->field != FIELD(help) && flag->field != FIELD(version) && flag->field != FIELD(dry_run))
                visit(context, flag->name, int_of(flag, options) ? "true" : "false", true);
            break;
        }
    }
}
