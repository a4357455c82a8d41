/* programs/duo.c, two devices, at budgets that force eviction on both: the same bits as without ebb, on devices that have
 * no more memory than the budget. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
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
    double peak[2]; /* bytes allocated at most on each device */
} outcome_t;

static char stats_path[64];

static outcome_t run(const char *settings, const char *mode)
{
    static outcome_t out;
    char command[1024];
    snprintf(command, sizeof command, "SOFTGPU_DEVICES=2 %s timeout 100 %s %s", settings, getenv("TEST_DUO"),
             mode);
    program_run(command, &out.run);
    if (out.run.status || !*out.run.output)
        fail_msg("%s: %d: %s", command, out.run.status, out.run.log);
    const char *numbers = strstr(out.run.log, "peak ");
    while (numbers && sscanf(numbers, "peak %lf %lf", &out.peak[0], &out.peak[1]) != 2)
        numbers = strstr(numbers + 1, "peak ");
    assert_non_null(numbers);
    return out;
}

/* What does not depend on time is asked for once. */
static outcome_t run_without(const char *mode)
{
    static struct {
        const char *mode;
        outcome_t outcome;
    } known[8];
    unsigned i = 0;
    while (known[i].mode && strcmp(known[i].mode, mode))
        i++;
    if (!known[i].mode) {
        known[i].outcome = run("", mode);
        known[i].mode = mode;
    }
    return known[i].outcome;
}

/* Of one device, from the list at the end of the statistics. */
static double statistic(unsigned device, const char *key)
{
    char its[32];
    snprintf(its, sizeof its, "{\"device\": %u,", device);
    return program_statistic(stats_path, its, key);
}

static outcome_t run_under_ebb(double budget, const char *settings, const char *mode)
{
    char all[768];
    snprintf(all, sizeof all, "LD_PRELOAD=%s EBB_STATS=%s SOFTGPU_MEMORY=%.0f %s", getenv("TEST_LIBEBB"),
             stats_path, budget, settings);
    outcome_t out = run(all, mode);
    for (unsigned i = 0; i < 2; i++) {
        print_message("%s, device %u of %.1f MiB: peak %.1f, %.0f evictions, %.0f fetches\n", mode, i,
                      budget / 1048576, statistic(i, "peak_bytes") / 1048576, statistic(i, "evictions"),
                      statistic(i, "fetches"));
        assert_true(statistic(i, "peak_bytes") <= budget);
    }
    return out;
}

/* On devices of that share of what the first one's half of the program takes. */
static void compare(const char *mode, const char *settings, double share)
{
    outcome_t without = run_without(mode);
    outcome_t with = run_under_ebb(without.peak[0] * share, settings, mode);
    assert_string_equal(without.run.output, with.run.output);
}

static void copies_between_devices_under_budgets_have_the_same_bits(void **state)
{
    static const double shares[] = {1.3, 0.6};
    (void)state;
    for (unsigned i = 0; i < 2; i++) {
        compare("copies", "", shares[i]);
        for (unsigned device = 0; device < 2 && i; device++)
            assert_true(statistic(device, "evictions") > 0 && statistic(device, "fetches") > 0);
    }
}

static void copies_on_the_virtual_clock_have_the_same_bits(void **state)
{
    (void)state;
    for (unsigned seed = 1; seed <= 2; seed++) {
        char settings[128];
        snprintf(settings, sizeof settings, "SOFTGPU_SCHEDULER=deterministic SOFTGPU_SEED=%u", seed);
        compare("copies", settings, 0.7);
        assert_true(statistic(0, "evictions") > 0 && statistic(1, "evictions") > 0);
    }
}

/* What peers may reach stays: the first device needs what is alive on it, the second does not. */
static void a_kernel_reads_a_peers_memory(void **state)
{
    (void)state;
    outcome_t without = run_without("peers");
    outcome_t with = run_under_ebb(without.peak[0] * 1.5, "", "peers");
    assert_string_equal(without.run.output, with.run.output);
    assert_true(statistic(1, "evictions") > 0 && statistic(1, "fetches") > 0);
    assert_non_null(strstr(with.run.log, "nothing leaves device 0"));
    assert_null(strstr(with.run.log, "nothing leaves device 1"));
}

static void one_device_goes_on_when_the_others_context_ends(void **state)
{
    static const char *const modes[] = {"reset", "release"};
    (void)state;
    for (unsigned i = 0; i < 2; i++) {
        compare(modes[i], "", 0.7);
        /* Served again in its next context. */
        assert_true(statistic(0, "evictions") > 0 && statistic(1, "evictions") > 0);
    }
}

static void a_forked_child_and_a_further_context_do_no_harm(void **state)
{
    (void)state;
    compare("fork", "", 0.7);
    compare("further", "", 0.9);
    assert_true(statistic(1, "evictions") > 0);
}

/* Each is in calls about the other's device while that one is in calls about its. */
static void threads_free_each_others_memory_at_once(void **state)
{
    (void)state;
    compare("trade", "", 0.8);
    assert_true(statistic(0, "evictions") > 0 && statistic(1, "evictions") > 0);
}

/* Statistics are gathered from both. */
static void the_process_ends_while_both_threads_go_on(void **state)
{
    (void)state;
    compare("ends", "", 0.7);
    assert_true(statistic(0, "evictions") > 0 && statistic(1, "evictions") > 0);
}

static void each_device_has_its_share_of_the_budget(void **state)
{
    (void)state;
    outcome_t without = run_without("copies");
    char settings[128];
    snprintf(settings, sizeof settings, "EBB_BUDGET=%.0f", without.peak[0] * 0.7);
    outcome_t with = run_under_ebb(1 << 30, settings, "copies");
    assert_string_equal(without.run.output, with.run.output);
    for (unsigned i = 0; i < 2; i++) {
        assert_true(statistic(i, "evictions") > 0);
        assert_true(statistic(i, "peak_bytes") + statistic(i, "overhead_bytes") <= without.peak[0] * 0.7);
    }
    with = run_under_ebb(without.peak[0] * 1.4, "EBB_BUDGET=50%", "copies");
    assert_string_equal(without.run.output, with.run.output);
    for (unsigned i = 0; i < 2; i++)
        assert_true(statistic(i, "evictions") > 0 && statistic(i, "peak_bytes") <= without.peak[0] * 0.7);
}

int main(void)
{
    snprintf(stats_path, sizeof stats_path, "/tmp/ebb-duo-stats-%d", (int)getpid());
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(copies_between_devices_under_budgets_have_the_same_bits),
        cmocka_unit_test(copies_on_the_virtual_clock_have_the_same_bits),
        cmocka_unit_test(a_kernel_reads_a_peers_memory),
        cmocka_unit_test(one_device_goes_on_when_the_others_context_ends),
        cmocka_unit_test(a_forked_child_and_a_further_context_do_no_harm),
        cmocka_unit_test(threads_free_each_others_memory_at_once),
        cmocka_unit_test(the_process_ends_while_both_threads_go_on),
        cmocka_unit_test(each_device_has_its_share_of_the_budget),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    remove(stats_path);
    return failed;
}
