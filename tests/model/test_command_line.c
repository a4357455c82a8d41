/* ebb-train as a command: every kind of bad input is one line on stderr that names the remedy, and the right
 * exit code. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "trainer.h"

/* One line, "ebb-train: ...", that contains `words`. */
static void assert_says(const outcome_t *outcome, int exit_code, const char *words)
{
    if (outcome->exit_code != exit_code)
        fail_msg("exit code %d instead of %d: %s", outcome->exit_code, exit_code, outcome->error);
    if (strncmp(outcome->error, "ebb-train: ", 11) != 0 || strstr(outcome->error, words) == NULL)
        fail_msg("stderr does not start with the program's name, or lacks '%s': %s", words, outcome->error);
    const char *end = strchr(outcome->error, '\n');
    if (end == NULL || end[1] != '\0')
        fail_msg("not one line: %s", outcome->error);
}

static void bad_flags_exit_2_with_one_line(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"", "--data FILES is missing"},
        {"--data x --layres 3", "did you mean --layers?"},
        {"--data x --qqqqqqqqqq 3", "unknown flag --qqqqqqqqqq"},
        {"data", "flags start with --"},
        {"--data", "--data needs a value"},
        {"--data x --steps", "--steps needs a value"},
        {"--data x --steps ten", "--steps ten: not a whole number"},
        {"--data x --steps 2.5", "--steps 2.5: not a whole number"},
        {"--data x --steps 10x", "--steps 10x: not a whole number"},
        {"--data x --steps=", "not a whole number"},
        {"--data x --steps -1", "--steps -1: must be between 0 and"},
        {"--data x --batch 0", "--batch 0: must be between 1 and"},
        {"--data x --lr nan", "--lr nan: not a number"},
        {"--data x --dropout 1", "--dropout 1: must be between 0 and 0.95"},
        {"--data x --seed -3", "--seed -3: not a whole number"},
        {"--data x --attention fast", "must be one of auto|flash|tensor|naive"},
        {"--data x --model gpt3", "--model gpt3: no such preset"},
        {"--data x --width 130", "--width 130 is not a multiple of --heads 4"},
        {"--data x --width 6 --heads 2", "not a multiple of 4"},
        {"--data x --kv-heads 3", "--heads 4 is not a multiple of --kv-heads 3"},
        {"--data x --hidden 30", "--hidden 30 is not a multiple of 4"},
        {"--data x --model llama:tiny --width 12 --heads 4 --kv-heads 4", "heads of 3 channels"},
        {"--data x --tied maybe", "must be one of no|yes"},
        {"--data x --dtype fp16", "must be one of fp32|bf16"},
        {"--data x --dtype bf16 --heads 32", "that are multiples of 8"},
        {"--data x --width 1024 --heads 2", "heads of 512 channels"},
        {"--data x --batch 1000000 --context 100000", "too large"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        outcome_t outcome = trainer_run(cases[i][0]);
        assert_says(&outcome, 2, cases[i][1]);
        assert_string_equal(outcome.out, "");
    }
}

static void bad_files_exit_2_with_one_line(void **state)
{
    (void)state;
    char path[128], arguments[512];
    trainer_path(path, sizeof path, "short");
    trainer_write(path, "In the beginning", 16);
    snprintf(arguments, sizeof arguments, "--data %s", path);
    outcome_t outcome = trainer_run(arguments);
    assert_says(&outcome, 2, "is too short for a context of 64 tokens, which needs 68");
    trainer_write(path, "", 0);
    outcome = trainer_run(arguments);
    assert_says(&outcome, 2, "too short");

    outcome = trainer_run("--data /nowhere/at/all");
    assert_says(&outcome, 2, "--data /nowhere/at/all: No such file");
    outcome = trainer_run("--data /");
    assert_says(&outcome, 2, "not a regular file");
    snprintf(arguments, sizeof arguments, "--data %s --log /nowhere/log", trainer_text());
    outcome = trainer_run(arguments);
    assert_says(&outcome, 2, "--log /nowhere/log: No such file");
    snprintf(arguments, sizeof arguments, "--data %s --dump /nowhere/dump", trainer_text());
    outcome = trainer_run(arguments);
    assert_says(&outcome, 2, "--dump /nowhere/dump: No such file");
}

/* 68 bytes: 65 for training (one sequence), 3 held out. One byte less is refused above. */
static void shortest_text_is_enough(void **state)
{
    (void)state;
    char path[128], arguments[512], text[68];
    memset(text, 'a', sizeof text);
    trainer_path(path, sizeof path, "short");
    trainer_write(path, text, sizeof text);
    snprintf(arguments, sizeof arguments, "--data %s --steps 1 --width 16 --batch 1 --sample 3", path);
    assert_int_equal(trainer_run(arguments).exit_code, 0);
    trainer_write(path, text, sizeof text - 1);
    outcome_t outcome = trainer_run(arguments);
    assert_says(&outcome, 2, "needs 68");
}

static void device_that_is_not_there_exits_2(void **state)
{
    (void)state;
    char arguments[512];
    snprintf(arguments, sizeof arguments, "--data %s --device 1000", trainer_text());
    outcome_t outcome = trainer_run(arguments);
    assert_says(&outcome, 2, "numbered from 0");
}

/* 10,000 layers of 800 MB: more than any device has. The software device is made small, so that this is soon
 * over. */
static void out_of_memory_exits_1_and_names_bytes_and_flags(void **state)
{
    (void)state;
    char arguments[512];
    setenv("SOFTGPU_MEMORY", "67108864", 1);
    snprintf(arguments, sizeof arguments, "--data %s --layers 10000 --width 2048 --heads 16", trainer_text());
    outcome_t outcome = trainer_run(arguments);
    unsetenv("SOFTGPU_MEMORY");
    assert_says(&outcome, 1, "out of device memory: asked for ");
    assert_non_null(strstr(outcome.error, "--batch"));
}

static void loss_that_is_not_finite_exits_1(void **state)
{
    (void)state;
    char arguments[512];
    snprintf(arguments, sizeof arguments,
             "--data %s --steps 30 --width 16 --batch 1 --lr 1000 --decay 1000 --clip 0", trainer_text());
    outcome_t outcome = trainer_run(arguments);
    assert_int_equal(outcome.exit_code, 1);
    assert_non_null(strstr(outcome.error, "ebb-train: the loss is not a finite number any more"));
}

static void help_lists_every_flag_with_its_default(void **state)
{
    (void)state;
    static const char *const words[] = {"usage: ebb-train --data FILES",
                                        "Model\n",
                                        "Training\n",
                                        "--lr RATE",
                                        "--accumulate N",
                                        "(default 2300)",
                                        "(default 0.004, or the preset's)",
                                        "--attention auto|flash|tensor|naive",
                                        "Exit codes"};
    outcome_t outcome = trainer_run("--help");
    assert_int_equal(outcome.exit_code, 0);
    assert_string_equal(outcome.error, "");
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strstr(outcome.out, words[i]) == NULL)
            fail_msg("--help lacks '%s'", words[i]);
    assert_string_equal(trainer_run("-h").out, outcome.out);
    outcome = trainer_run("--version");
    assert_int_equal(outcome.exit_code, 0);
    assert_memory_equal(outcome.out, "ebb-train ", 10);
}

/* A whole line, as scripts read it. */
static void assert_step_line(const char *text, int step)
{
    char beginning[16];
    double loss, norm, rate, ms, tokens_per_s;
    int taken = 0;
    snprintf(beginning, sizeof beginning, "\nstep %d/2 | ", step);
    const char *line = strstr(text, beginning);
    assert_non_null(line);
    assert_int_equal(sscanf(line + strlen(beginning),
                            "loss %lf | norm %lf | lr %lf | %lf ms | %lf tok/s | %*f KiB | 0s left%n", &loss,
                            &norm, &rate, &ms, &tokens_per_s, &taken),
                     5);
    assert_true(taken > 0 && line[strlen(beginning) + (size_t)taken] == '\n');
    assert_true(loss > 5 && loss < 6 && norm > 0 && rate > 0 && ms >= 0 && tokens_per_s > 0);
}

static void run_says_device_held_out_loss_sample_and_log(void **state)
{
    (void)state;
    char log[128], arguments[512], expected[256];
    trainer_path(log, sizeof log, "log");
    snprintf(arguments, sizeof arguments,
             "--data %s --log %s --steps 2 --width 16 --batch 1 --sample 40 --prompt Bada --top-k 5",
             trainer_text(), log);
    outcome_t outcome = trainer_run(arguments);
    assert_int_equal(outcome.exit_code, 0);
    assert_int_equal(strncmp(outcome.out, "GPU: ", 5), 0);
    assert_non_null(strstr(outcome.out, "held-out loss "));
    assert_non_null(strstr(outcome.out, "sample:\nBada"));
    snprintf(expected, sizeof expected, "\nlog: %s\n", log);
    assert_non_null(strstr(outcome.out, expected));
    assert_string_equal(outcome.error, "");
    for (int step = 1; step <= 2; step++)
        assert_step_line(outcome.out, step);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bad_flags_exit_2_with_one_line),
        cmocka_unit_test(bad_files_exit_2_with_one_line),
        cmocka_unit_test(shortest_text_is_enough),
        cmocka_unit_test(device_that_is_not_there_exits_2),
        cmocka_unit_test(out_of_memory_exits_1_and_names_bytes_and_flags),
        cmocka_unit_test(loss_that_is_not_finite_exits_1),
        cmocka_unit_test(help_lists_every_flag_with_its_default),
        cmocka_unit_test(run_says_device_held_out_loss_sample_and_log),
    };
    return cmocka_run_group_tests(tests, NULL, trainer_teardown);
}
