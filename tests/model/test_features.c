/* What a training can be told beyond its shape: schedules, decay of embeddings, outliers that are skipped. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "files.h"
#include "model/base/layout.h"
#include "model/kernels/kernels.h"
#include "trainer.h"

#define SMALL "--layers 1 --width 16 --heads 2 --context 16 --batch 2 --sample 0 "

typedef struct steps {
    int count, skipped;
    float loss[512], norm[512];
    double rate[512];
    bool skip[512];
    char hash[32], held_out[32];
} steps_t;

static void read_steps(steps_t *steps, const char *path)
{
    char line[8192], kind[32], text[64];
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    memset(steps, 0, sizeof *steps);
    while (fgets(line, sizeof line, file) != NULL) {
        assert_true(json_text(line, "kind", kind, sizeof kind));
        if (strcmp(kind, "step") == 0) {
            int i = (int)json_number(line, "step");
            assert_in_range(i, 1, 511);
            steps->count = i;
            assert_true(json_text(line, "loss_hex", text, sizeof text));
            steps->loss[i] = strtof(text, NULL);
            assert_true(json_text(line, "grad_norm_hex", text, sizeof text));
            steps->norm[i] = strtof(text, NULL);
            steps->rate[i] = json_number(line, "lr");
            steps->skip[i] = strstr(line, "\"skipped\": true") != NULL;
            steps->skipped += steps->skip[i];
        } else if (strcmp(kind, "final") == 0) {
            assert_true(json_text(line, "state_hash", steps->hash, sizeof steps->hash));
            assert_true(json_text(line, "held_out_loss_hex", steps->held_out, sizeof steps->held_out));
        }
    }
    fclose(file);
}

static outcome_t run(steps_t *steps, const char *format, ...)
{
    char arguments[1400], all[2048], log[256];
    va_list list;
    va_start(list, format);
    vsnprintf(arguments, sizeof arguments, format, list);
    va_end(list);
    snprintf(all, sizeof all, SMALL "--data %s --log %s %s", trainer_text(), files_path(log, "log"),
             arguments);
    outcome_t outcome = trainer_run(all);
    if (outcome.exit_code != 0)
        fail_msg("ebb-train %s: exit code %d: %s", all, outcome.exit_code, outcome.error);
    read_steps(steps, log);
    return outcome;
}

static void schedules_reach_the_training(void **state)
{
    (void)state;
    static const char *const names[] = {"cosine", "constant", "linear", "wsd"};
    static const double rates[][3] = {/* after 2, 6 and 10 of 10 steps */
                                      {1e-3, 0.1e-3 + 0.9e-3 * 0.5, 0.1e-3},
                                      {1e-3, 1e-3, 1e-3},
                                      {1e-3, 0.1e-3 + 0.9e-3 * 0.5, 0.1e-3},
                                      {1e-3, 1e-3, 0.1e-3}};
    static steps_t steps;
    for (int i = 0; i < 4; i++) {
        run(&steps, "--steps 10 --lr 1e-3 --warmup 0.2 --lr-final 0.1 --cooldown 0.4 --schedule %s",
            names[i]);
        for (int k = 0; k < 3; k++)
            if (fabs(steps.rate[2 + 4 * k] - rates[i][k]) > 1e-12)
                fail_msg("%s, step %d: %g instead of %g", names[i], 2 + 4 * k, steps.rate[2 + 4 * k],
                         rates[i][k]);
    }
    files_clean();
}

/* One step with and without it: embeddings differ by rate * decay * initial value, the block not at all. */
static void embeddings_decay_by_their_own_flag(void **state)
{
    (void)state;
    static steps_t steps;
    const double rate = 0.01, decay = 0.3;
    shape_t shape = {.family = FAMILY_GPT2,
                     .layers = 1,
                     .width = 16,
                     .heads = 2,
                     .kv_heads = 2,
                     .hidden = 64,
                     .context = 16,
                     .vocab = 256,
                     .tied = true,
                     .norm_eps = 1e-5,
                     .rope_theta = 1e4,
                     .rope_factor = 1};
    layout_t layout;
    layout_open(&layout, shape, NULL);
    float *initial = malloc(layout.groups[0].count * sizeof *initial), *dumps[2];
    layout_initial(&layout, 0, 1, initial);
    for (int i = 0; i < 2; i++) {
        char path[256];
        size_t size;
        run(&steps, "--steps 1 --warmup 1 --lr %g --decay %g --decay-embeddings %g --dump %s", rate, decay,
            i == 0 ? 0.0 : decay, files_path(path, "dump"));
        dumps[i] = (float *)(void *)files_read(path, &size);
        assert_int_equal(size, 3 * layout_parameters(&layout) * sizeof(float));
    }
    for (size_t i = 0; i < layout.groups[0].count; i++) {
        double expected = i < layout.groups[0].decayed ? -rate * decay * (double)initial[i] : 0;
        if (fabs((double)dumps[1][i] - (double)dumps[0][i] - expected) > 1e-8)
            fail_msg("element %zu: %g and %g", i, (double)dumps[0][i], (double)dumps[1][i]);
    }
    size_t block = 3 * layout.groups[0].count; /* after values and moments of group 0 */
    assert_memory_equal(dumps[0] + block, dumps[1] + block, layout.groups[1].count * sizeof(float));
    free(dumps[0]);
    free(dumps[1]);
    free(initial);
    layout_close(&layout);
    files_clean();
}

/* ---- outliers ---- */

static bool far_above(const float *values, int step, double threshold)
{
    int first = step > OUTLIER_WINDOW ? step - OUTLIER_WINDOW : 1, count = step - first;
    double mean = 0, squares = 0;
    for (int i = first; i < step; i++)
        mean += (double)values[i] / count;
    for (int i = first; i < step; i++)
        squares += ((double)values[i] - mean) * ((double)values[i] - mean);
    return (double)values[step] > mean + threshold * sqrt(squares / (count - 1));
}

/* The decision, recomputed from what the log says of every step. */
static void steps_far_above_the_mean_are_skipped(void **state)
{
    (void)state;
    static steps_t steps;
    outcome_t outcome = run(&steps, "--steps 300 --skip-outliers 1.5");
    assert_int_equal(steps.count, 300);
    for (int step = 1; step <= 300; step++) {
        bool expected =
            step > OUTLIER_LEAST && (far_above(steps.loss, step, 1.5) || far_above(steps.norm, step, 1.5));
        if (steps.skip[step] != expected)
            fail_msg("step %d: skipped %d", step, steps.skip[step]);
    }
    assert_in_range(steps.skipped, 5, 100);
    char words[64];
    snprintf(words, sizeof words, "%d steps were skipped as outliers", steps.skipped);
    assert_non_null(strstr(outcome.out, words));
    files_clean();
}

/* A training that ends with a skipped step ends where it was before it. */
static void skipped_step_changes_nothing(void **state)
{
    (void)state;
    static steps_t steps, before, after;
    static const char flags[] = "--skip-outliers 1.5 --schedule constant --warmup 0";
    run(&steps, "--steps 200 %s", flags);
    int first = 1;
    while (first <= 200 && !steps.skip[first])
        first++;
    assert_in_range(first, OUTLIER_LEAST + 1, 200);
    run(&before, "--steps %d %s", first - 1, flags);
    run(&after, "--steps %d %s", first, flags);
    assert_true(after.skip[first]);
    assert_string_equal(before.hash, after.hash);
    assert_string_equal(before.held_out, after.held_out);
    run(&after, "--steps %d %s --skip-outliers 1000", first, flags); /* taken, it does */
    assert_false(after.skip[first]);
    assert_string_not_equal(before.hash, after.hash);
    files_clean();
}

/* The past is part of a checkpoint. */
static void resumed_training_skips_the_same_steps(void **state)
{
    (void)state;
    static steps_t whole, resumed;
    static const char flags[] = "--skip-outliers 1.2 --schedule constant";
    char folder[256], command[600];
    run(&whole, "--steps 170 %s", flags);
    run(&resumed, "--steps 170 %s --checkpoint %s --checkpoint-every 90", flags, files_path(folder, "kept"));
    snprintf(command, sizeof command, "rm -r %s/step-00000170", folder);
    assert_int_equal(system(command), 0);
    run(&resumed, "--steps 170 %s --checkpoint %s --resume", flags, folder);
    assert_true(whole.skipped > 3);
    assert_memory_equal(whole.skip, resumed.skip, sizeof whole.skip);
    assert_memory_equal(whole.loss, resumed.loss, sizeof whole.loss);
    assert_string_equal(whole.hash, resumed.hash);
    files_clean();
}

/* A decay of a million times each step is soon beyond fp32: nothing is taken from then on, and it is not tried for ever. */
static void losses_that_stay_infinite_end_the_training(void **state)
{
    (void)state;
    static steps_t steps;
    char log[256], arguments[1024];
    snprintf(arguments, sizeof arguments,
             SMALL
             "--data %s --log %s --steps 100 --skip-outliers 3 --lr 1000 --decay 1000 --schedule constant "
             "--warmup 0",
             trainer_text(), files_path(log, "log"));
    outcome_t outcome = trainer_run(arguments);
    assert_int_equal(outcome.exit_code, 1);
    assert_non_null(strstr(outcome.error, "not a finite number in 10 steps in a row"));
    assert_non_null(strstr(outcome.error, "--lr"));
    read_steps(&steps, log);
    assert_in_range(steps.count, 11, 40);
    /* Which of the steps before are finite depends on how the processor rounds: the first ten in a row that are not end it. */
    int in_a_row = 0;
    for (int step = 1; step <= steps.count; step++) {
        assert_in_range(in_a_row, 0, 9);
        assert_int_equal(steps.skip[step], !isfinite(steps.loss[step]) || !isfinite(steps.norm[step]));
        in_a_row = steps.skip[step] ? in_a_row + 1 : 0;
    }
    assert_int_equal(in_a_row, 10);
    files_clean();
}

/* ---- documents ---- */

/* Lines of 1 to 60 bytes, some longer than the context. */
static const char *lines(void)
{
    static char path[256];
    char text[20000];
    size_t n = 0;
    for (uint64_t i = 0; n + 100 < sizeof text; i++) {
        const uint32_t bytes = i % 9 == 8 ? 60 : 1 + files_draw(4, i, 15);
        for (uint32_t k = 0; k < bytes; k++)
            text[n + k] = (char)('a' + files_draw(5, n + k, 26));
        n += bytes;
        text[n++] = '\n';
    }
    trainer_path(path, sizeof path, "lines");
    trainer_write(path, text, n);
    return path;
}

/* However they are spread over micro-batches, and so padded, a step is of the same documents: the same up to the order of sums. */
static void padding_counts_for_nothing(void **state)
{
    (void)state;
    static const char *const spread[] = {"--batch 2 --accumulate 4", "--batch 1 --accumulate 8",
                                         "--batch 2 --accumulate 4 --attention naive --save lean"};
    static steps_t whole, parts;
    run(&whole, "--data %s --pack no --batch 8 --steps 4 --dropout 0", lines());
    for (size_t i = 0; i < sizeof spread / sizeof *spread; i++) {
        run(&parts, "--data %s --pack no --steps 4 --dropout 0 %s", lines(), spread[i]);
        for (int s = 1; s <= 4; s++) {
            assert_true(relative((double)whole.loss[s], (double)parts.loss[s]) < 1e-4);
            assert_true(relative((double)whole.norm[s], (double)parts.norm[s]) < 1e-3);
        }
    }
    run(&parts, "--data %s --batch 8 --steps 4 --dropout 0", lines());
    assert_true(relative((double)whole.loss[4], (double)parts.loss[4]) > 1e-4);
}

static void resumed_training_sees_the_same_documents(void **state)
{
    (void)state;
    static steps_t whole, part;
    char folder[256];
    trainer_path(folder, sizeof folder, "documents");
    run(&whole, "--data %s --pack no --steps 9 --dropout 0.1 --checkpoint %s --checkpoint-every 4 --keep 0",
        lines(), folder);
    run(&part, "--data %s --pack no --steps 9 --dropout 0.1 --resume %s/step-00000004", lines(), folder);
    assert_string_equal(whole.hash, part.hash);
    assert_true(whole.loss[9] == part.loss[9]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(schedules_reach_the_training),
        cmocka_unit_test(embeddings_decay_by_their_own_flag),
        cmocka_unit_test(steps_far_above_the_mean_are_skipped),
        cmocka_unit_test(skipped_step_changes_nothing),
        cmocka_unit_test(resumed_training_skips_the_same_steps),
        cmocka_unit_test(padding_counts_for_nothing),
        cmocka_unit_test(resumed_training_sees_the_same_documents),
        cmocka_unit_test(losses_that_stay_infinite_end_the_training),
    };
    return cmocka_run_group_tests(tests, NULL, trainer_teardown);
}
