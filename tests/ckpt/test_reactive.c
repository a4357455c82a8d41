/* Reactive mode that knows the step (EBB_POLICY=learn), under the loop in programs/loop.c and under ebb-train: the same bits as
 * without ebb, whatever is dropped, copied out or fetched ahead, and whatever the program does that is not in the step. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "program.h"
#include "trainer.h"

static char stats_path[64];

typedef struct statistics {
    double drops, rebuilt, replays, verified, mismatches, evictions, ahead, driven, peak, budget;
} statistics_t;

static double statistic(const char *key)
{
    return program_statistic(stats_path, NULL, key);
}

static statistics_t read_statistics(void)
{
    const statistics_t s = {
        statistic("reactive_drops"), statistic("rebuilt"),      statistic("reactive_replays"),
        statistic("verified"),       statistic("mismatches"),   statistic("evictions"),
        statistic("ahead"),          statistic("steps_driven"), statistic("peak_bytes"),
        statistic("budget_bytes")};
    remove(stats_path);
    return s;
}

/* The loop, with the environment `settings` before it. */
static program_run_t run(const char *settings, const char *arguments)
{
    static program_run_t out;
    char command[1280];
    snprintf(command, sizeof command, "%s %s %s", settings, getenv("TEST_LOOP"), arguments);
    program_run(command, &out);
    return out;
}

static program_run_t run_under_ebb(const char *settings, const char *arguments, statistics_t *s)
{
    char all[1024];
    snprintf(all, sizeof all, "LD_PRELOAD=%s EBB_STATS=%s EBB_POLICY=learn SOFTGPU_MEMORY=52MiB %s",
             getenv("TEST_LIBEBB"), stats_path, settings);
    program_run_t out = run(all, arguments);
    *s = read_statistics();
    return out;
}

static void assert_same(const program_run_t *a, const program_run_t *b, const char *what)
{
    if (a->status || b->status || strcmp(a->output, b->output))
        fail_msg("%s: exit codes %d and %d, %s and %s: %s", what, WEXITSTATUS(a->status),
                 WEXITSTATUS(b->status), a->output, b->output, b->log);
    assert_true(strlen(a->output) >= 16);
}

static const char *const means[] = {"EBB_LINK=1M", "EBB_OFFLOAD=0", "EBB_RECOMPUTE=0"};

/* With a slow link recomputing is the cheaper way; the options forbid one or the other. */
static void each_way_out_gives_the_same_bits(void **state)
{
    (void)state;
    const program_run_t without = run("", "steps=14");
    for (unsigned i = 0; i < 3; i++) {
        statistics_t s;
        const program_run_t with = run_under_ebb(means[i], "steps=14", &s);
        print_message("%s: %.0f dropped, %.0f rebuilt by %.0f launches, %.0f verified; %.0f evicted, %.0f "
                      "fetched ahead\n",
                      means[i], s.drops, s.rebuilt, s.replays, s.verified, s.evictions, s.ahead);
        assert_same(&without, &with, means[i]);
        assert_true(s.driven == 0 && s.mismatches == 0 && s.peak <= s.budget);
        if (i == 2)
            assert_true(s.drops + s.rebuilt == 0 && s.ahead > 0);
        else
            assert_true(s.drops > 0 && s.rebuilt > 0 && s.verified > 0);
    }
}

/* EBB_RECOMPUTE_MAX_COST=1: no launch is that much cheaper than its transfer over a link like that. */
static void options_keep_it_from_recomputing(void **state)
{
    (void)state;
    statistics_t s;
    const program_run_t without = run("", "steps=10");
    const program_run_t with = run_under_ebb("EBB_LINK=100G EBB_RECOMPUTE_MAX_COST=1", "steps=10", &s);
    assert_same(&without, &with, "EBB_RECOMPUTE_MAX_COST=1");
    assert_true(s.drops == 0 && s.evictions > 0);
}

/* Launches, allocations and passes more than in the step; frees that come late, reads of what was done with. */
static void programs_that_leave_the_step_keep_their_bits(void **state)
{
    (void)state;
    double rebuilt = 0;
    const int seeds = test_is_long() ? 12 : 1;
    for (int seed = 1; seed <= seeds; seed++) {
        char arguments[64];
        statistics_t s;
        snprintf(arguments, sizeof arguments, "steps=22 deviate=%d", seed);
        const program_run_t without = run("", arguments);
        const program_run_t with = run_under_ebb(means[seed % 2], arguments, &s);
        print_message("seed %d: %.0f dropped, %.0f rebuilt\n", seed, s.drops, s.rebuilt);
        assert_same(&without, &with, arguments);
        assert_true(s.mismatches == 0);
        rebuilt += s.rebuilt;
    }
    assert_true(rebuilt > 0);
}

/* A kernel that was never seen to write begins to, into what was made by others: replays give other bits from then on. The
 * hashes tell, and the program is told, unless a copy was at hand. */
static void writes_that_were_never_seen_are_noticed(void **state)
{
    (void)state;
    statistics_t s;
    const program_run_t without = run("", "steps=20 flag=15");
    const program_run_t with = run_under_ebb("EBB_OFFLOAD=0 EBB_VERIFY=1", "steps=20 flag=15", &s);
    print_message("exit code %d, %.0f mismatches\n", WEXITSTATUS(with.status), s.mismatches);
    assert_true(s.mismatches > 0);
    assert_non_null(strstr(with.log, "has other bits"));
    if (with.status == 0)
        assert_same(&without, &with, "flag=15");
    else
        assert_non_null(strstr(with.log, "cudaErrorLaunchFailure"));
}

static void assert_same_run(const history_t *a, const history_t *b)
{
    assert_int_equal(a->steps, b->steps);
    for (int i = 0; i < a->steps; i++)
        assert_string_equal(a->loss_hex[i], b->loss_hex[i]);
    assert_string_equal(a->state_hash, b->state_hash);
    assert_true(strlen(a->state_hash) > 8);
}

/* Percent of the peak. All three budgets with TEST_LONG=1. */
static void the_trainer_has_the_same_bits(void **state)
{
    (void)state;
    static const int percents[] = {50, 70, 40};
    static const char *const off[] = {"", "EBB_OFFLOAD", "EBB_RECOMPUTE"};
    const char *shape = "--layers 3 --width 64 --heads 2 --context 128 --batch 64 --sample 0 "
                        "--steps 12 --dropout 0.1";
    const history_t without = trainer_train(shape);
    for (unsigned k = 0; k < (test_is_long() ? 9u : 2u); k++) {
        char bytes[32];
        snprintf(bytes, sizeof bytes, "%.0f", without.peak_bytes * percents[k / 3] / 100);
        setenv("SOFTGPU_MEMORY", bytes, 1);
        setenv("EBB_STATS", stats_path, 1);
        setenv("EBB_POLICY", "learn", 1);
        if (*off[k % 3])
            setenv(off[k % 3], "0", 1);
        setenv("LD_PRELOAD", getenv("TEST_LIBEBB"), 1);
        const history_t with = trainer_train(shape);
        unsetenv("LD_PRELOAD");
        unsetenv("EBB_POLICY");
        unsetenv("SOFTGPU_MEMORY");
        if (*off[k % 3])
            unsetenv(off[k % 3]);
        const statistics_t s = read_statistics();
        print_message("%d%%, without %s: %.0f dropped, %.0f rebuilt, %.0f evicted, %.0f fetched ahead\n",
                      percents[k / 3], off[k % 3], s.drops, s.rebuilt, s.evictions, s.ahead);
        assert_same_run(&without, &with);
        assert_true(s.driven == 0 && s.mismatches == 0 && s.peak <= s.budget);
        assert_true(k % 3 != 1 || (s.drops > 0 && s.rebuilt > 0));
    }
}

static int setup(void **state)
{
    (void)state;
    snprintf(stats_path, sizeof stats_path, "/tmp/ebb-reactive-stats-%d.json", (int)getpid());
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    remove(stats_path);
    trainer_clean();
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_way_out_gives_the_same_bits),
        cmocka_unit_test(options_keep_it_from_recomputing),
        cmocka_unit_test(programs_that_leave_the_step_keep_their_bits),
        cmocka_unit_test(writes_that_were_never_seen_are_noticed),
        cmocka_unit_test(the_trainer_has_the_same_bits),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
