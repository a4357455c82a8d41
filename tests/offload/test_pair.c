/* programs/pair.c at budgets down to 40% of what it takes: the same bits as without ebb, on a device that has no more
 * memory than the budget. TEST_LONG=1: more budgets. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "program.h"

typedef struct outcome {
    program_run_t run;
    double peak, retries; /* bytes allocated at most; how often it gave memory back to get other */
} outcome_t;

static char stats_path[64], device_path[64];

static outcome_t run(const char *settings, const char *arguments)
{
    static outcome_t out;
    char command[1024];
    snprintf(command, sizeof command, "%s %s %s", settings, getenv("TEST_PAIR"), arguments);
    program_run(command, &out.run);
    if (out.run.status || !*out.run.output)
        fail_msg("%s: %d: %s", command, out.run.status, out.run.log);
    const char *numbers = strstr(out.run.log, "\npeak ");
    numbers = numbers ? numbers + 1 : out.run.log;
    assert_int_equal(sscanf(numbers, "peak %lf retries %lf", &out.peak, &out.retries), 2);
    return out;
}

static double statistic(const char *key)
{
    return program_statistic(stats_path, NULL, key);
}

/* Most bytes in use at once, as the device itself has seen it. */
static double peak_of_device(void)
{
    double bytes = -1;
    FILE *f = fopen(device_path, "r");
    assert_non_null(f);
    assert_int_equal(fscanf(f, "0 %lf", &bytes), 1);
    fclose(f);
    return bytes;
}

/* On a device that has no more than the budget, which shows that what it refuses is borne, or on a larger one, which shows that
 * no more is asked for. */
static outcome_t run_within(double budget, double device, const char *settings, const char *arguments)
{
    char all[768];
    snprintf(all, sizeof all,
             "LD_PRELOAD=%s EBB_STATS=%s SOFTGPU_PEAK=%s SOFTGPU_MEMORY=%.0f EBB_BUDGET=%.0f %s",
             getenv("TEST_LIBEBB"), stats_path, device_path, device, budget, settings);
    outcome_t out = run(all, arguments);
    print_message(
        "%.1f MiB %s: peak %.1f MiB, %.0f evictions, %.0f MiB out; %.1f MiB pinned, %.1f pageable\n",
        budget / 1048576, settings, statistic("peak_bytes") / 1048576, statistic("evictions"),
        statistic("bytes_out") / 1048576, statistic("host_peak_bytes") / 1048576,
        statistic("pageable_peak_bytes") / 1048576);
    assert_true(statistic("peak_bytes") <= budget);
    assert_true(peak_of_device() >= statistic("peak_bytes") && peak_of_device() <= budget);
    return out;
}

static outcome_t run_under_ebb(double budget, const char *settings, const char *arguments)
{
    return run_within(budget, budget, settings, arguments);
}

static void two_threads_under_budgets_have_the_same_bits(void **state)
{
    static const int percents[] = {100, 80, 60, 50, 40};
    (void)state;
    outcome_t without = run("", "");
    for (unsigned i = 0; i < 5; i += test_is_long() ? 1 : 2) {
        outcome_t with = run_under_ebb(without.peak * percents[i] / 100, "", "");
        assert_string_equal(without.run.output, with.run.output);
        assert_true(percents[i] > 80 || statistic("evictions") > 0);
        assert_true(statistic("pageable_peak_bytes") == 0);
        with = run_within(without.peak * percents[i] / 100, 3 * without.peak, "", "");
        assert_string_equal(without.run.output, with.run.output);
    }
}

/* However little is left of the budget. */
static void nothing_is_pinned_for_a_program_that_fits(void **state)
{
    (void)state;
    outcome_t without = run("", "");
    outcome_t with = run_within(without.peak * 1.04, 3 * without.peak, "", "");
    assert_string_equal(without.run.output, with.run.output);
    assert_true(statistic("evictions") == 0 && statistic("host_peak_bytes") == 0);
}

/* Beyond what may be pinned, or where nothing can be. */
static void pageable_memory_is_used_where_no_more_is_pinned(void **state)
{
    (void)state;
    outcome_t without = run("", "");
    outcome_t some = run_under_ebb(without.peak * 0.5, "EBB_HOST_BUDGET=12MiB", "");
    assert_string_equal(without.run.output, some.run.output);
    assert_true(statistic("host_peak_bytes") <= 12 << 20 && statistic("pageable_peak_bytes") > 12 << 20);
    assert_non_null(strstr(some.run.log, "EBB_HOST_BUDGET"));
    outcome_t none = run_under_ebb(without.peak * 0.5, "SOFTGPU_FAULT=cuMemHostRegister@1+", "");
    assert_string_equal(without.run.output, none.run.output);
    assert_true(statistic("host_peak_bytes") == 0 && statistic("pageable_peak_bytes") > 12 << 20);
    assert_non_null(strstr(none.run.log, "cannot be pinned"));
}

/* As under confidential computing: the driver allocates what may not be registered. */
static void memory_is_pinned_where_registering_is_not_supported(void **state)
{
    (void)state;
    outcome_t without = run("", "");
    outcome_t with = run_under_ebb(without.peak * 0.5, "SOFTGPU_LIMITS=register:0", "");
    assert_string_equal(without.run.output, with.run.output);
    assert_true(statistic("host_peak_bytes") > 12 << 20 && statistic("pageable_peak_bytes") == 0);
}

/* A quarter of what is pinned counts on the device: the budget holds for both together, but for what is pinned until it is measured.
 * Also where NVML says that the process holds nothing, as it does in containers. */
static void what_pinning_takes_of_the_device_counts(void **state)
{
    (void)state;
    outcome_t without = run("", "");
    const double budget = without.peak * 0.6;
    for (int container = 0; container < 2; container++) {
        char all[768];
        snprintf(all, sizeof all,
                 "LD_LIBRARY_PATH=\"$LD_LIBRARY_PATH:%s\" NVML_SHOWS=self:0 LD_PRELOAD=%s EBB_STATS=%s "
                 "SOFTGPU_PEAK=%s "
                 "SOFTGPU_MEMORY=%.0f EBB_BUDGET=%.0f SOFTGPU_LIMITS=charge:256MiB EBB_LOG=info",
                 container ? getenv("TEST_NVML") : "", getenv("TEST_LIBEBB"), stats_path, device_path,
                 3 * without.peak, budget);
        outcome_t with = run(all, "");
        print_message("%.1f MiB: device %.1f, %.1f MiB pinned, %.1f MiB not ebb's\n", budget / 1048576,
                      peak_of_device() / 1048576, statistic("host_peak_bytes") / 1048576,
                      statistic("overhead_bytes") / 1048576);
        assert_string_equal(without.run.output, with.run.output);
        assert_true(statistic("host_peak_bytes") >= 40 << 20);
        assert_true(peak_of_device() <= budget + (8 << 20));
        /* What all processes hold has been asked, for what pinning takes is no process's. */
        assert_true(statistic("overhead_bytes") >= 8 << 20);
    }
}

/* Out of memory, the program gives back what it does not need, and goes on. */
static void a_program_that_frees_and_retries_goes_on(void **state)
{
    static const char *const settings[] = {"EBB_POLICY=keep", "EBB_HOST_BUDGET=8MiB EBB_PAGEABLE=0"};
    (void)state;
    outcome_t without = run("", "");
    for (unsigned i = 0; i < 2; i++) {
        outcome_t with = run_under_ebb(without.peak * 1.2, settings[i], "greedy");
        assert_string_equal(without.run.output, with.run.output);
        assert_true(with.retries > 0);
        assert_non_null(strstr(with.run.log, "ebb: out of memory for an allocation of 5.0 MiB"));
    }
}

int main(void)
{
    snprintf(stats_path, sizeof stats_path, "/tmp/ebb-pair-stats-%d", (int)getpid());
    snprintf(device_path, sizeof device_path, "/tmp/ebb-pair-peak-%d", (int)getpid());
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_threads_under_budgets_have_the_same_bits),
        cmocka_unit_test(nothing_is_pinned_for_a_program_that_fits),
        cmocka_unit_test(pageable_memory_is_used_where_no_more_is_pinned),
        cmocka_unit_test(memory_is_pinned_where_registering_is_not_supported),
        cmocka_unit_test(what_pinning_takes_of_the_device_counts),
        cmocka_unit_test(a_program_that_frees_and_retries_goes_on),
    };
    int failed = cmocka_run_group_tests_name("pair", tests, NULL, NULL);
    remove(stats_path);
    remove(device_path);
    return failed;
}
