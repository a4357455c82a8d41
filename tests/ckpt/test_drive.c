/* Programs that do not keep to the plan, under libebb: the loop in programs/loop.c, which knows nothing of
 * it. Its output is a hash of all that it has computed. TEST_ONLY=PATTERN: some of the tests; TEST_LONG=1: more seeds and means. */
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

#include "loop_run.h"

/* The first launch of a kernel in a trace. */
static void find_launch(const char *trace, const char *kernel, char line[4096])
{
    FILE *f = fopen(trace, "r");
    assert_non_null(f);
    while (fgets(line, 4096, f) && !(strstr(line, kernel) && strstr(line, "\"op\"")))
        ;
    fclose(f);
    assert_non_null(strstr(line, kernel));
}

/* The modes of its accesses, in order of its arguments, as digits. */
static void modes_of(const char *trace, const char *kernel, char out[16])
{
    char line[4096];
    size_t count = 0;
    find_launch(trace, kernel, line);
    for (const char *at = strstr(line, "\"access\": ["); (at = strchr(at, ']')) && at[1] != '}' && count < 15;
         at++)
        out[count++] = at[-1];
    out[count] = 0;
}

static void program_that_keeps_to_its_step_is_driven(void **state)
{
    (void)state;
    static const char *const means[] = {TIGHT, TIGHT "EBB_RECOMPUTE=0", TIGHT "EBB_OFFLOAD=0"};
    program_run_t without = loop_run("", "steps=26");
    for (int i = 0; i < 3; i += test_is_long() ? 1 : 2) {
        loop_statistics_t s;
        program_run_t with = loop_under_ebb(means[i], "steps=26", &s);
        assert_same(&without, &with, means[i]);
        print_message("%s: %.0f of 26 steps driven, %.0f offloaded, %.0f dropped, %.0f verified\n", means[i],
                      s.driven, s.offloaded, s.dropped, s.verified);
        assert_true(s.driven >= 15 && s.mismatches == 0);
        assert_true(s.offloaded + s.dropped > 0);
        if (i == 2)
            assert_true(s.dropped > 0 && s.verified > 0);
    }
}

/* A program that asks between steps how much it could allocate, by allocating it, is driven as if it had not. */
static void probe_for_free_memory_leaves_no_plan(void **state)
{
    (void)state;
    loop_statistics_t s, probed;
    const program_run_t plain = loop_under_ebb(TIGHT, "steps=26", &s);
    const program_run_t with = loop_under_ebb(TIGHT, "steps=26 probe=16", &probed);
    assert_same(&plain, &with, "probe=16");
    print_message("%.0f steps driven, left %.0f times; with a probe behind each %.0f, %.0f\n", s.driven,
                  s.fallbacks, probed.driven, probed.fallbacks);
    assert_true(s.driven >= 15 && probed.driven == s.driven && probed.fallbacks == s.fallbacks);
    assert_true(probed.driven_peak == s.driven_peak && probed.peak == s.peak);
}

/* Outputs that outlive the next one or two, and buffers that change places with every step: with leaving and coming back. */
static void buffers_that_are_others_in_each_step_are_driven(void **state)
{
    (void)state;
    static const struct {
        const char *arguments, *means;
    } cases[] = {{"keep=1 steps=24", "SOFTGPU_MEMORY=54MiB"},
                 {"keep=2 swap=1 steps=26", "SOFTGPU_MEMORY=50MiB EBB_RECOMPUTE=0"},
                 {"keep=2 swap=1 steps=26", "SOFTGPU_MEMORY=76MiB EBB_OFFLOAD=0"},
                 {"keep=1 swap=1 layers=4 each=14 steps=54", "SOFTGPU_MEMORY=50MiB"}};
    for (size_t i = test_is_long() ? 0 : 2; i < sizeof cases / sizeof *cases; i++) {
        loop_statistics_t s;
        program_run_t without = loop_run("", cases[i].arguments);
        program_run_t with = loop_under_ebb(cases[i].means, cases[i].arguments, &s);
        print_message("%s, %s: %.0f steps driven, left %.0f times, %.0f offloaded, %.0f dropped\n",
                      cases[i].arguments, cases[i].means, s.driven, s.fallbacks, s.offloaded, s.dropped);
        assert_same(&without, &with, cases[i].arguments);
        assert_true(s.driven >= 8 && s.mismatches == 0);
    }
}

/* A fixed strategy is followed also where everything fits. */
static void every_policy_is_driven_to_the_same_bits(void **state)
{
    (void)state;
    static const char *const means[] = {"EBB_POLICY=offload EBB_LINK=1000GB",
                                        "EBB_POLICY=sqrt",
                                        "EBB_POLICY=uniform:2",
                                        "EBB_POLICY=selective",
                                        "EBB_POLICY=recursive",
                                        "EBB_POLICY=revolve:2"};
    program_run_t without = loop_run("", "steps=22");
    for (size_t i = 0; i < sizeof means / sizeof means[0]; i += test_is_long() ? 1 : 3) {
        loop_statistics_t s;
        program_run_t with = loop_under_ebb(means[i], "steps=22", &s);
        assert_same(&without, &with, means[i]);
        assert_true(s.driven >= 4 && s.mismatches == 0);
        assert_true(i ? !s.offloaded : s.offloaded > 0 && !s.dropped);
        assert_true(!i || s.dropped > 0 ||
                    strstr(means[i], "selective")); /* layers cost the same: perhaps none */
    }
}

/* EBB_PLAN drives what EBB_SAVE_PLAN has written; what is no plan for the step is told and not driven. */
static void given_plan_is_driven_if_it_is_good(void **state)
{
    (void)state;
    char plan[80], settings[256];
    loop_statistics_t s;
    snprintf(plan, sizeof plan, "%s.plan", loop_stats);
    snprintf(settings, sizeof settings, TIGHT "EBB_RECOMPUTE=0 EBB_SAVE_PLAN=%s", plan);
    program_run_t without = loop_run("", "steps=32");
    program_run_t with = loop_under_ebb(settings, "steps=32", &s);
    assert_same(&without, &with, settings);
    const double offloaded = s.offloaded;
    assert_true(offloaded > 0);
    snprintf(settings, sizeof settings, "EBB_PLAN=%s", plan);
    with = loop_under_ebb(settings, "steps=32", &s);
    assert_same(&without, &with, settings);
    assert_non_null(strstr(with.log, "is good for this step"));
    assert_true(s.offloaded == offloaded && s.driven >= 8);
    FILE *f = fopen(plan, "r+");
    assert_non_null(f);
    fputs("{\"ebb_plan\": 7", f);
    fclose(f);
    with = loop_under_ebb(settings, "steps=32", &s);
    assert_same(&without, &with, settings);
    assert_non_null(strstr(with.log, "is not driven, ebb makes its own: line 1: "));
    assert_true(s.offloaded == 0 && s.driven >= 8);
    remove(plan);
}

static void program_that_leaves_the_plan_comes_back(void **state)
{
    (void)state;
    const int seeds = test_is_long() ? 6 : 3;
    double fallbacks = 0, rebuilt = 0;
    for (int seed = 1; seed <= seeds; seed++) {
        static const char *const means[] = {TIGHT "EBB_OFFLOAD=0", TIGHT, TIGHT "EBB_RECOMPUTE=0"};
        char arguments[64];
        loop_statistics_t s;
        snprintf(arguments, sizeof arguments, "steps=40 deviate=%d", seed);
        program_run_t without = loop_run("", arguments);
        program_run_t with = loop_under_ebb(means[seed % 3], arguments, &s);
        print_message("seed %d, %s: %.0f steps driven, left %.0f times, %.0f contents rebuilt\n", seed,
                      means[seed % 3], s.driven, s.fallbacks, s.rebuilt);
        assert_same(&without, &with, arguments);
        assert_true(s.mismatches == 0);
        assert_true(s.driven > 4 && s.fallbacks > 1);
        fallbacks += s.fallbacks;
        rebuilt += s.rebuilt;
    }
    assert_true(6 * fallbacks > 20 * seeds && rebuilt > 0);
}

/* The same as without ebb. */
static program_run_t diverging(const char *arguments, loop_statistics_t *s)
{
    const program_run_t without = loop_run("", arguments),
                        with = loop_under_ebb("SOFTGPU_MEMORY=42MiB", arguments, s);
    print_message("%.0f steps driven, left %.0f times\n", s->driven, s->fallbacks);
    assert_same(&without, &with, arguments);
    return with;
}

/* For a while each step begins with what the one before has left. */
static void step_that_begins_elsewhere_is_learned_again(void **state)
{
    (void)state;
    loop_statistics_t s;
    const program_run_t with = diverging("mib=2 steps=200 diverge=14 until=120 how=4 every=3", &s);
    assert_null(strstr(with.log, "ebb stays reactive"));
    assert_true(s.driven > 80 && s.fallbacks > 16);
}

/* For a while all of its steps leave out a launch, or have a memset for it: plans are no longer tried, and after a rest they are again. */
static void program_that_never_keeps_to_the_plan_rests_and_comes_back(void **state)
{
    (void)state;
    loop_statistics_t s;
    const program_run_t with = diverging("mib=2 steps=200 diverge=14 until=60 how=1 every=3", &s);
    assert_non_null(strstr(with.log, "ebb stays reactive for 64 steps"));
    assert_null(strstr(with.log, "ebb stays reactive for 128 steps"));
    assert_true(s.driven > 80 && s.fallbacks > 16 && s.fallbacks < 30);
}

/* What the plan has dropped is made when it is touched; where memory is short, at once; and what that takes has perhaps been freed. */
static void program_that_leaves_the_plan_at_any_launch_loses_nothing(void **state)
{
    (void)state;
    static const char *const means[] = {
        "SOFTGPU_MEMORY=40MiB EBB_OFFLOAD=0",
        "SOFTGPU_MEMORY=40MiB EBB_OFFLOAD=0 EBB_HOST_BUDGET=28MiB EBB_PAGEABLE=0",
        "SOFTGPU_MEMORY=42MiB EBB_OFFLOAD=0",
        "SOFTGPU_MEMORY=40MiB EBB_OFFLOAD=0 EBB_HOST_BUDGET=4MiB EBB_PAGEABLE=0 EBB_DISK=.:64MiB",
        "SOFTGPU_MEMORY=36MiB"};
    static const char *const arguments[] = {"layers=5 each=10 steps=58", "layers=5 each=10 steps=58",
                                            "layers=5 each=10 steps=58 through=1",
                                            "layers=5 each=10 steps=58", "layers=5 each=10 steps=58 bring=1"};
    for (int i = test_is_long() ? 0 : 1; i < 5; i++) {
        loop_statistics_t s;
        program_run_t without = loop_run("", arguments[i]);
        program_run_t with = loop_under_ebb(means[i], arguments[i], &s);
        print_message("%s: %.0f steps driven, left %.0f times, %.0f contents rebuilt by %.0f launches\n",
                      means[i], s.driven, s.fallbacks, s.rebuilt, s.replays);
        assert_same(&without, &with, means[i]);
        /* Behind the last replay it does no harm. */
        assert_true(s.mismatches == 0 && s.fallbacks >= 15 && s.rebuilt > 0);
        assert_int_equal(strstr(with.log, "is made at once") != NULL, i % 2 == 1);
        assert_int_equal(s.replays > s.rebuilt, i == 2);
    }
}

/* An allocation, and launches that read a live activation and write none of the plan's but the sums, at any launch of the step: half of
 * them at least, as some steps are expected to be of another kind. */
static void program_that_does_a_little_more_stays_with_the_plan(void **state)
{
    (void)state;
    static const char *const means[] = {"SOFTGPU_MEMORY=44MiB EBB_OFFLOAD=0",
                                        "SOFTGPU_MEMORY=44MiB EBB_RECOMPUTE=0"};
    program_run_t without = loop_run("", "layers=5 more=12 steps=60");
    for (int i = 0; i < 2; i++) {
        loop_statistics_t s;
        program_run_t with = loop_under_ebb(means[i], "layers=5 more=12 steps=60", &s);
        print_message("%s: %.0f steps driven, left %.0f times, %.0f unplanned, %.0f contents rebuilt\n",
                      means[i], s.driven, s.fallbacks, s.unplanned, s.rebuilt);
        assert_same(&without, &with, means[i]);
        assert_true(s.mismatches == 0 && s.driven >= 30 && s.fallbacks <= 16 && s.unplanned >= 48);
    }
}

/* Between operations that touch them, large buffers have no memory under EBB_GUARD: the same bits, and what ebb did not see faults. */
static void guard_finds_an_access_that_nobody_has_seen(void **state)
{
    (void)state;
    static const char *const means[] = {TIGHT "EBB_GUARD=1", TIGHT "EBB_GUARD=1 EBB_OFFLOAD=0"};
    static const char *const arguments[] = {"steps=24 peek=999 keep=1 more=16",
                                            "steps=24 peek=999 deviate=3"};
    loop_statistics_t s;
    for (int i = test_is_long() ? 0 : 1; i < 2; i++) {
        program_run_t without = loop_run("", arguments[i]);
        program_run_t with = loop_under_ebb(means[i], arguments[i], &s);
        assert_same(&without, &with, arguments[i]);
        assert_true(s.driven >= 4 && s.mismatches == 0);
    }
    program_run_t with = loop_under_ebb(means[0], "steps=28 peek=24", &s);
    assert_int_equal(WEXITSTATUS(with.status), 3);
    const char *told = strstr(with.log, "EBB_GUARD: CUDA_ERROR_ILLEGAL_ADDRESS behind operation ");
    assert_true(told && strstr(told, "peek_kernel"));
    assert_null(strstr(with.log, "cuMemMap")); /* which cannot be done any more */
}

/* The link that ebb is told of is faster than the one there is: what the copies took makes another plan, once. */
static void copies_that_come_late_lead_to_a_new_plan(void **state)
{
    (void)state;
    static const char *const links[] = {"EBB_LINK=26GB", "EBB_LINK=100GB"};
    program_run_t without = loop_run("", "steps=40");
    for (int i = 0; i < 2; i++) {
        char settings[128];
        loop_statistics_t s;
        snprintf(settings, sizeof settings, TIGHT "SOFTGPU_PROFILE=H100 EBB_RECOMPUTE=0 %s", links[i]);
        program_run_t with = loop_under_ebb(settings, "steps=40", &s);
        assert_same(&without, &with, settings);
        assert_int_equal(loop_statistic("replans"), i);
        assert_int_equal(strstr(with.log, "a new plan: the program waited") != NULL, i);
        assert_true(s.driven >= 20 && s.driven_peak == s.predicted_peak);
    }
}

/* A budget that is a share of the step's own peak: the device's memory until a step is known, then that share, which holds. */
static void share_of_the_peak_holds_from_the_step_on(void **state)
{
    static const int percents[] = {90, 60};
    static const char *const arguments[] = {"steps=26", "steps=40 keep=2 swap=1", "steps=26 grow=20"};
    (void)state;
    for (int i = 0; i < 3; i++) {
        loop_statistics_t s;
        char settings[64];
        program_run_t without = loop_run("", arguments[i]), kept = loop_under_ebb("", arguments[i], &s);
        const double peak = s.peak;
        assert_same(&without, &kept, arguments[i]);
        for (int j = 0; j < 2; j++) {
            snprintf(settings, sizeof settings, "EBB_BUDGET=%d%%peak", percents[j]);
            program_run_t with = loop_under_ebb(settings, arguments[i], &s);
            const double budget = loop_statistic("budget_bytes") + loop_statistic("overhead_bytes");
            print_message("%s, %s: %.0f of %.1f MiB, %.1f with everything kept; %.0f steps driven\n",
                          arguments[i], settings, s.peak / 1048576, budget / 1048576, peak / 1048576,
                          s.driven);
            assert_same(&without, &with, settings);
            assert_non_null(strstr(with.log, "MiB from here on: "));
            assert_true(budget < (peak + (8 << 20)) * percents[j] / 100 &&
                        budget > (peak - (8 << 20)) * percents[j] / 100);
            assert_true(s.peak <= budget);
            assert_true(s.driven >= 8 && s.mismatches == 0);
        }
    }
}

/* Memory that the driver serves comes between two steps: the budget is kept to, with another plan. */
static void memory_that_is_taken_away_leads_to_a_new_plan(void **state)
{
    (void)state;
    static const char *const means[] = {"EBB_RECOMPUTE=0", "EBB_OFFLOAD=0"};
    program_run_t without = loop_run("", "steps=40 grow=26");
    for (int i = test_is_long() ? 0 : 1; i < 2; i++) {
        char settings[128];
        loop_statistics_t s;
        snprintf(settings, sizeof settings, "SOFTGPU_MEMORY=60MiB %s", means[i]);
        program_run_t with = loop_under_ebb(settings, "steps=40 grow=26", &s);
        assert_same(&without, &with, settings);
        assert_int_equal(loop_statistic("replans"), 1);
        assert_non_null(strstr(with.log, "the rest has grown"));
        assert_true(s.driven >= 20 && s.predicted_peak + loop_statistic("overhead_bytes") <= 60 << 20);
    }
}

/* A kernel that was never seen to write begins to: what it writes into must not be recomputed without it. */
static void write_that_was_never_seen_is_noticed(void **state)
{
    (void)state;
    loop_statistics_t s;
    program_run_t without = loop_run("", "steps=24 flag=9");
    program_run_t with =
        loop_under_ebb(TIGHT "EBB_OFFLOAD=0", "steps=24 flag=9", &s); /* the first driven step */
    assert_same(&without, &with, "flag in the first driven step");
    print_message("%.0f mismatches, %.0f steps driven\n", s.mismatches, s.driven);
    assert_true(s.mismatches > 0);
    with = loop_under_ebb(TIGHT "EBB_OFFLOAD=0 EBB_VERIFY=1", "steps=28 flag=20", &s); /* long after */
    assert_int_equal(WEXITSTATUS(with.status), 3);
    assert_non_null(strstr(with.log, "other bits")); /* noticed in the step, or when the plan is left */
    assert_non_null(strstr(with.log, "cudaErrorLaunchFailure"));
    with = loop_under_ebb(TIGHT "EBB_OFFLOAD=0 EBB_VERIFY=1", "steps=28 flag=20 poll=1", &s);
    assert_int_equal(WEXITSTATUS(with.status), 3);
    assert_non_null(strstr(with.log, "loop: poll_stream(&l): cudaErrorLaunchFailure"));
    with = loop_under_ebb(TIGHT "EBB_RECOMPUTE=0", "steps=28 flag=20", &s);
    without = loop_run("", "steps=28 flag=20");
    assert_same(&without, &with, "offloaded only");
}

/* By default a part of every content is compared in every step: what writes all of it is noticed in the step in which it begins to. */
static void late_write_is_noticed_in_its_step(void **state)
{
    (void)state;
    loop_statistics_t s;
    program_run_t with = loop_under_ebb(TIGHT "EBB_OFFLOAD=0", "steps=40", &s);
    assert_int_equal(with.status, 0);
    print_message("compared: %.0f contents of %.0f driven steps\n", s.verified, s.driven);
    assert_true(s.verified > s.driven && s.mismatches == 0);
    for (int flag = 20; flag < (test_is_long() ? 30 : 21); flag += 3) {
        char arguments[64];
        snprintf(arguments, sizeof arguments, "steps=%d flag=%d", flag + 1, flag);
        with = loop_under_ebb(TIGHT "EBB_OFFLOAD=0", arguments, &s);
        assert_int_equal(WEXITSTATUS(with.status), 3);
        assert_non_null(strstr(with.log, "other bits"));
    }
}

/* Both at once: whatever is rebuilt when the plan is left is compared as well. */
static void leaving_with_unseen_writes_is_never_silently_wrong(void **state)
{
    (void)state;
    for (int seed = 1; seed <= (test_is_long() ? 3 : 1); seed++) {
        char arguments[64];
        loop_statistics_t s;
        snprintf(arguments, sizeof arguments, "steps=34 flag=%d deviate=%d", 16 + 2 * seed, seed);
        program_run_t without = loop_run("", arguments);
        program_run_t with = loop_under_ebb(TIGHT "EBB_OFFLOAD=0 EBB_VERIFY=1", arguments, &s);
        print_message("%s: exit code %d, %.0f steps driven, %.0f mismatches, %.0f contents rebuilt\n",
                      arguments, WEXITSTATUS(with.status), s.driven, s.mismatches, s.rebuilt);
        assert_true(s.driven > 0);
        if (with.status == 0)
            assert_same(&without, &with, arguments);
        else
            assert_non_null(strstr(with.log, "cudaErrorLaunchFailure"));
    }
}

/* Arguments that lead to memory through a table are recognised: such launches are never repeated; others may be. */
static void launch_with_a_table_of_pointers_is_not_replayed(void **state)
{
    (void)state;
    static const char *const means[] = {TIGHT, TIGHT "EBB_LINK=1GB"};
    char settings[256], trace[80], line[4096];
    snprintf(trace, sizeof trace, "%s.trace", loop_stats);
    program_run_t without = loop_run("", "steps=24 hidden=5");
    for (int i = 0; i < (test_is_long() ? 2 : 1); i++) {
        loop_statistics_t s;
        snprintf(settings, sizeof settings, "%s EBB_TRACE=%s", means[i], trace);
        program_run_t with = loop_under_ebb(settings, "steps=24 hidden=5", &s);
        assert_same(&without, &with, means[i]);
        assert_true(s.mismatches == 0 && s.driven > 0);
        find_launch(trace, "forward_kernel", line);
        assert_true(program_number(line, "proofs") == 0);
        find_launch(trace, "fill_kernel", line);
        assert_true(program_number(line, "proofs") >= 3);
    }
    remove(trace);
}

/* In every step that is learned, gradients are zeros when the first launch comes to them: adding to them looks like replacing them. */
static void gradients_that_begin_as_zeros_are_added_to(void **state)
{
    (void)state;
    static const char *const runs[][2] = {{TIGHT, "steps=26 clear=1"},
                                          {TIGHT "EBB_OFFLOAD=0", "steps=26 clear=1"},
                                          {TIGHT, "steps=26 clear=3"},
                                          {TIGHT "EBB_OFFLOAD=0", "steps=26 clear=2"},
                                          {TIGHT "EBB_RECOMPUTE=0", "steps=26 clear=1"}};
    char settings[256], trace[80], modes[16];
    snprintf(trace, sizeof trace, "%s.trace", loop_stats);
    for (int i = 0; i < 5; i += test_is_long() ? 1 : 2) {
        loop_statistics_t s;
        snprintf(settings, sizeof settings, "%s EBB_TRACE=%s", runs[i][0], trace);
        program_run_t without = loop_run("", runs[i][1]), with = loop_under_ebb(settings, runs[i][1], &s);
        print_message("%s, %s: %.0f steps driven\n", runs[i][0], runs[i][1], s.driven);
        assert_same(&without, &with, settings);
        assert_true(s.driven >= 12 && s.mismatches == 0);
        modes_of(trace, "weight_gradient", modes);
        assert_string_equal(modes, "3111");
    }
    remove(trace);
}

/* Rows are written whole in each step, and what is between them once: zeros, which come out of zeros as they do of what is there. */
static void padding_that_no_step_writes_stays(void **state)
{
    (void)state;
    static const char *const means[] = {"SOFTGPU_MEMORY=56MiB ", "SOFTGPU_MEMORY=64MiB EBB_OFFLOAD=0",
                                        "SOFTGPU_MEMORY=56MiB EBB_RECOMPUTE=0"};
    const program_run_t without = loop_run("", "steps=26 pad=1");
    char settings[256], trace[80], modes[16];
    snprintf(trace, sizeof trace, "%s.trace", loop_stats);
    for (int i = 0; i < (test_is_long() ? 3 : 1); i++) {
        loop_statistics_t s;
        snprintf(settings, sizeof settings, "%s EBB_TRACE=%s", means[i], trace);
        const program_run_t with = loop_under_ebb(settings, "steps=26 pad=1", &s);
        print_message("%s: %.0f steps driven\n", settings, s.driven);
        assert_same(&without, &with, settings);
        assert_true(s.driven >= 12 && s.mismatches == 0);
        modes_of(trace, "rows_kernel", modes);
        assert_string_equal(modes, "21"); /* else it shows nothing */
    }
    remove(trace);
}

/* While the step is learned a factor is 0, and a launch replaces what it writes; later it adds to that. */
static void factor_that_was_zero_while_learning_ends_the_plan(void **state)
{
    (void)state;
    static const char *const runs[][2] = {{"SOFTGPU_MEMORY=56MiB ", "steps=40 blend=20"},
                                          {"SOFTGPU_MEMORY=56MiB ", "steps=40 blend=20 behind=5"},
                                          {"SOFTGPU_MEMORY=56MiB EBB_RECOMPUTE=0", "steps=40 blend=20"}};
    char settings[256], trace[80], modes[16];
    snprintf(trace, sizeof trace, "%s.trace", loop_stats);
    for (int i = 0; i < (test_is_long() ? 3 : 2); i++) {
        loop_statistics_t s;
        snprintf(settings, sizeof settings, "%s EBB_TRACE=%s", runs[i][0], trace);
        const program_run_t without = loop_run("", runs[i][1]),
                            with = loop_under_ebb(settings, runs[i][1], &s);
        print_message("%s: %.0f steps driven, left %.0f times\n", settings, s.driven, s.fallbacks);
        assert_same(&without, &with, settings);
        assert_non_null(strstr(with.log, "other arguments than ever"));
        assert_true(s.driven >= 28 && s.fallbacks <= 2 && s.mismatches == 0); /* once, and in the end */
        modes_of(trace, "blend_kernel", modes);
        assert_string_equal(modes, "21");
    }
    remove(trace);
}

/* The device may be larger than the budget. */
static void budget_below_the_device_is_kept_to(void **state)
{
    (void)state;
    loop_statistics_t s;
    program_run_t without = loop_run("", "steps=26");
    program_run_t with = loop_under_ebb("EBB_BUDGET=52MiB", "steps=26", &s);
    assert_same(&without, &with, "EBB_BUDGET");
    assert_true(s.driven >= 15 && s.peak <= 52 << 20 && s.driven_peak == s.predicted_peak);
}

/* 1 reads, 2 replaces, 3 updates. */
static void learned_step_says_who_writes_and_its_plan_is_proven(void **state)
{
    (void)state;
    static const char *const expected[][2] = {{"forward_kernel", "211"},   {"adjust_kernel", "11"},
                                              {"weight_gradient", "2111"}, {"input_gradient", "3111"},
                                              {"update_kernel", "313"},    {"probe_kernel", "31"},
                                              {"fill_kernel", "2"}};
    char settings[512], command[1024], modes[16], trace[80], plan[80];
    loop_statistics_t s;
    snprintf(trace, sizeof trace, "%s.trace", loop_stats);
    snprintf(plan, sizeof plan, "%s.plan", loop_stats);
    snprintf(settings, sizeof settings, TIGHT "EBB_OFFLOAD=0 EBB_TRACE=%s EBB_SAVE_PLAN=%s", trace, plan);
    assert_int_equal(loop_under_ebb(settings, "steps=12", &s).status, 0);
    for (size_t i = 0; i < sizeof expected / sizeof *expected; i++) {
        modes_of(trace, expected[i][0], modes);
        if (strcmp(modes, expected[i][1]))
            fail_msg("%s: modes %s instead of %s", expected[i][0], modes, expected[i][1]);
    }
    snprintf(command, sizeof command, "%s check %s %s --budget 52MiB >/dev/null", getenv("TEST_EBB"), trace,
             plan);
    assert_int_equal(system(command), 0);
    snprintf(command, sizeof command,
             "set -e; %1$s plan %2$s --policy revolve:3 --budget 100%% --gpu h100 --recorded-on a100 | grep "
             "-q 'smallest  *[1-9]'; "
             "%1$s plan %2$s --curve=%3$s --link 10G | grep -q '100%%'; grep -q '<polyline' %3$s; "
             "! %1$s plan %2$s --budget 1MiB 2>/dev/null",
             getenv("TEST_EBB"), trace, plan);
    assert_int_equal(system(command), 0);
    snprintf(command, sizeof command, "%s check %s %s --budget 20MiB >/dev/null 2>&1", getenv("TEST_EBB"),
             trace, plan);
    assert_int_not_equal(system(command), 0);
    remove(trace);
    remove(plan);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(learned_step_says_who_writes_and_its_plan_is_proven),
        cmocka_unit_test(program_that_keeps_to_its_step_is_driven),
        cmocka_unit_test(gradients_that_begin_as_zeros_are_added_to),
        cmocka_unit_test(padding_that_no_step_writes_stays),
        cmocka_unit_test(factor_that_was_zero_while_learning_ends_the_plan),
        cmocka_unit_test(probe_for_free_memory_leaves_no_plan),
        cmocka_unit_test(buffers_that_are_others_in_each_step_are_driven),
        cmocka_unit_test(every_policy_is_driven_to_the_same_bits),
        cmocka_unit_test(given_plan_is_driven_if_it_is_good),
        cmocka_unit_test(program_that_leaves_the_plan_comes_back),
        cmocka_unit_test(program_that_never_keeps_to_the_plan_rests_and_comes_back),
        cmocka_unit_test(step_that_begins_elsewhere_is_learned_again),
        cmocka_unit_test(program_that_leaves_the_plan_at_any_launch_loses_nothing),
        cmocka_unit_test(program_that_does_a_little_more_stays_with_the_plan),
        cmocka_unit_test(guard_finds_an_access_that_nobody_has_seen),
        cmocka_unit_test(copies_that_come_late_lead_to_a_new_plan),
        cmocka_unit_test(share_of_the_peak_holds_from_the_step_on),
        cmocka_unit_test(memory_that_is_taken_away_leads_to_a_new_plan),
        cmocka_unit_test(write_that_was_never_seen_is_noticed),
        cmocka_unit_test(late_write_is_noticed_in_its_step),
        cmocka_unit_test(leaving_with_unseen_writes_is_never_silently_wrong),
        cmocka_unit_test(launch_with_a_table_of_pointers_is_not_replayed),
        cmocka_unit_test(budget_below_the_device_is_kept_to),
    };
    if (getenv("TEST_ONLY"))
        cmocka_set_test_filter(getenv("TEST_ONLY"));
    return cmocka_run_group_tests(tests, loop_run_setup, loop_run_teardown);
}
