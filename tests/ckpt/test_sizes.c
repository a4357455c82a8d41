/* Steps of ever other sizes under libebb: some of programs/nasty, for longer. */
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

enum { MIB = 1 << 20 };

static char stats_path[64];

static void run(const char *settings, const char *program, unsigned steps, program_run_t *out)
{
    char command[1024];
    snprintf(command, sizeof command, "SOFTGPU_POISON=1 %s timeout 600 %s %s steps=%u", settings,
             getenv("TEST_NASTY_PROGRAM"), program, steps);
    program_run(command, out);
    if (out->status)
        fail_msg("%s: %s", command, out->log);
}

/* In so many MiB, with the same bits. */
static void run_within(unsigned mib, const char *settings, const char *program, unsigned steps,
                       program_run_t *with)
{
    static program_run_t without;
    char all[512];
    run("", program, steps, &without);
    snprintf(all, sizeof all,
             "LD_PRELOAD=%s EBB_STRICT=1 EBB_LINK=10G EBB_LOG=info EBB_PLAN_WAIT=600000 EBB_STATS=%s "
             "SOFTGPU_MEMORY=%uMiB %s",
             getenv("TEST_LIBEBB"), stats_path, mib, settings);
    run(all, program, steps, with);
    assert_string_equal(with->output, without.output);
}

static double statistic(const char *key)
{
    return program_statistic(stats_path, NULL, key);
}

static double of_the_variant(const char *key)
{
    return program_statistic(stats_path, "\"variants\"", key);
}

/* Nine in ten of those behind the first twenty are driven, in so little memory that most need it: else a plan is driven only while it is
 * cheap, and what copies get of a busy machine says whether it is. */
static void steps_of_any_length_are_driven(void **state)
{
    (void)state;
    static const struct {
        const char *program, *settings;
    } runs[] = {{"documents", ""},
                {"documents", "EBB_OFFLOAD=0"},
                {"lengths", "EBB_RECOMPUTE=0"},
                {"loader", ""},
                {"micro", ""},
                {"behind", ""},
                {"examined", ""}};
    enum { STEPS = 120, FIRST = 20, BUDGET = 40 };
    for (unsigned i = 0; i < sizeof runs / sizeof *runs; i++) {
        static program_run_t with;
        run_within(BUDGET, runs[i].settings, runs[i].program, STEPS, &with);
        print_message("%s %s: %.0f of %u steps driven\n", runs[i].program, runs[i].settings,
                      statistic("steps_driven"), STEPS);
        assert_true(10 * statistic("steps_driven") >= 9 * (STEPS - FIRST));
        assert_true(statistic("mismatches") == 0 && of_the_variant("any_size") == 1);
        if (!strcmp(runs[i].program, "examined")) /* the evaluations, too */
            assert_true(statistic("steps_driven") >= of_the_variant("driven") + 6);
    }
}

/* Up to when each is longer than the one before, a plan is made anew, but not for each. */
static void steps_that_grow_are_driven(void **state)
{
    (void)state;
    static program_run_t with;
    enum { STEPS = 90, LONGEST = 48 };
    run_within(50, "", "sorted", STEPS, &with);
    print_message("%.0f of %u steps driven, %.0f plans\n", statistic("steps_driven"), STEPS,
                  statistic("plans"));
    assert_non_null(strstr(with.log, "a step is larger than any before"));
    assert_true(3 * statistic("steps_driven") >= STEPS);
    unsigned largest = 0; /* plans, those for smaller steps left out */
    for (const char *at = with.log; (at = strstr(at, "plan: a step takes ")); at++)
        largest++;
    assert_true(largest <= LONGEST / 4 && statistic("plans") <= LONGEST);
}

/* They take no time from what fits; lists that are allocated before say nothing about the size; and where a second buffer's size has nothing to
 * do with the key's, that is found out in two steps. */
static void smaller_steps_have_plans_of_their_own(void **state)
{
    (void)state;
    static const char *programs[] = {"documents", "listed", "targets"};
    enum { STEPS = 120, FIRST = 20, FALLBACKS = 3 }; /* the last step is left in any case */
    for (unsigned i = 0; i < 3; i++) {
        static program_run_t with;
        run_within(70, "EBB_OFFLOAD=0", programs[i], STEPS, &with);
        print_message("%s: %.0f steps driven, %.0f plans for smaller steps, left %.0f times\n", programs[i],
                      statistic("steps_driven"), of_the_variant("size_plans"), of_the_variant("fallbacks"));
        assert_non_null(strstr(with.log, "a plan for steps of up to "));
        assert_null(strstr(with.log, "most steps fit without a plan"));
        assert_true(10 * statistic("steps_driven") >= 9 * (STEPS - FIRST));
        assert_true(of_the_variant("size_plans") >= 4 && of_the_variant("fallbacks") <= (i < 2 ? 1 : FALLBACKS));
        assert_true(of_the_variant("driven") == statistic("steps_driven"));
        assert_true(2 * of_the_variant("replays") < statistic("dropped") * statistic("steps_driven"));
        assert_true(statistic("mismatches") == 0);
    }
}

/* Arrays that lie behind others in one buffer are elsewhere in each step: a repeated launch goes where this step's has gone. A size class
 * whose key has room for more than its share has it for the others, too. */
static void what_lies_behind_is_recomputed_where_it_is(void **state)
{
    (void)state;
    static program_run_t with;
    run_within(60, "EBB_OFFLOAD=0 EBB_LINK=100M", "behind", 120,
               &with); /* no copy is cheaper than the plan */
    print_message("%.0f steps driven, %.0f launches repeated\n", statistic("steps_driven"),
                  of_the_variant("replays"));
    assert_true(of_the_variant("replays") > 400 && statistic("mismatches") == 0);
    assert_true(of_the_variant("size_plans") >= 8);
    assert_null(strstr(with.log, "a buffer that is larger than planned"));
}

/* An expert that no token has come to: its launches are missing, those that a plan repeats among them. */
static void experts_without_tokens_are_left_out(void **state)
{
    (void)state;
    static program_run_t with;
    enum { STEPS = 120, FIRST = 20 };
    run_within(60, "EBB_OFFLOAD=0 EBB_VERIFY=1", "routed", STEPS, &with);
    print_message("%.0f of %u steps driven, %.0f launches repeated\n", statistic("steps_driven"), STEPS,
                  of_the_variant("replays"));
    assert_true(10 * statistic("steps_driven") >= 9 * (STEPS - FIRST));
    assert_true(of_the_variant("replays") > 1000 && statistic("mismatches") == 0);
}

/* Those that are too large for any plan stay reactive, and `ebb top` says what they need. */
static void steps_without_a_plan_leave_others_theirs(void **state)
{
    (void)state;
    static program_run_t with;
    enum { STEPS = 120 };
    run_within(22, "EBB_RECOMPUTE=0", "documents", STEPS, &with);
    print_message("%.0f of %u steps driven; left %.0f times\n", statistic("steps_driven"), STEPS,
                  of_the_variant("fallbacks"));
    assert_non_null(strstr(with.log, "there is a plan only for steps of up to "));
    assert_non_null(strstr(with.log, "there is no plan within 22 MiB for the largest steps so far"));
    assert_true(3 * statistic("steps_driven") >= 2 * STEPS && of_the_variant("fallbacks") > 0);
    assert_true(program_statistic(stats_path, "\"devices\"", "wanted_bytes") ==
                of_the_variant("floor_bytes"));
    assert_true(of_the_variant("floor_bytes") > 22.0 * MIB);
    assert_true(program_statistic(stats_path, "\"devices\"", "wanted_double_bytes") >
                of_the_variant("floor_bytes"));
}

/* With guarded places there are none; then a plan would take its time from all of them. */
static void steps_that_fit_are_spared(void **state)
{
    (void)state;
    static program_run_t with;
    run_within(80, "EBB_RECOMPUTE=0 EBB_LINK=50M EBB_GUARD=1", "documents", 100, &with);
    assert_non_null(strstr(with.log, "most steps fit without a plan"));
    assert_null(strstr(with.log, "a plan for steps of up to "));
    assert_true(statistic("plans") >= 1 && 4 * statistic("steps_driven") < 100);
}

/* What was learned of one size, and driven, is learned again when others come. */
static void one_size_becomes_any(void **state)
{
    (void)state;
    static program_run_t with;
    run_within(40, "", "resized", 90, &with);
    assert_non_null(strstr(with.log, "steps are of ever other sizes"));
    assert_true(of_the_variant("any_size") == 1 && of_the_variant("driven") >= 30);
}

/* Before a step comes that has no plan, it is said how large that is, and what it would need. */
static void what_will_not_fit_is_said_ahead(void **state)
{
    (void)state;
    static program_run_t with;
    run_within(28, "EBB_RECOMPUTE=0", "documents", 60, &with);
    const char *said = strstr(with.log, "there is no plan within 28 MiB for steps more than ");
    double times = 0, needed = 0;
    assert_non_null(said);
    assert_int_equal(sscanf(said,
                            "there is no plan within 28 MiB for steps more than %lf times as large as the "
                            "largest so far; twice as large, they need %lf MiB",
                            &times, &needed),
                     2);
    print_message("%.2f times; twice as large: %.0f MiB\n", times, needed);
    assert_true(times >= 1 && times < 2 && needed > 28);
    assert_true(of_the_variant("floor_bytes") <= 28.0 * MIB);
    assert_true(of_the_variant("double_floor_bytes") == needed * MIB);
}

static int clean_up(void **state)
{
    (void)state;
    remove(stats_path);
    return 0;
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(steps_of_any_length_are_driven),
        cmocka_unit_test(smaller_steps_have_plans_of_their_own),
        cmocka_unit_test(what_lies_behind_is_recomputed_where_it_is),
        cmocka_unit_test(experts_without_tokens_are_left_out),
        cmocka_unit_test(steps_that_grow_are_driven),
        cmocka_unit_test(steps_without_a_plan_leave_others_theirs),
        cmocka_unit_test(steps_that_fit_are_spared),
        cmocka_unit_test(one_size_becomes_any),
        cmocka_unit_test(what_will_not_fit_is_said_ahead),
    };
    snprintf(stats_path, sizeof stats_path, "/tmp/ebb-sizes-stats-%d", (int)getpid());
    return cmocka_run_group_tests(tests, NULL, clean_up);
}
