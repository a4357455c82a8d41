/* A broken invariant ends planning, not the program: the loop in programs/loop.c, under a libebb in which one breaks (break.c). The same
 * libebb shows that no plan's installation pins.
 * TEST_ONLY=PATTERN: some of the tests; TEST_LONG=1: at more operations. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "loop_run.h"

static const char line[] = "a condition of ebb's own does not hold (hare < tortoise, ";

static void assert_said_once(const program_run_t *run)
{
    const char *first = strstr(run->log, line);
    assert_non_null(first);
    assert_null(strstr(first + 1, line));
}

/* Broken behind an operation of a driven step: that step is the last one of which any operation is driven. It is a whole one if
 * that was its last. */
static void break_in_step(const char *settings, const char *arguments, int step, int operation)
{
    char all[512];
    loop_statistics_t s;
    snprintf(all, sizeof all, "%s TEST_BREAK=drive:%d:%d", settings, step, operation);
    program_run_t without = loop_run("", arguments);
    program_run_t with = loop_under_ebb(all, arguments, &s);
    print_message("%s %s: %.0f steps driven, %.0f contents rebuilt, then %.0f evictions\n", all, arguments,
                  s.driven, s.rebuilt, loop_statistic("evictions"));
    assert_same(&without, &with, all);
    assert_said_once(&with);
    const bool whole = operation == loop_statistic("step_operations") - 1;
    assert_true(s.driven == step + whole && s.fallbacks == 1 && s.mismatches == 0);
}

/* The budget is too small for everything: what is touched still takes the place of others. */
static void break_in_a_driven_step_ends_driving_and_keeps_the_bits(void **state)
{
    (void)state;
    static const char *const means[] = {TIGHT, TIGHT "EBB_RECOMPUTE=0", TIGHT "EBB_OFFLOAD=0 EBB_VERIFY=1"};
    break_in_step(TIGHT, "steps=24", 0, 0);
    const int operations = (int)loop_statistic("step_operations");
    for (int i = 1; i <= 7; i += test_is_long() ? 1 : 2)
        break_in_step(means[i % 3], "steps=24", 2, i * (operations - 1) / 7);
    for (int i = 0; i < (test_is_long() ? 3 : 1); i++)
        break_in_step(means[i], "steps=24", i, 18);
}

static void break_on_a_thread_without_the_lock_ends_driving(void **state)
{
    (void)state;
    break_in_step(TIGHT "TEST_BREAK_THREAD=1", "steps=24", 1, 20);
}

/* A plan that was made for less memory moves buffers although there is room; then they come back one by one, and stay. */
static void break_with_room_for_everything_keeps_it_on_the_device(void **state)
{
    (void)state;
    static const char *const keys[] = {"bytes_out", "bytes_in", "evictions", "fetches", "reactive_drops"};
    double moved[2][5];
    char settings[192], plan[80];
    loop_statistics_t s;
    snprintf(plan, sizeof plan, "%s.plan", loop_stats);
    snprintf(settings, sizeof settings, TIGHT "EBB_RECOMPUTE=0 EBB_SAVE_PLAN=%s", plan);
    assert_int_equal(loop_under_ebb(settings, "steps=16", &s).status, 0);
    snprintf(settings, sizeof settings, "SOFTGPU_MEMORY=256MiB EBB_PLAN=%s", plan);
    for (int i = 0; i < 2; i++) {
        break_in_step(settings, i ? "steps=30" : "steps=22", 2, 18);
        for (int k = 0; k < 5; k++)
            moved[i][k] = loop_statistic(keys[k]);
    }
    for (int k = 0; k < 5; k++) {
        print_message("%s: %.0f, eight steps later %.0f\n", keys[k], moved[0][k], moved[1][k]);
        assert_true(moved[0][k] == moved[1][k]);
    }
    assert_true(moved[0][0] > 0 && moved[0][1] > 0);
    remove(plan);
}

static void break_while_a_step_is_learned_ends_learning(void **state)
{
    (void)state;
    loop_statistics_t s;
    program_run_t without = loop_run("", "steps=24");
    program_run_t with = loop_under_ebb(TIGHT "TEST_BREAK=learn:50", "steps=24", &s);
    assert_same(&without, &with, "learn:50");
    assert_said_once(&with);
    assert_true(s.driven == 0 && loop_statistic("plans") == 0 && loop_statistic("evictions") > 0);
}

/* The first plan, and the first two, do not pass: that is said, no such plan is driven, and another is as soon as there is one. */
static void plan_that_does_not_pass_its_check_is_said_and_not_driven(void **state)
{
    (void)state;
    loop_statistics_t s;
    static const char refusal[] =
        "a plan of ebb's own did not pass its check: content: TEST_BREAK; please report this";
    char settings[96];
    program_run_t without = loop_run("", "steps=24");
    for (unsigned refused = 1; refused <= 2; refused++) {
        snprintf(settings, sizeof settings, TIGHT "TEST_BREAK=check:%u", refused);
        program_run_t with = loop_under_ebb(settings, "steps=24", &s);
        print_message("%s: %.0f steps driven\n", settings, s.driven);
        assert_same(&without, &with, settings);
        unsigned said = 0;
        for (const char *at = with.log; (at = strstr(at, refusal)); at++)
            said++;
        assert_int_equal(said, refused);
        assert_true(s.driven > 0);
    }
}

/* What a plan needs is pinned without the lock and before it is installed, also where the host budget allows no more than that, and
 * where the system pins less: then it is not installed. */
static void installing_a_plan_pins_nothing(void **state)
{
    (void)state;
    static const struct {
        const char *settings;
        bool driven;
    } cases[] = {{"", true}, {"EBB_HOST_BUDGET=54MiB", true}, {"SOFTGPU_LIMITS=pinned:30MiB", false}};
    char settings[192], plan[80];
    loop_statistics_t s;
    snprintf(plan, sizeof plan, "%s.plan", loop_stats);
    snprintf(settings, sizeof settings, TIGHT "EBB_RECOMPUTE=0 EBB_SAVE_PLAN=%s", plan);
    assert_int_equal(loop_under_ebb(settings, "steps=16", &s).status, 0);
    program_run_t without = loop_run("", "steps=26");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        snprintf(settings, sizeof settings, "SOFTGPU_MEMORY=256MiB EBB_PLAN=%s %s", plan, cases[i].settings);
        program_run_t with = loop_under_ebb(settings, "steps=26", &s);
        print_message("%s: %.0f steps driven\n", cases[i].settings, s.driven);
        assert_same(&without, &with, settings);
        const char *said = strstr(with.log, "could not be installed yet");
        assert_non_null(said);
        for (; said;
             said = strstr(said + 1, "could not be installed")) /* the reason is that installation's */
            assert_true(strstr(said, ": pinned host memory for a plan") < strchr(said, '\n'));
        assert_null(strstr(with.log, "installing a plan pins"));
        assert_true(cases[i].driven ? s.driven >= 10 : s.driven == 0);
    }
    remove(plan);
}

/* The same library without a broken invariant is the product. */
static void whole_library_is_driven(void **state)
{
    (void)state;
    loop_statistics_t s;
    program_run_t without = loop_run("", "steps=24");
    program_run_t with = loop_under_ebb(TIGHT, "steps=24", &s);
    assert_same(&without, &with, "whole");
    assert_null(strstr(with.log, "does not hold"));
    assert_true(s.driven >= 10);
}

/* Copies that come late ask for another plan: where there is none, the one that is driven stays. */
static void plan_stays_while_there_is_no_better_one(void **state)
{
    static const char *const settings =
        TIGHT "SOFTGPU_PROFILE=H100 EBB_RECOMPUTE=0 EBB_LINK=100GB TEST_PLANS=1";
    loop_statistics_t s;
    (void)state;
    program_run_t without = loop_run("", "steps=40");
    program_run_t with = loop_under_ebb(settings, "steps=40", &s);
    assert_same(&without, &with, settings);
    assert_non_null(strstr(with.log, "copies come late, and there is no other plan"));
    assert_true(loop_statistic("replans") == 0 && s.driven >= 20 && s.fallbacks <= 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whole_library_is_driven),
        cmocka_unit_test(break_in_a_driven_step_ends_driving_and_keeps_the_bits),
        cmocka_unit_test(break_on_a_thread_without_the_lock_ends_driving),
        cmocka_unit_test(break_with_room_for_everything_keeps_it_on_the_device),
        cmocka_unit_test(break_while_a_step_is_learned_ends_learning),
        cmocka_unit_test(plan_that_does_not_pass_its_check_is_said_and_not_driven),
        cmocka_unit_test(installing_a_plan_pins_nothing),
        cmocka_unit_test(plan_stays_while_there_is_no_better_one),
    };
    if (getenv("TEST_ONLY"))
        cmocka_set_test_filter(getenv("TEST_ONLY"));
    return cmocka_run_group_tests(tests, loop_run_setup, loop_run_teardown);
}
