#include "train.h"

#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ahead.h"
#include "batch.h"
#include "check.h"
#include "checkpoint.h"
#include "choices.h"
#include "data.h"
#include "evaluate.h"
#include "transformer.h"
#include "linear.h"
#include "log.h"
#include "optimizer.h"
#include "progress.h"
#include "ranges.h"
#include "rng.h"
#include "sample.h"
#include "tokenizer.h"

#define STEPS_IN_FLIGHT 2

/* Where a step leaves its results, on the device and in pinned memory. */
enum { RESULT_LOSS = 0, RESULT_NORM = 4, RESULT_CLIPPED = 5, RESULT_SKIPPED = 6, RESULT_COUNT = 8 };

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
    dataset_t data, eval_data; /* eval_data: of --eval-data, else empty */
    held_out_t held_out;
    tokenizer_t tokenizer; /* empty: there is none for this data */
    choices_t choices;     /* empty: none asked for */
    ahead_t *ahead;        /* owned: training batches */
    gpu_t gpu;
    transformer_t model;
    optimizer_t optimizer;
    batch_ring_t ring;
    json_log_t log;
    progress_t progress;

    tensor_t results; /* device [RESULT_COUNT] */
    float *pinned;    /* [STEPS_IN_FLIGHT, RESULT_COUNT] */
    uint64_t dropout_seed;
    checkpoint_t checkpoint;
    bool resumed;
    folder_path_t resumed_from;
    place_t place;  /* of what is issued */
    uint64_t saved; /* the last checkpoint's step, or where the training began */
    pending_t pending[STEPS_IN_FLIGHT];
    int skipped;        /* steps read back that were outliers */
    int steps_done;     /* issued, those before a resumption too */
    double began, last; /* clock: of the training, of the last step that was read back */
} trainer_t;

static volatile sig_atomic_t interrupted;

static void interrupt(int signal_number)
{
    interrupted = signal_number;
}

/* The first Ctrl-C (or SIGTERM) ends the training after its step, the second one the program. */
static void catch_interrupt(void)
{
    struct sigaction action = {.sa_handler = interrupt, .sa_flags = (int)SA_RESETHAND | SA_RESTART};
    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
}

static size_t tokens_per_step(const options_t *o)
{
    return (size_t)o->batch * (size_t)o->context * (size_t)o->accumulate;
}

/* ---- start ---- */

static void must(bool good, const fault_t *fault)
{
    if (!good)
        usage_error("%s", fault->text);
}

static void open_data(trainer_t *t)
{
    const options_t *o = t->options;
    fault_t fault;
    data_kind_t kind = (data_kind_t)o->data_kind;
    bool separate = o->eval_data != NULL;
    must(dataset_open(&t->data, "--data", o->data, kind, o->vocab, &fault), &fault);
    must(dataset_split(&t->data, o->context, separate, &fault), &fault);
    if (separate)
        must(dataset_open(&t->eval_data, "--eval-data", o->eval_data, kind, o->vocab, &fault), &fault);
    t->held_out = held_out_of(&t->data, separate ? &t->eval_data : NULL);
    if (t->held_out.count < 2)
        usage_error("--eval-data %s: %llu tokens are too few, it takes two to predict one", o->eval_data,
                    (unsigned long long)t->held_out.count);
    if (separate && (t->data.token_bytes == 1) != (t->eval_data.token_bytes == 1))
        usage_error("--eval-data %s: one of it and --data is a text, the other is not", o->eval_data);
    if (t->data.token_bytes == 1 && o->tokenizer != NULL)
        usage_error("--tokenizer %s: the tokens of a text are its bytes, only shards need one", o->tokenizer);
    if (t->data.token_bytes == 1 || o->tokenizer != NULL)
        must(tokenizer_open(&t->tokenizer, o->tokenizer, &fault), &fault);
    if (t->tokenizer.count > o->vocab)
        usage_error("--tokenizer: it has %d tokens, more than the model's %d classes (--vocab)",
                    t->tokenizer.count, o->vocab);
    if (o->choices != NULL)
        must(choices_open(&t->choices, o->choices, o->vocab, &fault), &fault);
}

/* Everything that bad input can break, before the device is touched. */
static void open_files(trainer_t *t)
{
    const options_t *o = t->options;
    fault_t fault;
    open_data(t);
    if (o->dump != NULL) {
        FILE *file = fopen(o->dump, "ab");
        if (file == NULL)
            usage_error("--dump %s: %s", o->dump, strerror(errno));
        fclose(file);
    }
    must(dataset_fingerprint(&t->data, &t->checkpoint.data, &fault), &fault);
    if (o->checkpoint != NULL)
        must(folder_prepare(o->checkpoint, &fault), &fault);
    must(checkpoint_find(o, &t->resumed, t->resumed_from, &fault), &fault);
    if (o->resume != NULL && !t->resumed)
        fprintf(stderr, "no checkpoint in %s yet: the training begins at the beginning\n", o->checkpoint);
    t->checkpoint.options = o;
    t->checkpoint.past = &t->optimizer.past;
    t->checkpoint.end = t->tokenizer.count > 0 ? t->tokenizer.end : 0;
    log_open(&t->log, o->log, t->resumed);
}

/* Another beginning than the initial values. */
static void load_model(trainer_t *t)
{
    const options_t *o = t->options;
    fault_t fault;
    if (t->resumed)
        must(checkpoint_load(&t->checkpoint, t->resumed_from, &t->model, &t->place, &fault), &fault);
    else if (o->init != NULL)
        must(checkpoint_init(o->init, &t->model, &fault), &fault);
    t->saved = t->place.step;
    t->steps_done = (int)t->place.step;
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
    void *pinned = NULL;
    CUDA(cudaMallocHost(&pinned, STEPS_IN_FLIGHT * RESULT_COUNT * sizeof(float)));
    t->pinned = pinned;
    for (int i = 0; i < STEPS_IN_FLIGHT; i++) {
        t->pending[i].results = t->pinned + (size_t)i * RESULT_COUNT;
        CUDA(cudaEventCreateWithFlags(&t->pending[i].done, cudaEventDisableTiming));
    }
    t->dropout_seed = rng_at(o->seed, RNG_DROPOUT);
    load_model(t);
}

static void log_option(void *context, const char *name, const char *value, bool number)
{
    json_log_t *log = context;
    if (number || value == NULL)
        log_literal(log, name, value != NULL ? value : "null");
    else
        log_text(log, name, value);
}

/* What a token is. */
static const char *unit_of(const trainer_t *t)
{
    return t->data.token_bytes == 1 ? "byte" : "token";
}

static void describe_run(trainer_t *t)
{
    const options_t *o = t->options;
    size_t parameters = parameters_count(&t->model.parameters);
    const shape_t *s = &t->model.shape;
    printf("model: %s, %d layers, width %d, %d heads%s, context %d, %d classes: %zu parameters\n",
           s->family == FAMILY_LLAMA ? "Llama" : "GPT-2", s->layers, s->width, s->heads,
           s->kv_heads < s->heads ? " that share keys" : "", s->context, s->vocab, parameters);
    printf("data: %s, %llu %ss for training, %llu held out\n", o->data,
           (unsigned long long)t->data.train_count, unit_of(t), (unsigned long long)t->held_out.count);
    printf("training: %d steps of %d x %d sequences\n", o->steps, o->accumulate, o->batch);
    if (t->resumed)
        printf("going on after step %d: %s\n", t->steps_done, t->resumed_from);
    else if (o->init != NULL)
        printf("weights: %s\n", o->init);
    fflush(stdout);

    json_log_t *log = &t->log;
    log_begin(log, "run");
    log_object_begin(log, "options");
    options_each(o, log_option, log);
    log_object_end(log);
    log_count(log, "vocab", (uint64_t)o->vocab);
    log_count(log, "parameters", parameters);
    log_count(log, "train_tokens", t->data.train_count);
    log_count(log, "held_out_tokens", t->held_out.count);
    log_text(log, "device_name", t->gpu.name);
    log_count(log, "device_total_bytes", t->gpu.total_bytes);
    log_count(log, "driver_version", (uint64_t)t->gpu.driver_version);
    log_count(log, "runtime_version", (uint64_t)t->gpu.runtime_version);
    log_end(log);
    if (!t->resumed)
        return;
    log_begin(log, "resume");
    log_count(log, "step", t->place.step);
    log_text(log, "path", t->resumed_from);
    log_end(log);
}

/* ---- a step ---- */

static void issue_micro_batch(trainer_t *t, int micro)
{
    range_begin("micro-batch");
    const options_t *o = t->options;
    const int *inputs, *targets;
    fault_t fault;
    must(ahead_next(t->ahead, &inputs, &targets, &fault), &fault);
    batch_t batch = batch_upload(&t->ring, inputs, targets, o->batch, o->context);
    transformer_train(&t->model, &batch,
                      (micro_batch_t){.loss = (float *)t->results.data + RESULT_LOSS,
                                      .scale = (float)(1.0 / (double)tokens_per_step(o)),
                                      .accumulate = micro > 0,
                                      .dropout = (float)o->dropout,
                                      .seed = t->dropout_seed,
                                      .number = t->place.micro_batches});
    batch_free(&t->ring, &batch);
    t->place.micro_batches++;
    t->place.sequences += (uint64_t)o->batch;
    range_end();
}

static void issue_step(trainer_t *t, int step)
{
    range_begin("step");
    pending_t *pending = &t->pending[step % STEPS_IN_FLIGHT];
    pending->step = step;
    pending->rate = optimizer_rate(t->options, step);
    for (int micro = 0; micro < t->options->accumulate; micro++)
        issue_micro_batch(t, micro);
    optimizer_step(&t->optimizer, (float *)t->results.data + RESULT_NORM,
                   (const float *)t->results.data + RESULT_LOSS, pending->rate, step);
    CUDA(cudaMemcpyAsync(pending->results, t->results.data, t->results.bytes, cudaMemcpyDeviceToHost,
                         t->gpu.stream));
    CUDA(cudaEventRecord(pending->done, t->gpu.stream));
    pending->device_bytes = t->gpu.live_bytes;
    t->steps_done = step;
    t->place.step = (uint64_t)step;
    range_end();
}

/* Of a step that has been read back. */
static bool is_skipped(const trainer_t *t, const pending_t *pending)
{
    return t->options->skip_outliers > 0 && pending->results[RESULT_SKIPPED] != 0;
}

static void log_step(trainer_t *t, const pending_t *pending, double seconds)
{
    json_log_t *log = &t->log;
    log_begin(log, "step");
    log_count(log, "step", (uint64_t)pending->step);
    log_exact(log, "loss", pending->results[RESULT_LOSS]);
    log_exact(log, "grad_norm", pending->results[RESULT_NORM]);
    log_real(log, "lr", pending->rate);
    if (t->options->skip_outliers > 0)
        log_literal(log, "skipped", is_skipped(t, pending) ? "true" : "false");
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
    t->skipped += is_skipped(t, pending);
    if (!isfinite(loss) && !is_skipped(t, pending))
        fatal("the loss is not a finite number any more in step %d: use a lower --lr or a longer --warmup",
              step);
    pending->step = 0;
}

/* ---- evaluation, sample, end ---- */

static evaluation_t evaluate_and_log(trainer_t *t, size_t most)
{
    const options_t *o = t->options;
    evaluation_t result = evaluate(&t->model, &t->ring, &t->held_out, o->batch, o->context, most);
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
    fprintf(stderr, "step %d/%d  held-out loss %.4f over %zu %ss\n", t->steps_done, t->options->steps,
            result.loss, result.tokens, unit_of(t));
    t->last = progress_clock();
}

/* The state after the last step, unless it is on the disk already; its time counts for no step. */
static void save(trainer_t *t)
{
    folder_path_t path;
    fault_t fault;
    finish_step(t, t->steps_done);
    if (t->options->checkpoint == NULL || t->place.step == t->saved)
        return;
    double began = progress_clock();
    if (!checkpoint_save(&t->checkpoint, &t->model, t->place, path, &fault))
        fatal("%s", fault.text);
    t->saved = t->place.step;
    t->last = progress_clock();
    log_begin(&t->log, "checkpoint");
    log_count(&t->log, "step", t->place.step);
    log_text(&t->log, "path", path);
    log_real(&t->log, "seconds", t->last - began);
    log_end(&t->log);
}

static void run_steps(trainer_t *t)
{
    const options_t *o = t->options;
    catch_interrupt();
    fault_t fault;
    t->ahead = ahead_open(&t->data, o->seed, t->place.sequences, o->batch, &fault);
    if (t->ahead == NULL)
        fatal("%s", fault.text);
    progress_begin(&t->progress, o->steps);
    t->began = t->last = progress_clock();
    for (int step = t->steps_done + 1; step <= o->steps && !interrupted; step++) {
        issue_step(t, step);
        finish_step(t, step - 1);
        if (o->eval_every > 0 && step % o->eval_every == 0 && step < o->steps)
            evaluate_between(t);
        if (o->checkpoint_every > 0 && step % o->checkpoint_every == 0)
            save(t);
    }
    save(t);
    ahead_close(t->ahead);
    progress_end(&t->progress);
    if (interrupted)
        fprintf(stderr, "interrupted after step %d\n", t->steps_done);
}

static void answer_choices(trainer_t *t)
{
    const options_t *o = t->options;
    if (t->choices.count == 0)
        return;
    choices_score_t score = evaluate_choices(&t->model, &t->ring, &t->choices, o->batch, o->choices_most);
    double count = score.examples;
    printf("choices: %d of %d right (%.2f%%), by mean likelihood of a token %d (%.2f%%)\n", score.right,
           score.examples, 100 * score.right / count, score.right_norm, 100 * score.right_norm / count);
    log_begin(&t->log, "choices");
    log_count(&t->log, "step", (uint64_t)t->steps_done);
    log_count(&t->log, "examples", (uint64_t)score.examples);
    log_real(&t->log, "accuracy", score.right / count);
    log_real(&t->log, "accuracy_norm", score.right_norm / count);
    log_end(&t->log);
}

/* The bytes of a sample: owned by the caller. */
static unsigned char *decode_sample(const trainer_t *t, const int *tokens, size_t count, size_t *length)
{
    unsigned char *text = malloc(count * TOKEN_MAX_BYTES);
    if (text == NULL)
        fatal("no host memory for a sample of %zu tokens", count);
    *length = 0;
    for (size_t i = 0; i < count; i++) {
        size_t bytes;
        const unsigned char *token = tokenizer_decode(&t->tokenizer, tokens[i], &bytes);
        memcpy(text + *length, token, bytes);
        *length += bytes;
    }
    return text;
}

/* Control characters could do anything to a terminal. */
static void print_text(const unsigned char *text, size_t length)
{
    for (size_t i = 0; i < length; i++)
        putchar((text[i] >= 0x20 && text[i] != 0x7f) || text[i] == '\n' || text[i] == '\t' ? text[i] : '.');
    putchar('\n');
}

static void print_sample(trainer_t *t)
{
    const options_t *o = t->options;
    if (o->sample == 0 || t->tokenizer.count == 0) {
        if (o->sample > 0)
            puts("no sample: only --tokenizer FILE could say what the tokens are");
        return;
    }
    size_t count = (size_t)o->sample, length;
    int *tokens = calloc(count, sizeof *tokens);
    if (tokens == NULL)
        fatal("no host memory for a sample of %zu tokens", count);
    sample_tokens(&t->model, &t->ring, o, &t->tokenizer, tokens);
    unsigned char *text = decode_sample(t, tokens, count, &length);
    log_begin(&t->log, "sample");
    log_text(&t->log, "prompt", o->prompt);
    log_bytes(&t->log, "text", text, length);
    log_end(&t->log);
    printf("sample:\n%s", o->prompt);
    print_text(text, length);
    free(text);
    free(tokens);
}

static void finish(trainer_t *t)
{
    double seconds = progress_clock() - t->began;
    bool hurry = interrupted == SIGTERM; /* whoever sends it does not wait for long */
    evaluation_t held_out = {NAN, 0};
    if (!hurry) {
        held_out = evaluate_and_log(t, 0);
        printf("held-out loss %.4f nats per %s, over %zu %ss\n", held_out.loss, unit_of(t), held_out.tokens,
               unit_of(t));
    }
    if (t->skipped > 0)
        printf("%d steps were skipped as outliers\n", t->skipped);
    printf("peak device memory %.1f MiB, %.1f s of training\n", (double)t->gpu.peak_bytes / 0x1p20, seconds);
    if (!hurry) {
        answer_choices(t);
        print_sample(t);
    }

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
    if (t->options->checkpoint != NULL && t->saved > 0)
        printf("checkpoint: step %llu in %s\n", (unsigned long long)t->saved, t->options->checkpoint);
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
    tensor_free_permanent(&t->gpu, &t->results);
    batch_ring_close(&t->ring);
    optimizer_close(&t->optimizer);
    transformer_close(&t->model);
    linear_close(&t->gpu);
    gpu_close(&t->gpu);
    tokenizer_close(&t->tokenizer);
    choices_close(&t->choices);
    dataset_close(&t->data);
    dataset_close(&t->eval_data);
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
