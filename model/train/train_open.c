/* train_open.c: what precedes the first step: files, the device, the model, and what is said of them; and their closing. */
#include "model/train/training.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "model/base/bytes.h"
#include "model/base/check.h"
#include "model/base/rng.h"
#include "model/files/weights.h"
#include "model/layers/linear.h"
#include "model/train/flops.h"
#include "model/train/peak_rate.h"

void take_adapters(options_t *o)
{
    folder_path_t weights, config;
    fault_t fault;
    lora_t lora;
    if (o->lora == NULL)
        return;
    must(checkpoint_find_adapters(o->lora, weights, config, &fault), &fault);
    must(adapter_config_read("--lora", config, &lora, &fault), &fault);
    o->lora_rank = lora.rank;
    o->lora_alpha = lora.alpha;
    o->lora_targets = lora.targets; /* for as long as the process lives */
    int length;
    const char *bad = layout_bad_target(o->family, lora.targets, &length);
    if (bad != NULL)
        usage_error("--lora %s: \"%.*s\" is no matrix of the model's blocks", o->lora, length, bad);
}

/* ---- files ---- */

void must(bool good, const fault_t *fault)
{
    if (!good)
        usage_error("%s", fault->text);
}

void open_tokenizer(tokenizer_t *tokenizer, const options_t *o)
{
    fault_t fault;
    must(tokenizer_open(tokenizer, o->tokenizer, &fault), &fault);
    if (tokenizer->count > o->vocab)
        usage_error("--tokenizer: it has %d tokens, more than the model's %d classes (--vocab)",
                    tokenizer->count, o->vocab);
}

/* The token that ends a document: GPT-2's, where the model has it; of a text the new line. */
static int document_end(const options_t *o, const dataset_t *data)
{
    enum { GPT2_END = 50256 };
    const int usual = data->token_bytes == 1 ? '\n' : GPT2_END,
              end = o->document_end < 0 ? usual : o->document_end;
    if (end >= o->vocab)
        usage_error("--document-end %d: the model has %d classes (--vocab)", end, o->vocab);
    return end;
}

static void open_data(trainer_t *t)
{
    const options_t *o = t->options;
    fault_t fault;
    data_kind_t kind = (data_kind_t)o->data_kind;
    bool separate = o->eval_data != NULL;
    must(dataset_open(&t->data, "--data", o->data, kind, o->vocab, &fault), &fault);
    must(dataset_split(&t->data, o->context, separate, &fault), &fault);
    if (!o->pack)
        must(dataset_find_documents(&t->data, document_end(o, &t->data), &fault), &fault);
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
        open_tokenizer(&t->tokenizer, o);
    if (o->choices != NULL)
        must(choices_open(&t->choices, o->choices, o->vocab, &fault), &fault);
}

/* path may be NULL: no such file is asked for. */
static void must_be_writable(const char *flag, const char *path)
{
    FILE *file = path != NULL ? fopen(path, "ab") : NULL;
    if (path != NULL && file == NULL)
        usage_error("%s %s: %s", flag, path, strerror(errno));
    if (file != NULL)
        fclose(file);
}

void open_files(trainer_t *t)
{
    const options_t *o = t->options;
    fault_t fault;
    open_data(t);
    must_be_writable("--dump", o->dump);
    must_be_writable("--plot", o->plot);
    plot_open(&t->plot, o->plot);
    must(dataset_fingerprint(&t->data, &t->checkpoint.data, &fault), &fault);
    if (o->checkpoint != NULL)
        must(folder_prepare(o->checkpoint, &fault), &fault);
    t->lock = -1;
    if (o->checkpoint != NULL && t->ranks.world.rank == 0)
        must(folder_lock(o->checkpoint, &t->lock, &fault), &fault);
    must(checkpoint_find(o, &t->resumed, t->resumed_from, &fault), &fault);
    if (o->resume != NULL && !t->resumed)
        fprintf(stderr, "no checkpoint in %s yet: the training begins at the beginning\n", o->checkpoint);
    t->checkpoint.options = o;
    t->checkpoint.past = &t->optimizer.past;
    t->checkpoint.end = t->tokenizer.count > 0 ? t->tokenizer.end : 0;
    log_open(&t->log, o->log, t->resumed);
}

/* ---- device ---- */

void load_adapters(const options_t *o, transformer_t *model)
{
    folder_path_t weights, config;
    fault_t fault;
    if (o->lora == NULL)
        return;
    must(checkpoint_find_adapters(o->lora, weights, config, &fault), &fault);
    must(checkpoint_init("--lora", weights, model, true, NULL, &fault), &fault);
}

/* Another beginning than the initial values. */
static void load_model(trainer_t *t)
{
    const options_t *o = t->options;
    fault_t fault;
    const bool adapters = o->lora_rank > 0;
    if (o->init != NULL && (adapters || !t->resumed))
        must(checkpoint_init("--init", o->init, &t->model, false, &t->checkpoint.base, &fault), &fault);
    if (t->resumed)
        must(checkpoint_load(&t->checkpoint, t->resumed_from, &t->model, &t->place, &fault), &fault);
    else
        load_adapters(o, &t->model);
    t->saved = t->place.step;
    t->steps_done = (int)t->place.step;
}

/* Each has looked for the checkpoint by itself. */
static void must_begin_together(trainer_t *t)
{
    float *device = t->results.data, steps = (float)t->place.step, sum = 0;
    if (t->ranks.world.count == 1)
        return;
    CUDA(cudaMemcpyAsync(device, &steps, sizeof steps, cudaMemcpyHostToDevice, t->gpu.stream));
    ranks_all_reduce(&t->ranks, device, 1);
    ranks_join(&t->ranks);
    CUDA(cudaMemcpyAsync(&sum, device, sizeof sum, cudaMemcpyDeviceToHost, t->gpu.stream));
    CUDA(cudaStreamSynchronize(t->gpu.stream));
    if (sum != steps * (float)t->ranks.world.count)
        fatal("rank %d begins after step %llu, others elsewhere: each needs the same checkpoint",
              t->ranks.world.rank, (unsigned long long)t->place.step);
}

size_t workspace_bytes(const options_t *o)
{
    size_t advised = (size_t)32 << 20, largest = (size_t)o->width * (size_t)(8 * o->width) * sizeof(float);
    return o->dtype != DTYPE_BF16 ? 0 : largest < advised ? largest : advised;
}

void open_model(trainer_t *t)
{
    const options_t *o = t->options;
    linear_open(&t->gpu, workspace_bytes(o));
    transformer_open(&t->model, &t->gpu, &t->ranks, o);
    optimizer_open(&t->optimizer, &t->model.parameters, o);
    t->results = tensor_new_permanent(&t->gpu, MEMORY_OTHER, DTYPE_FP32, RESULT_COUNT);
    step_graph_open(&t->graph, &t->gpu, o, STEPS_IN_FLIGHT);
}

/* From --device on, a GPU for each rank of this machine; whoever starts them may have left each of them one. */
static int device_of(const trainer_t *t)
{
    const int local = t->ranks.world.local;
    int count = 1;
    if (local > 0)
        CUDA(cudaGetDeviceCount(&count));
    return t->options->device + (count > 1 ? local : 0);
}

void open_device(trainer_t *t)
{
    const options_t *o = t->options;
    gpu_open(&t->gpu, device_of(t));
    ranks_open(&t->ranks, &t->gpu, t->ranks.world);
    bytes_text_t memory;
    printf("GPU: %s, %s, CUDA driver %d.%d\n", t->gpu.name, bytes_text(memory, t->gpu.total_bytes),
           t->gpu.driver_version / 1000, t->gpu.driver_version % 1000 / 10);
    fflush(stdout);

    open_model(t);
    int slots = STEPS_IN_FLIGHT * o->accumulate;
    batch_ring_open(&t->ring, &t->gpu, o->batch * o->context, o->vocab, slots > 8 ? slots : 8);
    void *pinned = NULL;
    CUDA(cudaMallocHost(&pinned, STEPS_IN_FLIGHT * RESULT_COUNT * sizeof(float)));
    t->pinned = pinned;
    for (int i = 0; i < STEPS_IN_FLIGHT; i++) {
        t->pending[i].results = t->pinned + (size_t)i * RESULT_COUNT;
        CUDA(cudaEventCreate(&t->pending[i].began));
        CUDA(cudaEventCreate(&t->pending[i].done));
    }
    t->dropout_seed = rng_at(o->seed, RNG_DROPOUT);
    t->flops_per_token = (double)flops_per_token(&t->model.layout);
    t->most_tokens_per_s = peak_rate(t->gpu.name, t->model.dtype) / t->flops_per_token;
    load_model(t);
    must_begin_together(t);
    if (t->resumed) {
        fault_t fault;
        must(checkpoint_load_lost(t->resumed_from, &t->model, &t->place, &fault), &fault);
    }
}

void close_model(trainer_t *t)
{
    step_graph_close(&t->graph);
    tensor_free_permanent(&t->gpu, &t->results);
    optimizer_close(&t->optimizer);
    transformer_close(&t->model);
    linear_close(&t->gpu);
}

void close_all(trainer_t *t)
{
    for (int i = 0; i < STEPS_IN_FLIGHT; i++) {
        CUDA(cudaEventDestroy(t->pending[i].began));
        CUDA(cudaEventDestroy(t->pending[i].done));
    }
    CUDA(cudaFreeHost(t->pinned));
    if (t->lock >= 0)
        close(t->lock);
    batch_ring_close(&t->ring);
    close_model(t);
    ranks_close(&t->ranks);
    gpu_close(&t->gpu);
    tokenizer_close(&t->tokenizer);
    choices_close(&t->choices);
    dataset_close(&t->data);
    dataset_close(&t->eval_data);
    log_close(&t->log);
    plot_close(&t->plot);
}

/* ---- words ---- */

static void log_option(void *context, const char *name, const char *value, bool number)
{
    json_log_t *log = context;
    if (number || value == NULL)
        log_literal(log, name, value != NULL ? value : "null");
    else
        log_text(log, name, value);
}

const char *unit_of(const trainer_t *t)
{
    return t->data.token_bytes == 1 ? "byte" : "token";
}

void describe_model(const trainer_t *t)
{
    const shape_t *s = &t->model.shape;
    printf("model: %s, %d layers, width %d, %d heads%s, context %d, %d classes: %zu parameters",
           s->family == FAMILY_LLAMA ? "Llama" : "GPT-2", s->layers, s->width, s->heads,
           s->kv_heads < s->heads ? " that share keys" : "", s->context, s->vocab,
           layout_parameters(&t->model.layout));
    if (t->model.layout.lora.rank > 0)
        printf(", of which %zu are trained: adapters of rank %d", layout_trained(&t->model.layout),
               t->model.layout.lora.rank);
    putchar('\n');
}

void describe_run(trainer_t *t)
{
    const options_t *o = t->options;
    describe_model(t);
    printf("data: %s, %llu %ss for training, %llu held out\n", o->data,
           (unsigned long long)t->data.train_count, unit_of(t), (unsigned long long)t->held_out.count);
    if (t->ranks.world.count > 1)
        printf("training: %d steps of %d x %d x %d sequences, on %d GPUs%s\n", o->steps, t->ranks.world.count,
               o->accumulate, o->batch, t->ranks.world.count,
               (const char *const[]){"", ", optimizer state in shards",
                                     ", optimizer state and gradients in shards",
                                     ", optimizer state, gradients and weights in shards"}[o->zero]);
    else
        printf("training: %d steps of %d x %d sequences\n", o->steps, o->accumulate, o->batch);
    const compression_t *compression = t->model.parameters.compression;
    if (compression != NULL) {
        bytes_text_t compressed, whole;
        printf("gradients: %s of %s from each GPU in each step\n",
               bytes_text(compressed, compression_bytes(compression)),
               bytes_text(whole, layout_parameters(&t->model.layout) * sizeof(float)));
    }
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
    log_count(log, "ranks", (uint64_t)t->ranks.world.count);
    log_count(log, "vocab", (uint64_t)o->vocab);
    log_count(log, "parameters", layout_parameters(&t->model.layout));
    log_count(log, "trained", layout_trained(&t->model.layout));
    log_count(log, "train_tokens", t->data.train_count);
    log_count(log, "held_out_tokens", t->held_out.count);
    log_text(log, "attention", transformer_attention(&t->model));
    log_real(log, "flops_per_token", t->flops_per_token);
    log_text(log, "device_name", t->gpu.name);
    if (t->most_tokens_per_s > 0)
        log_real(log, "device_flops", t->most_tokens_per_s * t->flops_per_token);
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
