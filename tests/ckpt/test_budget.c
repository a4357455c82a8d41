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

#include "files.h"
#include "program.h"
#include "trainer.h"

/* Activations of several chunks (N x C floats are 2 MiB), and little state beside them. */
#define SHAPE        "--layers 2 --width 128 --heads 4 --context 128 --batch 32 --sample 0 "
#define ACCUMULATING SHAPE "--accumulate 2 --dropout 0.1 --attention flash "

enum { STEPS = 26 };

typedef struct statistics {
    double budget, peak, evictions, bytes_out, driven, changes, offloaded, dropped, replays, mismatches,
        predicted_peak, driven_peak, operations, live_peak;
} statistics_t;

static char stats_path[512];

static void read_statistics(statistics_t *s)
{
    char line[8192] = "";
    FILE *f = fopen(stats_path, "r");
    assert_non_null(f);
    assert_non_null(fgets(line, sizeof line, f));
    fclose(f);
    *s = (statistics_t){.budget = json_number(line, "budget_bytes"),
                        .peak = json_number(line, "peak_bytes"),
                        .evictions = json_number(line, "evictions"),
                        .bytes_out = json_number(line, "bytes_out"),
                        .driven = json_number(line, "steps_driven"),
                        .changes = json_number(line, "changes"),
                        .offloaded = json_number(line, "offloaded"),
                        .dropped = json_number(line, "dropped"),
                        .replays = json_number(line, "replays"),
                        .mismatches = json_number(line, "mismatches"),
                        .predicted_peak = json_number(line, "predicted_peak_bytes"),
                        .driven_peak = json_number(line, "driven_peak_bytes"),
                        .operations = json_number(line, "operations"),
                        .live_peak = json_number(line, "live_peak_bytes")};
}

/* After every test, whether it has failed or not. */
static int clear_environment(void **state)
{
    static const char *const names[] = {"LD_PRELOAD", "SOFTGPU_MEMORY", "EBB_STATS",     "EBB_TRACE",
                                        "EBB_BUDGET", "EBB_OFFLOAD",    "EBB_RECOMPUTE", "EBB_POLICY"};
    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        unsetenv(names[i]);
    return 0;
}

/* Under libebb, on a device of `device_bytes`. */
static history_t train_under_ebb(const char *arguments, double device_bytes, statistics_t *stats)
{
    char bytes[32];
    snprintf(bytes, sizeof bytes, "%.0f", device_bytes);
    setenv("SOFTGPU_MEMORY", bytes, 1);
    setenv("EBB_STATS", stats_path, 1);
    setenv("LD_PRELOAD", getenv("TEST_LIBEBB"), 1);
    history_t h = trainer_train(arguments);
    clear_environment(NULL);
    read_statistics(stats);
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

/* What a plan may do with buffers. */
typedef enum means { BOTH, OFFLOAD, RECOMPUTE } means_t;

static const char *const means_name[] = {"offload and recompute", "offload", "recompute"};

static void compare_at(const char *arguments, const history_t *without, int percent, means_t means)
{
    statistics_t s;
    double budget = without->peak_bytes * percent / 100;
    setenv("EBB_OFFLOAD", means == RECOMPUTE ? "0" : "1", 1);
    setenv("EBB_RECOMPUTE", means == OFFLOAD ? "0" : "1", 1);
    history_t with = train_under_ebb(arguments, budget, &s);
    print_message(
        "%3d%% of %.1f MiB, %s: %.0f of %d steps driven, %.0f buffers offloaded, %.0f dropped; peak %.1f MiB "
        "(predicted %.1f)\n",
        percent, without->peak_bytes / 1048576, means_name[means], s.driven, STEPS, s.offloaded, s.dropped,
        s.driven_peak / 1048576, s.predicted_peak / 1048576);
    assert_same_run(without, &with);
    assert_true(s.peak <= s.budget && s.budget <= budget);
    assert_true(s.driven >= STEPS - 12); /* the first are for finding the step and learning it */
    assert_true(s.driven_peak == s.predicted_peak && s.driven_peak > 0);
    assert_true(s.mismatches == 0);
    assert_true(means == BOTH || (means == OFFLOAD ? s.dropped + s.replays == 0 : s.offloaded == 0));
    if (percent < 90)
        assert_true(s.offloaded + s.dropped > 0);
}

/* One budget by one of the means in turn, the first of them `turn`; in the long form all budgets. */
static void sweep(const char *arguments, int percent, unsigned turn)
{
    static const int percents[] = {100, 80, 60, 50};
    const bool all_of_them = test_is_long();
    /* Deeper, so that half of the peak holds three times what the largest operation touches: less cannot be proven. */
    char all[512];
    snprintf(all, sizeof all, "%s --steps %d%s", arguments, STEPS, all_of_them ? " --layers 4" : "");
    history_t without = trainer_train(all);
    for (unsigned i = 0; i < 4; i++)
        if (all_of_them || percents[i] == percent)
            compare_at(all, &without, percents[i], (means_t)((i + turn) % 3));
}

static void flash_attention_under_budgets_has_the_same_bits(void **state)
{
    (void)state;
    sweep(ACCUMULATING, 60, 0);
}

/* Arrays that lie behind others in one buffer are elsewhere in each step, which is driven all the same. */
static void documents_of_their_own_length_have_the_same_bits(void **state)
{
    (void)state;
    enum { DOCUMENT_STEPS = 48, UNTIL_DRIVEN = 28 };
    static char text[60000];
    char path[256], arguments[512];
    size_t n = 0;
    for (uint64_t i = 0; n + 300 < sizeof text; i++) {
        const uint32_t bytes = 1 + files_draw(6, i, 14) * files_draw(7, i, 14) * files_draw(8, i, 14) / 16;
        for (uint32_t k = 0; k < bytes; k++)
            text[n + k] = (char)('a' + files_draw(9, n + k, 26));
        n += bytes;
        text[n++] = '\n';
    }
    trainer_path(path, sizeof path, "documents");
    trainer_write(path, text, n);
    snprintf(arguments, sizeof arguments, SHAPE "--data %s --pack no --dropout 0.1 --steps %d", path,
             DOCUMENT_STEPS);
    history_t without = trainer_train(arguments);
    for (means_t means = BOTH; means <= RECOMPUTE; means++) {
        statistics_t s;
        if (means == OFFLOAD && !test_is_long())
            continue;
        setenv("EBB_OFFLOAD", means == RECOMPUTE ? "0" : "1", 1);
        setenv("EBB_RECOMPUTE", means == OFFLOAD ? "0" : "1", 1);
        history_t with =
            train_under_ebb(arguments, without.peak_bytes * (means == RECOMPUTE ? 85 : 65) / 100, &s);
        print_message("documents, %s: %.0f of %d steps driven, %.0f launches repeated\n", means_name[means],
                      s.driven, DOCUMENT_STEPS, s.replays);
        assert_same_run(&without, &with);
        assert_true(s.driven >= DOCUMENT_STEPS - UNTIL_DRIVEN && s.mismatches == 0);
        assert_true(means != RECOMPUTE || s.replays > 0);
    }
}

static void naive_attention_under_budgets_has_the_same_bits(void **state)
{
    (void)state;
    sweep(SHAPE "--dropout 0.1 --attention naive", 50, 1);
}

/* Evaluations are learned as a kind of their own; before that the plan is left for them, and taken up again. */
static void evaluations_between_steps_are_driven_or_left_alone(void **state)
{
    (void)state;
    statistics_t s;
    const char *arguments = SHAPE "--steps 48 --eval-every 4 --eval-batches 1";
    history_t without = trainer_train(arguments);
    history_t with = train_under_ebb(arguments, without.peak_bytes * 0.7, &s);
    print_message("%.0f of 48 steps and 12 evaluations driven, %.0f times from one to the other\n", s.driven,
                  s.changes);
    assert_same_run(&without, &with);
    assert_true(s.driven >= 30 && s.changes >= 4);
}

/* TEST_MODE=N: one of these under `auto` and some of the other policies, each of which has its mode, from more than its peak down to where nothing
 * can be trained any more; each policy at every other of the budgets. */
static const char *const modes[] = {
    ACCUMULATING "--steps 26",
    SHAPE "--steps 24 --dropout 0.1 --attention naive",
    /* Twice as many of half the size: what is small never leaves. */
    SHAPE "--batch 64 --steps 24 --dtype bf16 --rounding stochastic --save lean",
    SHAPE "--batch 64 --steps 24 --dtype bf16",
    "--model llama:tiny --width 128 --heads 4 --kv-heads 2 --hidden 256 --context 128 --batch 32 --sample 0 "
    "--steps 24",
    SHAPE "--steps 36 --eval-every 4 --eval-batches 1",
};
static const char *const policies[] = {"keep",      "auto",      "offload",   "sqrt",
                                       "uniform:2", "selective", "recursive", "revolve:2"};

/* Whether it could be trained in so little; then with the same bits. */
static bool survives(const char *arguments, const history_t *without, const char *policy, int percent)
{
    statistics_t s;
    char all[1024], log[512], bytes[32];
    const double budget = without->peak_bytes * percent / 100;
    trainer_path(log, sizeof log, "swept");
    remove(log);
    snprintf(all, sizeof all, "%s --data %s --log %s", arguments, trainer_text(), log);
    snprintf(bytes, sizeof bytes, "%.0f", budget);
    setenv("SOFTGPU_MEMORY", bytes, 1);
    setenv("EBB_STATS", stats_path, 1);
    setenv("EBB_POLICY", policy, 1);
    setenv("LD_PRELOAD", getenv("TEST_LIBEBB"), 1);
    const outcome_t out = trainer_run(all);
    clear_environment(NULL);
    read_statistics(&s);
    if (out.exit_code) {
        print_message("%-10s %3d%%: out of memory\n", policy, percent);
        assert_int_equal(out.exit_code, 1);
        assert_non_null(strstr(out.error, "ebb: out of memory"));
        return false;
    }
    const history_t with = trainer_read_log(log);
    print_message(
        "%-10s %3d%%: %.0f steps driven, %.0f offloaded, %.0f dropped; peak %.1f MiB (predicted %.1f)\n",
        policy, percent, s.driven, s.offloaded, s.dropped, s.driven_peak / 1048576,
        s.predicted_peak / 1048576);
    assert_same_run(without, &with);
    assert_true(s.peak <= s.budget && s.budget <= budget && s.mismatches == 0);
    return true;
}

static void policies_have_the_same_bits_down_to_the_least_budget(void **state)
{
    static const int percents[] = {120, 90, 80, 70, 60, 50, 40, 30, 25, 20, 15, 10};
    const size_t number = *(const size_t *)*state;
    const char *mode = modes[number];
    const history_t without = trainer_train(mode);
    print_message("%s: %.1f MiB\n", mode, without.peak_bytes / 1048576);
    for (size_t p = 0; p < sizeof policies / sizeof *policies; p++) {
        if (strcmp(policies[p], "auto") && p % (sizeof modes / sizeof *modes) != number)
            continue;
        size_t i = p % 2, count = sizeof percents / sizeof *percents;
        while (i < count && survives(mode, &without, policies[p], percents[i]))
            i += 2;
        /* 60% is enough for all that may move anything; of every other budget 70% tells. */
        assert_true(i > (strcmp(policies[p], "keep") ? 4 : 0));
    }
}

/* A step launched as graphs, which allocate its activations: by itself the whole of it has to be there. */
static void captured_steps_have_the_same_bits(void **state)
{
    (void)state;
    enum { CAPTURED_STEPS = 30, UNTIL_DRIVEN = 14 };
    static const int percents[] = {70, 50, 35};
    const history_t without = trainer_train(SHAPE "--dropout 0.1 --layers 6 --graph --steps 30");
    for (unsigned i = 0; i < sizeof percents / sizeof *percents; i++) {
        const means_t means = (means_t)i;
        statistics_t s;
        setenv("EBB_OFFLOAD", means == RECOMPUTE ? "0" : "1", 1);
        setenv("EBB_RECOMPUTE", means == OFFLOAD ? "0" : "1", 1);
        const history_t with = train_under_ebb(SHAPE "--dropout 0.1 --layers 6 --graph --steps 30",
                                               without.peak_bytes * percents[i] / 100, &s);
        print_message("graphs, %3d%% of %.1f MiB, %s: %.0f of %d steps driven, %.0f buffers offloaded, "
                      "%.0f dropped\n",
                      percents[i], without.peak_bytes / 1048576, means_name[means], s.driven, CAPTURED_STEPS,
                      s.offloaded, s.dropped);
        assert_same_run(&without, &with);
        assert_true(s.peak <= s.budget && s.mismatches == 0);
        assert_true(s.driven >= CAPTURED_STEPS - UNTIL_DRIVEN);
    }
}

/* Where everything fits, nothing is learned, moved or planned. */
static void ample_budget_changes_nothing(void **state)
{
    (void)state;
    statistics_t s;
    history_t without = trainer_train(SHAPE "--steps 6");
    history_t with = train_under_ebb(SHAPE "--steps 6", without.peak_bytes * 1.4, &s);
    assert_same_run(&without, &with);
    assert_true(s.evictions == 0 && s.driven == 0 && s.bytes_out == 0);
}

/* The budget that the log of a run advises gets past what the run died of: the next one trains, or dies later and wants more. */
static void advised_budget_gets_past_the_shortage(void **state)
{
    (void)state;
    char arguments[1024], budget[32];
    unsigned mib = 12, rounds = 0;
    statistics_t s, last = {.operations = 0};
    setenv("LD_PRELOAD", getenv("TEST_LIBEBB"), 1);
    setenv("EBB_STATS", stats_path, 1);
    snprintf(arguments, sizeof arguments, SHAPE "--steps 2 --data %s", trainer_text());
    for (;; rounds++, last = s) {
        const unsigned before = mib;
        snprintf(budget, sizeof budget, "%uMiB", mib);
        setenv("EBB_BUDGET", budget, 1);
        const outcome_t out = trainer_run(arguments);
        read_statistics(&s);
        print_message("%s: %.0f operations, %.1f MiB allocated\n", budget, s.operations,
                      s.live_peak / 1048576);
        assert_true(s.operations > last.operations ||
                    (s.operations == last.operations && s.live_peak > last.live_peak));
        if (!out.exit_code)
            break;
        const char *advice = strstr(out.error, "a budget of at least ");
        assert_non_null(advice);
        assert_int_equal(sscanf(advice, "a budget of at least %u MiB", &mib), 1);
        assert_true(mib > before);
    }
    assert_true(rounds > 0);
}

/* What cannot fit ends as it would on a smaller device. */
static void budget_below_one_operation_is_out_of_memory(void **state)
{
    (void)state;
    setenv("LD_PRELOAD", getenv("TEST_LIBEBB"), 1);
    setenv("EBB_BUDGET", "12MiB", 1);
    char arguments[1024];
    snprintf(arguments, sizeof arguments, SHAPE "--steps 4 --data %s", trainer_text());
    outcome_t out = trainer_run(arguments);
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
    statistics_t s;
    read_statistics(&s);
    assert_true(s.budget == 64 << 20);
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
    history_t h = train_under_ebb("--layers 3 --steps 24 --sample 0", 1 << 30, &stats);
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
        cmocka_unit_test_teardown(flash_attention_under_budgets_has_the_same_bits, clear_environment),
        cmocka_unit_test_teardown(naive_attention_under_budgets_has_the_same_bits, clear_environment),
        cmocka_unit_test_teardown(documents_of_their_own_length_have_the_same_bits, clear_environment),
        cmocka_unit_test_teardown(evaluations_between_steps_are_driven_or_left_alone, clear_environment),
        cmocka_unit_test_teardown(captured_steps_have_the_same_bits, clear_environment),
        cmocka_unit_test_teardown(ample_budget_changes_nothing, clear_environment),
        cmocka_unit_test_teardown(budget_below_one_operation_is_out_of_memory, clear_environment),
        cmocka_unit_test_teardown(advised_budget_gets_past_the_shortage, clear_environment),
        cmocka_unit_test_teardown(recorded_step_agrees_with_what_the_trainer_counts, clear_environment),
        cmocka_unit_test_teardown(ebb_run_starts_a_program_under_the_library, clear_environment),
    };
    const char *mode = getenv("TEST_MODE");
    if (mode) {
        size_t number = (size_t)atoi(mode);
        const struct CMUnitTest test[] = {cmocka_unit_test_prestate_setup_teardown(
            policies_have_the_same_bits_down_to_the_least_budget, NULL, clear_environment, &number)};
        return cmocka_run_group_tests(test, setup, teardown);
    }
    return cmocka_run_group_tests(tests, setup, teardown);
}
