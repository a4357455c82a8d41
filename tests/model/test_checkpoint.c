/* Checkpoints of the whole trainer: a training that was interrupted, killed or stopped ends with the bits of one that never
 * was; what is damaged, unfinished or another training's is refused. */
#define _GNU_SOURCE
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <dirent.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "files.h"
#include "python.h"
#include "trainer.h"

#define SMALL "--layers 2 --width 16 --heads 2 --context 16 --batch 2 --sample 0 "

/* ---- runs and what they say ---- */

/* The tests' checkpoint folder of a name. */
static const char *folder_of(const char *name)
{
    static char paths[4][256];
    static int next;
    next = (next + 1) % 4;
    return files_path(paths[next], name);
}

static outcome_t run(const char *format, ...)
{
    char arguments[1800], all[2048], log[256];
    va_list list;
    va_start(list, format);
    vsnprintf(arguments, sizeof arguments, format, list);
    va_end(list);
    snprintf(all, sizeof all, SMALL "--data %s --log %s %s", trainer_text(), files_path(log, "log"),
             arguments);
    return trainer_run(all);
}

static void assert_done(const outcome_t *outcome)
{
    if (outcome->exit_code != 0)
        fail_msg("exit code %d: %s", outcome->exit_code, outcome->error);
}

static void assert_refused(const outcome_t *outcome, const char *words)
{
    if (outcome->exit_code != 2 || strstr(outcome->error, words) == NULL)
        fail_msg("exit code %d: '%s' lacks '%s'", outcome->exit_code, outcome->error, words);
    if (strncmp(outcome->error, "ebb-train: ", 11) != 0 ||
        strchr(outcome->error, '\n') != outcome->error + strlen(outcome->error) - 1)
        fail_msg("not one line of ebb-train: %s", outcome->error);
}

#define LOSSES 256

/* The last word of the log: losses of each step, bit by bit, of whatever run said it last; and the end. */
typedef struct said {
    char loss[LOSSES][32]; /* by step */
    char hash[32], held_out[32];
    int last_step;
} said_t;

static said_t read_log(void)
{
    said_t said = {.last_step = 0};
    char path[256], line[8192], kind[32];
    FILE *file = fopen(files_path(path, "log"), "r");
    assert_non_null(file);
    while (fgets(line, sizeof line, file) != NULL) {
        if (!json_text(line, "kind", kind, sizeof kind))
            continue;
        if (strcmp(kind, "step") == 0) {
            said.last_step = (int)json_number(line, "step");
            assert_in_range(said.last_step, 1, LOSSES - 1);
            assert_true(json_text(line, "loss_hex", said.loss[said.last_step], 32));
        } else if (strcmp(kind, "final") == 0) {
            assert_true(json_text(line, "state_hash", said.hash, sizeof said.hash));
            (void)json_text(line, "held_out_loss_hex", said.held_out, sizeof said.held_out);
        }
    }
    fclose(file);
    return said;
}

static void assert_same_end(const said_t *a, const said_t *b, int steps)
{
    for (int step = 1; step <= steps; step++)
        if (strcmp(a->loss[step], b->loss[step]) != 0)
            fail_msg("step %d: loss %s and %s", step, a->loss[step], b->loss[step]);
    assert_string_equal(a->hash, b->hash);
    assert_string_equal(a->held_out, b->held_out);
    assert_int_equal(strlen(a->hash), 16);
}

/* Complete ones. */
static int count_checkpoints(const char *folder, char newest[256])
{
    int count = 0;
    DIR *directory = opendir(folder);
    newest[0] = '\0';
    assert_non_null(directory);
    for (const struct dirent *entry; (entry = readdir(directory)) != NULL;) {
        char marker[600];
        snprintf(marker, sizeof marker, "%s/%.200s/complete", folder, entry->d_name);
        if (strncmp(entry->d_name, "step-", 5) != 0 || access(marker, F_OK) != 0)
            continue;
        count++;
        if (strcmp(entry->d_name, newest) > 0)
            snprintf(newest, 256, "%.200s", entry->d_name);
    }
    closedir(directory);
    return count;
}

/* ---- the same bits ---- */

static void resumed_training_has_the_same_bits(void **state)
{
    (void)state;
    static const char *const kinds[] = {
        "",
        "--accumulate 3",
        "--dropout 0.2 --accumulate 2",
        "--attention naive --dropout 0.1",
        "--model llama:tiny --kv-heads 1 --dropout 0.1",
        "--dtype bf16 --accumulate 2",
        "--dtype bf16 --rounding stochastic --model llama:tiny",
        "--lora-rank 2 --dropout 0.1",
        "--lora-rank 4 --lora-targets all-linear --dtype bf16 --model llama:tiny"};
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        outcome_t outcome = run("--steps 9 %s", kinds[k]);
        assert_done(&outcome);
        said_t whole = read_log();
        files_clean();
        const char *folder = folder_of("kept");
        static const char *const parts[] = {"--checkpoint-every 4", "--checkpoint-every 7", ""};
        static const int stays[] = {4, 7, 9};
        for (size_t i = 0; i < 3; i++) {
            char newest[256];
            outcome = run("--steps 9 %s %s --keep 0 --checkpoint %s --resume", kinds[k], parts[i], folder);
            assert_done(&outcome);
            count_checkpoints(folder, newest);
            assert_string_equal(newest, "step-00000009");
            said_t parted = read_log();
            assert_same_end(&parted, &whole, 9);
            for (int step = stays[i] + 1; step <= 9; step++) { /* as if it had stopped before */
                char command[600];
                snprintf(command, sizeof command, "rm -rf %s/step-%08d", folder, step);
                assert_int_equal(system(command), 0);
            }
        }
        files_clean();
    }
}

/* From shards: the place in an epoch's order. */
static void resumed_training_on_shards_has_the_same_bits(void **state)
{
    (void)state;
    uint32_t tokens[700];
    char a[256], b[256], pattern[256];
    said_t said[2];
    for (int parted = 0; parted < 2; parted++) {
        for (uint32_t i = 0; i < 700; i++)
            tokens[i] = files_draw(6, i, 250);
        files_shard(files_path(a, "t-0.bin"), tokens, 300, 2);
        files_shard(files_path(b, "t-1.bin"), tokens + 300, 400, 2);
        files_path(pattern, "t-*.bin");
        /* 41 sequences an epoch; 13 steps of 6 */
        outcome_t outcome = run("--steps 13 --accumulate 3 --data %s --checkpoint %s --checkpoint-every 8",
                                pattern, folder_of("kept"));
        assert_done(&outcome);
        if (parted) {
            char command[600];
            snprintf(command, sizeof command, "rm -r %s/step-00000013", folder_of("kept"));
            assert_int_equal(system(command), 0);
            outcome = run("--steps 13 --accumulate 3 --data %s --checkpoint %s --resume", pattern,
                          folder_of("kept"));
            assert_done(&outcome);
            assert_non_null(strstr(outcome.out, "going on after step 8: "));
        }
        said[parted] = read_log();
        files_clean();
    }
    assert_same_end(&said[0], &said[1], 13);
}

/* ---- signals ---- */

/* A training that a signal ends after some steps; the rest of the arguments as run(). */
static int start(const char *arguments)
{
    char all[2048], log[256];
    snprintf(all, sizeof all, SMALL "--data %s --log %s %s", trainer_text(), files_path(log, "log"),
             arguments);
    unlink(log);
    return trainer_start(all);
}

static void wait_for_steps(int process, int steps)
{
    char log[256];
    struct timespec pause = {.tv_nsec = 5 * 1000 * 1000};
    files_path(log, "log");
    for (;;) {
        FILE *file = fopen(log, "r");
        int seen = 0;
        char line[8192];
        while (file != NULL && fgets(line, sizeof line, file) != NULL)
            seen += strstr(line, "{\"kind\": \"step\"") == line;
        if (file != NULL)
            fclose(file);
        if (seen >= steps)
            return;
        assert_int_equal(waitpid(process, NULL, WNOHANG), 0);
        nanosleep(&pause, NULL);
    }
}

static void one_training_writes_into_a_folder(void **state)
{
    (void)state;
    char arguments[512];
    snprintf(arguments, sizeof arguments, "--steps 1000000 --checkpoint %s", folder_of("kept"));
    int process = start(arguments);
    wait_for_steps(process, 3);
    outcome_t outcome = run("--steps 4 --checkpoint %s", folder_of("kept"));
    kill(process, SIGKILL);
    assert_refused(&outcome, "another training writes its checkpoints there");
    (void)trainer_wait(process);
    outcome = run("--steps 4 --checkpoint %s", folder_of("kept"));
    assert_done(&outcome);
    files_clean();
}

static void signal_saves_and_exits_0(void **state)
{
    (void)state;
    static const int signals[] = {SIGINT, SIGTERM};
    for (int i = 0; i < 2; i++) {
        char arguments[512], newest[256];
        snprintf(arguments, sizeof arguments, "--steps 1000000 --checkpoint %s", folder_of("kept"));
        int process = start(arguments);
        wait_for_steps(process, 3);
        kill(process, signals[i]);
        outcome_t outcome = trainer_wait(process);
        assert_done(&outcome);
        assert_non_null(strstr(outcome.error, "interrupted after step "));
        assert_int_equal(count_checkpoints(folder_of("kept"), newest), 1);
        assert_non_null(strstr(outcome.out, "checkpoint: step "));
        assert_true((strstr(outcome.out, "held-out loss") != NULL) == (signals[i] == SIGINT));
        int step = atoi(newest + 5);
        assert_true(step >= 3);

        /* Two steps more are those of a training of so many steps. */
        outcome = run("--steps 1000000 --checkpoint %s --resume --steps %d", folder_of("kept"), step);
        assert_done(&outcome);
        assert_non_null(strstr(outcome.error, "note: steps was 1000000"));
        files_clean();
    }
}

/* kill -9 at any moment, many times over: what is left is always good to go on from, and the end is the same. */
static void killed_training_goes_on_from_the_last_good_checkpoint(void **state)
{
    (void)state;
    enum { STEPS = 120, MOST_KILLS = 30 };
    const uint64_t seed = 3;
    outcome_t outcome = run("--steps %d --dropout 0.1", STEPS);
    assert_done(&outcome);
    said_t whole = read_log();
    char arguments[512], newest[256];
    files_clean();
    snprintf(arguments, sizeof arguments,
             "--steps %d --dropout 0.1 --checkpoint %s --checkpoint-every 1 --resume", STEPS,
             folder_of("kept"));
    int kills = 0, at[2] = {0, 0};
    for (; kills < MOST_KILLS; kills++) {
        int process = start(arguments), status;
        struct timespec pause = {.tv_nsec =
                                     (long)(20 + files_draw(seed, (uint64_t)kills, 200)) * 1000 * 1000};
        nanosleep(&pause, NULL);
        if (waitpid(process, &status, WNOHANG) == process) {
            assert_true(WIFEXITED(status) &&
                        WEXITSTATUS(status) == 0); /* it came to its end, or it would say why */
            break;
        }
        kill(process, SIGKILL);
        assert_int_equal(waitpid(process, &status, 0), process);
        if (access(folder_of("kept"), F_OK) == 0 && count_checkpoints(folder_of("kept"), newest) > 0) {
            at[0] = at[1];
            at[1] = atoi(newest + 5);
            assert_true(at[1] >= at[0]); /* nothing is ever lost */
        }
    }
    print_message("seed %d: %d kills, the last one at step %d of %d\n", (int)seed, kills, at[1], STEPS);
    assert_true(kills >= 3);
    outcome = run("%s", arguments);
    assert_done(&outcome);
    said_t end = read_log();
    assert_string_equal(end.hash, whole.hash);
    assert_string_equal(end.held_out, whole.held_out);
    files_clean();
}

/* ---- which are kept, which are found ---- */

static void latest_checkpoints_are_kept(void **state)
{
    (void)state;
    static const int keeps[] = {1, 3, 0};
    for (int i = 0; i < 3; i++) {
        char newest[256], path[600];
        outcome_t outcome =
            run("--steps 11 --checkpoint %s --checkpoint-every 2 --keep %d", folder_of("kept"), keeps[i]);
        assert_done(&outcome);
        assert_int_equal(count_checkpoints(folder_of("kept"), newest), keeps[i] > 0 ? keeps[i] : 6);
        assert_string_equal(newest, "step-00000011");
        snprintf(path, sizeof path, "%s/step-00000011/complete", folder_of("kept"));
        assert_int_equal(access(path, F_OK), 0);
        files_clean();
    }
}

static void unfinished_checkpoints_do_not_count(void **state)
{
    (void)state;
    char newest[256], command[1200];
    const char *folder = folder_of("kept");
    outcome_t outcome = run("--steps 6 --checkpoint %s --checkpoint-every 2 --keep 0", folder);
    assert_done(&outcome);
    snprintf(command, sizeof command,
             "cd %s && rm step-00000006/complete && mkdir .step-00000009.partial && echo x > "
             ".step-00000009.partial/state.bin",
             folder);
    assert_int_equal(system(command), 0);
    outcome = run("--steps 6 --resume=%s/step-00000006", folder);
    assert_refused(&outcome, "the file \"complete\" is missing: this checkpoint was never finished");
    outcome = run("--steps 6 --checkpoint %s --resume --keep 2", folder);
    assert_done(&outcome);
    assert_non_null(strstr(outcome.out, "going on after step 4: "));
    assert_int_equal(count_checkpoints(folder, newest), 2);
    snprintf(command, sizeof command,
             "test -e %s/step-00000006/complete && ! test -e %s/.step-00000009.partial", folder, folder);
    assert_int_equal(system(command), 0);
    files_clean();
}

/* No checkpoint of one training becomes the later one of another. */
static void folders_of_other_trainings_are_refused(void **state)
{
    (void)state;
    const char *folder = folder_of("kept");
    outcome_t outcome = run("--steps 4 --checkpoint %s --checkpoint-every 2", folder);
    assert_done(&outcome);
    outcome = run("--steps 4 --checkpoint %s", folder);
    assert_refused(&outcome, "step-00000004 is there: go on from it with --resume, or give another folder");
    outcome = run("--steps 4 --checkpoint %s --resume %s/step-00000002", folder, folder);
    assert_refused(&outcome, "step-00000004 is there: it is later than what --resume names");
    outcome = run("--steps 4 --checkpoint %s --resume %s/step-00000002", folder_of("other"), folder);
    assert_done(&outcome);
    outcome = run("--steps 4 --resume /nowhere");
    assert_refused(&outcome, "--resume /nowhere: no such folder");
    outcome = run("--steps 4 --resume /proc");
    assert_refused(&outcome, "--resume /proc: no complete checkpoint in it");
    outcome = run("--steps 4 --resume");
    assert_refused(&outcome, "--resume: give it a folder");
    outcome = run("--steps 4 --checkpoint-every 2");
    assert_refused(&outcome, "--checkpoint FOLDER must say where");
    outcome = run("--steps 4 --checkpoint /nowhere/at/all");
    assert_refused(&outcome, "/nowhere/at/all: cannot be made: No such file");
    files_clean();
}

static void another_training_is_refused_by_field(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"--layers 3", "field layers is 2, of this training it is 3"},
        {"--width 32", "field width is 16, of this training it is 32"},
        {"--heads 4", "field heads is 2, of this training it is 4"},
        {"--context 8", "field context is 16, of this training it is 8"},
        {"--vocab 300", "field vocab is 256, of this training it is 300"},
        {"--seed 2", "field seed is 1, of this training it is 2"},
        {"--data-kind text --data %s", "field data is "},
        {"--pack no", "field data is "},
    };
    char other[256], arguments[512];
    const char *folder = folder_of("kept");
    outcome_t outcome = run("--steps 2 --checkpoint %s", folder);
    assert_done(&outcome);
    files_write(files_path(other, "other"), cases, sizeof cases);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        snprintf(arguments, sizeof arguments, "%s", cases[i][0]);
        if (strstr(arguments, "%s") != NULL)
            snprintf(arguments, sizeof arguments, "--data-kind text --data %s", other);
        outcome = run("--steps 3 --resume %s %s", folder, arguments);
        assert_refused(&outcome, cases[i][1]);
    }
    outcome = run("--steps 3 --resume %s --lr 0.5 --batch 3", folder); /* told, and done */
    assert_done(&outcome);
    assert_non_null(strstr(outcome.error, "note: steps was 2 when "));
    assert_non_null(strstr(outcome.error, "note: batch was 2 when "));
    assert_non_null(strstr(outcome.error, "note: lr was 0.004 when "));
    files_clean();
}

/* Any byte of any file: refused with the file's name, exit code 2, one line. */
static void damaged_checkpoints_are_refused(void **state)
{
    (void)state;
    static const char *const names[] = {"state.bin", "model.safetensors"};
    const char *folder = folder_of("kept");
    outcome_t outcome = run("--steps 2 --checkpoint %s", folder);
    assert_done(&outcome);
    for (int n = 0; n < 2; n++) {
        char path[600];
        size_t size;
        snprintf(path, sizeof path, "%s/step-00000002/%s", folder, names[n]);
        unsigned char *bytes = files_read(path, &size);
        for (uint64_t trial = 0; trial < 16; trial++) {
            size_t at = trial < 8 ? files_draw(7, trial, 1500) : files_draw(7, trial, (uint32_t)size);
            if (n == 1 && at >= 8 && at < 48) /* the header's "__metadata__" means nothing to anybody */
                at = 0;
            unsigned char old = bytes[at];
            bytes[at] ^= (unsigned char)(1 << trial % 8);
            files_write(path, bytes, size);
            bytes[at] = old;
            outcome = run("--steps 2 --resume %s", folder);
            assert_refused(&outcome, names[n]);
        }
        for (uint64_t trial = 0; trial < 4; trial++) { /* cut */
            files_write(path, bytes, files_draw(8, trial, (uint32_t)size));
            outcome = run("--steps 2 --resume %s", folder);
            assert_refused(&outcome, names[n]);
        }
        unlink(path);
        outcome = run("--steps 2 --resume %s", folder);
        assert_refused(&outcome, names[n]);
        files_write(path, bytes, size);
        free(bytes);
    }
    outcome = run("--steps 2 --resume %s", folder);
    assert_done(&outcome);
    files_clean();
}

/* ---- weights ---- */

/* A training that starts with a model's weights begins with its loss. */
static void training_starts_from_weights(void **state)
{
    (void)state;
    char path[600], command[1400];
    outcome_t outcome = run("--steps 20 --lr 0.02 --checkpoint %s", folder_of("kept"));
    assert_done(&outcome);
    said_t trained = read_log();
    snprintf(path, sizeof path, "%s/step-00000020", folder_of("kept"));
    outcome = run("--steps 0 --init %s", path);
    assert_done(&outcome);
    said_t same = read_log();
    assert_string_equal(same.held_out, trained.held_out);
    assert_string_not_equal(same.hash, trained.hash); /* the moments are zero */
    outcome = run("--steps 0 --init %s/model.safetensors --seed 5", path);
    assert_done(&outcome);
    same = read_log();
    assert_string_equal(same.held_out, trained.held_out);

    outcome = run("--steps 0 --init %s --layers 3", path);
    assert_refused(&outcome, "h.2.attn.c_attn.weight is missing");
    outcome = run("--steps 0 --init %s --width 32", path);
    assert_refused(&outcome, "transformer.wte.weight: \"shape\" is [256, 16], of this model it is [256, 32]");
    outcome = run("--steps 0 --init %s", trainer_text());
    assert_refused(&outcome, "the header's length is ");
    outcome = run("--steps 0 --init /nowhere");
    assert_refused(&outcome, "--init /nowhere: No such file");
    outcome = run("--steps 0 --init /proc");
    assert_refused(&outcome, "no model.safetensors in it");
    snprintf(
        command, sizeof command,
        "cd %s && mv model.safetensors part-1.safetensors && echo '{\"weight_map\": {\"wte.weight\": "
        "\"part-1.safetensors\", \"wpe.weight\": \"part-1.safetensors\"}}' > model.safetensors.index.json",
        path);
    assert_int_equal(system(command), 0);
    outcome = run("--steps 0 --init %s", path);
    assert_done(&outcome);
    same = read_log();
    assert_string_equal(same.held_out, trained.held_out);
    files_clean();
}

static double held_out_of(const char *arguments, const char *from)
{
    outcome_t outcome = run("--steps 0 --init %s %s", from, arguments);
    assert_done(&outcome);
    return strtod(read_log().held_out, NULL);
}

/* Into BF16 from fp32's weights, rounded; into fp32 from BF16's, as they are; and each again into its own type, of either
 * family: the loss is that of the weights, to what BF16 resolves. */
static void weights_go_into_bf16_and_back(void **state)
{
    (void)state;
    static const char *const models[] = {"tiny", "llama:tiny --kv-heads 1"};
    static const char *const types[] = {"fp32", "bf16"};
    for (int m = 0; m < 2; m++) {
        for (int t = 0; t < 2; t++) {
            char path[600], as_trained[200], as_other[200];
            snprintf(as_trained, sizeof as_trained, "--heads 2 --model %s --dtype %s", models[m], types[t]);
            snprintf(as_other, sizeof as_other, "--heads 2 --model %s --dtype %s", models[m], types[1 - t]);
            outcome_t outcome = run("--steps 20 --lr 0.02 --checkpoint %s %s", folder_of("kept"), as_trained);
            assert_done(&outcome);
            double trained = strtod(read_log().held_out, NULL);
            snprintf(path, sizeof path, "%s/step-00000020/model.safetensors", folder_of("kept"));
            double same = held_out_of(as_trained, path), other = held_out_of(as_other, path);
            print_message("%s, trained in %s: %.9g, again %.9g, in the other type %.9g\n", models[m],
                          types[t], trained, same, other);
            assert_true(same == trained);
            assert_true(other != trained); /* it is another type */
            assert_true(relative(other, trained) < 2e-3);
            files_clean();
        }
    }
}

/* The same loss of the same model, by other people's code. In BF16 they compute in fp32 with the rounded weights. */
static void transformers_has_the_same_loss(void **state)
{
    (void)state;
    char command[1200];
    const char *python = python_with("torch, transformers, safetensors");
    if (python == NULL)
        skip();
    static const struct {
        const char *model, *tolerance;
    } models[] = {{"tiny", "2e-5"},
                  {"llama:tiny", "2e-5"},
                  {"tiny --dtype bf16", "2e-3"},
                  {"llama:tiny --dtype bf16", "2e-3"},
                  {"llama:tiny --kv-heads 1 --tied yes --rope-factor 8", "2e-5"}};
    char stretched[600]; /* transformers 4.43 and later know Llama 3.1's positions */
    snprintf(stretched, sizeof stretched, "%s -c 'import transformers.modeling_rope_utils' 2>/dev/null",
             python);
    int count = system(stretched) == 0 ? 5 : 4;
    for (int i = 0; i < count; i++) {
        outcome_t outcome = run("--steps 30 --lr 0.01 --heads 2 --checkpoint %s --model %s",
                                folder_of("kept"), models[i].model);
        assert_done(&outcome);
        said_t said = read_log();
        snprintf(command, sizeof command, "%s %s %s/step-00000030 %s 16 %.9g %s", python, TRANSFORMERS_SCRIPT,
                 folder_of("kept"), trainer_text(), strtod(said.held_out, NULL), models[i].tolerance);
        assert_int_equal(system(command), 0);
        files_clean();
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(resumed_training_has_the_same_bits),
        cmocka_unit_test(resumed_training_on_shards_has_the_same_bits),
        cmocka_unit_test(one_training_writes_into_a_folder),
        cmocka_unit_test(signal_saves_and_exits_0),
        cmocka_unit_test(killed_training_goes_on_from_the_last_good_checkpoint),
        cmocka_unit_test(latest_checkpoints_are_kept),
        cmocka_unit_test(unfinished_checkpoints_do_not_count),
        cmocka_unit_test(folders_of_other_trainings_are_refused),
        cmocka_unit_test(another_training_is_refused_by_field),
        cmocka_unit_test(damaged_checkpoints_are_refused),
        cmocka_unit_test(training_starts_from_weights),
        cmocka_unit_test(weights_go_into_bf16_and_back),
        cmocka_unit_test(transformers_has_the_same_loss),
    };
    return cmocka_run_group_tests(tests, NULL, trainer_teardown);
}
