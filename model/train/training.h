/* training.h: a training run's parts, shared by the files that make it: train_open.c (everything before the first step, and the closing),
 * train.c (the steps), train_end.c (evaluations, and what follows the last step). Internal to them, to dry_run.c and to
 * generate.c.
 *
 * One thread; ahead.h has another of its own.
 */
#ifndef EBB_MODEL_TRAINING_H
#define EBB_MODEL_TRAINING_H

#include <signal.h>
#include <stdbool.h>

#include "model/data/ahead.h"
#include "model/data/batch.h"
#include "model/data/choices.h"
#include "model/data/data.h"
#include "model/files/checkpoint.h"
#include "model/train/evaluate.h"

#include "model/data/tokenizer.h"
#include "model/layers/transformer.h"
#include "model/ranks/ranks.h"
#include "model/train/log.h"
#include "model/train/optimizer.h"
#include "model/train/plot.h"
#include "model/train/progress.h"
#include "model/train/step_graph.h"

#define STEPS_IN_FLIGHT 2

/* Where a step leaves its results, on the device and in pinned memory. The first RESULT_SUMMED are summed over all ranks. */
enum {
    RESULT_LOSS = 0,
    RESULT_SIGNAL = 1,
    RESULT_SUMMED = 4,
    RESULT_NORM = 4,
    RESULT_CLIPPED = 5,
    RESULT_SKIPPED = 6,
    RESULT_COUNT = 8
};

/* A step that has been issued and not yet been read back. */
typedef struct pending {
    int step; /* 0: none */
    double rate;
    size_t device_bytes, span_peak_bytes; /* after it was issued; at most while it was */
    uint64_t launches;
    size_t tokens;  /* of all ranks, padding left out */
    float *results; /* pinned [RESULT_COUNT], borrowed from trainer.pinned; valid once `done` has happened */
    cudaEvent_t began, done;
} pending_t;

typedef struct trainer {
    const options_t *options;
    dataset_t data, eval_data; /* eval_data: of --eval-data, else empty */
    held_out_t held_out;
    tokenizer_t tokenizer; /* empty: there is none for this data */
    choices_t choices;     /* empty: none asked for */
    ahead_t *ahead;        /* owned: training batches */
    gpu_t gpu;
    ranks_t ranks;
    transformer_t model;
    optimizer_t optimizer;
    step_graph_t graph;
    batch_ring_t ring;
    json_log_t log;
    progress_t progress;
    plot_t plot;

    tensor_t results; /* device [RESULT_COUNT] */
    float *pinned;    /* [STEPS_IN_FLIGHT, RESULT_COUNT] */
    uint64_t dropout_seed;
    double flops_per_token;   /* flops.h */
    double most_tokens_per_s; /* by the device's peak rate; 0: not known */
    checkpoint_t checkpoint;
    bool resumed;
    folder_path_t resumed_from;
    place_t place;  /* of what is issued */
    int lock;       /* of --checkpoint's folder, by rank 0; -1: none */
    uint64_t saved; /* the last checkpoint's step, or where the training began */
    pending_t pending[STEPS_IN_FLIGHT];
    int skipped;        /* steps read back that were outliers */
    int lost;           /* of them the last ones, without a finite loss and gradient */
    uint64_t launches;  /* that the last step took */
    int first_step;     /* of this process */
    int steps_done;     /* issued, those before a resumption too */
    double began, last; /* clock: of the training, of the last step that was read back */
    int ending;         /* the signal that ends the training, on all ranks after the same step; 0: none */
} trainer_t;

/* Bad input ends the program: exit code 2. */
void must(bool good, const fault_t *fault);

/* --tokenizer, or bytes. */
void open_tokenizer(tokenizer_t *tokenizer, const options_t *options);

/* Rank, alpha and targets as --lora's folder says; and its adapters. */
void take_adapters(options_t *options);
void load_adapters(const options_t *options, transformer_t *model);

/* For bf16's products: 32 MiB, as NVIDIA advises, but no more than a small model's largest weight matrix in fp32. */
size_t workspace_bytes(const options_t *options);

/* What a token is: "byte" or "token". */
const char *unit_of(const trainer_t *t);

/* ---- train_open.c ---- */

/* Everything that bad input can break, before the device is touched. */
void open_files(trainer_t *t);
/* What stays on the device for the whole run: all that gpu.h counts between two steps. */
void open_model(trainer_t *t);
void close_model(trainer_t *t);
/* The device, the model and its state. */
void open_device(trainer_t *t);
void close_all(trainer_t *t);
/* One line on stdout. */
void describe_model(const trainer_t *t);
/* The first lines of the output, and of the log. */
void describe_run(trainer_t *t);

/* ---- train_end.c ---- */

/* Held-out loss over at most so many batches, 0: all. */
evaluation_t evaluate_and_log(trainer_t *t, size_t most);
/* An object of the log: bytes by kind. */
void log_memory(json_log_t *log, const char *key, const size_t bytes[MEMORY_COUNT]);
/* The curves so far, with --plot. */
void draw(const trainer_t *t);
/* Evaluation, choices, sample, dump, and the last record of the log. */
void finish(trainer_t *t);

#endif
