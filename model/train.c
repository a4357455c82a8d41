#include "train.h"

#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "batch.h"
#include "check.h"
#include "evaluate.h"
#include "transformer.h"
#include "linear.h"
#include "log.h"
#include "optimizer.h"
#include "progress.h"
#include "ranges.h"
#include "rng.h"
#include "sample.h"

#define STEPS_IN_FLIGHT 2

/* Where a step leaves its results, on the device and in pinned memory. */
enum { RESULT_LOSS = 0, RESULT_NORM = 4, RESULT_CLIPPED = 5, RESULT_COUNT = 8 };

/* A step that has been issued and not yet been read back. */
typedef struct pending {
    int step; /* 0: none */
    double rate;
    size_t device_bytes;
    float *results; /* pinned [RESULT_COUNT], borrowed from trainer.pinned; valid once `done` has happened */
    cudaEvent_t done;
} pending_t;

typedef struct trainer {
    const options_t *options;
    corpus_t corpus;
    gpu_t gpu;
    transformer_t model;
    optimizer_t optimizer;
    batch_ring_t ring;
    json_log_t log;
    progress_t progress;

    tensor_t results; /* device [RESULT_COUNT] */
    float *pinned;    /* [STEPS_IN_FLIGHT, RESULT_COUNT] */
    size_t *starts;   /* [batch] workspace */
    uint64_t dropout_seed;
    pending_t pending[STEPS_IN_FLIGHT];
    int steps_done;     /* issued */
    double began, last; /* clock: of the training, of the last step that was read back */
} trainer_t;

static volatile sig_atomic_t interrupted;

static void interrupt(int signal_number)
{
    (void)signal_number;
    interrupted = 1;
}

/* The first Ctrl-C ends the training after its step, the second one the program. */
static void catch_interrupt(void)
{
    struct sigaction action = {.sa_handler = interrupt, .sa_flags = (int)SA_RESETHAND | SA_RESTART};
    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, NULL);
}

static size_t tokens_per_step(const options_t *o)
{
    return (size_t)o->batch * (size_t)o->context * (size_t)o->accumulate;
}

/* ---- start ---- */

/* Everything that bad input can break, before the device is touched. */
static void open_files(trainer_t *t)
{
    const options_t *o = t->options;
    corpus_open(&t->corpus, o->data, o->context);
    if (o->dump != NULL) {
        FILE *file = fopen(o->dump, "ab");
        if (file == NULL)
            usage_error("--dump %s: %s", o->dump, strerror(errno));
        fclose(file);
    }
    log_open(&t->log, o->log);
}

/* For bf16's products: 32 MiB, as NVIDIA advises, but no more than a small model's largest weight matrix in fp32. */
static size_t workspace_bytes(const options_t *o)
{
    size_t advised = (size_t)32 << 20, largest = (size_t)o->width * (size_t)(8 * o->width) * sizeof(float);
    return o->dtype != DTYPE_BF16 ? 0 : largest < advised ? largest : advised;
}

static void open_device(trainer_t *t)
{
    const options_t *o = t->options;
    gpu_open(&t->gpu, o->device);
    printf("GPU: %s, %.1f GiB, CUDA driver %d.%d\n", t->gpu.name, (double)t->gpu.total_bytes / 0x1p30,
           t->gpu.driver_version / 1000, t->gpu.driver_version % 1000 / 10);
    fflush(stdout);

    linear_open(&t->gpu, workspace_bytes(o));
    transformer_open(&t->model, &t->gpu, o);
    optimizer_open(&t->optimizer, &t->model.parameters, o);
    int slots = STEPS_IN_FLIGHT * o->accumulate;
    batch_ring_open(&t->ring, &t->gpu, o->batch * o->context, o->vocab, slots > 8 ? slots : 8);
    t->results = tensor_new_permanent(&t->gpu, DTYPE_FP32, RESULT_COUNT);
    t->starts = calloc((size_t)o->batch, sizeof *t->starts);
    void *pinned = NULL;
    CUDA(cudaMallocHost(&pinned, STEPS_IN_FLIGHT * RESULT_COUNT * sizeof(float)));
    t->pinned = pinned;
    if (t->starts == NULL)
        fatal("no host memory for a batch of %d sequences", o->batch);
    for (int i = 0; i < STEPS_IN_FLIGHT; i++) {
        t->pending[i].results = t->pinned + (size_t)i * RESULT_COUNT;
        CUDA(cudaEventCreateWithFlags(&t->pending[i].done, cudaEventDisableTiming));
    }
    t->dropout_seed = rng_at(o->seed, RNG_DROPOUT);
}

static void log_option(void *context, const char *name, const char *value, bool number)
{
    json_log_t *log = context;
    if (number || value == NULL)
        log_literal(log, name, value != NULL ? value : "null");
    else
        log_text(log, name, value);
}

static void describe_run(trainer_t *t)
{
    const options_t *o = t->options;
    size_t parameters = parameters_count(&t->model.parameters);
    const shape_t *s = &t->model.shape;
    printf("model: %s, %d layers, width %d, %d heads%s, context %d, %d classes: %zu parameters\n",
           s->family == FAMILY_LLAMA ? "Llama" : "GPT-2", s->layers, s->width, s->heads,
           s->kv_heads < s->heads ? " that share keys" : "", s->context, s->vocab, parameters);
    printf("data: %s, %zu bytes for training, %zu held out\n", o->data, t->corpus.train_count,
           t->corpus.count - t->corpus.train_count);
    printf("training: %d steps of %d x %d sequences\n", o->steps, o->accumulate, o->batch);
    fflush(stdout);

    json_log_t *log = &t->log;
    log_begin(log, "run");
    log_object_begin(log, "options");
    options_each(o, log_option, log);
    log_object_end(log);
    log_count(log, "vocab", (uint64_t)o->vocab);
    log_count(log, "parameters", parameters);
    log_count(log, "train_tokens", t->corpus.train_count);
    log_count(log, "held_out_tokens", t->corpus.count - t->corpus.train_count);
    log_text(log, "device_name", t->gpu.name);
    log_count(log, "device_total_bytes", t->gpu.total_bytes);
    log_count(log, "driver_version", (uint64_t)t->gpu.driver_version);
    log_count(log, "runtime_version", (uint64_t)t->gpu.runtime_version);
    log_end(log);
}

/* ---- a step ---- */

static void issue_micro_batch(trainer_t *t, int step, int micro)
{
    range_begin("micro-batch");
    const options_t *o = t->options;
    uint64_t number = (uint64_t)(step - 1) * (uint64_t)o->accumulate + (uint64_t)micro;
    for (int b = 0; b < o->batch; b++)
        t->starts[b] =
            corpus_sequence_start(&t->corpus, o->seed, number * (uint64_t)o->batch + (uint64_t)b, o->context);
    batch_t batch = batch_upload(&t->ring, &t->corpus, t->starts, o->batch, o->context);
    transformer_train(&t->model, &batch,
                      (micro_batch_t){.loss = (float *)t->results.data + RESULT_LOSS,
                                      .scale = (float)(1.0 / (double)tokens_per_step(o)),
                                      .accumulate = micro > 0,
                                      .dropout = (float)o->dropout,
                                      .seed = t->dropout_seed,
                                      .number = number});
    batch_free(&t->ring, &batch);
    range_end();
}

static void issue_step(trainer_t *t, int step)
{
    range_begin("step");
    pending_t *pending = &t->pending[step % STEPS_IN_FLIGHT];
    pending->step = step;
    pending->rate = optimizer_rate(t->options, step);
    for (int micro = 0; micro < t->options->accumulate; micro++)
        issue_micro_batch(t, step, micro);
    optimizer_step(&t->optimizer, (float *)t->results.data + RESULT_NORM, pending->rate, step);
    CUDA(cudaMemcpyAsync(pending->results, t->results.data, t->results.bytes, cudaMemcpyDeviceToHost,
                         t->gpu.stream));
    CUDA(cudaEventRecord(pending->done, t->gpu.stream));
    pending->device_bytes = t->gpu.live_bytes;
    t->steps_done = step;
    range_end();
}

static void log_step(trainer_t *t, const pending_t *pending, double seconds)
{
    json_log_t *log = &t->log;
    log_begin(log, "step");
    log_count(log, "step", (uint64_t)pending->step);
    log_exact(log, "loss", pending->results[RESULT_LOSS]);
    log_exact(log, "grad_norm", pending->results[RESULT_NORM]);
    log_real(log, "lr", pending->rate);
    log_real(log, "tokens_per_s", (double)tokens_per_step(t->options) / seconds);
    log_real(log, "ms", 1e3 * seconds);
    log_count(log, "device_bytes", pending->device_bytes);
    log_count(log, "peak_bytes", t->gpu.peak_bytes);
    log_end(log);
}

/* Waits for a step, if it is still pending, and reports it. */
static void finish_step(trainer_t *t, int step)
{
    pending_t *pending = &t->pending[step % STEPS_IN_FLIGHT];
    if (step < 1 || pending->step != step)
        return;
    CUDA(cudaEventSynchronize(pending->done));
    double now = progress_clock(), seconds = now - t->last;
    t->last = now;
    log_step(t, pending, seconds);
    float loss = pending->results[RESULT_LOSS];
    progress_step(&t->progress, step, loss, seconds, tokens_per_step(t->options), t->gpu.peak_bytes);
    if (!isfinite(loss))
        fatal("the loss is not a finite number any more in step %d: use a lower --lr or a longer --warmup",
              step);
    pending->step = 0;
}

/* ---- evaluation, sample, end ---- */

static evaluation_t evaluate_and_log(trainer_t *t, size_t most)
{
    const options_t *o = t->options;
    evaluation_t result = evaluate(&t->model, &t->ring, &t->corpus, o->batch, o->context, most);
    log_begin(&t->log, "eval");
    log_count(&t->log, "step", (uint64_t)t->steps_done);
    log_exact(&t->log, "loss", result.loss);
    log_count(&t->log, "tokens", result.tokens);
    log_end(&t->log);
    return result;
}

/* The evaluation after a step in the middle of the training; its time counts for no step. */
static void evaluate_between(trainer_t *t)
{
    finish_step(t, t->steps_done);
    evaluation_t result = evaluate_and_log(t, (size_t)t->options->eval_batches);
    progress_end(&t->progress);
    fprintf(stderr, "step %d/%d  held-out loss %.4f over %zu bytes\n", t->steps_done, t->options->steps,
            result.loss, result.tokens);
    t->last = progress_clock();
}

static void run_steps(trainer_t *t)
{
    const options_t *o = t->options;
    catch_interrupt();
    progress_begin(&t->progress, o->steps);
    t->began = t->last = progress_clock();
    for (int step = 1; step <= o->steps && !interrupted; step++) {
        issue_step(t, step);
        finish_step(t, step - 1);
        if (o->eval_every > 0 && step % o->eval_every == 0 && step < o->steps)
            evaluate_between(t);
    }
    finish_step(t, t->steps_done);
    progress_end(&t->progress);
    if (interrupted)
        fprintf(stderr, "interrupted after step %d\n", t->steps_done);
}

static void print_sample(trainer_t *t)
{
    const options_t *o = t->options;
    if (o->sample == 0)
        return;
    size_t length = (size_t)o->sample;
    unsigned char *text = malloc(length);
    if (text == NULL)
        fatal("no host memory for a sample of %zu bytes", length);
    sample_text(&t->model, &t->ring, o, text);
    log_begin(&t->log, "sample");
    log_text(&t->log, "prompt", o->prompt);
    log_bytes(&t->log, "text", text, length);
    log_end(&t->log);

    printf("sample:\n%s", o->prompt);
    for (size_t i = 0; i < length; i++) /* control characters could do anything to a terminal */
        putchar((text[i] >= 0x20 && text[i] != 0x7f) || text[i] == '\n' || text[i] == '\t' ? text[i] : '.');
    putchar('\n');
    free(text);
}

static void finish(trainer_t *t)
{
    double seconds = progress_clock() - t->began;
    evaluation_t held_out = evaluate_and_log(t, 0);
    printf("held-out loss %.4f nats per byte, over %zu bytes\n", held_out.loss, held_out.tokens);
    printf("peak device memory %.1f MiB, %.1f s of training\n", (double)t->gpu.peak_bytes / 0x1p20, seconds);
    print_sample(t);

    uint64_t hash = parameters_dump(&t->model.parameters, t->options->dump);
    char hex[32];
    snprintf(hex, sizeof hex, "%016llx", (unsigned long long)hash);
    json_log_t *log = &t->log;
    log_begin(log, "final");
    log_count(log, "steps", (uint64_t)t->steps_done);
    log_exact(log, "held_out_loss", held_out.loss);
    log_count(log, "peak_bytes", t->gpu.peak_bytes);
    log_real(log, "seconds", seconds);
    log_text(log, "state_hash", hex);
    log_end(log);
    if (log->path != NULL)
        printf("log: %s\n", log->path);
    if (t->options->dump != NULL)
        printf("weights and moments: %s\n", t->options->dump);
}

static void close_all(trainer_t *t)
{
    for (int i = 0; i < STEPS_IN_FLIGHT; i++)
        CUDA(cudaEventDestroy(t->pending[i].done));
    CUDA(cudaFreeHost(t->pinned));
    free(t->starts);
    tensor_free_permanent(&t->gpu, &t->results);
    batch_ring_close(&t->ring);
    optimizer_close(&t->optimizer);
    transformer_close(&t->model);
    linear_close(&t->gpu);
    gpu_close(&t->gpu);
    corpus_close(&t->corpus);
    log_close(&t->log);
}

void train(const options_t *options)
{
    trainer_t trainer = {.options = options};
    open_files(&trainer);
    open_device(&trainer);
    describe_run(&trainer);
    run_steps(&trainer);
    finish(&trainer);
    close_all(&trainer);
}
