/* programs/pair.c at budgets down to 40% of what it takes: the same bits as without ebb, on a device that has no more
 * memory than the budget. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

typedef struct outcome {
    char hashes[64];
    double peak, ms; /* bytes the program has allocated at most */
} outcome_t;

static char stats_path[64];

static outcome_t run(const char *settings)
{
    outcome_t out = {.peak = 0};
    char command[1024], log[4096] = "", log_path[] = "/tmp/ebb-pair-XXXXXX";
    int file = mkstemp(log_path);
    assert_true(file >= 0);
    snprintf(command, sizeof command, "%s %s 2>%s", settings, getenv("TEST_PAIR"), log_path);
    FILE *f = popen(command, "r");
    assert_non_null(f);
    assert_non_null(fgets(out.hashes, sizeof out.hashes, f));
    assert_int_equal(pclose(f), 0);
    f = fdopen(file, "r");
    assert_non_null(f);
    log[fread(log, 1, sizeof log - 1, f)] = 0;
    fclose(f);
    remove(log_path);
    const char *peak = strstr(log, "peak ");
    assert_non_null(peak);
    out.peak = atof(peak + 5);
    return out;
}

static double statistic(const char *key)
{
    char line[8192] = "", quoted[64];
    FILE *f = fopen(stats_path, "r");
    assert_non_null(f);
    assert_non_null(fgets(line, sizeof line, f));
    fclose(f);
    snprintf(quoted, sizeof quoted, "\"%s\": ", key);
    const char *at = strstr(line, quoted);
    assert_non_null(at);
    return atof(at + strlen(quoted));
}

static void two_threads_under_budgets_have_the_same_bits(void **state)
{
    static const int percents[] = {100, 80, 60, 50, 40};
    (void)state;
    outcome_t without = run("");
    for (unsigned i = 0; i < 5; i++) {
        char settings[512];
        double budget = without.peak * percents[i] / 100;
        snprintf(settings, sizeof settings, "LD_PRELOAD=%s EBB_STATS=%s SOFTGPU_MEMORY=%.0f",
                 getenv("TEST_LIBEBB"), stats_path, budget);
        outcome_t with = run(settings);
        print_message("%3d%% of %.1f MiB: peak %.1f MiB, %.0f evictions, %.0f MiB out\n", percents[i],
                      without.peak / 1048576, statistic("peak_bytes") / 1048576, statistic("evictions"),
                      statistic("bytes_out") / 1048576);
        assert_string_equal(without.hashes, with.hashes);
        assert_true(statistic("peak_bytes") <= budget);
        assert_true(percents[i] > 80 || statistic("evictions") > 0);
    }
}

int main(void)
{
    snprintf(stats_path, sizeof stats_path, "/tmp/ebb-pair-stats-%d", (int)getpid());
    const struct CMUnitTest tests[] = {cmocka_unit_test(two_threads_under_budgets_have_the_same_bits)};
    int failed = cmocka_run_group_tests_name("pair", tests, NULL, NULL);
    remove(stats_path);
    return failed;
}
