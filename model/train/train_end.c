/* train_end.c: evaluations, and what follows the last step: choices, sample, dump, the log's last record. */
#include "model/train/training.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/base/bytes.h"
#include "model/base/check.h"
#include "model/base/clock.h"
#include "model/train/sample.h"

evaluation_t evaluate_and_log(trainer_t *t, size_t most)
{
    const options_t *o = t->options;
    evaluator_t evaluator = {&t->model, &t->ring, &t->progress, &t->ranks};
    evaluation_t result = evaluate(&evaluator, &t->held_out, o->batch, o->context, most);
    log_begin(&t->log, "eval");
    log_count(&t->log, "step", (uint64_t)t->steps_done);
    log_exact(&t->log, "loss", result.loss);
    log_count(&t->log, "tokens", result.tokens);
    log_end(&t->log);
    plot_add(&t->plot, CURVE_HELD_OUT, t->steps_done, result.loss);
    return result;
}

static void answer_choices(trainer_t *t)
{
    const options_t *o = t->options;
    if (t->choices.count == 0)
        return;
    evaluator_t evaluator = {&t->model, &t->ring, &t->progress, &t->ranks};
    choices_score_t score = evaluate_choices(&evaluator, &t->choices, o->batch, o->choices_most);
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

static void print_sample(trainer_t *t)
{
    const options_t *o = t->options;
    if (o->sample == 0 || t->tokenizer.count == 0) {
        if (o->sample > 0)
            puts("no sample: only --tokenizer FILE could say what the tokens are");
        return;
    }
    size_t length;
    unsigned char *text = sample_text(&t->model, &t->ring, o, &t->tokenizer, &length);
    log_begin(&t->log, "sample");
    log_text(&t->log, "prompt", o->prompt);
    log_bytes(&t->log, "text", text, length);
    log_end(&t->log);
    puts("sample:");
    sample_print(o, text, length);
    free(text);
}

void draw(const trainer_t *t)
{
    const options_t *o = t->options;
    char title[512];
    fault_t fault;
    snprintf(title, sizeof title, "ebb-train: %s, %d layers, width %d, context %d, %d x %d sequences a step",
             o->model, o->layers, o->width, o->context, o->accumulate, o->batch);
    if (!plot_write(&t->plot, title, &fault))
        fatal("%s", fault.text);
}

void log_memory(json_log_t *log, const char *key, const size_t bytes[MEMORY_COUNT])
{
    log_object_begin(log, key);
    for (int kind = 0; kind < MEMORY_COUNT; kind++)
        log_count(log, memory_names[kind], bytes[kind]);
    log_object_end(log);
}

void finish(trainer_t *t)
{
    double seconds = clock_seconds() - t->began;
    bool hurry = t->ending == SIGTERM; /* whoever sends it does not wait for long */
    evaluation_t held_out = {NAN, 0};
    if (!hurry) {
        held_out = evaluate_and_log(t, 0);
        printf("held-out loss %.4f nats per %s, over %zu %ss\n", held_out.loss, unit_of(t), held_out.tokens,
               unit_of(t));
    }
    if (t->skipped > 0)
        printf("%d steps were skipped as outliers\n", t->skipped);
    bytes_text_t peak;
    printf("peak device memory %s, %llu launches in a step, %.1f s of training\n",
           bytes_text(peak, t->gpu.peak_bytes), (unsigned long long)t->launches, seconds);
    /* With --zero 3 no rank has the model by itself. */
    if (!hurry && (t->ranks.world.rank == 0 || t->model.parameters.zero == 3)) {
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
    log_memory(log, "peak_by_kind", t->gpu.peak_by);
    log_real(log, "seconds", seconds);
    log_text(log, "state_hash", hex);
    log_end(log);
    if (t->options->checkpoint != NULL && t->saved > 0)
        printf("checkpoint: step %llu in %s\n", (unsigned long long)t->saved, t->options->checkpoint);
    if (log->path != NULL)
        printf("log: %s\n", log->path);
    draw(t);
    if (t->plot.path != NULL)
        printf("plot: %s\n", t->plot.path);
    if (t->options->dump != NULL)
        printf("weights and moments: %s\n", t->options->dump);
}
