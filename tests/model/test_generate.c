/* ebb-train generate: from a checkpoint, without data, the sample that the training ended with; in the memory of the weights
 * alone; and from safetensors that the trainer has not made a checkpoint of. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "files.h"
#include "trainer.h"

/* More than the context, so that the window moves. */
#define SAMPLE "--sample 100 --prompt Bada --seed 5 --top-k 20"

/* A checkpoint in files_path("run"), and the sample after it. */
static void train(const char *arguments, char *sample, size_t size)
{
    char run[256], all[1024];
    snprintf(all, sizeof all, "--data %s --checkpoint %s --batch 2 %s", trainer_text(),
             files_path(run, "run"), arguments);
    outcome_t outcome = trainer_run(all);
    if (outcome.exit_code != 0)
        fail_msg("ebb-train %s: %s", all, outcome.error);
    const char *begin = strstr(outcome.out, "\nsample:\n"), *end = strstr(outcome.out, "\ncheckpoint: step ");
    assert_true(begin != NULL && end != NULL);
    begin += strlen("\nsample:\n");
    snprintf(sample, size, "%.*s\n", (int)(end - begin), begin);
}

static outcome_t generate(const char *checkpoint, const char *arguments)
{
    char all[1024];
    snprintf(all, sizeof all, "generate --checkpoint %s %s", checkpoint, arguments);
    outcome_t outcome = trainer_run(all);
    if (outcome.exit_code != 0)
        fail_msg("ebb-train %s: exit code %d: %s", all, outcome.exit_code, outcome.error);
    assert_string_equal(outcome.error, "");
    return outcome;
}

static void copy_file(const char *from, const char *to)
{
    size_t count;
    unsigned char *bytes = files_read(from, &count);
    files_write(to, bytes, count);
    free(bytes);
}

static void sample_is_that_of_the_training(void **state)
{
    (void)state;
    static const char *const models[] = {
        "--steps 20 --width 32 --context 24 --tied no",
        "--steps 20 --model llama:tiny --width 64 --hidden 72 --kv-heads 1 --context 24 --dtype bf16",
        "--steps 20 --model llama:tiny --width 32 --context 24 --rope-theta 700 --rope-factor 8 --norm-eps "
        "1e-3",
    };
    for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
        char arguments[512], sample[1024], run[256], path[400];
        snprintf(arguments, sizeof arguments, "%s %s", models[i], SAMPLE);
        train(arguments, sample, sizeof sample);
        assert_int_equal(strncmp(sample, "Bada", 4), 0);
        assert_string_equal(generate(files_path(run, "run"), SAMPLE).out, sample);
        snprintf(path, sizeof path, "%s/step-00000020", run);
        assert_string_equal(generate(path, SAMPLE).out, sample);
        assert_string_not_equal(generate(path, SAMPLE " --seed 6").out, sample);
        files_clean();
    }
}

/* Its file, and a folder with it that is no checkpoint. */
static void safetensors_with_a_config_are_enough(void **state)
{
    (void)state;
    char run[256], folder[256], command[600], from[400], to[400], sample[1024];
    train("--steps 5 --width 32 --context 24 " SAMPLE, sample, sizeof sample);
    snprintf(from, sizeof from, "%s/step-00000005/model.safetensors", files_path(run, "run"));
    assert_string_equal(generate(from, SAMPLE).out, sample);
    snprintf(command, sizeof command, "mkdir %s", files_path(folder, "published"));
    assert_int_equal(system(command), 0);
    static const char *const names[] = {"model.safetensors", "config.json"};
    for (int i = 0; i < 2; i++) {
        snprintf(from, sizeof from, "%s/step-00000005/%s", run, names[i]);
        snprintf(to, sizeof to, "%s/%s", folder, names[i]);
        copy_file(from, to);
    }
    assert_string_equal(generate(folder, SAMPLE).out, sample);
    files_clean();
}

/* 3.2 million parameters: 12.6 MB of weights, 50 MB with gradients and moments. */
static void weights_alone_are_in_memory(void **state)
{
    (void)state;
    char run[256], sample[1024], arguments[512];
    train("--steps 1 --width 256 --layers 4 --context 24 --sample 10", sample, sizeof sample);
    setenv("SOFTGPU_MEMORY", "33554432", 1);
    outcome_t outcome = generate(files_path(run, "run"), "--sample 10");
    snprintf(arguments, sizeof arguments, "--data %s --steps 1 --width 256 --layers 4 --context 24 --batch 1",
             trainer_text());
    int training = trainer_run(arguments).exit_code;
    unsetenv("SOFTGPU_MEMORY");
    assert_string_equal(outcome.out, sample);
    assert_int_equal(training, 1); /* so the device was small enough */
    files_clean();
}

static void tokens_need_their_tokenizer(void **state)
{
    (void)state;
    char data[256], tokenizer[256], run[256], arguments[1024];
    files_story(data, tokenizer);
    snprintf(
        arguments, sizeof arguments,
        "--layers 1 --width 16 --heads 2 --context 16 --vocab 12 --steps 120 --lr 0.02 --batch 4 --data %s "
        "--checkpoint %s",
        data, files_path(run, "run"));
    assert_int_equal(trainer_run(arguments).exit_code, 0);
    snprintf(arguments, sizeof arguments, "--tokenizer %s --prompt once --temperature 0 --sample 7",
             tokenizer);
    assert_string_equal(generate(run, arguments).out, "once upon a time once upon a time\n");

    snprintf(arguments, sizeof arguments, "generate --checkpoint %s", run);
    outcome_t outcome = trainer_run(arguments);
    assert_int_equal(outcome.exit_code, 2);
    assert_string_equal(outcome.error,
                        "ebb-train: --tokenizer FILE is missing: what the model's 12 classes are; "
                        "without one, 256 classes are bytes\n");
    files_clean();
}

/* A checkpoint that was never finished, weights of another shape than the config's, and weights that are not there. */
static void damaged_checkpoints_exit_2_with_one_line(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"rm %s/step-00000001/complete", "no complete checkpoint in it"},
        {"rm %s/step-00000001/model.safetensors", "no model.safetensors in it"},
        {"rm %s/step-00000001/config.json", "config.json: No such file"},
        {"sed -i 's/\"n_inner\":.*/\"n_inner\": 32,/' %s/step-00000001/config.json", "of this model it is ["},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char run[256], sample[512], words[600];
        train("--steps 1 --width 16 --context 24 --sample 3", sample, sizeof sample);
        snprintf(words, sizeof words, cases[i][0], files_path(run, "run"));
        assert_int_equal(system(words), 0);
        snprintf(words, sizeof words, "generate --checkpoint %s", run);
        outcome_t outcome = trainer_run(words);
        if (outcome.exit_code != 2 || strstr(outcome.error, cases[i][1]) == NULL)
            fail_msg("%s: exit code %d: '%s' lacks '%s'", cases[i][0], outcome.exit_code, outcome.error,
                     cases[i][1]);
        assert_int_equal(strncmp(outcome.error, "ebb-train: --checkpoint ", 24), 0);
        assert_ptr_equal(strchr(outcome.error, '\n'), outcome.error + strlen(outcome.error) - 1);
        assert_string_equal(outcome.out, "");
        files_clean();
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sample_is_that_of_the_training),
        cmocka_unit_test(safetensors_with_a_config_are_enough),
        cmocka_unit_test(weights_alone_are_in_memory),
        cmocka_unit_test(tokens_need_their_tokenizer),
        cmocka_unit_test(damaged_checkpoints_exit_2_with_one_line),
    };
    return cmocka_run_group_tests(tests, NULL, trainer_teardown);
}
