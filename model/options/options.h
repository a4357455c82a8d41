/* options.h: what the command line can say. One table in flags.c (name, type, unit, default, range, help,
 * group) makes the parser, --help, and the log's first record.
 *
 * A model's shape, batch and rate come from its preset (--model) unless they have flags of their own; to generate, the
 * shape is a checkpoint's. Bad input ends the program through usage_error(): one line, exit code 2.
 */
#ifndef EBB_MODEL_OPTIONS_H
#define EBB_MODEL_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "model/base/layout.h"

typedef enum attention_kind {
    ATTENTION_AUTO,   /* one of the next two */
    ATTENTION_FLASH,  /* never stores T x T */
    ATTENTION_TENSOR, /* nor this, on matrix instructions */
    ATTENTION_NAIVE   /* stores scores and probabilities */
} attention_kind_t;

typedef enum save { SAVE_FULL, SAVE_LEAN } save_t;
typedef enum rounding { ROUNDING_NEAREST, ROUNDING_STOCHASTIC } rounding_t;

typedef enum command { COMMAND_TRAIN, COMMAND_GENERATE } command_t;

/* The learning rate after the warm-up (optimizer.h). */
typedef enum schedule { SCHEDULE_COSINE, SCHEDULE_CONSTANT, SCHEDULE_LINEAR, SCHEDULE_WSD } schedule_t;

typedef struct options {
    command_t command;
    const char *data, *eval_data;
    int data_kind; /* data_kind_t */
    int pack, document_end;
    const char *tokenizer;

    const char *model; /* preset */
    family_t family;   /* of the preset */
    int vocab;         /* 256 covers bytes */
    int layers, width, heads, context;
    int kv_heads; /* 0: as many as heads */
    int hidden;   /* 0: 4 * width */
    int tied;     /* not 0: the head is the token embedding's matrix */
    double norm_eps, rope_theta, rope_factor;
    int dtype, rounding, attention, save;
    double dropout;
    int lora_rank;      /* 0: no adapters */
    double lora_alpha;  /* 0: twice the rank */
    const char *lora_targets, *lora;

    int steps, batch, accumulate;
    int schedule; /* schedule_t */
    double rate, warmup, final_rate, cooldown;
    double beta1, beta2, eps, decay, clip;
    double decay_embeddings; /* -1: as decay */
    double skip_outliers;    /* 0: none */
    uint64_t seed;

    int eval_every, eval_batches;
    const char *choices;
    int choices_most;
    int sample, top_k;
    double temperature;
    const char *prompt;

    const char *checkpoint; /* a folder of them, or NULL */
    int checkpoint_every, keep;
    const char *resume; /* NULL: no; "": from the newest in `checkpoint`, if any; else a folder */
    const char *init;

    const char *log, *plot, *dump;
    int device, gpus, zero;
    int compress, compress_rank;
    double compress_share;
    int graph;
    int dry_run;
    int help, version;
} options_t;

/* Defaults, then the preset, then the flags, then the checks of everything that needs no device and no file.
 * Strings point into argv or are constants. With --help or --version, prints it and exits 0. */
void options_parse(options_t *options, int argc, char **argv);

shape_t options_shape(const options_t *options);
lora_t options_lora(const options_t *options);

/* Takes another shape: of a preset, of a checkpoint. */
void options_set_shape(options_t *options, const shape_t *shape);

/* Ends the program unless kernels can compute such a shape in such batches. */
void options_check_shape(const options_t *options);

/* Visits every option of a training in the table's order, as text: for the log. `number` is false for strings: it is true
 * for switches, too, which are "true" or "false". */
typedef void (*options_visit_fn)(void *context, const char *name, const char *value, bool number);
void options_each(const options_t *options, options_visit_fn visit, void *context);

/* The name among a command's flags that is nearest to `name` (without dashes), or NULL if none resembles it. */
const char *options_nearest(command_t command, const char *name);

#endif
