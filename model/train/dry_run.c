#include "model/train/dry_run.h"

#include <stdio.h>
#include <string.h>

#include "model/base/bytes.h"
#include "model/base/check.h"
#include "model/train/flops.h"
#include "model/train/training.h"

enum { MOST_SAVED = 16 };

/* Tensors kept for the backward pass: of a block by name, all blocks being alike, and of the last norm. */
typedef struct saved {
    int layers;
    struct {
        const char *name;
        size_t bytes;
    } tensors[MOST_SAVED];
    int count;
    size_t block_bytes, last_bytes;
} saved_t;

static void see_saved(void *context, int layer, const char *name, size_t bytes)
{
    saved_t *saved = context;
    if (layer == saved->layers)
        saved->last_bytes += bytes;
    if (layer != 0)
        return;
    if (saved->count == MOST_SAVED)
        fatal("a block keeps more than %d tensors", MOST_SAVED);
    saved->tensors[saved->count].name = name;
    saved->tensors[saved->count++].bytes = bytes;
    saved->block_bytes += bytes;
}

/* The allocations of a step; of the micro-batches that add to the first one's gradients, one is like the other. */
static void rehearse_step(trainer_t *t, saved_t *saved)
{
    const options_t *o = t->options;
    for (int micro = 0; micro < o->accumulate && micro < 2; micro++) {
        batch_t batch = batch_reserve(&t->gpu, o->vocab, o->batch, o->context);
        t->model.saved = micro == 0 ? see_saved : NULL;
        t->model.saved_context = saved;
        transformer_train(
            &t->model, &batch,
            (micro_batch_t){
                .loss = t->results.data, .scale = 1, .accumulate = micro > 0, .dropout = (float)o->dropout});
        tensor_free(&t->gpu, &batch.memory);
    }
}

/* ---- for people ---- */

static void print_bytes(const char *name, size_t bytes)
{
    bytes_text_t text;
    printf("  %-24s %20zu  %14s\n", name, bytes, bytes_text(text, bytes));
}

static void print_saved(const trainer_t *t, const saved_t *saved)
{
    const options_t *o = t->options;
    double channels = (double)o->batch * o->context * o->width;
    printf("kept by each of %d layers for the backward pass, bytes (%.2f for each token and channel):\n",
           saved->layers, (double)saved->block_bytes / channels);
    for (int i = 0; i < saved->count; i++)
        print_bytes(saved->tensors[i].name, saved->tensors[i].bytes);
    print_bytes("all layers, last norm", (size_t)saved->layers * saved->block_bytes + saved->last_bytes);
}

static void print_all(const trainer_t *t, const saved_t *saved)
{
    const options_t *o = t->options;
    const layout_t *layout = &t->model.layout;
    flops_t flops = flops_of(layout);
    double tokens = (double)o->batch * o->context * o->accumulate;
    double each = (double)flops_per_token(layout);
    describe_model(t);
    printf("training: %d steps of %d x %d sequences, %.0f tokens each\n", o->steps, o->accumulate, o->batch,
           tokens);
    printf("arithmetic: %.4g FLOPs per token, forward and backward (6 x %llu weights, %.4g of attention); "
           "%.4g per step, %.4g in all\n",
           each, (unsigned long long)flops.weights, (double)flops.attention, each * tokens,
           each * tokens * o->steps);
    print_saved(t, saved);
    puts("device memory at its peak, bytes:");
    for (int kind = 0; kind < MEMORY_COUNT; kind++)
        print_bytes(memory_names[kind], t->gpu.peak_by[kind]);
    print_bytes("in all", t->gpu.peak_bytes);
    puts("besides, the CUDA context and the libraries: some hundred MiB on most GPUs");
}

/* ---- for programs ---- */

static void log_all(trainer_t *t, const saved_t *saved)
{
    json_log_t *log = &t->log;
    const options_t *o = t->options;
    log_begin(log, "dry_run");
    log_count(log, "parameters", layout_parameters(&t->model.layout));
    log_count(log, "flops_per_token", flops_per_token(&t->model.layout));
    log_count(log, "tokens_per_step", (uint64_t)o->batch * (uint64_t)o->context * (uint64_t)o->accumulate);
    log_count(log, "peak_bytes", t->gpu.peak_bytes);
    log_memory(log, "peak_by_kind", t->gpu.peak_by);
    log_object_begin(log, "saved_by_layer");
    for (int i = 0; i < saved->count; i++)
        log_count(log, saved->tensors[i].name, saved->tensors[i].bytes);
    log_object_end(log);
    log_count(log, "saved_bytes", (uint64_t)saved->layers * saved->block_bytes + saved->last_bytes);
    log_end(log);
}

void dry_run(const options_t *options)
{
    trainer_t trainer = {.options = options};
    saved_t saved = {.layers = options->layers};
    rehearsing = true;
    log_open(&trainer.log, options->log, false);
    open_model(&trainer);
    rehearse_step(&trainer, &saved);
    print_all(&trainer, &saved);
    log_all(&trainer, &saved);
    close_model(&trainer);
    log_close(&trainer.log);
}
