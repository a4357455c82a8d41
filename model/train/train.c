#include "model/train/train.h"

#include <math.h>
#include <stdio.h>

#include "model/base/check.h"
#include "model/base/clock.h"
#include "model/base/ranges.h"
#include "model/kernels/launches.h"
#include "model/train/training.h"

static volatile sig_atomic_t interrupted; /* by this signal; 0: by none */

/* So many steps in a row without a finite loss and gradient (--skip-outliers): no step will be taken any more. */
#define LOST_STEPS 10

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

/* Targets of the step that is about to begin, of all ranks. */
static size_t tokens_of_step(const trainer_t *t)
{
    const options_t *o = t->options;
    const size_t sequences = (size_t)o->batch * (size_t)o->accumulate * (size_t)t->ranks.world.count;
    size_t tokens = 0;
    for (size_t i = 0; i < sequences; i++)
        tokens += (size_t)dataset_sequence_rows(&t->data, o->seed, t->place.sequences + i);
    return tokens;
}

/* ---- a step ---- */

/* What a rank says of the signal it got: little for an interrupt, so that a sum of many is still less than one for a termination. */
#define SIGNAL_INTERRUPT 0x01 /* each byte of the float: 2.4e-38 */
#define SIGNAL_TERMINATE 0x40 /* 3.0 */

static int signal_of(float sum)
{
    return sum > 1.0f ? SIGTERM : sum > 0.0f ? SIGINT : 0;
}

/* The loss, and whether somebody is to stop. */
static void sum_results(trainer_t *t)
{
    float *results = t->results.data;
    const int word = interrupted == SIGTERM ? SIGNAL_TERMINATE : interrupted ? SIGNAL_INTERRUPT : 0;
    if (t->ranks.world.count == 1)
        return;
    CUDA(cudaMemsetAsync(results + RESULT_SIGNAL, word, sizeof(float), t->gpu.stream));
    launched();
    ranks_all_reduce(&t->ranks, results, RESULT_SUMMED);
    ranks_join(&t->ranks);
}

static void issue_micro_batch(trainer_t *t, int micro, size_t tokens)
{
    range_begin("micro-batch");
    const options_t *o = t->options;
    const uint64_t ranks = (uint64_t)t->ranks.world.count;
    const int *inputs, *targets;
    int T;
    fault_t fault;
    must(ahead_next(t->ahead, &inputs, &targets, &T, &fault), &fault);
    micro_batch_t what = {.loss = (float *)t->results.data + RESULT_LOSS,
                          .scale = (float)(1.0 / (double)tokens),
                          .accumulate = micro > 0,
                          .dropout = (float)o->dropout,
                          .seed = t->dropout_seed,
                          .number = t->place.micro_batches + (uint64_t)t->ranks.world.rank,
                          .last = micro + 1 == o->accumulate};
    if (t->graph.ready) {
        step_graph_train(&t->graph, &t->model, &t->ring, inputs, targets, what);
    } else {
        batch_t batch = batch_upload(&t->ring, inputs, targets, o->batch, T);
        transformer_train(&t->model, &batch, what);
        batch_free(&t->ring, &batch);
    }
    t->place.micro_batches += ranks;
    t->place.sequences += (uint64_t)o->batch * ranks;
    range_end();
}

static void issue_step(trainer_t *t, int step)
{
    range_begin("step");
    pending_t *pending = &t->pending[step % STEPS_IN_FLIGHT];
    pending->step = step;
    t->gpu.span_peak_bytes = t->gpu.live_bytes;
    pending->rate = optimizer_rate(t->options, step);
    pending->tokens = tokens_of_step(t);
    uint64_t before = launches_issued;
    CUDA(cudaEventRecord(pending->began, t->gpu.stream));
    if (step > t->first_step)
        (void)step_graph_ready(&t->graph, &t->model.parameters);
    for (int micro = 0; micro < t->options->accumulate; micro++)
        issue_micro_batch(t, micro, pending->tokens);
    sum_results(t);
    float *result = (float *)t->results.data + RESULT_NORM;
    const float *loss = (const float *)t->results.data + RESULT_LOSS;
    if (t->graph.ready)
        step_graph_optimize(&t->graph, &t->optimizer, result, loss, pending->rate, step);
    else
        optimizer_step(&t->optimizer, result, loss, pending->rate, step);
    CUDA(cudaMemcpyAsync(pending->results, t->results.data, t->results.bytes, cudaMemcpyDeviceToHost,
                         t->gpu.stream));
    launched();
    pending->launches = t->launches = launches_issued - before;
    CUDA(cudaEventRecord(pending->done, t->gpu.stream));
    pending->device_bytes = t->gpu.live_bytes;
    pending->span_peak_bytes = t->gpu.span_peak_bytes;
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
    float device_ms = 0;
    CUDA(cudaEventElapsedTime(&device_ms, pending->began, pending->done));
    log_begin(log, "step");
    log_count(log, "step", (uint64_t)pending->step);
    log_exact(log, "loss", pending->results[RESULT_LOSS]);
    log_exact(log, "grad_norm", pending->results[RESULT_NORM]);
    log_real(log, "lr", pending->rate);
    if (t->options->skip_outliers > 0)
        log_literal(log, "skipped", is_skipped(t, pending) ? "true" : "false");
    double tokens_per_s = (double)pending->tokens / seconds;
    log_real(log, "tokens_per_s", tokens_per_s);
    if (t->most_tokens_per_s > 0)
        log_real(log, "mfu", tokens_per_s / t->most_tokens_per_s);
    log_real(log, "left_s", progress_left(&t->progress, pending->step));
    log_real(log, "ms", 1e3 * seconds);
    log_real(log, "device_ms", (double)device_ms);
    log_count(log, "launches", pending->launches);
    log_count(log, "device_bytes", pending->device_bytes);
    log_count(log, "peak_bytes", t->gpu.peak_bytes);
    log_end(log);
}

/* A step that was skipped left the model as it was: if its numbers are not finite, those of the next may not be, either. */
static void count_skipped(trainer_t *t, const pending_t *pending)
{
    bool skipped = is_skipped(t, pending);
    bool finite = isfinite(pending->results[RESULT_LOSS]) && isfinite(pending->results[RESULT_NORM]);
    t->skipped += skipped;
    t->lost = skipped && !finite ? t->lost + 1 : 0;
    if (t->lost == LOST_STEPS)
        fatal("the loss or the gradient was not a finite number in %d steps in a row, the last of which is "
              "step %d: use a lower --lr or a longer --warmup%s",
              LOST_STEPS, pending->step,
              t->saved > 0 ? ", or go on from a checkpoint before them (--resume FOLDER)" : "");
}

/* Waits for a step, if it is still pending, and reports it. */
static void finish_step(trainer_t *t, int step)
{
    pending_t *pending = &t->pending[step % STEPS_IN_FLIGHT];
    if (step < 1 || pending->step != step)
        return;
    CUDA(cudaEventSynchronize(pending->done));
    double now = clock_seconds(), seconds = now - t->last;
    t->last = now;
    float loss = pending->results[RESULT_LOSS];
    progress_step(&t->progress, (step_done_t){step, loss, pending->results[RESULT_NORM], pending->rate,
                                              seconds, pending->tokens, t->gpu.peak_bytes});
    log_step(t, pending, seconds);
    plot_add(&t->plot, CURVE_LOSS, step, loss);
    plot_add(&t->plot, CURVE_PEAK, step, (double)pending->span_peak_bytes);
    plot_add(&t->plot, CURVE_KEPT, step, (double)pending->device_bytes);
    count_skipped(t, pending);
    if (!isfinite(loss) && !is_skipped(t, pending))
        fatal("the loss is not a finite number any more in step %d: use a lower --lr or a longer --warmup",
              step);
    if (t->ranks.world.count > 1)
        t->ending = signal_of(pending->results[RESULT_SIGNAL]);
    pending->step = 0;
}

/* ---- between two steps ---- */

/* The evaluation after a step in the middle of the training; its time counts for no step. */
static void evaluate_between(trainer_t *t)
{
    finish_step(t, t->steps_done);
    evaluation_t result = evaluate_and_log(t, (size_t)t->options->eval_batches);
    printf("step %d/%d | held-out loss %.4f over %zu %ss\n", t->steps_done, t->options->steps, result.loss,
           result.tokens, unit_of(t));
    fflush(stdout);
    draw(t);
    t->last = clock_seconds();
}

/* The state after the last step, unless it is on the disk already; its time counts for no step. */
static void save(trainer_t *t)
{
    folder_path_t path;
    fault_t fault;
    finish_step(t, t->steps_done);
    if (t->options->checkpoint == NULL || t->place.step == t->saved)
        return;
    double began = clock_seconds();
    if (!checkpoint_save(&t->checkpoint, &t->model, t->place, path, &fault))
        fatal("%s", fault.text);
    t->saved = t->place.step;
    t->last = clock_seconds();
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
    const uint64_t mine = (uint64_t)t->ranks.world.rank * (uint64_t)o->batch,
                   all = (uint64_t)t->ranks.world.count * (uint64_t)o->batch;
    t->ahead = ahead_open(&t->data, o->seed, t->place.sequences + mine, all, o->batch, &fault);
    if (t->ahead == NULL)
        fatal("%s", fault.text);
    progress_begin(&t->progress, o->steps, t->most_tokens_per_s);
    t->began = t->last = clock_seconds();
    t->first_step = t->steps_done + 1;
    for (int step = t->first_step; step <= o->steps && !t->ending; step++) {
        issue_step(t, step);
        finish_step(t, step - 1);
        if (o->eval_every > 0 && step % o->eval_every == 0 && step < o->steps)
            evaluate_between(t);
        if (o->checkpoint_every > 0 && step % o->checkpoint_every == 0)
            save(t);
        if (t->ranks.world.count == 1)
            t->ending = interrupted;
    }
    save(t);
    if (t->ranks.world.count == 1)
        t->ending = interrupted; /* perhaps meanwhile */
    ahead_close(t->ahead);
    progress_end(&t->progress);
    if (t->ending && t->ranks.world.rank == 0)
        fprintf(stderr, "interrupted after step %d\n", t->steps_done);
}

/* ---- the whole ---- */

void train(const options_t *options, world_t world)
{
    trainer_t trainer = {.options = options, .ranks.world = world};
    open_files(&trainer);
    open_device(&trainer);
    describe_run(&trainer);
    run_steps(&trainer);
    finish(&trainer);
    close_all(&trainer);
}
