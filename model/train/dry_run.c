#include "model/train/dry_run.h"

#include <stdio.h>
#include <string.h>

#include "model/base/bytes.h"
#include "model/base/check.h"
#include "model/train/flops.h"
#include "model/train/training.h"

enum { MOST_SAVED = 20 };

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
        transformer_train(&t->model, &batch,
                          (micro_batch_t){.loss = t->results.data,
                                          .scale = 1,
                                          .accumulate = micro > 0,
                                          .last = micro == 1 || o->accumulate == 1,
                                          .dropout = (float)o->dropout});
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
    double tokens = (double)o->batch * o->context * o->accumulate * o->gpus;
    double each = (double)flops_per_token(layout);
    describe_model(t);
    if (o->gpus > 1)
        printf("training: %d steps of %d x %d x %d sequences, %.0f tokens each, on %d GPUs\n", o->steps,
               o->gpus, o->accumulate, o->batch, tokens, o->gpus);
    else
        printf("training: %d steps of %d x %d sequences, %.0f tokens each\n", o->steps, o->accumulate,
               o->batch, tokens);
    printf("arithmetic: %.4g FLOPs per token, forward and backward (%d x %llu weights", each,
           flops.adapters > 0 ? 4 : 6, (unsigned long long)flops.weights);
    if (flops.adapters > 0)
        printf(", 6 x %llu of adapters", (unsigned long long)flops.adapters);
    printf(", %.4g of attention); %.4g per step, %.4g in all\n", (double)flops.attention, each * tokens,
           each * tokens * o->steps);
    print_saved(t, saved);
    puts(o->gpus > 1 ? "memory of each device at its peak, bytes:" : "device memory at its peak, bytes:");
    for (int kind = 0; kind < MEMORY_COUNT; kind++)
        print_bytes(memory_names[kind], t->gpu.peak_by[kind]);
    print_bytes("in all", t->gpu.peak_bytes);
}

/* ---- whether it fits ---- */

enum { DEVICE_GIB = 80, CONTEXT_GIB = 1 /* at most, of the CUDA context and the libraries */ };

/* A part of the peak. */
typedef struct share {
    const char *name;
    size_t bytes;
} share_t;

enum { SHARES = 5 };

/* All of the peak; what is cheapest to do without comes first. */
static void share_out(const trainer_t *t, const saved_t *saved, share_t shares[SHARES])
{
    const size_t *by = t->gpu.peak_by;
    size_t kept = (size_t)saved->layers * saved->block_bytes + saved->last_bytes, rest = t->gpu.peak_bytes;
    shares[0] = (share_t){"activations", kept < by[MEMORY_ACTIVATIONS] ? kept : by[MEMORY_ACTIVATIONS]};
    shares[1] = (share_t){"optimizer state", by[MEMORY_MOMENTS] + by[MEMORY_MASTERS]};
    shares[2] = (share_t){"gradients", by[MEMORY_GRADIENTS]};
    shares[3] = (share_t){"weights", by[MEMORY_WEIGHTS]};
    for (int i = 0; i < SHARES - 1; i++)
        rest -= shares[i].bytes;
    shares[SHARES - 1] = (share_t){"scratch", rest};
}

/* Bytes that one operation takes: AdamW, a group's weights, masters, gradients and moments; or, of several ranks, what gathers a group's
 * weights, or sums its gradients. */
static size_t largest_operation(const parameters_t *parameters)
{
    size_t largest = 0;
    for (int g = 0; g < parameters->group_count; g++) {
        const group_t *group = &parameters->groups[g];
        const size_t all = group->shard * (size_t)parameters->ranks->world.count;
        const size_t takes[] = {
            group->value.bytes + group->own_value.bytes + group->master.bytes + group->gradient.bytes +
                group->own_gradient.bytes + group->m.bytes + group->v.bytes,
            parameters->zero < 2 ? 0 : all * sizeof(float) + group->own_gradient.bytes,
            parameters->zero < 3 ? 0 : all * dtype_bytes(parameters->dtype) + group->own_value.bytes};
        for (size_t i = 0; i < sizeof takes / sizeof *takes; i++)
            largest = takes[i] > largest ? takes[i] : largest;
    }
    return largest;
}

/* What a budget leaves no room for when memory is at its peak. */
static void print_over(const share_t shares[SHARES], size_t over)
{
    bytes_text_t part, all;
    for (int i = 0; i < SHARES && over > 0; i++) {
        size_t bytes = over < shares[i].bytes ? over : shares[i].bytes;
        over -= bytes;
        if (bytes == 0)
            continue;
        printf("%s%s: ", i > 0 ? ", " : "", shares[i].name);
        if (bytes < shares[i].bytes)
            printf("%s of %s", bytes_text(part, bytes), bytes_text(all, shares[i].bytes));
        else
            printf("all %s", bytes_text(all, bytes));
    }
    putchar('\n');
}

static void print_budgets(const trainer_t *t, const saved_t *saved)
{
    static const int percents[] = {80, 60, 50, 40, 30};
    size_t peak = t->gpu.peak_bytes, floor = largest_operation(&t->model.parameters);
    share_t shares[SHARES];
    bytes_text_t text;
    share_out(t, saved, shares);
    puts("under `ebb run --budget`, at least this is not on the device at the peak (activations are "
         "offloaded or\n"
         "recomputed, the rest is offloaded):");
    for (size_t i = 0; i < sizeof percents / sizeof *percents; i++) {
        size_t budget = (size_t)((double)peak * percents[i] / 100);
        printf("  %d%% %12s  ", percents[i], bytes_text(text, budget));
        if (budget < floor)
            puts("below the floor");
        else
            print_over(shares, peak - budget);
    }
    printf("  floor: not below %s, which one operation takes\n", bytes_text(text, floor));
    puts("  time: a dry run knows none. `ebb estimate --gpu H100 -- ebb-train ...` tells what each budget "
         "costs");
}

static void print_verdict(const trainer_t *t)
{
    bytes_text_t needs;
    bool fits = t->gpu.peak_bytes <= (size_t)(DEVICE_GIB - CONTEXT_GIB) << 30;
    printf("%s on %d GiB: needs %s, and up to %d GiB for the CUDA context and the libraries\n",
           fits ? "fits" : "does not fit", DEVICE_GIB, bytes_text(needs, t->gpu.peak_bytes), CONTEXT_GIB);
}

/* ---- for programs ---- */

static void log_all(trainer_t *t, const saved_t *saved)
{
    json_log_t *log = &t->log;
    const options_t *o = t->options;
    log_begin(log, "dry_run");
    log_count(log, "parameters", layout_parameters(&t->model.layout));
    log_count(log, "trained", layout_trained(&t->model.layout));
    log_count(log, "flops_per_token", flops_per_token(&t->model.layout));
    log_count(log, "tokens_per_step",
              (uint64_t)o->batch * (uint64_t)o->context * (uint64_t)o->accumulate * (uint64_t)o->gpus);
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
    trainer_t trainer = {.options = options, .ranks.world.count = options->gpus};
    saved_t saved = {.layers = options->layers};
    rehearsing = true;
    log_open(&trainer.log, options->log, false);
    open_model(&trainer);
    rehearse_step(&trainer, &saved);
    print_all(&trainer, &saved);
    print_budgets(&trainer, &saved);
    print_verdict(&trainer);
    log_all(&trainer, &saved);
    close_model(&trainer);
    log_close(&trainer.log);
}
