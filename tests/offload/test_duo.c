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

typedef struct outcome {
    char hashes[64];
    double peak[2]; /* bytes allocated at most on each device */
    char log[16384];
} outcome_t;

static char stats_path[64];

static outcome_t run(const char *settings, const char *mode)
{
    static outcome_t out;
    char command[1024], log_path[] = "/tmp/ebb-duo-XXXXXX";
    int file = mkstemp(log_path);
    assert_true(file >= 0);
    snprintf(command, sizeof command, "SOFTGPU_DEVICES=2 %s %s %s 2>%s", settings, getenv("TEST_DUO"), mode,
             log_path);
    FILE *f = popen(command, "r");
    assert_non_null(f);
    bool printed = fgets(out.hashes, sizeof out.hashes, f) != NULL;
    int status = pclose(f);
    f = fdopen(file, "r");
    assert_non_null(f);
    out.log[fread(out.log, 1, sizeof out.log - 1, f)] = 0;
    fclose(f);
    remove(log_path);
    if (!printed || status)
        fail_msg("%s: %d: %s", command, status, out.log);
    const char *numbers = strstr(out.log, "peak ");
    while (numbers && sscanf(numbers, "peak %lf %lf", &out.peak[0], &out.peak[1]) != 2)
        numbers = strstr(numbers + 1, "peak ");
    assert_non_null(numbers);
    return out;
}

/* Of one device, from the list at the end of the statistics. */
static double statistic(unsigned device, const char *key)
{
    char line[16384] = "", quoted[64];
    FILE *f = fopen(stats_path, "r");
    assert_non_null(f);
    assert_non_null(fgets(line, sizeof line, f));
    fclose(f);
    snprintf(quoted, sizeof quoted, "{\"device\": %u,", device);
    const char *at = strstr(line, quoted);
    assert_non_null(at);
    snprintf(quoted, sizeof quoted, "\"%s\": ", key);
    at = strstr(at, quoted);
    assert_non_null(at);
    return atof(at + strlen(quoted));
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
    outcome_t without = run(settings, mode);
    outcome_t with = run_under_ebb(without.peak[0] * share, settings, mode);
    assert_string_equal(without.hashes, with.hashes);
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
    outcome_t without = run("", "peers");
    outcome_t with = run_under_ebb(without.peak[0] * 1.5, "", "peers");
    assert_string_equal(without.hashes, with.hashes);
    assert_true(statistic(1, "evictions") > 0 && statistic(1, "fetches") > 0);
    assert_non_null(strstr(with.log, "nothing leaves device 0"));
    assert_null(strstr(with.log, "nothing leaves device 1"));
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

static void each_device_has_its_share_of_the_budget(void **state)
{
    (void)state;
    outcome_t without = run("", "copies");
    char settings[128];
    snprintf(settings, sizeof settings, "EBB_BUDGET=%.0f", without.peak[0] * 0.7);
    outcome_t with = run_under_ebb(1 << 30, settings, "copies");
    assert_string_equal(without.hashes, with.hashes);
    for (unsigned i = 0; i < 2; i++) {
        assert_true(statistic(i, "evictions") > 0);
        assert_true(statistic(i, "peak_bytes") + statistic(i, "overhead_bytes") <= without.peak[0] * 0.7);
    }
    with = run_under_ebb(without.peak[0] * 1.4, "EBB_BUDGET=50%", "copies");
    assert_string_equal(without.hashes, with.hashes);
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
        cmocka_unit_test(each_device_has_its_share_of_the_budget),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    remove(stats_path);
    return failed;
}
