/* --dry-run: what it says of memory is what a run then takes, to the byte; what it says of models too large to run is what
 * their shapes say, in 64 bits; and no device is asked. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "model/base/gpu.h"
#include "trainer.h"

typedef struct record {
    char line[4096];
} record_t;

/* The log's record of that kind; there must be one. */
static record_t read_record(const char *path, const char *kind)
{
    record_t record;
    char wanted[64];
    snprintf(wanted, sizeof wanted, "{\"kind\": \"%s\"", kind);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    while (fgets(record.line, sizeof record.line, file) != NULL)
        if (strncmp(record.line, wanted, strlen(wanted)) == 0) {
            fclose(file);
            return record;
        }
    fail_msg("%s has no record '%s'", path, kind);
    return record;
}

static uint64_t count_of(const record_t *record, const char *key)
{
    double number = json_number(record->line, key); /* below 2^53: exact */
    if (!(number >= 0 && number < 0x1p53))
        fail_msg("no whole number '%s' in %s", key, record->line);
    return (uint64_t)number;
}

static record_t rehearse(const char *arguments)
{
    char log[128], all[2048];
    trainer_path(log, sizeof log, "log");
    snprintf(all, sizeof all, "--dry-run --log %s %s", log, arguments);
    outcome_t outcome = trainer_run(all);
    if (outcome.exit_code != 0)
        fail_msg("ebb-train %s: exit code %d: %s", all, outcome.exit_code, outcome.error);
    record_t record = read_record(log, "dry_run");
    uint64_t sum = 0;
    for (int kind = 0; kind < MEMORY_COUNT; kind++)
        sum += count_of(&record, memory_names[kind]);
    assert_int_equal(count_of(&record, "peak_bytes"), sum);
    return record;
}

static void assert_memory_is_what_a_run_takes(const char *arguments)
{
    char log[128], all[1024];
    snprintf(all, sizeof all, "--layers 3 --width 48 --heads 3 --context 40 --batch 3 --steps 2 %s",
             arguments);
    record_t said = rehearse(all);
    trainer_train(all);
    trainer_path(log, sizeof log, "log");
    record_t taken = read_record(log, "final");
    for (int kind = 0; kind < MEMORY_COUNT; kind++)
        if (count_of(&said, memory_names[kind]) != count_of(&taken, memory_names[kind]))
            fail_msg("%s: %s: %s, then %s", arguments, memory_names[kind], said.line, taken.line);
    assert_int_equal(count_of(&said, "peak_bytes"), count_of(&taken, "peak_bytes"));
}

static void memory_is_what_a_run_takes(void **state)
{
    (void)state;
    static const char *const shapes[] = {
        "",
        "--accumulate 3 --dropout 0.1 --skip-outliers 4",
        "--save lean --vocab 300",
        "--attention naive --dropout 0.1",
        "--attention naive --save lean --dtype bf16",
        "--dtype bf16",
        "--dtype bf16 --accumulate 2 --dropout 0.1 --rounding stochastic",
        "--dtype bf16 --save lean",
        "--tied no --batch 1",
        "--model llama:tiny --kv-heads 1 --hidden 72",
        "--model llama:tiny --kv-heads 3 --hidden 72 --save lean --accumulate 2",
        "--model llama:tiny --kv-heads 1 --hidden 72 --dtype bf16 --dropout 0.1",
        "--model llama:tiny --kv-heads 1 --hidden 72 --dtype bf16 --save lean --tied yes",
        "--model llama:tiny --kv-heads 1 --hidden 72 --attention naive",
        "--lora-rank 4 --lora-targets all-linear --attention naive --dropout 0.1",
        "--lora-rank 5 --lora-targets attn.c_proj --dtype bf16 --accumulate 2",
        "--lora-rank 8 --lora-targets all-linear --model llama:tiny --kv-heads 1 --hidden 72 --dtype bf16 "
        "--save lean",
    };
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        assert_memory_is_what_a_run_takes(shapes[i]);
}

/* Llama 3.1 8B has 8,030,261,248 parameters (its published index: total_size 16,060,522,496 bytes of bf16). */
static void llama_8b_is_what_its_shape_says(void **state)
{
    (void)state;
    record_t r = rehearse("--model llama:8B --dtype bf16 --save lean");
    uint64_t L = 32, C = 4096, H = 32, KV = 8, D = 128, F = 14336, V = 128256, T = 8192, N = T;
    uint64_t weights = L * (C * (H + 2 * KV) * D + C * C + 3 * C * F) + V * C;
    uint64_t parameters = weights + V * C + (2 * L + 1) * C;
    assert_int_equal(parameters, 8030261248);
    assert_int_equal(count_of(&r, "parameters"), parameters);
    assert_int_equal(count_of(&r, "flops_per_token"), 6 * weights + 12 * L * C * T);
    assert_int_equal(count_of(&r, "weights"), 2 * parameters);
    assert_int_equal(count_of(&r, "masters"), 4 * parameters);
    assert_int_equal(count_of(&r, "gradients"), 4 * parameters);
    assert_int_equal(count_of(&r, "moments"), 8 * parameters);
    assert_int_equal(count_of(&r, "mlp.up"), N * 2 * F * 2);
    uint64_t layer = N * C * 2 * 3 + N * 2 * F * 2 + N * H * 4 + 2 * N * 4;
    assert_int_equal(count_of(&r, "saved_bytes"), L * layer + N * C * 2 + N * 4);
}

/* More than 2^31 elements in the token embedding, and in naive attention's scores. */
static void gpt2_of_huge_tensors_is_what_its_shape_says(void **state)
{
    (void)state;
    record_t r = rehearse("--model gpt2:124M --layers 2 --vocab 16000000 --width 1536 --context 8192 "
                          "--attention naive --batch 64");
    uint64_t L = 2, C = 1536, H = 12, V = 16000000, T = 8192, N = 64 * T;
    uint64_t weights = V * C + L * 12 * C * C, parameters = weights + T * C + 2 * C + L * 13 * C;
    assert_true(V * C > (uint64_t)1 << 34 && N * H * T > (uint64_t)1 << 35);
    assert_int_equal(count_of(&r, "parameters"), parameters);
    assert_int_equal(count_of(&r, "flops_per_token"), 6 * weights + 12 * L * C * T);
    assert_int_equal(count_of(&r, "weights"), 4 * parameters);
    assert_int_equal(count_of(&r, "masters"), 0);
    assert_int_equal(count_of(&r, "gradients"), 4 * parameters);
    assert_int_equal(count_of(&r, "moments"), 8 * parameters);
    assert_int_equal(count_of(&r, "attention.probs"), N * H * T * 4);
    uint64_t layer = 4 * (N * C * (4 + 3 + 1) + 2 * 4 * N * C + N * H * T + 4 * N);
    assert_int_equal(count_of(&r, "saved_bytes"), L * layer + 4 * (N * C + 2 * N));
}

static void no_device_is_asked(void **state)
{
    (void)state;
    char trace[128];
    trainer_path(trace, sizeof trace, "stats.json");
    setenv("SOFTGPU_TRACE", trace, 1);
    outcome_t outcome = trainer_run("--dry-run --model llama:7B");
    assert_int_equal(outcome.exit_code, 0);
    assert_int_not_equal(access(trace, R_OK), 0);
    assert_non_null(strstr(outcome.out, "6738415616 parameters"));
    char real[512];
    snprintf(real, sizeof real, "--data %s --steps 0 --sample 0 --width 16", trainer_text());
    assert_int_equal(trainer_run(real).exit_code, 0);
    assert_int_equal(access(trace, R_OK), 0); /* so the trace would have shown it */
    unsetenv("SOFTGPU_TRACE");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(memory_is_what_a_run_takes),
        cmocka_unit_test(llama_8b_is_what_its_shape_says),
        cmocka_unit_test(gpt2_of_huge_tensors_is_what_its_shape_says),
        cmocka_unit_test(no_device_is_asked),
    };
    return cmocka_run_group_tests(tests, NULL, trainer_teardown);
}
