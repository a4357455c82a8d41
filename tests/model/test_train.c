/* Whole runs compared with each other: the same bits from run to run, the same numbers to rounding where the
 * order of sums differs, memory that comes back, losses that fall. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <math.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "model/base/rng.h"
#include "trainer.h"

#define SMALL "--layers 2 --width 48 --heads 3 --context 40 --batch 3 --steps 6 --warmup 0.2 "
#define BF16  "--dtype bf16 " SMALL
#define LLAMA "--model llama:tiny --kv-heads 1 --hidden 72 " SMALL

static void assert_same_bits(const history_t *a, const history_t *b)
{
    assert_int_equal(a->steps, b->steps);
    for (int i = 0; i < a->steps; i++) {
        assert_string_equal(a->loss_hex[i], b->loss_hex[i]);
        assert_string_equal(a->grad_norm_hex[i], b->grad_norm_hex[i]);
    }
    assert_string_equal(a->held_out_loss_hex, b->held_out_loss_hex);
    assert_string_equal(a->state_hash, b->state_hash);
}

/* Losses agree to rounding, but not in every bit: the two runs did take different ways. */
static void assert_same_to_rounding(const history_t *a, const history_t *b, double tolerance)
{
    double worst = relative(a->held_out_loss, b->held_out_loss);
    assert_int_equal(a->steps, b->steps);
    for (int i = 0; i < a->steps; i++)
        worst = fmax(worst, relative(a->loss[i], b->loss[i]));
    print_message("largest relative difference of a loss: %.1e\n", worst);
    assert_true(worst < tolerance);
    assert_string_not_equal(a->state_hash, b->state_hash);
}

static void two_runs_have_the_same_bits(void **state)
{
    (void)state;
    static const char *const ways[] = {SMALL,
                                       SMALL "--attention naive",
                                       SMALL "--dropout 0.2 --accumulate 2",
                                       SMALL "--dropout 0.2 --attention naive --accumulate 2",
                                       LLAMA,
                                       LLAMA "--dropout 0.2 --accumulate 2 --tied yes",
                                       LLAMA "--dropout 0.2 --attention naive",
                                       BF16 "--accumulate 2",
                                       BF16 "--dropout 0.2 --rounding stochastic",
                                       BF16 "--dropout 0.2 --attention naive",
                                       LLAMA BF16 "--dropout 0.1"};
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        history_t first = trainer_train(ways[i]);
        setenv("SOFTGPU_WORKERS", "1", 1); /* the software device: nor does the number of threads matter */
        history_t second = trainer_train(ways[i]);
        unsetenv("SOFTGPU_WORKERS");
        assert_same_bits(&first, &second);
    }
}

/* It allocates and frees, so that later steps find other addresses. */
static void an_evaluation_in_between_changes_nothing(void **state)
{
    (void)state;
    history_t without = trainer_train(SMALL "--dropout 0.1");
    history_t with = trainer_train(SMALL "--dropout 0.1 --eval-every 2 --eval-batches 3");
    assert_same_bits(&without, &with);
}

static void another_seed_is_another_run(void **state)
{
    (void)state;
    history_t one = trainer_train(SMALL), two = trainer_train(SMALL "--seed 2");
    assert_string_not_equal(one.state_hash, two.state_hash);
    assert_string_not_equal(one.loss_hex[0], two.loss_hex[0]);
}

static void flash_and_naive_attention_agree(void **state)
{
    (void)state;
    history_t flash = trainer_train(SMALL), naive = trainer_train(SMALL "--attention naive");
    assert_same_to_rounding(&flash, &naive, 2e-5);
}

/* Both drop the same probabilities, so this holds with dropout too; and dropout does something. */
static void flash_and_naive_attention_agree_with_dropout(void **state)
{
    (void)state;
    history_t flash = trainer_train(SMALL "--dropout 0.3"),
              naive = trainer_train(SMALL "--dropout 0.3 --attention naive");
    assert_same_to_rounding(&flash, &naive, 2e-5);
    history_t plain = trainer_train(SMALL);
    assert_true(relative(flash.loss[0], plain.loss[0]) > 1e-4);
    flash = trainer_train(LLAMA "--dropout 0.3");
    naive = trainer_train(LLAMA "--dropout 0.3 --attention naive");
    assert_same_to_rounding(&flash, &naive, 2e-5);
}

static void assert_accumulating_is_one_batch(const char *model)
{
    char arguments[512];
    snprintf(arguments, sizeof arguments, "%s --batch 8 --accumulate 1", model);
    history_t together = trainer_train(arguments);
    snprintf(arguments, sizeof arguments, "%s --batch 1 --accumulate 8", model);
    history_t apart = trainer_train(arguments);
    assert_same_to_rounding(&together, &apart, 2e-5);
    assert_true(apart.peak_bytes < together.peak_bytes);
    for (int i = 0; i < together.steps; i++)
        assert_true(relative(together.grad_norm[i], apart.grad_norm[i]) < 1e-4);
}

/* In BF16, too; and stochastic rounding is another way that leads there. */
static void flash_and_naive_attention_agree_in_bf16(void **state)
{
    (void)state;
    history_t flash = trainer_train(BF16 "--dropout 0.3"),
              naive = trainer_train(BF16 "--dropout 0.3 --attention naive"),
              single = trainer_train(SMALL "--dropout 0.3"),
              stochastic = trainer_train(BF16 "--dropout 0.3 --rounding stochastic");
    assert_same_to_rounding(&flash, &naive, 2e-3);
    assert_same_to_rounding(&flash, &single, 2e-3);
    assert_same_to_rounding(&flash, &stochastic, 2e-3);
    assert_true(flash.peak_bytes < single.peak_bytes);
}

static void accumulating_eight_of_one_is_one_of_eight(void **state)
{
    (void)state;
    assert_accumulating_is_one_batch(SMALL);
    assert_accumulating_is_one_batch(LLAMA);
}

static void loss_falls(void **state)
{
    (void)state;
    history_t h =
        trainer_train("--layers 2 --width 64 --heads 4 --context 32 --batch 8 --steps 60 --dropout 0.05");
    assert_true(fabs(h.loss[0] - log(256)) < 0.3); /* knows nothing yet */
    assert_true(h.loss[59] < 3.2 && h.held_out_loss < 3.2);
}

/* What a step allocates is freed by its end; attention that stores T x T needs more, dropout more still. */
static void memory_comes_back_after_each_step(void **state)
{
    (void)state;
#define LONG "--layers 2 --width 32 --heads 4 --context 256 --batch 2 --steps 3 "
    history_t flash = trainer_train(LONG "--dropout 0.1"),
              naive = trainer_train(LONG "--dropout 0.1 --attention naive");
    history_t plain = trainer_train(LONG "--attention naive");
    for (int i = 0; i < 3; i++) {
        assert_true(flash.device_bytes[i] == flash.device_bytes[0]);
        assert_true(naive.device_bytes[i] == flash.device_bytes[0]);
    }
    double scores = 2.0 * 4 * 256 * 256 * sizeof(float); /* of one layer */
    assert_true(naive.peak_bytes - flash.peak_bytes > 3 * scores);
    assert_true(naive.peak_bytes - plain.peak_bytes > 1.5 * scores);
    assert_true(flash.peak_bytes > flash.device_bytes[0]);
}

/* The logits of 1536 rows of 65536 classes would be 384 MiB in fp32: they are made for 512 rows at a time, and make what those
 * of 512 rows make that are all of a micro-batch. */
static void logits_are_never_held_whole(void **state)
{
    (void)state;
#define CLASSES "--layers 1 --width 16 --heads 2 --context 256 --vocab 65536 --steps 2 "
    static const char *const types[] = {"", "--dtype bf16 "};
    for (int i = 0; i < 2; i++) {
        char arguments[256];
        snprintf(arguments, sizeof arguments, CLASSES "%s--batch 6", types[i]);
        history_t chunks = trainer_train(arguments);
        snprintf(arguments, sizeof arguments, CLASSES "%s--batch 2 --accumulate 3", types[i]);
        history_t whole = trainer_train(arguments);
        assert_same_to_rounding(&chunks, &whole, 1e-5);
        for (int step = 0; step < 2; step++)
            assert_true(relative(chunks.grad_norm[step], whole.grad_norm[step]) < (i == 0 ? 1e-5 : 1e-3));
        const double row = 65536.0 * (i == 0 ? 4 : 4 + 2); /* bytes of a row's logits and of their gradient */
        print_message("at the peak: %.1f MiB, %.1f with micro-batches\n", chunks.peak_bytes / 0x1p20,
                      whole.peak_bytes / 0x1p20);
        assert_true(chunks.peak_bytes < whole.peak_bytes + 0.1 * 1536 * row);
        assert_true(chunks.peak_bytes > 512 * row && chunks.peak_bytes < 512 * row + 0.25 * 1536 * row);
    }
}

/* --dump writes what the hash is taken over. */
static void dump_has_the_state_that_the_hash_names(void **state)
{
    (void)state;
    char path[128], arguments[512], hash_text[32];
    trainer_path(path, sizeof path, "dump");
    snprintf(arguments, sizeof arguments, SMALL "--dump %s", path);
    history_t history = trainer_train(arguments);
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    uint64_t hash = 0, word;
    size_t bytes = 0;
    while (fread(&word, 1, sizeof word, file) == sizeof word) {
        hash = rng_hash(hash, word);
        bytes += sizeof word;
    }
    fclose(file);
    const size_t C = 48, embedding = 256 * C + 40 * C + 2 * C, block = 12 * C * C + 13 * C;
    assert_int_equal(bytes, 3 * sizeof(float) * (embedding + 2 * block));
    snprintf(hash_text, sizeof hash_text, "%016llx", (unsigned long long)hash);
    assert_string_equal(hash_text, history.state_hash);
}

static void no_steps_is_an_evaluation_of_the_initial_model(void **state)
{
    (void)state;
    history_t h = trainer_train("--steps 0 --layers 1 --width 16 --heads 1");
    assert_int_equal(h.steps, 0);
    assert_true(fabs(h.held_out_loss - log(256)) < 0.2);
}

/* Ctrl-C: the step is finished, evaluation and final record follow, exit code 0. */
static void interrupt_ends_the_training_in_good_order(void **state)
{
    (void)state;
    char log[128], arguments[512];
    trainer_path(log, sizeof log, "log");
    unlink(log);
    snprintf(arguments, sizeof arguments, "--data %s --log %s --sample 0 --steps 1000000 --width 16",
             trainer_text(), log);
    int process = trainer_start(arguments);
    struct timespec pause = {.tv_nsec = 20 * 1000 * 1000};
    while (access(log, R_OK) != 0 || trainer_read_log(log).steps < 2) {
        assert_int_equal(waitpid(process, NULL, WNOHANG), 0); /* still training */
        nanosleep(&pause, NULL);
    }
    kill(process, SIGINT);
    outcome_t outcome = trainer_wait(process);
    assert_int_equal(outcome.exit_code, 0);
    assert_non_null(strstr(outcome.error, "interrupted after step "));
    history_t history = trainer_read_log(log);
    assert_int_equal(history.final_steps, history.steps);
    assert_true(history.steps >= 2 && history.steps < 1000000 && history.held_out_loss > 0);
}

/* The NVTX ranges, as a tool sees them (nvtx_recorder.c): their order and nesting in one step. */
static void ranges_name_step_layers_and_operations(void **state)
{
    (void)state;
    static const char forward[] =
        "forward{embedding{}layer 0{attention{}mlp{}}layer 1{attention{}mlp{}}head{}}";
    static const char backward[] =
        "backward{head{}layer 1{mlp{}attention{}}layer 0{mlp{}attention{}}embedding{}}";
    char path[128], expected[1024], ranges[4096];
    trainer_path(path, sizeof path, "ranges");
    setenv("NVTX_INJECTION64_PATH", NVTX_RECORDER, 1);
    setenv("NVTX_RECORDER_FILE", path, 1);
    history_t history = trainer_train("--layers 2 --width 16 --steps 1 --accumulate 2");
    unsetenv("NVTX_INJECTION64_PATH");
    unsetenv("NVTX_RECORDER_FILE");
    assert_int_equal(history.steps, 1);

    FILE *file = fopen(path, "r");
    if (file == NULL)
        fail_msg("the trainer did not load the recorder");
    ranges[fread(ranges, 1, sizeof ranges - 1, file)] = '\0';
    fclose(file);
    snprintf(expected, sizeof expected, "step{micro-batch{%s%s}micro-batch{%s%s}optimizer{}}evaluation{",
             forward, backward, forward, backward);
    ranges[strlen(expected)] = '\0';
    assert_string_equal(ranges, expected);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_runs_have_the_same_bits),
        cmocka_unit_test(an_evaluation_in_between_changes_nothing),
        cmocka_unit_test(another_seed_is_another_run),
        cmocka_unit_test(flash_and_naive_attention_agree),
        cmocka_unit_test(flash_and_naive_attention_agree_with_dropout),
        cmocka_unit_test(flash_and_naive_attention_agree_in_bf16),
        cmocka_unit_test(accumulating_eight_of_one_is_one_of_eight),
        cmocka_unit_test(loss_falls),
        cmocka_unit_test(memory_comes_back_after_each_step),
        cmocka_unit_test(logits_are_never_held_whole),
        cmocka_unit_test(dump_has_the_state_that_the_hash_names),
        cmocka_unit_test(interrupt_ends_the_training_in_good_order),
        cmocka_unit_test(ranges_name_step_layers_and_operations),
        cmocka_unit_test(no_steps_is_an_evaluation_of_the_initial_model),
    };
    return cmocka_run_group_tests(tests, NULL, trainer_teardown);
}
