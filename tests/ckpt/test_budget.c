/* ebb-train inside a budget: the same losses, weights and optimizer state as without ebb, bit for bit, on a
 * device that has no more memory than the budget (so that exceeding it is not possible unseen). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "trainer.h"

/* Activations of several chunks: C x N floats are 2 MiB here. */
#define SHAPE "--layers 2 --width 256 --heads 4 --context 128 --batch 16 --steps 4 --sample 0 "

typedef struct statistics {
    double budget, peak, evictions, fetches, bytes_out, bytes_in;
} statistics_t;

static char stats_path[512];

/* Under libebb, on a device of `device_bytes`. */
static history_t train_under_ebb(const char *arguments, double device_bytes, statistics_t *stats)
{
    char bytes[32], line[4096] = "";
    snprintf(bytes, sizeof bytes, "%.0f", device_bytes);
    setenv("SOFTGPU_MEMORY", bytes, 1);
    setenv("EBB_STATS", stats_path, 1);
    setenv("LD_PRELOAD", getenv("TEST_LIBEBB"), 1);
    history_t h = trainer_train(arguments);
    unsetenv("LD_PRELOAD");
    unsetenv("SOFTGPU_MEMORY");
    unsetenv("EBB_STATS");
    FILE *f = fopen(stats_path, "r");
    assert_non_null(f);
    assert_non_null(fgets(line, sizeof line, f));
    fclose(f);
    *stats = (statistics_t){json_number(line, "budget_bytes"), json_number(line, "peak_bytes"),
                            json_number(line, "evictions"),    json_number(line, "fetches"),
                            json_number(line, "bytes_out"),    json_number(line, "bytes_in")};
    return h;
}

static void assert_same_run(const history_t *a, const history_t *b)
{
    assert_int_equal(a->steps, b->steps);
    for (int i = 0; i < a->steps; i++) {
        assert_string_equal(a->loss_hex[i], b->loss_hex[i]);
        assert_string_equal(a->grad_norm_hex[i], b->grad_norm_hex[i]);
    }
    assert_string_equal(a->held_out_loss_hex, b->held_out_loss_hex);
    assert_string_equal(a->state_hash, b->state_hash);
    assert_true(strlen(a->state_hash) > 8);
}

static void compare_at(const char *arguments, const int *percent, size_t count)
{
    history_t without = trainer_train(arguments);
    for (size_t i = 0; i < count; i++) {
        statistics_t s;
        double budget = without.peak_bytes * percent[i] / 100;
        history_t with = train_under_ebb(arguments, budget, &s);
        print_message("%d%% of %.1f MiB: peak %.1f MiB, %.0f evictions, %.0f MiB out, %.0f MiB in\n",
                      percent[i], without.peak_bytes / 1048576, s.peak / 1048576, s.evictions,
                      s.bytes_out / 1048576, s.bytes_in / 1048576);
        assert_same_run(&without, &with);
        assert_true(s.peak <= s.budget && s.budget <= budget);
        if (percent[i] < 90)
            assert_true(s.evictions > 0 && s.fetches > 0);
        if (percent[i] > 120)
            assert_true(s.evictions == 0);
    }
}

static void flash_attention_under_budgets_has_the_same_bits(void **state)
{
    (void)state;
    const int percent[] = {130, 100, 80, 60, 50};
    compare_at(SHAPE, percent, 5);
}

static void naive_attention_with_dropout_and_accumulation_has_the_same_bits(void **state)
{
    (void)state;
    const int percent[] = {80, 60};
    compare_at(SHAPE "--attention naive --dropout 0.1 --batch 8 --accumulate 2", percent, 2);
}

/* What cannot fit ends as it would on a smaller device, and the log says what would do. */
static void budget_below_one_operation_is_out_of_memory(void **state)
{
    (void)state;
    setenv("LD_PRELOAD", getenv("TEST_LIBEBB"), 1);
    setenv("EBB_BUDGET", "12MiB", 1);
    char arguments[1024];
    snprintf(arguments, sizeof arguments, SHAPE "--data %s", trainer_text());
    outcome_t out = trainer_run(arguments);
    unsetenv("LD_PRELOAD");
    unsetenv("EBB_BUDGET");
    assert_int_equal(out.exit_code, 1);
    assert_non_null(strstr(out.error, "ebb: out of memory"));
    assert_non_null(strstr(out.error, "ebb-train:")); /* the program was told, and says it its own way */
}

static void ebb_run_starts_a_program_under_the_library(void **state)
{
    (void)state;
    char command[2048];
    remove(stats_path);
    snprintf(command, sizeof command,
             "%s run --budget 64MiB --stats %s --set min_buffer=1MiB -- %s %s --data %s >/dev/null 2>&1",
             getenv("TEST_EBB"), stats_path, getenv("TEST_TRAINER"), "--steps 2 --sample 0", trainer_text());
    assert_int_equal(system(command), 0);
    char line[4096] = "";
    FILE *f = fopen(stats_path, "r");
    assert_non_null(f);
    assert_non_null(fgets(line, sizeof line, f));
    fclose(f);
    assert_true(json_number(line, "budget_bytes") == 64 << 20);
    snprintf(command, sizeof command, "%s run --budget much -- true 2>/dev/null", getenv("TEST_EBB"));
    assert_int_not_equal(system(command), 0);
    snprintf(command, sizeof command, "%s run -- /nonexistent 2>/dev/null", getenv("TEST_EBB"));
    assert_int_equal(system(command) >> 8, 127);
}

/* What is recorded is the step: as many operations as were found, and as many bytes alive as the trainer
 * counts. */
static void recorded_step_agrees_with_what_the_trainer_counts(void **state)
{
    (void)state;
    static char trace[512];
    char command[1400], line[512] = "";
    statistics_t stats;
    trainer_path(trace, sizeof trace, "trace");
    setenv("EBB_TRACE", trace, 1);
    history_t h = train_under_ebb("--layers 3 --steps 8 --sample 0", 1 << 30, &stats);
    unsetenv("EBB_TRACE");
    snprintf(command, sizeof command, "%s trace %s", getenv("TEST_EBB"), trace);
    FILE *shown = popen(command, "r");
    assert_non_null(shown);
    unsigned operations = 0;
    double peak = 0;
    while (fgets(line, sizeof line, shown)) {
        if (strstr(line, " operations in "))
            sscanf(line, "%u", &operations);
        sscanf(line, "bytes alive over the step (peak %lf MiB)", &peak);
    }
    assert_int_equal(pclose(shown), 0);
    assert_true(operations > 50);
    print_message("%u operations, peak %.1f MiB of %.1f\n", operations, peak, h.peak_bytes / 1048576);
    assert_true(peak > 0.95 * h.peak_bytes / 1048576 && peak < 1.05 * h.peak_bytes / 1048576);
    remove(trace);
}

static int setup(void **state)
{
    (void)state;
    trainer_path(stats_path, sizeof stats_path, "stats.json");
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    trainer_clean();
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(flash_attention_under_budgets_has_the_same_bits),
        cmocka_unit_test(naive_attention_with_dropout_and_accumulation_has_the_same_bits),
        cmocka_unit_test(budget_below_one_operation_is_out_of_memory),
        cmocka_unit_test(recorded_step_agrees_with_what_the_trainer_counts),
        cmocka_unit_test(ebb_run_starts_a_program_under_the_library),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
